/* The messages of a shard: commands of the front and votes of the nodes come in, requests to the nodes and
 * reports to the front go out. Plain data; a receiver that keeps a message copies it, texts included. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/shared-string.h"
#include "core/lease-terms.h"
#include "core/limits.h"
#include "core/node-set.h"
#include "core/round-trace.h"

/* --- front to keeper --- */

enum command_kind {
    COMMAND_CONTEND, /* acquire the name; `persist`: try until withdrawn */
    COMMAND_RESUME,  /* resume a lease that another agent granted; `persist` likewise */
    COMMAND_SEARCH,  /* continue a lease of a former process of this agent: resume.h */
    COMMAND_RELEASE, /* release the lease, or withdraw the request */
    COMMAND_ABANDON, /* no more extensions, and no deletion before the deadline */
    COMMAND_FORGET,  /* the request is over: its keys are left to their ttl */
    COMMAND_BEAT,    /* a heartbeat of the holder */
    COMMAND_REFRESH, /* the lease has another holder: key-refresh.h */
    COMMAND_QUERY,   /* ask the nodes for the holder of the name: leader-query.h */
};

/* The origin of a command, which its reports repeat. */
enum report_origin {
    REPORT_ORIGIN_REQUEST, /* `request` is a request's number */
    REPORT_ORIGIN_LEADER,  /* COMMAND_QUERY of a session's LEADER: `request` is as in the command */
    REPORT_ORIGIN_OBSERVE, /* the same of OBSERVE */
};

struct command {
    enum command_kind kind;
    enum report_origin origin;
    bool persist;
    bool unread;           /* abandon: the client has not read its grant */
    uint16_t head_length;  /* of text: the name */
    uint16_t tail_length;  /* then the tail of the lock value: lock-value.h */
    uint16_t spare_tokens; /* contend: tokens to reserve after the granted one, for hand-offs */
    uint8_t user;          /* contend: the number of its user, for the share of the polls */
    uint64_t request;      /* the front's number; not 0; unique for each lease of a request */
    struct lease_terms
        terms; /* contend, resume, search; query: its node time-out, and whether a token is wanted */
    instant_ns cooldown_until_ns; /* resume, search, release: the keys stay until then; 0: none */
    instant_ns hold_until_ns;     /* resume, search, refresh: the end of max_hold, or INSTANT_NEVER */
    instant_ns beat_ns;           /* beat: when; 0: now. search: the last one; 0: the search counts as one */
    int64_t pause_ns;             /* contend: before the first attempt */
    int64_t token;                /* resume, search, refresh: the lease's, as its holder has it; contend: the
                                   * largest that the front knows of the name */
    uint8_t secret[SECRET_BYTES]; /* resume, search, refresh: the random part of the value */
    const char *text;
};

/* --- keeper to front --- */

enum report_kind {
    REPORT_GRANTED,   /* deadline, tokens; text: the random part of the lock value */
    REPORT_FAILED,    /* failure, text: the request is over */
    REPORT_CONTENDED, /* failure, text: an attempt failed, the request goes on */
    REPORT_EXTENDED,  /* deadline */
    REPORT_AT_RISK,   /* reason */
    REPORT_LOST,      /* reason: the request is over. text: the name */
    REPORT_AWAITED,   /* text: the name; a subscriber received the message of its release, or may have */
    REPORT_RELEASED,  /* the answer to COMMAND_RELEASE and COMMAND_FORGET: the request is over */
    REPORT_LEADER,  /* text: the value that a majority has; token, validity_ms (-1: no end). No text: none */
    REPORT_NODE,    /* node, node_state, text: the reason */
    REPORT_FOREIGN, /* node, text: the name; there a held lease's key has another's value */
};

enum failure {
    FAILURE_BUSY,
    FAILURE_NO_QUORUM,
    FAILURE_QUOTA,
    FAILURE_NOT_HELD, /* resume: the lease has ended */
    FAILURE_COUNT
};

enum reason {
    REASON_NO_QUORUM,
    REASON_TAKEN,
    REASON_PAUSED,
    REASON_HEARTBEAT,
    REASON_MAX_HOLD,
    REASON_CLOSED,
    REASON_UNREAD,
    REASON_COUNT
};

enum node_state {
    NODE_STATE_CONNECTING,
    NODE_STATE_PROBING,
    NODE_STATE_QUARANTINED, /* may have forgotten leases that have not ended */
    NODE_STATE_VOTING,
    NODE_STATE_FAILED,
};

struct report {
    enum report_kind kind;
    enum report_origin origin;
    enum failure failure;
    enum reason reason;
    enum node_state node_state;
    bool stepped;      /* NODE: its clock was set */
    bool foreign_type; /* LEADER: text is a type, the key is no lock */
    bool undecided;    /* LEADER: no value has a majority yet, but the silent nodes may give it one */
    bool changing;     /* LEADER: undecided; or the values of one lease or agent may have one together */
    unsigned node;
    uint16_t text_length;
    bool own; /* failed, contended: the holder that the nodes show is this agent */
    uint64_t request;
    instant_ns deadline_ns;
    instant_ns cooldown_until_ns; /* granted: the keys live until then at least; 0: no cooldown */
    int64_t token;                /* granted, leader: the fencing token; 0: none */
    int64_t token_last;           /* granted: the last reserved token */
    int64_t validity_ms;
    struct round_trace trace; /* granted, failed, contended, at-risk, lost: of the last round */
    const char *text;
};

