#include "json.h"

#include <stdint.h>

#include "resp.h"

/* The length of the well-formed sequence at the front; 1 for a lone byte. */
static size_t sequence(const unsigned char *s, size_t length) {
    size_t bytes = s[0] >= 0xf0 && s[0] < 0xf5   ? 4
                   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                                 : 1;

    if (bytes > length)
        return 1;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 1;
    return bytes;
}

void json_string(FILE *out, const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *) text, *end = at + length;

    (void) fputc('"', out);
    for (size_t bytes; at < end; at += bytes) {
        bytes = sequence(at, (size_t) (end - at));
        if (bytes == 1 && (*at < ' ' || *at >= 0x7f))
            (void) fprintf(out, "\\u%04x", *at);
        else if (*at == '"' || *at == '\\')
            (void) fprintf(out, "\\%c", *at);
        else
            (void) fwrite(at, 1, bytes, out);
    }
    (void) fputc('"', out);
}

size_t json_value(FILE *out, const struct resp_token *tokens) {
    size_t used = 1;

    switch (tokens[0].type) {
    case RESP_INTEGER:
        (void) fprintf(out, "%lld", (long long) tokens[0].integer);
        break;
    case RESP_BOOL:
        (void) fputs(tokens[0].integer ? "true" : "false", out);
        break;
    case RESP_NIL:
        (void) fputs("null", out);
        break;
    case RESP_STRING:
    case RESP_ERROR:
    case RESP_BULK:
    case RESP_DOUBLE:
        json_string(out, tokens[0].text, tokens[0].length);
        break;
    case RESP_ARRAY:
    case RESP_PUSH:
        (void) fputc('[', out);
        for (uint32_t i = 0; i < tokens[0].count; i++) {
            if (i > 0)
                (void) fputc(',', out);
            used += json_value(out, tokens + used);
        }
        (void) fputc(']', out);
        break;
    case RESP_MAP:
        (void) fputc('{', out);
        for (uint32_t i = 0; i < tokens[0].count; i++) {
            if (i > 0)
                (void) fputc(',', out);
            used += json_value(out, tokens + used);
            (void) fputc(':', out);
            used += json_value(out, tokens + used);
        }
        (void) fputc('}', out);
        break;
    }
    return used;
}
