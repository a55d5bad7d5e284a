/* A damaged session, log or text is left out, each at its bound. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ledger-harness.h"
#include "local/recovery/recovery.h"
#include "tap.h"

/* The copy of a session with an unanswered request of six bytes. */
static struct ledger_session *damaged_session(void) {
    ledger_harness_begin();
    receive(1, 0, "PING\r\n", 77);
    (void) killed();
    return (struct ledger_session *) (void *) ((unsigned char *) copy + ledger.header->sessions_at) + 1;
}

static struct shared_string *text_of(uint32_t place) {
    return (void *) ((unsigned char *) copy + ledger.header->texts_at +
                     (size_t) (place - 1) * SHARED_STRING_UNIT_BYTES);
}

static void put_position(struct shared_string *log, uint64_t position) {
    memcpy(log->bytes, &position, sizeof(position));
}

/* 'w'hole, 'd'amaged; '-': there is none. */
static char reads_session(uint32_t slot) {
    struct ledger_reader reader;
    struct ledger_reader_session_view view;

    assert(ledger_reader_init(&reader, copy, memory_bytes));
    if (!ledger_reader_session(&reader, slot, &view))
        return '-';
    return view.whole ? 'w' : 'd';
}

static void test_session_ids(void) {
    struct ledger_session *session = damaged_session();

    ok(reads_session(1) == 'w', "a session is read with the id of its slot");
    session->id = session_id(2);
    ok(reads_session(1) == '-', "an id of another slot: no session");
    session->id = 1;
    ok(reads_session(1) == '-', "an id without a generation: no session");
    session->id = (uint64_t) UINT32_MAX << SESSION_SLOT_BITS | 1;
    ok(reads_session(1) == 'w', "an id of the last generation is read");
    session->id = (UINT64_C(1) << 32) << SESSION_SLOT_BITS | 1;
    ok(reads_session(1) == '-', "an id of a later generation: no session");
    session[SESSIONS - 1] = session[0];
    session[SESSIONS - 1].id = session_id(SESSIONS);
    ok(reads_session(SESSIONS) == '-', "no session behind the last slot");
}

static void test_session_fields(void) {
    struct ledger_session *session = damaged_session();

    session->protocol = 1;
    ok(reads_session(1) == 'd', "a session with protocol 1 is damaged");
    session->protocol = 4;
    ok(reads_session(1) == 'd', "a session with protocol 4 is damaged");
    session->protocol = 3;
    ok(reads_session(1) == 'w', "a session with protocol 3 is whole");
    memset(session->name, 'x', LEDGER_NAME_BYTES);
    ok(reads_session(1) == 'd', "a session with a name without an end is damaged");
    session->name[LEDGER_NAME_BYTES - 1] = '\0';
    ok(reads_session(1) == 'w', "a name may end at the last byte");
}

static void test_session_log(void) {
    struct ledger_session *session = damaged_session();
    uint32_t place = session->log;

    session->log = UINT32_MAX;
    ok(reads_session(1) == 'd', "a log beyond the ledger damages the session");
    session->log = place;
    text_of(place)->head_length = sizeof(uint64_t) - 1;
    ok(reads_session(1) == 'd', "a log without its position damages the session");
    text_of(place)->head_length = sizeof(uint64_t);
    put_position(text_of(place), 1);
    ok(reads_session(1) == 'd', "a log that begins behind the first unanswered byte damages the session");
    session->answered = 1;
    ok(reads_session(1) == 'w', "a log that begins at the first unanswered byte is fine");
    session->answered = UINT64_MAX;
    put_position(text_of(place), UINT64_MAX - 2);
    ok(reads_session(1) == 'd', "a log that ends before it begins damages the session");
    put_position(text_of(place), UINT64_MAX - 6);
    ok(reads_session(1) == 'w', "a log that ends at the last position is fine");
}

static char reads_received(struct ledger_transfer *receiving, uint64_t position, unsigned count) {
    receiving->position = position;
    kernel_counts(receiving, count);
    return reads_session(1);
}

