#include "io/node/keeper.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/bytes.h"
#include "core/token.h"
#include "io/node/batcher.h"
#include "io/loop/clock.h"
#include "io/node/keeper-message.h"
#include "io/node/subscriber.h"
#include "io/node/fleet.h"
#include "io/loop/log-limit.h"
#include "io/loop/loop.h"
#include "io/loop/poller.h"
#include "io/node/redis.h"
#include "io/loop/random-bytes.h"
#include "local/reply.h"

enum {
    MAILBOX_BYTES = 1 << 18,
    MARK_MARGIN_MS = 60 * 1000,
    VAIN_MS = 200,      /* a ring for nothing is prevented if it is so much too early, */
    VAIN_PAUSE_MS = 20, /* so often */
};

struct keeper {
    struct keeper_config config;
    pthread_t thread;
    bool started;
    struct mailbox inbox;
    struct mailbox outbox;

    /* Of the thread alone. */
    sd_event *event;
    sd_event_source *timer;
    struct poller *poller;
    instant_ns timer_ns; /* when it will ring; never later than anything is due */
    instant_ns vain_ns;  /* not before that it is kept from ringing for nothing */
    struct redis *nodes[NODES_MAX];
    const char *node_names[NODES_MAX];
    bool told_deaf[NODES_MAX];                  /* that its user may not subscribe */
    char logged[NODES_MAX][NODE_TROUBLE_BYTES]; /* each node's trouble as the log has it; "" when none */
    char differs[DIFFERENCE_BYTES];             /* the same of what another agent has differently */
    struct fleet fleets[NODES_MAX];             /* what each node is to be of */
    node_set twins;                             /* nodes that turned out to be another one's server */
    struct log_limit strangers, losses;
    struct shard shard;
    void *memory;
    size_t memory_bytes;
    struct batcher *batcher;
    struct random_bytes secrets;
    struct subscriber *subscriber;
    node_set probed; /* nodes that were sent something outside of a batch */
    char nonce[17];  /* names this keeper's marks on the nodes */
    bool backlog;    /* the outbox is full */
    struct keeper_message_queue dispatcher;
};

struct mailbox *keeper_inbox(struct keeper *keeper) {
    return &keeper->inbox;
}

struct mailbox *keeper_outbox(struct keeper *keeper) {
    return &keeper->outbox;
}

/* --- the shard's sink --- */

static void on_send(void *userdata, const struct send *send) {
    struct keeper *keeper = userdata;
    batcher_add(keeper->batcher, send);
}

/* Every keeper has its own connection; one voice is enough for the log, and one line until the trouble is
 * another one: a node that is down for a week is tried all the time. But a clock that was set may be seen by
 * one keeper alone: the others find that the blessing is gone. */
static void log_node(struct keeper *keeper, const struct report *report) {
    char *logged = keeper->logged[report->node];
    char text[NODE_TROUBLE_BYTES];

    if (report->standing == NODE_STATE_PROBING)
        return;
    if (report->standing == NODE_STATE_VOTING && report->text_length > 0) {
        if (keeper->config.index == 0)
            log_warning("node %s: %.*s", keeper->node_names[report->node], (int) report->text_length,
                        report->text);
        return;
    }
    if (report->standing == NODE_STATE_VOTING) {
        if (keeper->config.index == 0)
            log_notice("node %s: voting", keeper->node_names[report->node]);
        logged[0] = '\0';
        return;
    }
    if (keeper->config.index != 0 && !report->stepped)
        return;
    (void) snprintf(text, sizeof(text), "%.*s", (int) report->text_length, report->text);
    if (strcmp(logged, text) != 0)
        log_warning("node %s: does not vote: %s", keeper->node_names[report->node], text);
    (void) strcpy(logged, text);
}

/* Whoever shares a node with us can cause it, for each name that is held. */
static void log_stranger(struct keeper *keeper, const struct report *report) {
    char name[4 * NAME_BYTES_MAX + 1];

    (void) bytes_escape(report->text, report->text_length, name, sizeof(name));
    log_limit_write(&keeper->strangers, clock_now_ns(),
                    "lease %s: node %s has somebody else's value under its key, which does not count and is "
                    "not touched: find out who writes there",
                    name, keeper->node_names[report->node]);
}

static void log_loss(struct keeper *keeper, const struct report *report) {
    char name[4 * NAME_BYTES_MAX + 1];

    (void) bytes_escape(report->text, report->text_length, name, sizeof(name));
    log_limit_write(&keeper->losses, clock_now_ns(), "lease %s: lost: %s", name,
                    reply_reason_word(report->reason));
}

