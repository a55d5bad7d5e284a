#include "top-view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "duration.h"

enum { USERS_SHOWN = 5, NUMBER_BYTES = 24 };

/* Both samples; rates are those between them. */
struct view {
    FILE *output;
    const struct top_sample *now, *before; /* before: NULL without rates */
    double seconds;
};

/* --- rates --- */

/* "12.5", or "-" if unknown. */
static const char *rate_text(const struct view *view, double now, double before, char text[NUMBER_BYTES]) {
    if (!view->before)
        return "-";
    (void) snprintf(text, NUMBER_BYTES, "%.1f", (now - before) / view->seconds);
    return text;
}

/* In ms, the bound below which this share of the samples between the two is; NULL: there are none. */
static const char *quantile_text(const struct top_sample_histogram *now,
                                 const struct top_sample_histogram *before, double share,
                                 char text[DURATION_BYTES]) {
    unsigned n = now->n;

    if (n == 0 || before->n != n || now->counts[n - 1] - before->counts[n - 1] <= 0)
        return NULL;
    double wanted = share * (now->counts[n - 1] - before->counts[n - 1]);
    for (unsigned i = 0; i < n; i++)
        if (now->counts[i] - before->counts[i] >= wanted && isfinite(now->bounds[i]))
            return duration_milliseconds((int64_t) (now->bounds[i] * 1e6), text);
    return "> 8000";
}

static void print_rate(const struct view *view, const char *what, int64_t now, int64_t before) {
    char rate[NUMBER_BYTES];

    (void) fprintf(view->output, "%-14s %10s %14" PRId64, what,
                   rate_text(view, (double) now, (double) before, rate), now);
}

/* "  BUSY 3.0/s, TIMEOUT 1.0/s": those that came since. */
static void print_counts(const struct view *view, const struct top_sample_count *now,
                         const struct top_sample_count *before, unsigned n) {
    char rate[NUMBER_BYTES];
    bool any = false;

    for (unsigned i = 0; view->before && i < n; i++) {
        if (now[i].count <= before[i].count || strcmp(now[i].word, before[i].word) != 0)
            continue;
        (void) fprintf(view->output, "%s%s %s/s", any ? ", " : "  ", now[i].word,
                       rate_text(view, now[i].count, before[i].count, rate));
        any = true;
    }
    (void) fputc('\n', view->output);
}

static double sum(const struct top_sample_count *counts, unsigned n) {
    double all = 0;

    for (unsigned i = 0; i < n; i++)
        all += counts[i].count;
    return all;
}

/* "  p50 0.26 ms, p99 1.02 ms where …", if there were any. */
static void print_times(const struct view *view, const struct top_sample_histogram *now,
                        const struct top_sample_histogram *before, const char *what) {
    char p50[DURATION_BYTES], p99[DURATION_BYTES];
    const char *text = quantile_text(now, before, 0.5, p50);

    if (text)
        (void) fprintf(view->output, "  p50 %s ms, p99 %s ms %s", text,
                       quantile_text(now, before, 0.99, p99), what);
    (void) fputc('\n', view->output);
}

/* --- sections --- */

static void print_head(const struct view *view) {
    const struct top_sample *now = view->now;
    char up[DURATION_BYTES];

    (void) fprintf(view->output,
                   "redlockd %s on %s: %s, %" PRId64 " of %" PRId64 " nodes vote, %" PRId64
                   " are needed; up %s\n",
                   now->version, now->host, now->state, now->voting, now->nodes, now->quorum,
                   duration_text(now->uptime_ms, up));
    (void) fprintf(view->output,
                   "sessions: %" PRId64 ", leases: %" PRId64 ", waiters: %" PRId64
                   ", names that cool: %" PRId64 "\n\n",
                   now->sessions, now->leases, now->waiters, now->cooling);
}

static void print_rates(const struct view *view) {
    static const struct top_sample none;
    const struct top_sample *now = view->now, *before = view->before ? view->before : &none;

    (void) fprintf(view->output, "%-14s %10s %14s\n", "", "PER SECOND", "SINCE START");
    print_rate(view, "grants", now->grants, before->grants);
    print_times(view, &now->acquisitions, &before->acquisitions, "where the name was free");
    print_rate(view, "hand-offs", now->handoffs, before->handoffs);
    print_times(view, &now->waits, &before->waits, "of all that waited");
    print_rate(view, "releases", now->releases, before->releases);
    (void) fputc('\n', view->output);
    print_rate(view, "extensions", now->extensions, before->extensions);
    (void) fputc('\n', view->output);
    print_rate(view, "  failed", now->extensions_failed, before->extensions_failed);
    (void) fputc('\n', view->output);
    print_rate(view, "losses", now->losses, before->losses);
    print_counts(view, now->reasons, before->reasons, now->n_reasons);
    if (!now->metrics)
        return;
    print_rate(view, "rejections", (int64_t) sum(now->words, now->n_words),
               (int64_t) sum(before->words, before->n_words));
    print_counts(view, now->words, before->words, now->n_words);
}

