#include "json.h"

#include <stdint.h>

#include "printable.h"
#include "resp.h"

void json_string(FILE *out, const char *text, size_t length) {
    const char *end = text + length;

    (void) fputc('"', out);
    for (size_t bytes; text < end; text += bytes) {
        uint32_t character = (unsigned char) *text;
        bytes = printable_decode(text, (size_t) (end - text), &character);
        if (bytes == 0 || !printable_is(character))
            (void) fprintf(out, "\\u%04x", character);
        else if (character == '"' || character == '\\')
            (void) fprintf(out, "\\%c", (char) character);
        else
            (void) fwrite(text, 1, bytes, out);
        bytes += bytes == 0;
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
