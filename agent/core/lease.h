/* A lease's life in its keeper: from the first attempt to the last key on the last node.
 *
 *   waiting ──▶ acquiring ─┬─────────▶ held ──▶ releasing ──▶ (forgotten)
 *      ▲            │      raising ──▶ ▲ │          ▲
 *      └────────────┴─────────┘ resuming └─▶ lost ──┘
 *
 * One lock value has one life. A failed attempt leaves its value to an *undo record*, a lease in `releasing`
 * without a request, and the request goes on with a fresh value. So an answer can only ever be counted for
 * the attempt that asked for it, and a key that may have been set is owed a release until it is confirmed or
 * has expired.
 *
 * A lease is resumed when its holder has outlived the agent that granted it: core/resume.h has how its
 * keys become ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/list.h"
#include "core/quorum.h"

struct shard;

enum lease_state {
    LEASE_FREE,      /* the slot is not in use */
    LEASE_WAITING,   /* between two attempts */
    LEASE_ACQUIRING, /* an attempt is under way */
    LEASE_RAISING,   /* a majority has the key, but not the fencing token yet */
    LEASE_RESUMING,  /* takes over, or is about to try again */
    LEASE_HELD,      /* from here on past attempts */
    LEASE_LOST,      /* told so before its deadline; its keys stay until then */
    LEASE_RELEASING, /* deleting its keys */
};

enum { LEAST_LEFT = 2 }; /* so many times are remembered */

struct lease {
    union {
        uint32_t pool_link; /* the pool's while the slot is free */
        uint32_t ttl_ms;
    };
    uint32_t
        serial; /* of the requests to the nodes: an answer with another serial is stale. Never goes back */
    uint64_t request; /* the front's number; 0 when it no longer waits for news */
    struct shared_string *text;
    uint8_t secret[SECRET_BYTES];
    uint8_t state;      /* enum lease_state */
    bool persist : 1;   /* go on trying until withdrawn */
    bool fencing : 1;   /* the grant gets a token */
    bool under_way : 1; /* a round is awaited: its time-out is due next */
    bool undecided : 1; /* held: an extension's answers may still make its majority, even after its time-out.
                           Waiting: more answers may tell why the attempt failed, see retry.h */
    bool extends : 1;   /* held: the round under way, or the last one, is an extension */
    bool split : 1;     /* the last attempt failed though no other has a majority */
    bool abandoned : 1; /* no more extensions */
    bool doubted : 1;   /* the last attempt met an orphan */
    bool changed : 1;   /* or a changed epoch */
    bool seen_type : 1; /* `seen` is a type, not a value */
    bool orphan : 1; /* releasing: another process's value, see stranger.h. The text's tail has all of it but
                        the random part */
    bool hoped : 1;  /* it waited for nodes that were not known yet: once */
    bool listens : 1;   /* between attempts: hears when the name may have become free */
    bool quiet : 1;     /* releasing: nobody need hear of it */
    bool held_back : 1; /* waiting, or releasing: until there is room at the nodes, see window.h */
    bool heard : 1;     /* releasing: somebody did, which was reported */
    node_set accepted;  /* acquiring: nodes that have accepted the token too */
    node_set maybe;     /* nodes that may have our value */
    struct quorum_round round;
    uint32_t node_timeout_ms;
    uint32_t heartbeat_ms;
    uint8_t splits;        /* attempts in a row that nobody won */
    uint8_t failure;       /* 1 + enum failure of the last attempt */
    uint8_t told_failure;  /* the same, of the last REPORT_CONTENDED */
    uint8_t raises;        /* tries of this attempt to have a token accepted */
    uint16_t token_more;   /* as many behind it are proposed, or reserved, with it */
    uint16_t spare_tokens; /* as many are wanted */
    int64_t token;         /* proposed, then granted; 0: none */
    instant_ns started_ns; /* just before the last round's first send that may have set or extended a key */
    instant_ns deadline_ns;
    union {
        instant_ns hold_until_ns; /* held */
        instant_ns held_back_ns;  /* waiting, and held back: since then */
    };
    /* What an attempt needs, and what comes of it: the same memory, which lease_is_past_attempts() tells
     * apart. It changes hands once, when the lease is granted or ends. */
    union {
        struct {
            struct shared_string
                *seen; /* while contended: the holder's value, or the key's type; else NULL */
            int64_t seen_ttl_ms;
            int64_t max_hold_ms;
            int64_t token_known; /* the largest that the front knows of the name */
            int64_t token_seen;  /* the largest one that stood in its way */
            node_set listening;  /* waiting: nodes that are listened to, */
            node_set covered;    /* since before the last attempt began */
            node_set freed;      /* and those that have told since then that the key may be gone */
            /* The least times left of foreign keys. UINT16_MAX: more, or no end; polls come sooner. */
            uint16_t least_left_ms[LEAST_LEFT];
            uint16_t seen_hash[NODES_MAX]; /* while acquiring: of each foreign value, to tell a split from a
                                              holder */
        };
        struct {
            struct list ending_link;      /* in shard->ending: lost, or releasing */
            struct shared_string *former; /* handed over: the text of the value before, as long as a node may
                                    have it; else NULL */
            instant_ns former_gone_ns;    /* by then no node has the former value */
            instant_ns extend_ns;         /* when the next extension is due */
            instant_ns beat_until_ns;
            uint8_t former_secret[SECRET_BYTES];
            uint8_t failures;   /* extensions that failed in a row */
            uint8_t risk;       /* 1 + enum reason of the last REPORT_AT_RISK; 0: not at risk */
            node_set stale;     /* nodes that may have the former value, see handover.h */
            node_set strangers; /* held: nodes with another's value, which was reported */
            node_set confirmed; /* of those released: gone for sure */
        };
    };
};

