/* The codec: every type and limit, input cut at every byte, and noise. Each input is in a block of exactly
 * its length, so that the address sanitizer detects reads beyond its end. */

#include "resp.h"
#include "tap.h"

enum { TOKENS = 64, NOISE_ROUNDS = 100000 };

static const struct resp_limits limits = {.bulk_bytes_max = 4096, .tokens_max = TOKENS, .depth_max = 4};

typedef long parser(const char *buffer, size_t length, const struct resp_limits *limits,
                    struct resp_token *tokens, size_t *ret_tokens);

static struct resp_token tokens[TOKENS];
static size_t n_tokens;

/* Parses a copy, to which the tokens point until the next call. */
static long parse_bytes(parser *parse, const char *bytes, size_t length) {
    static char *copy;

    free(copy);
    copy = malloc(length > 0 ? length : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, length);
    n_tokens = 999;
    return parse(copy, length, &limits, tokens, &n_tokens);
}

static long value(const char *text) {
    return parse_bytes(resp_parse, text, strlen(text));
}

static long request(const char *text) {
    return parse_bytes(resp_parse_request, text, strlen(text));
}

static bool text_is(size_t i, const char *want) {
    return tokens[i].length == strlen(want) && memcmp(tokens[i].text, want, strlen(want)) == 0;
}

static void test_scalars(void) {
    is_int(value("+OK\r\n+"), 5, "a simple string ends with its line");
    ok(n_tokens == 1 && tokens[0].type == RESP_STRING && text_is(0, "OK"), "and has its text");
    ok(value("-ERR no\r\n") > 0 && tokens[0].type == RESP_ERROR && text_is(0, "ERR no"), "an error");
    ok(value("!6\r\nERR\r\nx\r\n") > 0 && tokens[0].type == RESP_ERROR && tokens[0].length == 6,
       "a bulk error may have line breaks");
    ok(value(":-9223372036854775808\r\n") > 0 && tokens[0].integer == INT64_MIN, "the smallest integer");
    ok(value(":9223372036854775807\r\n") > 0 && tokens[0].integer == INT64_MAX, "the largest integer");
    ok(value(":+7\r\n") > 0 && tokens[0].integer == 7, "a plus sign");
    ok(value("$0\r\n\r\n") > 0 && tokens[0].type == RESP_BULK && tokens[0].length == 0, "an empty bulk");
    ok(value("$4\r\n\r\n\r\n\r\n") > 0 && text_is(0, "\r\n\r\n"), "a bulk of line breaks");
    ok(value("=8\r\ntxt:text\r\n") > 0 && tokens[0].type == RESP_BULK && text_is(0, "text"),
       "a verbatim string without its prefix");
    ok(value("$-1\r\n") > 0 && tokens[0].type == RESP_NIL, "a nil of version 2");
    ok(value("*-1\r\n") > 0 && tokens[0].type == RESP_NIL, "the nil array of version 2");
    ok(value("_\r\n") > 0 && tokens[0].type == RESP_NIL, "the nil of version 3");
    ok(value("#t\r\n") > 0 && tokens[0].type == RESP_BOOL && tokens[0].integer == 1, "true");
    ok(value("#f\r\n") > 0 && tokens[0].integer == 0, "false");
    ok(value(",1.5e3\r\n") > 0 && tokens[0].type == RESP_DOUBLE && text_is(0, "1.5e3"), "a double as text");
}

