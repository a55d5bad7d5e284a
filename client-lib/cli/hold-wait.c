#include "hold-wait.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "hold-internal.h"
#include "linger.h"

enum {
    OBSERVE_FIRST_MS = 100, /* no observer before: a free lease is granted by then */
    OBSERVE_AGAIN_MS = 2000,
    GRANT_MS = 50, /* from the push about this process's lead to its grant */
};

/* --- callbacks --- */

static void on_granted(struct redlock_lease *lease, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    hold->granted = true;
    hold->reason[0] = '\0'; /* of an agent that went away meanwhile */
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    (void) text; /* redlock_error_text() has it */
    hold->lease = NULL;
    hold->error = error;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    if (hold->lost)
        return;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s", reason);
    hold_set_status(hold, "%s, at risk: %s, %" PRId64 " ms left", hold->leading, reason, left_ms);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    if (hold->lost)
        return;
    hold->reason[0] = '\0';
    hold_set_status(hold, "%s", hold->leading);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s: %s", reason, text);
}

/* --- the agent --- */

static void disconnect(struct hold *hold) {
    redlock_close(hold->connection);
    hold->connection = NULL;
    hold->lease = NULL;
}

static const char *reason_without_agent(const struct hold *hold, int error) {
    if (error == REDLOCK_OK)
        return redlock_error_text(hold->connection);
    return error == REDLOCK_AGENT_AWAY || error == REDLOCK_NO_ANSWER ? "no agent answers"
                                                                     : redlock_strerror(error);
}

/* Reports the first failure of several. 0: connected; STATUS_DENIED: waiting does not help; else no agent
 * serves this process. */
static int connect_again(struct hold *hold) {
    static const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks),
        .granted = on_granted,
        .failed = on_failed,
        .at_risk = on_at_risk,
        .extended = on_extended,
        .lost = on_lost,
    };
    int status = 0;

    stop_signals_let_in(&hold->signals, true);
    int error = redlock_connect(hold->cli->socket_path, &hold->connection);
    if (error != REDLOCK_OK && (!hold->away_reported || (error == REDLOCK_AGENT_AWAY && errno == EACCES)))
        status = cli_not_connected(hold->cli, error);
    stop_signals_let_in(&hold->signals, false);
    if (status == STATUS_DENIED)
        return status;
    if (status == STATUS_NO_AGENT)
        cli_complain("%s: waiting for an agent", hold->options.name);
    hold->away_reported = !hold->connection;
    if (!hold->connection || redlock_fd(hold->connection) < 0) {
        hold_set_status(hold, "waiting for %s: %s", hold->options.name, reason_without_agent(hold, error));
        disconnect(hold);
        return STATUS_NO_AGENT;
    }
    redlock_set_callbacks(hold->connection, &callbacks, hold);
    return 0;
}

/* --- the present leader --- */

static void show_leader(struct hold *hold) {
    if (hold->observer.text[0])
        hold_set_status(hold, "waiting for %s: %s", hold->options.name, hold->observer.text);
}

/* The new leader may be this process, whose grant is under way on the other connection. The pid may also be
 * that of a holder on another host: so the grant is awaited, for a moment. */
static bool is_own_grant(struct hold *hold) {
    int64_t until_ns = cli_now_ns() + GRANT_MS * NS_PER_MS;

    while (!hold->granted && hold->lease && hold->connection && hold->observer.pid == (long) getpid() &&
           cli_now_ns() < until_ns) {
        struct pollfd fd = {.fd = redlock_fd(hold->connection), .events = POLLIN};
        if (cli_poll(&fd, 1, until_ns) > 0 && redlock_dispatch(hold->connection) != REDLOCK_OK)
            break;
    }
    return hold->granted && hold->lease && redlock_fence(hold->lease) == hold->observer.fence;
}

static void on_leader_change(void *userdata, bool is_new) {
    struct hold *hold = userdata;

    if (is_new && !is_own_grant(hold))
        hold_log_change(hold, JOURNAL_LEADER_CHANGED, hold->observer.text, hold->observer.fence);
    show_leader(hold);
}

static void observe(struct hold *hold) {
    hold->observer.on_change = on_leader_change;
    hold->observer.userdata = hold;
    leader_observer_start(&hold->observer, hold->cli->socket_path, hold->options.name);
}

/* --- the lease --- */

/* 0 after a temporary failure, else the exit status. */
static int request_failed(struct hold *hold) {
    int error = hold->error, status = 0;
    bool fatal = error == REDLOCK_BAD_NAME || error == REDLOCK_BAD_ARGUMENT || error == REDLOCK_DENIED;

    hold->error = REDLOCK_OK;
    if (hold->options.linger_may_shrink && linger_shorten(&hold->options.request, hold->connection, error)) {
        hold->linger_is_short = true;
        return 0;
    }
    if (fatal || error != hold->reported_error)
        status = cli_failed(hold->connection, error, hold->options.name);
    hold->reported_error = error;
    if (fatal)
        return status;
    hold_set_status(hold, "waiting for %s: %s", hold->options.name, redlock_strerror(error));
    if (error == REDLOCK_AGENT_AWAY)
        disconnect(hold);
    hold_pump(hold, cli_now_ns() + HOLD_RETRY_MS * NS_PER_MS);
    return 0;
}

/* A grant with too little time left is released: this process was stopped, for example. */
static void check_grant(struct hold *hold) {
    if (!hold->granted || (!hold->lost && cli_now_ns() < hold_act_ns(hold)))
        return;
    (void) redlock_release_async(hold->lease);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    hold->reason[0] = '\0';
    hold_pump(hold, cli_now_ns() + HOLD_RETRY_MS * NS_PER_MS);
}

int hold_wait(struct hold *hold) {
    int64_t observe_ns = cli_now_ns() + OBSERVE_FIRST_MS * NS_PER_MS;
    int status = 0;

    while (!hold->granted && hold->signals.count == 0 && status == 0) {
        if (hold->guard_event == UNIT_GUARD_GONE) {
            cli_complain("%s: the guard, which would stop %s in time, was killed", hold->options.name,
                         hold->options.unit);
            status = STATUS_SYSTEM;
            break;
        }
        int connected = hold->connection ? 0 : connect_again(hold);
        if (connected == STATUS_DENIED) {
            status = connected;
            break;
        }
        if (connected != 0) {
            hold_pump(hold, cli_now_ns() + HOLD_RETRY_MS * NS_PER_MS);
            continue;
        }
        if (!hold->lease) {
            hold->error = redlock_acquire_async(hold->connection, hold->options.name, &hold->options.request,
                                                &hold->lease);
            show_leader(hold);
        }
        if (hold->error == REDLOCK_OK && !hold->observer.connection && cli_now_ns() >= observe_ns) {
            observe(hold);
            observe_ns = cli_now_ns() + OBSERVE_AGAIN_MS * NS_PER_MS;
        }
        if (hold->error == REDLOCK_OK)
            hold_pump(hold, hold->observer.connection ? INT64_MAX : observe_ns);
        if (hold->error != REDLOCK_OK)
            status = request_failed(hold);
        else
            check_grant(hold);
    }
    leader_observer_stop(&hold->observer);
    if (!hold->granted && hold->lease)
        hold_release_last(hold);
    return status;
}
