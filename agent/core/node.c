#include "core/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "core/validity.h"

void node_init(struct node *node) {
    *node = (struct node){.marked_ns = INSTANT_NEVER,
                          .read_ns = INSTANT_LONG_AGO,
                          .elsewhere_ns = INSTANT_LONG_AGO,
                          .rival_ns = INSTANT_LONG_AGO,
                          .epoch_ns = INSTANT_LONG_AGO,
                          .amend_ns = INSTANT_LONG_AGO};
    node_note_trouble(node, "not connected yet", strlen("not connected yet"));
}

void node_ready(struct node *node, instant_ns now_ns) {
    node->ready = true;
    node->refuses = node->stalled = node->slow = node->cut = node->probing = node->marking = node->blessing =
        node->amending = node->hurry = false;
    node->trust = NODE_UNKNOWN;
    node->blessed = false;
    node->probe_ns = now_ns;
    node->outstanding = node->gauge = 0;
    node->progress_ns = now_ns;
    node_note_trouble(node, "being examined", strlen("being examined"));
}

void node_gone(struct node *node, const char *reason) {
    node->ready = node->refuses = node->stalled = node->slow = node->cut = node->probing = node->marking =
        node->blessing = node->amending = node->hurry = false;
    node->trust = NODE_UNKNOWN;
    node->blessed = false;
    node->outstanding = node->gauge = 0;
    node_note_trouble(node, reason, strlen(reason));
}

void node_sent(struct node *node, instant_ns now_ns) {
    assert(node->ready);

    if (node->outstanding++ == 0)
        node->progress_ns = now_ns;
    if (node->gauge == 0) {
        node->gauge = node->outstanding;
        node->gauge_ns = now_ns;
    }
}

/* Answers come in order, so one request at a time is measured. */
static bool is_prompt_again(struct node *node, instant_ns now_ns) {
    if (node->gauge == 0 || --node->gauge > 0)
        return false;
    return node->slow && now_ns - node->gauge_ns < NODE_SLOW_MS / 2 * NS_PER_MS;
}

enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns) {
    bool prompt = is_prompt_again(node, now_ns);

    if (node->outstanding > 0)
        node->outstanding--;
    if (!answered)
        return NODE_SAME;
    node->progress_ns = now_ns;
    if (!node->stalled && !prompt)
        return NODE_SAME;
    node->slow = node->slow && !prompt;
    node->stalled = node->cut = false;
    node->trouble[0] = '\0';
    return NODE_RECOVERED;
}

static instant_ns silence_due_ns(const struct node *node) {
    return node->progress_ns + (node->stalled ? NODE_CUT_MS : NODE_STALLED_MS) * NS_PER_MS;
}

static int64_t probe_interval_ns(const struct node *node) {
    return (node->slow ? PROBE_MS : PROBE_TRUSTED_MS) * NS_PER_MS;
}

/* Probes show when the node is prompt again. */
static enum node_change node_slows(struct node *node, instant_ns now_ns) {
    node->slow = true;
    if (node->trust == NODE_TRUSTED)
        node->probe_ns = now_ns + probe_interval_ns(node);
    (void) snprintf(node->trouble, sizeof(node->trouble),
                    "slow: a request has waited for %d ms. New leases do without this node",
                    (int) NODE_SLOW_MS);
    return NODE_SLOW;
}

enum node_change node_tick(struct node *node, instant_ns now_ns) {
    if (now_ns < node_due_ns(node))
        return NODE_SAME;
    if (now_ns < silence_due_ns(node))
        return node_slows(node, now_ns);
    if (node->stalled) {
        node->cut = true;
        return NODE_CUT;
    }
    node->stalled = true;
    /* After a pause of our own unread answers may be waiting: the time until the cut starts now. */
    node->progress_ns = now_ns - NODE_STALLED_MS * NS_PER_MS;
    node->gauge_ns = now_ns;
    (void) snprintf(node->trouble, sizeof(node->trouble), "has not answered for %d ms",
                    (int) NODE_STALLED_MS);
    return NODE_STALLED;
}

