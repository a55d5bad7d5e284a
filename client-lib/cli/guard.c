#include "guard.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "command-tree.h"
#include "guard-channel.h"
#include "guard-lease.h"

enum {
    GRACE_MS_MAX = 5000,
    KILL_MARGIN_MS = 50, /* for the kernel to end a tree of processes on a loaded machine */
    KILL_MARGIN_MS_MAX = 1000,
    KILL_MARGIN_DIVISOR = 100, /* of the ttl */
    GO_TIMEOUT_MS = 500,       /* a relay that is stopped does not answer: the lease is released meanwhile */
};

struct guard {
    const struct run_options *run;
    int channel, signal_fd;
    struct guard_lease lease;
    struct command_tree tree;
    bool outcome_sent;     /* to the relay, while other processes of the tree run on */
    bool outcome_received; /* by the relay */
    bool has_reported_end; /* of --max-hold, which is no loss to report later */
    pid_t relay;
    bool relay_is_gone; /* the relay was killed before */
    int64_t grace_ns, kill_margin_ns;
};

/* --- acquiring --- */

/* True: GUARD_GO has come, behind signals that the relay passed on before it knew that the guard waits
 * again. False: not within the time (negative: without limit), or the relay is gone. */
static bool await_go(struct guard *guard, int timeout_ms) {
    struct pollfd fd = {.fd = guard->channel, .events = POLLIN};
    struct guard_channel_message message = {.word = GUARD_SIGNAL};

    while (message.word != GUARD_GO && !guard->relay_is_gone) {
        if (poll(&fd, 1, timeout_ms) <= 0)
            return false;
        guard->relay_is_gone = !guard_channel_receive(guard->channel, &message);
    }
    return !guard->relay_is_gone;
}

/* A relay that was stopped starts no command: the lease may have another holder by now. */
static bool may_start(struct guard *guard) {
    guard->relay_is_gone = !guard_channel_send(guard->channel, GUARD_GRANTED, 0);
    bool goes = await_go(guard, GO_TIMEOUT_MS);

    if (guard->relay_is_gone || (goes && redlock_remaining_ns(guard->lease.lease) > 0))
        return true;
    (void) redlock_release_async(guard->lease.lease);
    guard->lease.lease = NULL;
    if (goes || await_go(guard, -1))
        guard->relay_is_gone = !guard_channel_send(guard->channel, GUARD_WAITS_AGAIN, 0);
    return false;
}

/* True: held, and the command may start. False: the exit status, which may be 0 (--conflict-exit-code). */
static bool acquire(struct guard *guard, int *ret_status) {
    do
        guard->relay_is_gone = !guard_lease_ask(&guard->lease, guard->channel);
    while (guard->lease.error == REDLOCK_OK && !guard->relay_is_gone && !may_start(guard));
    if (guard->relay_is_gone) {
        /* No command has run: nothing has to linger, nor what may be granted at this moment. */
        if (guard->lease.lease)
            guard_lease_release(&guard->lease);
        *ret_status = STATUS_SYSTEM;
        return false;
    }
    if (guard->lease.error == REDLOCK_OK)
        return true;
    *ret_status = guard_lease_refused(&guard->lease);
    return false;
}

static void choose_times(struct guard *guard) {
    int64_t ttl_ms = redlock_remaining_ns(guard->lease.lease) / NS_PER_MS, grace_ms = guard->run->grace_ms;

    if (grace_ms < 0)
        grace_ms = ttl_ms / 4 < GRACE_MS_MAX ? ttl_ms / 4 : GRACE_MS_MAX;
    if (grace_ms > ttl_ms / 2)
        grace_ms = ttl_ms / 2; /* at most half of the ttl, of which a little has passed */
    int64_t margin_ms = ttl_ms / KILL_MARGIN_DIVISOR;
    if (margin_ms > KILL_MARGIN_MS_MAX)
        margin_ms = KILL_MARGIN_MS_MAX;
    if (margin_ms < KILL_MARGIN_MS)
        margin_ms = KILL_MARGIN_MS;
    guard->kill_margin_ns = (margin_ms < ttl_ms / 4 ? margin_ms : ttl_ms / 4) * NS_PER_MS;
    guard->grace_ns = grace_ms * NS_PER_MS;
}

