/* A ledger without a front: written in one memory, and read from a copy, as after a kill. */
#pragma once

#include "local/recovery/ledger-reader.h"

enum { SESSIONS = 8, ENTRIES = 24, COUNT_AT = 56, REQUESTS = 16 };

extern const struct ledger_size ledger_size;
extern struct ledger ledger;
extern void *memory, *copy; /* of the ledger, and of its copy after a kill */
extern size_t memory_bytes;

/* The session in slot 1 is open. */
void ledger_harness_begin(void);
uint64_t session_id(unsigned slot);
uint64_t request_id(unsigned index);

/* The process is killed at this moment. */
struct ledger_reader killed(void);

/* The kernel has sent or received so many bytes. */
void kernel_counts(struct ledger_transfer *transfer, unsigned count);

/* Bytes of the session are received, from this position of its stream; the first function stops before the
 * kernel's count. */
struct ledger_transfer *receive_begins(unsigned slot, uint64_t position, const char *text);
void receive(unsigned slot, uint64_t position, const char *text, instant_ns now_ns);

/* A flush is sent as a whole. */
void send_all(unsigned slot, const struct ledger_state *state, size_t length);

/* An entry of the next flush. */
uint32_t add(unsigned slot, enum ledger_kind kind, unsigned index);
