#include "io/client/front.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/conn.h"
#include "io/client/keeper-set.h"
#include "io/client/listener.h"
#include "io/client/notify.h"
#include "io/client/reload.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/poller.h"
#include "io/loop/random-bytes.h"
#include "io/restart/adopt.h"
#include "local/disconnect.h"
#include "local/leader.h"
#include "local/listing.h"
#include "local/observe.h"
#include "local/outcome.h"
#include "local/recovery/restore.h"
#include "local/reply.h"

enum {
    SURVEY_TIMEOUT_MS = 200, /* a keeper that has not replied by then is shown as before */
    RESTORING_TURNS_MAX = 8, /* by then all unanswered requests of the former process are taken */
};

struct front {
    struct front_config config;
    struct config *reloaded; /* the policy is its; NULL: the one of the start */
    sd_event *event;
    sd_event_source *timer;
    instant_ns timer_ns; /* when the timer fires; never later than anything is due */
    struct poller *poller;
    struct listener *listener;
    struct front_state local;
    struct conn_table table;
    struct adopt adopt;
    struct keeper_set keepers;
    void *registry_memory;
    size_t registry_bytes;
    void *observe_memory;
    void *slots_memory;
    char *scratch;
    char *reply;
    struct {
        uint32_t number;    /* of the last one */
        unsigned n_awaited; /* keepers that have not replied */
        instant_ns until_ns;
    } survey;
    instant_ns start_ns; /* when serving begins; INSTANT_NEVER: it has begun */
    struct notify notify;
    struct random_bytes secrets;
    unsigned restoring_turns; /* since serving began */
    bool work_left;
    bool backlog; /* of messages to the keepers */
};

static const struct config *current_config(const struct front *front) {
    return front->reloaded ? front->reloaded : front->config.config;
}

/* --- the local layer's sinks --- */

static void on_command(void *userdata, uint64_t name_hash, const struct command *command) {
    struct front *front = userdata;
    keeper_set_command(&front->keepers, name_hash, command);
}

static void on_write(void *userdata, struct session *session, const char *bytes, size_t length) {
    (void) userdata;
    conn_output_write(session, bytes, length);
}

static void on_survey(void *userdata) {
    struct front *front = userdata;

    if (front->survey.n_awaited > 0)
        return; /* the survey under way serves this session too */
    const struct keeper_command survey = {.kind = KEEPER_COMMAND_SURVEY, .number = ++front->survey.number};
    front->survey.n_awaited = front->keepers.n;
    front->survey.until_ns = clock_now_ns() + SURVEY_TIMEOUT_MS * NS_PER_MS;
    keeper_set_broadcast(&front->keepers, &survey, NULL, 0);
}

static int on_page(void *userdata, struct session *session) {
    (void) userdata;
    return conn_make_page(session);
}

static void on_bless(void *userdata, unsigned node) {
    struct front *front = userdata;
    const struct keeper_command bless = {.kind = KEEPER_COMMAND_BLESS, .node = node};

    log_notice("node %s: blessed by an operator", front->local.identity.node_names[node]);
    keeper_set_broadcast(&front->keepers, &bless, NULL, 0);
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    outcome_deliver(request, outcome, now_ns);
}

static void on_changed(void *userdata, uint64_t name_hash, const char *name, size_t length) {
    struct front *front = userdata;
    observe_hint(&front->local, name_hash, name, length);
}

static bool on_has_read(void *userdata, const struct request *request) {
    (void) userdata;
    return conn_output_is_read(request->session, request->tenure.told_at);
}

static void on_ready(void *userdata, struct session *session) {
    (void) userdata;
    conn_ready(session);
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    struct front *front = userdata;
    random_bytes_take(&front->secrets, secret);
}

/* --- the keepers' messages --- */

static void end_survey(struct front *front, instant_ns now_ns) {
    front->survey.n_awaited = 0;
    front->survey.until_ns = INSTANT_NEVER;
    listing_counted(&front->local, now_ns);
}

static void on_report(struct front *front, unsigned keeper, const struct report *report, instant_ns now_ns) {
    struct session *session;

    if (report->kind == REPORT_NODE) {
        front_state_node_report(&front->local, keeper, report, now_ns);
        notify_changed(&front->notify, &front->local, now_ns);
        return;
    }
    switch (report->origin) {
    case REPORT_ORIGIN_REQUEST:
        registry_report(&front->local.registry, report, now_ns);
        break;
    case REPORT_ORIGIN_LEADER:
        session = conn_find(&front->table, report->request);
        if (session)
            leader_report(session, report);
        break;
    case REPORT_ORIGIN_OBSERVE:
        observe_report(&front->local, report, now_ns);
        break;
    }
}

