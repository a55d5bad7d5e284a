/* All limits of redlockd, and the relations between them. */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    NODES_MAX = 15,                      /* configured Redis masters */
    KEEPERS_MAX = 16,                    /* extension threads */
    NAME_BYTES_MAX = 512,                /* a lease's name */
    DATA_BYTES_MAX = 1024,               /* ACQUIRE's DATA */
    RULES_MAX = 64,                      /* sections "rule" of the configuration */
    KEY_AFFIX_BYTES_MAX = 64,            /* what key_format puts before or after the name */
    SECRET_BYTES = 20,                   /* random part of a lock value: 40 hex digits on the nodes */
    SECRET_LEASE_BYTES = 18,             /* of these: the same in all values of a lease (lock-value.h) */
    IDENTITY_BYTES_MAX = 96,             /* ":host:agent" within a lock value */
    PREDECESSORS_MAX = 32,               /* former processes whose leases are searched for */
    BATCH_NAMES_MAX = 128,               /* names in one script call: bounds its time on the node */
    BATCH_ACQUIRES_MAX = 64,             /* the same for acquisitions, which take more than twice as long */
    REQUEST_ITEMS_MAX = 32,              /* items of one request */
    REQUEST_ITEM_BYTES_MAX = 4096,       /* bytes of one item */
    REQUEST_SKIPPED_BYTES_MAX = 1 << 20, /* skipped of a larger request, before its session ends */
    SESSION_OUTPUT_BYTES_MAX = 256 * 1024, /* unread replies before the session ends */
    SESSION_DESCRIPTORS = 3,    /* of a session: its socket, its process, and its page until that is sent */
    SESSION_SLOT_BITS = 20,     /* of a session's id: the slot of its connection */
    REQUEST_INDEX_BITS = 20,    /* of a request's id: its slot in the registry */
    REQUEST_SLOTS_MIN = 4096,   /* slots in the registry: enough that generations never run ahead of time */
    ADMITTED_MAX = 512,         /* requests in their first attempt at a time, */
    ADMITTED_USER_MAX = 256,    /* of one user, */
    ADMITTED_SESSION_MAX = 128, /* of one session, */
    ADMITTED_SHARED_MAX = 32,   /* and of a user while another one asks, whose request waits for these */
    ASKING_SESSION_MAX = 2048,  /* held back requests included: beyond this a session is not read, */
    ASKING_USER_MAX = 8192,     /* and beyond this, the user's sessions with more than a share are not */
    ASKING_SHARE = 16,
    QUERIES_USER_MAX = 32,           /* LEADER, of one user, under way: further ones wait in sessions */
    OBSERVE_USER_QUERIES_MAX = 64,   /* the same of the names that its sessions observe: the others wait */
    LEASES_PAGE = 256,               /* entries of one LEASES reply */
    COOLING_NAMES_MAX = 1024,        /* cooling names that are listed */
    OBSERVED_NAMES_MAX = 4096,       /* names observed at a time */
    OBSERVATIONS_MAX = 1 << 16,      /* observers of all names together */
    SESSION_OBSERVATIONS_MAX = 1024, /* names that one session observes */
    OBSERVE_QUERIES_MAX = 512,       /* leader queries for observers at a time: the others are for LEADER */

    TTL_MS_MIN = 100,
    TTL_MS_MAX = 24 * 60 * 60 * 1000,
    NODE_TIMEOUT_MS_MIN = 5, /* the default time-out: ttl/20 between these */
    NODE_TIMEOUT_MS_MAX = 100,
    ANSWER_NODE_TIMEOUTS = 3, /* a request that does not wait is answered within so many time-outs */
    NODE_BACK_US_MAX = 5000,  /* after a node's return or loss, retries and extensions spread over this */
    NODE_STALLED_MS = 1000,   /* silence with requests outstanding: no longer asked, shown as failed */
    NODE_SLOW_MS = 1500,      /* age of an outstanding request: the node is slow (core/window.h) */
    NODE_ATTEMPTS_MAX = 512,  /* names under way to a node: no more attempts there, */
    NODE_RELEASES_MAX = 2 * NODE_ATTEMPTS_MAX, /* nor releases: core/window.h */
    NODE_QUEUE_MS = 50, /* the same while a request is older, and more names are under way than: */
    NODE_FEW_NAMES = 64,
    NODE_ANSWER_BYTES_MAX = 1 << 20, /* of one answer: beyond it the connection is closed */
    NODE_ANSWER_ELEMENTS_MAX = 1024, /* the scripts' answers have fewer than 300 */
    NODE_ANSWER_DEPTH_MAX = 5,       /* the answers of the scripts and of ROLE have three */
    NODE_CUT_MS = 5000,              /* silence after which the connection is closed */
    NODE_REFUSAL_MS = 10 * 1000,     /* so long a refused write counts, unless the node executes one */
    TOKEN_RAISES_MAX = 3,            /* rounds of one attempt that raise its token */
    HANDOFFS_MAX = 64,         /* in a row on one host while another waits; as many tokens are reserved */
    HANDOFFS_ALONE_MAX = 4096, /* the same while no other host is known to wait */
    GRANT_READ_MS = 2000,      /* or the ttl, if less: by then a client has read its grant */
    HANDOFF_MS = 50,           /* hand-offs end so long after the acquisition: other hosts get their turn */
    FOREIGN_CONTENDER_MS = 30000, /* agents leave pauses so long after they met another program's value */
    FENCE_SKEW_MS_MIN = 1000,
    FENCE_SKEW_MS_MAX = 24 * 60 * 60 * 1000,
    FENCE_RETENTION_MS_MIN = 60 * 60 * 1000,
    /* Nodes get a held lease's token again with the first extension after this time. Extensions come at
     * least as often: so a node may miss one, and has the token again within FENCE_RETENTION_MS_MIN. */
    TOKEN_REFRESH_MS = FENCE_RETENTION_MS_MIN / 6,
    QUARANTINE_MARGIN_MS = 1000, /* on top of max_ttl and its drift */
    PROBE_MS = 1000, /* between probes of a quarantined node, which another agent may have blessed */
    PROBE_TRUSTED_MS = 10 * 1000, /* a trusted node is probed so long after its last answer with its clock */
    PROBE_BUSY_MS = 60 * 1000,    /* and so long after the last probe, for what only probes read */
    AMENDMENT_PAUSE_MS = 10 * 60 * 1000, /* between amendments that shorten leases */
    AMENDMENT_RETRY_MS = 60 * 60 * 1000, /* from a withdrawn proposal to the next one */
    AMENDMENT_TURN_MS = 25 * 1000,       /* from one node's proposal to the next's: two probes, and more */
    DRIFT_DIVISOR = 100,                 /* drift = ttl/100 + 2 ms: the clocks' rates may differ by 1 % */
    DRIFT_FIXED_MS = 2,
    CLOCK_SLACK_MS = DRIFT_FIXED_MS, /* smaller steps of a clock are ignored */
};

