/* redlock acquire: a lease for a script, held by a process in the background as long as the script's process
 * lives. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "descriptors.h"
#include "options.h"
#include "waiting.h"

static const char usage[] =
    "redlock acquire --for PID [OPTION]... NAME\n"
    "Acquires the lease NAME, prints its id, its fencing token and the pid of a background process,\n"
    "which holds the lease until PID ends, or 'redlock release' ends the background process.\n"
    "In a shell script: redlock acquire --for $$ NAME || exit\n"
    "\n"
    "      --for PID        release the lease when this process ends\n"
    "  -n, --nonblock, --nb don't wait: exit with 1 if the name is held\n"
    "  -w, --wait, --timeout TIME\n"
    "                       wait no longer: exit with 124\n"
    "  -E, --conflict-exit-code N\n"
    "                       exit with N instead of 1 and 124\n"
    "  -t, --ttl TIME       the lease's ttl instead of the agent's default\n"
    "      --data TEXT      publish TEXT with the lease\n"
    "      --signal NAME    if the lease is lost, send this signal to PID: TERM, KILL, USR1, ...\n"
    "  -q, --quiet          no messages: the exit status alone\n";

struct acquire {
    struct redlock_options options;
    const char *name;
    pid_t pid;
    int pid_fd;
    int signal;
    int conflict_status; /* exit status when the name is held; -1: the usual ones */
    int stop_fd;         /* readable after CLI_RELEASE_SIGNAL, or a signal to the whole service */
    bool quiet, granted, lost;
    int error; /* of the request: an enum redlock_error */
};

static bool read_pid(const char *text, pid_t *ret) {
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value <= 0 || value > INT32_MAX) {
        cli_complain("--for %s: expected the number of a process, such as $$", text);
        return false;
    }
    *ret = (pid_t) value;
    return true;
}

static bool read_signal(const char *text, int *ret) {
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (int number = 1; number < NSIG; number++) {
        const char *name = sigabbrev_np(number);
        if (name && strcmp(name, text) == 0) {
            *ret = number;
            return true;
        }
    }
    cli_complain("--signal %s: expected the name of a signal, such as TERM", text);
    return false;
}

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct acquire *acquire, int argc, char **argv) {
    const char *pid = NULL, *signal_name = NULL;
    const struct options_row rows[] = {
        OPTIONS_ACQUIRE_ROWS(&acquire->options, &acquire->conflict_status, &acquire->quiet),
        {"for", 0, OPTIONS_TEXT, &pid},
        {"signal", 0, OPTIONS_TEXT, &signal_name},
    };

    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), true, usage, argc, argv);
    if (status != 0)
        return status;
    if ((pid && !read_pid(pid, &acquire->pid)) ||
        (signal_name && !read_signal(signal_name, &acquire->signal)))
        return 1 + STATUS_USAGE;
    acquire->options.data_length = acquire->options.data ? strlen(acquire->options.data) : 0;
    if (!options_end(argc, argv, 1))
        return 1 + STATUS_USAGE;
    if (acquire->pid == 0 || optind == argc) {
        cli_complain("acquire: expected --for PID and NAME; see 'redlock acquire --help'");
        return 1 + STATUS_USAGE;
    }
    acquire->name = argv[optind];
    return 0;
}

/* --- the background process --- */

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    ((struct acquire *) userdata)->granted = true;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    (void) lease;
    (void) text; /* redlock_error_text() has it */
    ((struct acquire *) userdata)->error = error;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) lease;
    (void) reason;
    (void) text;
    ((struct acquire *) userdata)->lost = true;
}

static bool is_undecided(const struct acquire *acquire) {
    return acquire->error == REDLOCK_OK && !acquire->granted;
}

/* True: the lease is held. False: the request failed with acquire->error; or nobody wants the lease any
 * more, since PID or the process in the foreground has ended, or a signal came. */