static void on_survey_reply(struct front *front, unsigned keeper, const struct keeper_message *message) {
    struct keeper_message_survey survey;

    memcpy(&survey, message + 1, sizeof(survey));
    front->local.keepers[keeper].counters = survey.counters;
    memcpy(front->local.keepers[keeper].figures, survey.figures, sizeof(survey.figures));
    if (message->number == front->survey.number && front->survey.n_awaited > 0 &&
        --front->survey.n_awaited == 0)
        end_survey(front, clock_now_ns());
}

static void on_message(struct front *front, unsigned keeper, const struct keeper_message *message,
                       size_t length) {
    struct report report;

    switch (message->kind) {
    case KEEPER_MESSAGE_REPORT:
        report = message->report;
        report.text = report.text_length > 0 ? (const char *) (message + 1) : NULL;
        on_report(front, keeper, &report, clock_now_ns());
        break;
    case KEEPER_MESSAGE_EXTENSIONS:
        assert(length == sizeof(*message) + message->number * sizeof(struct extension));
        registry_extended(&front->local.registry, (const void *) (message + 1), message->number,
                          clock_now_ns());
        break;
    case KEEPER_MESSAGE_PONG:
        notify_pong(&front->notify, message->number);
        break;
    case KEEPER_MESSAGE_SURVEY:
        on_survey_reply(front, keeper, message);
        break;
    }
}

static void take_messages(void *userdata) {
    struct front *front = userdata;
    const struct keeper_message *message;
    size_t length;

    for (unsigned i = 0; i < front->keepers.n; i++)
        while ((message = keeper_set_next(&front->keepers, i, &length)))
            on_message(front, i, message, length);
}

static bool messages_wait(void *userdata, bool sleeping) {
    struct front *front = userdata;
    return keeper_set_waits(&front->keepers, sleeping);
}

/* --- clients --- */

static void on_client(void *userdata, int fd) {
    struct front *front = userdata;

    if (front->table.n_open >= current_config(front)->max_sessions) {
        conn_reject(&front->table, fd,
                    "-QUOTA the agent has as many connections as it may (max_sessions)\r\n");
        return;
    }
    int r = conn_new(&front->table, fd);
    if (r < 0)
        log_limit_write(&front->table.logs[CONN_LOG_REJECTED], clock_now_ns(), "connection rejected: %s",
                        strerror(-r));
}

static void on_full(void *userdata, int fd) {
    struct front *front = userdata;
    conn_reject(&front->table, fd, "-QUOTA the agent has no descriptor left for another connection\r\n");
}

static void start_serving(struct front *front) {
    front->start_ns = INSTANT_NEVER;
    int r = listener_enable(front->listener);
    if (r < 0) {
        log_error("socket: can't be watched: %s; the agent stops", strerror(-r));
        (void) loop_exit(front->event, r);
        return;
    }
    conn_serve(&front->table);
    log_notice("%s: serving clients", front->config.config->socket_path);
    notify_serving(&front->notify, &front->local, clock_now_ns());
}

/* --- the end of each turn --- */

/* Restored leases that the nodes no longer have are reported once the unanswered requests are taken: one of
 * these may be the release. */
static void end_restoring(struct front *front, instant_ns now_ns) {
    if (front->local.registry.restoring && !front->table.paused &&
        (!front->work_left || ++front->restoring_turns >= RESTORING_TURNS_MAX))
        restore_end(&front->local.registry, now_ns);
}

static instant_ns due_ns(struct front *front, instant_ns now_ns) {
    const instant_ns all[] = {registry_due_ns(&front->local.registry),
                              observe_due_ns(&front->local),
                              front->survey.until_ns,
                              front->start_ns,
                              notify_due_ns(&front->notify),
                              conn_store_tick(&front->table, now_ns),
                              conn_output_due_ns(&front->table),
                              heap_trim_due_ns(&front->table.trim, now_ns),
                              conn_tick(&front->table, now_ns),
                              front->backlog ? now_ns + NS_PER_MS : INSTANT_NEVER};
    instant_ns due_ns = front->work_left ? 0 : INSTANT_NEVER;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        due_ns = instant_min(due_ns, all[i]);
    return due_ns;
}

