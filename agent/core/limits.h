/* All limits of redlockd, and the relations between them. */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    NODES_MAX = 15,                /* configured Redis masters */
    KEEPERS_MAX = 16,              /* extension threads */
    NAME_BYTES_MAX = 512,          /* a lease's name */
    DATA_BYTES_MAX = 1024,         /* ACQUIRE's DATA */
    RULES_MAX = 64,                /* sections "rule" of the configuration */
    KEY_AFFIX_BYTES_MAX = 64,      /* what key_format puts before or after the name */
    SECRET_BYTES = 20,             /* random part of a lock value; 40 hex digits on the nodes */
    IDENTITY_BYTES_MAX = 96,       /* ":host:agent" within a lock value */
    BATCH_NAMES_MAX = 128,         /* names in one script call: bounds how long a node is busy with it */
    BATCH_ACQUIRES_MAX = 64,       /* the same to acquire: the work of a name is more than twice as much */
    REQUEST_ITEMS_MAX = 32,        /* items of one request */
    REQUEST_ITEM_BYTES_MAX = 4096, /* bytes of one item */
    REQUEST_SKIPPED_BYTES_MAX = 1 << 20,   /* of a request over these limits, before it ends its session */
    SESSION_OUTPUT_BYTES_MAX = 256 * 1024, /* unread replies before a session is ended */
    SESSION_SLOT_BITS = 20,                /* of a session's id: its place among the connections */
    REQUEST_INDEX_BITS = 20,               /* of a request's id: its place in the registry */
    REQUEST_SLOTS_MIN = 4096,   /* places in the registry, so that ids need not run ahead of time */
    ADMITTED_MAX = 512,         /* requests in their first attempt at a time, */
    ADMITTED_USER_MAX = 256,    /* of one user, */
    ADMITTED_SESSION_MAX = 128, /* of one session */
    ASKING_SESSION_MAX = 2048,  /* with those held back: beyond it, nothing more of a session is read, */
    ASKING_USER_MAX = 8192,     /* and beyond this, of the user's sessions that have more than a share */
    ASKING_SHARE = 16,
    ADMISSION_USERS = 256,           /* that are told apart */
    LEASES_PAGE = 256,               /* entries of one LEASES reply */
    OBSERVED_NAMES_MAX = 4096,       /* names that are observed at a time */
    OBSERVATIONS_MAX = 1 << 16,      /* observers of all names together */
    SESSION_OBSERVATIONS_MAX = 1024, /* names that one session observes */
    OBSERVE_LOOKS_MAX = 512,         /* questions for observers at a time: LEADER has the rest */

    TTL_MS_MIN = 100,
    TTL_MS_MAX = 24 * 60 * 60 * 1000,
    NODE_TIMEOUT_MS_MIN = 5, /* the automatic one: ttl/20 between these */
    NODE_TIMEOUT_MS_MAX = 100,
    ANSWER_NODE_TIMEOUTS = 3, /* a request that does not wait is answered within so many */
    NODE_STALLED_MS = 1000,   /* silence with requests outstanding: not asked any more, counts as failed */
    NODE_SLOW_MS = 1500,      /* age of a request outstanding: the node is asked for extensions only */
    NODE_ATTEMPTS_MAX = 512,  /* names under way to a node: no attempt begins there, */
    NODE_RELEASES_MAX = 2 * NODE_ATTEMPTS_MAX, /* nor is a release sent; see core/window.h */
    NODE_QUEUE_MS = 50, /* the same if an answer takes longer, unless there are only a few: */
    NODE_FEW_NAMES = 64,
    NODE_ANSWER_BYTES_MAX = 1 << 20, /* of a node's one answer: beyond it the connection is cut */
    NODE_CUT_MS = 5000,              /* silence after which the connection is given up */
    TOKEN_RAISES_MAX = 3,            /* tries of one attempt to find a token that a majority accepts */
    HANDOFFS_MAX = 64, /* in a row on one host while another waits, and as many tokens are reserved */
    HANDOFFS_ALONE_MAX = 4096, /* the same while no other host is known to wait */
    GRANT_READ_MS = 2000,      /* or the ttl, if that is less: by then a client has read its grant */
    HANDOFF_MS = 50,           /* after the acquisition no more hand-offs: other hosts get their turn */
    FENCE_SKEW_MS_MIN = 1000,
    FENCE_SKEW_MS_MAX = 24 * 60 * 60 * 1000,
    FENCE_RETENTION_MS_MIN = 60 * 60 * 1000,
    QUARANTINE_MARGIN_MS = 1000, /* on top of max_ttl and its drift */
    PROBE_MS = 1000, /* how often a quarantined node is asked whether another agent has blessed it */
    PROBE_TRUSTED_MS = 10 * 1000, /* how long a trusted node may go without telling its clock and epoch */
    PROBE_BUSY_MS = 60 * 1000, /* the same for what probes alone tell: what other agents are configured to */
    AMENDMENT_PAUSE_MS = 10 * 60 * 1000, /* epochs are made shorter no more often */
    DRIFT_DIVISOR = 100,                 /* drift = ttl/100 + 2 ms: the clocks' rates may differ by 1 % */
    DRIFT_FIXED_MS = 2,
    CLOCK_SLACK_MS = DRIFT_FIXED_MS, /* a clock that was set by no more than that has not been set */
};

enum { EXTENSION_TURN_NAMES = 4 * BATCH_NAMES_MAX }; /* extended in one turn, unless more are due */

static_assert(TTL_MS_MIN > TTL_MS_MIN / DRIFT_DIVISOR + DRIFT_FIXED_MS + NODE_TIMEOUT_MS_MIN,
              "the shortest lease leaves validity after one node time-out");
#define FENCE_RETENTION_MS_MAX (INT64_C(366) * 24 * 60 * 60 * 1000)

static_assert(BATCH_ACQUIRES_MAX <= BATCH_NAMES_MAX, "there is room for their tickets");
static_assert(HANDOFFS_ALONE_MAX < FENCE_SKEW_MS_MIN * 1000 / 16,
              "a block of tokens is short against fence_skew");
static_assert(ADMITTED_SESSION_MAX < ADMITTED_USER_MAX && ADMITTED_USER_MAX < ADMITTED_MAX,
              "no session leaves its user's others without room, and no user the others");
static_assert(NODE_STALLED_MS < NODE_SLOW_MS, "a node that is silent is stalled, not slow");
static_assert(ADMITTED_MAX <= NODE_ATTEMPTS_MAX, "as a rule, requests wait in the front, in their turns");
static_assert(NODE_STALLED_MS < NODE_CUT_MS, "a stalled node is left alone before it is cut off");
