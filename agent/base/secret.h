/* Secrets: lock values, resume tokens, passwords. They are compared and dropped with these functions only
 * (tests/check/lint.py), so that neither the time of a comparison nor freed memory reveals them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Zeroes memory that is not read again, which compilers skip otherwise. NULL with 0 bytes is fine. */
static inline void secret_clear(void *secret, size_t length) {
    if (length > 0)
        explicit_bzero(secret, length);
}

/* Whether two secrets of the same length are equal, in a time that depends on the length alone. */
static inline bool secret_equal(const void *one, const void *other, size_t length) {
    const volatile uint8_t *a = one, *b = other;
    uint8_t difference = 0;

    for (size_t i = 0; i < length; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* The same for strings; their lengths are no secret. NULL equals NULL. */
static inline bool secret_equal_text(const char *one, const char *other) {
    size_t length = one ? strlen(one) : 0;

    if (!one || !other)
        return one == other;
    return length == strlen(other) && secret_equal(one, other, length);
}
