/* Nothing in a ledger can harm the process that reads it. */

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ledger-harness.h"
#include "local-harness.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"
#include "tap.h"

static const struct ledger_identity identity = {.agent = "00c0ffee", .host = "web1", .sequence = 3};

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

    ledger_harness_begin();
    (void) killed();
    ok(reads(memory_bytes), "a whole ledger is read");
    ok(!reads(memory_bytes - 1) && !reads(sizeof(struct ledger_header) - 1) && !reads(0),
       "part of a ledger is refused");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        (void) killed();
        ((unsigned char *) copy)[fields[i].at] ^= 1;
        ok(!reads(memory_bytes), "%s is refused as a whole", fields[i].what);
    }
    (void) killed();
    memset(((struct ledger_header *) copy)->host, 'x', IDENTITY_BYTES_MAX);
    ok(!reads(memory_bytes), "a host without an end is refused");
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
    next_memory = aligned_alloc(4096, (memory_bytes + 4095) / 4096 * 4096);
    assert(next_memory);
    memset(next_memory, 0, memory_bytes);
    ledger_init(&next, &ledger_size, COUNT_AT, &identity, next_memory);
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
    for (unsigned i = 0; i < 3; i++)
        recovery_end_left_out(&harness.sessions[i]);
    restore_start(&harness.front.registry, harness.now_ns);
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
    ledger_harness_begin();
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
    for (char *at = (char *) copy + ledger.header->texts_at; at < (char *) copy + memory_bytes; at++)
        if (*at == ':')
            *at = 'x';
    is_int(live_on(&reader, 4), 0, "texts that are no values' are left out");
    for (chance = 1; rounds > 0; rounds--) {
        memcpy(copy, memory, memory_bytes);
        damage();
        if (!ledger_reader_init(&reader, copy, memory_bytes)) {
            refused++;
            continue;
        }
        (void) read_all(&reader);
        held += live_on(&reader, draw(1000)) > 0;
    }
    ok(held > 100 && refused > 0, "random damage: the rest is read, or the ledger is refused");
}

/* One field of an entry: its smallest and largest value, beyond which the entry is left out. */
struct field {
    size_t at, width;
    int64_t least, most;
    const char *what;
};

#define FIELD(name, least, most) \
    { offsetof(struct ledger_entry, name), sizeof(((struct ledger_entry *) 0)->name), least, most, #name }

#define NONE INT64_MIN /* no bound: the field's type has no such value */

static bool is_restored_with(const struct field *field, int64_t value) {
    const struct ledger_reader reader = killed();
    unsigned char *entry = (unsigned char *) copy + ledger.header->entries_at;

    memcpy(entry + field->at, &value, field->width);
    return live_on(&reader, 4) == 1;
}

static void test_bounds(void) {
    static const struct field fields[] = {
        FIELD(risk, 0, REASON_COUNT),
        FIELD(terms.ttl_ms, 5000, TTL_MS_MAX), /* less than its time left */
        FIELD(terms.node_timeout_ms, 1, TTL_MS_MAX),
        FIELD(terms.heartbeat_ms, 0, INT32_MAX),
        FIELD(terms.max_hold_ms, 0, INT32_MAX),
        FIELD(terms.cooldown_ms, 0, TTL_MS_MAX),
        FIELD(token, 0, (INT64_C(1) << 53) - 1),
        FIELD(asked_ns, 0, NONE),
        FIELD(wait_until_ns, 0, NONE),
        FIELD(hold_until_ns, 0, NONE),
        FIELD(deadline_ns, 0, 1010 * NS_PER_S),
        FIELD(cooldown_until_ns, 0, 1000 * NS_PER_S + TTL_MS_MAX * NS_PER_MS),
    };

    static const struct field request = FIELD(request, 0, 0);

    ledger_harness_begin();
    (void) add(1, LEDGER_HELD, 0);
    send_all(1, &(struct ledger_state){.protocol = 3}, 1);
    ok(is_restored_with(&request, INT64_C(1) << REQUEST_INDEX_BITS) &&
           is_restored_with(&request, (int64_t) UINT32_MAX << REQUEST_INDEX_BITS),
       "the first and the last generation of a request");
    ok(!is_restored_with(&request, 1) &&
           !is_restored_with(&request, (INT64_C(1) << 32) << REQUEST_INDEX_BITS),
       "but no other");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct field *field = &fields[i];
        ok(is_restored_with(field, field->least), "%s may be %lld", field->what, (long long) field->least);
        if (field->least != 0 || field->width == sizeof(int64_t))
            ok(!is_restored_with(field, field->least - 1), "but not less");
        if (field->most == NONE)
            continue;
        ok(is_restored_with(field, field->most), "%s may be %lld", field->what, (long long) field->most);
        ok(!is_restored_with(field, field->most + 1), "but not more");
    }
}

int main(void) {
    test_other_versions();
    test_damage();
    test_bounds();
    free(memory);
    free(copy);
    return done_testing();
}
