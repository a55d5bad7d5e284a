/* How much of the front's work a user may have while others ask. */

#include "local/work-share.h"

#include "tap.h"

enum { ALICE = 1, BOB = 2, CAROL = 3 };
enum { UNITS_PER_S = 20000, LONGEST_DEBT = UNITS_PER_S / 1000 * WORK_SHARE_DEBT_MS_MAX };
enum { BURST = WORK_SHARE_BURST };

static struct work_share share;
static instant_ns now_ns;

static void begin(void) {
    work_share_init(&share, UNITS_PER_S);
    now_ns = 10 * NS_PER_S;
}

static void work(unsigned account, unsigned units) {
    work_share_note(&share, (uint8_t) account, units, now_ns);
}

/* How long the user pauses from now on, in units. */
static int64_t pause_of(unsigned account) {
    instant_ns due_ns = work_share_due_ns(&share, (uint8_t) account, now_ns);
    return due_ns == 0 ? 0 : (due_ns - now_ns) * UNITS_PER_S / NS_PER_S;
}

static void test_alone(void) {
    begin();
    for (unsigned i = 0; i < 1000; i++)
        work(ALICE, 100);
    is_int(pause_of(ALICE), 0, "a user alone never pauses");
    is_int((int64_t) share.pauses, 0, "and none is counted");
    is_int(pause_of(BOB), 0, "nor does one that has done nothing");
}

static void test_burst(void) {
    begin();
    work(BOB, 0);
    work(ALICE, BURST);
    is_int(pause_of(ALICE), 0, "a burst is free");
    is_int((int64_t) share.pauses, 0, "without a pause");
    work(ALICE, 7);
    is_int(pause_of(ALICE), 7 + BURST, "then a user pauses until the next burst is paid in time");
    work(ALICE, 0);
    is_int((int64_t) share.pauses, 1, "the pause is counted, once");
    is_int(pause_of(BOB), 0, "another user does not pay");
    now_ns += (7 + BURST) * NS_PER_S / UNITS_PER_S - 1;
    ok(pause_of(ALICE) == 0 && work_share_due_ns(&share, ALICE, now_ns) > 0, "the pause lasts as long");
    now_ns += 1;
    is_int(work_share_due_ns(&share, ALICE, now_ns), 0, "and is then over");
    work(ALICE, BURST);
    is_int(pause_of(ALICE), 0, "the user has a new burst");
    work(ALICE, 1);
    is_int(pause_of(ALICE), 1 + BURST, "and then pauses again");
    now_ns += NS_PER_S / 2;
    work(BOB, 0);
    work(ALICE, BURST + 1);
    is_int(pause_of(ALICE), 1 + BURST, "after a long rest the burst is the same");
}

static void test_rate(void) {
    unsigned served = 0;

    begin();
    for (instant_ns end_ns = now_ns + 2 * NS_PER_S; now_ns < end_ns; now_ns += 10000) {
        work(BOB, 1);
        if (pause_of(ALICE) == 0) {
            work(ALICE, 3);
            served += 3;
        }
    }
    ok(served >= 2 * UNITS_PER_S - 3 && served <= 2 * UNITS_PER_S + BURST + 3,
       "a user that asks all the time has %d units a second (%u in 2 s)", UNITS_PER_S, served);
}

static void test_debt(void) {
    begin();
    work(BOB, 0);
    work(ALICE, 100 * UNITS_PER_S);
    is_int(pause_of(ALICE), LONGEST_DEBT + BURST, "no pause is longer than this, whatever the work was");
    work(ALICE, 5);
    is_int(pause_of(ALICE), LONGEST_DEBT + BURST, "nor with more work on top");
}

/* Makes Alice pause as long as others ask. */
static void keep_busy(void) {
    work(ALICE, 10 * LONGEST_DEBT);
}

static void test_limit(void) {
    begin();
    share.units_per_s = 1000 * UNITS_PER_S;
    work(BOB, 0);
    work(ALICE, 1000 * BURST);
    is_int(pause_of(ALICE), BURST, "with a thousand times the limit a pause is a thousandth");
}

static void test_others(void) {
    begin();
    work(BOB, 0);
    keep_busy();
    ok(pause_of(ALICE) > 0, "another user who asks makes a user pause, though its own work does not count");
    now_ns += WORK_SHARE_OTHERS_MS * NS_PER_MS - 1;
    keep_busy();
    ok(pause_of(ALICE) > 0, "within a second after it asked");
    now_ns += 1;
    is_int(pause_of(ALICE), 0, "then the user is alone");
    ok(!work_share_is_shared(&share, now_ns), "and shares with nobody");
    work(CAROL, 1);
    ok(pause_of(ALICE) > 0, "until a third user asks");
    ok(work_share_is_shared(&share, now_ns), "with whom it shares");
    keep_busy();
    ok(pause_of(ALICE) > 0, "work of its own does not make a user alone");
    work(CAROL, 1);
    work(BOB, 1);
    ok(pause_of(ALICE) > 0, "nor do turns between the others");
}

int main(void) {
    test_alone();
    test_burst();
    test_rate();
    test_debt();
    test_limit();
    test_others();
    return done_testing();
}
