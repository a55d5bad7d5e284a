/* METRICS, and the histograms behind it. The text's form is checked with a real agent: test_metrics.py. */

#include <assert.h>

#include "base/histogram.h"
#include "core/limits.h"
#include "local/reply.h"
#include "scripted-keeper.h"
#include "tap.h"

static const char *metrics(void) {
    ask(1, "METRICS");
    local_harness_counted();
    return got(1);
}

/* Whether the last answer has this line. */
static bool shows(const char *line) {
    char whole[512];

    (void) snprintf(whole, sizeof(whole), "\n%s\n", line);
    return strstr(got(1), whole) != NULL;
}

static void test_histogram(void) {
    struct histogram histogram = {0}, other = {0};
    struct histogram_shares shares = {0};

    histogram_note(&histogram, -5);
    histogram_note(&histogram, 15999);
    is_int(histogram.counts[0], 2, "the first bucket has less than 16 us, and what came early");
    histogram_note(&histogram, 16000);
    is_int(histogram.counts[1], 1, "16 us are in the second one");
    histogram_note(&histogram, 31999);
    is_int(histogram.counts[1], 2, "and 31.9 us");
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        histogram_note(&other, ((int64_t) histogram_bound_us(i) - 1) * NS_PER_US);
        if (other.counts[i] != 1)
            ok(false, "just below bound %u", i);
    }
    histogram_note(&other, (int64_t) histogram_bound_us(HISTOGRAM_BOUNDS - 1) * NS_PER_US);
    is_int(other.counts[HISTOGRAM_BOUNDS], 1, "the last bound itself is beyond all bounds");
    histogram_note(&other, INT64_MAX);
    is_int(other.counts[HISTOGRAM_BOUNDS], 2, "and so is any time");
    histogram_add(&histogram, &other);
    is_int(histogram.counts[0], 3, "a sum");
    histogram_note_share(&shares, 0);
    histogram_note_share(&shares, 99);
    histogram_note_share(&shares, 100);
    histogram_note_share(&shares, 1000);
    is_int(shares.counts[0], 2, "less than a tenth");
    is_int(shares.counts[1], 1, "a tenth");
    is_int(shares.counts[9], 1, "all of it");
}

static void test_reply(void) {
    char header[32];

    begin(8);
    ask(1, "METRICS");
    is_string(got(1), "", "METRICS waits for the keepers");
    is_int(keeper.surveys, 1, "and asks them for their counters");
    local_harness_counted();
    const char *text = strchr(got(1), '\n') + 1;
    (void) snprintf(header, sizeof(header), "$%zu\r\n", strlen(text) - 2);
    ok(begins(1, header), "its length is right");
    ok(strcmp(text + strlen(text) - 9, "\n# EOF\n\r\n") == 0, "the text ends with # EOF");
    ok(shows("redlock_build_info{version=\"1.2.3\",agent=\"00c0ffee\",host=\"web1\"} 1"),
       "it names the agent");
    ok(shows("redlock_state{redlock_state=\"no-quorum\"} 1"), "its state");
    ok(shows("# UNIT redlock_uptime_seconds seconds"), "units are stated");
}

static void test_losses(void) {
    begin(8);
    (void) hold(0, "ACQUIRE one ASYNC");
    uint64_t other = hold(0, "ACQUIRE other ASYNC");
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_LOST, .request = other, .reason = REASON_TAKEN},
                    harness.now_ns);
    (void) metrics();
    ok(shows("redlock_losses_total{reason=\"taken\"} 1"),
       "a loss that the keeper reports counts for its reason");
    harness.now_ns += 20 * NS_PER_S;
    registry_tick(&harness.front.registry, harness.now_ns);
    (void) metrics();
    ok(shows("redlock_losses_total{reason=\"paused\"} 1"), "and so does a loss that the front sees first");
    ask(1, "STATUS");
    local_harness_counted();
    ok(strstr(got(1), "losses\r\n:2\r\n") != NULL, "STATUS has the sum");
}

