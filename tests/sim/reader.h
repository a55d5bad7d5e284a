/* A session that asks for what the agents know, as LEASES and LEADER show it, and compares. */
#pragma once

#include "sim.h"

void reader_reset(void);
void reader_step(void);

/* Returns the length of the first whole answer or push; 0: there is none. */
size_t reader_reads(const char *bytes, size_t length);