instant_ns node_due_ns(const struct node *node) {
    if (!node->ready || node->outstanding == 0 || node->cut)
        return INSTANT_NEVER;
    instant_ns due_ns = silence_due_ns(node);
    if (!node->slow && !node->stalled && node->gauge > 0)
        due_ns = instant_min(due_ns, node->gauge_ns + NODE_SLOW_MS * NS_PER_MS);
    return due_ns;
}

static void node_note_step(struct node *node) {
    int64_t ms = (node->step_ns < 0 ? -node->step_ns : node->step_ns) / NS_PER_MS;

    (void) snprintf(node->trouble, sizeof(node->trouble),
                    "its clock was set %s by %lld.%03lld s: its keys may have ended before their time",
                    node->step_ns < 0 ? "back" : "forward", (long long) (ms / 1000),
                    (long long) (ms % 1000));
}

/* The node is the heir of a blessed process, whose blessing is renewed. If the epoch is gone by then, the
 * renewal must not count as a blessing of ours, so it has the number of a mark that was never left. */
static void node_wait_for_renewal(struct node *node, instant_ns now_ns) {
    static const char inheriting[] =
        "has restarted with all of its data: it votes when its blessing is renewed";

    node->mark++;
    node->marked_ns = now_ns;
    node->renewing = !node->hurry;
    node->hurry = true;
    node->marking = false;
    node_note_trouble(node, inheriting, sizeof(inheriting) - 1);
}

static void node_trusted(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (node->trust != NODE_TRUSTED)
        node->trouble[0] = '\0';
    node->probe_ns = now_ns + probe_interval_ns(node);
    node->blessed_floor_us = probe->floor_us;
    node->trust = NODE_TRUSTED;
    node->marking = node->hurry = false;
    node->marked_ns = INSTANT_NEVER;
}

/* --- epochs and readings --- */

static void node_note_epoch(struct node *node, const struct probe *probe, instant_ns now_ns) {
    if (!node->epoch_known || node->generation != probe->generation ||
        node->blessed_floor_us != probe->floor_us)
        node->epoch_ns = now_ns;
    node->epoch_known = true;
    node->generation = probe->generation;
    node->blessed_floor_us = probe->floor_us;
    node->known_ms = probe->max_ttl_ms;
    node->proposed_ms = probe->proposed_ms;
    node->reading = probe->foreign || !probe->rested ? NODE_READ_NOTHING : NODE_READ_EPOCH;
    if (node->reading == NODE_READ_EPOCH)
        node->remembered_ms = 0;
}

/* The longest ttl by the node's present or last epoch of our fleet. */
static uint32_t epoch_max_ttl_ms(const struct node *node) {
    if (node->reading != NODE_READ_EPOCH || node->known_ms < node->remembered_ms)
        return node->remembered_ms;
    return node->known_ms;
}

static void node_note_reading(struct node *node, const struct probe *probe, instant_ns now_ns) {
    node->read_ns = node->asked_ns;
    node->blessed = probe->blessed;
    node->remembered_ms = epoch_max_ttl_ms(node);
    if (!probe->brief)
        node->elsewhere = probe->elsewhere;
    if (probe->blessed) {
        node->foreign = probe->foreign;
        node_note_epoch(node, probe, now_ns);
        return;
    }
    if (probe->foreign) /* the epoch of a former process, or an unrested one */
        node->foreign = true;
    if (probe->rival)
        node->rival_ns = now_ns;
    node->reading = probe->marked && !probe->rival && !probe->brief ? NODE_READ_MARK : NODE_READ_NOTHING;
    node->known_ms = probe->max_ttl_ms;
}

