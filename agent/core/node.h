/* What a keeper believes of one node: whether it may be asked, how long it has been silent, whether it can
 * be trusted to remember, and its last trouble.
 *
 * Trust. A node that lost its memory (restarted empty or with old data, was flushed, promoted, or is new)
 * must not vote until every lease that it may have forgotten has ended. Its *epoch key* tells: it names the
 * process for which an agent has waited that long. A node without it, or with that of another process, is in
 * *quarantine*: we wait on our own stopwatch, for as long as core/quarantine.h says, and then bless it. The
 * stopwatch starts when we hear that our mark was left on the node, and counts only as long as that mark
 * stands. Each start has a mark with a number of its own: one whose leaving was never confirmed (the
 * connection broke) proves nothing, since it may have been left after a loss. A blessing takes all marks
 * away: who left one has not waited for what is granted after it. One exception is configured: a process
 * that is known to have all data of the one before it (its *heir*) takes over the blessing, if its clock was
 * not set meanwhile.
 *
 * An epoch says more than that: the longest ttl that agents grant, whether the node has rested (agents with
 * `quarantine = no` bless without that, which counts for them alone), and which nodes are its fleet: an
 * agent with another set of nodes gets no votes from any node while it sees such an epoch. Each epoch
 * differs from all before it, since each change counts a number up: so a vote under a given epoch proves
 * that the epoch stood from when we learned of it until then. Only such votes count whose epoch we knew when
 * the round began. Shorter leases are proposed first, and take effect when the proposal has stood for as
 * long as a quarantine: who needs longer leases asks nothing under such an epoch, but changes it back.
 *
 * Clocks. Redis expires keys by its wall clock. Each answer that grants or extends tells it; a node whose
 * clock was set may have dropped keys before their time, as if it had lost its memory. Its votes don't count
 * any more, and its blessing is withdrawn, when the other nodes' clocks agree with ours. When most of them
 * don't, it may be ours that stood still: then the blessings stay, and only we stay away for as long as a
 * quarantine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/clock-offset.h"

#include "core/event.h"

enum { NODE_TROUBLE_BYTES = 320, FLOOR_UNKNOWN = -1 };

enum node_trust {
    NODE_UNKNOWN,     /* has to be probed */
    NODE_QUARANTINED, /* its epoch key does not name its process */
    NODE_TRUSTED,
};

/* What the last probe that told all has found. */
enum node_reading {
    NODE_READ_NOTHING, /* nothing that tells what agents grant */
    NODE_READ_MARK,    /* our mark, and the longest ttl of those who left one */
    NODE_READ_EPOCH,   /* an epoch of our fleet */
};

struct node {
    bool known;     /* it was reached and examined once, or could not be */
    bool ready;     /* connected, greeted, scripts loaded */
    bool refuses;   /* it has refused to set keys: asked as before, since it extends, and shown as failed */
    bool stalled;   /* silent for NODE_STALLED_MS with requests outstanding: not asked until it answers */
    bool slow;      /* a request has waited for its answer for NODE_SLOW_MS: see core/window.h */
    bool cut;       /* silent for NODE_CUT_MS: the transport was told to give the connection up */
    bool barred;    /* a node of ours is of another fleet: none is asked */
    bool explained; /* that its quarantine has no end yet was told */
    bool probing;   /* a probe, a blessing or an amendment is under way */
    bool marking;   /* that leaves a new mark, if no epoch is found */
    bool blessing;  /* it is a blessing */
    bool amending;  /* it is an amendment */
    bool hurry;     /* it may be blessed without waiting, as long as the mark stands; or its epoch changed */
    bool renewing;  /* only because its blessing is to be renewed: no operator's word */
    bool foreign;   /* the last epoch that was seen is another fleet's, also if it is lost meanwhile */
    bool blessed;   /* its epoch names its process, whether that counts for us or not */
    bool epoch_known;       /* generation and blessed_floor_us are those of an epoch that we have seen */
    bool stepped;           /* its clock was set: this blessing of it does not count for us */
    bool judged;            /* and that is its own doing, or ours, but dealt with */
    bool withdraw;          /* the blessing is to count for nobody */
    bool disown;            /* it is nobody's heir: its clock was set since it was another process */
    uint8_t trust;          /* enum node_trust */
    uint8_t reading;        /* enum node_reading */
    node_set noted;         /* nodes of which it was told where we reach them */
    node_set elsewhere;     /* nodes that the fleet reaches at another address than we, as this one says */
    uint32_t outstanding;   /* requests sent and not answered */
    uint32_t gauge;         /* of these, up to the one whose age is measured; 0: none is */
    uint32_t mark;          /* number of the last mark */
    uint32_t known_ms;      /* the longest ttl that agents grant, as the reading or its epoch tells */
    uint32_t remembered_ms; /* the same of its last epoch of our fleet, which is lost */
    uint32_t covered_ms;    /* what the blessing under way covers */
    uint32_t proposed_ms;   /* of its epoch, with the next one */
    uint32_t generation;
    instant_ns gauge_ns;              /* when the one that is measured was sent */
    instant_ns progress_ns;           /* the later of: last answer, first request after silence */
    instant_ns marked_ns;             /* when our mark was left; INSTANT_NEVER: never */
    instant_ns probe_ns;              /* when to probe again */
    instant_ns asked_ns;              /* when the last probe was sent, at the latest */
    instant_ns read_ns;               /* the same of the one that was answered with the reading */
    instant_ns elsewhere_ns;          /* when others were last said to reach it at another address only */
    instant_ns rival_ns;              /* when another fleet's mark was seen last; INSTANT_LONG_AGO: never */
    instant_ns epoch_ns;              /* when we learned of the epoch */
    instant_ns amend_ns;              /* not before that it is amended */
    struct clock_offset offset;       /* of its clock */
    int64_t blessed_floor_us;         /* of the epoch: what fencing tokens exceed */
    int64_t floor_us;                 /* of the blessing that does not count; FLOOR_UNKNOWN: not seen yet */
    int64_t step_ns;                  /* by how much its clock was set, at least */
    instant_ns stepped_ns;            /* when we noticed */
    instant_ns step_after_ns;         /* then it had not been set yet */
    instant_ns stepped_until_ns;      /* when everything has ended that it had promised by then */
    char trouble[NODE_TROUBLE_BYTES]; /* why it does not vote, or its last refusal; "" when fine */
};

