#include "hold-lead.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "hold-internal.h"

enum {
    LEAVE_MARGIN_MS = 100, /* the end of the grace, for killing processes that have not stopped */
    UNIT_STARTS_MS = 5000, /* so long a led unit may be starting */
};

static void run_hook(struct hold *hold, const char *name, const char *text) {
    char *const shell[] = {(char *) "/bin/sh", (char *) "-c", (char *) text, NULL};

    hold->hook_name = name;
    hold->hook_was_ended = false;
    if (text)
        (void) job_start(&hold->hook, shell, hold->lease, hold->lease_id, JOB_GROUP_OWN, NULL);
}

bool hold_lead_announce(struct hold *hold) {
    char since[64];

    hold->led_ns = cli_now_ns();
    hold->lease_id = redlock_lease_id(hold->lease);
    hold_log_change(hold, JOURNAL_LEAD_BEGUN, "this host leads", redlock_fence(hold->lease));
    hold->observer.fence = redlock_fence(hold->lease);
    if (hold->linger_is_short)
        cli_complain("%s: the agent's max_ttl is less than the requested linger: the lease lingers %" PRId64
                     " ms",
                     hold->options.name, hold->options.request.linger_ms);
    hold->linger_is_short = false;
    (void) hold_time_text(time(NULL), since);
    (void) snprintf(hold->leading, sizeof(hold->leading), "leader since %s, token %" PRIu64, since,
                    redlock_fence(hold->lease));
    (void) snprintf(hold->status, sizeof(hold->status), "%s", hold->leading);
    if (notify_send(&hold->notify, "READY=1", hold->status))
        return true;
    cli_complain("%s: the service manager does not accept the message that this is ready",
                 hold->options.name);
    hold_release_last(hold); /* nothing is led yet: nothing has to linger */
    return false;
}

/* The led unit is killed when so little of the lease is left. */
static int64_t margin_ns(const struct hold *hold) {
    int64_t half_ns = hold_grace_ns(hold) / 2;
    return half_ns < LEAVE_MARGIN_MS * NS_PER_MS ? half_ns : LEAVE_MARGIN_MS * NS_PER_MS;
}

/* When the led unit has stopped or ended, the lead goes on, and the status shows it. */
static void show_unit(struct hold *hold) {
    if (!hold->options.unit || hold->reason[0])
        return;
    if (cli_now_ns() < hold->led_ns + UNIT_STARTS_MS * NS_PER_MS ||
        unit_cgroup_is_populated(&hold->guard.cgroup))
        hold_set_status(hold, "%s", hold->leading);
    else
        hold_set_status(hold, "%s, %s does not run", hold->leading, hold->options.unit);
}

static void check_guard(struct hold *hold) {
    if (hold->guard_event == UNIT_GUARD_QUIET || hold->lost)
        return;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s",
                    hold->guard_event == UNIT_GUARD_KILLED
                        ? "this process was stopped until too little of the lease was left"
                        : "the guard, which would stop the unit in time, was killed");
}

static void log_end(const struct hold *hold) {
    hold_log_change(hold, JOURNAL_LEAD_ENDED, "this host no longer leads", redlock_fence(hold->lease));
}

void hold_lead(struct hold *hold) {
    hold->guard_event = UNIT_GUARD_QUIET; /* an earlier event concerned an earlier lead */
    run_hook(hold, "leader", hold->options.leader_hook);
    while (hold->signals.count == 0 && !hold->lost) {
        int64_t at_ns = hold_act_ns(hold);
        unit_guard_set(&hold->guard, at_ns + hold_grace_ns(hold) - margin_ns(hold));
        if (cli_now_ns() >= at_ns) {
            hold->lost = true;
            if (!hold->reason[0])
                (void) strcpy(hold->reason, CLI_NOT_EXTENDED);
            break;
        }
        show_unit(hold);
        hold_pump(hold, at_ns);
        check_guard(hold);
    }
    if (hold->lost && !redlock_valid(hold->lease))
        unit_guard_set(&hold->guard, 0); /* no time is left for stopping */
    if (!hold->lost)
        return;
    cli_complain("%s: the lease %s%s%s", hold->options.name,
                 redlock_valid(hold->lease) ? "can't be kept" : "was lost", hold->reason[0] ? ": " : "",
                 hold->reason);
    log_end(hold);
}

/* On this message the service manager stops the led service. If the agent returns meanwhile, the end of this
 * process would release the lease: so after a loss this process stays until just before the deadline.
 * Returns that instant. */
static int64_t announce_end(struct hold *hold, bool ends) {
    int64_t left_ns = redlock_remaining_ns(hold->lease) - margin_ns(hold);

    if (!ends)
        hold_set_status(hold, "the lease was lost: %s", hold->reason);
    else if (notify_send(&hold->notify, "STOPPING=1", hold->lost ? "the lease was lost" : "releasing") &&
             hold->notify.fd >= 0 && hold->lost && left_ns > 0)
        return cli_now_ns() + left_ns;
    return 0;
}

void hold_lead_step_down(struct hold *hold, bool ends) {
    int64_t stay_ns = announce_end(hold, ends), kill_ns = cli_now_ns() + hold_grace_ns(hold) / 2;
    const char *next = hold->options.follower_hook;
    /* A second signal kills the running hook. After a loss no signal has come yet. */
    int stops = hold->signals.count > 0 ? hold->signals.count : 1;

    job_signal(&hold->hook, SIGTERM);
    hold->hook_was_ended = true;
    while (hold->hook.pid != 0 || next || cli_now_ns() < stay_ns) {
        if (hold->hook.pid == 0 && next) {
            run_hook(hold, "follower", next);
            next = NULL;
            kill_ns = INT64_MAX;
        }
        if (cli_now_ns() >= kill_ns || hold->signals.count > stops) {
            bool is_impatient = hold->signals.count > stops;
            job_signal(&hold->hook, SIGKILL);
            job_wait(&hold->hook);
            if (is_impatient && !next)
                break;
            if (is_impatient)
                stops = hold->signals.count;
            if (next) /* it undoes what the leader's hook has done: it runs in any case */
                continue;
        }
        hold_pump(hold, hold->hook.pid == 0 ? stay_ns : kill_ns);
    }
}

void hold_lead_give_up(struct hold *hold) {
    bool is_empty = unit_guard_end_unit(&hold->guard, HOLD_END_UNIT_MS);

    /* Extended after all, the lease would linger for nothing. Otherwise it ends as a loss, which a release
     * would hide; and without a service manager and hooks the led service stops only now. */
    if (is_empty && redlock_remaining_ns(hold->lease) > hold_grace_ns(hold))
        hold_release_last(hold);
}

void hold_lead_end(struct hold *hold) {
    (void) unit_guard_end_unit(&hold->guard, HOLD_END_UNIT_MS);
    if (!hold->lost)
        log_end(hold);
    if (hold->signals.count > 0)
        hold_release_last(hold);
    else
        (void) redlock_release_async(hold->lease);
    unit_guard_set(&hold->guard, INT64_MAX);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    hold->reason[0] = '\0';
    hold->reported_error = REDLOCK_OK;
}
