/* How much is read from a session, and from which: little while its user has half of its share. */
#include <string.h>

#include "io/client/conn-bytes.h"
#include "tap.h"

enum { MAX = 8000000, ALICE = 1000, BOB = 1001, CAROL = 1002, DAVE = 1003, LITTLE = 4096 };

static struct front_state front;
static struct conn_table table = {.local = &front};
static struct conn conn = {.table = &table};
static struct quota_rule_use memory[QUOTA_ACCOUNTS][RULES_MAX + 1];
static struct quota *quota = &front.registry.quota;

static void begin(uint64_t max) {
    memset(memory, 0, sizeof(memory));
    conn.input_length = CONN_SCRATCH_BYTES; /* of half a request */
    quota_init(quota, memory);
    quota->owner = 900;
    quota->max[QUOTA_BYTES] = max;
}

/* The connection is this user's. */
static void enter(uid_t uid) {
    conn.session.uid = uid;
    conn.session.account = quota_charge(quota, uid, QUOTA_SESSIONS, 1);
}

static void use(uid_t uid, uint64_t bytes) {
    (void) quota_charge(quota, uid, QUOTA_BYTES, bytes);
}

static bool reads_little(void) {
    return conn_bytes_pause(&conn) == LITTLE && conn_bytes_receive_room(&conn) == LITTLE;
}

static bool reads_much(void) {
    return conn_bytes_pause(&conn) == 128 * 1024 && conn_bytes_receive_room(&conn) == CONN_SCRATCH_BYTES;
}

static void test_alone(void) {
    begin(MAX);
    enter(ALICE);
    ok(reads_much(), "a user without buffers: much is read");
    use(ALICE, MAX / 4);
    ok(reads_much(), "and with half of its share, too");
    use(ALICE, 2);
    ok(reads_little(), "more than that: little is read");
}

/* Alice, Bob and Carol have as much as they may: Dave's share is a sixteenth of all. */
static void test_small_share(void) {
    begin(MAX);
    use(ALICE, MAX / 2);
    use(BOB, MAX / 4);
    use(CAROL, MAX / 8);
    enter(DAVE);
    ok(reads_much(), "the fourth user has no buffers: much is read");
    use(DAVE, MAX / 32);
    ok(reads_much(), "and with half of its share, too");
    use(DAVE, 2);
    ok(reads_little(), "more than half of a small share: little is read");
    conn.session.uid = ALICE;
    conn.session.account = (uint8_t) quota_index(quota, ALICE);
    ok(reads_little(), "and so it is for the user with the largest");
}

static void test_bounds(void) {
    begin(QUOTA_UNLIMITED);
    enter(ALICE);
    use(ALICE, UINT32_MAX);
    ok(reads_much(), "without a limit there is no half");
    begin(MAX);
    use(0, MAX);
    enter(BOB);
    ok(reads_much(), "nothing is left, but the user has nothing");
    use(BOB, 1);
    ok(reads_little(), "any use is more than half of nothing");
}

static void test_parts(void) {
    static const struct {
        size_t kept, room;
        bool skipping;
        const char *what;
    } cases[] = {
        {0, LITTLE, false, "of a new request little is received"},
        {LITTLE, LITTLE, false, "and then as much again,"},
        {2 * LITTLE, 2 * LITTLE, false, "and twice as much each time,"},
        {2 * CONN_SCRATCH_BYTES, CONN_SCRATCH_BYTES, false, "up to a bound"},
        {0, CONN_SCRATCH_BYTES, true, "of a request that is skipped nothing is kept: much is received"},
    };

    begin(MAX);
    enter(ALICE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        conn.input_length = cases[i].kept;
        conn.skipping = cases[i].skipping;
        is_int((int64_t) conn_bytes_receive_room(&conn), (int64_t) cases[i].room, cases[i].what);
    }
}

int main(void) {
    test_alone();
    test_small_share();
    test_bounds();
    test_parts();
    return done_testing();
}
