/* Resume tokens: what is written is read, and no text is a token that could not have been written. */

#include <inttypes.h>

#include "base/hash.h"
#include "local/resume-token.h"
#include "tap.h"

#define VALUE "30313233343536373839414243444546474849" /* a byte short of a lock value's random part */

static char text[RESUME_TOKEN_BYTES_MAX + 64];
static size_t length;

/* Ends the text with its sum. */
static void seal(const char *body) {
    static const uint64_t key[2] = {0x7265646c6f636b64, 1};

    length = (size_t) snprintf(text, sizeof(text), "%s", body);
    length += (size_t) snprintf(text + length, sizeof(text) - length, "%016" PRIx64,
                                hash_bytes(key, text, length));
}

static void test_bounds(void) {
    static const struct {
        const char *body;
        bool read;
        const char *what;
    } cases[] = {
        {"1-" VALUE "4a-2710-0-0-5--", true, "a plain token"},
        {"2-" VALUE "4a-2710-0-0-5-12c--", true, "one with a linger"},
        {"3-" VALUE "4a-2710-0-0-5-12c-77--", true, "one with a cooldown"},
        {"4-" VALUE "4a-2710-0-0-5-12c-77--", false, "a later version"},
        {"2-" VALUE "4a-2710-0-0-5--", false, "version 2 without its linger"},
        {"3-" VALUE "4a-2710-0-0-5-12c--", false, "version 3 without its cooldown"},
        {"1-" VALUE "-2710-0-0-5--", false, "a value that is too short"},
        {"1-" VALUE "4a4b-2710-0-0-5--", false, "a value that is too long"},
        {"1-" VALUE "4-2710-0-0-5--", false, "half a byte"},
        {"1-" VALUE "4a--0-0-5--", false, "a number without digits"},
        {"1-" VALUE "4a-2710-0-0-5", false, "no end of the last number"},
        {"1-" VALUE "4a-2710-0-0-5-", false, "no data"},
        {"1-" VALUE "4a-2710-0-0-5-64:-", false, "data that is no hexadecimal"},
        {"1-" VALUE "4a-2710-0-0-5-6-", false, "data of half a byte"},
        {"1-" VALUE "4a-2710-0-0-5--0-", false, "more behind the data"},
        {"1-" VALUE "4a-0000000000002710-0-0-5--", true, "a number of 16 digits"},
        {"1-" VALUE "4a-00000000000002710-0-0-5--", false, "one of 17"},
        {"1-" VALUE "4a-5265c00-0-0-5--", true, "the longest ttl"},
        {"1-" VALUE "4a-5265c01-0-0-5--", false, "a longer one"},
        {"2-" VALUE "4a-2710-0-0-5-5265c00--", true, "the longest linger"},
        {"2-" VALUE "4a-2710-0-0-5-5265c01--", false, "a longer one"},
        {"1-" VALUE "4a-2710-7fffffff-0-5--", true, "the longest heartbeat"},
        {"1-" VALUE "4a-2710-80000000-0-5--", false, "a longer one"},
        {"1-" VALUE "4a-2710-0-7fffffffffffffff-5--", true, "the last end of a max_hold"},
        {"1-" VALUE "4a-2710-0-8000000000000000-5--", false, "a later one"},
        {"3-" VALUE "4a-2710-0-0-5-0-7fffffffffffffff--", true, "the last end of a cooldown"},
        {"3-" VALUE "4a-2710-0-0-5-0-8000000000000000--", false, "a later one"},
        {"1-" VALUE "4a-2710-0-0-1fffffffffffff--", true, "the largest fencing token"},
        {"1-" VALUE "4a-2710-0-0-20000000000000--", false, "a larger one"},
        {"1-", false, "a version and a sum"},
        {"1", false, "a sum and less than a version"},
    };
    struct resume_token token;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        seal(cases[i].body);
        ok(resume_token_read(text, length, &token) == cases[i].read, "%s: %s",
           cases[i].read ? "read" : "rejected", cases[i].what);
    }
    seal("1-" VALUE "4a-2710-0-0-5--");
    text[5] = text[5] == '0' ? '1' : '0';
    ok(!resume_token_read(text, length, &token), "rejected: another value than the sum's");
}

/* The longest token of all, read back field by field. */
static void test_longest(void) {
    const struct resume_token longest = {
        .terms = {.ttl_ms = TTL_MS_MAX, .heartbeat_ms = INT32_MAX, .linger_ms = TTL_MS_MAX},
        .hold_until_ns = INSTANT_NEVER - 1,
        .cooldown_until_ns = INT64_MAX,
        .token = (INT64_C(1) << 53) - 1,
        .data_length = DATA_BYTES_MAX};
    struct resume_token read = {.token = 0};

    length = resume_token_write(&longest, text);
    ok(length < RESUME_TOKEN_BYTES_MAX, "the longest token has room");
    ok(resume_token_read(text, length, &read), "and is read");
    is_int(read.terms.ttl_ms, TTL_MS_MAX, "its ttl");
    is_int(read.terms.heartbeat_ms, INT32_MAX, "its heartbeat");
    is_int(read.terms.linger_ms, TTL_MS_MAX, "its linger");
    is_int(read.hold_until_ns, INSTANT_NEVER - 1, "the end of its max_hold");
    is_int(read.cooldown_until_ns, INT64_MAX, "the end of its cooldown");
    is_int(read.token, (INT64_C(1) << 53) - 1, "its fencing token");
    is_int((long long) read.data_length, DATA_BYTES_MAX, "its data");
    ok(!resume_token_read(text, length - 1, &read), "not without its last byte");
    text[length] = '0';
    ok(!resume_token_read(text, length + 1, &read), "nor with one more");
}

static void test_versions(void) {
    struct resume_token token = {.terms.ttl_ms = 10000, .hold_until_ns = INSTANT_NEVER, .token = 5}, read;

    length = resume_token_write(&token, text);
    ok(text[0] == '1', "a lease without linger and cooldown has the first version");
    ok(resume_token_read(text, length, &read) && read.hold_until_ns == INSTANT_NEVER,
       "no max_hold stays none");
    token.terms.linger_ms = 1;
    (void) resume_token_write(&token, text);
    ok(text[0] == '2', "one that lingers has the second");
    token.cooldown_until_ns = 1;
    (void) resume_token_write(&token, text);
    ok(text[0] == '3', "one with a cooldown has the third");
}

int main(void) {
    test_bounds();
    test_longest();
    test_versions();
    return done_testing();
}
