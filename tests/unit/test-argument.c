/* Arguments of requests: words, numbers and names, each at its bounds. */

#include <inttypes.h>

#include "core/limits.h"
#include "local/argument.h"
#include "resp.h"
#include "tap.h"

static struct resp_token token_of(const char *text) {
    return (struct resp_token){.type = RESP_BULK, .text = text, .length = strlen(text)};
}

static bool is(const char *text, const char *word) {
    const struct resp_token token = token_of(text);
    return argument_is(&token, word);
}

static void test_words(void) {
    ok(is("LAZY", "LAZY") && is("lazy", "LAZY") && is("LaZy", "LAZY"), "letters of either case");
    ok(!is("LAZ", "LAZY") && !is("LAZYX", "LAZY") && !is("", "LAZY"),
       "a part of a word, or a longer one, is another word");
    ok(!is("L`ZY", "L@ZY") && !is("L{ZY", "L[ZY"), "characters next to the letters in ASCII have one case");
}

/* The number, or "none". */
static const char *number(const char *text) {
    static char shown[32];
    const struct resp_token token = token_of(text);
    int64_t value = 7;

    if (!argument_integer(&token, INT64_MIN, INT64_MAX, &value))
        return value == 7 ? "none" : "none, and another value";
    (void) snprintf(shown, sizeof(shown), "%" PRId64, value);
    return shown;
}

static bool within(const char *text, int64_t low, int64_t high) {
    const struct resp_token token = token_of(text);
    return argument_integer(&token, low, high, &(int64_t){0});
}

static void test_numbers(void) {
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"0", "0"},
        {"9", "9"},
        {"-1", "-1"},
        {"", "none"},
        {"-", "none"},
        {"1-", "none"},
        {"--1", "none"},
        {"+1", "none"},
        {"/", "none"},
        {":", "none"},
        {"1 ", "none"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "none"},
        {"-922337203685477580", "-922337203685477580"},
        {"9999999999999999999", "none"},
        {"0000000000000000001", "1"},
        {"00000000000000000001", "none"}, /* 20 digits */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_string(number(cases[i].text), cases[i].value, cases[i].text);
    ok(within("5", 5, 9) && within("9", 5, 9) && !within("4", 5, 9) && !within("10", 5, 9),
       "both bounds are allowed, and nothing beyond");
}

static const char *fault(const char *name) {
    return argument_name_fault(name, strlen(name));
}

static void test_names(void) {
    static const char control[] = "a name has no control characters", utf8[] = "a name is valid UTF-8",
                      own[] = "names that begin with 'redlockd:' are the agent's own";
    char name[NAME_BYTES_MAX + 2];

    is_string(fault(""), "a name has at least one byte", "an empty name");
    memset(name, 'n', sizeof(name));
    is_string(argument_name_fault(name, NAME_BYTES_MAX), NULL, "512 bytes");
    is_string(argument_name_fault(name, NAME_BYTES_MAX + 1), "a name has at most 512 bytes", "513 bytes");
    is_string(fault("redlockd:"), own, "the agent's prefix");
    is_string(fault("redlockd:x"), own, "and what follows");
    is_string(fault("redlockd"), NULL, "but not a part of it");
    is_string(fault("a\x1f"), control, "the last control character");
    is_string(fault("a "), NULL, "a blank is none");
    is_string(fault("a~"), NULL, "nor a tilde");
    is_string(fault("a\x7f"), control, "rubout is one");
    is_string(fault("a\xc2\x80"), control, "so is U+80");
    is_string(fault("a\xc2\x9f"), control, "and U+9F");
    is_string(fault("a\xc2\xa0"), NULL, "not U+A0");
    is_string(fault("a\xff"), utf8, "no UTF-8");
}

int main(void) {
    test_words();
    test_numbers();
    test_names();
    return done_testing();
}
