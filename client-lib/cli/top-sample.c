#include "top-sample.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "listing.h"
#include "metrics-text.h"
#include "printable.h"

/* Beyond these a number is no count and no time, and an int64_t might have no room for it. */
#define COUNT_MAX 9e15
#define SECONDS_MAX 9e9

/* --- values --- */

/* Without control characters, which a terminal would obey. */
static void copy_text(char *buffer, size_t size, const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get_text(map, key);

    (void) snprintf(buffer, size, "%.*s", value ? (int) value->length : 0, value ? value->text : "");
    printable_clean(buffer, strlen(buffer));
}

#define COPY(buffer, map, key) copy_text(buffer, sizeof(buffer), map, key)

static void on_status(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;

    (void) n_tokens;
    COPY(sample->version, tokens, "version");
    COPY(sample->agent, tokens, "agent");
    COPY(sample->host, tokens, "host");
    COPY(sample->state, tokens, "state");
    sample->uptime_ms = listing_integer(tokens, "uptime");
    sample->nodes = listing_integer(tokens, "nodes");
    sample->quorum = listing_integer(tokens, "quorum");
    sample->voting = listing_integer(tokens, "voting");
    sample->sessions = listing_integer(tokens, "sessions");
    sample->leases = listing_integer(tokens, "leases");
    sample->waiters = listing_integer(tokens, "waiters");
    sample->cooling = listing_integer(tokens, "cooling");
    sample->grants = listing_integer(tokens, "grants");
    sample->handoffs = listing_integer(tokens, "handoffs");
    sample->releases = listing_integer(tokens, "releases");
    sample->losses = listing_integer(tokens, "losses");
    sample->extensions = listing_integer(tokens, "extensions");
    sample->extensions_failed = listing_integer(tokens, "extensions_failed");
}

static void on_nodes(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;
    struct listing_items maps = listing_items(tokens);

    (void) n_tokens;
    for (const struct resp_token *map; (map = listing_next(&maps));) {
        if (sample->n_node_rows == TOP_SAMPLE_NODES_MAX)
            return;
        struct top_sample_node *node = &sample->node_rows[sample->n_node_rows++];
        COPY(node->name, map, "name");
        COPY(node->state, map, "state");
        COPY(node->reason, map, "reason");
        node->since_ms = listing_integer(map, "since");
        node->p50_us = listing_integer(map, "rtt_p50");
        node->p99_us = listing_integer(map, "rtt_p99");
    }
}

static void on_grants(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;
    struct listing_items maps = listing_items(tokens);

    (void) n_tokens;
    sample->latest = true;
    for (const struct resp_token *map; (map = listing_next(&maps));) {
        if (sample->n_grant_rows == TOP_SAMPLE_GRANTS_MAX)
            return;
        struct top_sample_grant *grant = &sample->grant_rows[sample->n_grant_rows++];
        COPY(grant->name, map, "name");
        COPY(grant->state, map, "state");
        grant->since_ms = listing_integer(map, "since");
        grant->pid = listing_integer(map, "pid");
        grant->uid = listing_integer(map, "uid");
        grant->fence = listing_integer(map, "fence");
    }
}

/* --- metrics --- */

/* The label's value, as copy_text(). */
static const char *copy_label(const struct metrics_text_sample *line, const char *label, char *buffer,
                              size_t size) {
    (void) metrics_text_label(line, label, buffer, size);
    printable_clean(buffer, strlen(buffer));
    return buffer;
}

static void add_bucket(struct top_sample_histogram *histogram, const struct metrics_text_sample *line) {
    char bound[TOP_SAMPLE_WORD_BYTES];

    if (histogram->n == TOP_SAMPLE_BOUNDS_MAX)
        return;
    double seconds = strtod(copy_label(line, "le", bound, sizeof(bound)), NULL);
    histogram->bounds[histogram->n] = seconds >= 0 && seconds <= SECONDS_MAX ? seconds : INFINITY;
    histogram->counts[histogram->n++] = line->value;
}

static void add_count(struct top_sample_count counts[TOP_SAMPLE_WORDS_MAX], unsigned *n,
                      const struct metrics_text_sample *line, const char *label) {
    if (*n == TOP_SAMPLE_WORDS_MAX)
        return;
    (void) copy_label(line, label, counts[*n].word, sizeof(counts[*n].word));
    counts[(*n)++].count = line->value;
}

/* Buckets of one thread follow each other. */
static void add_lag(struct top_sample *sample, const struct metrics_text_sample *line) {
    char name[TOP_SAMPLE_WORD_BYTES];
    unsigned last = sample->n_threads - 1;

    (void) copy_label(line, "thread", name, sizeof(name));
    if (sample->n_threads == 0 || strcmp(sample->threads[last].name, name) != 0) {
        if (sample->n_threads == TOP_SAMPLE_THREADS_MAX)
            return;
        last = sample->n_threads++;
        memcpy(sample->threads[last].name, name, sizeof(name));
    }
    add_bucket(&sample->threads[last].lag, line);
}

