/* A node in its keeper: whether requests may be sent, how long the node has been silent, whether its clock
 * was set, and its last trouble. Whether it is trusted not to have forgotten leases: core/node-epoch.h.
 *
 * Clocks. Redis expires keys by its wall clock. Each answer that grants or extends has the clock; a node
 * whose clock was set may have dropped keys early, as if it had lost its memory. Its votes no longer count,
 * and its blessing is withdrawn, if the other nodes' clocks agree with ours. If most do not, our clock may
 * have stopped: then the blessings stay, and this agent alone does not trust the nodes, for as long as a
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
    bool known;          /* examined once, or out of reach */
    bool ready;          /* connected, with scripts loaded */
    bool refuses;        /* refused to set keys: asked as before, since it extends, but shown as failed */
    bool refuses_writes; /* all writes: until NODE_REFUSAL_MS have passed, or a write succeeds */
    bool stalled;     /* silent for NODE_STALLED_MS with requests outstanding: not asked until it answers */
    bool slow;        /* a request has waited for NODE_SLOW_MS: see core/window.h */
    bool cut;         /* silent for NODE_CUT_MS: its connection is being closed */
    bool barred;      /* a node of ours belongs to another fleet: none is asked */
    bool explained;   /* reported that its quarantine's end is unknown */
    bool probing;     /* a probe, a blessing or an amendment is under way */
    bool marking;     /* the probe leaves a new mark, if the node has no epoch */
    bool blessing;    /* a blessing is under way */
    bool amending;    /* an amendment is under way */
    bool hurry;       /* may be blessed at once while our mark is present, or amended: BLESS, `renewing` */
    bool renewing;    /* `hurry` without a BLESS: the node inherits its blessing */
    bool foreign;     /* its last epoch, lost or not, is another fleet's */
    bool doubted;     /* its epoch is another than a request named, and is being read */
    bool blessed;     /* its epoch names its process, even if that does not count for us */
    bool epoch_known; /* generation and blessed_floor_us are of an epoch that was read */
    bool stepped;     /* its clock was set: its present blessing does not count for us */
    bool judged;      /* stepped: it is decided which clock was set */
    bool withdraw;    /* the blessing must not count for any agent */
    bool disown;      /* no blessing is inherited: the clock was set since the former process */
    uint8_t trust;    /* enum node_trust */
    uint8_t reading;  /* enum node_reading */
    node_set noted;   /* nodes whose addresses it has noted */
    node_set elsewhere;     /* nodes that other agents reach at other addresses, by its notes */
    uint32_t outstanding;   /* requests without an answer */
    uint32_t gauge;         /* answers to come up to that of the measured request; 0: none */
    uint32_t mark;          /* number of the last mark */
    uint32_t known_ms;      /* the longest ttl that agents grant, by its epoch or marks */
    uint32_t remembered_ms; /* the same, by its last epoch of our fleet, which is lost */
    uint32_t covered_ms;    /* of the blessing under way */
    uint32_t proposed_ms;   /* of its epoch */
    uint32_t generation;
    instant_ns gauge_ns;     /* when the measured request was sent */
    instant_ns progress_ns;  /* the later of: last answer, first request after silence */
    instant_ns refused_ns;   /* refuses: when it last did */
    instant_ns marked_ns;    /* when our mark was left; INSTANT_NEVER: never */
    instant_ns probe_ns;     /* the next probe is due */
    instant_ns asked_ns;     /* when the last probe was sent */
    instant_ns read_ns;      /* when the probe of the reading was sent */
    instant_ns elsewhere_ns; /* when a note last showed that other agents reach it at other addresses only */
    instant_ns rival_ns;     /* when another fleet's mark was read last; INSTANT_LONG_AGO: never */
    instant_ns epoch_ns;     /* when the epoch was first read */
    instant_ns amend_ns;     /* the epoch is not amended before */
    instant_ns withdrawn_ns; /* when a withdrawn proposal was noticed; INSTANT_LONG_AGO: never */
    uint8_t turn;            /* among the nodes by their names, as on all hosts */
    struct clock_offset offset;       /* of its clock */
    int64_t blessed_floor_us;         /* of the epoch: fencing tokens exceed it */
    int64_t floor_us;                 /* of the blessing that does not count; FLOOR_UNKNOWN: not read yet */
    int64_t step_ns;                  /* the least step of its clock */
    instant_ns stepped_ns;            /* when the step was noticed */
    instant_ns step_after_ns;         /* the clock had not been set by then */
    instant_ns stepped_until_ns;      /* by then all leases with its earlier votes have ended */
    char trouble[NODE_TROUBLE_BYTES]; /* why it does not vote, or its last error; "": none */
    char refusal[NODE_TROUBLE_BYTES]; /* refuses: why */
};

enum node_change { NODE_SAME, NODE_RECOVERED, NODE_STALLED, NODE_SLOW, NODE_CUT };

void node_init(struct node *node);
void node_ready(struct node *node, instant_ns now_ns);
void node_gone(struct node *node, const char *reason);

/* True if requests may be sent to the node. */
static inline bool node_can_be_asked(const struct node *node) {
    return node->ready && node->trust == NODE_TRUSTED && !node->stalled && !node->barred;
}

/* True if the node is in quarantine, and our mark is present. */
static inline bool node_is_quarantined(const struct node *node) {
    return node->trust == NODE_QUARANTINED && node->marked_ns != INSTANT_NEVER;
}

void node_sent(struct node *node, instant_ns now_ns);

/* A request was answered, or cut off (`answered` false). NODE_RECOVERED: the node had stalled, or was slow
 * and is prompt again. */
enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns);

/* Measures silence and slowness. NODE_STALLED, NODE_SLOW, NODE_CUT: that has just begun. */
enum node_change node_tick(struct node *node, instant_ns now_ns);

/* When node_tick() is due. */
instant_ns node_due_ns(const struct node *node);

/* From one probe of a trusted node to the next. */
int64_t node_probe_interval_ns(const struct node *node);

/* --- clocks --- */

/* The node's TIME in an answer to a request of `sent_ns`. True: the clock was set, and node_stepped()
 * follows. */
bool node_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns);

/* A node whose clock was set is not trusted for `quarantine_ns`, or until it is blessed anew. True: its
 * votes counted until now. */
bool node_stepped(struct node *node, int64_t quarantine_ns, instant_ns now_ns);

/* Probes a trusted node at once, for its clock. */
void node_ask_time(struct node *node, instant_ns now_ns);

/* The result of the decision which clock was set. `withdraw`: the node's. */
void node_judge(struct node *node, bool withdraw, instant_ns now_ns);

/* --- trouble --- */

/* Notes a trouble, cut to fit. */
void node_note_trouble(struct node *node, const char *text, size_t length);

/* Notes why a node that answers takes no keys. */
void node_note_refusal(struct node *node, const char *text, size_t length);

/* Notes the trouble that a trusted node has at present: that it takes no keys, or is slow; or none. */
void node_note_present(struct node *node);

/* Notes the step of its clock. */
void node_note_step(struct node *node);

/* Replaces the last word of a text that did not fit by "...". Returns the length. */
size_t node_cut_text(char *buffer, size_t size);

/* What the server refuses with this error. */
enum node_refusal {
    NODE_REFUSES_REQUEST, /* only this request, as far as is known */
    NODE_REFUSES_KEYS,    /* it is full, or cannot save them: an inspection shows the end */
    NODE_REFUSES_WRITES,
};

enum node_refusal node_refusal_of(const char *error, size_t length);
