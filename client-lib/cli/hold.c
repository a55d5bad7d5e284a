/* redlock hold: leader election for its caller: a service manager, a script, or its own hooks. Waits for the
 * lease as long as it takes, holds the lease until a signal stops it, and steps down early enough before the
 * deadline for what it leads to stop in time. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "hold-options.h"
#include "job.h"
#include "leader-observer.h"
#include "linger.h"
#include "notify.h"
#include "stop-signals.h"
#include "unit-guard.h"

enum {
    OBSERVE_FIRST_MS = 100, /* a free lease is granted before */
    OBSERVE_AGAIN_MS = 2000,
    RETRY_MS = 500, /* after a failure that may pass */
    RELEASE_TIMEOUT_MS = 1000,
    LEAVE_MARGIN_MS = 100, /* the part of the grace that is kept for killing what has not stopped */
    END_UNIT_MS = 5000,    /* for killed processes to end, before a release */
    UNIT_STARTS_MS = 5000, /* so long a led unit may be starting */
};

struct hold {
    const struct cli *cli;
    struct hold_options options;
    struct unit_guard guard;
    struct notify notify;
    int64_t ping_ns; /* when the watchdog's next ping is due */
    struct stop_signals signals;
    struct redlock *connection;
    struct leader_observer observer;
    struct redlock_lease *lease; /* asked for or held */
    bool granted, lost;
    bool linger_is_short; /* shorter than asked for, and not yet reported */
    int error;            /* of the failed request; REDLOCK_OK: none */
    int reported_error;   /* the last error that was reported */
    bool away_reported;   /* that no agent answers */
    int64_t longest_ns;   /* the most validity that was seen: about the ttl */
    struct job hook;
    char reason[320];  /* of the risk or the loss */
    char leading[128]; /* the status while this host leads */
    int64_t led_ns;    /* when the lead began */
    char status[512];  /* the last that the service manager got */
};

/* --- callbacks, signals and the watchdog --- */

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct hold *) userdata)->granted = true;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    (void) text; /* redlock_error_text() has it */
    hold->lease = NULL;
    hold->error = error;
}

static void set_status(struct hold *hold, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The service manager gets each status once. */
static void set_status(struct hold *hold, const char *format, ...) {
    char text[sizeof(hold->status)];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (strcmp(text, hold->status) == 0)
        return;
    (void) strcpy(hold->status, text);
    (void) notify_send(&hold->notify, NULL, text);
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    if (hold->lost)
        return;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s", reason);
    set_status(hold, "%s, at risk: %s, %" PRId64 " ms left", hold->leading, reason, left_ms);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    if (hold->lost)
        return;
    hold->reason[0] = '\0';
    set_status(hold, "%s", hold->leading);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s: %s", reason, text);
}

static void read_signals(struct hold *hold) {
    stop_signals_read(&hold->signals);
    if (job_reap(&hold->hook) && job_status(&hold->hook) != 0)
        cli_complain("%s: a hook failed: exit status %d", hold->options.name, job_status(&hold->hook));
}

/* The service manager kills a process that hangs: such a process would not stop in time what it leads. */
static int64_t feed_watchdog(struct hold *hold) {
    int64_t at_ns = cli_now_ns();

    if (hold->notify.watchdog_ns == 0)
        return INT64_MAX;
    if (at_ns >= hold->ping_ns) {
        (void) notify_send(&hold->notify, "WATCHDOG=1", NULL);
        hold->ping_ns = at_ns + hold->notify.watchdog_ns / 3;
    }
    return hold->ping_ns;
}

/* Waits for an event, or until `until_ns`, and handles what has come. */
static void pump(struct hold *hold, int64_t until_ns) {
    int64_t ping_ns = feed_watchdog(hold);
    struct pollfd fds[] = {
        {.fd = hold->signals.fd, .events = POLLIN},
        {.fd = hold->connection ? redlock_fd(hold->connection) : -1, .events = POLLIN},
        {.fd = leader_observer_fd(&hold->observer), .events = POLLIN},
        {.fd = hold->guard.fd, .events = POLLIN},
    };

    (void) cli_poll(fds, sizeof(fds) / sizeof(fds[0]), until_ns < ping_ns ? until_ns : ping_ns);
    read_signals(hold);
    if (hold->connection && redlock_dispatch(hold->connection) != REDLOCK_OK && hold->error == REDLOCK_OK)
        hold->error = REDLOCK_AGENT_AWAY;
    leader_observer_dispatch(&hold->observer);
}

/* --- waiting --- */

static void disconnect(struct hold *hold) {
    redlock_close(hold->connection);
    hold->connection = NULL;
    hold->lease = NULL;
}

/* Reports the first failure of several. 0: connected; STATUS_DENIED: waiting does not help; else no agent
 * answers. */
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
    if (!hold->away_reported)
        status = cli_connect(hold->cli, &hold->connection);
    else if (redlock_connect(hold->cli->socket_path, &hold->connection) == REDLOCK_AGENT_AWAY &&
             errno == EACCES)
        status = cli_connect(hold->cli, &hold->connection);
    stop_signals_let_in(&hold->signals, false);
    if (status == STATUS_DENIED)
        return status;
    if (status == STATUS_NO_AGENT)
        cli_complain("%s: waiting for an agent", hold->options.name);
    hold->away_reported = !hold->connection;
    if (!hold->connection || redlock_fd(hold->connection) < 0) {
        set_status(hold, "waiting for %s: no agent answers", hold->options.name);
        disconnect(hold);
        return STATUS_NO_AGENT;
    }
    redlock_set_callbacks(hold->connection, &callbacks, hold);
    return 0;
}