static void test_session_receives(void) {
    struct ledger_session *session = damaged_session();
    struct ledger_transfer *receiving = &((struct ledger_header *) copy)->receiving;

    receiving->session = session->id;
    ok(reads_received(receiving, 6, LEDGER_SCRATCH_BYTES) == 'w',
       "as many received bytes as the scratch has are fine");
    ok(reads_received(receiving, 6, LEDGER_SCRATCH_BYTES + 1) == 'd',
       "more received bytes than the scratch has damage the session");
    ok(reads_received(receiving, 7, 1) == 'd', "received bytes behind a gap damage the session");
    ok(reads_received(receiving, 5, 1) == 'w', "received bytes that are in the log already are fine");
    session->answered = 10;
    ok(reads_received(receiving, 10, 1) == 'w',
       "received bytes behind an answer to all of the log are fine");
    ok(reads_received(receiving, 9, 1) == 'd', "received bytes that were answered damage the session");
}

static void test_entry_text(void) {
    struct ledger_entry *entry;
    struct ledger_reader reader;
    struct ledger_reader_entry_view view;

    ledger_harness_begin();
    (void) add(1, LEDGER_HELD, 0);
    send_all(1, &(struct ledger_state){.protocol = 3}, 1);
    reader = killed();
    entry = (void *) ((unsigned char *) copy + ledger.header->entries_at);
    uint32_t place = entry->text;
    ok(ledger_reader_entry(&reader, 0, &view) && view.name_length == 3 && view.tail_length == 12,
       "an entry has its name and its tail");
    text_of(place)->head_length = NAME_BYTES_MAX;
    ok(ledger_reader_entry(&reader, 0, &view), "an entry with the longest name is read");
    text_of(place)->head_length = NAME_BYTES_MAX + 1;
    ok(!ledger_reader_entry(&reader, 0, &view), "not a longer one");
    text_of(place)->head_length = 0;
    ok(!ledger_reader_entry(&reader, 0, &view), "an entry without a name is left out");
    text_of(place)->head_length = 3;
    text_of(place)->tail_length = SHARED_STRING_BYTES_MAX - 3;
    ok(ledger_reader_entry(&reader, 0, &view), "an entry with the longest text is read");
    text_of(place)->tail_length++;
    ok(!ledger_reader_entry(&reader, 0, &view), "not a longer one");
    text_of(place)->tail_length = 12;
    entry->text = 0;
    ok(!ledger_reader_entry(&reader, 0, &view), "an entry without a text is left out");
    entry->text = (uint32_t) ((memory_bytes - ledger.header->texts_at) / SHARED_STRING_UNIT_BYTES) - 1;
    text_of(entry->text)->head_length = 3;
    text_of(entry->text)->tail_length = 120;
    ok(!ledger_reader_entry(&reader, 0, &view), "an entry whose text ends behind the ledger is left out");
}

/* Slots that the next process needs: up to the last request's, and one for each request without an entry. */
static void test_slots(void) {
    struct ledger_reader reader;

    ledger_harness_begin();
    (void) add(1, LEDGER_OBSERVED, 7);
    send_all(1, &(struct ledger_state){.protocol = 3}, 1);
    reader = killed();
    is_int(recovery_slots(&reader), 0, "an observation needs no slot");
    (void) add(1, LEDGER_WAITING, 4);
    send_all(1, &(struct ledger_state){.protocol = 3}, 1);
    reader = killed();
    is_int(recovery_slots(&reader), 5, "a request in the fifth slot needs five");
    receive(1, 0, "PING\r\n", 77);
    reader = killed();
    is_int(recovery_slots(&reader), 5, "one that was not accepted needs none");
    ledger_accepted(&ledger, 1, 0, 77);
    reader = killed();
    is_int(recovery_slots(&reader), 5, "one that was accepted has one of these,");
    ledger_harness_begin();
    receive(1, 0, "PING\r\n", 77);
    ledger_accepted(&ledger, 1, 0, 77);
    reader = killed();
    is_int(recovery_slots(&reader), 1, "or its own");
}

int main(void) {
    test_session_ids();
    test_session_fields();
    test_session_log();
    test_session_receives();
    test_entry_text();
    test_slots();
    free(memory);
    free(copy);
    return done_testing();
}
