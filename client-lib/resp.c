#include "resp.h"

#include <string.h>

enum { NUMBER_BYTES_MAX = 24, LINE_BYTES_MAX = 64 * 1024 };

/* --- reading --- */

/* Position in the buffer, and tokens so far. The take_ functions return 1 or a RESP_ result. */
struct parse {
    const char *buffer;
    size_t length;
    size_t at;
    const struct resp_limits *limits;
    struct resp_token *tokens;
    size_t n_tokens;
};

/* A line of at most `longest` bytes, without its end. */
static int take_line(struct parse *parse, size_t longest, const char **ret_text, size_t *ret_length) {
    const char *text = parse->buffer + parse->at;
    size_t left = parse->length - parse->at, within = left < longest + 2 ? left : longest + 2;
    const char *end = within > 0 ? memchr(text, '\n', within) : NULL;

    if (!end)
        return left >= longest + 2 ? RESP_TOO_LARGE : RESP_INCOMPLETE;
    if (end == text || end[-1] != '\r')
        return RESP_MALFORMED;
    *ret_text = text;
    *ret_length = (size_t) (end - text) - 1;
    parse->at += *ret_length + 2;
    return 1;
}

bool resp_integer(const char *text, size_t length, int64_t *ret) {
    bool sign = length > 0 && (text[0] == '-' || text[0] == '+');
    int64_t value = 0;

    if (length == sign)
        return false;
    /* Negative sums: INT64_MIN has no positive counterpart. */
    for (size_t i = sign; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text[i] - '0', &value))
            return false;
    if (text[0] != '-' && __builtin_sub_overflow(0, value, &value))
        return false;
    *ret = value;
    return true;
}

static int take_number(struct parse *parse, int64_t *ret) {
    const char *text;
    size_t length;

    int outcome = take_line(parse, NUMBER_BYTES_MAX, &text, &length);
    if (outcome == RESP_TOO_LARGE)
        return RESP_MALFORMED;
    if (outcome <= 0)
        return outcome;
    return resp_integer(text, length, ret) ? 1 : RESP_MALFORMED;
}

/* A string with its length in front. */
static int take_bulk(struct parse *parse, struct resp_token *token, char kind) {
    int64_t announced;

    int outcome = take_number(parse, &announced);
    if (outcome <= 0)
        return outcome;
    if (announced == -1 && kind == '$') {
        token->type = RESP_NIL;
        return 1;
    }
    if (announced < 0)
        return RESP_MALFORMED;
    if ((uint64_t) announced > parse->limits->bulk_bytes_max)
        return RESP_TOO_LARGE;
    size_t length = (size_t) announced, left = parse->length - parse->at;
    const char *text = parse->buffer + parse->at;
    /* Reject a wrong end as soon as its first byte is there. */
    if (left > length && text[length] != '\r')
        return RESP_MALFORMED;
    if (left < length + 2)
        return RESP_INCOMPLETE;
    if (text[length + 1] != '\n')
        return RESP_MALFORMED;
    parse->at += length + 2;
    token->text = text;
    token->length = length;
    if (kind == '=') { /* "txt:" goes before a verbatim string */
        if (length < 4 || text[3] != ':')
            return RESP_MALFORMED;
        token->text += 4;
        token->length -= 4;
    }
    return 1;
}

/* The head of an aggregate: the number of elements, of pairs for a map. */
static int take_count(struct parse *parse, struct resp_token *token, char kind) {
    int64_t count;

    int outcome = take_number(parse, &count);
    if (outcome <= 0)
        return outcome;
    if (count == -1 && kind == '*') {
        token->type = RESP_NIL;
        return 1;
    }
    if (count < 0)
        return RESP_MALFORMED;
    if ((uint64_t) count > parse->limits->tokens_max)
        return RESP_TOO_LARGE;
    token->count = (uint32_t) count;
    return 1;
}