static void on_report(void *userdata, const struct report *report) {
    struct keeper *keeper = userdata;
    struct report untold = *report;

    if (report->kind == REPORT_FOREIGN) {
        log_stranger(keeper, report);
        return;
    }
    if (report->kind == REPORT_NODE)
        log_node(keeper, report);
    if (report->kind == REPORT_LOST) {
        log_loss(keeper, report);
        untold.text_length = 0; /* the front knows the name */
        report = &untold;
    }
    keeper_message_report(&keeper->dispatcher, report);
}

static void on_cut(void *userdata, unsigned node) {
    struct keeper *keeper = userdata;
    batcher_cut(keeper->batcher, node);
}

/* The mark must outlast a quarantine; each probe renews it. */
static int64_t mark_ms(const struct keeper *keeper) {
    return 2 * (int64_t) keeper->shard.max_ttl_ms + MARK_MARGIN_MS;
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    struct keeper *keeper = userdata;

    redis_probe(keeper->nodes[node], keeper->nonce, mark_ms(keeper), inquiry);
    keeper->probed |= node_set_of(node);
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    struct keeper *keeper = userdata;

    redis_bless(keeper->nodes[node], keeper->nonce, blessing, keeper->config.config->fence_skew_ms * 1000);
    keeper->probed |= node_set_of(node);
}

static void on_amend(void *userdata, unsigned node, const struct amendment *amendment) {
    struct keeper *keeper = userdata;

    redis_amend(keeper->nodes[node], amendment);
    keeper->probed |= node_set_of(node);
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    struct keeper *keeper = userdata;

    random_bytes_take(&keeper->secrets, secret);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    struct keeper *keeper = userdata;
    subscriber_listen(keeper->subscriber, request, name, wanted);
}

/* --- what ends every handler --- */

static void flush_probed(struct keeper *keeper) {
    node_set probed = keeper->probed;

    keeper->probed = 0;
    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        if (probed & node_set_of(i))
            redis_flush(keeper->nodes[i]);
}

static int set_timer(struct keeper *keeper, instant_ns at_ns) {
    keeper->timer_ns = at_ns;
    return loop_set_timer(keeper->timer, at_ns);
}

/* Most of what is due, such as the end of a node's time, is answered long before. To ring for that costs
 * more than to set the timer once more, but less than to do so after each answer. */
static bool rings_in_vain(struct keeper *keeper, instant_ns due_ns) {
    int64_t too_early_ns = due_ns - keeper->timer_ns;

    if (too_early_ns < VAIN_MS * NS_PER_MS)
        return false;
    instant_ns now_ns = clock_now_ns();
    if (now_ns < keeper->vain_ns)
        return false;
    keeper->vain_ns = instant_max(keeper->vain_ns, now_ns - 2 * VAIN_PAUSE_MS * NS_PER_MS);
    keeper->vain_ns += VAIN_PAUSE_MS * NS_PER_MS;
    return true;
}

/* Sends what is due in one write a node, wakes the front, and sets the timer. */
static int settle(void *userdata) {
    struct keeper *keeper = userdata;

    /* Flushing may break a connection, which may lead to more to send. */
    while (keeper->probed != 0 || batcher_pending(keeper->batcher) ||
           subscriber_pending(keeper->subscriber)) {
        flush_probed(keeper);
        batcher_flush(keeper->batcher, keeper->nodes, &keeper->shard, clock_now_ns());
        if (subscriber_pending(keeper->subscriber))
            subscriber_flush(keeper->subscriber);
    }
    keeper->backlog = keeper_message_flush(&keeper->dispatcher);
    instant_ns due_ns = shard_due_ns(&keeper->shard);
    if (keeper->backlog)
        due_ns = instant_min(due_ns, clock_now_ns() + NS_PER_MS);
    if (due_ns >= keeper->timer_ns && !rings_in_vain(keeper, due_ns))
        return 0;
    return set_timer(keeper, due_ns);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct keeper *keeper = userdata;

    (void) source;
    (void) usec;
    shard_tick(&keeper->shard, clock_now_ns());
    return set_timer(keeper, shard_due_ns(&keeper->shard));
}

/* --- the front's errands --- */

