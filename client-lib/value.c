#include "value.h"

#include <string.h>

bool value_is(const struct resp_token *token, const char *text) {
    return token->text && token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

const struct resp_token *value_get(const struct resp_token *tokens, size_t n_tokens, const char *key) {
    if (tokens[0].type != RESP_MAP)
        return NULL;
    for (size_t i = 1; i + 1 < n_tokens; i += 2)
        if (tokens[i].type == RESP_BULK && value_is(&tokens[i], key))
            return &tokens[i + 1];
    return NULL;
}

uint64_t value_integer(const struct resp_token *token) {
    return token && token->type == RESP_INTEGER && token->integer > 0 ? (uint64_t) token->integer : 0;
}

void value_copy(const struct resp_token *token, char *ret, size_t size, size_t *ret_length) {
    size_t length = token && token->type == RESP_BULK ? token->length : 0;

    if (length >= size)
        length = size - 1;
    if (token && length > 0)
        memcpy(ret, token->text, length);
    ret[length] = '\0';
    if (ret_length)
        *ret_length = length;
}