/* A keeper without leases has no timers that could be late. */
static void print_lags(const struct view *view) {
    static const struct top_sample none;
    const struct top_sample *now = view->now, *before = view->before ? view->before : &none;
    char p99[DURATION_BYTES];

    if (!now->metrics)
        return;
    (void) fputs("loop lag p99  ", view->output);
    for (unsigned i = 0; i < now->n_threads; i++) {
        const char *text = quantile_text(&now->threads[i].lag, &before->threads[i].lag, 0.99, p99);
        (void) fprintf(view->output, "%s %s %s%s", i > 0 ? "," : "", now->threads[i].name, text ? text : "-",
                       text ? " ms" : "");
    }
    (void) fputc('\n', view->output);
}

static int compare_nodes(const void *one, const void *other) {
    const struct top_sample_node *a = one, *b = other;
    bool a_votes = strcmp(a->state, "voting") == 0, b_votes = strcmp(b->state, "voting") == 0;

    if (a_votes != b_votes)
        return a_votes - b_votes;
    return (a->p99_us < b->p99_us) - (a->p99_us > b->p99_us);
}

/* Those that do not vote, then the slowest first. */
static void print_nodes(const struct view *view) {
    struct top_sample_node nodes[TOP_SAMPLE_NODES_MAX];
    char since[DURATION_BYTES], p50[DURATION_BYTES], p99[DURATION_BYTES], open[NUMBER_BYTES] = "-";
    unsigned n = view->now->n_node_rows;

    memcpy(nodes, view->now->node_rows, n * sizeof(nodes[0]));
    qsort(nodes, n, sizeof(nodes[0]), compare_nodes);
    (void) fprintf(view->output, "\n%-16s %-11s %-8s %8s %8s %6s\n", "NODE", "STATE", "SINCE", "P50 ms",
                   "P99 ms", "OPEN");
    for (unsigned i = 0; i < n; i++) {
        if (view->now->metrics)
            (void) snprintf(open, sizeof(open), "%" PRId64, nodes[i].outstanding);
        (void) fprintf(view->output, "%-16s %-11s %-8s %8s %8s %6s%s%s\n", nodes[i].name, nodes[i].state,
                       duration_text(nodes[i].since_ms, since), duration_milliseconds(nodes[i].p50_us, p50),
                       duration_milliseconds(nodes[i].p99_us, p99), open, nodes[i].reason[0] ? "  " : "",
                       nodes[i].reason);
    }
}

/* A lease with the agent's usual ttl of 10 s needs 16 extensions a minute. */
static double weight_of(const struct top_sample_user *user) {
    return user->sessions + user->leases + user->extensions / 16 + user->observations;
}

static int compare_users(const void *one, const void *other) {
    const struct top_sample_user *a = one, *b = other;
    double a_weight = weight_of(a), b_weight = weight_of(b);

    return (a_weight < b_weight) - (a_weight > b_weight);
}

/* The heaviest first. */
static void print_users(const struct view *view) {
    struct top_sample_user users[TOP_SAMPLE_USERS_MAX];
    unsigned n = view->now->n_users;

    if (n == 0)
        return;
    memcpy(users, view->now->users, n * sizeof(users[0]));
    qsort(users, n, sizeof(users[0]), compare_users);
    (void) fprintf(view->output, "\n%-16s %10s %10s %10s %10s %10s\n", "UID", "SESSIONS", "LEASES",
                   "EXTEND/min", "OBSERVED", "BUFFERED");
    for (unsigned i = 0; i < n && i < USERS_SHOWN; i++)
        (void) fprintf(view->output, "%-16s %10.0f %10.0f %10.0f %10.0f %8.0f K\n", users[i].uid,
                       users[i].sessions, users[i].leases, users[i].extensions, users[i].observations,
                       users[i].buffered_bytes / 1024);
    if (n > USERS_SHOWN)
        (void) fprintf(view->output, "and %u others\n", n - USERS_SHOWN);
}

/* Of each name the last grant. */
static void print_grants(const struct view *view) {
    char since[DURATION_BYTES];

    if (!view->now->latest)
        return;
    (void) fprintf(view->output, "\n%-8s %-9s %8s %8s %17s  %s\n", "GRANTED", "STATE", "PID", "UID", "FENCE",
                   "NAME");
    for (unsigned i = 0; i < view->now->n_grant_rows; i++) {
        const struct top_sample_grant *grant = &view->now->grant_rows[i];
        (void) fprintf(view->output, "%-8s %-9s %8" PRId64 " %8" PRId64 " %17" PRId64 "  %s\n",
                       duration_text(grant->since_ms, since), grant->state, grant->pid, grant->uid,
                       grant->fence, grant->name);
    }
}

void top_view_print(FILE *output, const struct top_sample *now, const struct top_sample *before) {
    bool comparable = before && before->agent[0] != '\0' && strcmp(before->agent, now->agent) == 0 &&
                      before->at_ns < now->at_ns;
    const struct view view = {
        .output = output,
        .now = now,
        .before = comparable ? before : NULL,
        .seconds = comparable ? (double) (now->at_ns - before->at_ns) / NS_PER_S : 1,
    };

    print_head(&view);
    print_rates(&view);
    print_lags(&view);
    print_nodes(&view);
    print_users(&view);
    print_grants(&view);
}
