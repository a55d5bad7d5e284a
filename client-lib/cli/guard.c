#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"
#include "linger.h"
#include "process-tree.h"
#include "waiting.h"

enum {
    GRACE_MS_MAX = 5000,
    KILL_MARGIN_MS = 50,       /* for the kernel to end a tree of processes on a loaded machine */
    KILL_MARGIN_DIVISOR = 100, /* of the ttl */
    RELEASE_TIMEOUT_MS = 1000,
    ANSWER_TIMEOUT_MS = 10000, /* for a request that does not wait */
    GO_TIMEOUT_MS = 500,       /* a relay that is stopped gives no answer: then the lease goes back */
    LOSS_MARGIN_MS = 200,      /* for the agent to tell of a loss after the deadline */
    MAX_HOLD_NOTICE_MS = 500,  /* a deadline so close to the end of --max-hold is due to it */
    PASS_MS_MIN = 1,           /* between two looks for processes that are to end */
    PASS_MS_MAX = 200,
};

struct guard {
    const struct cli *cli;
    const struct run *run;
    int channel, signal_fd;
    struct redlock_options options;
    struct redlock *connection;
    struct redlock_lease *lease;
    bool granted;
    int error; /* with which the request failed; REDLOCK_OK: it has not */
    struct waiting waiting;

    struct job job;     /* the command */
    pid_t group;        /* of the job, where the command is */
    bool tree_is_over;  /* no descendant is left */
    bool outcome_sent;  /* to the relay, while others of the tree go on */
    bool outcome_known; /* and received by it */
    bool relay_is_gone; /* killed before */
    bool at_risk;       /* the last word of the agent: the nodes don't extend it */
    bool lost_told;     /* the agent said that the lease is over */
    bool terminated;    /* SIGTERM was sent: the lease ends soon */
    bool ends;          /* SIGKILL is sent until nothing is left */
    int64_t pass_ns, pass_ms;
    pid_t refused; /* the last process that was complained about */
    int64_t grace_ns, kill_margin_ns, max_hold_end_ns;
    char reason[320];
};

bool guard_send(int channel, enum guard_word word, int value) {
    const struct guard_message message = {.word = word, .value = value};

    return send(channel, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

bool guard_receive(int channel, struct guard_message *ret) {
    ssize_t n;

    do
        n = recv(channel, ret, sizeof(*ret), 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof(*ret);
}

/* --- the lease --- */

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct guard *) userdata)->granted = true;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct guard *guard = userdata;

    (void) lease;
    (void) text; /* redlock_error_text() has it */
    guard->lease = NULL;
    guard->error = error;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    struct guard *guard = userdata;

    (void) lease;
    (void) left_ms;
    guard->at_risk = strcmp(reason, "no-quorum") == 0;
    (void) snprintf(guard->reason, sizeof(guard->reason), "%s", reason);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    struct guard *guard = userdata;

    (void) lease;
    guard->at_risk = false;
    if (!guard->terminated)
        guard->reason[0] = '\0';
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct guard *guard = userdata;

    (void) lease;
    guard->lost_told = true;
    (void) snprintf(guard->reason, sizeof(guard->reason), "%s: %s", reason, text);
}

static void on_disconnected(struct redlock *connection, void *userdata) {
    struct guard *guard = userdata;

    guard->at_risk = false;
    (void) snprintf(guard->reason, sizeof(guard->reason), "%s", redlock_error_text(connection));
}

