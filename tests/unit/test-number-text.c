/* Numbers as text, decimal and hexadecimal: the same as by printf(3). */

#include <inttypes.h>

#include "base/decimal.h"
#include "base/hex.h"
#include "tap.h"

static void check(int64_t number) {
    char text[DECIMAL_BYTES_MAX + 1] = {0}, expected[DECIMAL_BYTES_MAX + 1];

    size_t length = decimal_write(number, text);
    (void) snprintf(expected, sizeof(expected), "%" PRId64, number);
    ok(length == strlen(expected) && strcmp(text, expected) == 0, "%s", expected);
}

static void check_hex(uint64_t number) {
    char text[HEX_NUMBER_DIGITS_MAX + 1] = {0}, expected[HEX_NUMBER_DIGITS_MAX + 1];

    size_t length = hex_write_number(number, text);
    (void) snprintf(expected, sizeof(expected), "%" PRIx64, number);
    ok(length == strlen(expected) && strcmp(text, expected) == 0, "0x%s", expected);
}

int main(void) {
    static const int64_t numbers[] = {0,   1,    9,    10,   99,         100,       101,       -1,
                                      -10, -100, 1000, 2026, 2147483647, INT64_MAX, INT64_MIN, -INT64_MAX};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        check(numbers[i]);
        check_hex((uint64_t) numbers[i]);
    }
    for (unsigned digits = 1; digits < 16; digits++) {
        check_hex((UINT64_C(1) << 4 * digits) - 1);
        check_hex(UINT64_C(1) << 4 * digits);
    }
    return done_testing();
}
