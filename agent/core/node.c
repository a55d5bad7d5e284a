#include "core/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/event.h"

void node_init(struct node *node) {
    *node = (struct node){.marked_ns = INSTANT_NEVER, .short_floor_us = FLOOR_UNKNOWN};
    node_note_trouble(node, "not connected yet", strlen("not connected yet"));
}

void node_ready(struct node *node, instant_ns now_ns) {
    node->ready = true;
    node->stalled = node->cut = node->probing = node->marking = node->blessing = node->hurry = false;
    node->trust = NODE_UNKNOWN;
    node->probe_ns = now_ns;
    node->outstanding = 0;
    node->progress_ns = now_ns;
    node_note_trouble(node, "being examined", strlen("being examined"));
}

void node_gone(struct node *node, const char *reason) {
    node->ready = node->stalled = node->cut = node->probing = node->marking = node->blessing = node->hurry =
        false;
    node->trust = NODE_UNKNOWN;
    node->outstanding = 0;
    node_note_trouble(node, reason, strlen(reason));
}

void node_sent(struct node *node, instant_ns now_ns) {
    assert(node->ready);

    if (node->outstanding++ == 0)
        node->progress_ns = now_ns;
}

enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns) {
    if (node->outstanding > 0)
        node->outstanding--;
    if (!answered)
        return NODE_SAME;
    node->progress_ns = now_ns;
    if (!node->stalled)
        return NODE_SAME;
    node->stalled = node->cut = false;
    node->trouble[0] = '\0';
    return NODE_RECOVERED;
}

enum node_change node_tick(struct node *node, instant_ns now_ns) {
    if (now_ns < node_due_ns(node))
        return NODE_SAME;
    if (node->stalled) {
        node->cut = true;
        return NODE_CUT;
    }
    node->stalled = true;
    /* After a pause of our own its answers may be waiting to be read: the time until the cut starts now. */
    node->progress_ns = now_ns - NODE_STALLED_MS * NS_PER_MS;
    (void) snprintf(node->trouble, sizeof(node->trouble), "has not answered for %d ms",
                    (int) NODE_STALLED_MS);
    return NODE_STALLED;
}

instant_ns node_due_ns(const struct node *node) {
    if (!node->ready || node->outstanding == 0 || node->cut)
        return INSTANT_NEVER;
    return node->progress_ns + (node->stalled ? NODE_CUT_MS : NODE_STALLED_MS) * NS_PER_MS;
}

static void node_note_step(struct node *node) {
    int64_t ms = (node->step_ns < 0 ? -node->step_ns : node->step_ns) / NS_PER_MS;

    (void) snprintf(node->trouble, sizeof(node->trouble),
                    "its clock was set %s by %lld.%03lld s: its keys may have ended before their time",
                    node->step_ns < 0 ? "back" : "forward", (long long) (ms / 1000),
                    (long long) (ms % 1000));
}

/* It has been blessed for shorter leases than ours, or the process whose data it has: what is to be waited
 * for before that is renewed. It must not count as a blessing of ours if the epoch is gone by then, so it
 * goes with a mark that was never left. */
static void node_wait_for_renewal(struct node *node, const struct probe *probe, instant_ns now_ns) {
    static const char inheriting[] =
        "has restarted with all of its data: it votes when its blessing is renewed",
                      shorter[] =
                          "was trusted for leases of a shorter max_ttl: it votes when all longer ones "
                          "have ended";

    if (probe->heir) {
        node->mark++;
        node->marked_ns = now_ns;
        node->hurry = true;
        node->short_floor_us = FLOOR_UNKNOWN; /* the blessing is to be taken over, not raised */
        node_note_trouble(node, inheriting, sizeof(inheriting) - 1);
        return;
    }
    if (node->short_floor_us != probe->floor_us || node->marked_ns == INSTANT_NEVER) {
        node->mark++;
        node->marked_ns = now_ns;
        node->hurry = false;
    }
    node->short_floor_us = probe->floor_us;
    node_note_trouble(node, shorter, sizeof(shorter) - 1);
}

