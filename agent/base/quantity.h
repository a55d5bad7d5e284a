/* Whole numbers with a unit, as people write them: "10s", "10k". */
#pragma once

#include <stdint.h>

struct quantity_unit {
    const char *name; /* NULL: the end of a list of units */
    int64_t factor;
};

extern const struct quantity_unit quantity_plain[];  /* no unit */
extern const struct quantity_unit quantity_counts[]; /* none, k, M */
extern const struct quantity_unit quantity_times[];  /* d to us; the factors are in microseconds */

/* The number times the factor of one of the units. INT64_MAX: larger than that; -1: no such quantity. */
int64_t quantity_read(const char *text, const struct quantity_unit *units);

enum { QUANTITY_BYTES_MAX = 32 };

/* A time in its shortest form, such as "1m". Returns the buffer. */
const char *quantity_show_ms(int64_t ms, char buffer[static QUANTITY_BYTES_MAX]);
