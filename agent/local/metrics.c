#include "local/metrics.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "local/front-state.h"
#include "local/numbers.h"
#include "local/reply.h"

enum {
    LINE_BYTES = 512,
    LABEL_BYTES = 2 * NODE_TROUBLE_BYTES,
    HEADER_BYTES = 32, /* of a bulk string */
    US_PER_S = 1000 * 1000,
};

/* --- lines --- */

__attribute__((format(printf, 2, 3))) static void put(struct resp_writer *text, const char *format, ...) {
    char line[LINE_BYTES + LABEL_BYTES];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    assert(length >= 0 && (size_t) length < sizeof(line));
    resp_put_raw(text, line, (size_t) length);
}

static void put_family(struct resp_writer *text, const char *name, const char *type, const char *unit,
                       const char *help) {
    put(text, "# TYPE %s %s\n", name, type);
    if (unit)
        put(text, "# UNIT %s %s\n", name, unit);
    put(text, "# HELP %s %s\n", name, help);
}

/* As a decimal fraction. `divisor`: a power of ten. */
static void put_value(struct resp_writer *text, int64_t value, int64_t divisor) {
    uint64_t size = value < 0 ? 0 - (uint64_t) value : (uint64_t) value, part = (uint64_t) divisor;
    int digits = 0;

    for (uint64_t rest = part; rest > 1; rest /= 10)
        digits++;
    put(text, " %s%llu", value < 0 ? "-" : "", (unsigned long long) (size / part));
    if (digits > 0)
        put(text, ".%0*llu", digits, (unsigned long long) (size % part));
    put(text, "\n");
}

/* The value of a label: Prometheus rejects a text that is no UTF-8 as a whole, so other bytes than printable
 * ASCII become '?'. Returns `buffer`. */
static const char *label(const char *value, char buffer[LABEL_BYTES]) {
    size_t used = 0;

    for (; *value && used + 2 < LABEL_BYTES; value++) {
        if (*value == '"' || *value == '\\')
            buffer[used++] = '\\';
        buffer[used++] = *value < ' ' || *value > '~' ? '?' : *value;
    }
    buffer[used] = '\0';
    return buffer;
}

/* --- histograms --- */

/* `labels`: "", or labels with a comma at the end. */
static void put_bucket(struct resp_writer *text, const char *name, const char *labels, uint64_t bound,
                       unsigned divisor, int digits, uint64_t count) {
    put(text, "%s_bucket{%sle=\"%llu.%0*llu\"} %llu\n", name, labels, (unsigned long long) (bound / divisor),
        digits, (unsigned long long) (bound % divisor), (unsigned long long) count);
}

static void put_sum(struct resp_writer *text, const char *name, const char *labels, uint64_t count,
                    uint64_t sum, int64_t divisor) {
    int length = (int) strlen(labels);
    const char *open = length > 0 ? "{" : "", *close = length > 0 ? "}" : "";

    length -= length > 0; /* without the comma */
    put(text, "%s_bucket{%sle=\"+Inf\"} %llu\n", name, labels, (unsigned long long) count);
    put(text, "%s_count%s%.*s%s %llu\n", name, open, length, labels, close, (unsigned long long) count);
    put(text, "%s_sum%s%.*s%s", name, open, length, labels, close);
    put_value(text, (int64_t) sum, divisor);
}

static void put_histogram(struct resp_writer *text, const char *name, const char *labels,
                          const struct histogram *histogram) {
    uint64_t count = 0;

    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        count += histogram->counts[i];
        put_bucket(text, name, labels, histogram_bound_us(i), US_PER_S, 6, count);
    }
    put_sum(text, name, labels, count + histogram->counts[HISTOGRAM_BOUNDS], histogram->sum_us, US_PER_S);
}

static void put_shares(struct resp_writer *text, const char *name, const struct histogram_shares *shares) {
    uint64_t count = 0;

    for (unsigned i = 0; i < HISTOGRAM_SHARES; i++) {
        count += shares->counts[i];
        put_bucket(text, name, "", i + 1, HISTOGRAM_SHARES, 1, count);
    }
    put_sum(text, name, "", count, shares->sum_permille, 1000);
}