static void node_trusted(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (node->trust != NODE_TRUSTED)
        node->trouble[0] = '\0';
    node->probe_ns = now_ns + PROBE_TRUSTED_MS * NS_PER_MS;
    node->blessed_floor_us = probe->floor_us;
    node->trust = NODE_TRUSTED;
    node->marking = node->hurry = false;
    node->marked_ns = INSTANT_NEVER;
    node->short_floor_us = FLOOR_UNKNOWN;
}

/* Its epoch is no news: the blessing that it names does not count for us. True when that is so. */
static bool node_still_stepped(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (!node->stepped || !probe->blessed)
        return false;
    if (node->floor_us == FLOOR_UNKNOWN) {
        node->floor_us = probe->floor_us; /* it may be from before the clock was set */
        if (node->withdraw)
            node->probe_ns = now_ns;
    }
    return probe->floor_us == node->floor_us && now_ns < node->stepped_until_ns;
}

void node_probed(struct node *node, const struct probe *probe, uint32_t max_ttl_ms, instant_ns now_ns) {
    static const char quarantined[] =
        "is new, has restarted or lost its data: it votes when all leases that it "
        "may have forgotten have ended";
    bool was_blessing = node->blessing;

    node->probing = node->blessing = false;
    node->probe_ns = now_ns + PROBE_MS * NS_PER_MS;
    if (probe->error) {
        node->trust = NODE_UNKNOWN;
        node->marking = node->hurry = false;
        node_note_trouble(node, probe->error, probe->error_length);
        return;
    }
    if (node_still_stepped(node, probe, now_ns)) {
        node->trust = NODE_UNKNOWN;
        node_note_step(node);
        return;
    }
    bool inherits = probe->heir && !node->stepped && !node->disown;
    node->disown = probe->heir && !inherits;
    node->marking = node->marking && !probe->heir; /* then none was left */
    node->stepped =
        node->stepped && probe->heir; /* others may let it inherit: that would not count either */
    if (probe->blessed && probe->max_ttl_ms >= max_ttl_ms) {
        node_trusted(node, probe, now_ns);
        return;
    }
    node->trust = NODE_QUARANTINED;
    if (was_blessing)
        node->marked_ns = INSTANT_NEVER; /* it was in vain: all starts anew */
    if ((probe->blessed && !was_blessing) || inherits) {
        node_wait_for_renewal(node, probe, now_ns);
        node->marking = false;
        return;
    }
    if (node->marking) {
        node->marked_ns = now_ns;
    } else if (!probe->marked) {
        node->marked_ns = INSTANT_NEVER;
        node->hurry = false;
    }
    node->marking = false;
    node->short_floor_us = FLOOR_UNKNOWN;
    node_note_trouble(node, quarantined, sizeof(quarantined) - 1);
}

void node_hurry(struct node *node, instant_ns now_ns) {
    if (!node->ready || node->trust == NODE_TRUSTED)
        return;
    node->hurry = true;
    if (node->stepped)
        node->stepped_until_ns = node->probe_ns = now_ns;
}

void node_doubt(struct node *node) {
    static const char changed[] = "its epoch has changed, or is lost: being examined";

    if (node->trust != NODE_TRUSTED)
        return;
    node->trust = NODE_UNKNOWN;
    node->probe_ns = INSTANT_LONG_AGO;
    node_note_trouble(node, changed, sizeof(changed) - 1);
}

static instant_ns blessing_due_ns(const struct node *node, int64_t quarantine_ns) {
    return node->hurry ? node->marked_ns : instant_add(node->marked_ns, quarantine_ns);
}

instant_ns node_until_ns(const struct node *node, int64_t quarantine_ns) {
    if (!node->ready || node->trust != NODE_QUARANTINED || node->marked_ns == INSTANT_NEVER)
        return INSTANT_NEVER;
    return blessing_due_ns(node, quarantine_ns);
}

