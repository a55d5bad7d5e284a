/* The ledger alone: whenever the process is killed, it says what the clients know, and nothing in it can
 * harm who reads it. Written by one, read from a copy of its memory, as after a kill. */

#include <assert.h>
#include <stddef.h>

#include "local-harness.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"
#include "tap.h"

enum { SESSIONS = 8, ENTRIES = 24, COUNT_AT = 56, REQUESTS = 16 };

static const struct ledger_size size = {.sessions = SESSIONS, .entries = ENTRIES};
static const struct ledger_identity identity = {.agent = "00c0ffee", .host = "web1", .sequence = 3};

static struct ledger ledger;
static void *memory, *copy;
static size_t bytes;

static uint64_t session_id(unsigned slot) {
    return UINT64_C(5) << SESSION_SLOT_BITS | slot;
}

static uint64_t request_id(unsigned index) {
    return UINT64_C(9) << REQUEST_INDEX_BITS | index;
}

static void begin(void) {
    free(memory);
    free(copy);
    bytes = ledger_bytes(&size);
    memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    copy = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert(memory && copy);
    memset(memory, 0, bytes);
    ledger_init(&ledger, &size, COUNT_AT, &identity, memory);
    ledger_open(&ledger, 1, session_id(1));
}

/* The process is killed at this moment. */
static struct ledger_reader killed(void) {
    struct ledger_reader reader;

    memcpy(copy, memory, bytes);
    assert(ledger_reader_init(&reader, copy, bytes));
    return reader;
}

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

/* --- the kernel --- */

static void kernel_counts(struct ledger_transfer *transfer, unsigned count) {
    memcpy(transfer->message + COUNT_AT, &count, sizeof(count));
}

static struct ledger_transfer *receive_begins(unsigned slot, uint64_t position, const char *text) {
    struct ledger_transfer *transfer = ledger_receive(&ledger, slot, position);

    memcpy(ledger.header->scratch, text, strlen(text));
    return transfer;
}

static void receive(unsigned slot, uint64_t position, const char *text, instant_ns now_ns) {
    kernel_counts(receive_begins(slot, position, text), (unsigned) strlen(text));
    ledger_received(&ledger, slot, position, strlen(text), now_ns);
}

static void send_all(unsigned slot, const struct ledger_state *state, size_t length) {
    kernel_counts(ledger_send(&ledger, slot, state, length), (unsigned) length);
    ledger_sent(&ledger, slot, state);
}

static uint32_t add(unsigned slot, enum ledger_kind kind, unsigned index) {
    const struct ledger_entry entry = {.kind = (uint8_t) kind,
                                       .resumable = true,
                                       .request = request_id(index),
                                       .terms.ttl_ms = 10000,
                                       .terms.node_timeout_ms = 100,
                                       .page_slot = -1,
                                       .hold_until_ns = INSTANT_NEVER,
                                       .wait_until_ns = INSTANT_NEVER,
                                       .asked_ns = 999 * NS_PER_S,
                                       .deadline_ns = 1005 * NS_PER_S};
    return ledger_add(&ledger, slot, &entry, "job", 3, "42:1000:data", 12);
}

/* --- requests --- */