static void wait_for_grant(struct guard *guard, int64_t give_up_ns) {
    struct pollfd fds[] = {
        {.fd = guard->channel, .events = POLLIN},
        {.fd = redlock_fd(guard->connection), .events = POLLIN},
    };

    while (!guard->granted && guard->error == REDLOCK_OK && !guard->relay_is_gone) {
        int64_t until_ns = waiting_due_ns(&guard->waiting);
        until_ns = until_ns < give_up_ns ? until_ns : give_up_ns;
        (void) cli_poll(fds, 2, until_ns);
        int error = redlock_dispatch(guard->connection);
        if (error != REDLOCK_OK && guard->error == REDLOCK_OK)
            guard->error = error;
        else if (guard->error == REDLOCK_OK && !guard->granted && cli_now_ns() >= give_up_ns)
            guard->error = REDLOCK_NO_ANSWER;
        guard->relay_is_gone = (fds[0].revents & (POLLHUP | POLLERR)) != 0;
        waiting_look(&guard->waiting);
    }
    waiting_deinit(&guard->waiting);
}

static void ask(struct guard *guard) {
    int64_t wait_ms = guard->options.wait_ms;
    int64_t give_up_ns = wait_ms < 0 ? INT64_MAX : cli_now_ns() + (wait_ms + ANSWER_TIMEOUT_MS) * NS_PER_MS;

    guard->granted = guard->lost_told = false;
    waiting_init(&guard->waiting, guard->cli, guard->run->name, wait_ms != 0);
    guard->error =
        redlock_acquire_async(guard->connection, guard->run->name, &guard->options, &guard->lease);
    wait_for_grant(guard, give_up_ns);
}

/* A relay that is stopped does not start commands: then others are to have the lease meanwhile. */
static bool may_start(struct guard *guard) {
    struct pollfd fd = {.fd = guard->channel, .events = POLLIN};
    struct guard_message message;

    if (!guard_send(guard->channel, GUARD_GRANTED, 0))
        guard->relay_is_gone = true;
    else if (poll(&fd, 1, GO_TIMEOUT_MS) <= 0 || redlock_remaining_ns(guard->lease) == 0) {
        (void) redlock_release_async(guard->lease);
        guard->lease = NULL;
        guard->relay_is_gone = !guard_receive(guard->channel, &message);
        return false;
    } else
        guard->relay_is_gone = !guard_receive(guard->channel, &message);
    return true;
}

/* 0: held, and the command may start; else the exit status. */
static int acquire(struct guard *guard) {
    do {
        do
            ask(guard);
        while (guard->run->linger_may_shrink &&
               linger_shorten(&guard->options, guard->connection, guard->error));
    } while (guard->error == REDLOCK_OK && !guard->relay_is_gone && !may_start(guard));
    if (guard->relay_is_gone)
        return STATUS_SYSTEM;
    if (guard->error == REDLOCK_OK)
        return 0;
    int status = cli_failed(guard->connection, guard->error, guard->run->name);
    bool held = guard->error == REDLOCK_BUSY || guard->error == REDLOCK_TIMED_OUT;
    return held && guard->run->conflict_status >= 0 ? guard->run->conflict_status : status;
}

static int choose_times(struct guard *guard) {
    int64_t ttl_ms = redlock_remaining_ns(guard->lease) / NS_PER_MS, grace_ms = guard->run->grace_ms;

    if (grace_ms < 0)
        grace_ms = ttl_ms / 4 < GRACE_MS_MAX ? ttl_ms / 4 : GRACE_MS_MAX;
    if (grace_ms > ttl_ms / 2) {
        cli_complain("--grace is %" PRId64 " ms: expected at most half of the ttl, which leaves %" PRId64
                     " ms",
                     grace_ms, ttl_ms / 2);
        return STATUS_USAGE;
    }
    int64_t margin_ms =
        ttl_ms / KILL_MARGIN_DIVISOR > KILL_MARGIN_MS ? ttl_ms / KILL_MARGIN_DIVISOR : KILL_MARGIN_MS;
    guard->kill_margin_ns = (margin_ms < ttl_ms / 4 ? margin_ms : ttl_ms / 4) * NS_PER_MS;
    guard->grace_ns = grace_ms * NS_PER_MS;
    guard->max_hold_end_ns =
        guard->options.max_hold_ms > 0 ? cli_now_ns() + guard->options.max_hold_ms * NS_PER_MS : INT64_MAX;
    return 0;
}

