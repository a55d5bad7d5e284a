#include "base/utf8.h"

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