/* --- the watch over the lease and the tree --- */

static void terminate(struct guard *guard, int64_t deadline_ns) {
    guard_lease_give_up(&guard->lease, deadline_ns);
    command_tree_terminate(&guard->tree);
    cli_complain("%s: %s%s: stopping the command", guard->run->name,
                 guard->lease.has_max_hold_ended ? "" : "the lease can't be kept: ", guard->lease.reason);
    guard->has_reported_end = guard->lease.has_max_hold_ended;
}

/* Ends the tree before the deadline, as the library knows it. False: the deadline has passed, even if
 * processes remain. True: check again at `ret_check_ns`. */
static bool enforce(struct guard *guard, int64_t *ret_check_ns) {
    struct guard_lease *lease = &guard->lease;
    int64_t at_ns = cli_now_ns(), deadline_ns = at_ns + redlock_remaining_ns(lease->lease);

    /* The command has got SIGTERM: an extension must not postpone the kill for ever. */
    if (lease->is_given_up && lease->given_up_ns < deadline_ns)
        deadline_ns = lease->given_up_ns;
    int64_t kill_ns = deadline_ns - guard->kill_margin_ns;
    int64_t terminate_ns =
        deadline_ns - (guard->grace_ns > guard->kill_margin_ns ? guard->grace_ns : guard->kill_margin_ns);

    if (lease->is_given_up && at_ns >= deadline_ns && command_tree_is_stubborn(&guard->tree))
        return false;
    if (at_ns >= kill_ns || lease->is_lost) {
        guard_lease_give_up(lease, deadline_ns);
        command_tree_begin_end(&guard->tree);
    } else if (at_ns >= terminate_ns && !lease->is_given_up) {
        terminate(guard, deadline_ns);
    }
    if (guard->relay_is_gone)
        command_tree_begin_end(&guard->tree);
    command_tree_kill_due(&guard->tree, lease->is_given_up ? "it goes on without the lease"
                                                           : "the lease is held until it ends");
    *ret_check_ns = guard->tree.ends ? guard->tree.pass_ns : lease->is_given_up ? kill_ns : terminate_ns;
    return true;
}

static void read_channel(struct guard *guard, short revents) {
    struct guard_channel_message message;

    if (!(revents & (POLLIN | POLLHUP | POLLERR)))
        return;
    if (!guard_channel_receive(guard->channel, &message)) {
        (void) close(guard->channel);
        guard->channel = -1;
        guard->relay_is_gone = !guard->outcome_received;
    } else if (message.word == GUARD_GO) {
        guard->outcome_received = true;
        (void) dup2(STDOUT_FILENO, STDERR_FILENO); /* /dev/null */
    } else if (message.word == GUARD_GROUP_SIGNAL) {
        command_tree_signal_strayed(&guard->tree, message.value);
    } else {
        command_tree_signal(&guard->tree, message.value);
    }
}

/* When the command has ended and other processes of its tree run on, the relay ends, and with it the job, as
 * under flock(1). The relay confirms the end: the signal that ended the command may have killed the relay as
 * well. False: the watch is over. */
static bool leave_relay(struct guard *guard) {
    if (guard->tree.job.pid != 0 || guard->outcome_sent || guard->lease.is_given_up || guard->relay_is_gone)
        return true;
    if (guard->run->leave_rest)
        return false;
    guard->outcome_sent = true;
    (void) guard_channel_send(guard->channel, GUARD_COMMAND_ENDED, guard->tree.job.wait_status);
    return true;
}

/* Until no process of the tree remains, or the lease has ended. */
static void watch(struct guard *guard) {
    struct signalfd_siginfo info;
    int64_t check_ns;

    while (enforce(guard, &check_ns)) {
        struct pollfd fds[] = {
            {.fd = guard->signal_fd, .events = POLLIN},
            {.fd = redlock_fd(guard->lease.connection), .events = POLLIN},
            {.fd = guard->channel, .events = POLLIN},
        };
        (void) cli_poll(fds, 3, check_ns);
        while (read(guard->signal_fd, &info, sizeof(info)) == sizeof(info))
            ;
        command_tree_reap(&guard->tree);
        if (guard->tree.is_over || !leave_relay(guard))
            return;
        read_channel(guard, fds[2].revents);
        (void) redlock_dispatch(guard->lease.connection);
    }
}