static int take_text(struct parse *parse, struct resp_token *token) {
    int outcome = take_line(parse, parse->limits->bulk_bytes_max, &token->text, &token->length);

    if (outcome > 0 && memchr(token->text, '\r', token->length))
        return RESP_MALFORMED;
    return outcome;
}

static int take_bool(struct parse *parse, struct resp_token *token) {
    const char *text;
    size_t length;

    int outcome = take_line(parse, 1, &text, &length);
    if (outcome == RESP_TOO_LARGE || (outcome > 0 && (length != 1 || (text[0] != 't' && text[0] != 'f'))))
        return RESP_MALFORMED;
    if (outcome > 0)
        token->integer = text[0] == 't';
    return outcome;
}

/* A scalar with its value, or the head of an aggregate. */
static int take_token(struct parse *parse, struct resp_token *token) {
    const char *text;
    size_t length;
    int outcome;

    if (parse->at == parse->length)
        return RESP_INCOMPLETE;
    char kind = parse->buffer[parse->at++];
    *token = (struct resp_token){0};
    switch (kind) {
    case '+':
    case '-':
    case ',':
        token->type = kind == '+' ? RESP_STRING : kind == '-' ? RESP_ERROR : RESP_DOUBLE;
        return take_text(parse, token);
    case ':':
        token->type = RESP_INTEGER;
        return take_number(parse, &token->integer);
    case '$':
    case '=':
    case '!':
        token->type = kind == '!' ? RESP_ERROR : RESP_BULK;
        return take_bulk(parse, token, kind);
    case '*':
    case '~':
    case '%':
    case '>':
        token->type = kind == '%' ? RESP_MAP : kind == '>' ? RESP_PUSH : RESP_ARRAY;
        return take_count(parse, token, kind);
    case '_':
        token->type = RESP_NIL;
        outcome = take_line(parse, 0, &text, &length);
        return outcome == RESP_TOO_LARGE ? RESP_MALFORMED : outcome;
    case '#':
        token->type = RESP_BOOL;
        return take_bool(parse, token);
    default:
        return RESP_MALFORMED;
    }
}

static uint64_t elements_of(const struct resp_token *token) {
    return token->type == RESP_MAP ? 2 * (uint64_t) token->count : token->count;
}

long resp_parse(const char *buffer, size_t length, const struct resp_limits *limits,
                struct resp_token *tokens, size_t *ret_tokens) {
    struct parse parse = {.buffer = buffer, .length = length, .limits = limits, .tokens = tokens};
    unsigned depth_max = limits->depth_max < RESP_DEPTH_MAX ? limits->depth_max : RESP_DEPTH_MAX;
    uint64_t left[RESP_DEPTH_MAX + 1] = {1}; /* elements not yet parsed, by level */
    uint64_t owed = 1; /* the same over all levels: announced elements count towards the limit */
    unsigned depth = 0;

    while (owed > 0) {
        if (parse.n_tokens == limits->tokens_max)
            return RESP_TOO_LARGE;
        struct resp_token *token = &tokens[parse.n_tokens++];
        int outcome = take_token(&parse, token);
        if (outcome <= 0)
            return outcome;
        while (left[depth] == 0)
            depth--;
        left[depth]--;
        owed--;
        if (elements_of(token) == 0)
            continue;
        owed += elements_of(token);
        if (depth == depth_max || parse.n_tokens + owed > limits->tokens_max)
            return RESP_TOO_LARGE;
        left[++depth] = elements_of(token);
    }
    *ret_tokens = parse.n_tokens;
    return (long) parse.at;
}