/* --- the agent --- */

static void put_agent(struct resp_writer *text, const struct front_state *front) {
    static const char *const states[] = {"ready", "no-quorum", "draining"};
    const struct front_state_identity *identity = &front->identity;
    char host[LABEL_BYTES];

    put_family(text, "redlock_build", "info", NULL, "The agent: its version, its id and its host.");
    put(text, "redlock_build_info{version=\"%s\",agent=\"%s\",host=\"%s\"} 1\n", identity->version,
        identity->agent, label(identity->host, host));
    put_family(text, "redlock_state", "stateset", NULL, "The agent's state.");
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        put(text, "redlock_state{redlock_state=\"%s\"} %d\n", states[i],
            strcmp(front_state_word(front), states[i]) == 0);
}

static void put_numbers(struct resp_writer *text, struct front_state *front, instant_ns now_ns) {
    struct numbers_row numbers[NUMBERS_MAX];
    size_t n = numbers_read(front, now_ns, numbers);

    for (size_t i = 0; i < n; i++) {
        const struct numbers_row *number = &numbers[i];
        bool counts = number->kind == NUMBER_COUNTER;
        if (!number->metric)
            continue;
        put_family(text, number->metric, counts ? "counter" : "gauge", number->unit, number->help);
        put(text, "%s%s", number->metric, counts ? "_total" : "");
        put_value(text, number->value, number->divisor);
    }
}

static void put_ends(struct resp_writer *text, const struct front_state *front) {
    put_family(text, "redlock_losses", "counter", NULL, "Leases lost, by reason.");
    for (unsigned i = 0; i < REASON_COUNT; i++)
        put(text, "redlock_losses_total{reason=\"%s\"} %llu\n", reply_reason_word((enum reason) i),
            (unsigned long long) front->registry.losses[i]);
    put_family(text, "redlock_rejections", "counter", NULL, "Error replies to clients, by their word.");
    for (unsigned i = 0; i < FRONT_STATE_WORDS; i++)
        put(text, "redlock_rejections_total{word=\"%s\"} %llu\n", reply_word_of_slot(i),
            (unsigned long long) front->rejections[i]);
}

/* --- quotas --- */

static void put_users(struct resp_writer *text, const struct quota *quota) {
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        const struct quota_account *account = quota_at(quota, i);
        char uid[16] = "others";
        if (!account)
            continue;
        if (i > 0)
            (void) snprintf(uid, sizeof(uid), "%u", account->uid);
        for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
            put(text, "redlock_user_used{uid=\"%s\",quota=\"%s\"} %llu\n", uid,
                quota_word((enum quota_kind) kind), (unsigned long long) account->used[kind]);
    }
}

/* The use of single users is shown to sessions with the right `list`. */
static void put_quotas(struct resp_writer *text, const struct session *session) {
    const struct quota *quota = &session->front->registry.quota;

    put_family(text, "redlock_quota_used", "gauge", NULL, "What all users have of each quota.");
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        put(text, "redlock_quota_used{quota=\"%s\"} %llu\n", quota_word((enum quota_kind) kind),
            (unsigned long long) quota->used[kind]);
    put_family(text, "redlock_quota_max", "gauge", NULL, "The most that all users together may have.");
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        if (quota->max[kind] != QUOTA_UNLIMITED)
            put(text, "redlock_quota_max{quota=\"%s\"} %llu\n", quota_word((enum quota_kind) kind),
                (unsigned long long) quota->max[kind]);
    put_family(text, "redlock_user_quota_ratio", "gauge", "ratio",
               "The largest part of its limit that a user has of each quota.");
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++) {
        unsigned permille = quota_fullest_permille(quota, (enum quota_kind) kind);
        put(text, "redlock_user_quota_ratio{quota=\"%s\"} %u.%03u\n", quota_word((enum quota_kind) kind),
            permille / 1000, permille % 1000);
    }
    put_family(text, "redlock_user_used", "gauge", NULL, "What each user has of each quota.");
    if (session_may(session, POLICY_LIST, "", 0))
        put_users(text, quota);
}