static bool wait_for_lease(const struct cli *cli, struct acquire *acquire, struct redlock *connection,
                           int outcome_fd, struct redlock_lease **ret) {
    int64_t wait_ms = acquire->options.wait_ms;
    int64_t give_up_ns = waiting_give_up_ns(wait_ms);
    struct pollfd fds[] = {{.fd = redlock_fd(connection), .events = POLLIN},
                           {.fd = acquire->pid_fd, .events = POLLIN},
                           {.fd = acquire->stop_fd, .events = POLLIN},
                           {.fd = outcome_fd}}; /* POLLERR: the reader has ended */
    struct waiting waiting;

    waiting_init(&waiting, cli, acquire->name, wait_ms != 0);
    acquire->error = redlock_acquire_async(connection, acquire->name, &acquire->options, ret);
    while (is_undecided(acquire)) {
        int64_t until_ns = waiting_due_ns(&waiting);
        (void) cli_poll(fds, 4, until_ns < give_up_ns ? until_ns : give_up_ns);
        int error = redlock_dispatch(connection);
        if (is_undecided(acquire))
            acquire->error = error == REDLOCK_OK && cli_now_ns() >= give_up_ns ? REDLOCK_NO_ANSWER : error;
        if (fds[1].revents || fds[2].revents || fds[3].revents)
            break;
        waiting_report_due(&waiting);
    }
    waiting_deinit(&waiting);
    if (acquire->granted && redlock_remaining_ns(*ret) == 0) {
        acquire->granted = false; /* this process was stopped until the lease had expired */
        acquire->error = REDLOCK_LOST;
    }
    return acquire->granted;
}

/* False: the signal is another one than CLI_RELEASE_SIGNAL. A service manager sends some to all processes of
 * a service or session, and PID may still be at work. */
static bool is_released(const struct acquire *acquire) {
    struct signalfd_siginfo info;

    return read(acquire->stop_fd, &info, sizeof(info)) != sizeof(info) ||
           info.ssi_signo == CLI_RELEASE_SIGNAL;
}

/* Holds until PID ends, CLI_RELEASE_SIGNAL comes or the lease ends. The library's own deadline counts: the
 * signal is sent also when the agent is dead. */
static void hold(struct acquire *acquire, struct redlock *connection, struct redlock_lease *lease) {
    struct pollfd fds[] = {{.fd = acquire->pid_fd, .events = POLLIN},
                           {.fd = redlock_fd(connection), .events = POLLIN},
                           {.fd = acquire->stop_fd, .events = POLLIN}};

    while (!acquire->lost) {
        (void) redlock_dispatch(connection);
        /* cppcheck-suppress knownConditionTrueFalse ; on_lost() sets it in redlock_dispatch() */
        if (acquire->lost)
            break;
        if (poll(fds, 3, -1) > 0 && (fds[0].revents || (fds[2].revents && is_released(acquire)))) {
            (void) redlock_release(lease);
            return;
        }
    }
    if (acquire->signal != 0)
        (void) syscall(SYS_pidfd_send_signal, acquire->pid_fd, acquire->signal, NULL, 0);
}

/* Leaves the terminal, and closes the caller's descriptors: the readers of a pipe would wait for this
 * process. Without /dev/null the signalfd takes the place of the standard ones, which also passes on
 * nothing. The library reconnects by a path that may be relative. */
static void detach(const struct cli *cli, const struct acquire *acquire) {
    int null = open("/dev/null", O_RDWR);

    for (int fd = 0; fd <= 2; fd++)
        (void) dup2(null >= 0 ? null : acquire->stop_fd, fd);
    if (null > 2)
        (void) close(null);
    descriptors_close_inherited();
    if (cli_socket_path(cli)[0] == '/' && chdir("/") < 0)
        return; /* harmless: the caller's directory only can't be unmounted */
}

/* From the background process to the foreground process. */
struct request_outcome {
    int status;
    pid_t pid;
    uint64_t id, fence;
};

/* 0 with the lease; or the exit status. */
static int acquire_lease(const struct cli *cli, struct acquire *acquire, int outcome_fd,
                         struct redlock **ret_connection, struct redlock_lease **ret) {
    static const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .granted = on_granted, .failed = on_failed, .lost = on_lost};
    static const int stops[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, CLI_RELEASE_SIGNAL};
    sigset_t stop;

    (void) signal(SIGCHLD, SIG_DFL); /* ignored, the pid of a child that has ended could be another's */
    (void) sigemptyset(&stop);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        (void) sigaddset(&stop, stops[i]);
    (void) sigprocmask(SIG_BLOCK, &stop, NULL);
    acquire->stop_fd = signalfd(-1, &stop, SFD_CLOEXEC);
    if (acquire->stop_fd < 0) {
        cli_complain("%s: can't wait for the end: signalfd: %s", acquire->name, strerror(errno));
        return STATUS_SYSTEM;
    }
    int status = cli_connect(cli, ret_connection);
    if (status != 0)
        return status;
    redlock_set_callbacks(*ret_connection, &callbacks, acquire);
    if (redlock_fd(*ret_connection) < 0) {
        cli_complain("%s: can't wait for the agent: %s", acquire->name, strerror(errno));
        return STATUS_SYSTEM;
    }
    if (wait_for_lease(cli, acquire, *ret_connection, outcome_fd, ret))
        return 0;
    *ret = NULL;
    if (acquire->error == REDLOCK_OK) {
        cli_complain("%s: stopped waiting: ended by a signal, or with the process that wanted the lease",
                     acquire->name);
        return STATUS_SYSTEM;
    }
    status = cli_failed(*ret_connection, acquire->error, acquire->name);
    if ((acquire->error == REDLOCK_BUSY || acquire->error == REDLOCK_TIMED_OUT) &&
        acquire->conflict_status >= 0)
        status = acquire->conflict_status;
    return status;
}

