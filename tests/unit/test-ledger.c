/* Whenever the process is killed, the ledger says what the clients know. */

#include "ledger-harness.h"
#include "tap.h"

static struct ledger_reader_session_view view_of(unsigned slot) {
    const struct ledger_reader reader = killed();
    struct ledger_reader_session_view view = {0};

    if (!ledger_reader_session(&reader, slot, &view))
        view.id = 0;
    return view;
}

static bool unanswered_is(unsigned slot, const char *text) {
    const struct ledger_reader_session_view view = view_of(slot);
    char all[2 * LEDGER_LOG_BYTES_MAX];
    size_t at = 0;

    for (unsigned i = 0; i < 2; i++) {
        assert(at + view.unanswered[i].length <= sizeof(all));
        if (view.unanswered[i].length > 0)
            memcpy(all + at, view.unanswered[i].bytes, view.unanswered[i].length);
        at += view.unanswered[i].length;
    }
    return view.id != 0 && view.whole && at == strlen(text) && memcmp(all, text, at) == 0;
}

static bool is_whole(unsigned slot) {
    return view_of(slot).whole;
}

/* 'h'eld, 'w'aiting, 'u': held, and its client does not know; 'g': waiting, granted, and its client does
 * not know; 'o'bserved; '-'. */
static char knows(uint32_t entry) {
    const struct ledger_reader reader = killed();
    struct ledger_reader_entry_view view;

    if (!ledger_reader_entry(&reader, entry - 1, &view))
        return '-';
    switch ((enum ledger_kind) view.entry.kind) {
    case LEDGER_FREE:
        return view.unreported ? 'u' : '?';
    case LEDGER_WAITING:
        return view.unreported ? 'g' : 'w';
    case LEDGER_HELD:
        return view.unreported ? '?' : 'h';
    case LEDGER_OBSERVED:
        return 'o';
    }
    return '?';
}

static void test_requests(void) {
    ledger_harness_begin();
    ok(unanswered_is(1, ""), "a new session has no unanswered requests");
    struct ledger_transfer *transfer = receive_begins(1, 0, "PING\r\n");
    ok(unanswered_is(1, ""), "killed before bytes are received: they are still in the socket");
    kernel_counts(transfer, 6);
    ok(unanswered_is(1, "PING\r\n"), "killed as they are received: they are in the ledger");
    is_int(view_of(1).asked_ns, 0, "the time of requests that were received during the kill is unknown");
    ledger_received(&ledger, 1, 0, 6, 77);
    ok(unanswered_is(1, "PING\r\n"), "requests that are kept are read again once");
    is_int(view_of(1).asked_ns, 77, "the time of kept requests is known");
    transfer->session = session_id(1);
    ok(unanswered_is(1, "PING\r\n"), "killed between keeping them and the note of that: once, too");
    transfer->session = 0;
    transfer = receive_begins(1, 6, "ECHO a\r\n");
    kernel_counts(transfer, 8);
    ok(unanswered_is(1, "PING\r\nECHO a\r\n"), "further requests follow the kept ones");
    ledger_received(&ledger, 1, 6, 8, 88);
    ok(unanswered_is(1, "PING\r\nECHO a\r\n"), "further requests are kept, too");
    is_int(view_of(1).asked_ns, 77, "the time is that of the oldest request");
    is_int(ledger_log_room(&ledger, 1), LEDGER_LOG_BYTES_MAX - 14, "kept requests take room");
    receive(2 - 1, 14, "PI", 99);
    ok(unanswered_is(1, "PING\r\nECHO a\r\nPI"), "a half request is kept as it is");

    const struct ledger_state first = {.answered = 6, .protocol = 2}, all = {.answered = 16, .protocol = 3};
    transfer = ledger_send(&ledger, 1, &first, 7);
    ok(unanswered_is(1, "PING\r\nECHO a\r\nPI"), "killed before the answer is sent");
    kernel_counts(transfer, 7);
    ok(unanswered_is(1, "ECHO a\r\nPI"), "killed now: the answered request is not read again");
    ledger_sent(&ledger, 1, &first);
    ok(unanswered_is(1, "ECHO a\r\nPI"), "answered requests are not read again after the note either");
    send_all(1, &all, 3);
    ok(unanswered_is(1, ""), "no request is read again when all are answered");
    is_int(view_of(1).asked_ns, 0, "without unanswered requests there is no time");
    is_int(view_of(1).state.protocol, 3, "the protocol is as of the last answer");
    is_int(ledger_log_room(&ledger, 1), LEDGER_LOG_BYTES_MAX, "all room is free again");
    receive(1, 16, "QUIT\r\n", 111);
    is_int(view_of(1).asked_ns, 111, "the next request's time counts");
    ok(unanswered_is(1, "QUIT\r\n"), "the next request is kept");
}