static void add_use(struct top_sample *sample, const struct metrics_text_sample *line) {
    char uid[TOP_SAMPLE_WORD_BYTES], quota[TOP_SAMPLE_WORD_BYTES];
    unsigned last = sample->n_users - 1;

    (void) copy_label(line, "uid", uid, sizeof(uid));
    (void) copy_label(line, "quota", quota, sizeof(quota));
    if (sample->n_users == 0 || strcmp(sample->users[last].uid, uid) != 0) {
        if (sample->n_users == TOP_SAMPLE_USERS_MAX)
            return;
        last = sample->n_users++;
        memcpy(sample->users[last].uid, uid, sizeof(uid));
    }
    struct top_sample_user *user = &sample->users[last];
    if (strcmp(quota, "max_sessions") == 0)
        user->sessions = line->value;
    else if (strcmp(quota, "max_leases") == 0)
        user->leases = line->value;
    else if (strcmp(quota, "max_extensions") == 0)
        user->extensions = line->value;
    else if (strcmp(quota, "max_observations") == 0)
        user->observations = line->value;
    else if (strcmp(quota, "max_buffered_bytes") == 0)
        user->buffered_bytes = line->value;
}

static void add_outstanding(struct top_sample *sample, const struct metrics_text_sample *line) {
    char name[TOP_SAMPLE_WORD_BYTES];

    (void) copy_label(line, "node", name, sizeof(name));
    for (unsigned i = 0; i < sample->n_node_rows; i++)
        if (strcmp(sample->node_rows[i].name, name) == 0)
            sample->node_rows[i].outstanding = (int64_t) line->value;
}

static void add_metric(struct top_sample *sample, const struct metrics_text_sample *line) {
    if (!(line->value >= 0 && line->value <= COUNT_MAX)) /* nor "NaN" */
        return;
    if (metrics_text_is(line, "redlock_acquire_seconds_bucket"))
        add_bucket(&sample->acquisitions, line);
    else if (metrics_text_is(line, "redlock_wait_seconds_bucket"))
        add_bucket(&sample->waits, line);
    else if (metrics_text_is(line, "redlock_loop_lag_seconds_bucket"))
        add_lag(sample, line);
    else if (metrics_text_is(line, "redlock_rejections_total"))
        add_count(sample->words, &sample->n_words, line, "word");
    else if (metrics_text_is(line, "redlock_losses_total"))
        add_count(sample->reasons, &sample->n_reasons, line, "reason");
    else if (metrics_text_is(line, "redlock_user_used"))
        add_use(sample, line);
    else if (metrics_text_is(line, "redlock_node_outstanding_requests"))
        add_outstanding(sample, line);
}

static void on_metrics(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;
    struct metrics_text text;
    struct metrics_text_sample line;

    (void) n_tokens;
    sample->metrics = true;
    metrics_text_init(&text, tokens[0].text, tokens[0].length);
    while (metrics_text_next(&text, &line))
        add_metric(sample, &line);
}

/* --- the requests --- */

/* True if the sample is whole without this answer: rules may deny it, and an older agent has neither METRICS
 * nor LATEST. */
static bool may_lack(const struct redlock *connection, int error) {
    static const char unknown[] = "ERR unknown command";

    if (error == REDLOCK_PROTOCOL)
        return strncmp(redlock_error_text(connection), unknown, sizeof(unknown) - 1) == 0;
    return error == REDLOCK_OK || error == REDLOCK_DENIED || error == REDLOCK_BAD_ARGUMENT;
}

int top_sample_take(struct top_sample *sample, struct redlock *connection) {
    static const char *const status[] = {"STATUS", NULL}, *const nodes[] = {"NODES", NULL},
                             *const metrics[] = {"METRICS", NULL},
                             *const latest[] = {"LEASES", "LATEST", "20", NULL};

    static_assert(TOP_SAMPLE_GRANTS_MAX == 20, "as many as the request asks for");
    *sample = (struct top_sample){0};
    int error = listing_request(connection, status, LISTING_MAP, on_status, sample);
    sample->at_ns = cli_now_ns();
    if (error == REDLOCK_OK)
        error = listing_request(connection, nodes, LISTING_MAPS, on_nodes, sample);
    if (error != REDLOCK_OK)
        return error;
    error = listing_request(connection, metrics, LISTING_TEXT, on_metrics, sample);
    if (may_lack(connection, error))
        error = listing_request(connection, latest, LISTING_MAPS, on_grants, sample);
    return may_lack(connection, error) ? REDLOCK_OK : error;
}