static int background(const struct cli *cli, struct acquire *acquire, int outcome_fd) {
    struct redlock *connection = NULL;
    struct redlock_lease *lease = NULL;
    struct request_outcome outcome = {.pid = getpid()};

    (void) prctl(PR_SET_NAME, CLI_HOLDER_NAME);
    outcome.status = acquire_lease(cli, acquire, outcome_fd, &connection, &lease);
    outcome.id = lease ? redlock_lease_id(lease) : 0;
    outcome.fence = lease ? redlock_fence(lease) : 0;
    ssize_t n = write(outcome_fd, &outcome, sizeof(outcome));
    (void) close(outcome_fd);
    if (lease && n == sizeof(outcome)) {
        detach(cli, acquire);
        hold(acquire, connection, lease);
    }
    redlock_close(connection);
    return STATUS_DONE;
}

/* --- the foreground process --- */

static int start(const struct cli *cli, struct acquire *acquire, struct request_outcome *ret) {
    int outcome_pipe[2];

    if (pipe2(outcome_pipe, O_CLOEXEC) < 0)
        return -errno;
    pid_t middle = fork();
    if (middle == 0) {
        /* A second fork: init becomes the parent, and the process can't get a terminal. */
        (void) setsid();
        pid_t inner = fork();
        if (inner != 0)
            _exit(inner < 0);
        (void) close(outcome_pipe[0]);
        _exit(background(cli, acquire, outcome_pipe[1]));
    }
    int error = errno;
    (void) close(outcome_pipe[1]);
    if (middle > 0)
        (void) waitpid(middle, NULL, 0);
    ssize_t n = middle < 0 ? -1 : read(outcome_pipe[0], ret, sizeof(*ret));
    (void) close(outcome_pipe[0]);
    if (middle < 0)
        return -error;
    return n == sizeof(*ret) ? 0 : -ECHILD;
}

int cli_acquire(const struct cli *cli, int argc, char **argv) {
    struct acquire acquire = {
        .options = {.size = sizeof(acquire.options), .wait_ms = -1}, .pid_fd = -1, .conflict_status = -1};
    struct request_outcome outcome = {0};

    int status = read_arguments(&acquire, argc, argv);
    if (status != 0)
        return status - 1;
    if (acquire.quiet)
        cli_be_quiet();
    /* Readers may end first: that of the output, and that of the background process. */
    (void) signal(SIGPIPE, SIG_IGN);
    acquire.pid_fd = (int) syscall(SYS_pidfd_open, acquire.pid, 0);
    if (acquire.pid_fd < 0) {
        bool is_usage = errno == ESRCH || errno == EINVAL;
        cli_complain("--for %ld: can't watch that process: %s", (long) acquire.pid, strerror(errno));
        return is_usage ? STATUS_USAGE : STATUS_SYSTEM;
    }
    if (acquire.signal != 0 && syscall(SYS_pidfd_send_signal, acquire.pid_fd, 0, NULL, 0) < 0 &&
        errno == EPERM) {
        cli_complain(
            "--signal: process %ld belongs to another user and can't be signalled: run the script and "
            "redlock as one user",
            (long) acquire.pid);
        return STATUS_DENIED;
    }
    int r = start(cli, &acquire, &outcome);
    if (r < 0) {
        cli_complain("%s: the background process ended without the lease: %s", acquire.name, strerror(-r));
        return STATUS_SYSTEM;
    }
    if (outcome.id == 0)
        return outcome.status;
    (void) printf("%llu %llu %ld\n", (unsigned long long) outcome.id, (unsigned long long) outcome.fence,
                  (long) outcome.pid);
    status = cli_flush(STATUS_DONE);
    if (status != STATUS_DONE)
        (void) kill(outcome.pid, CLI_RELEASE_SIGNAL); /* the caller has not got the pid */
    return status;
}