/* --- durations --- */

static void put_durations(struct resp_writer *text, const struct front_state *front) {
    struct histogram delays = {0};
    struct histogram_shares margins = {0};

    for (unsigned i = 0; i < front->identity.n_keepers; i++) {
        histogram_add(&delays, &front->keepers[i].counters.extension_delays);
        histogram_add_shares(&margins, &front->keepers[i].counters.extension_margins);
    }
    put_family(text, "redlock_acquire_seconds", "histogram", "seconds",
               "From the request to the grant, where the name was free at the first attempt.");
    put_histogram(text, "redlock_acquire_seconds", "", &front->registry.acquisitions);
    put_family(text, "redlock_wait_seconds", "histogram", "seconds",
               "From the request to the grant, where another holder or attempt came first.");
    put_histogram(text, "redlock_wait_seconds", "", &front->registry.waits);
    put_family(text, "redlock_extension_delay_seconds", "histogram", "seconds",
               "From the time at which an extension was due to its sending.");
    put_histogram(text, "redlock_extension_delay_seconds", "", &delays);
    put_family(text, "redlock_extension_margin_ratio", "histogram", "ratio",
               "The part of the ttl that was left when a lease was extended.");
    put_shares(text, "redlock_extension_margin_ratio", &margins);
}

static void put_loops(struct resp_writer *text, const struct front_state *front) {
    static const char name[] = "redlock_loop_lag_seconds";
    char labels[LINE_BYTES / 4];

    put_family(text, name, "histogram", "seconds", "How late a thread served its timer.");
    put_histogram(text, name, "thread=\"front\",", &front->timer_delays);
    for (unsigned i = 0; i < front->identity.n_keepers; i++) {
        (void) snprintf(labels, sizeof(labels), "thread=\"keeper-%u\",", i);
        put_histogram(text, name, labels, &front->keepers[i].timer_delays);
    }
}

/* --- nodes --- */

struct node_row {
    char name[LABEL_BYTES];
    struct front_state_node state;
    struct front_state_node_times times;
    const struct front_state_trouble *trouble;
};

static struct node_row row_of(const struct front_state *front, unsigned node) {
    struct node_row row = {.state = front_state_node(front, node),
                           .times = front_state_times(front, node),
                           .trouble = &front->troubles[node]};

    (void) label(front->identity.node_names[node], row.name);
    return row;
}

static void put_states(struct resp_writer *text, const struct node_row rows[], unsigned n) {
    put_family(text, "redlock_node_state", "stateset", NULL,
               "The worst state that a keeper has of the node.");
    for (unsigned i = 0; i < n; i++)
        for (unsigned state = 0; state <= NODE_STATE_FAILED; state++)
            put(text, "redlock_node_state{node=\"%s\",redlock_node_state=\"%s\"} %d\n", rows[i].name,
                front_state_node_word((enum node_state) state),
                rows[i].state.node_state == (enum node_state) state);
}

/* A gauge of all nodes; `value` returns INT64_MAX where it has none. */
static void put_gauge(struct resp_writer *text, const char *name, const char *unit, int64_t divisor,
                      const char *help, int64_t (*value)(const struct node_row *row, instant_ns now_ns),
                      const struct node_row rows[], unsigned n, instant_ns now_ns) {
    put_family(text, name, "gauge", unit, help);
    for (unsigned i = 0; i < n; i++) {
        int64_t number = value(&rows[i], now_ns);
        if (number == INT64_MAX)
            continue;
        put(text, "%s{node=\"%s\"}", name, rows[i].name);
        put_value(text, number, divisor);
    }
}

static int64_t outstanding(const struct node_row *row, instant_ns now_ns) {
    (void) now_ns;
    return row->times.outstanding;
}

static int64_t clock_offset_us(const struct node_row *row, instant_ns now_ns) {
    (void) now_ns;
    return row->times.clock_us;
}

static int64_t state_age_ms(const struct node_row *row, instant_ns now_ns) {
    return instant_max(now_ns - row->state.since_ns, 0) / NS_PER_MS;
}

