#include "local/argument.h"

#include <string.h>

#include "base/bytes.h"
#include "core/limits.h"
#include "resp.h"

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c;
}

bool argument_is(const struct resp_token *token, const char *word) {
    if (strlen(word) != token->length)
        return false;
    for (size_t i = 0; i < token->length; i++)
        if (upper(token->text[i]) != word[i])
            return false;
    return true;
}

bool argument_integer(const struct resp_token *token, int64_t low, int64_t high, int64_t *ret) {
    bool negative = token->length > 0 && token->text[0] == '-';
    int64_t value = 0;

    if (token->length == (size_t) negative || token->length > 19)
        return false;
    for (size_t i = negative; i < token->length; i++) {
        char c = token->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, c - '0', &value))
            return false;
    }
    /* The sum is negative: INT64_MIN has no positive counterpart. */
    if (!negative && __builtin_sub_overflow(0, value, &value))
        return false;
    if (value < low || value > high)
        return false;
    *ret = value;
    return true;
}

/* The length of the well-formed UTF-8 sequence at the start (RFC 3629, section 4), or 0. Its code point is
 * in *ret. */
static size_t utf8_sequence(const unsigned char *s, size_t length, uint32_t *ret) {
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

/* The agent keeps keys of its own beside the leases: agent/scripts/probe.lua. */
#define RESERVED "redlockd:"

const char *argument_name_fault(const char *name, size_t length) {
    const unsigned char *at = (const unsigned char *) name;
    size_t bytes;
    uint32_t code;

    if (length == 0)
        return "a name has at least one byte";
    if (length > NAME_BYTES_MAX)
        return "a name has at most 512 bytes";
    if (bytes_begin_with(name, length, RESERVED, strlen(RESERVED)))
        return "names that begin with '" RESERVED "' are the agent's own";
    for (; length > 0; at += bytes, length -= bytes) {
        bytes = utf8_sequence(at, length, &code);
        if (bytes == 0)
            return "a name is valid UTF-8";
        if (code < 0x20 || (code >= 0x7f && code <= 0x9f))
            return "a name has no control characters";
    }
    return NULL;
}
