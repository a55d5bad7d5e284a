/* The tokenizer. Stricter than libconfuse where libconfuse guesses: a string ends on its line, escapes are
 * the few that mean something, nothing is taken from the environment, stray characters are mistakes. */
#include "config/token.h"

#include <string.h>

void tokenizer_init(struct tokenizer *tokenizer, const char *text, size_t length,
                    struct mistakes *mistakes) {
    *tokenizer = (struct tokenizer){.at = text, .end = text + length, .line = 1, .mistakes = mistakes};
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        tokenizer->at += 3; /* the byte order mark that some editors write */
}

/* The byte `ahead` of the next one, or -1 beyond the end. */
static int peek(const struct tokenizer *t, size_t ahead) {
    return (size_t) (t->end - t->at) > ahead ? (unsigned char) t->at[ahead] : -1;
}

static void skip_line(struct tokenizer *t) {
    while (t->at < t->end && *t->at != '\n')
        t->at++;
}

static void skip_comment(struct tokenizer *t) {
    unsigned line = t->line;

    for (t->at += 2; t->at < t->end; t->at++) {
        if (*t->at == '\n')
            t->line++;
        if (*t->at == '*' && peek(t, 1) == '/') {
            t->at += 2;
            return;
        }
    }
    mistake_add(t->mistakes, line, "the comment that begins here does not end: expected '*/'");
}

static void skip_blanks(struct tokenizer *t) {
    for (;;) {
        int c = peek(t, 0);

        if (c == '\n')
            t->line++;
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            t->at++;
        else if (c == '#' || (c == '/' && peek(t, 1) == '/'))
            skip_line(t);
        else if (c == '/' && peek(t, 1) == '*')
            skip_comment(t);
        else
            return;
    }
}

static void put(struct tokenizer *t, struct token *token, int c) {
    if (token->length == TOKEN_BYTES_MAX) {
        if (!token->bad)
            mistake_add(t->mistakes, token->line, "longer than %d bytes: expected a shorter value",
                        TOKEN_BYTES_MAX);
        token->bad = true;
        return;
    }
    token->text[token->length++] = (char) c;
    token->text[token->length] = 0;
}

static bool is_control(int c) {
    return c < ' ' || c == 0x7f;
}

static int hex_digit(int c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* After a backslash within double quotes: gives the byte that is meant and passes over the escape, or notes
 * the mistake. */
static void take_escape(struct tokenizer *t, struct token *token) {
    int c = peek(t, 0);

    if (c == '\\' || c == '"' || c == '\'' || c == '$') {
        put(t, token, c);
        t->at++;
        return;
    }
    if (c == 'x' && hex_digit(peek(t, 1)) >= 0 && hex_digit(peek(t, 2)) >= 0) {
        int byte = hex_digit(peek(t, 1)) * 16 + hex_digit(peek(t, 2));

        t->at += 3;
        if (!is_control(byte)) {
            put(t, token, byte);
            return;
        }
        mistake_add(t->mistakes, t->line, "'\\x%02x' in a string: control characters are not allowed",
                    (unsigned) byte);
    } else {
        mistake_add(
            t->mistakes, t->line,
            "a backslash before what is no escape: expected \\\\ for a backslash, or \\\", \\', \\$, \\xHH");
    }
    token->bad = true;
}

static void take_string(struct tokenizer *t, struct token *token) {
    int quote = peek(t, 0);

    token->kind = TOKEN_STRING;
    for (t->at++;;) {
        int c = peek(t, 0);

        if (c < 0 || c == '\n') {
            mistake_add(t->mistakes, token->line,
                        "the string that begins on this line is not closed: expected %c at its end", quote);
            token->bad = true;
            return;
        }
        t->at++;
        if (c == quote)
            return;
        if (c == '\\' && quote == '"') {
            take_escape(t, token);
        } else if (c == '\\' && (peek(t, 0) == '\\' || peek(t, 0) == '\'')) {
            put(t, token, peek(t, 0));
            t->at++;
        } else if (is_control(c) && !(c == '\r' && peek(t, 0) == '\n')) {
            if (!token->bad)
                mistake_add(t->mistakes, token->line,
                            "byte 0x%02x in a string: control characters are not allowed", (unsigned) c);
            token->bad = true;
        } else {
            put(t, token, c);
        }
    }
}

static bool is_word(const struct tokenizer *t) {
    int c = peek(t, 0);

    if (c < 0 || is_control(c) || strchr(" #\"'={}()+,*", c))
        return false;
    return c != '/' || (peek(t, 1) != '/' && peek(t, 1) != '*');
}

static void take_word(struct tokenizer *t, struct token *token) {
    bool dollar = false;

    token->kind = TOKEN_WORD;
    for (; is_word(t); t->at++) {
        dollar = dollar || peek(t, 0) == '$';
        put(t, token, peek(t, 0));
    }
    if (dollar) {
        if (peek(t, 0) == '{') /* what looks like a variable is passed over whole */
            while (peek(t, 0) > ' ' && *t->at++ != '}')
                ;
        mistake_add(t->mistakes, token->line,
                    "'$' outside quotes: expected the whole value in quotes "
                    "(variables are not expanded)");
        token->bad = true;
    }
}

void tokenizer_next(struct tokenizer *t, struct token *ret) {
    int c;

    skip_blanks(t);
    c = peek(t, 0);
    ret->kind = TOKEN_OTHER;
    ret->line = t->line;
    ret->bad = false;
    ret->length = 0;
    ret->text[0] = 0;
    if (c < 0) {
        ret->kind = TOKEN_END;
    } else if (c == '"' || c == '\'') {
        take_string(t, ret);
    } else if (is_word(t)) {
        take_word(t, ret);
    } else if (c == '+' && peek(t, 1) == '=') {
        ret->kind = TOKEN_APPEND;
        t->at += 2;
    } else {
        ret->kind = c == '=' ? TOKEN_EQUALS : c == '{' ? TOKEN_OPEN : c == '}' ? TOKEN_CLOSE : TOKEN_OTHER;
        put(t, ret, c);
        t->at++;
    }
}
