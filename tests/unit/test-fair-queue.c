/* The queue of sessions to be served: users take turns, whatever number of sessions they have. */

#include "local/fair-queue.h"

#include "tap.h"

enum { ALICE = 1, BOB = 2, LINKS = 8 };

static struct fair_queue queue;
static struct work_share share;
static struct list links[LINKS];
static instant_ns now_ns = 10 * NS_PER_S;

static void begin(void) {
    work_share_init(&share, 20000);
    fair_queue_init(&queue, &share);
    for (unsigned i = 0; i < LINKS; i++)
        list_init(&links[i]);
}

/* The index of the next link; -1: none. */
static int next(void) {
    struct list *link = fair_queue_next(&queue, now_ns);
    return link ? (int) (link - links) : -1;
}

static bool is_empty(void) {
    return fair_queue_due_ns(&queue, now_ns) == INSTANT_NEVER;
}

static void test_turns(void) {
    begin();
    ok(is_empty(), "the queue is empty");
    for (unsigned i = 0; i < 5; i++)
        fair_queue_add(&queue, ALICE, &links[i]);
    fair_queue_add(&queue, BOB, &links[5]);
    fair_queue_add(&queue, BOB, &links[5]);
    is_int(next(), 0, "the first user has the first turn");
    is_int(next(), 5, "the other user has the second turn, behind five sessions of the first user");
    fair_queue_add(&queue, BOB, &links[5]);
    is_int(next(), 1, "the first user's next session has the third turn");
    is_int(next(), 5, "the other user's next session has the fourth turn");
    is_int(next(), 2, "a user without sessions has no turn");
    is_int(next(), 3, "one user's sessions have turns");
    is_int(next(), 4, "sessions of a user have turns in their order");
    is_int(next(), -1, "each session has one turn");
    ok(is_empty(), "the queue is empty again");
}

static void test_unlinked(void) {
    begin();
    fair_queue_add(&queue, ALICE, &links[0]);
    fair_queue_add(&queue, BOB, &links[1]);
    list_unlink(&links[0]);
    ok(!is_empty(), "one of two sessions has ended");
    is_int(next(), 1, "an ended session has no turn");
    fair_queue_add(&queue, ALICE, &links[0]);
    list_unlink(&links[0]);
    ok(is_empty(), "the only session has ended");
    fair_queue_add(&queue, ALICE, &links[2]);
    is_int(next(), 2, "a user whose sessions had all ended has a turn again");
}

static void test_first(void) {
    begin();
    fair_queue_add(&queue, BOB, &links[0]);
    fair_queue_add_first(&queue, &links[1]);
    fair_queue_add_first(&queue, &links[2]);
    fair_queue_add(&queue, ALICE, &links[2]);
    is_int(next(), 1, "some come before all users");
    is_int(next(), 2, "in their order");
    is_int(next(), 0, "then the users");
    is_int(next(), -1, "and nothing twice");
}

/* More work than the share of a user covers, until `due_ns`. */
static void exhaust(unsigned account, instant_ns due_ns) {
    work_share_note(&share, (uint8_t) account, 1, now_ns);
    share.due_ns[account] = due_ns;
}

static void test_pause(void) {
    begin();
    exhaust(ALICE, now_ns + 500);
    exhaust(BOB, now_ns);
    fair_queue_add(&queue, ALICE, &links[0]);
    fair_queue_add(&queue, ALICE, &links[1]);
    is_int(next(), -1, "a user who has had its share pauses");
    is_int(fair_queue_due_ns(&queue, now_ns), now_ns + 500, "until the share covers its work");
    fair_queue_add(&queue, BOB, &links[2]);
    is_int(fair_queue_due_ns(&queue, now_ns), 0, "the other user is due");
    is_int(next(), 2, "and is served though it came later");
    now_ns += 500;
    is_int(next(), 0, "the pause ends in time");
    exhaust(ALICE, now_ns + 500);
    exhaust(BOB, now_ns);
    fair_queue_add_first(&queue, &links[3]);
    is_int(next(), 3, "what comes before all users does not pause");
    list_unlink(&links[1]);
    ok(is_empty(), "a session that ends while its user pauses leaves the queue");
}

/* One user ends many sessions at once. */
static void test_ended(void) {
    enum { ENDED = 2 * FAIR_QUEUE_ENDED_MAX };
    static struct list ended[ENDED];
    int others = 0;

    begin();
    exhaust(ALICE, now_ns + 500);
    exhaust(BOB, now_ns);
    fair_queue_add(&queue, ALICE, &links[0]);
    fair_queue_add_ended(&queue, ALICE, &links[1]);
    fair_queue_add_ended(&queue, ALICE, &links[2]);
    fair_queue_add(&queue, BOB, &links[3]);
    is_int(fair_queue_due_ns(&queue, now_ns), 0, "an ended session does not wait for its user's share");
    is_int(next(), 1, "it comes before the user's others,");
    is_int(next(), 2, "and a few of a user come together,");
    is_int(next(), 3, "before another user's later one");
    is_int(next(), -1, "the user's other sessions pause as before");
    now_ns += 500;
    is_int(next(), 0, "and are served then");
    ok(is_empty(), "that was all");

    for (unsigned i = 0; i < ENDED; i++) {
        list_init(&ended[i]);
        fair_queue_add_ended(&queue, ALICE, &ended[i]);
    }
    fair_queue_add(&queue, BOB, &links[3]);
    fair_queue_add(&queue, ALICE, &links[0]);
    for (unsigned i = 0; i < FAIR_QUEUE_ENDED_MAX; i++)
        others += fair_queue_next(&queue, now_ns) != &ended[i];
    is_int(others, 0, "many of a user end in their order,");
    is_int(next(), 3, "but another user has its turn between");
    for (unsigned i = FAIR_QUEUE_ENDED_MAX; i < ENDED; i++)
        others += fair_queue_next(&queue, now_ns) != &ended[i];
    is_int(others, 0, "then come the rest,");
    is_int(next(), 0, "and the user's others last");
    fair_queue_add_ended(&queue, ALICE, &links[1]);
    fair_queue_add(&queue, ALICE, &links[0]);
    fair_queue_add(&queue, BOB, &links[3]);
    is_int(next(), 1, "the last that ends");
    is_int(next(), 3, "is its user's turn, and another user has the next one");
    is_int(next(), 0, "before the user's others");
    fair_queue_add_ended(&queue, ALICE, &links[1]);
    list_unlink(&links[1]);
    ok(is_empty(), "one that is closed meanwhile leaves the queue");
}

int main(void) {
    test_turns();
    test_unlinked();
    test_first();
    test_pause();
    test_ended();
    return done_testing();
}
