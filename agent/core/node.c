#include "core/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

void node_init(struct node *node) {
    *node = (struct node){.marked_ns = INSTANT_NEVER,
                          .read_ns = INSTANT_LONG_AGO,
                          .elsewhere_ns = INSTANT_LONG_AGO,
                          .rival_ns = INSTANT_LONG_AGO,
                          .epoch_ns = INSTANT_LONG_AGO,
                          .amend_ns = INSTANT_LONG_AGO,
                          .withdrawn_ns = INSTANT_LONG_AGO};
    node_note_trouble(node, "not connected yet", strlen("not connected yet"));
}

void node_gone(struct node *node, const char *reason) {
    node->ready = node->refuses = node->refuses_writes = node->stalled = node->slow = node->cut =
        node->probing = node->marking = node->blessing = node->amending = node->hurry = false;
    node->trust = NODE_UNKNOWN;
    node->blessed = node->doubted = false;
    node->outstanding = node->gauge = 0;
    node_note_trouble(node, reason, strlen(reason));
}

void node_ready(struct node *node, instant_ns now_ns) {
    node_gone(node, "being examined");
    node->ready = true;
    node->probe_ns = node->progress_ns = now_ns;
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

/* Answers come in order: `gauge` counts them down to that of the measured request. True if the node was
 * slow, and that answer was quick. */
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
    node_note_present(node);
    return NODE_RECOVERED;
}

static instant_ns silence_due_ns(const struct node *node) {
    return node->progress_ns + (node->stalled ? NODE_CUT_MS : NODE_STALLED_MS) * NS_PER_MS;
}

int64_t node_probe_interval_ns(const struct node *node) {
    return (node->slow ? PROBE_MS : PROBE_TRUSTED_MS) * NS_PER_MS;
}

/* Probes show when the node is prompt again. */
static enum node_change node_slows(struct node *node, instant_ns now_ns) {
    node->slow = true;
    if (node->trust == NODE_TRUSTED)
        node->probe_ns = now_ns + node_probe_interval_ns(node);
    node_note_present(node);
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

/* --- clocks --- */

bool node_time(struct node *node, int64_t time_us, instant_ns sent_ns, instant_ns now_ns) {
    instant_ns before_ns = node->offset.at_ns;
    int64_t step_ns = clock_offset_update(&node->offset, time_us, sent_ns, now_ns);

    if (node->trust == NODE_TRUSTED)
        node->probe_ns = instant_min(now_ns + node_probe_interval_ns(node),
                                     instant_max(now_ns, node->read_ns + PROBE_BUSY_MS * NS_PER_MS));
    if (step_ns == 0)
        return false;
    node->step_ns = step_ns;
    node->step_after_ns = before_ns;
    return true;
}

bool node_stepped(struct node *node, int64_t quarantine_ns, instant_ns now_ns) {
    /* Other agents may count an epoch that does not suffice for us, or the renewal under way. */
    bool others_count = node->blessing && node->hurry;
    bool counted = !node->stepped && (node->trust != NODE_QUARANTINED || others_count);

    node->trust = NODE_UNKNOWN;
    if (!node->stepped) {
        node->judged = !counted; /* no blessing to withdraw */
        node->withdraw = false;
    }
    node->stepped = true;
    node->hurry = false;
    node->marked_ns = INSTANT_NEVER; /* other agents may have blessed the node since, and granted leases */
    node->floor_us = FLOOR_UNKNOWN;
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

/* --- trouble --- */

size_t node_cut_text(char *buffer, size_t size) {
    static const char ellipsis[] = " ...";
    size_t length = size - sizeof(ellipsis);

    assert(size > 2 * sizeof(ellipsis));
    while (length > size / 2 && buffer[length] != ' ')
        length--;
    memcpy(buffer + length, ellipsis, sizeof(ellipsis));
    return length + sizeof(ellipsis) - 1;
}

/* A server's own error may have any bytes; clients get the text, and some show it on a terminal. */
static void note(char ret[NODE_TROUBLE_BYTES], const char *text, size_t length) {
    bool fits = length < NODE_TROUBLE_BYTES;

    memcpy(ret, text, fits ? length : NODE_TROUBLE_BYTES - 1);
    if (!fits)
        length = node_cut_text(ret, NODE_TROUBLE_BYTES);
    (void) utf8_make_printable(ret, length);
}

void node_note_trouble(struct node *node, const char *text, size_t length) {
    note(node->trouble, text, length);
}

void node_note_refusal(struct node *node, const char *text, size_t length) {
    node->refuses = true;
    note(node->refusal, text, length);
}

void node_note_present(struct node *node) {
    if (node->refuses)
        memcpy(node->trouble, node->refusal, sizeof(node->trouble));
    else if (node->slow)
        (void) snprintf(node->trouble, sizeof(node->trouble),
                        "slow: a request has waited for %d ms. While a majority is prompt, new leases do "
                        "not use this node",
                        (int) NODE_SLOW_MS);
    else
        node->trouble[0] = '\0';
}

void node_note_step(struct node *node) {
    int64_t ms = (node->step_ns < 0 ? -node->step_ns : node->step_ns) / NS_PER_MS;

    (void) snprintf(node->trouble, sizeof(node->trouble),
                    "its clock was set %s by %lld.%03lld s: its keys may have ended before their time",
                    node->step_ns < 0 ? "back" : "forward", (long long) (ms / 1000),
                    (long long) (ms % 1000));
}

enum node_refusal node_refusal_of(const char *error, size_t length) {
    static const struct {
        const char *word;
        enum node_refusal refusal;
    } words[] = {
        {"OOM ", NODE_REFUSES_KEYS},          {"MISCONF ", NODE_REFUSES_KEYS},
        {"NOREPLICAS ", NODE_REFUSES_WRITES}, {"READONLY ", NODE_REFUSES_WRITES},
        {"MASTERDOWN ", NODE_REFUSES_WRITES}, {"LOADING ", NODE_REFUSES_WRITES},
    };

    /* Redis before 7.0 has the script's line first: "@user_script: 35: -OOM ...". */
    const char *dash = bytes_begin_with(error, length, "@user_script", strlen("@user_script"))
                           ? memchr(error, '-', length)
                           : NULL;
    if (dash) {
        length -= (size_t) (dash + 1 - error);
        error = dash + 1;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (bytes_begin_with(error, length, words[i].word, strlen(words[i].word)))
            return words[i].refusal;
    return NODE_REFUSES_REQUEST;
}
