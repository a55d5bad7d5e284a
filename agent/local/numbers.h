/* The agent's numbers without labels. Each is declared once, for STATUS, INFO and METRICS. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

struct front_state;

enum numbers_kind { NUMBER_GAUGE, NUMBER_COUNTER };

struct numbers_row {
    const char *name; /* in STATUS and INFO; NULL: not there */
    int64_t value;
    const char *metric; /* in METRICS; NULL: not there, or with labels (metrics.c) */
    enum numbers_kind kind;
    const char *unit; /* the end of the metric's name, or NULL */
    int64_t divisor;  /* from the value to the unit: 1, 100 or 1,000 */
    const char *help;
};

enum { NUMBERS_MAX = 32 };

/* Returns how many there are. The keepers' numbers are those of the last survey. */
size_t numbers_read(struct front_state *front, instant_ns now_ns, struct numbers_row ret[NUMBERS_MAX]);
