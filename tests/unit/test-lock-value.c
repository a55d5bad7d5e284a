/* The lock value: composed by the agent, parsed from its own and from other programs' keys. */

#include "core/lock-value.h"
#include "tap.h"

#define HEX "0001020304050607ff090a0b0c0d0e0f10111213"
#define OTHER_HEX "1001020304050607ff090a0b0c0d0e0f10111213"

static const uint8_t secret[SECRET_BYTES] = {0,  1,  2,  3,  4,  5,  6,  7,  255, 9,
                                             10, 11, 12, 13, 14, 15, 16, 17, 18,  19};

static void test_composed(void) {
    struct lock_value_identity identity;
    char tail[LOCK_VALUE_TAIL_BYTES_MAX], value[256];

    lock_value_identify(&identity, "web1", "00c0ffee");
    size_t tail_length = lock_value_put_tail(tail, 42, 1000, "a:b", 3);
    size_t length = lock_value_bytes(&identity, tail_length);
    lock_value_put(value, secret, &identity, tail, tail_length);
    value[length] = '\0';
    is_string(value, HEX ":web1:00c0ffee:42:1000:a:b", "a value is composed of digits, identity and tail");

    struct lock_value parts;
    ok(lock_value_read(value, length, &parts) && parts.host_length == 4 && parts.data_length == 3 &&
           memcmp(parts.data, "a:b", 3) == 0,
       "its parts are read again, data with colons included");
    uint8_t read[SECRET_BYTES];
    ok(lock_value_is_of(value, length, &identity, read) && memcmp(read, secret, SECRET_BYTES) == 0,
       "the agent's identity and the random part are recognized");
    char text[256];
    is_int(lock_value_print(value, length, text, sizeof(text)), strlen("web1:00c0ffee:42"),
           "the holder's part is readable text");
    is_string(text, "web1:00c0ffee:42", "which is host, agent and pid");
}

static void test_foreign(void) {
    static const char *const foreign[] = {
        "",
        HEX,
        HEX ":web1:00c0ffee:42:1000",
        "0001020304050607FF090a0b0c0d0e0f10111213:web1:00c0ffee:42:1000:",
        "0001020304050607ff090a0b0c0d0e0f1011121:web1:00c0ffee:42:1000:",
    };
    char text[64];

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        ok(!lock_value_is_agents(foreign[i], strlen(foreign[i])), "not an agent's value: %s", foreign[i]);
    (void) lock_value_print("a b\\\x01", 5, text, sizeof(text));
    is_string(text, "a\\x20b\\x5c\\x01", "a short foreign value is printed whole, escaped");
    (void) lock_value_print("01234567", 8, text, sizeof(text));
    is_string(text, "01234567", "one of 8 bytes is short");
    (void) lock_value_print("674b5e1c9a3f2", 13, text, sizeof(text));
    is_string(text, "674b5e...", "of a longer one nobody learns how to release the lock");
    (void) lock_value_print("0123456789abcdef0123456789abcdef", 32, text, sizeof(text));
    is_string(text, "0123456789ab...", "of a long one, 12 bytes are shown");
    (void) lock_value_print("aaaaaaaaaaaaaaaa", 16, text, 8);
    is_string(text, "aaaa", "and is cut to the buffer");
}

static void test_same_lease(void) {
    static const char one[] = HEX ":web1:00c0ffee:42:1000:", other[] = HEX ":web2:00facade:7:0:data";

    ok(lock_value_is_same_lease(one, strlen(one), other, strlen(other)),
       "a lease that another agent resumed has the same random part");
    ok(!lock_value_is_same_lease(HEX, strlen(HEX), one, strlen(one)), "a foreign value is no such lease");
    ok(lock_value_is_same_lease("x", 1, "x", 1), "equal foreign values are the same");
}

static void test_same_holder(void) {
    static const char one[] = HEX ":web1:00c0ffee:42:1000:data",
                      later[] = LOCK_VALUE_FAR_FUTURE OTHER_HEX ":web1:00c0ffee:42:1000:data",
                      other[] = OTHER_HEX ":web1:00c0ffee:43:1000:data";

    ok(lock_value_is_same_holder(one, strlen(one), later, strlen(later)),
       "one holder's values differ in their random parts");
    ok(!lock_value_is_same_holder(one, strlen(one), other, strlen(other)), "another process's in more");
    ok(!lock_value_is_same_holder("x", 1, "x", 1) && !lock_value_is_same_holder(one, strlen(one), "x", 1),
       "a value without an agent's form has no such holder");
}