static void test_aggregates(void) {
    ok(value("*0\r\n") > 0 && n_tokens == 1 && tokens[0].count == 0, "an empty array");
    ok(value("%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n") > 0 && n_tokens == 5, "a map with an array in it");
    ok(tokens[0].type == RESP_MAP && tokens[0].count == 1 && tokens[2].type == RESP_ARRAY &&
           tokens[2].count == 2 && tokens[4].integer == 2,
       "its tokens are in document order");
    ok(value(">2\r\n+lost\r\n:7\r\n") > 0 && tokens[0].type == RESP_PUSH, "a push");
    ok(value("~1\r\n:1\r\n") > 0 && tokens[0].type == RESP_ARRAY, "a set is an array");
    is_int(value("*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), 20, "the deepest nesting");
    is_int(value("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), RESP_TOO_LARGE, "nesting beyond the limit");
}

static void test_limits(void) {
    is_int(value("$1073741824\r\n"), RESP_TOO_LARGE, "a gigabyte is rejected by its length");
    is_int(value("$4097\r\n"), RESP_TOO_LARGE, "one byte over the limit is rejected");
    is_int(value("$4096\r\n"), RESP_INCOMPLETE, "the limit is accepted");
    is_int(value("*1000000\r\n"), RESP_TOO_LARGE, "a million elements");
    is_int(value("%40\r\n"), RESP_TOO_LARGE, "pairs count twice");
    is_int(value("*60\r\n*60\r\n"), RESP_TOO_LARGE, "elements of all levels count together");
    is_int(value("$99999999999999999999\r\n"), RESP_MALFORMED, "a length beyond 64 bits");
    is_int(value(":9223372036854775808\r\n"), RESP_MALFORMED, "an integer beyond 64 bits");
    is_int(value("$-2\r\n"), RESP_MALFORMED, "a negative length");
    is_int(value("*-2\r\n"), RESP_MALFORMED, "a negative count");
    is_int(value("%-1\r\n"), RESP_MALFORMED, "a map has no nil");
    is_int(value(":\r\n"), RESP_MALFORMED, "no number");
    is_int(value(":-\r\n"), RESP_MALFORMED, "a sign alone");
    is_int(value(":1 \r\n"), RESP_MALFORMED, "a blank behind a number");
    is_int(value(":12345678901234567890123456789"), RESP_MALFORMED, "a number without end");
    is_int(value("#x\r\n"), RESP_MALFORMED, "neither true nor false");
    is_int(value("_x\r\n"), RESP_MALFORMED, "a nil with something in it");
    is_int(value("$2\r\nabc\r\n"), RESP_MALFORMED, "a bulk longer than its length");
    is_int(value("+a\rb\r\n"), RESP_MALFORMED, "a carriage return within a line");
    is_int(value("+a\n"), RESP_MALFORMED, "a line feed alone");
    is_int(value("=3\r\nabc\r\n"), RESP_MALFORMED, "a verbatim string without a prefix");
    is_int(value("?\r\n"), RESP_MALFORMED, "an unknown type");
    is_int(value(""), RESP_INCOMPLETE, "nothing");
}

static void test_requests(void) {
    is_int(request("*2\r\n$5\r\nCHECK\r\n$1\r\n7\r\n"), 22, "a request as an array");
    ok(n_tokens == 2 && text_is(0, "CHECK") && text_is(1, "7"), "gives its items only");
    is_int(request("CHECK  7 \r\nPING\r\n"), 11, "a request as a line");
    ok(n_tokens == 2 && text_is(0, "CHECK") && text_is(1, "7"), "is split at blanks");
    ok(request("PING\n") == 5 && n_tokens == 1, "a line feed alone ends a line");
    ok(request("\r\n") == 2 && n_tokens == 0, "an empty line is no request");
    ok(request("*0\r\n") == 4 && n_tokens == 0, "nor is an empty array");
    is_int(request("*1\r\n:7\r\n"), RESP_MALFORMED, "an item that is no string");
    is_int(request("*1\r\n$-1\r\n"), RESP_MALFORMED, "a nil item");
    is_int(request("*1\r\n*1\r\n$1\r\nx\r\n"), RESP_MALFORMED, "an array within");
    is_int(request("*65\r\n"), RESP_TOO_LARGE, "too many items");
    is_int(request("*1\r\n$5000\r\n"), RESP_TOO_LARGE, "too large an item");
    ok(request("*-1\r\n") < 0, "a negative count");
    ok(request("\x16\x03\x01\x02\r\n") < 0 || n_tokens > 0, "a TLS greeting");
}

static void test_long_line(void) {
    static char line[6000];

    memset(line, 'x', sizeof(line));
    is_int(parse_bytes(resp_parse_request, line, 4000), RESP_INCOMPLETE, "a long line without its end yet");
    is_int(parse_bytes(resp_parse_request, line, sizeof(line)), RESP_TOO_LARGE, "a line without end");
}

/* A value cut at any byte is incomplete. */
static void test_pieces(void) {
    static const char *const values[] = {
        "%2\r\n$2\r\nid\r\n:1048576\r\n+name\r\n$3\r\na\r\n\r\n",
        ">3\r\n$4\r\nlost\r\n:7\r\n=8\r\ntxt:text\r\n",
        "*3\r\n_\r\n#t\r\n,1.5\r\n",
        "*2\r\n!3\r\nERR\r\n-E no\r\n",
    };
    unsigned wrong = 0, cuts = 0;

    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        size_t length = strlen(values[i]);
        for (size_t cut = 0; cut < length; cut++, cuts++)
            wrong += parse_bytes(resp_parse, values[i], cut) != RESP_INCOMPLETE;
        wrong += parse_bytes(resp_parse, values[i], length) != (long) length;
    }
    ok(cuts > 100 && wrong == 0, "a value cut at any byte is incomplete (%u cuts)", cuts);
}

/* Random bytes: no crash, no read beyond the end, no token outside the buffer. */
static void test_noise(void) {
    static const char alphabet[] = "*$:+-_#,%>~!=0123456789\r\n\r\n\r\n \xff\x00tf";
    uint64_t state = 88172645463325252u;
    char bytes[48];
    unsigned strange = 0, complete = 0;

    for (unsigned round = 0; round < NOISE_ROUNDS; round++) {
        size_t length = 0;
        do {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            bytes[length++] =
                state & 1 ? (char) (state >> 8) : alphabet[(state >> 8) % (sizeof(alphabet) - 1)];
        } while (length < sizeof(bytes) && (state >> 32) % 24 != 0);
        long taken = parse_bytes(round % 2 ? resp_parse : resp_parse_request, bytes, length);
        if (taken > (long) length || taken < RESP_TOO_LARGE)
            strange++;
        if (taken > 0) {
            complete++;
            strange += n_tokens > TOKENS;
        }
    }
    ok(strange == 0, "results of noise are in range");
    ok(complete > 100, "some noise is RESP (%u of %d)", complete, NOISE_ROUNDS);
}

static void test_writer(void) {
    char room[128];
    struct resp_writer writer = {.buffer = room, .size = sizeof(room)};

    resp_put_map(&writer, 1, 3);
    resp_put_bulk(&writer, "id", 2);
    resp_put_integer(&writer, INT64_MIN);
    resp_put_push(&writer, 1, 2);
    resp_put_error(&writer, "ERR a\r\nb", 8);
    resp_put_nil(&writer, 2);
    resp_put_nil(&writer, 3);
    resp_put_map(&writer, 2, 2);
    resp_put_array(&writer, 0);
    resp_put_string(&writer, "OK");
    room[writer.length] = '\0';
    is_string(
        room,
        "%1\r\n$2\r\nid\r\n:-9223372036854775808\r\n*1\r\n-ERR a  b\r\n$-1\r\n_\r\n*4\r\n*0\r\n+OK\r\n",
        "output in versions 2 and 3");

    char small[4] = "###";
    writer = (struct resp_writer){.buffer = small, .size = 3};
    resp_put_bulk(&writer, "hello", 5);
    is_int(writer.length, 11, "a small buffer: the writer counts the bytes needed");
    is_int(small[3], '\0', "and writes nothing beyond its size");
}

/* The number of bytes skipped, with input in pieces of `piece` bytes, each behind the last one's rest. */
static long skipped(const char *text, size_t piece, size_t bytes_max) {
    struct resp_skip skip;
    size_t length = strlen(text), at = 0;

    resp_skip_begin(&skip, bytes_max);
    for (size_t end = piece; at < length; end += piece) {
        bool done;
        size_t given = (end < length ? end : length) - at;
        char *copy = malloc(given > 0 ? given : 1);
        memcpy(copy, text + at, given);
        long n = resp_skip(&skip, copy, given, &done);
        free(copy);
        if (n < 0)
            return n;
        at += (size_t) n;
        if (done)
            return (long) at;
        if (end >= length)
            break;
    }
    return RESP_INCOMPLETE;
}

static void test_skip(void) {
    static const struct {
        const char *text;
        long want;
        const char *what;
    } cases[] = {
        {"*2\r\n$4\r\nPING\r\n$5\r\nxxxxx\r\n*1\r\n", 25, "an array up to its end"},
        {"*1\r\n$0\r\n\r\n", 10, "an empty item"},
        {"word word\t\r\nmore", 12, "a line"},
        {"*2\r\n$4\r\nPING\r\n$5\r\nxxxxxx\r\n", RESP_MALFORMED, "an item longer than its length"},
        {"*2\r\n$4\r\nPING\r\n$5\r\nxxxx\r\n", RESP_MALFORMED, "or shorter"},
        {"*2\r\n$4\r\nPING\r\n:5\r\n", RESP_MALFORMED, "an item that is no bulk"},
        {"*2\r\n$-1\r\n", RESP_MALFORMED, "a nil"},
        {"wo\x01rd\r\n", RESP_MALFORMED, "noise in a line"},
        {"*2\r\n$4\r\nPING\r\n$5\r\nxx", RESP_INCOMPLETE, "a cut item"},
        {"*99\r\n$4\r\nPING\r\n", RESP_TOO_LARGE, "too many items"},
        {"*2\r\n$65\r\n", RESP_TOO_LARGE, "too large an item"},
        {"*2\r\n$40\r\n0123456789012345678901234567890123456789\r\n$20\r\n01234567890123456789\r\n",
         RESP_TOO_LARGE, "items too large together"},
        {"0123456789012345678901234567890123456789012345678901234567890123456789\r\n", RESP_TOO_LARGE,
         "too long a line"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece <= strlen(cases[i].text); piece++)
            if (piece < 8 || piece == strlen(cases[i].text))
                is_int(skipped(cases[i].text, piece, 64), cases[i].want, cases[i].what);
}

int main(void) {
    test_scalars();
    test_aggregates();
    test_limits();
    test_requests();
    test_long_line();
    test_pieces();
    test_noise();
    test_writer();
    test_skip();
    return done_testing();
}