/* --- the tree --- */

static void pass_on(struct guard *guard, int number) {
    (void) process_tree_signal(number, guard->group, NULL);
}

/* The terminal's signals for the job come to the guard too, blocked, while it is in the job's group: those
 * from before the command was there. */
static void pass_pending_on(struct guard *guard, const sigset_t *pending) {
    for (int number = 1; number < NSIG; number++)
        if (number != SIGCHLD && sigismember(pending, number) == 1)
            pass_on(guard, number);
}

static void take_pending(sigset_t *ret) {
    static const struct timespec none = {0};
    sigset_t all;

    (void) sigfillset(&all);
    (void) sigpending(ret);
    while (sigtimedwait(&all, NULL, &none) >= 0)
        ;
}

/* Whoever reads from the command reads until the command's end, not until ours. */
static void close_inherited(void) {
    const struct dirent *entry;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        (void) dup2(null, STDIN_FILENO);
        (void) dup2(null, STDOUT_FILENO);
    }
    DIR *descriptors = opendir("/proc/self/fd");
    while (descriptors && (entry = readdir(descriptors))) {
        int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFD);
        if (fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC))
            (void) close(fd);
    }
    if (descriptors)
        (void) closedir(descriptors);
}

static int start(struct guard *guard) {
    const struct run *run = guard->run;
    char *const shell[] = {(char *) "/bin/sh", (char *) "-c", run->shell_text, NULL};
    sigset_t early;

    guard->group = getpgrp();
    take_pending(&early);
    int status = job_start(&guard->job, run->shell_text ? shell : run->command, guard->lease, JOB_GROUP_LEFT,
                           &run->mask);
    if (status != 0)
        return status;
    pass_pending_on(guard, &early);
    close_inherited();
    return 0;
}

/* Takes note of each end. */
static void reap(struct guard *guard) {
    int wait_status;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
        if (pid == guard->job.pid) {
            guard->job.pid = 0;
            guard->job.wait_status = wait_status;
        }
    guard->tree_is_over = pid < 0 && errno == ECHILD;
}

static void complain_of_rest(struct guard *guard, const struct process_tree_rest *rest,
                             const char *consequence) {
    if (rest->pid == guard->refused)
        return;
    guard->refused = rest->pid;
    if (rest->error != 0)
        cli_complain(
            "%s: process %ld (%s) can't be ended: %s; %s. Run all of it as one user: sudo redlock run ...",
            guard->run->name, (long) rest->pid, rest->name, strerror(rest->error), consequence);
    else
        cli_complain("%s: process %ld (%s) has not ended yet; %s", guard->run->name, (long) rest->pid,
                     rest->name, consequence);
}

static void begin_end(struct guard *guard) {
    if (guard->ends)
        return;
    guard->ends = true;
    guard->pass_ns = 0;
    guard->pass_ms = PASS_MS_MIN;
}

/* One pass over the tree; often at first, since processes may be started meanwhile. */
static void end_pass(struct guard *guard) {
    struct process_tree_rest refused;

    if (cli_now_ns() < guard->pass_ns)
        return;
    (void) process_tree_signal(SIGKILL, 0, &refused);
    if (refused.pid != 0)
        complain_of_rest(guard, &refused,
                         guard->terminated ? "it goes on without the lease"
                                           : "the lease is held until it ends");
    guard->pass_ns = cli_now_ns() + guard->pass_ms * NS_PER_MS;
    guard->pass_ms = 2 * guard->pass_ms < PASS_MS_MAX ? 2 * guard->pass_ms : PASS_MS_MAX;
}

/* --- the watch over the lease and the tree --- */

