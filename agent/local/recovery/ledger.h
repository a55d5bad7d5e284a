/* The ledger: what each client has received, in memory that outlives the process. After a crash, an upgrade
 * or a restart the next process continues from it. Written by the front thread; the memory is the caller's
 * (a memfd that the service manager keeps, with the clients' sockets).
 *
 * The ledger records the clients' knowledge, not the agent's. A change of a session's leases is noted with
 * the number of the flush that reports it, and counts once that flush is sent: so at whatever instruction
 * the process is killed, the ledger agrees with what the client received. The kernel itself notes that a
 * flush is sent, in the same system call: sendmmsg(2) writes the number of bytes into the ledger
 * (`ledger_transfer.message`), and recvmmsg(2) does the same for bytes received. Requests without an answer
 * are kept too, and the next process reads them again (ledger-reader.h). */
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
    LEDGER_VERSION = 10,
    LEDGER_ENTRIES_MAX = 1 << 23,
    LEDGER_NAME_BYTES = 72,
    LEDGER_MESSAGE_BYTES = 64,
    LEDGER_LOG_BYTES_MAX = SHARED_STRING_BYTES_MAX - (int) sizeof(uint64_t), /* of unanswered requests */
    LEDGER_SCRATCH_BYTES = 64 * 1024,
};

/* A system call under way that sends or receives bytes of a session. */
struct ledger_transfer {
    uint64_t session;  /* id; 0: none is under way */
    uint64_t position; /* in the stream of requests. Receiving: of the next byte. Sending: of the first byte
                          without an answer once it is sent */
    uint64_t flush;    /* sending: number of the flush */
    uint32_t bytes;    /* sending: length */
    uint8_t protocol;  /* sending: the session's state once it is sent */
    uint8_t pushes, page;
    _Alignas(8) unsigned char message[LEDGER_MESSAGE_BYTES]; /* struct mmsghdr */
};

enum ledger_kind { LEDGER_FREE, LEDGER_WAITING, LEDGER_HELD, LEDGER_OBSERVED };

/* Why an entry ends with the next flush, as bits. */
enum {
    LEDGER_HANDED_OFF = 1, /* the client has released the lease, and another session has the keys */
    LEDGER_RELEASED = 2,   /* the client has released the lease, or withdrawn the request */
    LEDGER_LEFT_OUT = 4,   /* not restored: the client gets `lost` or `failed` */
};

/* A lease, a waiting request, or an observed name. */
struct ledger_entry {
    uint32_t pool_link;
    uint32_t next, previous; /* in the session's list: index + 1 */
    uint32_t text;           /* name and "pid:uid:data": its place in SHARED_STRING_UNIT_BYTES, + 1 */
    uint8_t kind;            /* enum ledger_kind; written last */
    uint8_t risk;            /* 1 + enum reason while at risk */
    uint8_t resumable, resume, try_once; /* truths are bytes, as a ledger may have any value there */
    uint8_t former_risk;                 /* until the flush that reports the risk, */
    uint16_t risk_flush;                 /* which has this number modulo 65,536 */
    struct lease_terms terms;
    int32_t page_slot;
    int32_t pid;
    uint32_t uid;
    uint8_t
        secret[SECRET_BYTES]; /* held: the random part in its client's grant. Waiting: the one to resume */
    uint8_t acquired[SECRET_BYTES]; /* held: in the keys since the acquisition: handoff.h */
    uint16_t handoffs;              /* since the acquisition */
    uint8_t ending;                 /* LEDGER_HANDED_OFF and so on, until that is answered; 0: goes on */
    uint8_t read;                   /* held: its client has read the grant */
    uint8_t moved;                  /* held: its keys are of a former process's key_format */
    uint64_t request;               /* id */
    uint64_t session;               /* id */
    uint64_t born, granted, died;   /* numbers of flushes; 0: not yet */
    int64_t token;
    instant_ns asked_ns, wait_until_ns, hold_until_ns;
    instant_ns cooldown_until_ns; /* granted; 0: no cooldown */
    instant_ns deadline_ns;
};

struct ledger_session {
    uint64_t id;       /* 0: none */
    uint64_t flush;    /* the last one sent */
    uint64_t answered; /* position of the first byte without an answer */
    uint32_t log;      /* received bytes without an answer, behind their position; place + 1 */
    uint32_t first, first_dead;
    uint8_t protocol, pushes, page;
    uint8_t torn;       /* a flush was sent in part */
    uint8_t incomplete; /* part of its state is missing, for want of room */
    uint64_t incomplete_until;
    uint64_t accepted;   /* position of the latest request that was accepted and is not over, + 1; 0: none */
    instant_ns asked_ns; /* when the oldest unanswered request was accepted, or came */
    char name[LEDGER_NAME_BYTES];
};

/* A process whose ledger this process, or one between them, continued. */
struct ledger_predecessor {
    char agent[16];      /* empty: none, and none follows */
    instant_ns until_ns; /* by then its last key has expired */
    uint8_t spared;      /* none of its keys is deleted: core/foreign-key.h */
};

