#include "top-sample.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "listing.h"
#include "metrics-text.h"
#include "printable.h"

/* --- values --- */

/* Without control characters, which a terminal would obey. */
static void copy_text(char *buffer, size_t size, const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get(map, key);

    (void) snprintf(buffer, size, "%.*s", value ? (int) value->length : 0, value ? value->text : "");
    printable_clean(buffer, strlen(buffer));
}

#define COPY(buffer, map, key) copy_text(buffer, sizeof(buffer), map, key)

static void on_status(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;

    if (n_tokens == 0 || tokens[0].type != RESP_MAP)
        return;
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

    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += listing_size(&tokens[at])) {
        if (sample->n_node_rows == TOP_SAMPLE_NODES_MAX)
            return;
        struct top_sample_node *node = &sample->node_rows[sample->n_node_rows++];
        COPY(node->name, &tokens[at], "name");
        COPY(node->state, &tokens[at], "state");
        COPY(node->reason, &tokens[at], "reason");
        node->since_ms = listing_integer(&tokens[at], "since");
        node->p50_us = listing_integer(&tokens[at], "rtt_p50");
        node->p99_us = listing_integer(&tokens[at], "rtt_p99");
    }
}

static void on_grants(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct top_sample *sample = userdata;

    sample->latest = true;
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += listing_size(&tokens[at])) {
        if (sample->n_grant_rows == TOP_SAMPLE_GRANTS_MAX)
            return;
        struct top_sample_grant *grant = &sample->grant_rows[sample->n_grant_rows++];
        COPY(grant->name, &tokens[at], "name");
        COPY(grant->state, &tokens[at], "state");
        grant->since_ms = listing_integer(&tokens[at], "since");
        grant->pid = listing_integer(&tokens[at], "pid");
        grant->uid = listing_integer(&tokens[at], "uid");
        grant->fence = listing_integer(&tokens[at], "fence");
    }
}

/* --- metrics --- */

static void add_bucket(struct top_sample_histogram *histogram, const struct metrics_text_sample *line) {
    char bound[TOP_SAMPLE_WORD_BYTES];

    if (histogram->n == TOP_SAMPLE_BOUNDS_MAX)
        return;
    histogram->bounds[histogram->n] = strtod(metrics_text_label(line, "le", bound, sizeof(bound)), NULL);
    histogram->counts[histogram->n++] = line->value;
}

static void add_count(struct top_sample_count counts[TOP_SAMPLE_WORDS_MAX], unsigned *n,
                      const struct metrics_text_sample *line, const char *label) {
    if (*n == TOP_SAMPLE_WORDS_MAX)
        return;
    (void) metrics_text_label(line, label, counts[*n].word, sizeof(counts[*n].word));
    counts[(*n)++].count = line->value;
}

/* Buckets of one thread follow each other. */
static void add_lag(struct top_sample *sample, const struct metrics_text_sample *line) {
    char name[TOP_SAMPLE_WORD_BYTES];
    unsigned last = sample->n_threads - 1;

    (void) metrics_text_label(line, "thread", name, sizeof(name));
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

    (void) metrics_text_label(line, "uid", uid, sizeof(uid));
    (void) metrics_text_label(line, "quota", quota, sizeof(quota));
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

    (void) metrics_text_label(line, "node", name, sizeof(name));
    for (unsigned i = 0; i < sample->n_node_rows; i++)
        if (strcmp(sample->node_rows[i].name, name) == 0)
            sample->node_rows[i].outstanding = (int64_t) line->value;
}

static void add_metric(struct top_sample *sample, const struct metrics_text_sample *line) {
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

    if (n_tokens == 0 || tokens[0].type != RESP_BULK)
        return;
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
    int error = listing_request(connection, status, on_status, sample);
    sample->at_ns = cli_now_ns();
    if (error == REDLOCK_OK)
        error = listing_request(connection, nodes, on_nodes, sample);
    if (error != REDLOCK_OK)
        return error;
    error = listing_request(connection, metrics, on_metrics, sample);
    if (may_lack(connection, error))
        error = listing_request(connection, latest, on_grants, sample);
    return may_lack(connection, error) ? REDLOCK_OK : error;
}
