#include "io/client/local-layer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hash.h"
#include "core/leader-query.h"
#include "io/client/conn-output.h"
#include "io/client/lingering-close.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/usdt.h"
#include "io/node/key-format.h"
#include "local/observe.h"
#include "local/outcome.h"
#include "local/reply.h"

enum { OWN_DESCRIPTORS = 64 /* logs, timers, threads, the ledger, a file that is read */ };

static void on_command(void *userdata, uint64_t name_hash, const struct command *command) {
    struct local_layer *layer = userdata;
    keeper_set_command(layer->keepers, name_hash, command);
}

static void on_write(void *userdata, struct session *session, const char *bytes, size_t length) {
    (void) userdata;
    conn_output_write(session, bytes, length);
}

static void on_survey(void *userdata) {
    struct local_layer *layer = userdata;
    keeper_set_survey(layer->keepers, clock_now_ns());
}

static int on_page(void *userdata, struct session *session) {
    (void) userdata;
    return conn_make_page(session);
}

static void on_bless(void *userdata, unsigned node) {
    struct local_layer *layer = userdata;
    const struct keeper_command bless = {.kind = KEEPER_COMMAND_BLESS, .node = node};

    const struct log_fields fields = {.event = LOG_EVENT_NODE_BLESSED,
                                      .node = layer->state.identity.node_names[node]};

    log_event(LOG_LEVEL_NOTICE, &fields, "node %s: blessed by an operator", fields.node);
    keeper_set_broadcast(layer->keepers, &bless, NULL, 0);
}

static void trace(const struct request *request, const struct request_outcome *outcome, instant_ns now_ns) {
    const struct shared_string *name = request->name->key.text;
    int64_t us = (now_ns - request->asked_ns) / NS_PER_US;

    if (outcome->kind == OUTCOME_GRANTED && request->tenure.handoffs > 0)
        usdt_handoff(name->bytes, name->head_length, request->token, us);
    else if (outcome->kind == OUTCOME_GRANTED)
        usdt_grant(name->bytes, name->head_length, request->token, us);
}

/* Each loss once, that of a lease without a session included. The front logs them: a keeper does not know of
 * those that the front has seen first. */
static void on_lost(void *userdata, const struct request *request, enum reason reason) {
    struct local_layer *layer = userdata;
    const struct shared_string *name = request->name->key.text;

    usdt_loss(name->bytes, name->head_length, request->token,
              (clock_now_ns() - request->asked_ns) / NS_PER_US, reply_reason_word(reason));
    loss_log_write(&layer->losses, name->bytes, name->head_length, reason, request->token);
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    if (request->name)
        trace(request, outcome, now_ns);
    outcome_deliver(request, outcome, now_ns);
}

static void on_changed(void *userdata, uint64_t name_hash, const char *name, size_t length) {
    struct local_layer *layer = userdata;
    observe_hint(&layer->state, name_hash, name, length);
}

static enum registry_reading on_grant_reading(void *userdata, const struct request *request) {
    (void) userdata;
    return conn_output_reading(request->session, request->tenure.grant_end);
}

static void on_ready(void *userdata, struct session *session) {
    (void) userdata;
    conn_ready(session);
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    struct local_layer *layer = userdata;
    random_bytes_take(&layer->random_bytes, secret);
}

static struct policy policy_of(const struct config *config) {
    return (struct policy){
        .terms = config->terms,
        .max_ttl_ms = (uint32_t) config->max_ttl_ms,
        .max_sessions = config->max_sessions,
        .node_timeout_ms = (uint32_t) config->node_timeout_ms,
        .rules = config->rules,
        .n_rules = config->n_rules,
    };
}

/* The descriptors that the process may have, less its own and those of connections that it is ending; at
 * least half. A keeper has two connections to each node, and for a moment two new ones beside the old. */
static uint64_t descriptors_of_sessions(const struct config *config) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return QUOTA_UNLIMITED;
    uint64_t own = OWN_DESCRIPTORS + lingering_close_max(limit.rlim_cur) +
                   4 * (uint64_t) config->n_nodes * config->keepers;
    return limit.rlim_cur - (own < limit.rlim_cur / 2 ? own : limit.rlim_cur / 2);
}

/* The log shows when max_sessions can't be reached. */
static void warn_of_descriptors(const struct config *config, uint64_t descriptors) {
    if (descriptors / SESSION_DESCRIPTORS < config->max_sessions)
        log_warning("max_sessions = %u: the agent has descriptors for %llu sessions, of which users have "
                    "shares: raise LimitNOFILE= (ulimit -Hn), or lower max_sessions",
                    config->max_sessions, (unsigned long long) descriptors / SESSION_DESCRIPTORS);
}