/* A line in the journal for each change of leader. Nothing is printed when no service manager started this.
 */
static void log_change(const struct hold *hold, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void log_change(const struct hold *hold, const char *format, ...) {
    char text[sizeof(hold->observer.text)];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (hold->notify.fd >= 0)
        cli_complain("%s: %s", hold->options.name, text);
}

static void show_leader(struct hold *hold) {
    if (hold->observer.text[0])
        set_status(hold, "waiting for %s: %s", hold->options.name, hold->observer.text);
}

static void on_leader_change(void *userdata, bool is_new) {
    struct hold *hold = userdata;

    if (is_new)
        log_change(hold, "%s, token %" PRIu64, hold->observer.text, hold->observer.fence);
    show_leader(hold);
}

static void observe(struct hold *hold) {
    stop_signals_let_in(&hold->signals, true);
    leader_observer_start(&hold->observer, hold->cli->socket_path, hold->options.name);
    stop_signals_let_in(&hold->signals, false);
}

/* 0 when the failure may pass, else the exit status. */
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
    set_status(hold, "waiting for %s: %s", hold->options.name, redlock_strerror(error));
    if (error == REDLOCK_AGENT_AWAY)
        disconnect(hold);
    pump(hold, cli_now_ns() + RETRY_MS * NS_PER_MS);
    return 0;
}

static int64_t grace_ns(const struct hold *hold) {
    int64_t ns = hold->options.grace_ms < 0 ? hold->longest_ns / 4 : hold->options.grace_ms * NS_PER_MS;
    return ns < hold->longest_ns / 2 ? ns : hold->longest_ns / 2;
}

/* When to act as if the lease were lost, unless it is extended before. */
static int64_t act_ns(struct hold *hold) {
    int64_t at_ns = cli_now_ns(), left_ns = redlock_remaining_ns(hold->lease);

    if (left_ns > hold->longest_ns)
        hold->longest_ns = left_ns;
    return at_ns + left_ns - grace_ns(hold);
}

/* A grant with too little time left is released: this process was stopped, for example. */
static void check_grant(struct hold *hold) {
    if (!hold->granted || (!hold->lost && cli_now_ns() < act_ns(hold)))
        return;
    (void) redlock_release_async(hold->lease);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    pump(hold, cli_now_ns() + RETRY_MS * NS_PER_MS);
}

