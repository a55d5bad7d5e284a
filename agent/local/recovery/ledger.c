#include "local/recovery/ledger.h"

#include <assert.h>
#include <string.h>

#include "base/generation.h"

enum { PAGE_ALIGNMENT = 4096 };

static const uint64_t magic = UINT64_C(0x31726467646c6472);

static_assert(sizeof(struct ledger_transfer) % 8 == 0, "the kernel writes into aligned memory");

/* Stores in order: the next process sees earlier stores if it sees this one, and no later store without this
 * one. The fence is for the compiler, as a killed process has executed its stores in order. */
#define PUBLISH(place, value)                                  \
    do {                                                       \
        __atomic_store_n(&(place), (value), __ATOMIC_RELEASE); \
        __atomic_signal_fence(__ATOMIC_SEQ_CST);               \
    } while (0)

/* --- layout --- */

static size_t text_bytes(const struct ledger_size *size) {
    size_t worst =
        ((size_t) size->sessions + size->entries) * (SHARED_STRING_BYTES_MAX + sizeof(struct shared_string));
    return (worst / SHARED_STRING_BLOCK_BYTES + SHARED_STRING_CLASSES) * SHARED_STRING_BLOCK_BYTES;
}

/* Each part begins on a page of its own. */
struct ledger_header ledger_layout(const struct ledger_size *size) {
    struct ledger_header header = {
        .magic = magic,
        .version = LEDGER_VERSION,
        .header_bytes = sizeof(struct ledger_header),
        .session_bytes = sizeof(struct ledger_session),
        .entry_bytes = sizeof(struct ledger_entry),
        .sessions = size->sessions,
        .entries = size->entries,
    };
    uint64_t at = sizeof(struct ledger_header);

    header.sessions_at = at = (at + PAGE_ALIGNMENT - 1) / PAGE_ALIGNMENT * PAGE_ALIGNMENT;
    at += (uint64_t) size->sessions * sizeof(struct ledger_session);
    header.entries_at = at = (at + PAGE_ALIGNMENT - 1) / PAGE_ALIGNMENT * PAGE_ALIGNMENT;
    at += (uint64_t) size->entries * sizeof(struct ledger_entry);
    header.texts_at = at = (at + PAGE_ALIGNMENT - 1) / PAGE_ALIGNMENT * PAGE_ALIGNMENT;
    header.bytes = at + text_bytes(size);
    return header;
}

size_t ledger_bytes(const struct ledger_size *size) {
    return ledger_layout(size).bytes;
}

