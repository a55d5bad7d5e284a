#include "io/client/front.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/clock.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/conn.h"
#include "io/node/keeper-message.h"
#include "io/node/keeper.h"
#include "io/client/listener.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/client/notify.h"
#include "io/loop/poller.h"
#include "io/client/reload.h"
#include "io/loop/random-bytes.h"
#include "io/restart/succession.h"
#include "local/command.h"
#include "local/recovery/restore.h"

enum {
    SURVEY_TIMEOUT_MS = 200, /* a keeper that has not told its counters by then is shown as it was */
    TURNS_RESTORING = 8,     /* by then all requests are taken that a former process left unanswered */
};

struct front {
    struct front_config config;
    struct config *reloaded; /* NULL until the first reload: what the policy comes from */
    sd_event *event;
    sd_event_source *timer;
    instant_ns timer_ns; /* when it will ring; never later than anything is due */
    struct poller *poller;
    struct listener *listener;
    struct front_state service;
    struct conn_table conns;
    struct succession succession;
    struct keeper *keepers[KEEPERS_MAX];
    unsigned n_keepers;
    void *registry_memory;
    size_t registry_bytes;
    void *observe_memory;
    void *slots_memory;
    char *scratch;
    char *reply;
    uint32_t survey;          /* number of the last one */
    unsigned surveys_awaited; /* keepers that have not answered it */
    instant_ns survey_until_ns;
    instant_ns start_ns; /* INSTANT_NEVER once serving */
    struct notify notify;
    struct random_bytes secrets;
    unsigned turns; /* since clients are served, while restoring */
    bool work_left;
    bool backlog;
};

/* --- what the local layer asks for --- */

static struct keeper *keeper_of(struct front *front, uint64_t name_hash) {
    /* The registry's buckets use the low bits. */
    return front->keepers[(name_hash >> 40) % front->n_keepers];
}

static void on_command(void *userdata, uint64_t name_hash, const struct command *command) {
    struct front *front = userdata;
    const struct keeper_command errand = {.kind = KEEPER_COMMAND_COMMAND, .command = *command};
    mailbox_post(keeper_inbox(keeper_of(front, name_hash)), &errand, sizeof(errand), command->text,
                 (size_t) command->head_length + command->tail_length);
}

static void on_write(void *userdata, struct session *session, const char *bytes, size_t length) {
    (void) userdata;
    conn_output_write(session, bytes, length);
}

static void tell_keepers(struct front *front, const struct keeper_command *errand) {
    for (unsigned i = 0; i < front->n_keepers; i++)
        mailbox_post(keeper_inbox(front->keepers[i]), errand, sizeof(*errand), NULL, 0);
}

static void on_survey(void *userdata) {
    struct front *front = userdata;

    if (front->surveys_awaited > 0)
        return; /* the one under way serves this session too */
    const struct keeper_command errand = {.kind = KEEPER_COMMAND_SURVEY, .number = ++front->survey};
    front->surveys_awaited = front->n_keepers;
    front->survey_until_ns = clock_now_ns() + SURVEY_TIMEOUT_MS * NS_PER_MS;
    tell_keepers(front, &errand);
}

static int on_page(void *userdata, struct session *session) {
    (void) userdata;
    return conn_make_page(session);
}

static void on_bless(void *userdata, unsigned node) {
    struct front *front = userdata;
    const struct keeper_command errand = {.kind = KEEPER_COMMAND_BLESS, .node = node};

    log_notice("node %s: blessed by an operator", front->service.identity.node_names[node]);
    tell_keepers(front, &errand);
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    struct front *front = userdata;
    session_outcome(&front->service, request, outcome, now_ns);
}

