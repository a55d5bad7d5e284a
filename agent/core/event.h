/* What goes in and out of a shard: commands from the front, votes from the nodes; requests to the nodes,
 * reports to the front. Plain data; whoever carries it copies what it keeps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/shared-string.h"
#include "core/lease-terms.h"
#include "core/limits.h"
#include "core/node-set.h"

/* Front to keeper. */
enum command_kind {
    COMMAND_CONTEND,   /* try to get the name; go on trying if `persist` */
    COMMAND_RESUME,    /* take over a lease that another agent granted; go on trying if `persist` */
    COMMAND_RELEASE,   /* withdraw the request, or give the lease up */
    COMMAND_ABANDON,   /* extend no more, delete nothing while the holder may believe in it */
    COMMAND_FORGET,    /* the request is over, and its keys are left to their ttl */
    COMMAND_BEAT,      /* the holder is alive */
    COMMAND_HAND_OVER, /* the lease has another holder, whose value its keys are to have: handover.h */
    COMMAND_LOOK,      /* who holds the name? */
};

/* Whose question a report answers. */
enum report_origin {
    REPORT_ORIGIN_REQUEST, /* `request` is a request's number */
    REPORT_ORIGIN_LEADER,  /* COMMAND_LOOK of a session's LEADER: `request` is as in the command */
    REPORT_ORIGIN_OBSERVE, /* the same of OBSERVE */
};

struct command {
    enum command_kind kind;
    enum report_origin origin;
    bool persist;
    uint16_t head_length;  /* of text: the name */
    uint16_t tail_length;  /* then pid, uid and data, as they go into the lock value */
    uint16_t spare_tokens; /* contend: to be reserved with the grant's, for hand-offs */
    uint64_t request;      /* the front's number for it; never 0, for a request's lease never used twice */
    struct lease_terms terms; /* contend, resume; query: its node time-out, and whether a token is wanted */
    instant_ns cooldown_until_ns; /* resume, release: the keys stay until then; 0: no cooldown */
    instant_ns hold_until_ns;     /* resume, hand over: the same as an instant; INSTANT_NEVER: no bound */
    instant_ns beat_ns;           /* beat: when it was; 0: now */
    int64_t pause_ns;             /* contend: before the first attempt */
    int64_t token;                /* resume, hand over: the lease's, as its holder has it; contend: the
                                   * largest that the front knows of the name */
    uint8_t secret[SECRET_BYTES]; /* resume, hand over: the random part of the lease's value */
    const char *text;
};

/* Keeper to front. */
enum report_kind {
    REPORT_GRANTED,   /* deadline, tokens; text: the random part of the lock value */
    REPORT_FAILED,    /* failure, text: the request is over */
    REPORT_CONTENDED, /* failure, text: an attempt failed, the request goes on */
    REPORT_EXTENDED,  /* deadline */
    REPORT_AT_RISK,   /* reason */
    REPORT_LOST,      /* reason: the request is over. text: the key, for the log */
    REPORT_AWAITED,   /* text: the name: its release was heard by others, or may have been */
    REPORT_RELEASED,  /* the answer to COMMAND_RELEASE and COMMAND_FORGET: the request is over */
    REPORT_LOOKED,  /* text: the value that a majority has; token, validity_ms (-1: no end). No text: none */
    REPORT_NODE,    /* node, standing, text: the reason */
    REPORT_FOREIGN, /* node, text: the name; a held lease's key has another's value there */
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
    REASON_UNREAD, /* the front's alone */
    REASON_COUNT
};

enum standing {
    NODE_STATE_CONNECTING,
    NODE_STATE_PROBING,
    NODE_STATE_QUARANTINED, /* it may have forgotten leases that have not ended */
    NODE_STATE_VOTING,
    NODE_STATE_FAILED,
};

struct report {
    enum report_kind kind;
    enum report_origin origin;
    enum failure failure;
    enum reason reason;
    enum standing standing;
    bool stepped;      /* NODE: its clock was set */
    bool foreign_type; /* LOOKED: text is a type, the key is no lock */
    bool undecided;    /* LOOKED: no value has a majority, but with the nodes that are silent one may have */
    unsigned node;
    uint16_t text_length;
    uint64_t request;
    instant_ns deadline_ns;
    instant_ns cooldown_until_ns; /* granted: the keys live until then at least; 0: no cooldown */
    int64_t token;                /* granted, looked: the fencing token; 0: none */
    int64_t token_last;           /* granted: up to this one they are reserved */
    int64_t validity_ms;
    const char *text;
};

/* REPORT_EXTENDED in brief: there are so many of them that they travel by the dozen. */
struct extension {
    uint64_t request;
    instant_ns deadline_ns;
};

