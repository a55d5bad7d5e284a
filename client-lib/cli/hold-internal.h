/* What the files of `redlock hold` share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "hold-options.h"
#include "job.h"
#include "journal.h"
#include "leader-observer.h"
#include "notify.h"
#include "stop-signals.h"
#include "unit-guard.h"

enum {
    HOLD_RETRY_MS = 500,     /* after a temporary failure */
    HOLD_END_UNIT_MS = 5000, /* for killed processes to end, before a release */
};

struct hold {
    const struct cli *cli;
    struct hold_options options;
    struct unit_guard guard;
    enum unit_guard_event guard_event; /* the last one */
    struct notify notify;
    int64_t ping_ns; /* when the watchdog's next ping is due */
    struct stop_signals signals;
    struct redlock *connection;
    struct leader_observer observer;
    struct redlock_lease *lease; /* requested or held */
    uint64_t lease_id;           /* as granted, for the hooks */
    bool granted, lost;
    bool linger_is_short; /* shorter than requested, and not yet reported */
    int error;            /* of the failed request; REDLOCK_OK: none */
    int reported_error;   /* the last error that was reported */
    bool away_reported;   /* that no agent answers */
    int64_t longest_ns;   /* the most validity so far: about the ttl */
    struct job hook;
    const char *hook_name; /* the hook that runs, for messages */
    bool hook_was_ended;   /* this process has sent it SIGTERM */
    char reason[320];      /* of the risk or the loss */
    char leading[128];     /* the status while this host leads */
    int64_t led_ns;        /* when the lead began */
    char status[512];      /* the last one sent to the service manager */
};

/* The service manager gets each status once. */
void hold_set_status(struct hold *hold, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line in the journal for each change of leader: what happened, and the fencing token. Nothing is printed
 * when no service manager started this. */
void hold_log_change(const struct hold *hold, enum journal_event event, const char *what, uint64_t fence);

/* Local time; "" if it is not known. */
const char *hold_time_text(time_t seconds, char buffer[64]);

/* Waits for an event, or until `until_ns`, and handles the events. */
void hold_pump(struct hold *hold, int64_t until_ns);

/* Releases the lease, or withdraws the request, whose grant may be under way, before this process ends. If
 * the agent does not answer, closing the connection releases the lease as well, after the linger. An older
 * agent may notice the end of this process before it reads the request: so the answer is awaited. */
void hold_release_last(struct hold *hold);

/* How long before the deadline this host steps down. */
int64_t hold_grace_ns(const struct hold *hold);

/* When to act as if the lease were lost, unless it is extended before. */
int64_t hold_act_ns(struct hold *hold);
