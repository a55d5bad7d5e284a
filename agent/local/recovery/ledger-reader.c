#include "local/recovery/ledger-reader.h"

#include <string.h>

#include "core/event.h"

bool ledger_reader_init(struct ledger_reader *reader, const void *memory, size_t bytes) {
    const struct ledger_header *header = memory;

    if (bytes < sizeof(*header))
        return false;
    const struct ledger_size size = {.sessions = header->sessions, .entries = header->entries};
    if (size.sessions > LEDGER_SLOT_MASK || size.entries > LEDGER_ENTRIES_MAX)
        return false;
    const struct ledger_header expected = ledger_layout(&size);
    if (memcmp(header, &expected, offsetof(struct ledger_header, count_at)) != 0 ||
        expected.bytes != bytes || header->count_at > LEDGER_MESSAGE_BYTES - sizeof(unsigned) ||
        !memchr(header->agent, '\0', sizeof(header->agent)) ||
        !memchr(header->host, '\0', sizeof(header->host)))
        return false;
    for (unsigned i = 0; i < PREDECESSORS_MAX; i++)
        if (!memchr(header->predecessors[i].agent, '\0', sizeof(header->predecessors[i].agent)))
            return false;
    *reader = (struct ledger_reader){.header = header, .bytes = bytes};
    return true;
}

static const void *at_offset(const struct ledger_reader *reader, uint64_t offset) {
    return (const unsigned char *) reader->header + offset;
}

/* NULL: not wholly within the ledger. */
static const struct shared_string *read_text(const struct ledger_reader *reader, uint32_t place) {
    uint64_t at = reader->header->texts_at + (uint64_t) (place - 1) * SHARED_STRING_UNIT_BYTES;

    if (place == 0 || at + sizeof(struct shared_string) > reader->bytes)
        return NULL;
    const struct shared_string *text = at_offset(reader, at);
    size_t length = (size_t) text->head_length + text->tail_length;
    return length <= SHARED_STRING_BYTES_MAX &&
                   at + offsetof(struct shared_string, bytes) + length <= reader->bytes
               ? text
               : NULL;
}

static const struct ledger_session *raw_session(const struct ledger_reader *reader, uint32_t slot) {
    const struct ledger_session *sessions = at_offset(reader, reader->header->sessions_at);

    return slot < reader->header->sessions ? &sessions[slot] : NULL;
}

/* The kernel's count of bytes. */
static unsigned count_of(const struct ledger_reader *reader, const struct ledger_transfer *transfer) {
    unsigned count;

    memcpy(&count, transfer->message + reader->header->count_at, sizeof(count));
    return count;
}

/* True if the session's flush under way was sent. */
static bool was_sent(const struct ledger_reader *reader, const struct ledger_session *session) {
    const struct ledger_transfer *sending = &reader->header->sending;

    return sending->session == session->id && count_of(reader, sending) == sending->bytes;
}

static bool was_torn(const struct ledger_reader *reader, const struct ledger_session *session) {
    const struct ledger_transfer *sending = &reader->header->sending;

    if (was_sent(reader, session))
        return false;
    return session->torn || (sending->session == session->id && count_of(reader, sending) > 0);
}

static uint64_t flushes_of(const struct ledger_reader *reader, const struct ledger_session *session) {
    return was_sent(reader, session) ? reader->header->sending.flush : session->flush;
}

/* Unanswered requests: those of the log, and bytes just received. False: the log is not sound. */
static bool read_unanswered(const struct ledger_reader *reader, const struct ledger_session *session,
                            uint64_t answered, struct ledger_bytes ret[2]) {
    const struct ledger_transfer *receiving = &reader->header->receiving;
    const struct shared_string *log = session->log ? read_text(reader, session->log) : NULL;
    unsigned count = receiving->session == session->id ? count_of(reader, receiving) : 0;

    ret[0] = ret[1] = (struct ledger_bytes){NULL, 0};
    if (session->log && (!log || log->head_length != sizeof(uint64_t)))
        return false;
    uint64_t end = log ? ledger_log_position(log) + log->tail_length : answered;
    if (log && (ledger_log_position(log) > answered || end < ledger_log_position(log)))
        return false;
    ret[0] = ledger_unanswered(log, answered);
    if (count == 0 || receiving->position < end)
        return true; /* in the log already */
    if (count > LEDGER_SCRATCH_BYTES || receiving->position != (end > answered ? end : answered))
        return false;
    ret[1] = (struct ledger_bytes){(const char *) reader->header->scratch, count};
    return true;
}

