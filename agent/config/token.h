/* Words, strings and signs of a configuration file, by libconfuse's rules where it is safe to follow them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/diagnostics.h"

enum { TOKEN_BYTES_MAX = 1024 };

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,   /* without quotes */
    TOKEN_STRING, /* in quotes */
    TOKEN_EQUALS,
    TOKEN_APPEND, /* += */
    TOKEN_OPEN,   /* { */
    TOKEN_CLOSE,  /* } */
    TOKEN_OTHER,  /* any other sign: in text */
};

struct token {
    enum token_kind kind;
    unsigned line;
    bool bad; /* a word or string with a mistake that has been noted: its text is of no use */
    size_t length;
    char text[TOKEN_BYTES_MAX + 1];
};

struct tokenizer {
    const char *at;
    const char *end;
    unsigned line;
    struct mistakes *mistakes;
};

void tokenizer_init(struct tokenizer *tokenizer, const char *text, size_t length, struct mistakes *mistakes);

/* Gives the next token, TOKEN_END again and again at the end. */
void tokenizer_next(struct tokenizer *tokenizer, struct token *ret);

/* Whether it may stand for a value. */
static inline bool token_is_text(const struct token *token) {
    return token->kind == TOKEN_WORD || token->kind == TOKEN_STRING;
}