static void test_rejections(void) {
    begin(8);
    (void) hold(0, "ACQUIRE one");
    ask(2, "ACQUIRE one");
    ask(2, "ACQUIRE one ASYNC");
    ask(2, "ACQUIRE one TTL 1");
    ask(2, "ACQUIRE one WAIT 10 ASYNC");
    harness.now_ns += 1000 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    (void) metrics();
    ok(shows("redlock_rejections_total{word=\"BUSY\"} 2"), "error replies are counted, also as pushes");
    ok(shows("redlock_rejections_total{word=\"TIMEOUT\"} 1"), "by their word");
    ok(shows("redlock_rejections_total{word=\"BADARG\"} 1"), "whatever it is");
    ok(shows("redlock_rejections_total{word=\"NOQUORUM\"} 0"), "a word without replies is there with 0");
    reply_count_rejection(&harness.front, "NEWWORD");
    (void) metrics();
    ok(shows("redlock_rejections_total{word=\"other\"} 1"), "an unknown word is not lost");
}

static void test_durations(void) {
    begin(8);
    ask(0, "ACQUIRE one");
    uint64_t first = last_command()->request;
    harness.now_ns += 3 * NS_PER_MS;
    report(first, REPORT_GRANTED);
    ask(2, "ACQUIRE one WAIT -1 ASYNC");
    harness.now_ns += 700 * NS_PER_MS;
    (void) metrics();
    ok(shows("redlock_acquire_seconds_count 1") && shows("redlock_acquire_seconds_sum 0.003000"),
       "a grant without waiting: from the request on");
    ok(shows("redlock_acquire_seconds_bucket{le=\"0.002048\"} 0") &&
           shows("redlock_acquire_seconds_bucket{le=\"0.004096\"} 1") &&
           shows("redlock_acquire_seconds_bucket{le=\"+Inf\"} 1"),
       "in its bucket");
    ok(shows("redlock_wait_seconds_count 0") && shows("redlock_waiters 1"),
       "a waiting request does not count yet");
    registry_report(&harness.front.registry, &(struct report){.kind = REPORT_LOST, .request = first},
                    harness.now_ns);
    report(last_command()->request, REPORT_GRANTED);
    (void) metrics();
    ok(shows("redlock_wait_seconds_count 1") && shows("redlock_wait_seconds_sum 0.700000"),
       "the wait counts when it ends with a grant");
    ok(shows("redlock_acquire_seconds_count 1"), "and only there");
}

static void test_nodes(void) {
    static const char trouble[] = "refused: \"no\" \\ \xc3\xa9\n";
    const struct report failed = {.kind = REPORT_NODE,
                                  .node_state = NODE_STATE_FAILED,
                                  .text = trouble,
                                  .text_length = sizeof(trouble) - 1};

    begin(8);
    (void) metrics();
    ok(strstr(got(1), "redlock_node_trouble_info{") == NULL, "a node without trouble shows none");
    front_state_node_report(&harness.front, 0, &failed, harness.now_ns);
    harness.front.keepers[0].times[0] = (struct front_state_node_times){
        .until_ns = harness.now_ns + 61 * NS_PER_S, .clock_us = -1500, .outstanding = 3};
    histogram_note(&harness.front.keepers[0].times[0].rtts, 250 * NS_PER_US);
    (void) metrics();
    ok(shows("redlock_node_state{node=\"a\",redlock_node_state=\"failed\"} 1") &&
           shows("redlock_node_state{node=\"a\",redlock_node_state=\"voting\"} 0"),
       "a node's state is a set with one 1");
    ok(shows("redlock_node_trouble_info{node=\"a\",reason=\"refused: \\\"no\\\" \\\\ ???\"} 1"),
       "a server's words can't break the text");
    ok(shows("redlock_node_clock_offset_seconds{node=\"a\"} -0.001500"), "a clock behind the others");
    ok(shows("redlock_node_outstanding_requests{node=\"a\"} 3"), "its queue");
    ok(shows("redlock_node_quarantine_seconds{node=\"a\"} 0.000"), "not quarantined: 0");
    ok(shows("redlock_node_round_trip_seconds_bucket{node=\"a\",le=\"0.000256\"} 1") &&
           shows("redlock_node_round_trip_seconds_count{node=\"a\"} 1"),
       "round trips");
    front_state_node_report(
        &harness.front, 0,
        &(struct report){
            .kind = REPORT_NODE, .node_state = NODE_STATE_QUARANTINED, .text = "is new", .text_length = 6},
        harness.now_ns);
    (void) metrics();
    ok(shows("redlock_node_quarantine_seconds{node=\"a\"} 61.000"), "the end of a quarantine");
    front_state_node_report(&harness.front, 0,
                            &(struct report){.kind = REPORT_NODE, .node_state = NODE_STATE_VOTING},
                            harness.now_ns);
    harness.now_ns += 5 * NS_PER_S;
    (void) metrics();
    ok(shows("redlock_node_trouble_info{node=\"a\",reason=\"is new\"} 1") &&
           shows("redlock_node_trouble_age_seconds{node=\"a\"} 5.000"),
       "the last trouble stays, and its age");
}