enum { EXTENSION_TURN_NAMES = 4 * BATCH_NAMES_MAX }; /* extensions of one turn, unless more are due */
enum { RELEASES_TURN = 256 };                        /* after cooldowns, of one turn */

static_assert(TTL_MS_MIN > TTL_MS_MIN / DRIFT_DIVISOR + DRIFT_FIXED_MS + NODE_TIMEOUT_MS_MIN,
              "the shortest lease leaves validity after one node time-out");
#define FENCE_RETENTION_MS_MAX (INT64_C(366) * 24 * 60 * 60 * 1000)

static_assert(BATCH_ACQUIRES_MAX <= BATCH_NAMES_MAX, "a batch has room for their tickets");
static_assert(HANDOFFS_ALONE_MAX < FENCE_SKEW_MS_MIN * 1000 / 16,
              "a block of tokens is short against fence_skew");
static_assert(ADMITTED_SHARED_MAX < ADMITTED_SESSION_MAX,
              "a user that shares has less than one of its sessions alone");
static_assert(ADMITTED_SESSION_MAX < ADMITTED_USER_MAX && ADMITTED_USER_MAX < ADMITTED_MAX,
              "no session takes all of its user's room, and no user takes all");
static_assert(NODE_STALLED_MS < NODE_SLOW_MS, "a node that is silent is stalled, not slow");
static_assert(ADMITTED_MAX <= NODE_ATTEMPTS_MAX, "requests usually wait in the front, in order");
static_assert(NODE_STALLED_MS < NODE_CUT_MS, "a stalled node has time before its connection is closed");
