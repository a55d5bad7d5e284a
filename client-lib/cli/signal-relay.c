#include "signal-relay.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "group-witness.h"
#include "guard-channel.h"
#include "process-tree.h"

/* timeout(1) signals its child and then the group: within SETTLE_MS both count as one signal. */
enum { SETTLE_MS = 10, PASS_MS = 5, COMPLAIN_MS = 1000 };

static const int relayed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

struct relay {
    int signal_fd, channel;
    const char *name;
    bool started;
    bool has_others; /* children that are not the guard's, as of a shell that has become this process */
    struct group_witness witness;
    sigset_t received;  /* since the start */
    sigset_t unsettled; /* not yet compared with the witness's */
    int64_t settle_ns;  /* when to compare; INT64_MAX: nothing to compare */
};

/* A signal that is ignored at the start, by nohup(1) or for a job in the background, stays ignored. */
int signal_relay_init(void) {
    struct sigaction old;
    sigset_t set;

    (void) sigemptyset(&set);
    for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
        if (sigaction(relayed[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void) sigaddset(&set, relayed[i]);
    (void) signal(SIGCHLD, SIG_DFL); /* ignored, SIGCHLD would free the pids of children that end */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

__attribute__((noreturn)) static void end_by(int number) {
    static const struct rlimit none = {0};
    sigset_t set;

    (void) setrlimit(RLIMIT_CORE, &none); /* only the command dumps core */
    (void) signal(number, SIG_DFL);
    (void) sigemptyset(&set);
    (void) sigaddset(&set, number);
    (void) raise(number);
    /* cppcheck-suppress unreachableCode ; raise() returns, as the signal is blocked until here */
    (void) sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + number);
}

static int end_like(const struct relay *relay, int wait_status) {
    if (!WIFSIGNALED(wait_status))
        return WEXITSTATUS(wait_status);
    int number = WTERMSIG(wait_status);
    if (number == SIGINT || sigismember(&relay->received, number) == 1)
        end_by(number);
    return 128 + number;
}

static void read_signals(struct relay *relay) {
    struct signalfd_siginfo info;

    while (read(relay->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        int number = (int) info.ssi_signo;
        if (!relay->started && number != SIGWINCH)
            end_by(number);
        (void) sigaddset(&relay->received, number);
        (void) sigaddset(&relay->unsettled, number);
        if (relay->settle_ns == INT64_MAX)
            relay->settle_ns = cli_now_ns() + SETTLE_MS * NS_PER_MS;
    }
}

/* The command has got the signals of the group already, unless it has left the group. */
static void pass_on(struct relay *relay) {
    sigset_t grouped;

    if (cli_now_ns() < relay->settle_ns)
        return;
    relay->settle_ns = INT64_MAX;
    group_witness_ask(&relay->witness, &grouped);
    for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
        if (sigismember(&relay->unsettled, relayed[i]) == 1)
            (void) guard_channel_send(
                relay->channel, sigismember(&grouped, relayed[i]) == 1 ? GUARD_GROUP_SIGNAL : GUARD_SIGNAL,
                relayed[i]);
    (void) sigemptyset(&relay->unsettled);
}

/* The guard was killed: its children are the relay's now, and the lease lingers. */
static int end_tree(struct relay *relay) {
    int64_t complain_ns = cli_now_ns() + COMPLAIN_MS * NS_PER_MS;
    struct process_tree_rest rest = {0};

    group_witness_deinit(&relay->witness);
    int reached = process_tree_signal(SIGKILL, 0, NULL);
    if (relay->started)
        cli_complain("%s: the guard process was killed: the command is stopped", relay->name);
    else
        cli_complain("%s: the guard process was killed while it waited for the lease", relay->name);
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 || (relay->has_others && reached == 0))
            return relay->started ? STATUS_LOST : STATUS_SYSTEM;
        if (cli_now_ns() >= complain_ns && !process_tree_is_known()) {
            if (!relay->started)
                return STATUS_SYSTEM;
            cli_complain("%s: without a usable /proc: what the command started may run on without the lease",
                         relay->name);
            return STATUS_LOST;
        }
        if (cli_now_ns() >= complain_ns && process_tree_find_rest(&rest)) {
            cli_complain("%s: process %ld (%s) can't be ended%s%s: it goes on without the lease",
                         relay->name, (long) rest.pid, rest.name, rest.error ? ": " : "",
                         rest.error ? strerror(rest.error) : "");
            return STATUS_LOST;
        }
        (void) poll(NULL, 0, PASS_MS);
        reached = process_tree_signal(SIGKILL, 0, NULL);
    }
}

/* The signals that came meanwhile end the relay, as they do while it waits. */
static void wait_again(struct relay *relay) {
    relay->started = false;
    relay->settle_ns = INT64_MAX;
    group_witness_deinit(&relay->witness);
    for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
        if (relayed[i] != SIGWINCH && sigismember(&relay->received, relayed[i]) == 1)
            end_by(relayed[i]);
    (void) sigemptyset(&relay->received);
    (void) sigemptyset(&relay->unsettled);
}

/* The lease is granted. In this order a signal either ends the relay here, before the command starts, or the
 * witness knows whether the group got it. The exit status; -1: the command runs. */
static int start(struct relay *relay) {
    group_witness_init(&relay->witness);
    read_signals(relay);
    if (!guard_channel_send(relay->channel, GUARD_GO, 0))
        return end_tree(relay);
    relay->started = true;
    return -1;
}

/* The exit status; -1: the command runs on. */
static int read_channel(struct relay *relay) {
    struct guard_channel_message message;

    if (!guard_channel_receive(relay->channel, &message))
        return end_tree(relay);
    switch (message.word) {
    case GUARD_GRANTED:
        return start(relay);
    case GUARD_WAITS_AGAIN:
        wait_again(relay);
        return -1;
    case GUARD_ENDED:
        return message.value;
    case GUARD_COMMAND_ENDED:
        read_signals(relay);
        group_witness_deinit(&relay->witness);
        (void) guard_channel_send(relay->channel, GUARD_GO, 0);
        return end_like(relay, message.value);
    case GUARD_GO:
    case GUARD_SIGNAL:
    case GUARD_GROUP_SIGNAL:
        break;
    }
    return -1;
}

int signal_relay_run(int signal_fd, int channel, const char *name, pid_t guard) {
    struct relay relay = {.signal_fd = signal_fd,
                          .channel = channel,
                          .name = name,
                          .has_others = process_tree_spare_all_but(guard),
                          .witness.fd = -1,
                          .settle_ns = INT64_MAX};
    int status = -1;

    (void) sigemptyset(&relay.received);
    (void) sigemptyset(&relay.unsettled);
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    cli_never_wait_for_reader();
    while (status < 0) {
        struct pollfd fds[] = {{.fd = channel, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
        (void) cli_poll(fds, 2, relay.settle_ns);
        read_signals(&relay);
        pass_on(&relay);
        if (fds[0].revents)
            status = read_channel(&relay);
    }
    group_witness_deinit(&relay.witness);
    return status;
}
