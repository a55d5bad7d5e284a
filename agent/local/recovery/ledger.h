/* What each client has been told, in memory that outlives the agent: after a crash, an upgrade or a restart
 * the next process goes on from here. Pure, written by the front thread; the memory is the caller's (a memfd
 * that the service manager keeps, with the clients' sockets).
 *
 * The ledger shows the clients' knowledge, not the agent's. What has happened to a session's leases is noted
 * under the number of the flush that will tell it, and counts once that flush has been sent: so a client
 * that was told is in the ledger as one that knows, at whatever instruction the agent is killed. That the
 * flush was sent is noted by the kernel itself, in the same system call: sendmmsg(2) writes the count of the
 * bytes into memory of ours (`ledger_transfer.message`), and recvmmsg(2) does the same for what was read.
 * The bytes of requests that have no answer yet are kept too, and are read again by the next process.
 *
 * Whoever reads a ledger trusts nothing in it: another version, a size or a place that can't be is refused
 * as a whole. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/pool.h"
#include "base/shared-string.h"
#include "core/lease-terms.h"
#include "core/limits.h"

#define LEDGER_SLOT_MASK ((UINT64_C(1) << SESSION_SLOT_BITS) - 1)

enum {
    LEDGER_VERSION = 2,
    LEDGER_ENTRIES_MAX = 1 << 23,
    LEDGER_NAME_BYTES = 72,
    LEDGER_MESSAGE_BYTES = 64,
    LEDGER_LOG_BYTES_MAX =
        SHARED_STRING_BYTES_MAX - (int) sizeof(uint64_t), /* of requests without an answer */
    LEDGER_SCRATCH_BYTES = 64 * 1024,
};

/* A system call under way that moves bytes of a session. */
struct ledger_transfer {
    uint64_t session;  /* id; 0: none is under way */
    uint64_t position; /* receiving: in the stream of requests, of the first byte to come. Sending: of the
                          first byte that has no answer even then */
    uint64_t flush;    /* sending: its number */
    uint32_t bytes;    /* sending: in all */
    uint8_t protocol;  /* sending: the session's state from then on */
    uint8_t pushes, page;
    _Alignas(8) unsigned char message[LEDGER_MESSAGE_BYTES]; /* struct mmsghdr */
};

enum ledger_kind { LEDGER_FREE, LEDGER_WAITING, LEDGER_HELD, LEDGER_OBSERVED };

/* A lease, a request that waits for one beside others, or a name that is observed. */
struct ledger_entry {
    uint32_t pool_link;
    uint32_t next, previous; /* of the same session, index + 1 */
    uint32_t text;           /* name, then pid, uid and data; its place in units of 16 bytes, + 1 */
    uint8_t kind;            /* enum ledger_kind; written last */
    uint8_t risk;            /* 1 + enum reason while at risk */
    uint8_t resumable, resume, try_once; /* truths are bytes, as a ledger may have any value there */
    struct lease_terms terms;
    int32_t page_slot;
    int32_t pid;
    uint32_t uid;
    uint8_t secret[SECRET_BYTES];   /* held: what its holder was told; or to be resumed */
    uint8_t acquired[SECRET_BYTES]; /* held: in the keys since the acquisition: handoff.h */
    uint16_t handoffs;              /* since */
    uint8_t handed;                 /* over: its client has let go, and is yet to hear so */
    uint64_t request;               /* id */
    uint64_t session;               /* id */
    uint64_t born, granted, died;   /* numbers of flushes, 0: not yet */
    int64_t token;
    instant_ns asked_ns, wait_until_ns, hold_until_ns;
    instant_ns deadline_ns;
};

struct ledger_session {
    uint64_t id;       /* 0: none */
    uint64_t flush;    /* the last one that was sent */
    uint64_t answered; /* position of the first byte that has no answer */
    uint32_t log;      /* its position and bytes, as a text; place + 1 */
    uint32_t first, first_dead;
    uint8_t protocol, pushes, page;
    uint8_t torn;       /* a flush is sent in part */
    uint8_t incomplete; /* something of it found no room here */
    uint64_t incomplete_until;
    instant_ns asked_ns; /* of the oldest request without an answer */
    char name[LEDGER_NAME_BYTES];
};

struct ledger_header {
    uint64_t magic;
    uint32_t version, header_bytes, session_bytes, entry_bytes;
    uint32_t sessions, entries;
    uint64_t sessions_at, entries_at, texts_at, bytes;
    uint32_t count_at;   /* of the count of bytes in a transfer's message */
    uint32_t generation; /* the highest of any request's id */
    uint32_t session_generation;
    uint64_t sequence;        /* of a ledger and its successors */
    instant_ns lost_until_ns; /* of leases that were lost before their deadline, or linger: the latest */
    uint8_t leaky;            /* something found no room: there are leases that are not here */
    char agent[16];
    char host[IDENTITY_BYTES_MAX];
    struct ledger_transfer sending, receiving;
    unsigned char scratch[LEDGER_SCRATCH_BYTES]; /* what is received */
};