/* True if the generation is valid. */
static bool is_id(uint64_t id) {
    return id >> SESSION_SLOT_BITS != 0 && id >> SESSION_SLOT_BITS <= UINT32_MAX;
}

bool ledger_reader_session(const struct ledger_reader *reader, uint32_t slot,
                           struct ledger_reader_session_view *ret) {
    const struct ledger_session *session = raw_session(reader, slot);
    const struct ledger_transfer *sending = &reader->header->sending;

    if (!session || (session->id & LEDGER_SLOT_MASK) != slot || !is_id(session->id))
        return false;
    bool sent = was_sent(reader, session);
    struct ledger_reader_session_view view = {
        .id = session->id,
        .state = {.answered = sent ? sending->position : session->answered,
                  .protocol = sent ? sending->protocol : session->protocol,
                  .pushes = sent ? sending->pushes : session->pushes,
                  .page = sent ? sending->page : session->page},
    };
    view.whole = !was_torn(reader, session) &&
                 !(session->incomplete && view.state.answered < session->incomplete_until) &&
                 (view.state.protocol == 2 || view.state.protocol == 3) &&
                 memchr(session->name, '\0', sizeof(session->name)) &&
                 read_unanswered(reader, session, view.state.answered, view.unanswered);
    if (view.whole)
        memcpy(view.name, session->name, sizeof(view.name));
    if (view.whole && view.unanswered[0].length > 0) {
        view.asked_ns = session->asked_ns; /* otherwise of an answered request */
        view.accepted = session->accepted > view.state.answered ? session->accepted : 0;
    }
    *ret = view;
    return true;
}

bool ledger_reader_entry(const struct ledger_reader *reader, uint32_t index,
                         struct ledger_reader_entry_view *ret) {
    const struct ledger_entry *entries = at_offset(reader, reader->header->entries_at);

    if (index >= reader->header->entries || entries[index].kind == LEDGER_FREE ||
        entries[index].kind > LEDGER_OBSERVED)
        return false;
    struct ledger_reader_entry_view view = {.entry = entries[index]};
    const struct ledger_entry *entry = &view.entry;
    const struct shared_string *text = read_text(reader, entry->text);
    const struct ledger_session *session =
        raw_session(reader, (uint32_t) (entry->session & LEDGER_SLOT_MASK));
    if (!text || text->head_length == 0 || text->head_length > NAME_BYTES_MAX)
        return false;
    if (!session || session->id == 0 || session->id != entry->session)
        return false; /* its session was closed */
    uint64_t flushes = flushes_of(reader, session);
    if (entry->died != 0 && entry->died <= flushes)
        return false;
    view.unreported = entry->granted > flushes;
    /* (No client gets the reply to a torn session's push: what the agent knows counts.) */
    if (entry->risk_flush == (uint16_t) (flushes + 1) && entry->former_risk <= REASON_COUNT &&
        !was_torn(reader, session))
        view.entry.risk = entry->former_risk;
    if (entry->born > flushes)
        view.entry.kind = LEDGER_FREE;
    else if (entry->granted != 0 && !view.unreported)
        view.entry.kind = LEDGER_HELD;
    if (view.entry.kind == LEDGER_FREE && !view.unreported)
        return false;
    view.name = text->bytes;
    view.name_length = text->head_length;
    view.tail = shared_string_tail(text);
    view.tail_length = text->tail_length;
    *ret = view;
    return true;
}