static struct front_state_node_times figures(struct keeper *keeper, unsigned node) {
    struct redis *redis = keeper->nodes[node];
    const struct server_info *facts = redis_server_info(redis);
    struct front_state_node_times figures = {
        .rtt_us = redis_rtt_us(redis),
        .rtt_p50_us = redis_rtt_percentile_us(redis, 500),
        .rtt_p99_us = redis_rtt_percentile_us(redis, 990),
        .clock_us = token_clock_ahead_us(&keeper->shard, node, clock_now_ns()),
        .until_ns = node_trust_until_ns(&keeper->shard, node),
        .evicted_keys = facts->evicted_keys,
        .known = facts->run_id[0] != '\0',
        .aof_enabled = facts->aof_enabled,
    };

    static_assert(sizeof(figures.version) == sizeof(facts->version), "a version is copied whole");
    memcpy(figures.version, facts->version, sizeof(figures.version));
    static_assert(sizeof(figures.differs) == DIFFERENCE_BYTES, "so is a difference");
    memcpy(figures.differs, redis_difference(redis), sizeof(figures.differs));
    return figures;
}

static void survey(struct keeper *keeper, uint32_t number) {
    struct keeper_message_survey survey = {.counters = keeper->shard.counters};

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        survey.figures[i] = figures(keeper, i);
    keeper_message_survey(&keeper->dispatcher, number, &survey);
}

static void take_errands(void *userdata) {
    struct keeper *keeper = userdata;
    const struct keeper_command *errand;
    size_t length;
    instant_ns now_ns = 0;

    for (unsigned taken = 0; (errand = mailbox_next(&keeper->inbox, &length)); taken++) {
        assert(length >= sizeof(*errand));
        /* One time for those that go out together: then their first proposals of a token are the same, which
         * a script call is told once. */
        if (taken % BATCH_ACQUIRES_MAX == 0)
            now_ns = clock_now_ns();
        switch (errand->kind) {
        case KEEPER_COMMAND_COMMAND: {
            struct command command = errand->command;
            command.text = (const char *) (errand + 1);
            shard_command(&keeper->shard, &command, now_ns);
            break;
        }
        case KEEPER_COMMAND_SURVEY:
            survey(keeper, errand->number);
            break;
        case KEEPER_COMMAND_PING:
            keeper_message_pong(&keeper->dispatcher, errand->number);
            break;
        case KEEPER_COMMAND_BLESS:
            node_trust_bless(&keeper->shard, errand->node, now_ns);
            break;
        case KEEPER_COMMAND_SUCCEED: {
            struct shard_predecessor predecessor;
            memcpy(&predecessor, errand + 1, sizeof(predecessor));
            shard_succeed(&keeper->shard, &predecessor);
            break;
        }
        case KEEPER_COMMAND_STOP:
            (void) loop_exit(keeper->event, 0);
            break;
        }
    }
}

static bool errands_wait(void *userdata, bool sleeping) {
    struct keeper *keeper = userdata;
    return mailbox_waits(&keeper->inbox, sleeping);
}

/* --- the nodes --- */

/* Once: those that wait poll it, and do not hear of its releases. */
static void tell_deaf(struct keeper *keeper, unsigned node, const struct user_rights *rights) {
    if (keeper->config.index == 0 && !keeper->told_deaf[node])
        log_notice("node %s: those that wait for a name poll it, since its user lacks %s",
                   keeper->node_names[node], rights->missing);
    keeper->told_deaf[node] = true;
}

static void node_is_ready(struct keeper *keeper, unsigned node) {
    const struct redis *redis = keeper->nodes[node];
    const struct user_rights *rights = redis_rights(redis);

    if (rights->listen)
        subscriber_node_ready(keeper->subscriber, node, redis);
    else if (rights->missing[0] != '\0')
        tell_deaf(keeper, node, rights);
}

/* A server that is reached by two names votes once: which of them else has this one's process? */
static bool find_twin(const struct keeper *keeper, unsigned node, unsigned *ret) {
    const char *run_id = redis_server_info(keeper->nodes[node])->run_id;

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++) {
        const struct redis *other = keeper->nodes[i];
        if (i == node || !other || redis_state(other) != REDIS_READY || (keeper->twins & node_set_of(i)) ||
            strcmp(redis_server_info(other)->run_id, run_id) != 0)
            continue;
        *ret = i;
        return true;
    }
    return false;
}

static void refuse_twin(struct keeper *keeper, unsigned node, unsigned twin, instant_ns now_ns) {
    char reason[NODE_TROUBLE_BYTES];

    (void) snprintf(
        reason, sizeof(reason),
        "is the same server as node %s, and votes as that one alone: give each node a server of its "
        "own",
        keeper->node_names[twin]);
    keeper->twins |= node_set_of(node);
    node_trust_gone(&keeper->shard, node, NODE_STATE_FAILED, reason, now_ns);
}