static void set_limits(struct front_state *state, const struct config *config) {
    struct quota *quota = &state->registry.quota;

    state->work.units_per_s = config->max_work;
    quota->max[QUOTA_SESSIONS] = config->max_sessions;
    quota->max[QUOTA_LEASES] = config->max_leases;
    quota->max[QUOTA_EXTENSIONS] = config->max_extensions;
    quota->max[QUOTA_NAMES] = OBSERVED_NAMES_MAX;
    quota->max[QUOTA_OBSERVATIONS] = OBSERVATIONS_MAX;
    quota->max[QUOTA_BYTES] = config->max_buffered_bytes;
    quota->max[QUOTA_DESCRIPTORS] = descriptors_of_sessions(config);
    warn_of_descriptors(config, quota->max[QUOTA_DESCRIPTORS]);
    quota->max[QUOTA_REQUESTS] = ADMITTED_MAX + (uint64_t) config->keepers * LEADER_QUERIES_MAX;
}

static uint64_t hash_key_format(const struct config *config) {
    static const uint64_t key[2] = {0, 0};
    char text[KEY_FORMAT_KEY_BYTES_MAX];
    size_t length = key_format_put(config->key_prefix, config->key_suffix, "{name}", strlen("{name}"), text);

    return hash_bytes(key, text, length);
}

static struct front_state_identity identity_of(const struct config *config, const char *agent_id,
                                               instant_ns now_ns) {
    struct front_state_identity identity = {
        .version = REDLOCK_VERSION,
        .agent = agent_id,
        .host = config->host,
        .key_format = hash_key_format(config),
        .pid = getpid(),
        .uid = getuid(),
        .started_ns = now_ns,
        .n_nodes = config->n_nodes,
        .n_keepers = config->keepers,
    };

    for (unsigned i = 0; i < config->n_nodes; i++) {
        identity.node_names[i] = config->nodes[i].name;
        identity.node_addresses[i] = config->nodes[i].address;
    }
    return identity;
}

static int reserve_memory(struct local_layer *layer, uint32_t requests_max) {
    layer->registry_bytes = registry_memory_bytes(requests_max);
    layer->registry_memory = loop_reserve(layer->registry_bytes);
    layer->observe_memory = loop_reserve(observe_memory_bytes());
    layer->cooling_memory = loop_reserve(cooling_memory_bytes());
    layer->history_memory = loop_reserve(history_memory_bytes());
    layer->reply = loop_reserve(REPLY_BYTES_MAX);
    return layer->registry_memory && layer->observe_memory && layer->cooling_memory &&
                   layer->history_memory && layer->reply
               ? 0
               : -ENOMEM;
}

int local_layer_init(struct local_layer *layer, const struct config *config, const char *agent_id,
                     uint32_t requests_max, struct keeper_set *keepers) {
    const struct registry_sink registry_sink = {.command = on_command,
                                                .outcome = on_outcome,
                                                .lost = on_lost,
                                                .changed = on_changed,
                                                .grant_reading = on_grant_reading,
                                                .secret = on_secret,
                                                .ready = on_ready,
                                                .userdata = layer};
    const struct front_state_sink sink = {.write = on_write,
                                          .query = on_command,
                                          .survey = on_survey,
                                          .page = on_page,
                                          .bless = on_bless,
                                          .userdata = layer};
    instant_ns now_ns = clock_now_ns();
    const struct policy policy = policy_of(config);
    const struct front_state_identity identity = identity_of(config, agent_id, now_ns);
    uint64_t hash_key[2];

    layer->keepers = keepers;
    int r = reserve_memory(layer, requests_max);
    if (r < 0)
        return r;
    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return -errno;
    loss_log_init(&layer->losses);
    registry_init(&layer->state.registry, &registry_sink, requests_max, config->max_leases, hash_key,
                  layer->registry_memory);
    registry_begin_ids(&layer->state.registry, now_ns);
    observe_init(&layer->state.observers, hash_key[0], layer->observe_memory);
    cooling_init(&layer->state.cooling, layer->cooling_memory);
    history_init(&layer->state.history, layer->history_memory);
    layer->state.registry.history = &layer->state.history;
    layer->state.registry.cooling = &layer->state.cooling;
    front_state_init(&layer->state, &policy, &identity, &sink, layer->reply, now_ns);
    local_layer_set_policy(layer, config);
    return 0;
}

void local_layer_deinit(struct local_layer *layer) {
    if (layer->registry_memory)
        (void) munmap(layer->registry_memory, layer->registry_bytes);
    if (layer->observe_memory)
        (void) munmap(layer->observe_memory, observe_memory_bytes());
    if (layer->cooling_memory)
        (void) munmap(layer->cooling_memory, cooling_memory_bytes());
    if (layer->history_memory)
        (void) munmap(layer->history_memory, history_memory_bytes());
    if (layer->reply)
        (void) munmap(layer->reply, REPLY_BYTES_MAX);
}

void local_layer_set_policy(struct local_layer *layer, const struct config *config) {
    const struct policy policy = policy_of(config), former = layer->state.policy;
    uint8_t numbers[RULES_MAX + 1] = {0};

    for (unsigned i = 0; i <= former.n_rules; i++)
        numbers[i] = (uint8_t) policy_number_after(&former, i, &policy);
    layer->state.policy = policy;
    registry_set_rules(&layer->state.registry, policy.rules, numbers);
    set_limits(&layer->state, config);
}

bool local_layer_needs_units(const struct config *config) {
    const struct policy policy = policy_of(config);

    return policy_has_units(&policy);
}