/* A request that was accepted waits on in the next process; one that has only arrived is examined there. */
static void test_accepted(void) {
    const struct ledger_state first = {.answered = 6, .protocol = 2};

    ledger_harness_begin();
    receive(1, 0, "PING\r\nPING\r\n", 77);
    is_int(view_of(1).accepted, 0, "a request that has arrived is not accepted");
    ledger_accepted(&ledger, 1, 0, 78);
    is_int(view_of(1).accepted, 0 + 1, "the first request of a session is accepted");
    is_int(view_of(1).asked_ns, 78, "at this instant");
    send_all(1, &first, 7);
    is_int(view_of(1).accepted, 0, "once it is answered, the next one is not");
    ledger_accepted(&ledger, 1, 6, 79);
    is_int(view_of(1).accepted, 6 + 1, "until it is accepted, too");
    ledger_forget_accepted(&ledger, 1, 78);
    is_int(view_of(1).accepted, 6 + 1, "the end of an earlier one does not change that");
    ledger_forget_accepted(&ledger, 1, 79);
    is_int(view_of(1).accepted, 0, "a request that is over, and not answered, is not accepted");
    send_all(1, &(struct ledger_state){.answered = 12, .protocol = 2}, 7);
    receive(1, 12, "PING\r\n", 88);
    is_int(view_of(1).accepted, 0, "one that arrives later is not");

    ledger_harness_begin();
    receive(1, 0, "PING\r\nPING\r\n", 77);
    ledger_accepted(&ledger, 1, 6, 78);
    is_int(view_of(1).accepted, 6 + 1, "one behind a reply that was not sent is");
}

static void test_too_many(void) {
    static char text[LEDGER_LOG_BYTES_MAX + 1];

    ledger_harness_begin();
    memset(text, 'x', LEDGER_LOG_BYTES_MAX);
    receive(1, 0, text, 1);
    ok(unanswered_is(1, text), "requests are kept as long as there is room");
    is_int(ledger_log_room(&ledger, 1), 0, "no room is left");
    receive(1, LEDGER_LOG_BYTES_MAX, "yy", 2);
    ok(!is_whole(1), "an unrecorded request makes the session impossible to restore");
    const struct ledger_state before = {.answered = LEDGER_LOG_BYTES_MAX, .protocol = 2};
    send_all(1, &before, 5);
    ok(!is_whole(1), "the session stays so until that request is answered");
    const struct ledger_state after = {.answered = LEDGER_LOG_BYTES_MAX + 2, .protocol = 2};
    kernel_counts(ledger_send(&ledger, 1, &after, 5), 5);
    ok(is_whole(1) && unanswered_is(1, ""), "the session is whole again when the kernel notes the answer");
    ledger_sent(&ledger, 1, &after);
    receive(1, LEDGER_LOG_BYTES_MAX + 2, "PING\r\n", 3);
    ok(unanswered_is(1, "PING\r\n"), "requests after that are kept again");

    ledger_harness_begin();
    receive(1, 0, text, 1);
    receive(1, LEDGER_LOG_BYTES_MAX, "yy", 2);
    receive(1, LEDGER_LOG_BYTES_MAX + 2, "zz", 3);
    send_all(1, &after, 5);
    ok(!is_whole(1), "of two unrecorded requests both must be answered");
    send_all(1, &(struct ledger_state){.answered = LEDGER_LOG_BYTES_MAX + 4, .protocol = 2}, 5);
    ok(is_whole(1), "once both are answered, the session can be restored");
}

static void test_sending(void) {
    const struct ledger_state state = {.answered = 0, .protocol = 3, .pushes = true, .page = true};

    ledger_harness_begin();
    struct ledger_transfer *transfer = ledger_send(&ledger, 1, &state, 10);
    is_int(view_of(1).state.protocol, 2, "killed before it is sent: the session is as it was");
    kernel_counts(transfer, 4);
    ok(!is_whole(1), "sent in part: the client's knowledge is unknown");
    ledger_tear(&ledger, 1);
    ledger_not_sent(&ledger);
    ok(!is_whole(1), "a partly sent flush leaves the knowledge unknown after its note, too");
    ledger_sent(&ledger, 1, &state);
    ok(is_whole(1) && view_of(1).state.pushes && view_of(1).state.page,
       "the knowledge is known when the rest is sent");
    transfer = ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10);
    kernel_counts(transfer, 10);
    is_int(view_of(1).state.protocol, 2, "killed as all is sent: the session is as the client knows it");
    ledger_open(&ledger, 2, session_id(2));
    is_int(view_of(2).state.protocol, 2, "a flush changes its own session only");
    ledger_tear(&ledger, 2);
    ok(!is_whole(2) && is_whole(1), "an abandoned session is skipped, the other continues");
    ledger_sent(&ledger, 1, &state);
    (void) ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10);
    ledger_not_sent(&ledger);
    ok(is_whole(1) && view_of(1).state.protocol == 3, "nothing was sent: nothing has changed");
}