/* Shard to nodes. */
enum operation {
    OPERATION_ACQUIRE,
    OPERATION_RAISE,
    OPERATION_EXTEND,
    OPERATION_REFRESH, /* extends, and puts the value in the place of the former one */
    OPERATION_RELEASE,
    OPERATION_LOOK,
    OPERATION_ADOPT,
};

struct send {
    enum operation operation;
    bool orphan; /* release: the text's tail is all of the value but the random part */
    node_set nodes;
    bool quiet; /* release: without telling those that wait */
    uint32_t ttl_ms;
    uint64_t ticket; /* comes back with each node's vote */
    int64_t token;   /* to acquire and to raise: proposed; to refresh: the holder's; 0: no fencing. To query:
                      * not 0 if it is wanted */
    int64_t token_last;    /* to acquire and to raise: all from `token` to this one are reserved */
    const uint8_t *secret; /* SECRET_BYTES; NULL for a query */
    const struct shared_string *text; /* name, and the value's tail */
    const uint8_t *former; /* to refresh and release: of a value that may stand there too, or NULL */
    const struct shared_string *former_text; /* its tail */
};

/* A node's answer to one ticket. */
enum vote_kind {
    VOTE_YES,      /* set | raised | extended | refreshed | deleted or gone | taken over */
    VOTE_BEHIND,   /* raise: the token was not accepted, see there */
    VOTE_REPAIRED, /* the key was missing and is set again */
    VOTE_FOREIGN,  /* the key stands for another; text: its value or type */
    VOTE_FREE,     /* query, adopt: no key */
    VOTE_REFUSED,  /* the node answered with an error; text: which */
    VOTE_EPOCH,    /* the node lost its memory since it was trusted: nothing was done */
    VOTE_CUT,      /* the connection broke: it may or may not have been executed */
};

/* What a node makes of a proposed fencing token. */
enum token_verdict {
    TOKEN_ACCEPTED,
    TOKEN_SMALL, /* not larger than every one before */
    TOKEN_FAR,   /* too far from the node's clock */
};

struct vote {
    enum vote_kind kind;
    enum token_verdict token_verdict; /* of a vote to acquire, VOTE_YES, and of VOTE_BEHIND */
    int64_t token;     /* unless it was accepted, the largest that the node has; query: 0 without */
    bool foreign_type; /* text is a type, the key is no lock */
    const char *text;
    size_t text_length;
    int64_t ttl_left_ms; /* of a foreign key; negative: none */
    bool heard; /* release: the node told somebody that the key is gone, or could not tell anybody */
};

/* That a node is to vote. */
struct blessing {
    uint32_t mark; /* the number of our mark, which must stand */
    uint32_t max_ttl_ms;
    uint32_t covered_ms; /* leases with a ttl up to this one have ended, if the node forgot any */
    bool rested;         /* it counts for agents that want quarantines, too */
};

/* What a node's epoch is to say, if it still is the one that the last probe found. */
struct amendment {
    uint32_t max_ttl_ms;
    uint32_t proposed_ms; /* a smaller max_ttl that nobody may need more than; 0: none */
};

/* What a node is asked of itself. */
struct inquiry {
    uint32_t mark;       /* the number of our mark */
    uint32_t max_ttl_ms; /* goes with the mark */
    bool leave;          /* leave it, unless the node is blessed */
    bool disown;         /* let it be nobody's heir */
    int64_t withdraw_us; /* its blessing with this floor no longer counts; 0: none */
    node_set known;      /* nodes that we know to be those of the fleet: where we reach them may be noted */
};

/* What a node says of itself: does its epoch key name its present process? */
struct probe {
    bool blessed;
    bool rested;   /* blessed: after a quarantine, or on an operator's word */
    bool foreign;  /* blessed: by an agent with another set of nodes */
    bool heir;     /* not blessed, but the process before it, whose data are all here and whose clock the
                    * shard was told */
    bool marked;   /* not blessed for us: nothing was lost since the mark was left */
    bool rival;    /* the same: an agent with another set of nodes has left its mark, too */
    bool unrested; /* the same: agents with `quarantine = no` have blessed it for themselves */
    bool brief;    /* it tells of its epoch or our mark alone: nothing of what else it knows */
    uint32_t max_ttl_ms; /* the longest ttl that any agent grants, as the epoch or the marks have it */
    uint32_t proposed_ms, generation; /* blessed: what the epoch says */
    int64_t floor_us;   /* blessed: tells this blessing from others; no fencing token was larger then */
    int64_t time_us;    /* the node's TIME; negative: not told */
    instant_ns sent_ns; /* when it was asked */
    node_set elsewhere; /* nodes that others reach at another address, as far as this one knows */
    const char *others; /* foreign, rival: what is to be said of it */
    size_t others_length;
    const char *error; /* NULL, or the text of its refusal */
    size_t error_length;
};
