#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t utf8_decode(const char *text, size_t length, uint32_t *ret) {
    const unsigned char *s = (const unsigned char *) text;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = s[0] < 0x80             ? 1
                   : (s[0] & 0xe0) == 0xc0 ? 2
                   : (s[0] & 0xf0) == 0xe0 ? 3
                   : (s[0] & 0xf8) == 0xf0 ? 4
                                           : 0;
    uint32_t code = s[0];

    if (bytes == 0 || bytes > length)
        return 0;
    if (bytes > 1)
        code &= 0x7fu >> bytes;
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < smallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret = code;
    return bytes;
}

static bool is_printable(uint32_t character) {
    if (character < 0x20 || (character >= 0x7f && character < 0xa0))
        return false; /* control characters, those of eight bits too */
    return !(character == 0x061c || character == 0x200e || character == 0x200f ||
             (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069) ||
             character == 0xfeff);
}

size_t utf8_make_printable(char *text, size_t length) {
    size_t out = 0;

    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = utf8_decode(text + at, length - at, &character);
        if (bytes > 0 && is_printable(character)) {
            memmove(text + out, text + at, bytes);
            out += bytes;
        } else {
            text[out++] = '?';
        }
        at += bytes > 0 ? bytes : 1;
    }
    text[out] = '\0';
    return out;
}