/* Until the lease is granted or a signal has come: 0; or the exit status. */
static int wait_for_lease(struct hold *hold) {
    int64_t observe_ns = cli_now_ns() + OBSERVE_FIRST_MS * NS_PER_MS;
    int status = 0;

    while (!hold->granted && hold->signals.count == 0 && status == 0) {
        int connected = hold->connection ? 0 : connect_again(hold);
        if (connected == STATUS_DENIED) {
            status = connected;
            break;
        }
        if (connected != 0) {
            pump(hold, cli_now_ns() + RETRY_MS * NS_PER_MS);
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
            pump(hold, hold->observer.connection ? INT64_MAX : observe_ns);
        if (hold->error != REDLOCK_OK)
            status = request_failed(hold);
        else
            check_grant(hold);
    }
    leader_observer_stop(&hold->observer);
    return status;
}

/* --- leading --- */

static void run_hook(struct hold *hold, const char *text) {
    char *const shell[] = {(char *) "/bin/sh", (char *) "-c", (char *) text, NULL};

    if (text)
        (void) job_start(&hold->hook, shell, hold->lease, JOB_GROUP_OWN, NULL);
}

static const char *time_text(time_t seconds, char buffer[64]) {
    struct tm parts;

    buffer[0] = '\0';
    if (localtime_r(&seconds, &parts))
        (void) strftime(buffer, 64, "%F %T %Z", &parts);
    return buffer;
}

static bool announce_lead(struct hold *hold) {
    char since[64];

    hold->led_ns = cli_now_ns();
    /* The observer has a connection of its own, and may have logged this leader before the grant came. */
    if (redlock_fence(hold->lease) == 0 || redlock_fence(hold->lease) != hold->observer.fence)
        log_change(hold, "this host leads, token %" PRIu64, redlock_fence(hold->lease));
    hold->observer.fence = redlock_fence(hold->lease);
    if (hold->linger_is_short)
        cli_complain(
            "%s: the agent's max_ttl is less than the linger that was asked for: the lease lingers %" PRId64
            " ms",
            hold->options.name, hold->options.request.linger_ms);
    hold->linger_is_short = false;
    (void) time_text(time(NULL), since);
    (void) snprintf(hold->leading, sizeof(hold->leading), "leader since %s, token %" PRIu64, since,
                    redlock_fence(hold->lease));
    (void) strcpy(hold->status, hold->leading);
    if (notify_send(&hold->notify, "READY=1", hold->status))
        return true;
    cli_complain("%s: the service manager does not accept the message that this is ready",
                 hold->options.name);
    return false;
}

/* The led unit is killed when so little of the lease is left. */
static int64_t margin_ns(const struct hold *hold) {
    int64_t half_ns = grace_ns(hold) / 2;
    return half_ns < LEAVE_MARGIN_MS * NS_PER_MS ? half_ns : LEAVE_MARGIN_MS * NS_PER_MS;
}

/* When the led unit has stopped or ended, the lead goes on, and the status shows it. */
static void show_unit(struct hold *hold) {
    if (!hold->options.unit || hold->reason[0])
        return;
    if (cli_now_ns() < hold->led_ns + UNIT_STARTS_MS * NS_PER_MS ||
        unit_cgroup_is_populated(&hold->guard.cgroup))
        set_status(hold, "%s", hold->leading);
    else
        set_status(hold, "%s, %s does not run", hold->leading, hold->options.unit);
}

static void check_guard(struct hold *hold) {
    enum unit_guard_event event = unit_guard_dispatch(&hold->guard);

    if (event == UNIT_GUARD_QUIET || hold->lost)
        return;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s",
                    event == UNIT_GUARD_KILLED ? "this process was stopped until the lease was about to end"
                                               : "the guard, which would stop the unit in time, was killed");
}

/* Until the lease is lost, can't be kept, or a signal has come. */
static void lead(struct hold *hold) {
    run_hook(hold, hold->options.leader_hook);
    while (hold->signals.count == 0 && !hold->lost) {
        int64_t at_ns = act_ns(hold);
        unit_guard_set(&hold->guard, at_ns + grace_ns(hold) - margin_ns(hold));
        if (cli_now_ns() >= at_ns) {
            hold->lost = true;
            if (!hold->reason[0])
                (void) snprintf(hold->reason, sizeof(hold->reason), "%s",
                                redlock_error_text(hold->connection));
            break;
        }
        show_unit(hold);
        pump(hold, at_ns);
        check_guard(hold);
    }
    if (hold->lost && !redlock_valid(hold->lease))
        unit_guard_set(&hold->guard, 0); /* no time is left for stopping */
    if (hold->lost)
        cli_complain("%s: the lease %s%s%s", hold->options.name,
                     redlock_valid(hold->lease) ? "can't be kept" : "was lost", hold->reason[0] ? ": " : "",
                     hold->reason);
}

/* The service manager stops what is led once it has this message. If the agent comes back meanwhile, the end
 * of this process would release the lease: so after a loss this process stays until just before the
 * deadline. Returns until when. */
static int64_t announce_end(struct hold *hold, bool ends) {
    int64_t left_ns = redlock_remaining_ns(hold->lease) - margin_ns(hold);

    if (!ends)
        set_status(hold, "the lease was lost: %s", hold->reason);
    else if (notify_send(&hold->notify, "STOPPING=1", hold->lost ? "the lease was lost" : "releasing") &&
             hold->notify.fd >= 0 && hold->lost && left_ns > 0)
        return cli_now_ns() + left_ns;
    return 0;
}

/* One hook runs at a time: the leader's has half of the grace to end. After one more signal nothing is
 * awaited. */