/* Takes the clients' requests, wakes the keepers, replies to the clients, and sets the timer. */
static int settle(void *userdata) {
    struct front *front = userdata;
    instant_ns now_ns = clock_now_ns();

    front->work_left = conn_work(&front->table, now_ns);
    end_restoring(front, now_ns);
    observe_tick(&front->local, now_ns);
    (void) keeper_set_flush(&front->keepers); /* the keepers work while the clients get their replies */
    conn_flush(&front->table, now_ns);
    conn_sweep(&front->table, now_ns);
    front->backlog = keeper_set_flush(&front->keepers); /* releases of connections that were closed */
    front->work_left |= !front->table.paused && !list_is_empty(&front->table.ready);

    instant_ns at_ns = due_ns(front, now_ns);
    if (at_ns >= front->timer_ns)
        return 0;
    front->timer_ns = at_ns;
    return loop_set_timer(front->timer, at_ns);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct front *front = userdata;
    instant_ns now_ns = clock_now_ns();

    (void) source;
    (void) usec;
    front->timer_ns = INSTANT_NEVER;
    registry_tick(&front->local.registry, now_ns);
    heap_trim_tick(&front->table.trim, now_ns);
    if (now_ns >= front->survey.until_ns)
        end_survey(front, now_ns);
    if (now_ns >= front->start_ns)
        start_serving(front);
    if (now_ns >= notify_due_ns(&front->notify) && notify_tick(&front->notify, &front->local, now_ns)) {
        const struct keeper_command ping = {.kind = KEEPER_COMMAND_PING, .number = front->notify.ping};
        keeper_set_broadcast(&front->keepers, &ping, NULL, 0);
    }
    return 0;
}

/* --- signals --- */

static void push_draining(struct session *session, void *userdata) {
    (void) userdata;
    if (session->state == SESSION_ACQUIRING)
        reply_error(session, "DRAINING", "the agent is about to stop");
    disconnect_announce(session);
}

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    struct front *front = userdata;

    (void) source;
    notify_stopping(&front->notify);
    if (front->local.ledger) {
        log_notice("stopping on signal %u: the next process continues %u connections with %u held leases",
                   info->ssi_signo, front->table.n_open, front->local.registry.held);
        return loop_exit(front->event, 0);
    }
    log_notice("stopping on signal %u: %u held leases end by their ttl", info->ssi_signo,
               front->local.registry.held);
    front->local.draining = true;
    conn_for_each(&front->table, push_draining, front);
    conn_flush(&front->table, clock_now_ns());
    return loop_exit(front->event, 0);
}

static struct policy policy_of(const struct config *config) {
    return (struct policy){
        .terms = {.default_ttl_ms = config->default_ttl_ms,
                  .max_hold_ms = config->max_hold_ms,
                  .fencing = config->fencing},
        .max_ttl_ms = (uint32_t) config->max_ttl_ms,
        .node_timeout_ms = (uint32_t) config->node_timeout_ms,
        .rules = config->rules,
        .n_rules = config->n_rules,
    };
}

static void apply_reload(struct front *front, struct config *fresh) {
    front->local.policy = policy_of(fresh);
    int r = listener_set_access(front->config.config->socket_path, fresh->socket_mode, fresh->socket_group);
    if (r < 0)
        log_warning("reload: can't change the socket's mode and group: %s; they stay as they were",
                    strerror(-r));
    config_free(front->reloaded);
    front->reloaded = fresh;
    log_notice("reload: %s applied", front->config.config_path);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    struct front *front = userdata;
    struct config *fresh = NULL;

    (void) source;
    (void) info;
    if (!front->config.config_path) {
        log_notice("reload: ignored, because the agent has no configuration file");
        return 0;
    }
    notify_reloading(&front->notify);
    if (reload_read(front->config.config_path, front->config.config, &fresh) >= 0)
        apply_reload(front, fresh);
    notify_reloaded(&front->notify);
    return 0;
}

/* --- life --- */

