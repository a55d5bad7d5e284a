#include "local/argument.h"

#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "core/limits.h"
#include "resp.h"

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c;
}

bool argument_is(const struct resp_token *token, const char *word) {
    for (size_t i = 0; i < token->length; i++)
        if (word[i] == '\0' || upper(token->text[i]) != word[i])
            return false;
    return word[token->length] == '\0';
}

bool argument_integer(const struct resp_token *token, int64_t low, int64_t high, int64_t *ret) {
    int64_t value;

    if (token->length == 0 || token->length > 19 || token->text[0] == '+' ||
        !resp_integer(token->text, token->length, &value) || value < low || value > high)
        return false;
    *ret = value;
    return true;
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
        bytes = 1;
        if (*at >= 0x20 && *at < 0x7f)
            continue; /* most names are ASCII */
        bytes = utf8_decode((const char *) at, length, &code);
        if (bytes == 0)
            return "a name is valid UTF-8";
        if (code < 0x20 || (code >= 0x7f && code <= 0x9f))
            return "a name has no control characters";
    }
    return NULL;
}