/* It is held, or over. */
static inline bool lease_is_past_attempts(const struct lease *lease) {
    return lease->state >= LEASE_HELD;
}

/* Tries for the first time, after a pause. */
void lease_begin(struct shard *shard, struct lease *lease, int64_t pause_ns, instant_ns now_ns);

/* Tries to take it over. Until then `deadline_ns` has no meaning. */
void lease_resume(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* A node's answer of the round under way. */
void lease_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                instant_ns now_ns);

/* A node tells that the name's key may be gone, or that it is listened to, since then: see retry.h. */
void lease_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);
void lease_listening(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                     instant_ns now_ns);

/* Something is due: retry, time-out, extension, deadline, end of the keys. */
void lease_tick(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Asks for an extension. */
void lease_extend(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder lets go, or withdraws. */
void lease_release(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Deletes the keys of a lease that nobody waits for, as far as they may stand: the nodes of `maybe`. */
void lease_discard(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* One that is being discarded stands at this node, too. */
void lease_discard_at(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* The request is over before the holder was told that it is held: its keys are left to their ttl. */
void lease_forget(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* The holder may live on without us: extend no more, and delete only after the deadline. */
void lease_abandon(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* `beat_ns`: when the holder was alive. */
void lease_beat(struct shard *shard, struct lease *lease, instant_ns beat_ns, instant_ns now_ns);

/* The node's keys may have ended before their time: its votes of the round under way are void, and for a
 * held lease the others are asked for an extension without waiting for the next one to be due. Not when it
 * is releasing. */
void lease_vote_is_void(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* Our clock stood still: the lease may have ended, whatever its deadline says. Only when held. */
void lease_outlived(struct shard *shard, struct lease *lease, instant_ns now_ns);

/* Releases that were held back go as far as there is room. */
void lease_release_backlog(struct shard *shard, instant_ns now_ns);

/* A node can be asked again. */
void lease_node_back(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns);

/* A node that was not known yet does not vote. */
void lease_node_out(struct shard *shard, struct lease *lease, instant_ns now_ns);