static void copy_text(char *to, size_t size, const char *from) {
    size_t length = strlen(from);

    length = length < size ? length : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

void ledger_init(struct ledger *ledger, const struct ledger_size *size, uint32_t count_at,
                 const struct ledger_identity *identity, void *memory) {
    unsigned char *bytes = memory;
    struct ledger_header header = ledger_layout(size);

    assert(count_at + sizeof(unsigned) <= LEDGER_MESSAGE_BYTES);
    header.count_at = count_at;
    header.sequence = identity->sequence;
    header.key_format = identity->key_format;
    copy_text(header.agent, sizeof(header.agent), identity->agent);
    copy_text(header.host, sizeof(header.host), identity->host);
    *ledger = (struct ledger){.header = memory, .sessions = (void *) (bytes + header.sessions_at)};
    memcpy(ledger->header, &header, offsetof(struct ledger_header, scratch));
    pool_init(&ledger->entries, bytes + header.entries_at, sizeof(struct ledger_entry), size->entries);
    shared_string_pool_init(&ledger->texts, bytes + header.texts_at, text_bytes(size));
}

void ledger_succeed(struct ledger *ledger, const struct ledger_header *past) {
    struct ledger_header *header = ledger->header;

    header->generation = generation_latest(header->generation, past->generation);
    header->session_generation = generation_latest(header->session_generation, past->session_generation);
    header->lost_until_ns = instant_max(header->lost_until_ns, past->lost_until_ns);
}

void ledger_note_resume(struct ledger *ledger) {
    ledger->header->resumes = true;
}

void ledger_note_lost_until(struct ledger *ledger, instant_ns until_ns) {
    ledger->header->lost_until_ns = instant_max(ledger->header->lost_until_ns, until_ns);
}

static uint32_t place_of(const struct ledger *ledger, const struct shared_string *text) {
    return (uint32_t) (((const unsigned char *) text - ledger->texts.memory) / SHARED_STRING_UNIT_BYTES) + 1;
}

static struct shared_string *text_at(const struct ledger *ledger, uint32_t place) {
    return place ? (void *) (ledger->texts.memory + (size_t) (place - 1) * SHARED_STRING_UNIT_BYTES) : NULL;
}

static void text_drop(struct ledger *ledger, uint32_t place) {
    (void) shared_string_unref(&ledger->texts, text_at(ledger, place));
}

/* --- a session --- */

static struct ledger_session *session_at(const struct ledger *ledger, uint32_t slot) {
    assert(slot < ledger->header->sessions);
    return &ledger->sessions[slot];
}

void ledger_open(struct ledger *ledger, uint32_t slot, uint64_t id) {
    struct ledger_session *session = session_at(ledger, slot);

    assert(session->id == 0 && id != 0 && (id & LEDGER_SLOT_MASK) == slot);
    *session = (struct ledger_session){.protocol = 2};
    ledger->header->session_generation =
        generation_latest(ledger->header->session_generation, (uint32_t) (id >> SESSION_SLOT_BITS));
    PUBLISH(session->id, id);
}

static void entry_free(struct ledger *ledger, uint32_t entry) {
    struct ledger_entry *at = ledger_at(ledger, entry);

    assert(at->kind != LEDGER_FREE);
    PUBLISH(at->kind, LEDGER_FREE);
    text_drop(ledger, at->text);
    pool_give(&ledger->entries, entry - 1);
}

static void free_chain(struct ledger *ledger, uint32_t entry) {
    while (entry != 0) {
        uint32_t next = ledger_at(ledger, entry)->next;
        entry_free(ledger, entry);
        entry = next;
    }
}

static void drop_log(struct ledger *ledger, struct ledger_session *session) {
    uint32_t log = session->log;

    PUBLISH(session->log, 0);
    text_drop(ledger, log);
}

void ledger_close(struct ledger *ledger, uint32_t slot) {
    struct ledger_session *session = session_at(ledger, slot);

    if (session->id == 0)
        return;
    PUBLISH(session->id, 0);
    free_chain(ledger, session->first);
    free_chain(ledger, session->first_dead);
    session->first = session->first_dead = 0;
    drop_log(ledger, session);
}

void ledger_set_name(struct ledger *ledger, uint32_t slot, const char *name) {
    struct ledger_session *session = session_at(ledger, slot);

    copy_text(session->name, sizeof(session->name), name);
}

/* --- receiving --- */

static void begin(struct ledger_transfer *transfer, uint64_t session, uint32_t count_at,
                  const struct ledger_transfer *next) {
    PUBLISH(transfer->session, 0);
    transfer->position = next->position;
    transfer->flush = next->flush;
    transfer->bytes = next->bytes;
    transfer->protocol = next->protocol;
    transfer->pushes = next->pushes;
    transfer->page = next->page;
    memset(transfer->message + count_at, 0, sizeof(unsigned));
    PUBLISH(transfer->session, session);
}

struct ledger_transfer *ledger_receive(struct ledger *ledger, uint32_t slot, uint64_t position) {
    struct ledger_transfer *receiving = &ledger->header->receiving;

    begin(receiving, session_at(ledger, slot)->id, ledger->header->count_at,
          &(struct ledger_transfer){.position = position});
    return receiving;
}

uint64_t ledger_log_position(const struct shared_string *log) {
    uint64_t position;

    memcpy(&position, log->bytes, sizeof(position));
    return position;
}

struct ledger_bytes ledger_unanswered(const struct shared_string *log, uint64_t answered) {
    uint64_t from = log ? ledger_log_position(log) : 0;
    size_t skip = answered > from ? (size_t) (answered - from) : 0;

    if (!log || skip >= log->tail_length)
        return (struct ledger_bytes){NULL, 0};
    return (struct ledger_bytes){shared_string_tail(log) + skip, log->tail_length - skip};
}

size_t ledger_log_room(const struct ledger *ledger, uint32_t slot) {
    const struct ledger_session *session = session_at(ledger, slot);

    return LEDGER_LOG_BYTES_MAX - ledger_unanswered(text_at(ledger, session->log), session->answered).length;
}

static void mark_incomplete(struct ledger_session *session, uint64_t until) {
    if (!session->incomplete || session->incomplete_until < until)
        session->incomplete_until = until;
    PUBLISH(session->incomplete, true);
}

static bool keep(struct ledger *ledger, struct ledger_session *session, uint64_t position, size_t length,
                 instant_ns now_ns) {
    struct ledger_bytes old = ledger_unanswered(text_at(ledger, session->log), session->answered);
    uint64_t from = position - old.length;
    char bytes[LEDGER_LOG_BYTES_MAX];

    if (session->incomplete || old.length + length > sizeof(bytes))
        return false;
    if (old.length > 0)
        memcpy(bytes, old.bytes, old.length);
    memcpy(bytes + old.length, ledger->header->scratch, length);
    struct shared_string *log =
        shared_string_new(&ledger->texts, &from, sizeof(from), bytes, old.length + length);
    if (!log)
        return false;
    if (old.length == 0)
        session->asked_ns = now_ns;
    uint32_t before = session->log;
    PUBLISH(session->log, place_of(ledger, log));
    text_drop(ledger, before);
    return true;
}

void ledger_accepted(struct ledger *ledger, uint32_t slot, uint64_t position, instant_ns asked_ns) {
    struct ledger_session *session = session_at(ledger, slot);

    session->asked_ns = asked_ns;
    PUBLISH(session->accepted, position + 1);
}

void ledger_forget_accepted(struct ledger *ledger, uint32_t slot, instant_ns asked_ns) {
    struct ledger_session *session = session_at(ledger, slot);

    if (session->asked_ns == asked_ns)
        PUBLISH(session->accepted, 0);
}

void ledger_received(struct ledger *ledger, uint32_t slot, uint64_t position, size_t length,
                     instant_ns now_ns) {
    struct ledger_session *session = session_at(ledger, slot);

    assert(length <= LEDGER_SCRATCH_BYTES);
    if (length > 0 && !keep(ledger, session, position, length, now_ns))
        mark_incomplete(session, position + length);
    PUBLISH(ledger->header->receiving.session, 0);
}

/* --- sending --- */

struct ledger_transfer *ledger_send(struct ledger *ledger, uint32_t slot, const struct ledger_state *state,
                                    size_t bytes) {
    const struct ledger_session *session = session_at(ledger, slot);
    struct ledger_transfer *sending = &ledger->header->sending;

    assert(bytes > 0 && bytes <= UINT32_MAX);
    begin(sending, session->id, ledger->header->count_at,
          &(struct ledger_transfer){
              .position = state->answered,
              .flush = session->flush + 1,
              .bytes = (uint32_t) bytes,
              .protocol = state->protocol,
              .pushes = state->pushes,
              .page = state->page,
          });
    return sending;
}

void ledger_tear(struct ledger *ledger, uint32_t slot) {
    PUBLISH(session_at(ledger, slot)->torn, true);
}

void ledger_not_sent(struct ledger *ledger) {
    PUBLISH(ledger->header->sending.session, 0);
}

void ledger_sent(struct ledger *ledger, uint32_t slot, const struct ledger_state *state) {
    struct ledger_session *session = session_at(ledger, slot);
    uint32_t dead = session->first_dead;

    session->protocol = state->protocol;
    session->pushes = state->pushes;
    session->page = state->page;
    session->answered = state->answered;
    session->flush++;
    PUBLISH(session->torn, false);
    PUBLISH(ledger->header->sending.session, 0);
    session->first_dead = 0;
    free_chain(ledger, dead);
    if (session->log != 0 && ledger_unanswered(text_at(ledger, session->log), session->answered).length == 0)
        drop_log(ledger, session);
    if (session->incomplete && session->answered >= session->incomplete_until)
        PUBLISH(session->incomplete, false);
}

/* --- its entries --- */

uint32_t ledger_add(struct ledger *ledger, uint32_t slot, const struct ledger_entry *entry, const char *head,
                    size_t head_length, const char *tail, size_t tail_length) {
    struct ledger_session *session = session_at(ledger, slot);
    struct shared_string *text = shared_string_new(&ledger->texts, head, head_length, tail, tail_length);
    uint32_t index = text ? pool_take(&ledger->entries) : POOL_NONE;

    assert(entry->kind != LEDGER_FREE);
    if (index == POOL_NONE) {
        (void) shared_string_unref(&ledger->texts, text);
        mark_incomplete(session, UINT64_MAX);
        ledger->header->leaky = true;
        return 0;
    }
    struct ledger_entry *at = pool_at(&ledger->entries, index), fresh = *entry;
    fresh.pool_link = at->pool_link;
    fresh.kind = LEDGER_FREE; /* until the entry is whole */
    fresh.session = session->id;
    fresh.text = place_of(ledger, text);
    fresh.born = session->flush + 1;
    fresh.granted = entry->kind == LEDGER_HELD ? fresh.born : 0;
    fresh.died = 0;
    fresh.previous = 0;
    fresh.next = session->first;
    *at = fresh;
    if (at->next != 0)
        ledger_at(ledger, at->next)->previous = index + 1;
    session->first = index + 1;
    ledger->header->generation =
        generation_latest(ledger->header->generation, (uint32_t) (entry->request >> REQUEST_INDEX_BITS));
    PUBLISH(at->kind, entry->kind);
    return index + 1;
}

uint32_t ledger_first(const struct ledger *ledger, uint32_t slot) {
    return session_at(ledger, slot)->first;
}

void ledger_granted(struct ledger *ledger, uint32_t slot, uint32_t entry) {
    struct ledger_entry *at = ledger_at(ledger, entry);

    assert(at->kind == LEDGER_WAITING);
    PUBLISH(at->granted, session_at(ledger, slot)->flush + 1);
}

void ledger_set_risk(struct ledger *ledger, uint32_t slot, uint32_t entry, uint8_t risk) {
    struct ledger_entry *at = ledger_at(ledger, entry);
    uint16_t flush = (uint16_t) (session_at(ledger, slot)->flush + 1);

    if (at->risk_flush != flush) {
        PUBLISH(at->former_risk, at->risk);
        PUBLISH(at->risk_flush, flush);
    }
    PUBLISH(at->risk, risk);
}

static void unlink_entry(struct ledger *ledger, struct ledger_session *session, uint32_t entry) {
    struct ledger_entry *at = ledger_at(ledger, entry);

    if (at->previous != 0)
        ledger_at(ledger, at->previous)->next = at->next;
    else
        session->first = at->next;
    if (at->next != 0)
        ledger_at(ledger, at->next)->previous = at->previous;
    at->next = at->previous = 0;
}

void ledger_end(struct ledger *ledger, uint32_t slot, uint32_t entry) {
    struct ledger_session *session = session_at(ledger, slot);

    if (entry == 0)
        return;
    struct ledger_entry *at = ledger_at(ledger, entry);
    assert(at->session == session->id && at->died == 0);
    unlink_entry(ledger, session, entry);
    at->next = session->first_dead;
    session->first_dead = entry;
    PUBLISH(at->died, session->flush + 1);
}