static void on_changed(void *userdata, uint64_t name_hash, const char *name, size_t length) {
    struct front *front = userdata;
    observe_hint(&front->service, name_hash, name, length);
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

/* --- what the keepers say --- */

static void survey_ended(struct front *front, instant_ns now_ns) {
    front->surveys_awaited = 0;
    front->survey_until_ns = INSTANT_NEVER;
    front_state_surveyed(&front->service, now_ns);
}

static void start_serving(struct front *front) {
    front->start_ns = INSTANT_NEVER;
    int r = listener_enable(front->listener);
    if (r < 0) {
        log_error("can't watch the listening socket: %s", strerror(-r));
        (void) loop_exit(front->event, r);
        return;
    }
    conn_serve(&front->conns);
    log_notice("serving %s", front->config.config->socket_path);
    notify_serving(&front->notify, &front->service, clock_now_ns());
}

static void on_report(struct front *front, unsigned keeper, const struct report *report, instant_ns now_ns) {
    if (report->kind == REPORT_NODE) {
        front_state_node_report(&front->service, keeper, report, now_ns);
        notify_changed(&front->notify, &front->service, now_ns);
        return;
    }
    if (command_is_look(report->request) && observe_asked(report->request)) {
        observe_looked(&front->service, report, now_ns);
        return;
    }
    if (command_is_look(report->request)) {
        struct session *session = conn_find(&front->conns, command_look_session(report->request));
        if (session)
            session_looked(session, &front->service, report);
        return;
    }
    registry_report(&front->service.registry, report, now_ns);
}

static void take_dispatches(struct front *front, unsigned keeper) {
    const struct keeper_message *dispatch;
    size_t length;

    while ((dispatch = mailbox_next(keeper_outbox(front->keepers[keeper]), &length))) {
        assert(length >= sizeof(*dispatch));
        if (dispatch->kind == KEEPER_MESSAGE_REPORT) {
            struct report report = dispatch->report;
            report.text = report.text_length > 0 ? (const char *) (dispatch + 1) : NULL;
            on_report(front, keeper, &report, clock_now_ns());
            continue;
        }
        if (dispatch->kind == KEEPER_MESSAGE_EXTENSIONS) {
            assert(length == sizeof(*dispatch) + dispatch->number * sizeof(struct extension));
            registry_extended(&front->service.registry, (const void *) (dispatch + 1), dispatch->number,
                              clock_now_ns());
            continue;
        }
        if (dispatch->kind == KEEPER_MESSAGE_PONG) {
            notify_pong(&front->notify, dispatch->number);
            continue;
        }
        struct keeper_message_survey survey;
        memcpy(&survey, dispatch + 1, sizeof(survey));
        front->service.keepers[keeper].counters = survey.counters;
        memcpy(front->service.keepers[keeper].figures, survey.figures, sizeof(survey.figures));
        if (dispatch->number == front->survey && front->surveys_awaited > 0 && --front->surveys_awaited == 0)
            survey_ended(front, clock_now_ns());
    }
}

static void take_all_dispatches(void *userdata) {
    struct front *front = userdata;

    for (unsigned i = 0; i < front->n_keepers; i++)
        take_dispatches(front, i);
}

static bool dispatches_wait(void *userdata, bool sleeping) {
    struct front *front = userdata;
    bool any = false;

    for (unsigned i = 0; i < front->n_keepers; i++)
        any |= mailbox_waits(keeper_outbox(front->keepers[i]), sleeping);
    return any;
}

/* --- clients --- */

static void on_client(void *userdata, int fd) {
    struct front *front = userdata;
    const struct config *config = front->reloaded ? front->reloaded : front->config.config;

    if (front->conns.n_open >= config->max_sessions) {
        conn_reject(&front->conns, fd,
                    "-QUOTA the agent has as many connections as it may (max_sessions)\r\n");
        return;
    }
    int r = conn_new(&front->conns, fd);
    if (r < 0)
        log_limit_write(&front->conns.logs[CONN_LOG_REJECTED], clock_now_ns(), "refused a connection: %s",
                        strerror(-r));
}

static void on_full(void *userdata, int fd) {
    struct front *front = userdata;

    conn_reject(&front->conns, fd, "-QUOTA the agent has no descriptor left for another connection\r\n");
}

/* --- what ends every handler --- */

static bool flush_inboxes(struct front *front) {
    bool backlog = false;

    for (unsigned i = 0; i < front->n_keepers; i++)
        backlog |= mailbox_flush(keeper_inbox(front->keepers[i]));
    return backlog;
}

/* Works on what the clients sent, wakes the keepers, answers the clients, and sets the timer. */
static int settle(void *userdata) {
    struct front *front = userdata;
    instant_ns now_ns = clock_now_ns();

    front->work_left = conn_work(&front->conns, now_ns);
    if (front->service.registry.restoring && !front->conns.paused &&
        (!front->work_left || ++front->turns >= TURNS_RESTORING))
        restore_end(&front->service.registry, now_ns);
    observe_tick(&front->service, now_ns);
    (void) flush_inboxes(front); /* the keepers begin while the clients are answered */
    conn_flush(&front->conns, now_ns);
    conn_sweep(&front->conns, now_ns);
    front->backlog = flush_inboxes(front); /* who was closed there has let go */
    front->work_left |= !front->conns.paused && !list_is_empty(&front->conns.ready);

    instant_ns due_ns = registry_due_ns(&front->service.registry);
    due_ns = instant_min(due_ns, observe_due_ns(&front->service));
    due_ns = instant_min(due_ns, instant_min(front->survey_until_ns, front->start_ns));
    due_ns = instant_min(due_ns, notify_due_ns(&front->notify));
    due_ns = instant_min(due_ns, conn_store_tick(&front->conns, now_ns));
    due_ns = instant_min(due_ns, conn_output_due_ns(&front->conns));
    due_ns = instant_min(due_ns, heap_trim_due_ns(&front->conns.trim, now_ns));
    due_ns = instant_min(due_ns, conn_tick(&front->conns, now_ns));
    if (front->backlog)
        due_ns = instant_min(due_ns, now_ns + NS_PER_MS);
    if (front->work_left)
        due_ns = 0;
    if (due_ns >= front->timer_ns)
        return 0;
    front->timer_ns = due_ns;
    return loop_set_timer(front->timer, due_ns);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct front *front = userdata;
    instant_ns now_ns = clock_now_ns();

    (void) source;
    (void) usec;
    front->timer_ns = INSTANT_NEVER;
    registry_tick(&front->service.registry, now_ns);
    heap_trim_tick(&front->conns.trim, now_ns);
    if (now_ns >= front->survey_until_ns)
        survey_ended(front, now_ns);
    if (now_ns >= front->start_ns)
        start_serving(front);
    if (now_ns >= notify_due_ns(&front->notify) && notify_tick(&front->notify, &front->service, now_ns)) {
        const struct keeper_command ping = {.kind = KEEPER_COMMAND_PING, .number = front->notify.ping};
        tell_keepers(front, &ping);
    }
    return 0;
}

/* --- signals --- */

static void tell_draining(struct session *session, void *userdata) {
    struct front *front = userdata;

    if (session->state == SESSION_ACQUIRING)
        session_error(session, &front->service, "DRAINING", "the agent is about to stop");
    session_tell_draining(session, &front->service);
}

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    struct front *front = userdata;

    (void) source;
    notify_stopping(&front->notify);
    if (front->service.ledger) {
        log_notice("stopping on signal %u: %u connections with %u held leases are left to the next process",
                   info->ssi_signo, front->conns.n_open, front->service.registry.held);
        return loop_exit(front->event, 0);
    }
    log_notice("stopping on signal %u: %u held leases are left to their ttl", info->ssi_signo,
               front->service.registry.held);
    front->service.draining = true;
    conn_for_each(&front->conns, tell_draining, front);
    conn_flush(&front->conns, clock_now_ns());
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
    char differing[256];

    if (reload_restart_needed(front->config.config, fresh, differing, sizeof(differing)) > 0)
        log_warning("reload: these changes wait for a restart: %s", differing);
    /* The nodes' epochs speak of the max_ttl that the agent began with: longer leases want a new beginning.
     */
    if (fresh->max_ttl_ms > front->config.config->max_ttl_ms)
        fresh->max_ttl_ms = front->config.config->max_ttl_ms;
    if (fresh->default_ttl_ms > fresh->max_ttl_ms)
        fresh->default_ttl_ms = fresh->max_ttl_ms;
    for (unsigned i = 0; i < fresh->n_rules; i++)
        if (fresh->rules[i].terms.default_ttl_ms > fresh->max_ttl_ms)
            fresh->rules[i].terms.default_ttl_ms = fresh->max_ttl_ms;
    front->service.policy = policy_of(fresh);
    if (fresh->max_sessions > front->conns.slots.capacity)
        fresh->max_sessions = front->conns.slots.capacity;
    int r = listener_set_access(front->config.config->socket_path, fresh->socket_mode, fresh->socket_group);
    if (r < 0)
        log_warning("reload: the socket keeps its mode and group: %s", strerror(-r));
    config_free(front->reloaded);
    front->reloaded = fresh;
    log_notice("reloaded %s", front->config.config_path);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    struct front *front = userdata;
    struct config *fresh = NULL;
    _cleanup_free_ char *mistakes = NULL;
    size_t length = 0;

    (void) source;
    (void) info;
    if (!front->config.config_path) {
        log_notice("reload: there is no configuration file to read");
        return 0;
    }
    FILE *errors = open_memstream(&mistakes, &length);
    if (!errors)
        return 0;
    notify_reloading(&front->notify);
    int r = config_read(front->config.config_path, true, errors, &fresh);
    (void) fclose(errors);
    for (char *line = mistakes, *end; (end = strchr(line, '\n')); line = end + 1)
        log_write(r < 0 ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "%.*s", (int) (end - line), line);
    if (r < 0)
        log_error("reload: %s has mistakes; the agent goes on with what it has", front->config.config_path);
    else
        apply_reload(front, fresh);
    notify_reloaded(&front->notify);
    return 0;
}