static int64_t quarantine_ms(const struct node_row *row, instant_ns now_ns) {
    if (row->state.node_state != NODE_STATE_QUARANTINED)
        return 0;
    if (row->times.until_ns == INSTANT_NEVER)
        return INT64_MAX;
    return instant_max(row->times.until_ns - now_ns, 0) / NS_PER_MS;
}

static int64_t trouble_age_ms(const struct node_row *row, instant_ns now_ns) {
    return row->trouble->at_ns == 0 ? INT64_MAX : (now_ns - row->trouble->at_ns) / NS_PER_MS;
}

static void put_troubles(struct resp_writer *text, const struct node_row rows[], unsigned n) {
    char reason[LABEL_BYTES];

    put_family(text, "redlock_node_trouble", "info", NULL,
               "Why the node did not vote last, or its last error.");
    for (unsigned i = 0; i < n; i++)
        if (rows[i].trouble->at_ns != 0)
            put(text, "redlock_node_trouble_info{node=\"%s\",reason=\"%s\"} 1\n", rows[i].name,
                label(rows[i].trouble->is_one_of_many ? "one of many: see the log"
                                                      : rows[i].trouble->reason,
                      reason));
}

static void put_round_trips(struct resp_writer *text, const struct node_row rows[], unsigned n) {
    static const char name[] = "redlock_node_round_trip_seconds";
    char labels[LABEL_BYTES + 16];

    put_family(text, name, "histogram", "seconds", "From the sending of a call to its answer.");
    for (unsigned i = 0; i < n; i++) {
        (void) snprintf(labels, sizeof(labels), "node=\"%.*s\",", LABEL_BYTES, rows[i].name);
        put_histogram(text, name, labels, &rows[i].times.rtts);
    }
}

static void put_nodes(struct resp_writer *text, const struct front_state *front, instant_ns now_ns) {
    struct node_row rows[NODES_MAX];
    unsigned n = front->identity.n_nodes;

    for (unsigned i = 0; i < n; i++)
        rows[i] = row_of(front, i);
    put_states(text, rows, n);
    put_gauge(text, "redlock_node_state_age_seconds", "seconds", 1000,
              "Time since the node's state changed.", state_age_ms, rows, n, now_ns);
    put_gauge(text, "redlock_node_quarantine_seconds", "seconds", 1000,
              "Time until the node's quarantine ends; without a sample while the end is unknown.",
              quarantine_ms, rows, n, now_ns);
    put_troubles(text, rows, n);
    put_gauge(text, "redlock_node_trouble_age_seconds", "seconds", 1000,
              "Time since the last trouble; without a sample if there was none since the start.",
              trouble_age_ms, rows, n, now_ns);
    put_gauge(text, "redlock_node_outstanding_requests", NULL, 1, "Requests that the node has not answered.",
              outstanding, rows, n, now_ns);
    put_gauge(text, "redlock_node_clock_offset_seconds", "seconds", US_PER_S,
              "How far the node's clock is ahead of the median of the nodes' clocks.", clock_offset_us, rows,
              n, now_ns);
    put_round_trips(text, rows, n);
}

/* --- the reply --- */

void metrics_reply(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    char header[HEADER_BYTES];
    /* Behind the room for the header, which has the length. */
    struct resp_writer text = {.buffer = front->reply + HEADER_BYTES,
                               .size = REPLY_BYTES_MAX - HEADER_BYTES};

    put_agent(&text, front);
    put_numbers(&text, front, now_ns);
    put_ends(&text, front);
    put_quotas(&text, session);
    put_durations(&text, front);
    put_loops(&text, front);
    put_nodes(&text, front, now_ns);
    put(&text, "# EOF\n");
    size_t length = text.length;
    resp_put_raw(&text, "\r\n", 2);
    assert(text.length <= text.size);

    int before = snprintf(header, sizeof(header), "$%zu\r\n", length);
    assert(before > 0 && before < HEADER_BYTES);
    struct resp_writer reply = {.buffer = text.buffer - before,
                                .size = text.size + (size_t) before,
                                .length = text.length + (size_t) before};
    memcpy(reply.buffer, header, (size_t) before);
    reply_send(session, &reply);
}
