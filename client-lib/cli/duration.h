/* Durations for people. */
#pragma once

#include <stdint.h>

enum { DURATION_BYTES = 24 };

/* "250 ms", "12.3 s", "4 min", "3 h", "2 d" */
const char *duration_text(int64_t ms, char buffer[DURATION_BYTES]);

/* As an option has it: "250ms", "90s", "2m", "1h", "24d" */
const char *duration_option(int64_t ms, char buffer[DURATION_BYTES]);

/* Microseconds as ms: "0.24", "12", "1300"; "-" when unknown. */
const char *duration_milliseconds(int64_t us, char buffer[DURATION_BYTES]);
