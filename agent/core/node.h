/* What a keeper believes of one node: whether it may be asked, how long it has been silent, whether it can
 * be trusted to remember, and its last trouble.
 *
 * Trust. A node that lost its memory (restarted empty or with old data, was flushed, promoted, or is new)
 * must not vote until every lease that it may have forgotten has ended. Its *epoch key* tells: it names the
 * process for which an agent has waited that long. A node without it, or with that of another process, is in
 * *quarantine*: we wait max_ttl and its drift on our own stopwatch, and then bless it. The stopwatch starts
 * when we hear that our mark was left on the node, and counts only as long as that mark stands. Each start
 * has a mark with a number of its own: one whose leaving was never confirmed (the connection broke) proves
 * nothing, since it may have been left after a loss. A blessing takes all marks away: who left one has not
 * waited for what is granted after it. A node that was blessed for shorter leases than ours may have
 * forgotten a longer one: it rests for ours all the same, as long as that blessing stands. One exception is
 * configured: a process that is known to have all data of the one before it (its *heir*) takes over the
 * blessing, if its clock was not set meanwhile.
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
#include "core/offset.h"

struct blessing;
struct inquiry;
struct probe;

enum { NODE_TROUBLE_BYTES = 120, FLOOR_UNKNOWN = -1 };

enum node_trust {
    NODE_UNKNOWN,     /* has to be probed */
    NODE_QUARANTINED, /* its epoch key does not name its process */
    NODE_TRUSTED,
};

struct node {
    bool ready;    /* connected, greeted, scripts loaded */
    bool stalled;  /* silent for NODE_STALLED_MS with requests outstanding: not asked until it answers */
    bool cut;      /* silent for NODE_CUT_MS: the transport was told to give the connection up */
    bool probing;  /* a probe or a blessing is under way */
    bool marking;  /* that leaves a new mark */
    bool blessing; /* it is a blessing */
    bool hurry;    /* it may be blessed without waiting, as long as the mark stands */
    bool stepped;  /* its clock was set: this blessing of it does not count for us */
    bool judged;   /* and that is its own doing, or ours, but dealt with */
    bool withdraw; /* the blessing is to count for nobody */
    bool disown;   /* it is nobody's heir: its clock was set since it was another process */
    uint8_t trust; /* enum node_trust */
    uint32_t outstanding;     /* requests sent and not answered */
    instant_ns progress_ns;   /* the later of: last answer, first request after silence */
    uint32_t mark;            /* number of the last mark */
    instant_ns marked_ns;     /* when our mark was left; INSTANT_NEVER: never */
    instant_ns probe_ns;      /* when to probe again */
    struct offset offset;     /* of its clock */
    int64_t short_floor_us;   /* of a blessing for shorter leases that is waited out; FLOOR_UNKNOWN: none */
    int64_t blessed_floor_us; /* of the blessing by which it is trusted: what fencing tokens exceed */
    int64_t floor_us;         /* of the blessing that does not count; FLOOR_UNKNOWN: not seen yet */
    int64_t step_ns;          /* by how much its clock was set, at least */
    instant_ns stepped_ns;    /* when we noticed */
    instant_ns step_after_ns; /* then it had not been set yet */
    instant_ns stepped_until_ns;      /* when everything has ended that it had promised by then */
    char trouble[NODE_TROUBLE_BYTES]; /* why it does not vote, or its last refusal; "" when fine */
};

enum node_change { NODE_SAME, NODE_RECOVERED, NODE_STALLED, NODE_CUT };

void node_init(struct node *node);
void node_ready(struct node *node, instant_ns now_ns);
void node_gone(struct node *node, const char *reason);

/* Requests may be sent to it. */
static inline bool node_can_be_asked(const struct node *node) {
    return node->ready && node->trust == NODE_TRUSTED && !node->stalled;
}

void node_sent(struct node *node, instant_ns now_ns);

/* An answer came, or the request was cut off (`answered` false). NODE_RECOVERED when it had stalled. */
enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns);

/* Judges its silence: NODE_STALLED or NODE_CUT when that has just begun. */
enum node_change node_tick(struct node *node, instant_ns now_ns);

/* When node_tick() has something to say at the earliest. */
instant_ns node_due_ns(const struct node *node);

/* --- trust --- */

enum node_wish { NODE_WANTS_NOTHING, NODE_WANTS_MARK, NODE_WANTS_PROBE, NODE_WANTS_BLESSING };

/* This wish is being asked for. */
void node_asked(struct node *node, enum node_wish wish, instant_ns now_ns);

/* What is to be written for the wish of a blessing. */
struct blessing node_blessing(const struct node *node, uint32_t max_ttl_ms);

/* What it is to be asked for the wish of a mark or a probe, after node_asked(). */
struct inquiry node_inquiry(const struct node *node);

/* It told its clock in an answer to what was sent at `sent_ns`. When that shows that the clock was set, it
 * is not trusted for `quarantine_ns`, or until it is blessed anew. True if its votes have counted until now.
 */
bool node_told_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns,
                    int64_t quarantine_ns);

/* Its clock is wanted at once. */
void node_ask_time(struct node *node, instant_ns now_ns);

/* Whose clock was set is known: `withdraw` if its own. */
void node_judge(struct node *node, bool withdraw, instant_ns now_ns);

/* The answer to a probe or a blessing. `max_ttl_ms`: the longest ttl that this agent grants. */
void node_probed(struct node *node, const struct probe *probe, uint32_t max_ttl_ms, instant_ns now_ns);

/* An operator's word: no need to wait. It counts for what the node remembers now, not after another loss. */
void node_hurry(struct node *node, instant_ns now_ns);

/* A request found that its epoch has changed. */
void node_doubt(struct node *node);

/* What is to be asked of it now, and when that may change. `quarantine_ns`: how long one lasts. */
enum node_wish node_wish(const struct node *node, int64_t quarantine_ns, instant_ns now_ns);
instant_ns node_wish_due_ns(const struct node *node, int64_t quarantine_ns);

/* When its quarantine ends, unless it loses its memory again; INSTANT_NEVER when that is not known. */
instant_ns node_until_ns(const struct node *node, int64_t quarantine_ns);

/* Notes a refusal's text, cut to fit. */
void node_note_trouble(struct node *node, const char *text, size_t length);
