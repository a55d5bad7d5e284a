/* Queries under way: a session whose query has no place in its user's share pauses until another is
 * answered; all go on when none is under way. */

#include "local/query-share.h"

#include "tap.h"

enum { ALICE = 1, BOB = 2, SESSIONS = 100 };

static struct query_share share;
static struct list links[SESSIONS];
static unsigned n_woken;

/* Whether the session of this number pauses instead. */
static bool query(uint8_t account, unsigned number) {
    bool pauses = query_share_pause(&share, account, &links[number]);

    if (!pauses)
        query_share_begin(&share, account);
    return pauses;
}

/* Sessions of the first user, each with a query. Returns how many of them pause. */
static unsigned begin(unsigned sessions) {
    unsigned n_paused = 0;

    query_share_init(&share);
    for (unsigned i = 0; i < SESSIONS; i++)
        list_init(&links[i]);
    for (unsigned i = 0; i < sessions; i++)
        n_paused += query(ALICE, i);
    return n_paused;
}

static void answer(void) {
    query_share_end(&share, ALICE);
    for (n_woken = 0; query_share_next(&share, ALICE);)
        n_woken++;
}

static void test_pause(void) {
    is_int(begin(QUERIES_USER_MAX), 0, "within the share, none pauses");
    is_int(begin(SESSIONS), SESSIONS - QUERIES_USER_MAX, "those beyond do");
    answer();
    is_int(n_woken, 1, "with an answer, one goes on");
    ok(list_is_empty(&links[QUERIES_USER_MAX]) && !list_is_empty(&links[QUERIES_USER_MAX + 1]),
       "the one that has paused longest");
    ok(!query(ALICE, QUERIES_USER_MAX) && query(ALICE, 0), "there is place for this one only");
    ok(!query(BOB, 1), "another user's session does not pause");
}

/* Sessions that go on need not query. */
static void test_last(void) {
    unsigned n_all = 0;

    (void) begin(SESSIONS);
    for (unsigned i = 0; i < QUERIES_USER_MAX; i++) {
        answer();
        n_all += n_woken;
    }
    is_int(n_all, SESSIONS - QUERIES_USER_MAX, "when nothing is under way, all go on");
}

int main(void) {
    test_pause();
    test_last();
    return done_testing();
}
