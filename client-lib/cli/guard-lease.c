#include "guard-lease.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "guard-channel.h"
#include "linger.h"
#include "listing.h"
#include "options.h"
#include "run-options.h"
#include "waiting.h"

enum {
    RELEASE_TIMEOUT_MS = 1000,
    LOSS_MARGIN_MS = 200,     /* for the agent to report a loss after the deadline */
    MAX_HOLD_NOTICE_MS = 500, /* a deadline this close to the end of --max-hold comes from it */
};

/* --- callbacks --- */

static void on_granted(struct redlock_lease *granted, void *userdata) {
    struct guard_lease *lease = userdata;

    (void) granted;
    lease->granted = true;
    lease->reason[0] = '\0'; /* of an agent that went away while the command waited */
}

static void on_failed(struct redlock_lease *failed, enum redlock_error error, const char *text,
                      void *userdata) {
    struct guard_lease *lease = userdata;

    (void) failed;
    (void) text; /* redlock_error_text() has it */
    lease->lease = NULL;
    lease->error = error;
}

static void on_at_risk(struct redlock_lease *risked, int64_t left_ms, const char *reason, void *userdata) {
    struct guard_lease *lease = userdata;

    (void) risked;
    (void) left_ms;
    lease->at_risk = strcmp(reason, "no-quorum") == 0;
    if (!lease->is_given_up)
        (void) snprintf(lease->reason, sizeof(lease->reason), "%s", reason);
}

static void on_extended(struct redlock_lease *extended, void *userdata) {
    struct guard_lease *lease = userdata;

    (void) extended;
    lease->at_risk = false;
    if (!lease->is_given_up)
        lease->reason[0] = '\0';
}

static void on_lost(struct redlock_lease *lost, const char *reason, const char *text, void *userdata) {
    struct guard_lease *lease = userdata;

    (void) lost;
    lease->is_lost = true;
    if (!lease->has_max_hold_ended) /* else the command is stopped for that */
        (void) snprintf(lease->reason, sizeof(lease->reason), "%s: %s", reason, text);
}

static void on_disconnected(struct redlock *connection, void *userdata) {
    struct guard_lease *lease = userdata;

    lease->at_risk = false;
    (void) snprintf(lease->reason, sizeof(lease->reason), "%s", redlock_error_text(connection));
}

int guard_lease_connect(struct guard_lease *lease) {
    static const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                       .granted = on_granted,
                                                       .failed = on_failed,
                                                       .at_risk = on_at_risk,
                                                       .extended = on_extended,
                                                       .lost = on_lost,
                                                       .disconnected = on_disconnected};

    int status = cli_connect(lease->cli, &lease->connection);
    if (status != 0)
        return status;
    redlock_set_callbacks(lease->connection, &callbacks, lease);
    if (redlock_fd(lease->connection) >= 0)
        return 0;
    cli_complain("can't wait for the agent: %s", strerror(errno));
    return STATUS_SYSTEM;
}

/* --- the ttl --- */

static void take_default_ttl(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) n_tokens;
    *(int64_t *) userdata = listing_integer(tokens, "default_ttl");
}

int guard_lease_check_grace(struct guard_lease *lease) {
    const char *name = lease->run->name;
    const char *const words[] = {"WHOAMI", name, NULL};

    if (lease->run->grace_ms < 0 || lease->options.ttl_ms > 0)
        return 0;
    int error =
        listing_request(lease->connection, words, LISTING_MAP, take_default_ttl, &lease->options.ttl_ms);
    if (error == REDLOCK_PROTOCOL || (error == REDLOCK_OK && lease->options.ttl_ms == 0))
        return 0; /* an agent before 0.4: the grace is at most half of what it grants */
    if (error != REDLOCK_OK)
        return cli_failed(lease->connection, error, name);
    return options_grace_fits(lease->run->grace_ms, "the ttl", lease->options.ttl_ms) ? 0 : STATUS_USAGE;
}

/* --- the request --- */

/* False: the process at the other end of the channel has ended. */
static bool wait_for_grant(struct guard_lease *lease, int channel, struct waiting *waiting,
                           int64_t give_up_ns) {
    struct pollfd fds[] = {
        {.fd = channel, .events = POLLIN},
        {.fd = redlock_fd(lease->connection), .events = POLLIN},
    };
    /* Signals for a command that was not started. The relay ends by them. */
    struct guard_channel_message ignored;

    while (!lease->granted && lease->error == REDLOCK_OK) {
        int64_t until_ns = waiting_due_ns(waiting);
        until_ns = until_ns < give_up_ns ? until_ns : give_up_ns;
        (void) cli_poll(fds, 2, until_ns);
        int error = redlock_dispatch(lease->connection);
        if (error != REDLOCK_OK && lease->error == REDLOCK_OK)
            lease->error = error;
        else if (lease->error == REDLOCK_OK && !lease->granted && cli_now_ns() >= give_up_ns)
            lease->error = REDLOCK_NO_ANSWER;
        if (fds[0].revents && !guard_channel_receive(channel, &ignored))
            return false;
        waiting_report_due(waiting);
    }
    return true;
}