/* True if the epoch allows leases as long as ours, now and after its proposal. */
static bool epoch_suffices(const struct node *node, const struct node_terms *terms) {
    return node->known_ms >= terms->max_ttl_ms &&
           (node->proposed_ms == 0 || node->proposed_ms >= terms->max_ttl_ms);
}

/* The time before shorter leases are proposed: time for all agents to change the epoch. */
static int64_t patience_ns(const struct node *node) {
    return instant_min(validity_quarantine_ns(node->known_ms), AMENDMENT_PAUSE_MS * NS_PER_MS);
}

/* When the epoch is to be amended. A proposal is carried out when it has stood for as long as a quarantine:
 * longer leases, of agents that did not know it, have ended by then. */
static instant_ns amendment_due_ns(const struct node *node, const struct node_terms *terms) {
    instant_ns due_ns = INSTANT_NEVER;

    if (!node->blessed || node->stepped)
        return INSTANT_NEVER;
    if (node->foreign || (node->hurry && node->known_ms > terms->max_ttl_ms))
        due_ns = node->hurry ? INSTANT_LONG_AGO : INSTANT_NEVER;
    else if (!epoch_suffices(node, terms))
        due_ns = INSTANT_LONG_AGO;
    else if (node->proposed_ms != 0)
        due_ns = instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms));
    else if (node->known_ms > terms->max_ttl_ms)
        due_ns = instant_add(node->epoch_ns, patience_ns(node));
    return instant_max(due_ns, node->amend_ns);
}

struct amendment node_amendment(const struct node *node, const struct node_terms *terms, instant_ns now_ns) {
    uint32_t ours_ms = terms->max_ttl_ms;

    if (node->foreign || node->hurry || node->known_ms <= ours_ms)
        return (struct amendment){.max_ttl_ms = ours_ms};
    if (node->proposed_ms >= ours_ms &&
        now_ns >= instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms)))
        return (struct amendment){.max_ttl_ms = node->proposed_ms};
    return (struct amendment){.max_ttl_ms = node->known_ms, .proposed_ms = ours_ms};
}

/* True if the epoch is still the one from before the clock was set, which does not count for us. */
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

/* The epoch names the process. */
static void node_found_blessed(struct node *node, const struct probe *probe, const struct node_terms *terms,
                               bool was_amending, instant_ns now_ns) {
    static const char shorter[] = "its epoch is for shorter leases than ours: being changed";

    if (!node->foreign && epoch_suffices(node, terms)) {
        node_trusted(node, probe, now_ns);
        return;
    }
    node->trust = NODE_UNKNOWN;
    node->marking = false;
    node->marked_ns = INSTANT_NEVER;
    if (was_amending)
        node->hurry = false;
    if (node->foreign)
        node_note_trouble(node, probe->others, probe->others_length);
    else
        node_note_trouble(node, shorter, sizeof(shorter) - 1);
}

static void node_note_quarantine(struct node *node, const struct probe *probe) {
    static const char quarantined[] =
        "no epoch key (a new, restarted or flushed node): votes when all leases "
        "that the node may have forgotten have ended",
                      unrested[] =
                          "blessed by an agent with quarantine = no: votes here when all leases that "
                          "the node may have forgotten have ended";

    if (probe->rival)
        node_note_trouble(node, probe->others, probe->others_length);
    else if (probe->unrested)
        node_note_trouble(node, unrested, sizeof(unrested) - 1);
    else
        node_note_trouble(node, quarantined, sizeof(quarantined) - 1);
}

/* No epoch that counts for us names the process. */
static void node_found_unblessed(struct node *node, const struct probe *probe, bool inherits,
                                 bool was_blessing, instant_ns now_ns) {
    node->trust = NODE_QUARANTINED;
    if (was_blessing && !(probe->marked && probe->max_ttl_ms > node->covered_ms))
        node->marked_ns = INSTANT_NEVER; /* the blessing failed: the quarantine begins anew */
    if (inherits) {
        node_wait_for_renewal(node, now_ns);
        return;
    }
    if (node->marking) {
        node->marked_ns = now_ns;
    } else if (!probe->marked) {
        node->marked_ns = INSTANT_NEVER;
        node->hurry = false;
    }
    node->marking = false;
    node_note_quarantine(node, probe);
}

