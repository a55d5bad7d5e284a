/* Queries under way: beyond a user's share its sessions pause when they have their answers; all go on. */

#include "local/query-share.h"

#include "tap.h"

enum { ALICE = 1, BOB = 2, SESSIONS = 100 };

static struct query_share share;
static struct list links[SESSIONS];
static unsigned n_woken;

static void begin(unsigned sessions) {
    query_share_init(&share);
    for (unsigned i = 0; i < SESSIONS; i++)
        list_init(&links[i]);
    for (unsigned i = 0; i < sessions; i++)
        query_share_begin(&share, ALICE);
}

/* The session of this number has its answer. Returns whether it pauses. */
static bool answer(unsigned number) {
    query_share_pause(&share, ALICE, &links[number]);
    query_share_end(&share, ALICE);
    for (n_woken = 0; query_share_next(&share, ALICE);)
        n_woken++;
    return !list_is_empty(&links[number]);
}

static void test_pause(void) {
    unsigned n_paused = 0;

    begin(SESSIONS);
    for (unsigned i = 0; i < SESSIONS - QUERIES_USER_MAX; i++)
        n_paused += answer(i);
    is_int(n_paused, SESSIONS - QUERIES_USER_MAX, "sessions beyond the share pause");
    is_int(n_woken, 0, "as long as the share is used");
    ok(!answer(SESSIONS - 1) && n_woken == 1, "with the next answer, one goes on, and the one that has it");
    ok(list_is_empty(&links[0]) && !list_is_empty(&links[1]), "the oldest first");
    query_share_begin(&share, ALICE);
    ok(!answer(SESSIONS - 2) && n_woken == 1, "one for one");
    query_share_begin(&share, BOB);
    query_share_pause(&share, BOB, &links[SESSIONS - 3]);
    ok(list_is_empty(&links[SESSIONS - 3]), "another user's session does not pause");
}

/* Sessions that go on need not query again. */
static void test_last(void) {
    unsigned left = SESSIONS - QUERIES_USER_MAX, n_all = 0;

    begin(SESSIONS);
    for (unsigned i = 0; i < SESSIONS; i++) {
        (void) answer(i);
        n_all += n_woken;
    }
    is_int(n_all, left, "when nothing is under way, all go on");
}

int main(void) {
    test_pause();
    test_last();
    return done_testing();
}