struct ledger_header {
    uint64_t magic;
    uint32_t version, header_bytes, session_bytes, entry_bytes;
    uint32_t sessions, entries;
    uint64_t sessions_at, entries_at, texts_at, bytes;
    uint32_t count_at;   /* offset of the kernel's byte count in a transfer's message */
    uint32_t generation; /* the latest of a request's id */
    uint32_t session_generation;
    uint64_t sequence;        /* one more than the former ledger's */
    instant_ns lost_until_ns; /* the latest end of leases without an entry: lost before the deadline,
                                 lingering, or cooling down; not of a RESUME under way */
    uint8_t leaky;            /* some leases are missing, for want of room */
    uint8_t resumes;          /* the process has sent RESUMEs of clients to the nodes, or will */
    char agent[16];
    char host[IDENTITY_BYTES_MAX];
    uint64_t key_format;                                      /* its hash */
    struct ledger_predecessor predecessors[PREDECESSORS_MAX]; /* the latest first */
    struct ledger_transfer sending, receiving;
    unsigned char scratch[LEDGER_SCRATCH_BYTES]; /* received bytes */
};

struct ledger {
    struct ledger_header *header;
    struct ledger_session *sessions;
    struct pool entries;
    struct shared_string_pool texts;
};

/* The capacity. */
struct ledger_size {
    uint32_t sessions, entries;
};

struct ledger_identity {
    const char *agent, *host;
    uint64_t key_format; /* its hash */
    uint64_t sequence;
};

size_t ledger_bytes(const struct ledger_size *size);

/* `memory`: ledger_bytes() zeroed bytes, aligned to 4,096, which outlive the ledger. `count_at`: the offset
 * at which the kernel writes the byte count into a transfer's message. */
void ledger_init(struct ledger *ledger, const struct ledger_size *size, uint32_t count_at,
                 const struct ledger_identity *identity, void *memory);

/* Continues the former process's ids, even if nothing else of it is restored. */
void ledger_succeed(struct ledger *ledger, const struct ledger_header *past);

/* A RESUME of a client is sent to the nodes after this call. */
void ledger_note_resume(struct ledger *ledger);

/* Keys without an entry may exist until then. */
void ledger_note_lost_until(struct ledger *ledger, instant_ns until_ns);

/* --- a session --- */

void ledger_open(struct ledger *ledger, uint32_t slot, uint64_t id);

/* With all its entries. No effect if it is not open. */
void ledger_close(struct ledger *ledger, uint32_t slot);

void ledger_set_name(struct ledger *ledger, uint32_t slot, const char *name);

/* The session's request at this position of its stream was accepted at this instant. */
void ledger_accepted(struct ledger *ledger, uint32_t slot, uint64_t position, instant_ns asked_ns);

/* The session's request of this instant has failed, or its lease has ended. Another one that was accepted
 * since stays so: no two requests of a session have one instant. */
void ledger_forget_accepted(struct ledger *ledger, uint32_t slot, instant_ns asked_ns);

/* Call before bytes are received into header->scratch, from this position of the session's stream. */
struct ledger_transfer *ledger_receive(struct ledger *ledger, uint32_t slot, uint64_t position);

/* The bytes are received: keeps `length` bytes of the scratch, or none. */
void ledger_received(struct ledger *ledger, uint32_t slot, uint64_t position, size_t length,
                     instant_ns now_ns);

/* The number of unanswered bytes that may still be kept. */
size_t ledger_log_room(const struct ledger *ledger, uint32_t slot);

/* The session's state once the flush is sent. */
struct ledger_state {
    uint64_t answered;
    uint8_t protocol;
    bool pushes, page;
};

/* Call before all unsent output is sent, with one system call. */
struct ledger_transfer *ledger_send(struct ledger *ledger, uint32_t slot, const struct ledger_state *state,
                                    size_t bytes);

/* The output was sent in part, or is sent in parts: until ledger_sent(), the client's knowledge is unknown.
 * Or the agent closes the session while its process may consider its leases valid. */
void ledger_tear(struct ledger *ledger, uint32_t slot);

/* Nothing was sent. */
void ledger_not_sent(struct ledger *ledger);

/* Everything is sent. */
void ledger_sent(struct ledger *ledger, uint32_t slot, const struct ledger_state *state);

/* --- its entries --- */

/* Adds an entry, which the next flush reports; its text is head and tail. Fills in the places, the session's
 * id and the numbers of flushes. Returns its index + 1; 0: no room, and the session cannot be restored. */
uint32_t ledger_add(struct ledger *ledger, uint32_t slot, const struct ledger_entry *entry, const char *head,
                    size_t head_length, const char *tail, size_t tail_length);

static inline struct ledger_entry *ledger_at(const struct ledger *ledger, uint32_t entry) {
    return pool_at(&ledger->entries, entry - 1);
}

/* The session's newest entry, 0: none. Others follow by their `next`. */
uint32_t ledger_first(const struct ledger *ledger, uint32_t slot);

/* The next flush reports that a waiting entry is held. The caller has filled in the lease. */
void ledger_granted(struct ledger *ledger, uint32_t slot, uint32_t entry);

/* The next flush reports that the lease is at risk, or no longer. */
void ledger_set_risk(struct ledger *ledger, uint32_t slot, uint32_t entry, uint8_t risk);

/* The next flush reports that the entry is over. No effect for 0. */
void ledger_end(struct ledger *ledger, uint32_t slot, uint32_t entry);

/* --- for ledger-reader.c --- */

/* The places of all parts, for a ledger of this version. */
struct ledger_header ledger_layout(const struct ledger_size *size);

struct ledger_bytes {
    const char *bytes;
    size_t length;
};

/* The log of received bytes begins with its position in the stream. */
uint64_t ledger_log_position(const struct shared_string *log);

/* The bytes of the log, or NULL, without an answer. */
struct ledger_bytes ledger_unanswered(const struct shared_string *log, uint64_t answered);