void node_probed(struct node *node, const struct probe *probe, const struct node_terms *terms,
                 instant_ns now_ns) {
    bool was_blessing = node->blessing, was_amending = node->amending;

    node->probing = node->blessing = node->amending = false;
    if (node->renewing) /* another agent, even of another fleet, may have renewed it first */
        node->renewing = node->hurry = false;
    node->probe_ns = now_ns + PROBE_MS * NS_PER_MS;
    node->amend_ns = was_amending ? node->probe_ns : INSTANT_LONG_AGO;
    if (probe->error) {
        node->trust = NODE_UNKNOWN;
        node->blessed = node->marking = node->hurry = false;
        node_note_trouble(node, probe->error, probe->error_length);
        return;
    }
    struct probe unrested = *probe;
    if (probe->blessed && !probe->rested && terms->quarantine) { /* as if it was not blessed */
        unrested.blessed = false;
        unrested.rival |= probe->foreign;
        unrested.unrested = true;
        probe = &unrested;
    }
    node_note_reading(node, probe, now_ns);
    if (node_still_stepped(node, probe, now_ns)) {
        node->trust = NODE_UNKNOWN;
        node_note_step(node);
        return;
    }
    bool inherits = probe->heir && !node->stepped && !node->disown;
    node->disown = probe->heir && !inherits;
    node->marking = node->marking && !probe->heir; /* an heir gets no mark */
    node->stepped = node->stepped && probe->heir;  /* a renewal by others does not count either */
    if (probe->blessed)
        node_found_blessed(node, probe, terms, was_amending, now_ns);
    else
        node_found_unblessed(node, probe, inherits, was_blessing, now_ns);
}

void node_hurry(struct node *node, const struct node_terms *terms, instant_ns now_ns) {
    if (!node->ready || (node->trust == NODE_TRUSTED && node->known_ms <= terms->max_ttl_ms))
        return;
    node->hurry = true;
    node->renewing = false;
    if (node->stepped)
        node->stepped_until_ns = node->probe_ns = now_ns;
}

void node_outgrow(struct node *node, uint32_t max_ttl_ms) {
    const struct node_terms terms = {.max_ttl_ms = max_ttl_ms};

    if (node->trust == NODE_TRUSTED && !epoch_suffices(node, &terms))
        node->trust = NODE_UNKNOWN;
}

void node_doubt(struct node *node) {
    static const char changed[] = "its epoch has changed, or is lost: being examined";

    if (node->trust != NODE_TRUSTED)
        return;
    node->trust = NODE_UNKNOWN;
    node->blessed = node->hurry = false;
    node->probe_ns = INSTANT_LONG_AGO;
    node_note_trouble(node, changed, sizeof(changed) - 1);
}

instant_ns node_wish_due_ns(const struct node *node, const struct node_terms *terms) {
    if (!node->ready || node->probing || node->stalled)
        return INSTANT_NEVER;
    if (node->stepped && !node->judged && !node->disown)
        return node->stepped_until_ns;
    instant_ns due_ns = instant_min(node->probe_ns, amendment_due_ns(node, terms));
    if (node->trust != NODE_QUARANTINED || node->marked_ns == INSTANT_NEVER)
        return due_ns; /* marks wait for a probe, too: never at the speed of the answers */
    return instant_min(due_ns, terms->bless_ns);
}

