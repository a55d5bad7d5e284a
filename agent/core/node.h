/* A node in its keeper: whether requests may be sent, how long the node has been silent, whether it is
 * trusted not to have forgotten leases, and its last trouble.
 *
 * Trust. A node that lost its memory (restarted empty or with old data, was flushed, promoted, or is new)
 * must not vote until every lease that it may have forgotten has ended. Its *epoch key* names the process
 * for which an agent has waited that long. A node without an epoch key, or with that of another process, is
 * in *quarantine*: the agent waits on its own stopwatch, as long as core/quarantine.h says, and then blesses
 * the node. The stopwatch starts when the node confirms our *mark*, and counts only while that mark is
 * present. Each start has a mark with a new number: an unconfirmed mark (the connection broke) proves
 * nothing, since it may have been left after a loss. A blessing removes all marks, since the agents that
 * left them have not waited for what is granted after it. One exception is configured: a process with all
 * data of the former process (its *heir*) inherits the blessing, if its clock was not set meanwhile.
 *
 * An epoch also has: the longest ttl that agents grant; whether the node was *rested*, that is, in
 * quarantine (agents with `quarantine = no` bless without, which counts for them alone); and the node's
 * fleet: an agent with another set of nodes asks no node while it sees such an epoch. Each change of an
 * epoch increments a number, so no two epochs are equal: a vote under an epoch proves that the node had this
 * epoch from our reading until the vote. A vote counts only if its epoch was known when the round began.
 * Shorter leases are proposed first, and take effect when the proposal is as old as a quarantine is long: an
 * agent that needs longer leases sends nothing under such an epoch, but changes the epoch back.
 *
 * Clocks. Redis expires keys by its wall clock. Each answer that grants or extends has the clock; a node
 * whose clock was set may have dropped keys early, as if it had lost its memory. Its votes no longer count,
 * and its blessing is withdrawn, if the other nodes' clocks agree with ours. If most do not, our clock may
 * have stood still: then the blessings stay, and this agent alone stays away, for as long as a quarantine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/clock-offset.h"
#include "core/event.h"

enum { NODE_TROUBLE_BYTES = 320, FLOOR_UNKNOWN = -1 };

enum node_trust {
    NODE_UNKNOWN,     /* to be probed */
    NODE_QUARANTINED, /* its epoch key does not name its process */
    NODE_TRUSTED,
};

/* What the last complete probe found. */
enum node_reading {
    NODE_READ_NOTHING, /* nothing about the leases that agents grant */
    NODE_READ_MARK,    /* our mark, and the longest ttl of the agents with a mark */
    NODE_READ_EPOCH,   /* an epoch of our fleet */
};

struct node {
    bool known;       /* examined once, or out of reach */
    bool ready;       /* connected, with scripts loaded */
    bool refuses;     /* refused to set keys: asked as before, since it extends, but shown as failed */
    bool stalled;     /* silent for NODE_STALLED_MS with requests outstanding: not asked until it answers */
    bool slow;        /* a request has waited for NODE_SLOW_MS: see core/window.h */
    bool cut;         /* silent for NODE_CUT_MS: its connection is being closed */
    bool barred;      /* a node of ours belongs to another fleet: none is asked */
    bool explained;   /* reported that its quarantine has no end yet */
    bool probing;     /* a probe, a blessing or an amendment is under way */
    bool marking;     /* it leaves a new mark, if it finds no epoch */
    bool blessing;    /* a blessing is */
    bool amending;    /* an amendment is */
    bool hurry;       /* may be blessed without waiting while the mark is present, or its epoch amended */
    bool renewing;    /* `hurry` is for inheriting its blessing, without an operator's BLESS */
    bool foreign;     /* its last epoch, lost or not, is another fleet's */
    bool blessed;     /* its epoch names its process, even if that does not count for us */
    bool epoch_known; /* generation and blessed_floor_us are of an epoch that was read */
    bool stepped;     /* its clock was set: its present blessing does not count for us */
    bool judged;      /* and whose clock was set is decided */
    bool withdraw;    /* the blessing must not count for any agent */
    bool disown;      /* it must not inherit: its clock was set since its former process */
    uint8_t trust;    /* enum node_trust */
    uint8_t reading;  /* enum node_reading */
    node_set noted;   /* nodes whose addresses it has noted */
    node_set elsewhere;     /* nodes that others reach at other addresses, by its notes */
    uint32_t outstanding;   /* requests without an answer */
    uint32_t gauge;         /* of these, up to the one whose age is measured; 0: none */
    uint32_t mark;          /* number of the last mark */
    uint32_t known_ms;      /* the longest ttl that agents grant, by its epoch or marks */
    uint32_t remembered_ms; /* the same, by its last epoch of our fleet, which is lost */
    uint32_t covered_ms;    /* of the blessing under way */
    uint32_t proposed_ms;   /* of its epoch */
    uint32_t generation;
    instant_ns gauge_ns;         /* when the measured request was sent */
    instant_ns progress_ns;      /* the later of: last answer, first request after silence */
    instant_ns marked_ns;        /* when our mark was left; INSTANT_NEVER: never */
    instant_ns probe_ns;         /* the next probe is due */
    instant_ns asked_ns;         /* when the last probe was sent */
    instant_ns read_ns;          /* when the probe of the reading was sent */
    instant_ns elsewhere_ns;     /* when a note last said that others reach it at other addresses only */
    instant_ns rival_ns;         /* when another fleet's mark was read last; INSTANT_LONG_AGO: never */
    instant_ns epoch_ns;         /* when the epoch was first read */
    instant_ns amend_ns;         /* the epoch is not amended before */
    struct clock_offset offset;  /* of its clock */
    int64_t blessed_floor_us;    /* of the epoch: fencing tokens exceed it */
    int64_t floor_us;            /* of the blessing that does not count; FLOOR_UNKNOWN: not read yet */
    int64_t step_ns;             /* the least step of its clock */
    instant_ns stepped_ns;       /* when the step was noticed */
    instant_ns step_after_ns;    /* the clock had not been set by then */
    instant_ns stepped_until_ns; /* by then all leases with its earlier votes have ended */
    char trouble[NODE_TROUBLE_BYTES]; /* why it does not vote, or its last error; "": none */
};