static long parse_words(struct parse *parse, size_t *ret_tokens) {
    const char *end = memchr(parse->buffer, '\n', parse->length);
    size_t longest = parse->limits->bulk_bytes_max;

    if (!end)
        return parse->length > longest + 1 ? RESP_TOO_LARGE : RESP_INCOMPLETE;
    size_t length = (size_t) (end - parse->buffer), taken = length + 1;
    if (length > 0 && end[-1] == '\r')
        length--;
    if (length > longest)
        return RESP_TOO_LARGE;
    for (size_t at = 0; at < length;) {
        if (parse->buffer[at] == ' ' || parse->buffer[at] == '\t') {
            at++;
            continue;
        }
        if (parse->n_tokens == parse->limits->tokens_max)
            return RESP_TOO_LARGE;
        size_t from = at;
        while (at < length && parse->buffer[at] != ' ' && parse->buffer[at] != '\t') {
            unsigned char c = (unsigned char) parse->buffer[at++];
            if (c < ' ' || c == 0x7f)
                return RESP_MALFORMED; /* binary input, not typed */
        }
        parse->tokens[parse->n_tokens++] =
            (struct resp_token){.type = RESP_BULK, .text = parse->buffer + from, .length = at - from};
    }
    *ret_tokens = parse->n_tokens;
    return (long) taken;
}

long resp_parse_request(const char *buffer, size_t length, const struct resp_limits *limits,
                        struct resp_token *tokens, size_t *ret_tokens) {
    struct parse parse = {.buffer = buffer, .length = length, .limits = limits, .tokens = tokens};
    int64_t count;

    if (length == 0)
        return RESP_INCOMPLETE;
    if (buffer[0] != '*') {
        unsigned char first = (unsigned char) buffer[0];
        /* A line begins with a letter; blanks and empty lines are accepted. */
        if ((first < 'A' || first > 'z') && first != ' ' && first != '\r' && first != '\n')
            return RESP_MALFORMED;
        return parse_words(&parse, ret_tokens);
    }
    parse.at = 1;
    int outcome = take_number(&parse, &count);
    if (outcome <= 0)
        return outcome;
    if (count < 0)
        return RESP_MALFORMED;
    if ((uint64_t) count > limits->tokens_max)
        return RESP_TOO_LARGE;
    for (; parse.n_tokens < (size_t) count; parse.n_tokens++) {
        struct resp_token *token = &tokens[parse.n_tokens];
        if (parse.at == length)
            return RESP_INCOMPLETE;
        if (buffer[parse.at++] != '$')
            return RESP_MALFORMED;
        *token = (struct resp_token){.type = RESP_BULK};
        outcome = take_bulk(&parse, token, '$');
        if (outcome <= 0)
            return outcome;
        if (token->type != RESP_BULK)
            return RESP_MALFORMED;
    }
    *ret_tokens = parse.n_tokens;
    return (long) parse.at;
}

/* --- skipping --- */

void resp_skip_begin(struct resp_skip *skip, size_t bytes_max) {
    *skip = (struct resp_skip){.left = bytes_max};
}

/* "$0" and two line ends. */
enum { ITEM_BYTES_MIN = 6 };

/* The head of the array, or of an item. */
static int skip_head(struct resp_skip *skip, struct parse *parse, char kind) {
    int64_t number;
    size_t begin = parse->at;

    if (parse->buffer[parse->at++] != kind)
        return RESP_MALFORMED;
    int outcome = take_number(parse, &number);
    if (outcome <= 0) {
        parse->at = begin;
        return outcome;
    }
    if (number < 0)
        return RESP_MALFORMED;
    if ((uint64_t) number > skip->left / (kind == '*' ? ITEM_BYTES_MIN : 1))
        return RESP_TOO_LARGE;
    if (kind == '*')
        skip->items = (uint64_t) number;
    else
        skip->payload = (uint64_t) number + 2;
    return 1;
}

/* The available bytes of an item; its end must be where the length says. */
static int skip_payload(struct resp_skip *skip, struct parse *parse) {
    while (skip->payload > 0 && parse->at < parse->length) {
        uint64_t here = parse->length - parse->at;
        if (skip->payload > 2) {
            uint64_t some = here < skip->payload - 2 ? here : skip->payload - 2;
            parse->at += (size_t) some;
            skip->payload -= some;
        } else if (parse->buffer[parse->at++] != (skip->payload-- == 2 ? '\r' : '\n')) {
            return RESP_MALFORMED;
        }
    }
    if (skip->payload > 0)
        return RESP_INCOMPLETE;
    skip->items--;
    return 1;
}

