#include "io/client/front.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/client/config-reader.h"
#include "io/client/conn-output.h"
#include "io/client/conn-store.h"
#include "io/client/conn.h"
#include "io/client/keeper-set.h"
#include "io/client/listener.h"
#include "io/client/local-layer.h"
#include "io/client/notify.h"
#include "io/client/peer-cred.h"
#include "io/client/reload.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/poller.h"
#include "io/client/adopt.h"
#include "local/disconnect.h"
#include "local/leader.h"
#include "local/listing.h"
#include "local/observe.h"
#include "local/recovery/restore.h"
#include "local/registry-report.h"
#include "local/reply.h"
#include "local/rule-count.h"

enum {
    RESTORING_TURNS_MAX = 8, /* by then all unanswered requests of the former process are taken */
    SPARE_DESCRIPTORS = 4,   /* for messages to the service manager, which need one for a moment */
};

struct front {
    struct front_config config;
    struct config *reloaded;      /* the policy is its; NULL: the one of the start */
    struct config_reader *reader; /* of a reload; NULL: there is none */
    struct config *fresh;         /* is applied when the units of clients are read; NULL: there is none */
    uint32_t unit_slot;           /* of the next client whose unit is read for it */
    bool reload_again;            /* the file may have changed since this reload began */
    sd_event *event;
    sd_event_source *timer;
    instant_ns timer_ns; /* when the timer fires; never later than anything is due */
    struct poller *poller;
    struct listener *listener;
    struct local_layer layer;
    struct conn_table table;
    struct adopt adopt;
    struct keeper_set keepers;
    instant_ns start_ns; /* when serving begins; INSTANT_NEVER: it has begun */
    struct notify notify;
    unsigned restoring_turns; /* since serving began */
    bool backlog;             /* of messages to the keepers */
};

static const struct config *current_config(const struct front *front) {
    return front->reloaded ? front->reloaded : front->config.config;
}

/* --- the keepers' messages --- */

static void end_survey(struct front *front) {
    keeper_set_end_survey(&front->keepers);
    listing_counted(&front->layer.state);
}

static void on_report(struct front *front, unsigned keeper, const struct report *report, instant_ns now_ns) {
    if (report->kind == REPORT_NODE) {
        front_state_node_report(&front->layer.state, keeper, report, now_ns);
        notify_changed(&front->notify, &front->layer.state, now_ns);
        return;
    }
    switch (report->origin) {
    case REPORT_ORIGIN_REQUEST:
        registry_report(&front->layer.state.registry, report, now_ns);
        break;
    case REPORT_ORIGIN_LEADER:
        leader_report(&front->layer.state, conn_find(&front->table, leader_session_id(report)), report,
                      now_ns);
        break;
    case REPORT_ORIGIN_OBSERVE:
        observe_report(&front->layer.state, report, now_ns);
        break;
    }
}

static void on_survey_reply(struct front *front, unsigned keeper, const struct keeper_message *message) {
    struct keeper_message_survey survey;

    memcpy(&survey, message + 1, sizeof(survey));
    front->layer.state.keepers[keeper].counters = survey.counters;
    front->layer.state.keepers[keeper].timer_delays = survey.timer_delays;
    memcpy(front->layer.state.keepers[keeper].times, survey.figures, sizeof(survey.figures));
    if (keeper_set_survey_reply(&front->keepers, message->number))
        end_survey(front);
}

