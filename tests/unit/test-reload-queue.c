/* Calls of a connection whose node has lost the scripts: which are sent once more, in which order, and which
 * are not. */

#include "core/reload-queue.h"
#include "tap.h"

enum { CALLS = 6 };

static struct reload_queue queue;
static struct reload_queue_entry calls[CALLS];

static void begin(void) {
    unsigned held = 0;

    reload_queue_init(&queue);
    for (unsigned i = 0; i < CALLS; i++) {
        list_init(&calls[i].link);
        held += reload_queue_holds(&queue, &calls[i]);
    }
    is_int(held, 0, "before a call is refused, none is held back");
}

/* The calls that come out, by their letters. */
static const char *taken(struct reload_queue_entry *next(struct reload_queue *queue)) {
    static char letters[CALLS + 1];
    struct reload_queue_entry *call;
    unsigned count = 0;

    while (count < CALLS && (call = next(&queue)))
        letters[count++] = (char) ('a' + (call - calls));
    letters[count] = '\0';
    return letters;
}

static void refuse(const char *letters) {
    for (; *letters; letters++)
        (void) reload_queue_refused(&queue, &calls[*letters - 'a']);
}

static void test_order(void) {
    begin();
    is_int(reload_queue_refused(&queue, &calls[0]), RELOAD_BEGIN,
           "the first NOSCRIPT makes the owner load the scripts");
    ok(reload_queue_holds(&queue, &calls[2]), "a new call is held back meanwhile");
    is_int(reload_queue_refused(&queue, &calls[1]), RELOAD_WAIT, "the next NOSCRIPT only waits");
    ok(reload_queue_holds(&queue, &calls[3]), "so does the next call");
    reload_queue_end(&queue);
    is_string(taken(reload_queue_next), "abcd",
              "refused calls are sent before those that were never sent, each in its order");
    ok(!reload_queue_holds(&queue, &calls[4]), "afterwards calls are sent at once");
}

static void test_once(void) {
    begin();
    refuse("ab");
    reload_queue_end(&queue);
    (void) taken(reload_queue_next);
    is_int(reload_queue_refused(&queue, &calls[0]), RELOAD_ANSWER, "a call is repeated only once");
    is_int(reload_queue_refused(&queue, &calls[2]), RELOAD_BEGIN,
           "another call makes the owner load the scripts again");
    reload_queue_end(&queue);
    is_string(taken(reload_queue_next), "c", "what was answered is not sent again");
    ok(!reload_queue_holds(&queue, &calls[0]), "an entry may serve another call,");
    is_int(reload_queue_refused(&queue, &calls[0]), RELOAD_BEGIN, "which is repeated once, too");
}

static void test_overtaken(void) {
    begin();
    is_string(taken(reload_queue_overtaken), "", "an answer overtakes nothing while no call is refused");
    refuse("ab");
    (void) reload_queue_holds(&queue, &calls[2]);
    is_string(taken(reload_queue_overtaken), "ab",
              "when a later call was executed, the refused ones are not repeated");
    ok(reload_queue_holds(&queue, &calls[3]), "new calls wait until the owner has loaded the scripts");
    refuse("e");
    reload_queue_end(&queue);
    is_string(taken(reload_queue_next), "ecd", "calls that were refused since then are repeated");
}

int main(void) {
    test_order();
    test_once();
    test_overtaken();
    return done_testing();
}
