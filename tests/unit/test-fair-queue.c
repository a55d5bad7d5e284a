/* The queue of sessions to be served: users take turns, whatever number of sessions they have. */

#include "local/fair-queue.h"

#include "tap.h"

enum { ALICE = 1, BOB = 2, LINKS = 8 };

static struct fair_queue queue;
static struct list links[LINKS];

static void begin(void) {
    fair_queue_init(&queue);
    for (unsigned i = 0; i < LINKS; i++)
        list_init(&links[i]);
}

/* The index of the next link; -1: none. */
static int next(void) {
    struct list *link = fair_queue_next(&queue);
    return link ? (int) (link - links) : -1;
}

static void test_turns(void) {
    begin();
    ok(fair_queue_is_empty(&queue), "the queue is empty");
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
    ok(fair_queue_is_empty(&queue), "the queue is empty again");
}

static void test_unlinked(void) {
    begin();
    fair_queue_add(&queue, ALICE, &links[0]);
    fair_queue_add(&queue, BOB, &links[1]);
    list_unlink(&links[0]);
    ok(!fair_queue_is_empty(&queue), "one of two sessions has ended");
    is_int(next(), 1, "an ended session has no turn");
    fair_queue_add(&queue, ALICE, &links[0]);
    list_unlink(&links[0]);
    ok(fair_queue_is_empty(&queue), "the only session has ended");
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

int main(void) {
    test_turns();
    test_unlinked();
    test_first();
    return done_testing();
}