static void test_requests(void) {
    begin();
    ok(unanswered_is(1, ""), "a new session");
    struct ledger_transfer *transfer = receive_begins(1, 0, "PING\r\n");
    ok(unanswered_is(1, ""), "killed before bytes are received: they are still in the socket");
    kernel_counts(transfer, 6);
    ok(unanswered_is(1, "PING\r\n"), "killed as they are received: they are in the ledger");
    is_int(view_of(1).asked_ns, 0, "when they came is not known");
    ledger_received(&ledger, 1, 0, 6, 77);
    ok(unanswered_is(1, "PING\r\n"), "and once they are kept, once");
    is_int(view_of(1).asked_ns, 77, "and when they came");
    transfer->session = session_id(1);
    ok(unanswered_is(1, "PING\r\n"), "killed between keeping them and the note of that: once, too");
    transfer->session = 0;
    transfer = receive_begins(1, 6, "ECHO a\r\n");
    kernel_counts(transfer, 8);
    ok(unanswered_is(1, "PING\r\nECHO a\r\n"), "more come behind them");
    ledger_received(&ledger, 1, 6, 8, 88);
    ok(unanswered_is(1, "PING\r\nECHO a\r\n"), "and are kept");
    is_int(view_of(1).asked_ns, 77, "the oldest counts");
    is_int(ledger_log_room(&ledger, 1), LEDGER_LOG_BYTES_MAX - 14, "they take room");
    receive(2 - 1, 14, "PI", 99);
    ok(unanswered_is(1, "PING\r\nECHO a\r\nPI"), "a half request is kept as it is");

    const struct ledger_state first = {.answered = 6, .protocol = 2}, all = {.answered = 16, .protocol = 3};
    transfer = ledger_send(&ledger, 1, &first, 7);
    ok(unanswered_is(1, "PING\r\nECHO a\r\nPI"), "killed before the answer is sent");
    kernel_counts(transfer, 7);
    ok(unanswered_is(1, "ECHO a\r\nPI"), "killed now: the answered request is not read again");
    ledger_sent(&ledger, 1, &first);
    ok(unanswered_is(1, "ECHO a\r\nPI"), "nor afterwards");
    send_all(1, &all, 3);
    ok(unanswered_is(1, ""), "all are answered");
    is_int(view_of(1).asked_ns, 0, "then no time is known: it would be that of an answered request");
    is_int(view_of(1).state.protocol, 3, "the protocol is as of the last answer");
    is_int(ledger_log_room(&ledger, 1), LEDGER_LOG_BYTES_MAX, "all room is free again");
    receive(1, 16, "QUIT\r\n", 111);
    is_int(view_of(1).asked_ns, 111, "the next request's time counts");
    ok(unanswered_is(1, "QUIT\r\n"), "and it is there");
}

static void test_too_many(void) {
    static char text[LEDGER_LOG_BYTES_MAX + 1];

    begin();
    memset(text, 'x', LEDGER_LOG_BYTES_MAX);
    receive(1, 0, text, 1);
    ok(unanswered_is(1, text), "as much as there is room for is kept");
    is_int(ledger_log_room(&ledger, 1), 0, "then there is none");
    receive(1, LEDGER_LOG_BYTES_MAX, "yy", 2);
    ok(!is_whole(1), "an unrecorded request makes the session impossible to restore");
    const struct ledger_state before = {.answered = LEDGER_LOG_BYTES_MAX, .protocol = 2};
    send_all(1, &before, 5);
    ok(!is_whole(1), "until that is answered");
    const struct ledger_state after = {.answered = LEDGER_LOG_BYTES_MAX + 2, .protocol = 2};
    kernel_counts(ledger_send(&ledger, 1, &after, 5), 5);
    ok(is_whole(1) && unanswered_is(1, ""), "as the kernel notes it");
    ledger_sent(&ledger, 1, &after);
    receive(1, LEDGER_LOG_BYTES_MAX + 2, "PING\r\n", 3);
    ok(unanswered_is(1, "PING\r\n"), "from then on all is kept again");
}

/* --- flushes --- */

static void test_sending(void) {
    const struct ledger_state state = {.answered = 0, .protocol = 3, .pushes = true, .page = true};

    begin();
    struct ledger_transfer *transfer = ledger_send(&ledger, 1, &state, 10);
    is_int(view_of(1).state.protocol, 2, "killed before it is sent: the session is as it was");
    kernel_counts(transfer, 4);
    ok(!is_whole(1), "sent in part: the client's knowledge is unknown");
    ledger_tear(&ledger, 1);
    ledger_not_sent(&ledger);
    ok(!is_whole(1), "also when that is noted");
    ledger_sent(&ledger, 1, &state);
    ok(is_whole(1) && view_of(1).state.pushes && view_of(1).state.page, "until the rest is");
    transfer = ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10);
    kernel_counts(transfer, 10);
    is_int(view_of(1).state.protocol, 2, "killed as all is sent: the session is as the client knows it");
    ledger_open(&ledger, 2, session_id(2));
    is_int(view_of(2).state.protocol, 2, "that is one session's");
    ledger_tear(&ledger, 2);
    ok(!is_whole(2) && is_whole(1), "an abandoned session is skipped, the other continues");
    ledger_sent(&ledger, 1, &state);
    (void) ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10);
    ledger_not_sent(&ledger);
    ok(is_whole(1) && view_of(1).state.protocol == 3, "nothing was sent: nothing has changed");
}

