#include "base/bytes.h"

#include <assert.h>
#include <stdint.h>

#include "base/hex.h"

enum { ESCAPED_BYTES = 4 };

size_t bytes_escape(const void *bytes, size_t length, char *buffer, size_t size) {
    const uint8_t *byte = bytes;
    size_t used = 0;

    assert(size > 0);
    for (size_t i = 0; i < length && size - used > ESCAPED_BYTES; i++) {
        if (byte[i] > ' ' && byte[i] < 0x7f && byte[i] != '\\') {
            buffer[used++] = (char) byte[i];
            continue;
        }
        buffer[used++] = '\\';
        buffer[used++] = 'x';
        hex_write(&byte[i], 1, buffer + used);
        used += 2;
    }
    buffer[used] = '\0';
    return used;
}