/* --wait bounds all requests together: after Ctrl-Z and fg the guard asks again for the rest of the time. */
static bool ask_once(struct guard_lease *lease, int channel) {
    struct redlock_options options = lease->options;
    bool waits = options.wait_ms != 0;
    struct waiting waiting;

    lease->granted = lease->is_lost = lease->at_risk = false;
    lease->reason[0] = '\0';
    if (lease->asked_ns == 0)
        lease->asked_ns = cli_now_ns();
    if (options.wait_ms > 0) {
        options.wait_ms -= (cli_now_ns() - lease->asked_ns) / NS_PER_MS;
        if (options.wait_ms < 1) {
            lease->error = REDLOCK_TIMED_OUT;
            return true;
        }
    }
    int64_t give_up_ns = waiting_give_up_ns(options.wait_ms);
    waiting_init(&waiting, lease->cli, lease->run->name, waits);
    lease->error = redlock_acquire_async(lease->connection, lease->run->name, &options, &lease->lease);
    bool is_there = wait_for_grant(lease, channel, &waiting, give_up_ns);
    waiting_deinit(&waiting);
    return is_there;
}

bool guard_lease_ask(struct guard_lease *lease, int channel) {
    bool is_there;

    do
        is_there = ask_once(lease, channel);
    while (is_there && lease->run->linger_may_shrink &&
           linger_shorten(&lease->options, lease->connection, lease->error));
    lease->max_hold_end_ns =
        lease->options.max_hold_ms > 0 ? cli_now_ns() + lease->options.max_hold_ms * NS_PER_MS : INT64_MAX;
    return is_there;
}

/* The agent's text names an option of the protocol. */
static bool is_min_hold_refused(const struct guard_lease *lease, const char *text) {
    return lease->error == REDLOCK_BAD_ARGUMENT && lease->options.cooldown_ms > 0 &&
           strstr(text, "COOLDOWN");
}

int guard_lease_refused(const struct guard_lease *lease) {
    bool is_held = lease->error == REDLOCK_BUSY || lease->error == REDLOCK_TIMED_OUT;
    const char *text = redlock_error_text(lease->connection);

    if (is_min_hold_refused(lease, text)) {
        cli_complain(
            "%s: the command was not run: --min-hold is longer than this host's agent allows (%s). Use "
            "a shorter time, or raise max_ttl on all hosts, see redlockd.conf(5)",
            lease->run->name, text);
        return STATUS_USAGE;
    }
    int status = cli_failed(lease->connection, lease->error, lease->run->name);

    return is_held && lease->run->conflict_status >= 0 ? lease->run->conflict_status : status;
}

/* --- the end --- */

void guard_lease_give_up(struct guard_lease *lease, int64_t deadline_ns) {
    bool is_bounded = lease->max_hold_end_ns != INT64_MAX &&
                      deadline_ns > lease->max_hold_end_ns - MAX_HOLD_NOTICE_MS * NS_PER_MS;

    if (lease->is_given_up)
        return;
    lease->is_given_up = true;
    lease->given_up_ns = deadline_ns;
    lease->has_max_hold_ended =
        strncmp(lease->reason, "max-hold", strlen("max-hold")) == 0 || (!lease->reason[0] && is_bounded);
    if (lease->has_max_hold_ended && is_bounded)
        (void) snprintf(lease->reason, sizeof(lease->reason),
                        "held for %" PRId64 " ms, as long as --max-hold allows", lease->options.max_hold_ms);
    else if (lease->has_max_hold_ended)
        (void) strcpy(lease->reason, "held for as long as the agent's max_hold allows");
    else if (!lease->reason[0])
        (void) strcpy(lease->reason, CLI_NOT_EXTENDED);
}

/* Two readings of the clock make the deadline a little later now and then. */
bool guard_lease_is_extended(const struct guard_lease *lease) {
    return lease->is_given_up && !lease->is_lost &&
           cli_now_ns() + redlock_remaining_ns(lease->lease) > lease->given_up_ns + NS_PER_MS;
}

void guard_lease_release(struct guard_lease *lease) {
    if (lease->is_given_up && !guard_lease_is_extended(lease)) {
        (void) redlock_release_async(lease->lease);
    } else {
        /* If the agent does not answer, closing the connection releases the lease as well, after the
         * linger. */
        redlock_set_answer_timeout(lease->connection, RELEASE_TIMEOUT_MS);
        (void) redlock_release(lease->lease);
    }
    lease->lease = NULL;
}

void guard_lease_await_loss(struct guard_lease *lease) {
    int64_t until_ns = cli_now_ns() + redlock_remaining_ns(lease->lease) + LOSS_MARGIN_MS * NS_PER_MS;
    struct pollfd fd = {.fd = redlock_fd(lease->connection), .events = POLLIN};

    while (lease->at_risk && !lease->is_lost && cli_now_ns() < until_ns) {
        (void) cli_poll(&fd, 1, until_ns);
        (void) redlock_dispatch(lease->connection);
    }
}