enum node_wish node_wish(const struct node *node, const struct node_terms *terms, instant_ns now_ns) {
    if (now_ns < node_wish_due_ns(node, terms))
        return NODE_WANTS_NOTHING;
    if (now_ns >= amendment_due_ns(node, terms))
        return NODE_WANTS_AMENDMENT;
    if (node->blessed && !node->stepped)
        return NODE_WANTS_PROBE;
    if (node->marked_ns == INSTANT_NEVER)
        return NODE_WANTS_MARK;
    if (node->trust == NODE_QUARANTINED && now_ns >= terms->bless_ns)
        return NODE_WANTS_BLESSING;
    return NODE_WANTS_PROBE;
}

void node_asked(struct node *node, enum node_wish wish, instant_ns now_ns) {
    node->probing = true;
    node->asked_ns = now_ns;
    node->blessing = wish == NODE_WANTS_BLESSING;
    node->amending = wish == NODE_WANTS_AMENDMENT;
    node->marking = wish == NODE_WANTS_MARK || (wish == NODE_WANTS_PROBE && node->blessed);
    if (node->marking)
        node->mark++;
    node_sent(node, now_ns);
}

struct blessing node_blessing(struct node *node, const struct node_terms *terms) {
    node->covered_ms = terms->covered_ms;
    return (struct blessing){.mark = node->mark,
                             .max_ttl_ms = terms->max_ttl_ms,
                             .covered_ms = terms->covered_ms,
                             .rested = terms->quarantine};
}

struct inquiry node_inquiry(const struct node *node, uint32_t max_ttl_ms, node_set known) {
    uint32_t epoch_ms = epoch_max_ttl_ms(node);

    return (struct inquiry){.mark = node->mark,
                            .max_ttl_ms = epoch_ms > max_ttl_ms ? epoch_ms : max_ttl_ms,
                            .leave = node->marking,
                            .disown = node->disown,
                            .withdraw_us =
                                node->stepped && node->withdraw && node->floor_us > 0 ? node->floor_us : 0,
                            .known = known};
}

/* --- clocks --- */

bool node_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns,
               int64_t quarantine_ns) {
    /* Others may count an epoch that does not suffice for us, or the renewal under way. */
    bool others_count = node->blessing && node->hurry;
    bool counted = !node->stepped && (node->trust != NODE_QUARANTINED || others_count);
    instant_ns before_ns = node->offset.at_ns;
    int64_t step_ns = clock_offset_update(&node->offset, time_us, sent_ns, now_ns);

    if (node->trust == NODE_TRUSTED)
        node->probe_ns = instant_min(now_ns + probe_interval_ns(node),
                                     instant_max(now_ns, node->read_ns + PROBE_BUSY_MS * NS_PER_MS));
    if (step_ns == 0)
        return false;
    node->trust = NODE_UNKNOWN;
    if (!node->stepped) {
        node->judged = !counted; /* no blessing to withdraw */
        node->withdraw = false;
    }
    node->stepped = true;
    node->hurry = false;
    node->marked_ns = INSTANT_NEVER; /* others may have blessed it since, and granted leases */
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

size_t node_cut_text(char *buffer, size_t size) {
    static const char ellipsis[] = " ...";
    size_t length = size - sizeof(ellipsis);

    assert(size > 2 * sizeof(ellipsis));
    while (length > size / 2 && buffer[length] != ' ')
        length--;
    memcpy(buffer + length, ellipsis, sizeof(ellipsis));
    return length + sizeof(ellipsis) - 1;
}

void node_note_trouble(struct node *node, const char *text, size_t length) {
    bool fits = length < sizeof(node->trouble);

    if (!fits)
        length = sizeof(node->trouble) - 1;
    memcpy(node->trouble, text, length);
    node->trouble[length] = '\0';
    if (!fits)
        (void) node_cut_text(node->trouble, sizeof(node->trouble));
}

bool node_refuses_keys(const char *error, size_t length) {
    static const char *const words[] = {"OOM ", "MISCONF "};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (bytes_begin_with(error, length, words[i], strlen(words[i])))
            return true;
    return false;
}