static void step_down(struct hold *hold, bool ends) {
    int64_t stay_ns = announce_end(hold, ends), kill_ns = cli_now_ns() + grace_ns(hold) / 2;
    const char *next = hold->options.follower_hook;
    int stops = hold->signals.count;

    job_signal(&hold->hook, SIGTERM);
    while (hold->hook.pid != 0 || next || cli_now_ns() < stay_ns) {
        if (hold->hook.pid == 0 && next) {
            run_hook(hold, next);
            next = NULL;
            kill_ns = INT64_MAX;
        }
        if (cli_now_ns() >= kill_ns || hold->signals.count > stops) {
            job_signal(&hold->hook, SIGKILL);
            job_wait(&hold->hook);
            if (hold->signals.count > stops)
                break;
        }
        pump(hold, hold->hook.pid == 0 ? stay_ns : kill_ns);
    }
}

/* The service manager stops what is led before it stops this process, unless the unit's definition is gone:
 * then the guard ends it. */
static void release(struct hold *hold) {
    (void) unit_guard_end_unit(&hold->guard, END_UNIT_MS);
    if (!hold->lost)
        log_change(hold, "this host leads no more, token %" PRIu64, redlock_fence(hold->lease));
    if (hold->signals.count > 0) {
        /* If the agent does not answer, closing the connection releases the lease as well. */
        redlock_set_answer_timeout(hold->connection, RELEASE_TIMEOUT_MS);
        (void) redlock_release(hold->lease);
    } else {
        (void) redlock_release_async(hold->lease);
    }
    unit_guard_set(&hold->guard, INT64_MAX);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    hold->reason[0] = '\0';
    hold->reported_error = REDLOCK_OK;
}

static int stopped(struct hold *hold) {
    if (hold->granted)
        release(hold);
    (void) notify_send(&hold->notify, "STOPPING=1", NULL);
    return STATUS_DONE;
}

/* After failures of what this host leads, others lead first. */
static void pause_first(struct hold *hold) {
    int64_t until_ns = cli_now_ns() + hold->options.pause_ms * NS_PER_MS;
    const char *reason = getenv("REDLOCK_PAUSE_REASON");
    char until[64];

    if (hold->options.pause_ms <= 0)
        return;
    set_status(hold, "not asking for %s before %s%s%s", hold->options.name,
               time_text(time(NULL) + (time_t) (hold->options.pause_ms / 1000), until), reason ? ": " : "",
               reason ? reason : "");
    while (hold->signals.count == 0 && cli_now_ns() < until_ns)
        pump(hold, until_ns);
}

/* From one lead to the next, until a signal has come or the lease is lost. The exit status. */
static int hold_and_wait(struct hold *hold) {
    pause_first(hold);
    for (;;) {
        set_status(hold, "waiting for %s", hold->options.name);
        int status = wait_for_lease(hold);
        if (status != 0)
            return status;
        if (hold->signals.count > 0)
            return stopped(hold);
        if (!announce_lead(hold))
            return STATUS_SYSTEM;
        lead(hold);
        bool ends = hold->options.once || !hold->lost;
        step_down(hold, ends);
        if (ends && hold->lost) {
            (void) unit_guard_end_unit(&hold->guard, END_UNIT_MS);
            return STATUS_LOST;
        }
        if (hold->signals.count > 0)
            return stopped(hold);
        release(hold);
    }
}

static int run_hold(struct hold *hold) {
    int r = unit_guard_init(&hold->guard, hold->options.unit);

    if (r < 0) {
        cli_complain("%s: can't watch its control group: %s", hold->options.unit, strerror(-r));
        return STATUS_SYSTEM;
    }
    if (!notify_init(&hold->notify))
        cli_complain("NOTIFY_SOCKET is no socket that can be sent to: the service manager gets no messages");
    r = stop_signals_init(&hold->signals);
    if (r < 0) {
        cli_complain("can't watch signals: %s", strerror(-r));
        return STATUS_SYSTEM;
    }
    return hold_and_wait(hold);
}

int cli_hold(const struct cli *cli, int argc, char **argv) {
    struct hold hold = {.cli = cli, .signals.fd = -1, .notify.fd = -1};

    hold.observer.on_change = on_leader_change;
    hold.observer.userdata = &hold;
    int status = hold_options_read(&hold.options, argc, argv);
    if (status != 0)
        return status - 1;
    hold.longest_ns = hold.options.request.ttl_ms * NS_PER_MS;
    status = run_hold(&hold);
    redlock_close(hold.connection);
    unit_guard_deinit(&hold.guard);
    notify_deinit(&hold.notify);
    stop_signals_deinit(&hold.signals);
    return status;
}
