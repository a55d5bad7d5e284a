#include "printable.h"

#include <string.h>

#include "utf8.h"

enum { TEXTS = 8 };

size_t printable_decode(const char *text, size_t length, uint32_t *ret) {
    const unsigned char *byte = (const unsigned char *) text;
    size_t bytes = utf8_sequence(text, length);
    uint32_t character = bytes == 1 ? byte[0] : byte[0] & (0x7fu >> bytes);

    if (bytes == 1 && byte[0] >= 0x80)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        character = character << 6 | (byte[i] & 0x3f);
    *ret = character;
    return bytes;
}

bool printable_is(uint32_t character) {
    if (character < ' ' || (character >= 0x7f && character < 0xa0))
        return false;
    return !(character == 0x061c || character == 0x200e || character == 0x200f ||
             (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069) ||
             character == 0xfeff);
}

void printable_clean(char *text, size_t length) {
    size_t used = 0;

    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = printable_decode(text + at, length - at, &character);
        if (bytes == 0 || !printable_is(character)) {
            text[used++] = '?';
            bytes += bytes == 0;
        } else {
            memmove(text + used, text + at, bytes);
            used += bytes;
        }
        at += bytes;
    }
    text[used] = '\0';
}

const char *printable_text(const char *text, size_t length) {
    static char texts[TEXTS][PRINTABLE_BYTES_MAX + 1];
    static unsigned last;
    char *copy = texts[last = (last + 1) % TEXTS];

    if (length > PRINTABLE_BYTES_MAX)
        length = PRINTABLE_BYTES_MAX;
    if (length > 0)
        memcpy(copy, text, length);
    printable_clean(copy, length);
    return copy;
}