static void report_trouble(const char *text) {
    const struct report report = {.kind = REPORT_NODE,
                                  .node_state = NODE_STATE_FAILED,
                                  .text = text,
                                  .text_length = (uint16_t) strlen(text)};
    front_state_node_report(&harness.front, 0, &report, harness.now_ns);
    (void) metrics();
}

/* A server may end each error with a number. Prometheus keeps a series for each label. */
static void test_troubles_without_end(void) {
    char text[64], shown[128];
    unsigned n_shown = 0;

    begin(1);
    for (int i = 0; i < 100; i++) {
        (void) snprintf(text, sizeof(text), "ERR number %d", i);
        (void) snprintf(shown, sizeof(shown), "redlock_node_trouble_info{node=\"a\",reason=\"%s\"} 1", text);
        report_trouble(text);
        n_shown += shows(shown);
    }
    is_int(n_shown, TROUBLE_REASONS_MAX, "the first reasons of a node are shown");
    ok(shows("redlock_node_trouble_info{node=\"a\",reason=\"one of many: see the log\"} 1"),
       "the others are one label");
    report_trouble("ERR number 7");
    ok(shows("redlock_node_trouble_info{node=\"a\",reason=\"ERR number 7\"} 1"),
       "one of the first is shown again");
}

static void test_users(void) {
    begin(8);
    harness.front.registry.quota.max[QUOTA_LEASES] = 77;
    (void) hold(0, "ACQUIRE one ASYNC TTL 10000");
    (void) metrics();
    ok(shows("redlock_quota_used{quota=\"max_leases\"} 1"), "every user sees the sums of all users");
    ok(shows("redlock_quota_max{quota=\"max_leases\"} 77"), "and the limit of all");
    ok(strstr(got(1), "redlock_user_used{") == NULL, "a user does not see another user's numbers");
    harness.sessions[1].uid = 0;
    (void) metrics();
    ok(shows("redlock_user_used{uid=\"1000\",quota=\"max_leases\"} 1"), "root sees it");
}

/* The samples of a metric in the last answer. */
static unsigned count_samples(const char *metric) {
    char mark[128];
    unsigned n = 0;

    (void) snprintf(mark, sizeof(mark), "\n%s", metric);
    for (const char *at = got(1); (at = strstr(at, mark)); at += strlen(mark))
        n += at[strlen(mark)] == '{' || at[strlen(mark)] == ' ';
    return n;
}

static void test_samples(void) {
    static const struct {
        const char *metric;
        unsigned samples;
    } cases[] = {
        {"redlock_acquire_seconds_bucket", HISTOGRAM_BOUNDS + 1},
        {"redlock_acquire_seconds_count", 1},
        {"redlock_extension_margin_ratio_bucket", HISTOGRAM_SHARES + 1},
        {"redlock_extension_delay_seconds_sum", 1},
        {"redlock_loop_lag_seconds_bucket", 4 * (HISTOGRAM_BOUNDS + 1)},
        {"redlock_loop_lag_seconds_count", 4},
        {"redlock_node_state", 2 * (NODE_STATE_FAILED + 1)},
        {"redlock_node_state_age_seconds", 2},
        {"redlock_node_quarantine_seconds", 2},
        {"redlock_node_outstanding_requests", 2},
        {"redlock_node_clock_offset_seconds", 2},
        {"redlock_node_round_trip_seconds_count", 2},
        {"redlock_node_round_trip_seconds_bucket", 2 * (HISTOGRAM_BOUNDS + 1)},
        {"redlock_node_trouble_info", 0},
        {"redlock_node_trouble_age_seconds", 0},
        {"redlock_quota_used", QUOTA_KINDS},
        {"redlock_quota_max", 1},
        {"redlock_user_quota_ratio", QUOTA_KINDS},
        {"redlock_losses_total", REASON_COUNT},
    };

    begin(8);
    harness.front.registry.quota.max[QUOTA_BYTES] = 1;
    harness.front.identity.n_keepers = 3;
    harness.front.identity.n_nodes = 2;
    harness.front.identity.node_names[1] = "b";
    (void) metrics();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ok(count_samples(cases[i].metric) == cases[i].samples, "%s has %u samples", cases[i].metric,
           cases[i].samples);
    ok(shows("redlock_loop_lag_seconds_count{thread=\"keeper-2\"} 0"), "the last keeper is one of them");
}

