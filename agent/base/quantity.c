#include "base/quantity.h"

#include <stdio.h>
#include <string.h>

const struct quantity_unit quantity_plain[] = {{"", 1}, {0}};
const struct quantity_unit quantity_counts[] = {{"", 1}, {"k", 1000}, {"M", 1000000}, {0}};
const struct quantity_unit quantity_times[] = {
    {"d", 86400000000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}, {0}};

int64_t quantity_read(const char *text, const struct quantity_unit *units) {
    size_t digits = 0;
    int64_t value = 0;

    while (text[digits] >= '0' && text[digits] <= '9')
        digits++;
    while (units->name && strcmp(text + digits, units->name) != 0)
        units++;
    if (digits == 0 || !units->name)
        return -1;
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value))
            return INT64_MAX;
    return __builtin_mul_overflow(value, units->factor, &value) ? INT64_MAX : value;
}

const char *quantity_show_ms(int64_t ms, char buffer[static QUANTITY_BYTES_MAX]) {
    const struct quantity_unit *unit = quantity_times;

    while (ms * 1000 % unit->factor != 0)
        unit++;
    (void) snprintf(buffer, QUANTITY_BYTES_MAX, "%lld%s", (long long) (ms * 1000 / unit->factor),
                    unit->name);
    return buffer;
}