/* At every point of a flush: before, as nothing is sent, as all is sent, when it is noted. */
static bool shows(uint32_t entry, const char *want) {
    const struct ledger_state state = {.protocol = 2};
    char seen[5] = {0};

    seen[0] = knows(entry);
    struct ledger_transfer *transfer = ledger_send(&ledger, 1, &state, 10);
    seen[1] = knows(entry);
    kernel_counts(transfer, 10);
    seen[2] = knows(entry);
    ledger_sent(&ledger, 1, &state);
    seen[3] = knows(entry);
    if (strcmp(seen, want) != 0)
        (void) printf("#   seen %s, want %s\n", seen, want);
    return strcmp(seen, want) == 0;
}

static void test_entries(void) {
    ledger_harness_begin();
    uint32_t entry = add(1, LEDGER_HELD, 0);
    ok(shows(entry, "uuhh"), "a grant is held once its flush is sent; before, its client does not know");
    ledger_end(&ledger, 1, entry);
    ok(shows(entry, "hh--"), "its end counts once its flush is sent");
    entry = add(1, LEDGER_WAITING, 1);
    ok(shows(entry, "--ww"), "a request waits once its flush is sent");
    ledger_granted(&ledger, 1, entry);
    ok(shows(entry, "gghh"), "a waiting request is granted once the flush of its grant is sent");
    entry = add(1, LEDGER_WAITING, 2);
    ledger_granted(&ledger, 1, entry);
    ok(shows(entry, "uuhh"), "waiting and granted in one flush: held once the flush is sent");
    entry = add(1, LEDGER_WAITING, 3);
    ledger_end(&ledger, 1, entry);
    ok(shows(entry, "----"), "begun and ended in one flush: no entry");
    entry = add(1, LEDGER_HELD, 4);
    ledger_end(&ledger, 1, entry);
    ok(shows(entry, "uu--"), "granted and released in one flush: no client knows of its keys");
    entry = add(1, LEDGER_OBSERVED, 5);
    ok(shows(entry, "--oo"), "an observed name counts once its flush is sent");
    is_int(ledger.header->generation, 9, "the highest generation of a request is noted");
}

static void test_torn_entries(void) {
    ledger_harness_begin();
    uint32_t held = add(1, LEDGER_HELD, 0);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    uint32_t granted = add(1, LEDGER_HELD, 1);
    kernel_counts(ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10), 4);
    ok(knows(held) == 'h' && knows(granted) == 'u' && !is_whole(1),
       "of a torn session all entries are read, and that it is torn");
    ledger_close(&ledger, 1);
    ok(knows(held) == '-' && knows(granted) == '-', "a closed session has no entries");
    ledger_open(&ledger, 1, session_id(1) + (UINT64_C(1) << SESSION_SLOT_BITS));
    ok(knows(held) == '-', "the next session in its slot has no entries");
    is_int(ledger.entries.taken, 0, "a closed session frees its entries");
}

static void test_full(void) {
    uint32_t last = 0;

    ledger_harness_begin();
    for (unsigned i = 0; i < ENTRIES; i++)
        last = add(1, LEDGER_WAITING, i);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    ok(last != 0 && is_whole(1) && !ledger.header->leaky, "as many entries as it is made for");
    ledger_open(&ledger, 2, session_id(2));
    is_int(add(2, LEDGER_HELD, 0), 0, "one entry more is refused");
    ok(!is_whole(2) && is_whole(1) && ledger.header->leaky,
       "a session without room cannot be restored, and the header records that");
    send_all(2, &(struct ledger_state){.protocol = 2}, 1);
    ok(!is_whole(2), "a session without room is never whole again");
    ledger_end(&ledger, 1, last);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    ok(add(1, LEDGER_HELD, 0) != 0, "an ended entry makes room");
}

int main(void) {
    test_requests();
    test_accepted();
    test_too_many();
    test_sending();
    test_entries();
    test_torn_entries();
    test_full();
    free(memory);
    free(copy);
    return done_testing();
}