static void choose_reason(struct guard *guard, int64_t deadline_ns) {
    const char *text = redlock_error_text(guard->connection);

    if (guard->reason[0])
        return;
    if (guard->max_hold_end_ns != INT64_MAX &&
        deadline_ns > guard->max_hold_end_ns - MAX_HOLD_NOTICE_MS * NS_PER_MS)
        (void) snprintf(guard->reason, sizeof(guard->reason), "max-hold: %" PRId64 " ms are over",
                        guard->options.max_hold_ms);
    else
        (void) snprintf(guard->reason, sizeof(guard->reason), "%s",
                        text[0] ? text : "the agent extends it no longer (max_hold, or it is stuck)");
}

static void terminate(struct guard *guard, int64_t deadline_ns) {
    guard->terminated = true;
    choose_reason(guard, deadline_ns);
    cli_complain("%s: the lease can't be kept: %s: stopping the command", guard->run->name, guard->reason);
    (void) process_tree_signal(SIGTERM, 0, NULL);
    (void) process_tree_signal(SIGCONT, 0, NULL);
}

/* Ends the tree in time, by what we know ourselves. False: the deadline has come, whatever is left; else
 * when to look again. */
static bool enforce(struct guard *guard, int64_t *ret_look_ns) {
    int64_t at_ns = cli_now_ns(), deadline_ns = at_ns + redlock_remaining_ns(guard->lease);
    int64_t kill_ns = deadline_ns - guard->kill_margin_ns, terminate_ns = deadline_ns - guard->grace_ns;

    if (guard->terminated && guard->ends && at_ns >= deadline_ns && guard->pass_ms == PASS_MS_MAX)
        return false;
    if (at_ns >= kill_ns || guard->lost_told) {
        guard->terminated = true;
        choose_reason(guard, deadline_ns);
        begin_end(guard);
    } else if (at_ns >= terminate_ns && !guard->terminated) {
        terminate(guard, deadline_ns);
    }
    if (guard->relay_is_gone)
        begin_end(guard);
    if (guard->ends)
        end_pass(guard);
    *ret_look_ns = guard->ends ? guard->pass_ns : guard->terminated ? kill_ns : terminate_ns;
    return true;
}

static void read_channel(struct guard *guard, short revents) {
    struct guard_message message;

    if (!(revents & (POLLIN | POLLHUP | POLLERR)))
        return;
    if (!guard_receive(guard->channel, &message)) {
        (void) close(guard->channel);
        guard->channel = -1;
        guard->relay_is_gone = !guard->outcome_known;
    } else if (message.word == GUARD_GO) {
        guard->outcome_known = true;
        (void) dup2(STDOUT_FILENO, STDERR_FILENO); /* /dev/null */
    } else {
        pass_on(guard, message.value);
    }
}

/* The command has ended, and others of its tree go on: the relay ends, and with it the job, as flock(1)
 * does. It confirms that, since what has ended the command may have killed the relay as well. */
static bool leave_relay(struct guard *guard) {
    if (guard->job.pid != 0 || guard->outcome_sent || guard->terminated || guard->relay_is_gone)
        return true;
    if (guard->run->leave_rest)
        return false;
    guard->outcome_sent = true;
    (void) guard_send(guard->channel, GUARD_COMMAND_ENDED, guard->job.wait_status);
    return true;
}

/* Until nothing of the tree is left, or the lease has ended. */
static void watch(struct guard *guard) {
    struct signalfd_siginfo info;
    int64_t look_ns;

    while (enforce(guard, &look_ns)) {
        struct pollfd fds[] = {
            {.fd = guard->signal_fd, .events = POLLIN},
            {.fd = redlock_fd(guard->connection), .events = POLLIN},
            {.fd = guard->channel, .events = POLLIN},
        };
        (void) cli_poll(fds, 3, look_ns);
        while (read(guard->signal_fd, &info, sizeof(info)) == sizeof(info))
            ;
        reap(guard);
        if (guard->tree_is_over || !leave_relay(guard))
            return;
        read_channel(guard, fds[2].revents);
        (void) redlock_dispatch(guard->connection);
    }
}

/* --- the process --- */