/* At every point of a flush: before, as nothing is sent, as all is sent, when it is noted. */
static bool tells(uint32_t entry, const char *want) {
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
    begin();
    uint32_t entry = add(1, LEDGER_HELD, 0);
    ok(tells(entry, "uuhh"), "a grant is held once its flush is sent; before, its client does not know");
    ledger_end(&ledger, 1, entry);
    ok(tells(entry, "hh--"), "its end counts once its flush is sent");
    entry = add(1, LEDGER_WAITING, 1);
    ok(tells(entry, "--ww"), "a request waits once its flush is sent");
    ledger_granted(&ledger, 1, entry);
    ok(tells(entry, "gghh"), "and is granted once that is sent sent");
    entry = add(1, LEDGER_WAITING, 2);
    ledger_granted(&ledger, 1, entry);
    ok(tells(entry, "uuhh"), "both at once");
    entry = add(1, LEDGER_WAITING, 3);
    ledger_end(&ledger, 1, entry);
    ok(tells(entry, "----"), "begun and ended in one flush: no entry");
    entry = add(1, LEDGER_HELD, 4);
    ledger_end(&ledger, 1, entry);
    ok(tells(entry, "uu--"), "granted and released in one flush: no client knows of its keys");
    entry = add(1, LEDGER_OBSERVED, 5);
    ok(tells(entry, "--oo"), "an observed name");
    is_int(ledger.header->generation, 9, "the highest generation of a request is noted");
}

static void test_torn_entries(void) {
    begin();
    uint32_t held = add(1, LEDGER_HELD, 0);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    uint32_t granted = add(1, LEDGER_HELD, 1);
    kernel_counts(ledger_send(&ledger, 1, &(struct ledger_state){.protocol = 2}, 10), 4);
    ok(knows(held) == 'h' && knows(granted) == 'u' && !is_whole(1),
       "of a torn session all entries are read, and that it is torn");
    ledger_close(&ledger, 1);
    ok(knows(held) == '-' && knows(granted) == '-', "a closed one has none");
    ledger_open(&ledger, 1, session_id(1) + (UINT64_C(1) << SESSION_SLOT_BITS));
    ok(knows(held) == '-', "nor the next one in its place");
    is_int(ledger.entries.taken, 0, "and all room is free again");
}

static void test_full(void) {
    uint32_t last = 0;

    begin();
    for (unsigned i = 0; i < ENTRIES; i++)
        last = add(1, LEDGER_WAITING, i);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    ok(last != 0 && is_whole(1) && !ledger.header->leaky, "as many entries as it is made for");
    ledger_open(&ledger, 2, session_id(2));
    is_int(add(2, LEDGER_HELD, 0), 0, "and no more");
    ok(!is_whole(2) && is_whole(1) && ledger.header->leaky,
       "a session without room cannot be restored, and the header says so");
    send_all(2, &(struct ledger_state){.protocol = 2}, 1);
    ok(!is_whole(2), "ever");
    ledger_end(&ledger, 1, last);
    send_all(1, &(struct ledger_state){.protocol = 2}, 1);
    ok(add(1, LEDGER_HELD, 0) != 0, "what has ended makes room");
}

/* --- damage --- */

static bool reads(size_t length) {
    struct ledger_reader reader;
    return ledger_reader_init(&reader, copy, length);
}