instant_ns node_wish_due_ns(const struct node *node, int64_t quarantine_ns) {
    if (!node->ready || node->probing || node->stalled)
        return INSTANT_NEVER;
    if (node->stepped && !node->judged && !node->disown)
        return node->stepped_until_ns;
    if (node->trust != NODE_QUARANTINED)
        return node->probe_ns;
    if (node->marked_ns == INSTANT_NEVER)
        return node->probe_ns; /* to start the stopwatch; never at the speed of the answers */
    return instant_min(node->probe_ns, blessing_due_ns(node, quarantine_ns));
}

enum node_wish node_wish(const struct node *node, int64_t quarantine_ns, instant_ns now_ns) {
    if (now_ns < node_wish_due_ns(node, quarantine_ns))
        return NODE_WANTS_NOTHING;
    if (node->trust == NODE_TRUSTED)
        return NODE_WANTS_PROBE;
    if (node->marked_ns == INSTANT_NEVER)
        return NODE_WANTS_MARK;
    if (node->trust == NODE_QUARANTINED && now_ns >= blessing_due_ns(node, quarantine_ns))
        return NODE_WANTS_BLESSING;
    return NODE_WANTS_PROBE;
}

void node_asked(struct node *node, enum node_wish wish, instant_ns now_ns) {
    node->probing = true;
    node->blessing = wish == NODE_WANTS_BLESSING;
    node->marking = wish == NODE_WANTS_MARK;
    if (node->marking)
        node->mark++;
    node_sent(node, now_ns);
}

struct blessing node_blessing(const struct node *node, uint32_t max_ttl_ms) {
    return (struct blessing){.mark = node->mark,
                             .max_ttl_ms = max_ttl_ms,
                             .floor_us = node->short_floor_us > 0 ? node->short_floor_us : 0};
}

struct inquiry node_inquiry(const struct node *node) {
    return (struct inquiry){.mark = node->mark,
                            .leave = node->marking,
                            .disown = node->disown,
                            .withdraw_us =
                                node->stepped && node->withdraw && node->floor_us > 0 ? node->floor_us : 0};
}

/* --- clocks --- */

bool node_told_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns,
                    int64_t quarantine_ns) {
    /* Others may count on a blessing for shorter leases, and on what we are about to let it inherit. */
    bool others_count = node->short_floor_us != FLOOR_UNKNOWN || (node->blessing && node->hurry);
    bool counted = !node->stepped && (node->trust != NODE_QUARANTINED || others_count);
    instant_ns before_ns = node->offset.at_ns;
    int64_t step_ns = offset_update(&node->offset, time_us, sent_ns, now_ns);

    if (node->trust == NODE_TRUSTED)
        node->probe_ns = now_ns + PROBE_TRUSTED_MS * NS_PER_MS;
    if (step_ns == 0)
        return false;
    node->trust = NODE_UNKNOWN;
    if (!node->stepped) {
        node->judged = !counted; /* there is nothing to withdraw */
        node->withdraw = false;
    }
    node->stepped = true;
    node->hurry = false;
    node->marked_ns = INSTANT_NEVER; /* others may have blessed it since, and been granted leases */
    node->floor_us = FLOOR_UNKNOWN;
    node->step_ns = step_ns;
    node->step_after_ns = before_ns;
    node->stepped_ns = now_ns;
    node->stepped_until_ns = now_ns + quarantine_ns;
    node_note_step(node);
    return counted;
}

void node_judge(struct node *node, bool withdraw, instant_ns now_ns) {
    assert(node->stepped);

    node->judged = true;
    node->withdraw = withdraw;
    node->probe_ns = now_ns;
}

void node_ask_time(struct node *node, instant_ns now_ns) {
    if (node->trust == NODE_TRUSTED)
        node->probe_ns = now_ns;
}

void node_note_trouble(struct node *node, const char *text, size_t length) {
    if (length >= sizeof(node->trouble))
        length = sizeof(node->trouble) - 1;
    memcpy(node->trouble, text, length);
    node->trouble[length] = '\0';
}