struct ledger {
    struct ledger_header *header;
    struct ledger_session *sessions;
    struct pool entries;
    struct shared_string_pool texts;
};

/* For how many it is made. */
struct ledger_size {
    uint32_t sessions, entries;
};

/* Another process's. */
struct ledger_reader {
    const struct ledger_header *header;
    size_t bytes;
};

struct ledger_identity {
    const char *agent, *host;
    uint64_t sequence;
};

size_t ledger_bytes(const struct ledger_size *size);

/* `memory`: that many zeroed bytes, aligned to 4,096, which outlive the ledger. `count_at`: the offset of
 * the count of bytes that the kernel writes into a transfer's message. */
void ledger_init(struct ledger *ledger, const struct ledger_size *size, uint32_t count_at,
                 const struct ledger_identity *identity, void *memory);

/* Ids go on where the former process's ended, also when nothing else of it goes on. */
void ledger_succeed(struct ledger *ledger, const struct ledger_reader *past);

/* --- a session --- */

void ledger_open(struct ledger *ledger, uint32_t slot, uint64_t id);

/* With everything of it. Nothing when it is not open. */
void ledger_close(struct ledger *ledger, uint32_t slot);

void ledger_set_name(struct ledger *ledger, uint32_t slot, const char *name);

/* Bytes are about to be received into header->scratch, from this position of the session's stream on. */
struct ledger_transfer *ledger_receive(struct ledger *ledger, uint32_t slot, uint64_t position);

/* They are here: keeps `length` bytes of the scratch, or none. `now_ns`: when they came. */
void ledger_received(struct ledger *ledger, uint32_t slot, uint64_t position, size_t length,
                     instant_ns now_ns);

/* How many bytes without an answer may still be kept. */
size_t ledger_log_room(const struct ledger *ledger, uint32_t slot);

/* What the session is once the flush is sent. */
struct ledger_state {
    uint64_t answered;
    uint8_t protocol;
    bool pushes, page;
};

/* All that is unsent is about to be sent, by one call. */
struct ledger_transfer *ledger_send(struct ledger *ledger, uint32_t slot, const struct ledger_state *state,
                                    size_t bytes);

/* It was sent in part, or goes in parts: until ledger_sent() nobody knows what the client has. Or the
 * session is closed by us, while its process may go on believing in its leases. */
void ledger_tear(struct ledger *ledger, uint32_t slot);

/* Nothing was sent. */
void ledger_not_sent(struct ledger *ledger);

/* Everything is sent. */
void ledger_sent(struct ledger *ledger, uint32_t slot, const struct ledger_state *state);

/* --- its entries --- */

/* Adds one of the session that the next flush tells of; `text` in two parts. Its index + 1, or 0 when there
 * is no room: then the session can't be handed on. The places, the session's id and the numbers of flushes
 * of `entry` are filled in. */
uint32_t ledger_add(struct ledger *ledger, uint32_t slot, const struct ledger_entry *entry, const char *head,
                    size_t head_length, const char *tail, size_t tail_length);

static inline struct ledger_entry *ledger_at(const struct ledger *ledger, uint32_t entry) {
    return pool_at(&ledger->entries, entry - 1);
}

/* The next flush tells that a waiting one is held: the caller has filled in what it is held by. */
void ledger_granted(struct ledger *ledger, uint32_t slot, uint32_t entry);

/* The next flush tells that it is over; nothing for 0. */
void ledger_end(struct ledger *ledger, uint32_t slot, uint32_t entry);

/* --- reading another process's --- */

/* False when it is not a ledger of this version, whole. */
bool ledger_reader_init(struct ledger_reader *reader, const void *memory, size_t bytes);

struct ledger_bytes {
    const char *bytes;
    size_t length;
};

struct ledger_session_view {
    uint64_t id;
    bool whole; /* nothing about it is in doubt: it can be handed on */
    struct ledger_state state;
    instant_ns asked_ns;               /* of the oldest that is unanswered, 0: not known */
    struct ledger_bytes unanswered[2]; /* requests, to be read again */
    char name[LEDGER_NAME_BYTES];
};

/* The session in this slot. False: none. */
bool ledger_read_session(const struct ledger_reader *reader, uint32_t slot, struct ledger_session_view *ret);

/* What the session's client knows. */
struct ledger_entry_view {
    struct ledger_entry entry; /* kind: as the client knows it; LEDGER_FREE: not at all */
    bool untold;               /* it was granted, and the client does not know: the keys are nobody's */
    const char *name, *tail;
    uint16_t name_length, tail_length;
};

/* The entry with this index. False: none, or none that matters. */
bool ledger_read_entry(const struct ledger_reader *reader, uint32_t index, struct ledger_entry_view *ret);