/* Sums, or extremes, of all keepers. */
static void test_keepers(void) {
    static const uint32_t margins[] = {900, 300, 700};
    static const int64_t late_ms[] = {5, 70, 6};

    begin(8);
    harness.front.identity.n_keepers = 3;
    for (unsigned i = 0; i < 4; i++) {
        struct shard_counters *counters = &harness.front.keepers[i].counters;
        counters->grants = i < 3 ? 10 + i : 1000;
        counters->extension_margin_permille = i < 3 ? margins[i] : 0;
        counters->extension_late_ns = (i < 3 ? late_ms[i] : 900) * NS_PER_MS;
        histogram_note(&counters->extension_delays, NS_PER_MS);
        histogram_note_share(&counters->extension_margins, 150);
    }
    (void) metrics();
    ok(shows("redlock_grants_total 33"), "the grants of three keepers");
    ok(shows("redlock_extension_margin_min_ratio 0.30"), "the smallest margin");
    ok(shows("redlock_extension_delay_max_seconds 0.070"), "the longest delay");
    ok(shows("redlock_extension_delay_seconds_count 3"), "the sum of histograms");
    ok(shows("redlock_extension_margin_ratio_bucket{le=\"0.1\"} 0") &&
           shows("redlock_extension_margin_ratio_bucket{le=\"0.2\"} 3") &&
           shows("redlock_extension_margin_ratio_bucket{le=\"1.0\"} 3") &&
           shows("redlock_extension_margin_ratio_sum 0.450"),
       "and of shares");
}

static void test_labels(void) {
    static char name[512];

    begin(8);
    harness.front.identity.node_names[0] = "a \x7f~\x1f";
    (void) metrics();
    ok(shows("redlock_node_outstanding_requests{node=\"a ?~?\"} 0"),
       "unprintable characters of a name are replaced");
    memset(name, 'x', sizeof(name) - 1);
    harness.front.identity.node_names[0] = name;
    (void) metrics();
    ok(count_samples("redlock_node_outstanding_requests") == 1, "a long name is cut");
}

/* The most nodes and keepers, the longest texts. */
static void test_size(void) {
    static char reason[NODE_TROUBLE_BYTES], name[64];
    const struct local_harness_setup setup = {.identity = {.version = "1.2.3",
                                                           .agent = "00c0ffee",
                                                           .host = "web1",
                                                           .n_nodes = NODES_MAX,
                                                           .n_keepers = KEEPERS_MAX},
                                              .sink = {.query = on_command, .survey = on_survey},
                                              .registry_sink = {.command = on_command},
                                              .requests_max = 512,
                                              .limit = 8,
                                              .sessions = LISTENERS};
    struct local_harness_setup full = setup;

    memset(reason, '"', sizeof(reason));
    memset(name, 'n', sizeof(name) - 1);
    for (unsigned i = 0; i < NODES_MAX; i++)
        full.identity.node_names[i] = full.identity.node_addresses[i] = name;
    local_harness_begin(&full);
    for (unsigned i = 0; i < KEEPERS_MAX; i++)
        for (unsigned j = 0; j < NODES_MAX; j++) {
            const struct report failed = {.kind = REPORT_NODE,
                                          .node = j,
                                          .node_state = NODE_STATE_FAILED,
                                          .text = reason,
                                          .text_length = sizeof(reason)};
            front_state_node_report(&harness.front, i, &failed, harness.now_ns);
            memset(&harness.front.keepers[i].times[j].rtts, 0x01, sizeof(struct histogram));
        }
    for (unsigned i = 0; i < 2 * QUOTA_ACCOUNTS; i++)
        for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
            (void) quota_charge(&harness.front.registry.quota, 1000000000 + i, kind, 100000);
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        harness.front.registry.quota.max[kind] = 4000000000;
    harness.sessions[1].uid = 0;
    (void) metrics();
    ok(harness.output_length[1] < 244 * 1024 && SESSION_OUTPUT_BYTES_MAX > 244 * 1024,
       "the longest answer is as short as the page says, and a session may leave it unread: %zu bytes",
       harness.output_length[1]);
}

int main(void) {
    test_histogram();
    test_reply();
    test_losses();
    test_rejections();
    test_durations();
    test_nodes();
    test_troubles_without_end();
    test_users();
    test_samples();
    test_keepers();
    test_labels();
    test_size();
    return done_testing();
}