static void test_other_versions(void) {
    static const struct {
        size_t at;
        const char *what;
    } fields[] = {
        {offsetof(struct ledger_header, magic), "another magic"},
        {offsetof(struct ledger_header, version), "another version"},
        {offsetof(struct ledger_header, header_bytes), "another header"},
        {offsetof(struct ledger_header, session_bytes), "other sessions"},
        {offsetof(struct ledger_header, entry_bytes), "other entries"},
        {offsetof(struct ledger_header, sessions), "more sessions than it has"},
        {offsetof(struct ledger_header, entries), "more entries than it has"},
        {offsetof(struct ledger_header, texts_at), "texts elsewhere"},
        {offsetof(struct ledger_header, bytes), "another size"},
        {offsetof(struct ledger_header, count_at) + 1, "a count beyond the message"},
    };

    begin();
    (void) killed();
    ok(reads(bytes), "a ledger is one");
    ok(!reads(bytes - 1) && !reads(sizeof(struct ledger_header) - 1) && !reads(0), "but not in part");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        (void) killed();
        ((unsigned char *) copy)[fields[i].at] ^= 1;
        ok(!reads(bytes), "%s is refused as a whole", fields[i].what);
    }
    (void) killed();
    memset(((struct ledger_header *) copy)->host, 'x', IDENTITY_BYTES_MAX);
    ok(!reads(bytes), "a host without an end, too");
}

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    assert(command->request != 0);
}

static struct session *session_here(void *userdata, uint64_t id) {
    unsigned i = (unsigned) (id & LEDGER_SLOT_MASK);

    (void) userdata;
    return i < SESSIONS - 1 && harness.sessions[i].id == id ? &harness.sessions[i] : NULL;
}

static bool session_whole(void *userdata, uint64_t id) {
    (void) userdata;
    return id & 1;
}

static bool process_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return pid == 42;
}

static void begin_service(void) {
    const struct local_harness_setup setup = {
        .identity = {.agent = "deadbeef", .host = "web1", .n_keepers = 1},
        .sink = {.query = on_command},
        .registry_sink = {.command = on_command},
        .requests_max = REQUESTS,
        .limit = REQUESTS,
        .sessions = SESSIONS};
    static struct ledger next;
    static void *next_memory;

    free(next_memory);
    next_memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert(next_memory);
    memset(next_memory, 0, bytes);
    ledger_init(&next, &size, COUNT_AT, &identity, next_memory);
    local_harness_begin(&setup);
    harness.front.registry.ledger = &next;
    for (unsigned i = 0; i < SESSIONS; i++) {
        harness.sessions[i].id = session_id(i);
        ledger_open(&next, i, session_id(i));
    }
}