static int skip_line(struct parse *parse) {
    while (parse->at < parse->length) {
        unsigned char c = (unsigned char) parse->buffer[parse->at++];
        if (c == '\n')
            return 1;
        if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f)
            return RESP_MALFORMED;
    }
    return RESP_INCOMPLETE;
}

static int skip_array(struct resp_skip *skip, struct parse *parse) {
    while (skip->items > 0 && parse->at < parse->length) {
        int outcome = skip->payload > 0 ? 1 : skip_head(skip, parse, '$');
        if (outcome > 0)
            outcome = skip_payload(skip, parse);
        if (outcome <= 0)
            return outcome;
    }
    return skip->items == 0 ? 1 : RESP_INCOMPLETE;
}

long resp_skip(struct resp_skip *skip, const char *buffer, size_t length, bool *ret_done) {
    struct parse parse = {.buffer = buffer, .length = length};
    int outcome = RESP_INCOMPLETE;

    *ret_done = false;
    if (length == 0)
        return 0;
    if (!skip->begun) {
        skip->line = buffer[0] != '*';
        outcome = skip->line ? 1 : skip_head(skip, &parse, '*');
        skip->begun = outcome > 0;
    }
    if (skip->begun)
        outcome = skip->line ? skip_line(&parse) : skip_array(skip, &parse);
    if (outcome < 0)
        return outcome;
    if (parse.at > skip->left)
        return RESP_TOO_LARGE;
    skip->left -= parse.at;
    *ret_done = outcome > 0;
    return (long) parse.at;
}

/* --- writing --- */

void resp_put_raw(struct resp_writer *w, const void *bytes, size_t length) {
    if (length > 0 && w->length <= w->size && length <= w->size - w->length)
        memcpy(w->buffer + w->length, bytes, length);
    w->length += length;
}

/* A type byte, a decimal number and the line end. */
static void put_number(struct resp_writer *w, char kind, int64_t value) {
    char digits[NUMBER_BYTES_MAX + 4];
    size_t at = sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;

    digits[--at] = '\n';
    digits[--at] = '\r';
    do {
        digits[--at] = (char) ('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        digits[--at] = '-';
    digits[--at] = kind;
    resp_put_raw(w, digits + at, sizeof(digits) - at);
}

void resp_put_string(struct resp_writer *w, const char *text) {
    resp_put_raw(w, "+", 1);
    resp_put_raw(w, text, strlen(text));
    resp_put_raw(w, "\r\n", 2);
}

void resp_put_error(struct resp_writer *w, const char *text, size_t length) {
    resp_put_raw(w, "-", 1);
    for (size_t i = 0; i < length; i++)
        resp_put_raw(w, text[i] == '\r' || text[i] == '\n' ? " " : &text[i], 1);
    resp_put_raw(w, "\r\n", 2);
}

void resp_put_integer(struct resp_writer *w, int64_t value) {
    put_number(w, ':', value);
}

void resp_put_bulk(struct resp_writer *w, const void *bytes, size_t length) {
    put_number(w, '$', (int64_t) length);
    resp_put_raw(w, bytes, length);
    resp_put_raw(w, "\r\n", 2);
}

void resp_put_array(struct resp_writer *w, size_t count) {
    put_number(w, '*', (int64_t) count);
}

void resp_put_map(struct resp_writer *w, size_t pairs, int protocol) {
    if (protocol >= 3)
        put_number(w, '%', (int64_t) pairs);
    else
        put_number(w, '*', (int64_t) (2 * pairs));
}

void resp_put_push(struct resp_writer *w, size_t count, int protocol) {
    put_number(w, protocol >= 3 ? '>' : '*', (int64_t) count);
}

void resp_put_nil(struct resp_writer *w, int protocol) {
    if (protocol >= 3)
        resp_put_raw(w, "_\r\n", 3);
    else
        resp_put_raw(w, "$-1\r\n", 5);
}