static struct front_state_identity identity_of(const struct front *front, instant_ns now_ns) {
    const struct config *config = front->config.config;
    struct front_state_identity identity = {
        .version = REDLOCK_VERSION,
        .agent = front->config.agent_id,
        .host = config->host,
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

static int reserve_memory(struct front *front, uint32_t requests_max) {
    front->registry_bytes = registry_memory_bytes(requests_max);
    front->registry_memory = loop_reserve(front->registry_bytes);
    front->observe_memory = loop_reserve(observe_memory_bytes());
    front->slots_memory = calloc(1, conn_slots_bytes(front->config.config->max_sessions));
    front->scratch = malloc(CONN_SCRATCH_BYTES);
    front->reply = malloc(REPLY_BYTES_MAX);
    return front->registry_memory && front->observe_memory && front->slots_memory && front->scratch &&
                   front->reply
               ? 0
               : -ENOMEM;
}

static int set_up_local(struct front *front, uint32_t requests_max) {
    const struct registry_sink registry_sink = {.command = on_command,
                                                .outcome = on_outcome,
                                                .changed = on_changed,
                                                .has_read = on_has_read,
                                                .secret = on_secret,
                                                .ready = on_ready,
                                                .userdata = front};
    const struct front_state_sink sink = {.write = on_write,
                                          .look = on_command,
                                          .survey = on_survey,
                                          .page = on_page,
                                          .bless = on_bless,
                                          .userdata = front};
    const struct config *config = front->config.config;
    instant_ns now_ns = clock_now_ns();
    const struct policy policy = policy_of(config);
    const struct front_state_identity identity = identity_of(front, now_ns);
    uint64_t hash_key[2];

    int r = reserve_memory(front, requests_max);
    if (r < 0)
        return r;
    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return -errno;
    registry_init(&front->local.registry, &registry_sink, requests_max, config->max_leases, hash_key,
                  front->registry_memory);
    registry_begin_ids(&front->local.registry, now_ns);
    observe_init(&front->local.observers, hash_key[0], front->observe_memory);
    front_state_init(&front->local, &policy, &identity, &sink, front->reply, now_ns);
    conn_table_init(&front->table, front->poller, &front->local, front->scratch, front->slots_memory,
                    config->max_sessions);
    return 0;
}

static int add_signal(struct front *front, int number, sd_event_signal_handler_t handler) {
    sd_event_source *source = NULL;

    int r = sd_event_add_signal(front->event, &source, number, handler, front);
    if (r < 0)
        return r;
    r = sd_event_source_set_priority(source, LOOP_PRIORITY_SIGNAL);
    if (r >= 0)
        r = sd_event_source_set_floating(source, 1);
    sd_event_source_unref(source);
    return r;
}

/* Continues the former process's sessions. Without a service manager there is no store. */
static int continue_sessions(struct front *front) {
    const struct keeper_command command = {.kind = KEEPER_COMMAND_SUCCEED};
    int r = adopt_begin(&front->adopt, &front->table, &front->local, front->config.inherited,
                        front->config.config->max_sessions);

    if (r == -ENOTCONN) {
        log_warning(
            "--store: no service manager ($NOTIFY_SOCKET is not set); connections end with this process");
        return 0;
    }
    if (r >= 0)
        keeper_set_broadcast(&front->keepers, &command, &front->adopt.predecessor,
                             sizeof(front->adopt.predecessor));
    return r;
}

static int set_up(struct front *front) {
    static const struct poller_hooks hooks = {
        .mail = take_messages, .mail_waits = messages_wait, .settle = settle};
    uint32_t requests_max = registry_requests_max(front->config.config->max_leases);

    int r = sd_event_new(&front->event);
    if (r >= 0)
        r = poller_new(front->event, &hooks, front, &front->poller);
    if (r >= 0)
        r = set_up_local(front, requests_max);
    if (r >= 0)
        r = loop_add_timer(front->event, on_timer, front, &front->timer);
    if (r >= 0)
        r = add_signal(front, SIGTERM, on_terminate);
    if (r >= 0)
        r = add_signal(front, SIGINT, on_terminate);
    if (r >= 0)
        r = add_signal(front, SIGHUP, on_reload);
    if (r >= 0)
        r = listener_new(front->event, cleanup_steal_fd(&front->config.listen_fd), on_client, on_full, front,
                         &front->listener);
    if (r >= 0)
        r = keeper_set_start(&front->keepers, front->config.config, front->config.agent_id, requests_max,
                             front->poller);
    if (r < 0)
        return r;
    notify_init(&front->notify, clock_now_ns());
    if (front->config.inherited)
        r = continue_sessions(front);
    if (r < 0)
        return r;
    front->timer_ns = front->start_ns = clock_now_ns();
    return loop_set_timer(front->timer, front->start_ns);
}

int front_new(const struct front_config *config, struct front **ret) {
    struct front *front = calloc(1, sizeof(*front));

    if (!front) {
        (void) close(config->listen_fd);
        return -ENOMEM;
    }
    front->config = *config;
    front->notify = (struct notify){
        .ping_ns = INSTANT_NEVER, .status_ns = INSTANT_NEVER, .ready_latest_ns = INSTANT_NEVER};
    front->survey.until_ns = front->start_ns = front->timer_ns = INSTANT_NEVER;
    conn_table_clear(&front->table);
    int r = set_up(front);
    if (r < 0) {
        front_free(front);
        return r;
    }
    *ret = front;
    return 0;
}

int front_run(struct front *front) {
    return poller_run(front->poller);
}

struct front *front_free(struct front *front) {
    if (!front)
        return NULL;
    conn_free_all(&front->table);
    adopt_end(&front->adopt);
    keeper_set_deinit(&front->keepers);
    front->poller = poller_free(front->poller);
    front->listener = listener_free(front->listener);
    if (front->config.listen_fd >= 0)
        (void) close(front->config.listen_fd);
    sd_event_source_unref(front->timer);
    sd_event_unref(front->event);
    if (front->registry_memory)
        (void) munmap(front->registry_memory, front->registry_bytes);
    if (front->observe_memory)
        (void) munmap(front->observe_memory, observe_memory_bytes());
    free(front->slots_memory);
    free(front->scratch);
    free(front->reply);
    config_free(front->reloaded);
    free(front);
    return NULL;
}