/* What was refused may be what is left of its server. */
static void examine_twins(struct keeper *keeper, instant_ns now_ns) {
    unsigned twin;

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++) {
        if (!(keeper->twins & node_set_of(i)) || find_twin(keeper, i, &twin))
            continue;
        keeper->twins &= (node_set) ~node_set_of(i);
        if (redis_state(keeper->nodes[i]) == REDIS_READY)
            node_trust_ready(&keeper->shard, i, now_ns);
    }
}

static void on_node_state(void *userdata, struct redis *redis, enum redis_state state, const char *reason) {
    struct keeper *keeper = userdata;
    unsigned node = redis_index(redis), twin;
    instant_ns now_ns = clock_now_ns();

    if (state == REDIS_READY)
        node_is_ready(keeper, node);
    else
        subscriber_node_gone(keeper->subscriber, node);
    switch (state) {
    case REDIS_CONNECTING:
        node_trust_gone(&keeper->shard, node, NODE_STATE_CONNECTING, reason, now_ns);
        break;
    case REDIS_PROBING:
        node_trust_gone(&keeper->shard, node, NODE_STATE_PROBING, reason, now_ns);
        break;
    case REDIS_UNFIT:
        node_trust_gone(&keeper->shard, node, NODE_STATE_FAILED, reason, now_ns);
        break;
    case REDIS_READY:
        if (find_twin(keeper, node, &twin))
            refuse_twin(keeper, node, twin, now_ns);
        else
            node_trust_ready(&keeper->shard, node, now_ns);
        break;
    }
    if (state != REDIS_READY) {
        keeper->twins &= (node_set) ~node_set_of(node);
        examine_twins(keeper, now_ns);
    }
}

/* Once for all nodes, until it is another one. */
static void log_difference(struct keeper *keeper, const struct redis *redis) {
    const char *difference = redis_difference(redis);

    if (keeper->config.index != 0 || difference[0] == '\0' || strcmp(keeper->differs, difference) == 0)
        return;
    (void) strcpy(keeper->differs, difference);
    log_warning("agents of these nodes differ: %s", difference);
}

static void on_node_probe(void *userdata, struct redis *redis, const struct probe *probe) {
    struct keeper *keeper = userdata;

    log_difference(keeper, redis);
    node_trust_probed(&keeper->shard, redis_index(redis), probe, clock_now_ns());
}

static void on_node_reply(void *userdata, struct redis *redis, void *tag, redisReply *reply) {
    struct keeper *keeper = userdata;
    batcher_answered(keeper->batcher, &keeper->shard, redis_index(redis), tag, reply, clock_now_ns());
}

static void on_node_info(void *userdata, struct redis *redis) {
    struct keeper *keeper = userdata;
    bool sure;

    const char *refusal = server_info_refusal(redis_server_info(redis), &sure);
    if (sure)
        node_trust_refuses(&keeper->shard, redis_index(redis), refusal);
}

/* All nodes are looked after in one turn, so that an idle keeper sleeps until the next. */
static void on_node_inspect(void *userdata, struct redis *redis) {
    struct keeper *keeper = userdata;

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        if (redis_inspect_along(keeper->nodes[i], redis))
            keeper->probed |= node_set_of(i);
    node_trust_probe_early(&keeper->shard, INSPECT_EARLY_MS * NS_PER_MS, clock_now_ns());
    (void) log_limit_settle(&keeper->strangers, clock_now_ns());
    (void) log_limit_settle(&keeper->losses, clock_now_ns());
}

/* --- the thread --- */