enum node_change { NODE_SAME, NODE_RECOVERED, NODE_STALLED, NODE_SLOW, NODE_CUT };

void node_init(struct node *node);
void node_ready(struct node *node, instant_ns now_ns);
void node_gone(struct node *node, const char *reason);

/* True if requests may be sent to the node. */
static inline bool node_can_be_asked(const struct node *node) {
    return node->ready && node->trust == NODE_TRUSTED && !node->stalled && !node->barred;
}

void node_sent(struct node *node, instant_ns now_ns);

/* A request was answered, or cut off (`answered` false). NODE_RECOVERED: the node had stalled, or was slow
 * and is prompt again. */
enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns);

/* Measures silence and slowness. NODE_STALLED, NODE_SLOW, NODE_CUT: that has just begun. */
enum node_change node_tick(struct node *node, instant_ns now_ns);

/* When node_tick() is due. */
instant_ns node_due_ns(const struct node *node);

/* --- trust --- */

enum node_wish {
    NODE_WANTS_NOTHING,
    NODE_WANTS_MARK,
    NODE_WANTS_PROBE,
    NODE_WANTS_BLESSING,
    NODE_WANTS_AMENDMENT,
};

/* What the trust in a node depends on besides the node. */
struct node_terms {
    uint32_t max_ttl_ms; /* the longest lease that this agent grants */
    bool quarantine;     /* only blessings after a quarantine count */
    instant_ns bless_ns; /* when it may be blessed, if its mark is present; INSTANT_NEVER: unknown */
    uint32_t covered_ms; /* by then forgotten leases with at most this ttl have ended */
};

/* The wish is sent to the node. */
void node_asked(struct node *node, enum node_wish wish, instant_ns now_ns);

/* The blessing to send. */
struct blessing node_blessing(struct node *node, const struct node_terms *terms);

/* The amendment to send. */
struct amendment node_amendment(const struct node *node, const struct node_terms *terms, instant_ns now_ns);

/* The inquiry to send for a mark or a probe, after node_asked(). */
struct inquiry node_inquiry(const struct node *node, uint32_t max_ttl_ms, node_set known);

/* The node's TIME in an answer to a request of `sent_ns`. A node whose clock was set is not trusted for
 * `quarantine_ns`, or until it is blessed anew. True: the clock was set, and its votes counted until now. */
bool node_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns,
               int64_t quarantine_ns);

/* Probes a trusted node at once, for its clock. */
void node_ask_time(struct node *node, instant_ns now_ns);

/* It is decided whose clock was set. `withdraw`: the node's. */
void node_judge(struct node *node, bool withdraw, instant_ns now_ns);

/* The answer to a probe, a blessing or an amendment. */
void node_probed(struct node *node, const struct probe *probe, const struct node_terms *terms,
                 instant_ns now_ns);

/* An operator's BLESS: the quarantine is unnecessary, also for longer leases than ours, or another fleet's.
 * It ends with the next loss. */
void node_hurry(struct node *node, const struct node_terms *terms, instant_ns now_ns);

/* This agent grants leases of up to this ttl: the node is not asked until its epoch says so, too. */
void node_outgrow(struct node *node, uint32_t max_ttl_ms);

/* A request found that its epoch has changed. */
void node_doubt(struct node *node);

/* What the trust in the node needs now, and when that changes. */
enum node_wish node_wish(const struct node *node, const struct node_terms *terms, instant_ns now_ns);
instant_ns node_wish_due_ns(const struct node *node, const struct node_terms *terms);

/* The longest ttl that agents grant, by the node's present or last epoch, or its marks. */
static inline uint32_t node_known_ms(const struct node *node) {
    return node->known_ms > node->remembered_ms ? node->known_ms : node->remembered_ms;
}

/* True if a vote in a round that began then counts: its epoch was known. */
static inline bool node_epoch_was_known(const struct node *node, instant_ns since_ns) {
    return node->epoch_ns <= since_ns;
}

/* Notes a trouble, cut to fit. */
void node_note_trouble(struct node *node, const char *text, size_t length);

/* Replaces the last word of a text that did not fit by "...". Returns the length. */
size_t node_cut_text(char *buffer, size_t size);

/* True if this error means that the server takes no new keys: it is full, or cannot save them. */
bool node_refuses_keys(const char *error, size_t length);
