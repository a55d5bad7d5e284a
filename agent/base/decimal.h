/* Decimal numbers, for the hot path: printf(3) takes more than twice as long. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_BYTES_MAX = 20 }; /* of a number: 19 digits and a sign */

/* Writes a number, without a terminating zero. Returns its length. */
size_t decimal_write(int64_t number, char ret[DECIMAL_BYTES_MAX]);