static void on_message(struct front *front, unsigned keeper, const struct keeper_message *message,
                       size_t length) {
    struct report report;

    switch (message->kind) {
    case KEEPER_MESSAGE_REPORT:
        report = message->report;
        /* An empty text is not the same as none: another program's value may be empty. */
        report.text = report.text ? (const char *) (message + 1) : NULL;
        on_report(front, keeper, &report, clock_now_ns());
        break;
    case KEEPER_MESSAGE_EXTENSIONS:
        assert(length == sizeof(*message) + message->number * sizeof(struct extension));
        registry_report_extensions(&front->layer.state.registry, (const void *) (message + 1),
                                   message->number, clock_now_ns());
        break;
    case KEEPER_MESSAGE_PONG:
        notify_pong(&front->notify, message->number, clock_now_ns());
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

/* Connections that are rejected count as well: their program may try again at once. */
static void note_rejected(struct front *front, uid_t uid) {
    struct front_state *state = &front->layer.state;

    work_share_note(&state->work, (uint8_t) quota_index(&state->registry.quota, uid), 0, clock_now_ns());
}

static void reject(struct front *front, int fd, const struct ucred *peer, const char *text) {
    static const struct log_fields fields = {.event = LOG_EVENT_QUOTA};
    char error[QUOTA_TEXT_BYTES + 16];

    note_rejected(front, peer->uid);
    log_limit_event(&front->table.logs[CONN_LOG_REJECTED], clock_now_ns(), &fields,
                    "connection rejected: %s", text);
    reply_count_rejection(&front->layer.state, "QUOTA");
    (void) snprintf(error, sizeof(error), "-QUOTA %s\r\n", text);
    conn_reject(&front->table, fd, error);
}

/* False: the agent, or the user, has as many sessions as it may; the connection is gone. */
static bool may_have_session(struct front *front, int fd, const struct ucred *peer) {
    struct quota *quota = &front->layer.state.registry.quota;
    unsigned most = current_config(front)->max_sessions;
    char text[QUOTA_TEXT_BYTES];

    if (front->table.n_open >= most || conn_table_is_full(&front->table))
        (void) snprintf(text, sizeof(text), "the agent has max_sessions connections: %u", most);
    else if (!quota_may(quota, peer->uid, QUOTA_SESSIONS, 1))
        quota_text(quota, peer->uid, QUOTA_SESSIONS, 1, text);
    else if (!quota_may(quota, peer->uid, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS))
        quota_text(quota, peer->uid, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS, text);
    else
        return true;
    reject(front, fd, peer, text);
    return false;
}

static void on_full(void *userdata, int fd) {
    struct front *front = userdata;
    reply_count_rejection(&front->layer.state, "QUOTA");
    conn_reject(&front->table, fd, "-QUOTA the agent has no descriptor left for another connection\r\n");
}

static void on_client(void *userdata, int fd) {
    struct front *front = userdata;
    struct ucred peer;
    int pid_fd = -1;

    int r = peer_cred_identify(fd, &peer);
    if (r >= 0 && !may_have_session(front, fd, &peer))
        return;
    if (r >= 0)
        r = peer_cred_open(fd, peer.pid, &front->table.pidfd_failure_logged, &pid_fd);
    if (r >= 0)
        r = conn_new(&front->table, fd, pid_fd, &peer);
    else if (r == -EMFILE || r == -ENFILE)
        on_full(front, fd);
    else
        (void) close(fd);
    if (r < 0)
        log_limit_write(&front->table.logs[CONN_LOG_REJECTED], clock_now_ns(), "connection rejected: %s",
                        strerror(-r));
}

static void start_serving(struct front *front) {
    static const struct log_fields serving = {.event = LOG_EVENT_SERVING};

    front->start_ns = INSTANT_NEVER;
    int r = listener_enable(front->listener);
    if (r < 0) {
        log_error("socket: can't be watched: %s; the agent stops", strerror(-r));
        (void) loop_exit(front->event, r);
        return;
    }
    conn_serve(&front->table);
    log_event(LOG_LEVEL_NOTICE, &serving, "%s: serving clients", front->config.config->socket_path);
    notify_serving(&front->notify, &front->layer.state, clock_now_ns());
}

/* --- the end of each turn --- */

/* Restored leases that the nodes no longer have are reported once the unanswered requests are taken: one of
 * these may be the release. */
static void end_restoring(struct front *front, instant_ns now_ns) {
    if (front->layer.state.registry.restoring && !front->table.paused &&
        (conn_work_due_ns(&front->table, now_ns) == INSTANT_NEVER ||
         ++front->restoring_turns >= RESTORING_TURNS_MAX))
        restore_end(&front->layer.state.registry, now_ns);
}

static instant_ns due_ns(struct front *front, instant_ns now_ns) {
    const instant_ns all[] = {registry_due_ns(&front->layer.state.registry),
                              observe_due_ns(&front->layer.state),
                              front->keepers.survey_until_ns,
                              front->start_ns,
                              notify_due_ns(&front->notify),
                              conn_store_tick(&front->table, now_ns),
                              conn_output_due_ns(&front->table),
                              heap_trim_due_ns(&front->table.trim, now_ns),
                              conn_tick(&front->table, now_ns),
                              loss_log_settle(&front->layer.losses, now_ns),
                              front->backlog ? now_ns + NS_PER_MS : INSTANT_NEVER};
    instant_ns due_ns = INSTANT_NEVER;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        due_ns = instant_min(due_ns, all[i]);
    return due_ns;
}

static bool continue_reload(struct front *front);

/* Takes the clients' requests, wakes the keepers, replies to the clients, and sets the timer. */
static int settle(void *userdata) {
    struct front *front = userdata;
    bool reload_left = continue_reload(front);
    instant_ns now_ns = clock_now_ns();

    conn_work(&front->table, now_ns);
    end_restoring(front, now_ns);
    listing_turn(&front->layer.state, now_ns);
    observe_tick(&front->layer.state, now_ns);
    (void) keeper_set_flush(&front->keepers); /* the keepers work while the clients get their replies */
    conn_flush(&front->table, now_ns);
    conn_sweep(&front->table, now_ns);
    front->backlog = keeper_set_flush(&front->keepers); /* releases of connections that were closed */

    instant_ns work_ns =
        instant_min(listing_due_ns(&front->layer.state, now_ns), conn_work_due_ns(&front->table, now_ns));
    bool work_left = work_ns <= now_ns;
    instant_ns at_ns = instant_min(due_ns(front, now_ns), work_left ? INSTANT_NEVER : work_ns);
    int r = 0;

    /* A due time of long ago means "at once": the timer is not late for it. */
    at_ns = instant_max(at_ns, now_ns);
    if (at_ns < front->timer_ns) {
        front->timer_ns = at_ns;
        r = loop_set_timer(front->timer, at_ns);
    }
    return r < 0 ? r : work_left || reload_left;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct front *front = userdata;
    instant_ns now_ns = clock_now_ns();

    (void) source;
    (void) usec;
    histogram_note(&front->layer.state.timer_delays, now_ns - front->timer_ns);
    front->timer_ns = INSTANT_NEVER;
    registry_tick(&front->layer.state.registry, now_ns);
    heap_trim_tick(&front->table.trim, now_ns);
    if (now_ns >= front->keepers.survey_until_ns)
        end_survey(front);
    if (now_ns >= front->start_ns)
        start_serving(front);
    if (now_ns >= notify_due_ns(&front->notify) &&
        notify_tick(&front->notify, &front->layer.state, now_ns)) {
        const struct keeper_command ping = {.kind = KEEPER_COMMAND_PING, .number = front->notify.ping};
        keeper_set_broadcast(&front->keepers, &ping, NULL, 0);
    }
    return 0;
}

/* --- signals --- */

static void push_draining(struct session *session, void *userdata) {
    (void) userdata;
    if (session->state == SESSION_ACQUIRING)
        reply_error(session, "DRAINING", "the agent is stopping");
    disconnect_announce(session);
}

static int on_terminate(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    static const struct log_fields stopping = {.event = LOG_EVENT_STOPPING};
    struct front *front = userdata;

    (void) source;
    notify_stopping(&front->notify);
    registry_drop_leaving(&front->layer.state.registry, clock_now_ns());
    if (front->layer.state.registry.ledger) {
        log_event(LOG_LEVEL_NOTICE, &stopping,
                  "stopping on signal %u: a restart continues %u connections with %u held leases; a stop "
                  "ends them, the leases by their ttl",
                  info->ssi_signo, front->table.n_open, front->layer.state.registry.held);
        return loop_exit(front->event, 0);
    }
    log_event(LOG_LEVEL_NOTICE, &stopping, "stopping on signal %u: %u held leases end by their ttl",
              info->ssi_signo, front->layer.state.registry.held);
    front->layer.state.draining = true;
    conn_for_each(&front->table, push_draining, front);
    conn_flush(&front->table, clock_now_ns());
    return loop_exit(front->event, 0);
}

static void find_rules(struct session *session, void *userdata) {
    (void) userdata;
    conn_find_rules(session);
    observe_review(session);
}

/* A next process would let such leases end at their deadlines. */
static void warn_of_longer(const struct front *front, const struct config *fresh) {
    unsigned longer = registry_count_longer(&front->layer.state.registry, fresh->max_ttl_ms);

    if (longer > 0)
        log_warning(
            "reload: %u leases and waiting requests have a ttl above max_ttl (%lld ms): these leases "
            "are extended until the agent restarts, and not after that",
            longer, (long long) fresh->max_ttl_ms);
}

/* Without a group in the file the socket gets back the process's own. If that fails, the next reload tries
 * again. */
static void change_access(const struct front *front, struct config *fresh) {
    const struct config *former = current_config(front);
    gid_t group = fresh->socket_group;

    if (fresh->socket_mode == former->socket_mode && fresh->socket_group == former->socket_group)
        return;
    if (front->config.socket_is_inherited) {
        log_warning("reload: the socket's mode and group stay as they were: they are those of its systemd "
                    "unit (SocketMode=, SocketGroup=)");
        return;
    }
    if (group == (gid_t) -1 && former->socket_group != (gid_t) -1)
        group = getegid();
    int r = listener_set_access(front->config.config->socket_path, fresh->socket_mode, group);
    if (r >= 0)
        return;
    log_warning("reload: can't change the socket's mode and group: %s; they stay as they were",
                strerror(-r));
    fresh->socket_mode = former->socket_mode;
    fresh->socket_group = former->socket_group;
}

static void apply_reload(struct front *front, struct config *fresh) {
    static const struct log_fields reloaded = {.event = LOG_EVENT_RELOADED};

    local_layer_set_policy(&front->layer, fresh);
    conn_for_each(&front->table, find_rules, front);
    rule_count_again(&front->layer.state);
    change_access(front, fresh);
    warn_of_longer(front, fresh);
    config_free(front->reloaded);
    front->reloaded = fresh;
    log_event(LOG_LEVEL_NOTICE, &reloaded, "reload: %s applied", front->config.config_path);
}

static void begin_reload(struct front *front);

static void end_reload(struct front *front) {
    front->reader = config_reader_free(front->reader);
    if (front->reload_again)
        begin_reload(front);
    else
        notify_reloaded(&front->notify, clock_now_ns());
}

/* The units of thousands of clients take some 100 ms: they are read in turns, between which leases are
 * extended. True: more is to do. */
static bool continue_reload(struct front *front) {
    struct config *fresh = front->fresh;

    if (!fresh)
        return false;
    if (local_layer_needs_units(fresh) && conn_read_units(&front->table, &front->unit_slot))
        return true;
    front->fresh = NULL;
    apply_reload(front, fresh);
    end_reload(front);
    return false;
}

/* continue_reload() goes on. */
static void on_config(void *userdata, struct config *fresh, int error, const char *diagnostics) {
    struct front *front = userdata;

    if (!fresh) {
        reload_refuse(front->config.config_path, error, diagnostics);
        end_reload(front);
        return;
    }
    reload_limit(front->config.config, fresh, diagnostics);
    front->fresh = fresh;
    front->unit_slot = 0;
}

static void begin_reload(struct front *front) {
    front->reload_again = false;
    int r = config_reader_new(front->event, front->config.config_path, on_config, front, &front->reader);
    if (r < 0)
        on_config(front, NULL, r, NULL);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
    struct front *front = userdata;

    (void) source;
    (void) info;
    front->reload_again = front->reader;
    if (!front->reader) {
        notify_reloading(&front->notify, clock_now_ns());
        begin_reload(front);
    }
    return 0;
}

/* --- life --- */

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

/* Without a file to read again (--dev) SIGHUP is the end of the terminal, unless it is ignored, as nohup(1)
 * wants it. */
static int add_reload(struct front *front) {
    struct sigaction action;

    if (front->config.config_path)
        return add_signal(front, SIGHUP, on_reload);
    if (sigaction(SIGHUP, NULL, &action) < 0)
        return -errno;
    return action.sa_handler == SIG_IGN ? 0 : add_signal(front, SIGHUP, on_terminate);
}

/* Continues the former process's sessions. Without a service manager there is no store. */
static int continue_sessions(struct front *front) {
    const struct config *config = front->config.config;
    const struct adopt_limits limits = {.sessions = front->table.slots.capacity,
                                        /* each keeper has two connections to each node */
                                        .spare_descriptors =
                                            2 * config->keepers * config->n_nodes + SPARE_DESCRIPTORS};

    int r = adopt_begin(&front->adopt, &front->table, &front->layer.state, &front->keepers,
                        front->config.inherited, &limits);

    if (r == -ENOTCONN) {
        log_warning(
            "--store: no service manager ($NOTIFY_SOCKET is not set); connections end with this process");
        return 0;
    }
    return r;
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static int set_up(struct front *front) {
    static const struct poller_hooks hooks = {
        .mail = take_messages, .mail_waits = messages_wait, .settle = settle};
    const struct config *config = front->config.config;
    struct adopt_slots former = {0};

    if (front->config.inherited)
        former = adopt_find(&front->adopt, front->config.inherited);
    uint32_t requests_max = registry_requests_max(larger(former.requests, config->max_leases));

    int r = sd_event_new(&front->event);
    if (r >= 0)
        r = poller_new(front->event, &hooks, front, &front->poller);
    if (r >= 0)
        r = local_layer_init(&front->layer, config, front->config.agent_id, requests_max, &front->keepers);
    if (r >= 0)
        r = conn_table_init(&front->table, front->poller, &front->layer.state,
                            larger(former.sessions, config->max_sessions));
    if (r >= 0)
        r = loop_add_timer(front->event, on_timer, front, &front->timer);
    if (r >= 0)
        r = add_signal(front, SIGTERM, on_terminate);
    if (r >= 0)
        r = add_signal(front, SIGINT, on_terminate);
    if (r >= 0)
        r = add_reload(front);
    if (r >= 0)
        r = listener_new(front->event, cleanup_steal_fd(&front->config.listen_fd), &front->layer.state.work,
                         on_client, on_full, front, &front->listener);
    if (r >= 0)
        r = keeper_set_start(&front->keepers, config, front->config.agent_id, requests_max, front->poller);
    if (r < 0)
        return r;
    r = notify_init(&front->notify, clock_now_ns());
    if (r >= 0 && front->config.inherited)
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
    notify_clear(&front->notify);
    front->start_ns = front->timer_ns = INSTANT_NEVER;
    conn_table_clear(&front->table);
    keeper_set_init(&front->keepers);
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
    conn_table_deinit(&front->table);
    adopt_end(&front->adopt);
    keeper_set_deinit(&front->keepers);
    notify_deinit(&front->notify);
    local_layer_deinit(&front->layer);
    front->reader = config_reader_free(front->reader);
    front->poller = poller_free(front->poller);
    front->listener = listener_free(front->listener);
    if (front->config.listen_fd >= 0)
        (void) close(front->config.listen_fd);
    sd_event_source_unref(front->timer);
    sd_event_unref(front->event);
    config_free(front->reloaded);
    config_free(front->fresh);
    free(front);
    return NULL;
}
