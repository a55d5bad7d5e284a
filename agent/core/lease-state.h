/* The struct of a lease in its keeper. core/lease.h has its life. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/list.h"
#include "core/lease-terms.h"
#include "core/quorum.h"

enum lease_state {
    LEASE_FREE,      /* the slot is not in use */
    LEASE_WAITING,   /* between two attempts */
    LEASE_ACQUIRING, /* in an attempt */
    LEASE_RAISING,   /* a majority has the key, but not yet the fencing token */
    LEASE_RESUMING,  /* being resumed, or between two tries to resume */
    LEASE_HELD,      /* from here on past attempts */
    LEASE_LOST,      /* over for its holder; its keys stay until the deadline, or the end of the cooldown */
    LEASE_RELEASING, /* its keys are being deleted */
};

enum { LEASE_LEAST_LEFT = 2 };

struct lease {
    union {
        uint32_t pool_link; /* while the slot is free */
        struct lease_terms terms;
    };
    uint32_t serial;            /* of its rounds: a vote with another serial is stale. Never goes back */
    uint64_t request;           /* the front's number; 0: the front waits for no report */
    struct shared_string *text; /* name, and the tail of the lock value */
    uint8_t secret[SECRET_BYTES];
    uint8_t state;          /* enum lease_state */
    bool persist : 1;       /* tries until it is withdrawn */
    bool under_way : 1;     /* a round is open: its time-out is due next */
    bool undecided : 1;     /* held: late votes may still make an extension's majority. Resuming: the last
                               try asked nodes. Waiting: late votes may show why the attempt failed
                               (retry.h) */
    bool extends : 1;       /* held: the last round is an extension */
    bool split : 1;         /* the last attempt failed, and no other value has a majority */
    bool abandoned : 1;     /* no more extensions */
    bool unread : 1;        /* abandoned: its client has not read the grant */
    bool met_orphan : 1;    /* in the last attempt */
    bool epoch_changed : 1; /* in the last attempt, or try to resume */
    bool seen_type : 1;     /* `seen` is a type, not a value */
    bool orphan : 1;        /* releasing: a foreign key (foreign-key.h). The text's tail is all of the value
                               but the random part */
    bool searches : 1;      /* resuming: a lease of a former process of this agent */
    bool waited_for_nodes : 1; /* until each was examined: only once */
    bool listens : 1;          /* has a subscription (retry.h) */
    bool quiet : 1;            /* releasing: without a message to subscribers */
    bool held_back : 1;        /* waiting or releasing: until the nodes have room (window.h) */
    bool awaited : 1;          /* releasing: REPORT_AWAITED was sent */
    node_set maybe;            /* nodes that may have our value */
    struct quorum_round round;
    uint16_t token_more;   /* tokens proposed, or reserved, behind `token` */
    int64_t token;         /* proposed, then granted; 0: none */
    instant_ns started_ns; /* just before the first send of the last round that may set or extend a key */
    instant_ns deadline_ns;
    union {
        instant_ns hold_until_ns; /* held */
        instant_ns held_back_ns;  /* waiting, and held back: since then */
    };
    instant_ns cooldown_until_ns; /* keys that are set or extended live until then; 0: no cooldown */
    /* The fields of attempts and the fields of later states share memory: see
     * lease_state_is_past_attempts(). The change happens once, when the lease is granted or ends. */
    union {
        struct {
            struct shared_string *seen; /* contended: the holder's value, or the key's type; else NULL */
            int64_t seen_ttl_ms;
            union {
                int64_t token_known; /* acquiring: the largest token of the name that the front knows */
                instant_ns beat_ns;  /* resuming: the holder's last heartbeat; 0: the resume counts as one */
            };
            int64_t token_seen;           /* the largest that a node had instead of accepting ours */
            uint16_t spare_tokens;        /* tokens wanted behind it */
            uint8_t user;                 /* waiting: shares its polls (poll-share.h) */
            uint8_t splits;               /* attempts in a row that were split */
            uint8_t raises;               /* rounds of this attempt that raised the token */
            uint8_t failure : 4;          /* of the last attempt: 1 + enum failure */
            uint8_t reported_failure : 4; /* of the last REPORT_CONTENDED: 1 + enum failure */
            node_set accepted;            /* acquiring: nodes that have our value, and accepted the token */
            node_set listening;           /* waiting: nodes with a subscription, */
            node_set covered;             /* which began before the last attempt */
            node_set freed;               /* nodes whose message says that the key may be gone */
            /* The least times left of foreign keys. UINT16_MAX: more, or no expiry; polls come sooner. */
            uint16_t least_left_ms[LEASE_LEAST_LEFT];
            uint16_t seen_hash[NODES_MAX]; /* acquiring: of each foreign value; a split has several */
        };
        struct {
            struct list ending_link;      /* lost or releasing: in one of the shard's lists */
            struct shared_string *former; /* name and tail of the former value (key-refresh.h), while a node
                                             may have it; else NULL */
            instant_ns former_gone_ns;    /* by then no node has the former value */
            union {
                instant_ns extend_ns; /* held: the next extension */
                struct {
                    uint32_t ending_next, ending_before; /* lost or releasing: slot + 1 of the neighbours in
                                                          * its chain (shard-state.h); 0: none */
                };
            };
            instant_ns beat_until_ns; /* the next heartbeat is due */
            uint8_t former_secret[SECRET_BYTES];
            uint8_t failures;          /* extensions that failed in a row */
            uint8_t risk;              /* of the last REPORT_AT_RISK: 1 + enum reason; 0: not at risk */
            node_set stale;            /* nodes that may have the former value */
            node_set foreign_reported; /* held: nodes with another's value, which was reported */
            union {
                uint16_t foreign_watch; /* held: the foreign value of a node (foreign-key.h); 0: none */
                node_set confirmed;     /* releasing: nodes that surely have no key of ours */
            };
            uint32_t token_due_s;      /* held: then the nodes get its token again (key-refresh.h) */
        };
    };
};

static_assert(FAILURE_COUNT < 15, "a lease keeps a failure in four bits");

/* Held, or over. */
static inline bool lease_state_is_past_attempts(const struct lease *lease) {
    return lease->state >= LEASE_HELD;
}

static inline int64_t lease_state_ttl_ns(const struct lease *lease) {
    return (int64_t) lease->terms.ttl_ms * NS_PER_MS;
}

/* Over for its holder; a key may be left. */
static inline bool lease_state_is_ending(const struct lease *lease) {
    return lease->state == LEASE_LOST || lease->state == LEASE_RELEASING;
}

/* The ttl of keys that are set or extended now. */
static inline uint32_t lease_state_key_ttl_ms(const struct lease *lease, instant_ns now_ns) {
    int64_t left_ms = (lease->cooldown_until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

    return left_ms > lease->terms.ttl_ms ? (uint32_t) left_ms : lease->terms.ttl_ms;
}

static inline int64_t lease_state_node_timeout_ns(const struct lease *lease) {
    return (int64_t) lease->terms.node_timeout_ms * NS_PER_MS;
}
