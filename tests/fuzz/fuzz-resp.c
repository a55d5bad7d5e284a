/* RESP alone, as the agent reads requests and the library replies. What must hold: tokens lie in the input;
 * the same bytes have the same outcome, however they arrive; a value that is written again is read as the
 * same tokens; a request is skipped as it is read.
 *
 * The first byte has the kind of input and the limits, the second the place where the input is cut. */

#include "fuzz.h"
#include "local/argument.h"
#include "resp.h"

enum goal { REQUEST, VALUE };

const char *const fuzz_goals[] = {[REQUEST] = "a request", [VALUE] = "a value", NULL};
uint32_t fuzz_reached;

enum { TOKENS_MAX = 32, BULK_BYTES_MAX = 4096, WRITTEN_BYTES_MAX = TOKENS_MAX * (BULK_BYTES_MAX + 32) };

typedef long parser(const char *buffer, size_t length, const struct resp_limits *limits,
                    struct resp_token *tokens, size_t *ret_tokens);

static struct resp_token tokens[TOKENS_MAX], others[TOKENS_MAX];

static void check_inside(const char *text, size_t length, size_t n) {
    for (size_t i = 0; i < n; i++)
        must(tokens[i].length == 0 ||
             (tokens[i].text >= text && tokens[i].text + tokens[i].length <= text + length));
}

/* A part of the input is incomplete, or decides already. */
static void check_cut(parser *parse, const char *text, size_t cut, const struct resp_limits *limits,
                      long whole) {
    char *part = fuzz_copy(text, cut);
    size_t n;
    long outcome = parse(part, cut, limits, others, &n);

    must(outcome == whole || outcome == RESP_INCOMPLETE);
    must(whole <= 0 || (outcome == whole) == (cut >= (size_t) whole));
    free(part);
}

static void write_token(struct resp_writer *writer, const struct resp_token *token) {
    switch (token->type) {
    case RESP_STRING:
    case RESP_DOUBLE:
        resp_put_raw(writer, token->type == RESP_STRING ? "+" : ",", 1);
        resp_put_raw(writer, token->text, token->length);
        resp_put_raw(writer, "\r\n", 2);
        break;
    case RESP_ERROR:
        resp_put_error(writer, token->text, token->length);
        break;
    case RESP_INTEGER:
        resp_put_integer(writer, token->integer);
        break;
    case RESP_BULK:
        resp_put_bulk(writer, token->text, token->length);
        break;
    case RESP_ARRAY:
        resp_put_array(writer, token->count);
        break;
    case RESP_MAP:
        resp_put_map(writer, token->count, 3);
        break;
    case RESP_PUSH:
        resp_put_push(writer, token->count, 3);
        break;
    case RESP_NIL:
        resp_put_nil(writer, 3);
        break;
    case RESP_BOOL:
        resp_put_raw(writer, token->integer ? "#t\r\n" : "#f\r\n", 4);
        break;
    }
}

/* The text of an error has blanks for its line ends. */
static bool is_same(const struct resp_token *token, const struct resp_token *again) {
    return token->type == again->type && token->count == again->count && token->integer == again->integer &&
           token->length == again->length &&
           (token->type == RESP_ERROR || token->length == 0 ||
            memcmp(token->text, again->text, token->length) == 0);
}

static void check_written(size_t n, const struct resp_limits *limits) {
    static char written[WRITTEN_BYTES_MAX];
    struct resp_writer writer = {written, sizeof(written), 0};
    size_t n_again;

    for (size_t i = 0; i < n; i++)
        write_token(&writer, &tokens[i]);
    must(writer.length <= writer.size);
    must(resp_parse(written, writer.length, limits, others, &n_again) == (long) writer.length);
    must(n_again == n);
    for (size_t i = 0; i < n; i++)
        must(is_same(&tokens[i], &others[i]));
}

/* In two parts. */
static void check_skipped(const char *text, size_t whole, size_t cut) {
    struct resp_skip skip;
    bool done = false;

    resp_skip_begin(&skip, whole);
    long first = resp_skip(&skip, text, cut < whole ? cut : whole, &done);
    must(first >= 0 && (size_t) first <= whole && done == (cut >= whole));
    must(!done || (size_t) first == whole);
    if (!done)
        must(resp_skip(&skip, text + first, whole - (size_t) first, &done) == (long) whole - first && done);
}

static void read_arguments(size_t n) {
    int64_t number;

    for (size_t i = 0; i < n; i++) {
        (void) argument_is(&tokens[i], "ACQUIRE");
        if (argument_integer(&tokens[i], -1, ARGUMENT_ID_MAX, &number))
            must(number >= -1 && number <= ARGUMENT_ID_MAX);
        (void) argument_name_fault(tokens[i].text, tokens[i].length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct fuzz_input input = {bytes, length};
    unsigned kind = fuzz_byte(&input), place = fuzz_byte(&input);
    const struct resp_limits limits = {.bulk_bytes_max = kind & 2 ? BULK_BYTES_MAX : 16,
                                       .tokens_max = kind & 4 ? TOKENS_MAX : 4,
                                       .depth_max = kind & 8 ? RESP_DEPTH_MAX : 1};
    parser *parse = kind & 1 ? resp_parse_request : resp_parse;
    char *text = fuzz_copy(input.bytes, input.length);
    size_t cut = place * input.length / UINT8_MAX, n = 0;

    long whole = parse(text, input.length, &limits, tokens, &n);
    must(whole >= RESP_TOO_LARGE && whole <= (long) input.length);
    if (whole > 0) {
        fuzz_reach(parse == resp_parse ? VALUE : REQUEST);
        check_inside(text, (size_t) whole, n);
    }
    check_cut(parse, text, cut, &limits, whole);
    if (whole > 0 && parse == resp_parse)
        check_written(n, &limits);
    if (whole > 0 && parse == resp_parse_request) {
        check_skipped(text, (size_t) whole, cut);
        read_arguments(n);
    }
    free(text);
    return 0;
}
