#include "ledger-harness.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct ledger_size ledger_size = {.sessions = SESSIONS, .entries = ENTRIES};
struct ledger ledger;
void *memory, *copy;
size_t memory_bytes;

static const struct ledger_identity identity = {.agent = "00c0ffee", .host = "web1", .sequence = 3};

uint64_t session_id(unsigned slot) {
    return UINT64_C(5) << SESSION_SLOT_BITS | slot;
}

uint64_t request_id(unsigned index) {
    return UINT64_C(9) << REQUEST_INDEX_BITS | index;
}

void ledger_harness_begin(void) {
    free(memory);
    free(copy);
    memory_bytes = ledger_bytes(&ledger_size);
    memory = aligned_alloc(4096, (memory_bytes + 4095) / 4096 * 4096);
    copy = aligned_alloc(4096, (memory_bytes + 4095) / 4096 * 4096);
    assert(memory && copy);
    memset(memory, 0, memory_bytes);
    ledger_init(&ledger, &ledger_size, COUNT_AT, &identity, memory);
    ledger_open(&ledger, 1, session_id(1));
}

struct ledger_reader killed(void) {
    struct ledger_reader reader;

    memcpy(copy, memory, memory_bytes);
    assert(ledger_reader_init(&reader, copy, memory_bytes));
    return reader;
}

void kernel_counts(struct ledger_transfer *transfer, unsigned count) {
    memcpy(transfer->message + COUNT_AT, &count, sizeof(count));
}

struct ledger_transfer *receive_begins(unsigned slot, uint64_t position, const char *text) {
    struct ledger_transfer *transfer = ledger_receive(&ledger, slot, position);

    memcpy(ledger.header->scratch, text, strlen(text));
    return transfer;
}

void receive(unsigned slot, uint64_t position, const char *text, instant_ns now_ns) {
    kernel_counts(receive_begins(slot, position, text), (unsigned) strlen(text));
    ledger_received(&ledger, slot, position, strlen(text), now_ns);
}

void send_all(unsigned slot, const struct ledger_state *state, size_t length) {
    kernel_counts(ledger_send(&ledger, slot, state, length), (unsigned) length);
    ledger_sent(&ledger, slot, state);
}

uint32_t add(unsigned slot, enum ledger_kind kind, unsigned index) {
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
