#include "base/decimal.h"

size_t decimal_write(int64_t number, char ret[DECIMAL_BYTES_MAX]) {
    uint64_t rest = number < 0 ? 0 - (uint64_t) number : (uint64_t) number;
    char backwards[DECIMAL_BYTES_MAX];
    size_t length = 0;

    do {
        backwards[length++] = (char) ('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        backwards[length++] = '-';
    for (size_t i = 0; i < length; i++)
        ret[i] = backwards[length - 1 - i];
    return length;
}