static void report(uint64_t request, enum report_kind kind) {
    static const char secret[SECRET_BYTES + 1] = "abcdefghijklmnopqrst";
    const struct report report = {.kind = kind,
                                  .request = request,
                                  .deadline_ns = harness.now_ns + NS_PER_S,
                                  .text = secret,
                                  .text_length = SECRET_BYTES};
    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* All that a successor does with it; each lease is found, or not, and all come to their ends. */
static unsigned live_on(const struct ledger_reader *reader, unsigned luck) {
    static uint32_t order[REQUESTS];
    const struct recovery_past past = {.reader = *reader,
                                       .session = session_here,
                                       .whole = session_whole,
                                       .dead = process_dead,
                                       .order = order};
    struct registry *registry = &harness.front.registry;
    const struct request *request;

    begin_service();
    memset(order, 0, sizeof(order));
    unsigned held = recovery_run(&harness.front, &past, harness.now_ns).held;
    for (uint32_t slot = 0; (request = registry_next(registry, &slot)); luck = luck * 5 + 1)
        report(registry_id(registry, request), luck & 4 ? REPORT_GRANTED : REPORT_FAILED);
    restore_end(registry, harness.now_ns);
    for (unsigned i = 0; i < 3; i++)
        disconnect_end(&harness.sessions[i], harness.now_ns);
    registry_tick(registry, harness.now_ns + 48 * 3600 * NS_PER_S);
    for (unsigned i = 3; i < SESSIONS; i++)
        disconnect_end(&harness.sessions[i], harness.now_ns);
    return held;
}

/* Reads all that there is. */
static unsigned read_all(const struct ledger_reader *reader) {
    struct ledger_reader_session_view session;
    struct ledger_reader_entry_view entry;
    unsigned sum = 0;

    for (uint32_t i = 0; i < SESSIONS + 1; i++)
        if (ledger_reader_session(reader, i, &session) && session.whole)
            for (unsigned j = 0; j < 2; j++)
                for (size_t k = 0; k < session.unanswered[j].length; k++)
                    sum += (unsigned char) session.unanswered[j].bytes[k];
    for (uint32_t i = 0; i < ENTRIES + 1; i++)
        if (ledger_reader_entry(reader, i, &entry)) {
            for (size_t k = 0; k < entry.name_length; k++)
                sum += (unsigned char) entry.name[k];
            for (size_t k = 0; k < entry.tail_length; k++)
                sum += (unsigned char) entry.tail[k];
        }
    return sum;
}

static void fill(void) {
    begin();
    for (unsigned slot = 2; slot < 6; slot++)
        ledger_open(&ledger, slot, session_id(slot));
    for (unsigned i = 0; i < 12; i++)
        (void) add(1 + i % 4, i % 3 == 0 ? LEDGER_WAITING : LEDGER_HELD, i);
    (void) add(2, LEDGER_OBSERVED, 0);
    for (unsigned slot = 1; slot < 5; slot++)
        send_all(slot, &(struct ledger_state){.protocol = 3}, 1);
    (void) add(1, LEDGER_HELD, 13);
    ledger_granted(&ledger, 1, 1);
    receive(3, 0, "ACQUIRE x\r\n", 5);
    kernel_counts(receive_begins(2, 0, "PING\r\n"), 6);
    kernel_counts(ledger_send(&ledger, 4, &(struct ledger_state){.protocol = 2}, 9), 9);
}

static uint32_t chance;

static uint32_t draw(uint32_t below) {
    chance = chance * 1664525 + 1013904223;
    return (chance >> 8) % below;
}

static void damage(void) {
    const struct ledger_header *header = ledger.header;
    const struct {
        uint64_t at, length;
    } parts[] = {{offsetof(struct ledger_header, count_at),
                  offsetof(struct ledger_header, scratch) - offsetof(struct ledger_header, count_at)},
                 {header->sessions_at, SESSIONS * sizeof(struct ledger_session)},
                 {header->entries_at, 16 * sizeof(struct ledger_entry)},
                 {header->entries_at, 16 * sizeof(struct ledger_entry)},
                 {header->texts_at, 2048}};
    static const unsigned char values[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff, ':'};

    for (unsigned n = 1 + draw(6); n > 0; n--) {
        unsigned part = draw(sizeof(parts) / sizeof(parts[0]));
        uint64_t at = parts[part].at + draw((uint32_t) parts[part].length), width = draw(3) == 0 ? 8 : 1;
        if (width == 8)
            at &= ~UINT64_C(7);
        memset((char *) copy + at, draw(2) ? values[draw(sizeof(values))] : (int) draw(256), width);
    }
}

static void test_damage(void) {
    struct ledger_reader reader;
    unsigned refused = 0, held = 0, rounds = 3000;

    fill();
    reader = killed();
    ok(read_all(&reader) > 0 && live_on(&reader, 4) >= 7, "a ledger with something of everything");
    for (char *at = (char *) copy + ledger.header->texts_at; at < (char *) copy + bytes; at++)
        if (*at == ':')
            *at = 'x';
    is_int(live_on(&reader, 4), 0, "texts that are no values' are left out");
    for (chance = 1; rounds > 0; rounds--) {
        memcpy(copy, memory, bytes);
        damage();
        if (!ledger_reader_init(&reader, copy, bytes)) {
            refused++;
            continue;
        }
        (void) read_all(&reader);
        held += live_on(&reader, draw(1000)) > 0;
    }
    ok(held > 100 && refused > 0, "random damage: the rest is read, or the ledger is refused");
}

int main(void) {
    test_requests();
    test_too_many();
    test_sending();
    test_entries();
    test_torn_entries();
    test_full();
    test_other_versions();
    test_damage();
    free(memory);
    free(copy);
    return done_testing();
}