static int set_up(struct keeper *keeper) {
    static const struct poller_hooks hooks = {
        .mail = take_errands, .mail_waits = errands_wait, .settle = settle};
    static const struct redis_callbacks callbacks = {.on_state = on_node_state,
                                                     .on_probe = on_node_probe,
                                                     .on_reply = on_node_reply,
                                                     .on_server_info = on_node_info,
                                                     .on_inspect = on_node_inspect};
    const struct config *config = keeper->config.config;

    int r = sd_event_new(&keeper->event);
    if (r < 0)
        return r;
    r = loop_add_timer(keeper->event, on_timer, keeper, &keeper->timer);
    if (r < 0)
        return r;
    keeper->timer_ns = INSTANT_NEVER;
    r = poller_new(keeper->event, &hooks, keeper, &keeper->poller);
    if (r < 0)
        return r;
    r = mailbox_attach(&keeper->inbox, keeper->poller);
    if (r < 0)
        return r;
    r = subscriber_new(keeper->event, keeper->poller, config, &keeper->shard, keeper->config.requests_max,
                       &keeper->subscriber);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < config->n_nodes; i++) {
        fleet_init(&keeper->fleets[i], config, i);
        r = redis_new(keeper->event, keeper->poller, &config->nodes[i], i, &keeper->fleets[i], &callbacks,
                      keeper, &keeper->nodes[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static void tear_down(struct keeper *keeper) {
    for (unsigned i = 0; i < NODES_MAX; i++)
        keeper->nodes[i] = redis_free(keeper->nodes[i]);
    keeper->subscriber = subscriber_free(keeper->subscriber);
    keeper->poller = poller_free(keeper->poller);
    sd_event_source_unref(keeper->timer);
    sd_event_unref(keeper->event);
}

static void *keeper_thread(void *userdata) {
    struct keeper *keeper = userdata;
    char name[16];

    (void) snprintf(name, sizeof(name), "keeper-%u", keeper->config.index);
    (void) prctl(PR_SET_NAME, name);
    int r = set_up(keeper);
    if (r >= 0)
        r = poller_run(keeper->poller);
    if (r < 0) {
        log_error("keeper %u failed: %s. Its leases can't be extended, so the agent ends here",
                  keeper->config.index, strerror(-r));
        abort();
    }
    tear_down(keeper);
    return NULL;
}

static int reserve_memory(struct keeper *keeper) {
    const struct shard_sink sink = {
        .send = on_send,
        .report = on_report,
        .probe = on_probe,
        .bless = on_bless,
        .amend = on_amend,
        .cut = on_cut,
        .secret = on_secret,
        .listen = on_listen,
        .userdata = keeper,
    };
    const struct config *config = keeper->config.config;

    for (unsigned i = 0; i < config->n_nodes; i++)
        keeper->node_names[i] = config->nodes[i].name;
    const struct shard_config shard_config = {
        .nodes = config->n_nodes,
        .requests_max = keeper->config.requests_max,
        .node_names = keeper->node_names,
        .max_ttl_ms = (uint32_t) config->max_ttl_ms,
        .quarantine = config->quarantine,
        .fence_skew_ms = (uint32_t) config->fence_skew_ms,
        .seed = keeper->config.seed,
    };
    keeper->memory_bytes = shard_memory_bytes(&shard_config);
    keeper->memory = loop_reserve(keeper->memory_bytes);
    if (!keeper->memory)
        return -ENOMEM;
    shard_init(&keeper->shard, &shard_config, &sink, keeper->memory);
    return 0;
}

int keeper_new(const struct keeper_config *config, struct keeper **ret) {
    struct keeper *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return -ENOMEM;
    keeper->config = *config;
    keeper->strangers = (struct log_limit){.kind = "leases with somebody else's value under their keys",
                                           .level = LOG_LEVEL_WARNING};
    keeper->losses = (struct log_limit){.kind = "leases that were lost", .level = LOG_LEVEL_WARNING};
    keeper_message_queue_init(&keeper->dispatcher, &keeper->outbox);
    (void) snprintf(keeper->nonce, sizeof(keeper->nonce), "%016llx", (unsigned long long) config->seed);
    int r = mailbox_init(&keeper->inbox, MAILBOX_BYTES);
    if (r >= 0)
        r = mailbox_init(&keeper->outbox, MAILBOX_BYTES);
    if (r >= 0)
        r = reserve_memory(keeper);
    if (r >= 0)
        r = batcher_new(config->config, config->agent_id, &keeper->batcher);
    if (r >= 0)
        r = -pthread_create(&keeper->thread, NULL, keeper_thread, keeper);
    if (r < 0) {
        keeper_free(keeper);
        return r;
    }
    keeper->started = true;
    *ret = keeper;
    return 0;
}

struct keeper *keeper_free(struct keeper *keeper) {
    if (!keeper)
        return NULL;
    if (keeper->started) {
        const struct keeper_command stop = {.kind = KEEPER_COMMAND_STOP};
        mailbox_post(&keeper->inbox, &stop, sizeof(stop), NULL, 0);
        while (mailbox_flush(&keeper->inbox))
            (void) usleep(1000);
        (void) pthread_join(keeper->thread, NULL);
    }
    batcher_free(keeper->batcher);
    if (keeper->memory)
        (void) munmap(keeper->memory, keeper->memory_bytes);
    mailbox_deinit(&keeper->inbox);
    mailbox_deinit(&keeper->outbox);
    free(keeper);
    return NULL;
}
