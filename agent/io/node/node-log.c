#include "io/node/node-log.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "io/loop/clock.h"
#include "local/front-state.h"

void node_log_init(struct node_log *log, const char *const *node_names, bool is_first) {
    *log = (struct node_log){
        .node_names = node_names,
        .is_first = is_first,
        .due_ns = INSTANT_NEVER,
        .foreign_values = {.kind = "leases with another client's value under their keys",
                           .level = LOG_LEVEL_WARNING},
    };
    for (unsigned i = 0; i < NODES_MAX; i++)
        log->state_lines[i] = (struct log_limit){.kind = "the state of a node", .level = LOG_LEVEL_WARNING};
}

static void write_state(const struct node_log *log, unsigned node, enum node_state node_state,
                        const char *text) {
    const char *name = log->node_names[node];
    const struct log_fields fields = {
        .event = LOG_EVENT_NODE_STATE,
        .node = name,
        .state = front_state_node_word(node_state),
        .reason = text,
    };

    if (node_state != NODE_STATE_VOTING)
        log_event(LOG_LEVEL_WARNING, &fields, "node %s: does not vote: %s", name, text);
    else if (text[0] == '\0')
        log_event(LOG_LEVEL_NOTICE, &fields, "node %s: voting", name);
    else
        log_event(LOG_LEVEL_WARNING, &fields, "node %s: %s", name, text);
}

/* Writes the state, or keeps it until node_log_settle(). */
static void note_state(struct node_log *log, unsigned node, enum node_state node_state, const char *text) {
    struct node_log_state *suppressed = &log->suppressed[node];
    instant_ns now_ns = clock_now_ns();

    suppressed->due = !log_limit_take(&log->state_lines[node], now_ns);
    if (!suppressed->due) {
        write_state(log, node, node_state, text);
        return;
    }
    suppressed->node_state = node_state;
    (void) snprintf(suppressed->text, sizeof(suppressed->text), "%s", text);
    log->due_ns = instant_min(log->due_ns, log_limit_settle(&log->state_lines[node], now_ns));
}

/* The first keeper logs for all keepers, and each trouble once: a node that is down for a week is tried all
 * the time. But any keeper logs a clock that was set: the others may find only that the epoch is gone. */
static void log_state(struct node_log *log, const struct report *report) {
    char *logged = log->trouble[report->node];
    char text[NODE_TROUBLE_BYTES];

    (void) snprintf(text, sizeof(text), "%.*s", (int) report->text_length, report->text);
    if (report->node_state == NODE_STATE_PROBING)
        return;
    if (report->node_state == NODE_STATE_VOTING) {
        logged[0] = '\0';
        if (log->is_first)
            note_state(log, report->node, report->node_state, text);
    } else if (log->is_first || report->stepped) {
        if (strcmp(logged, text) != 0)
            note_state(log, report->node, report->node_state, text);
        (void) snprintf(logged, sizeof(log->trouble[0]), "%s", text);
    }
}

/* Any program that shares a node can cause this line, for each lease. */
static void log_foreign_value(struct node_log *log, const struct report *report) {
    char name[4 * NAME_BYTES_MAX + 1];

    (void) bytes_escape(report->text, report->text_length, name, sizeof(name));
    const struct log_fields fields = {
        .event = LOG_EVENT_FOREIGN_VALUE,
        .name = report->text,
        .name_length = report->text_length,
        .node = log->node_names[report->node],
    };
    log_limit_event(&log->foreign_values, clock_now_ns(), &fields,
                    "lease %s: node %s has another client's value under its key, so the node does not count "
                    "for this lease. Unless another agent has resumed the lease, find the program that "
                    "writes this key",
                    name, log->node_names[report->node]);
}

void node_log_report(struct node_log *log, const struct report *report) {
    if (report->kind == REPORT_NODE)
        log_state(log, report);
    else if (report->kind == REPORT_FOREIGN)
        log_foreign_value(log, report);
}

void node_log_missing_rights(struct node_log *log, unsigned node, const char *missing) {
    if (log->is_first && !log->lacks_rights[node])
        log_notice("node %s: does not wake waiters, which poll instead: %s", log->node_names[node], missing);
    log->lacks_rights[node] = true;
}

/* Moves the hash to the front; a new one replaces the one that was seen longest ago. */
static bool is_new_difference(struct node_log *log, uint64_t hash) {
    unsigned at = 0;

    while (at < NODE_LOG_DIFFERENCES - 1 && log->differences[at] != hash)
        at++;
    bool is_new = log->differences[at] != hash;
    memmove(&log->differences[1], &log->differences[0], at * sizeof(log->differences[0]));
    log->differences[0] = hash;
    return is_new;
}

void node_log_difference(struct node_log *log, const char *difference) {
    static const uint64_t key[2] = {0, 0};

    if (!log->is_first || difference[0] == '\0' ||
        !is_new_difference(log, hash_bytes(key, difference, strlen(difference))))
        return;
    log_warning("agents of these nodes are configured differently: %s", difference);
}

/* The end of the window of a node's states: their count, then the last of them. */
static instant_ns settle_states(struct node_log *log, unsigned node, instant_ns now_ns) {
    struct node_log_state *suppressed = &log->suppressed[node];
    instant_ns due_ns = log_limit_settle(&log->state_lines[node], now_ns);

    if (!suppressed->due || due_ns != INSTANT_NEVER)
        return due_ns;
    suppressed->due = false;
    if (log_limit_take(&log->state_lines[node], now_ns))
        write_state(log, node, suppressed->node_state, suppressed->text);
    return INSTANT_NEVER;
}

void node_log_settle(struct node_log *log, instant_ns now_ns) {
    log->due_ns = log_limit_settle(&log->foreign_values, now_ns);
    for (unsigned i = 0; i < NODES_MAX; i++)
        log->due_ns = instant_min(log->due_ns, settle_states(log, i, now_ns));
}