static void test_identity(void) {
    static const char own[] = HEX ":web1:00c0ffee:42:1000:",
                      far[] = LOCK_VALUE_FAR_FUTURE HEX ":web1:00c0ffee:42:1000:",
                      other[] = HEX ":web1:00c0ffef:42:1000:", part[] = HEX ":web1:00c0ffee:42";
    struct lock_value_identity identity, none = {.length = 0};

    lock_value_identify(&identity, "web1", "00c0ffee");
    ok(lock_value_has_identity(own, strlen(own), &identity) &&
           lock_value_has_identity(far, strlen(far), &identity),
       "a value of this agent");
    ok(!lock_value_has_identity(other, strlen(other), &identity), "one of another agent");
    ok(!lock_value_has_identity(part, strlen(part), &identity), "one that is no agent's");
    ok(!lock_value_has_identity(own, strlen(own), &none), "without an identity none is");
}

static void test_resumed(void) {
    static const char before[] = HEX ":web1:00c0ffee:42:1000:";
    struct lock_value_identity identity;
    uint8_t later[SECRET_BYTES];
    char after[sizeof(before)];

    memcpy(later, secret, SECRET_BYTES);
    lock_value_resume(later);
    ok(memcmp(later, secret, SECRET_BYTES - 1) == 0 && later[SECRET_BYTES - 1] == 20,
       "a RESUME counts in the last byte");
    lock_value_identify(&identity, "web1", "00c0ffee");
    lock_value_put(after, later, &identity, "42:1000:", 8);
    ok(lock_value_is_same_lease(before, strlen(before), after, strlen(before)), "it is the same lease");
    memset(later + SECRET_LEASE_BYTES, 0xff, SECRET_BYTES - SECRET_LEASE_BYTES);
    lock_value_resume(later);
    ok(memcmp(later, secret, SECRET_LEASE_BYTES) == 0 && later[SECRET_LEASE_BYTES] == 0 &&
           later[SECRET_BYTES - 1] == 0,
       "65,535 is followed by 0, and the lease stays the same");
}

/* As clients of the SETNX and GETSET pattern read it. */
static void test_far_future(void) {
    static const char one[] = LOCK_VALUE_FAR_FUTURE HEX ":web1:00c0ffee:42:1000:a:b",
                      other[] = LOCK_VALUE_FAR_FUTURE HEX ":web2:00facade:7:0:",
                      another[] = LOCK_VALUE_FAR_FUTURE "ff01020304050607ff090a0b0c0d0e0f10111213:w:0:7:0:";
    const int64_t in_2035 = 2051222400;
    struct lock_value_identity identity;
    struct lock_value parts;
    uint8_t read[SECRET_BYTES];
    char text[64];

    ok(strtoll(one, NULL, 10) > in_2035 * 1000000 && (double) strtoll(one, NULL, 10) == strtod(one, NULL),
       "the digits in front are a time to come, in microseconds too, and as a double");
    ok(atoi(one) > in_2035, "and for a reader that keeps 32 bits");
    ok(lock_value_is_agents(one, strlen(one)) && lock_value_read(one, strlen(one), &parts) &&
           parts.host_length == 4 && parts.data_length == 3 && memcmp(parts.data, "a:b", 3) == 0,
       "the parts behind them are read");
    (void) lock_value_print(one, strlen(one), text, sizeof(text));
    is_string(text, "web1:00c0ffee:42", "and printed");
    ok(lock_value_is_same_lease(one, strlen(one), other, strlen(other)) &&
           !lock_value_is_same_lease(one, strlen(one), another, strlen(another)),
       "leases are distinguished by the random part, not by the time");
    lock_value_identify(&identity, "web1", "00c0ffee");
    ok(!lock_value_is_of(one, strlen(one), &identity, read), "such a value is left to its ttl, not deleted");
    ok(!lock_value_is_agents(LOCK_VALUE_FAR_FUTURE, LOCK_VALUE_FAR_FUTURE_BYTES), "a time is no value");
}

static void test_tail(void) {
    struct lock_value_tail tail;

    ok(lock_value_read_tail("42:1000:", 8, &tail) && tail.data_length == 0 && tail.user_length == 6,
       "a tail without data");
    ok(!lock_value_read_tail("42:1000", 7, &tail), "a tail without its second colon is rejected");
}

int main(void) {
    test_composed();
    test_foreign();
    test_same_lease();
    test_same_holder();
    test_identity();
    test_resumed();
    test_far_future();
    test_tail();
    return done_testing();
}