static void release(struct guard *guard) {
    if (guard->terminated) {
        (void) redlock_release_async(guard->lease);
    } else {
        /* Should the agent not answer, closing the connection releases as well, after the linger. */
        redlock_set_answer_timeout(guard->connection, RELEASE_TIMEOUT_MS);
        (void) redlock_release(guard->lease);
    }
    guard->lease = NULL;
}

static void complain_of_loss(struct guard *guard) {
    struct process_tree_rest rest;

    cli_complain("%s: the lease was lost%s%s", guard->run->name, guard->reason[0] ? ": " : "",
                 guard->reason);
    if (!guard->tree_is_over && process_tree_find_rest(&rest))
        complain_of_rest(guard, &rest, "it goes on without the lease");
}

/* Without a quorum a release changes nothing, and would hide the loss from the agent's log and counters: so
 * the guard stays until the agent has seen it, or extends the lease after all. The relay has ended by then.
 */
static void await_loss(struct guard *guard) {
    int64_t until_ns = cli_now_ns() + redlock_remaining_ns(guard->lease) + LOSS_MARGIN_MS * NS_PER_MS;
    struct pollfd fd = {.fd = redlock_fd(guard->connection), .events = POLLIN};

    if (!guard->outcome_sent && guard->channel >= 0)
        (void) guard_send(guard->channel, GUARD_ENDED, STATUS_LOST);
    guard->outcome_sent = true;
    (void) dup2(STDOUT_FILENO, STDERR_FILENO); /* /dev/null */
    while (guard->at_risk && !guard->lost_told && cli_now_ns() < until_ns) {
        (void) cli_poll(&fd, 1, until_ns);
        (void) redlock_dispatch(guard->connection);
    }
}

/* The exit status; -1: that of the command. */
static int run_command(struct guard *guard) {
    int status = choose_times(guard);
    if (status == 0)
        status = start(guard);
    if (status != 0) {
        release(guard);
        return status;
    }
    watch(guard);
    if (guard->terminated)
        complain_of_loss(guard);
    if (guard->terminated && guard->at_risk)
        await_loss(guard);
    if (!guard->terminated || guard->tree_is_over)
        release(guard);
    return guard->terminated ? STATUS_LOST : -1;
}

static int guard_main(struct guard *guard) {
    static const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                       .granted = on_granted,
                                                       .failed = on_failed,
                                                       .at_risk = on_at_risk,
                                                       .extended = on_extended,
                                                       .lost = on_lost,
                                                       .disconnected = on_disconnected};
    int64_t begun_ns = cli_now_ns();

    int status = cli_connect(guard->cli, &guard->connection);
    if (status != 0)
        return status;
    redlock_set_callbacks(guard->connection, &callbacks, guard);
    if (redlock_fd(guard->connection) < 0) {
        cli_complain("can't wait for the agent: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    status = acquire(guard);
    if (status != 0)
        return status;
    cli_report("%s: acquired after %" PRId64 " ms, token %" PRIu64, guard->run->name,
               (cli_now_ns() - begun_ns) / NS_PER_MS, redlock_fence(guard->lease));
    return run_command(guard);
}

void guard_run(const struct cli *cli, const struct run *run, int channel) {
    struct guard guard = {.cli = cli, .run = run, .channel = channel, .options = run->options};
    sigset_t child, all;

    (void) prctl(PR_SET_NAME, "redlock-guard");
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void) sigemptyset(&child);
    (void) sigaddset(&child, SIGCHLD);
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);
    (void) signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the command ends */
    guard.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int status = STATUS_SYSTEM;
    if (guard.signal_fd < 0)
        cli_complain("can't watch processes: %s", strerror(errno));
    else
        status = guard_main(&guard);
    redlock_close(guard.connection);
    if (guard.outcome_sent || guard.channel < 0)
        return;
    if (status < 0)
        (void) guard_send(guard.channel, GUARD_COMMAND_ENDED, guard.job.wait_status);
    else
        (void) guard_send(guard.channel, GUARD_ENDED, status);
}
