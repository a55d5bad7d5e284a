/* What the parts of the benchmark share. */
#pragma once

#include <stddef.h>

enum { ROUNDS_MAX = 99 };

_Noreturn void fail(const char *what, const char *why);
double now_us(void);

/* Sorts them. */
double percentile(double *samples, size_t count, double p);

/* Hand-offs between processes of this host that contend for one name: handoff.c. */
void run_handoff(const char *socket_path, unsigned rounds);
