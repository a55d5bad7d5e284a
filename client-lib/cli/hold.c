/* redlock hold: leader election for its caller: a service manager, a script, or its own hooks. Waits for the
 * lease as long as it takes, holds the lease until a signal, and steps down so early before the deadline
 * that the led service can stop in time. */

#include "hold-internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "hold-lead.h"
#include "hold-wait.h"

enum { GRACE_MS_MIN = 100, RELEASE_TIMEOUT_MS = 1000 };

/* --- status and journal --- */

void hold_set_status(struct hold *hold, const char *format, ...) {
    char text[sizeof(hold->status)];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (strcmp(text, hold->status) == 0)
        return;
    (void) snprintf(hold->status, sizeof(hold->status), "%s", text);
    (void) notify_send(&hold->notify, NULL, text);
}

void hold_log_change(const struct hold *hold, enum journal_event event, const char *what, uint64_t fence) {
    char line[1024];

    if (hold->notify.fd < 0)
        return;
    (void) snprintf(line, sizeof(line), "%s: %s, token %" PRIu64, hold->options.name, what, fence);
    if (!journal_send(event, hold->options.name, fence, line))
        cli_complain("%s", line);
}

const char *hold_time_text(time_t seconds, char buffer[64]) {
    struct tm parts;

    buffer[0] = '\0';
    if (localtime_r(&seconds, &parts))
        (void) strftime(buffer, 64, "%F %T %Z", &parts);
    return buffer;
}

/* --- events --- */

static void read_signals(struct hold *hold) {
    stop_signals_read(&hold->signals);
    if (!job_reap(&hold->hook) || job_status(&hold->hook) == 0)
        return;
    if (hold->hook_was_ended && job_status(&hold->hook) == 128 + SIGTERM)
        return;
    cli_complain("%s: the hook of --exec-%s failed: exit status %d", hold->options.name, hold->hook_name,
                 job_status(&hold->hook));
}

/* The service manager kills a process that hangs, which would not stop the led service in time. */
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

void hold_pump(struct hold *hold, int64_t until_ns) {
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
    enum unit_guard_event event = unit_guard_dispatch(&hold->guard);
    if (event != UNIT_GUARD_QUIET)
        hold->guard_event = event;
}

/* --- time --- */

int64_t hold_grace_ns(const struct hold *hold) {
    int64_t ns = hold->options.grace_ms < 0 ? hold->longest_ns / 4 : hold->options.grace_ms * NS_PER_MS;
    if (ns < GRACE_MS_MIN * NS_PER_MS)
        ns = GRACE_MS_MIN * NS_PER_MS; /* what is led ends before the lease */
    return ns < hold->longest_ns / 2 ? ns : hold->longest_ns / 2;
}

int64_t hold_act_ns(struct hold *hold) {
    int64_t at_ns = cli_now_ns(), left_ns = redlock_remaining_ns(hold->lease);

    if (left_ns > hold->longest_ns)
        hold->longest_ns = left_ns;
    return at_ns + left_ns - hold_grace_ns(hold);
}

/* --- from lead to lead --- */

void hold_release_last(struct hold *hold) {
    redlock_set_answer_timeout(hold->connection, RELEASE_TIMEOUT_MS);
    (void) redlock_release(hold->lease);
    hold->lease = NULL;
}

static int stopped(struct hold *hold) {
    if (hold->granted)
        hold_lead_end(hold);
    (void) notify_send(&hold->notify, "STOPPING=1", NULL);
    return STATUS_DONE;
}

/* After failures of the led service here, other hosts lead first. */
static void pause_first(struct hold *hold) {
    int64_t until_ns = cli_now_ns() + hold->options.pause_ms * NS_PER_MS;
    const char *reason = getenv("REDLOCK_PAUSE_REASON");
    char until[64];

    if (hold->options.pause_ms <= 0)
        return;
    hold_set_status(hold, "not asking for %s before %s%s%s", hold->options.name,
                    hold_time_text(time(NULL) + (time_t) (hold->options.pause_ms / 1000), until),
                    reason ? ": " : "", reason ? reason : "");
    while (hold->signals.count == 0 && cli_now_ns() < until_ns)
        hold_pump(hold, until_ns);
}

/* From one lead to the next, until a signal arrives or the lease is lost. The exit status. */
static int hold_and_wait(struct hold *hold) {
    pause_first(hold);
    for (;;) {
        hold_set_status(hold, "waiting for %s", hold->options.name);
        int status = hold_wait(hold);
        if (status != 0)
            return status;
        if (hold->signals.count > 0)
            return stopped(hold);
        if (!hold_lead_announce(hold))
            return STATUS_SYSTEM;
        hold_lead(hold);
        bool ends = hold->options.once || !hold->lost;
        hold_lead_step_down(hold, ends);
        if (ends && hold->lost) {
            hold_lead_give_up(hold);
            return STATUS_LOST;
        }
        if (hold->signals.count > 0)
            return stopped(hold);
        hold_lead_end(hold);
    }
}

static int run_hold(struct hold *hold) {
    cli_never_wait_for_reader();
    int r = unit_guard_init(&hold->guard, hold->options.unit);

    if (r < 0) {
        cli_complain("%s: can't watch its control group: %s", hold->options.unit, strerror(-r));
        return STATUS_SYSTEM;
    }
    if (!notify_init(&hold->notify))
        cli_complain("NOTIFY_SOCKET can't be used: the service manager gets no messages");
    (void) journal_open();
    r = stop_signals_init(&hold->signals);
    if (r < 0) {
        cli_complain("can't watch signals: %s", strerror(-r));
        return STATUS_SYSTEM;
    }
    return hold_and_wait(hold);
}

int cli_hold(const struct cli *cli, int argc, char **argv) {
    struct hold hold = {.cli = cli, .signals.fd = -1, .notify.fd = -1};

    int status = hold_options_read(&hold.options, argc, argv);
    if (status != 0)
        return status - 1;
    hold.longest_ns = hold.options.request.ttl_ms * NS_PER_MS;
    status = run_hold(&hold);
    redlock_close(hold.connection);
    unit_guard_deinit(&hold.guard);
    notify_deinit(&hold.notify);
    journal_close();
    stop_signals_deinit(&hold.signals);
    return status;
}
