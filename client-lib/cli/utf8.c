#include "utf8.h"

size_t utf8_sequence(const char *text, size_t length) {
    const unsigned char *s = (const unsigned char *) text;
    size_t bytes = s[0] >= 0xf0 && s[0] < 0xf5   ? 4
                   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                                 : 1;

    if (bytes > length)
        return 1;
    /* Overlong sequences, surrogates, and numbers beyond U+10FFFF. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] >= 0x90))
        return 1;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 1;
    return bytes;
}