/* --- life --- */

static int start_keepers(struct front *front, uint32_t requests_max) {
    const struct config *config = front->config.config;
    uint64_t seeds[KEEPERS_MAX];

    if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
        return -errno;
    for (unsigned i = 0; i < config->keepers; i++) {
        const struct keeper_config keeper = {
            .config = config,
            .agent_id = front->config.agent_id,
            .requests_max = requests_max,
            .seed = seeds[i],
            .index = i,
        };
        int r = keeper_new(&keeper, &front->keepers[i]);
        if (r < 0)
            return r;
        front->n_keepers++;
        r = mailbox_attach(keeper_outbox(front->keepers[i]), front->poller);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_up_service(struct front *front, uint32_t requests_max) {
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
    const struct policy policy = policy_of(config);
    instant_ns now_ns = clock_now_ns();
    uint64_t hash_key[2];
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
    front->registry_bytes = registry_memory_bytes(requests_max);
    front->registry_memory = loop_reserve(front->registry_bytes);
    front->observe_memory = loop_reserve(observe_memory_bytes());
    front->slots_memory = calloc(1, conn_slots_bytes(config->max_sessions));
    front->scratch = malloc(CONN_SCRATCH_BYTES);
    front->reply = malloc(REPLY_BYTES_MAX);
    if (!front->registry_memory || !front->observe_memory || !front->slots_memory || !front->scratch ||
        !front->reply)
        return -ENOMEM;
    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return -errno;
    registry_init(&front->service.registry, &registry_sink, requests_max, config->max_leases, hash_key,
                  front->registry_memory);
    registry_begin_ids(&front->service.registry, now_ns);
    observe_init(&front->service.observatory, hash_key[0], front->observe_memory);
    front_state_init(&front->service, &policy, &identity, &sink, front->reply, now_ns);
    conn_table_init(&front->conns, front->poller, &front->service, front->scratch, front->slots_memory,
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

/* Goes on from the last process; without a manager there is none, and no next one. */
static int begin_succession(struct front *front) {
    int r = succession_begin(&front->succession, &front->conns, &front->service, front->config.inheritance,
                             front->config.config->max_sessions);
    if (r >= 0) {
        const struct keeper_command errand = {.kind = KEEPER_COMMAND_SUCCEED};
        front->service.registry.kept = true;
        for (unsigned i = 0; i < front->n_keepers; i++)
            mailbox_post(keeper_inbox(front->keepers[i]), &errand, sizeof(errand),
                         &front->succession.predecessor, sizeof(front->succession.predecessor));
    }
    if (r != -ENOTCONN)
        return r;
    log_warning("--store: no service manager listens ($NOTIFY_SOCKET): connections end with this process");
    front->service.ledger = NULL;
    front->conns.store = NULL;
    front->conns.scratch = front->scratch;
    front->conns.paused = false;
    return 0;
}

static int set_up(struct front *front) {
    static const struct poller_hooks hooks = {
        .mail = take_all_dispatches, .mail_waits = dispatches_wait, .settle = settle};
    uint32_t requests_max = registry_requests_max(front->config.config->max_leases);

    int r = sd_event_new(&front->event);
    if (r >= 0)
        r = poller_new(front->event, &hooks, front, &front->poller);
    if (r >= 0)
        r = set_up_service(front, requests_max);
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
        r = start_keepers(front, requests_max);
    if (r < 0)
        return r;
    notify_init(&front->notify, clock_now_ns());
    if (front->config.inheritance)
        r = begin_succession(front);
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
    front->survey_until_ns = front->start_ns = front->timer_ns = INSTANT_NEVER;
    conn_table_clear(&front->conns);
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
    conn_free_all(&front->conns);
    succession_end(&front->succession);
    for (unsigned i = 0; i < KEEPERS_MAX; i++)
        front->keepers[i] = keeper_free(front->keepers[i]);
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