/* --- the process --- */

/* Ends the relay, and mutes the guard: its messages would appear after the shell's prompt. */
static void await_loss(struct guard *guard) {
    if (!guard->outcome_sent && guard->channel >= 0)
        (void) guard_channel_send(guard->channel, GUARD_ENDED, STATUS_LOST);
    guard->outcome_sent = true;
    (void) dup2(STDOUT_FILENO, STDERR_FILENO); /* /dev/null */
    guard_lease_await_loss(&guard->lease);
}

static void report_loss(const struct guard *guard) {
    const struct guard_lease *lease = &guard->lease;

    if (guard->has_reported_end)
        return;
    if (lease->has_max_hold_ended)
        cli_complain("%s: %s: stopping the command", guard->run->name, lease->reason);
    else
        cli_complain("%s: the lease was %s%s%s", guard->run->name,
                     guard_lease_is_extended(lease) ? "given up" : "lost", lease->reason[0] ? ": " : "",
                     lease->reason);
}

/* The exit status; -1: that of the command. */
static int run_command(struct guard *guard) {
    struct guard_lease *lease = &guard->lease;

    assert(lease->lease && lease->granted && lease->error == REDLOCK_OK);
    choose_times(guard);
    int status = command_tree_start(&guard->tree, guard->run, lease->lease);
    if (status != 0) {
        guard_lease_release(lease);
        return status;
    }
    watch(guard);
    if (lease->is_given_up) {
        report_loss(guard);
        command_tree_report_rest(&guard->tree, "it goes on without the lease");
        if (lease->at_risk)
            await_loss(guard);
    }
    if (!lease->is_given_up || guard->tree.is_over)
        guard_lease_release(lease);
    return lease->is_given_up ? STATUS_LOST : -1;
}

/* A stuck agent blocks these calls for seconds, in which the guard does not notice the relay's end. So the
 * kernel kills the guard with the relay: Ctrl-C ends both. No lease is requested yet. */
static int prepare(struct guard *guard) {
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard->relay)
        return STATUS_SYSTEM; /* for a parent that ended before, the kernel sends no signal */
    int status = guard_lease_connect(&guard->lease);
    if (status == 0)
        status = guard_lease_check_grace(&guard->lease);
    (void) prctl(PR_SET_PDEATHSIG, 0);
    return status;
}

static int guard_main(struct guard *guard) {
    int64_t begun_ns = cli_now_ns();

    int status = prepare(guard);
    if (status != 0 || !acquire(guard, &status))
        return status;
    cli_report("%s: acquired after %" PRId64 " ms, token %" PRIu64, guard->run->name,
               (cli_now_ns() - begun_ns) / NS_PER_MS, redlock_fence(guard->lease.lease));
    return run_command(guard);
}

void guard_run(const struct cli *cli, const struct run_options *run, int channel, pid_t relay) {
    struct guard guard = {.run = run,
                          .channel = channel,
                          .relay = relay,
                          .lease = {.cli = cli, .run = run, .options = run->request}};
    sigset_t child, all;

    cli_never_wait_for_reader();
    (void) prctl(PR_SET_NAME, CLI_GUARD_NAME);
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void) sigemptyset(&child);
    (void) sigaddset(&child, SIGCHLD);
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);
    (void) signal(SIGCHLD, SIG_DFL); /* ignored, SIGCHLD would hide how the command ends */
    guard.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int status = STATUS_SYSTEM;
    if (guard.signal_fd < 0)
        cli_complain("can't watch processes: %s", strerror(errno));
    else
        status = guard_main(&guard);
    redlock_close(guard.lease.connection);
    if (guard.outcome_sent || guard.channel < 0)
        return;
    if (status < 0)
        (void) guard_channel_send(guard.channel, GUARD_COMMAND_ENDED, guard.tree.job.wait_status);
    else
        (void) guard_channel_send(guard.channel, GUARD_ENDED, status);
}
