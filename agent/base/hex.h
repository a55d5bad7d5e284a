/* Lower-case hexadecimal digits, two for each byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEX_NUMBER_DIGITS_MAX = 16 };

/* Writes 2 × count digits, without a terminating zero. */
static inline void hex_write(const void *bytes, size_t count, char *ret) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < count; i++) {
        ret[2 * i] = digits[byte[i] >> 4];
        ret[2 * i + 1] = digits[byte[i] & 15];
    }
}

/* Writes the digits of a number, without leading zeros and a terminating zero. Returns how many. */
static inline size_t hex_write_number(uint64_t number, char ret[HEX_NUMBER_DIGITS_MAX]) {
    static const char digits[] = "0123456789abcdef";
    size_t length = 1;

    while (length < HEX_NUMBER_DIGITS_MAX && number >> 4 * length != 0)
        length++;
    for (size_t i = 0; i < length; i++)
        ret[i] = digits[number >> 4 * (length - 1 - i) & 15];
    return length;
}

/* The value of one digit; -1 for any other character, upper case included. */
static inline int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads 2 × count digits. False, and nothing is written, if another character is among them. */
static inline bool hex_read(const char *digits, size_t count, void *ret) {
    uint8_t *byte = ret;

    for (size_t i = 0; i < 2 * count; i++)
        if (hex_digit(digits[i]) < 0)
            return false;
    for (size_t i = 0; i < count; i++)
        byte[i] = (uint8_t) (hex_digit(digits[2 * i]) * 16 + hex_digit(digits[2 * i + 1]));
    return true;
}
