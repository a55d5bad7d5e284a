/* Reads the ledger of a former process. The reader trusts nothing in it: a ledger with another version, or
 * an impossible size or place, is rejected as a whole. */
#pragma once

#include "local/recovery/ledger.h"

struct ledger_reader {
    const struct ledger_header *header;
    size_t bytes;
};

/* False: not a whole ledger of this version. */
bool ledger_reader_init(struct ledger_reader *reader, const void *memory, size_t bytes);

struct ledger_reader_session_view {
    uint64_t id;
    bool whole; /* its state is certain: it can be restored */
    struct ledger_state state;
    instant_ns asked_ns; /* of the oldest unanswered request; 0: unknown */
    uint64_t accepted;   /* position of an unanswered request that was accepted, + 1; 0: none */
    struct ledger_bytes unanswered[2]; /* requests to be read again */
    char name[LEDGER_NAME_BYTES];
};

/* The session in this slot. False: there is none. */
bool ledger_reader_session(const struct ledger_reader *reader, uint32_t slot,
                           struct ledger_reader_session_view *ret);

/* An entry as the session's client knows it. */
struct ledger_reader_entry_view {
    struct ledger_entry entry; /* kind: as the client knows; LEDGER_FREE: unknown to it */
    bool unreported; /* granted, and the client does not know: no client considers the lease valid */
    const char *name, *tail;
    uint16_t name_length, tail_length;
};

/* The entry with this index. False: there is none, or it has no effect. */
bool ledger_reader_entry(const struct ledger_reader *reader, uint32_t index,
                         struct ledger_reader_entry_view *ret);