enum node_change { NODE_SAME, NODE_RECOVERED, NODE_STALLED, NODE_SLOW, NODE_CUT };

void node_init(struct node *node);
void node_ready(struct node *node, instant_ns now_ns);
void node_gone(struct node *node, const char *reason);

/* Requests may be sent to it. */
static inline bool node_can_be_asked(const struct node *node) {
    return node->ready && node->trust == NODE_TRUSTED && !node->stalled && !node->barred;
}

void node_sent(struct node *node, instant_ns now_ns);

/* An answer came, or the request was cut off (`answered` false). NODE_RECOVERED when it had stalled, or was
 * slow and is prompt again. */
enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns);

/* Judges its silence and its slowness: NODE_STALLED, NODE_SLOW or NODE_CUT when that has just begun. */
enum node_change node_tick(struct node *node, instant_ns now_ns);

/* When node_tick() has something to say at the earliest. */
instant_ns node_due_ns(const struct node *node);

/* --- trust --- */

enum node_wish {
    NODE_WANTS_NOTHING,
    NODE_WANTS_MARK,
    NODE_WANTS_PROBE,
    NODE_WANTS_BLESSING,
    NODE_WANTS_AMENDMENT,
};

/* What its trust depends on besides itself. */
struct node_terms {
    uint32_t max_ttl_ms; /* the longest lease that this agent grants */
    bool quarantine;     /* only blessings after a quarantine count */
    instant_ns bless_ns; /* when it may be blessed, if its mark stands; INSTANT_NEVER: not known */
    uint32_t covered_ms; /* then leases with a ttl up to this one have ended, if it forgot any */
};

/* This wish is being asked for. */
void node_asked(struct node *node, enum node_wish wish, instant_ns now_ns);

/* What is to be written for the wish of a blessing. */
struct blessing node_blessing(struct node *node, const struct node_terms *terms);

/* What is to be written for the wish of an amendment. */
struct amendment node_amendment(const struct node *node, const struct node_terms *terms, instant_ns now_ns);

/* What it is to be asked for the wish of a mark or a probe, after node_asked(). */
struct inquiry node_inquiry(const struct node *node, uint32_t max_ttl_ms, node_set known);

/* It told its clock in an answer to what was sent at `sent_ns`. When that shows that the clock was set, it
 * is not trusted for `quarantine_ns`, or until it is blessed anew. True if its votes have counted until now.
 */
bool node_told_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns,
                    int64_t quarantine_ns);

/* Its clock is wanted at once. */
void node_ask_time(struct node *node, instant_ns now_ns);

/* Whose clock was set is known: `withdraw` if its own. */
void node_judge(struct node *node, bool withdraw, instant_ns now_ns);

/* The answer to a probe, a blessing or an amendment. */
void node_probed(struct node *node, const struct probe *probe, const struct node_terms *terms,
                 instant_ns now_ns);

/* An operator's word: no need to wait, also for leases with a longer ttl than ours to end, or another
 * fleet's. It counts for what the node remembers now, not after another loss. */
void node_hurry(struct node *node, const struct node_terms *terms, instant_ns now_ns);

/* This agent is about to grant leases as long as that: it is not asked before its epoch says so. */
void node_outgrow(struct node *node, uint32_t max_ttl_ms);

/* A request found that its epoch has changed. */
void node_doubt(struct node *node);

/* What is to be asked of it now, and when that may change. */
enum node_wish node_wish(const struct node *node, const struct node_terms *terms, instant_ns now_ns);
instant_ns node_wish_due_ns(const struct node *node, const struct node_terms *terms);

/* The longest ttl that agents grant, as far as the node tells or has told. */
static inline uint32_t node_known_ms(const struct node *node) {
    return node->known_ms > node->remembered_ms ? node->known_ms : node->remembered_ms;
}

/* A vote in a round that began then counts: the node's epoch is the one that we knew. */
static inline bool node_epoch_stood(const struct node *node, instant_ns since_ns) {
    return node->epoch_ns <= since_ns;
}

/* Notes a refusal's text, cut to fit. */
void node_note_trouble(struct node *node, const char *text, size_t length);

/* Of a text that did not fit into this buffer: its last word goes, "..." stands for it. Its length. */
size_t node_cut_text(char *buffer, size_t size);

/* Whether this error means that the server takes no new keys at all: it is full, or can't save them. */
bool node_refuses_keys(const char *error, size_t length);