/* A short form of REPORT_EXTENDED: extensions come in dozens. */
struct extension {
    uint64_t request;
    instant_ns deadline_ns;
};

/* --- shard to nodes --- */

enum operation {
    OPERATION_ACQUIRE,
    OPERATION_RAISE,
    OPERATION_EXTEND,
    OPERATION_REFRESH, /* extends, replaces the former value, and stores the token again */
    OPERATION_RELEASE,
    OPERATION_QUERY,
    OPERATION_ADOPT,  /* replaces an earlier value of the lease, whichever agent set it */
    OPERATION_SEARCH, /* the same; a value with our number only if a process of this agent set it */
};

struct shard_predecessors;

struct send {
    enum operation operation;
    bool orphan;       /* release: the text's tail is the value without its random part */
    bool legacy_setnx; /* the value begins with LOCK_VALUE_FAR_FUTURE */
    node_set nodes;
    bool quiet; /* release: without a message to subscribers */
    bool left;  /* release: the message says that the name is left to other programs for a moment */
    uint32_t ttl_ms;
    uint64_t ticket;       /* repeated in each node's vote */
    int64_t token;         /* acquire, raise: proposed; refresh: the holder's; 0: no fencing. Query:
                            * not 0 if it is wanted */
    int64_t token_last;    /* acquire, raise: all from `token` to this one are reserved */
    const uint8_t *secret; /* SECRET_BYTES; NULL for a query */
    const struct shared_string *text; /* name, and the value's tail */
    const uint8_t *former; /* release: of a second value that the key may have, or NULL; refresh: the same,
                            * or the value itself */
    const struct shared_string *former_text;       /* its tail */
    const struct shard_predecessors *predecessors; /* search: the former processes */
};

/* --- nodes to shard --- */

/* A node's answer to a request for one name. */
enum vote_kind {
    VOTE_YES,      /* set | raised | extended | refreshed | deleted or gone | adopted */
    VOTE_BEHIND,   /* raise: the token was not accepted: token_verdict */
    VOTE_REPAIRED, /* the missing key was set again */
    VOTE_FOREIGN,  /* the key has another's value; text: the value, or its type; "": not known */
    VOTE_FREE,     /* query, adopt, search: no key */
    VOTE_REFUSED,  /* the node answered with an error; text: the error */
    VOTE_EPOCH,    /* the node has another epoch: nothing was executed */
    VOTE_CUT,      /* the connection broke: executed or not */
};

/* A node's verdict on a proposed fencing token. */
enum token_verdict {
    TOKEN_ACCEPTED,
    TOKEN_SMALL, /* not larger than all before */
    TOKEN_FAR,   /* too far from the node's clock */
};

struct vote {
    enum vote_kind kind;
    enum token_verdict token_verdict; /* of a vote to acquire, VOTE_YES, and of VOTE_BEHIND */
    int64_t token;     /* not accepted: the largest that the node has; query: the same, or 0 */
    bool foreign_type; /* text is a type, the key is no lock */
    const char *text;
    size_t text_length;
    int64_t ttl_left_ms; /* of a foreign key; negative: none */
    bool written;        /* a key was set: the node takes writes, whatever has become of the lease since */
    bool received;       /* release: a subscriber received the message, or the node could not publish */
};

/* A blessing: makes a node vote. */
struct blessing {
    uint32_t mark; /* the number of our mark, which must be present */
    uint32_t max_ttl_ms;
    uint32_t covered_ms; /* forgotten leases with at most this ttl have ended */
    bool rested;         /* after a quarantine: counts for all agents */
};

/* A change of a node's epoch, if it is still the one that the last probe found. */
struct amendment {
    uint32_t max_ttl_ms;
    uint32_t proposed_ms; /* a smaller max_ttl, if no agent needs more; 0: none */
};

/* A probe of a node: the request. */
struct inquiry {
    uint32_t mark;       /* the number of our mark */
    uint32_t max_ttl_ms; /* recorded with the mark */
    bool leave;          /* leave the mark, unless the node is blessed */
    bool disown;         /* the former process's blessing must not be inherited */
    int64_t withdraw_us; /* withdraw the blessing with this floor; 0: none */
    node_set known;      /* nodes of our fleet, whose addresses the node may note */
};

/* The answer: whether the epoch key names the node's present process, and what else the node has. */
struct probe {
    bool blessed;
    bool rested;         /* blessed: after a quarantine, or on an operator's word */
    bool foreign;        /* the epoch, whichever process it names, is of another set of nodes */
    bool heir;           /* not blessed, but its former process was, and the node has all of its data */
    bool marked;         /* not blessed for us: nothing was lost since the mark was left */
    bool rival;          /* the same: an agent with another set of nodes has left its mark, too */
    bool unrested;       /* the same: agents with `quarantine = no` have blessed it for themselves */
    bool brief;          /* only the epoch, or our mark */
    uint32_t max_ttl_ms; /* the longest ttl that agents grant, by the epoch or the marks */
    uint32_t proposed_ms, generation; /* blessed: of the epoch */
    int64_t floor_us;   /* blessed: identifies the blessing; no fencing token was larger then */
    int64_t time_us;    /* the node's TIME; negative: none */
    instant_ns sent_ns; /* when the request was sent */
    node_set elsewhere; /* nodes that others reach at other addresses, by the node's notes */
    const char *others; /* foreign, rival: the text about it */
    size_t others_length;
    const char *error; /* the error of the node; NULL: none */
    size_t error_length;
};
