/* redlock run: a command under a lease. Whatever becomes of the agent, the command ends before the lease
 * does. */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "job.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static const char usage[] =
    "redlock run [OPTION]... NAME -- COMMAND [ARGUMENT]...\n"
    "redlock run [OPTION]... NAME -c 'SHELL TEXT'\n"
    "Runs COMMAND while holding the lease NAME; waits for it first, as long as it takes.\n"
    "\n"
    "  -n, --nonblock       don't wait: exit with 1 if the name is held\n"
    "  -w, --wait TIME      wait no longer: exit with 124\n"
    "  -t, --ttl TIME       the lease's ttl instead of the agent's default\n"
    "  -E, --conflict-exit-code N   exit with N instead of 1\n"
    "      --grace TIME     when the lease can't be kept: SIGTERM this long before it ends (a quarter of "
    "the ttl, at most\n"
    "                       5s; at most half of it), SIGKILL just before it ends\n"
    "      --data TEXT      publish TEXT with the lease ('redlock leader' shows it)\n"
    "      --max-hold TIME  hold no longer than this\n"
    "  -c, --command TEXT   run TEXT with /bin/sh -c\n"
    "\n"
    "TIME is a number of seconds, or has a unit: 500ms, 10s, 2m, 1h. COMMAND finds REDLOCK_NAME, "
    "REDLOCK_ID and\n"
    "REDLOCK_FENCE in its environment, runs in a process group of its own, gets our signals, and is waited "
    "for before the "
    "lease is\n"
    "released. Exit status: COMMAND's own, or as 'redlock --help' says; 125 if the lease was lost.\n";

enum { GRACE_MS_MAX = 5000, KILL_MARGIN_MS = 20, KILL_MARGIN_DIVISOR = 100, RELEASE_TIMEOUT_MS = 1000 };

struct run {
    struct redlock_options options;
    const char *name;
    char **command;
    char *shell_text;
    int conflict_status;
    int64_t grace_ms; /* -1: chosen by the ttl */
    struct redlock *connection;
    struct redlock_lease *lease;
    struct job job;
    int signal_fd;
    int64_t kill_margin_ns;
    bool lost_told;  /* the agent said that the lease is over */
    bool terminated; /* SIGTERM was sent: the lease ends soon */
    char reason[320];
};

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- arguments --- */

static bool read_duration(const char *option, const char *text, int64_t *ret) {
    if (cli_duration_ms(text, ret))
        return true;
    cli_complain("%s %s: expected a time such as 500ms, 10s or 2m", option, text);
    return false;
}

static bool read_status(const char *text, int *ret) {
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 0 || value > 255) {
        cli_complain("-E %s: expected an exit status from 0 to 255", text);
        return false;
    }
    *ret = (int) value;
    return true;
}

static bool read_option(struct run *run, int option) {
    switch (option) {
    case 'n':
        run->options.wait_ms = 0;
        return true;
    case 'w':
        return read_duration("--wait", optarg, &run->options.wait_ms);
    case 't':
        return read_duration("--ttl", optarg, &run->options.ttl_ms);
    case 'E':
        return read_status(optarg, &run->conflict_status);
    case 'g':
        return read_duration("--grace", optarg, &run->grace_ms);
    case 'm':
        return read_duration("--max-hold", optarg, &run->options.max_hold_ms);
    case 'd':
        run->options.data = optarg;
        run->options.data_length = strlen(optarg);
        return true;
    case 'c':
        run->shell_text = optarg;
        return true;
    default:
        return false;
    }
}

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct run *run, int argc, char **argv) {
    static const struct option known[] = {
        {"nonblock", no_argument, NULL, 'n'},       {"wait", required_argument, NULL, 'w'},
        {"ttl", required_argument, NULL, 't'},      {"conflict-exit-code", required_argument, NULL, 'E'},
        {"grace", required_argument, NULL, 'g'},    {"data", required_argument, NULL, 'd'},
        {"max-hold", required_argument, NULL, 'm'}, {"command", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},           {0},
    };
    int option;

    /* "+": the options end at NAME. */
    while ((option = cli_option(argc, argv, "+:nw:t:E:c:", known)) >= 0) {
        if (option == 'h') {
            (void) fputs(usage, stdout);
            return 1 + STATUS_DONE;
        }
        if (!read_option(run, option))
            return 1 + STATUS_USAGE;
    }
    if (optind < argc)
        run->name = argv[optind++];
    if (optind + 1 < argc && (strcmp(argv[optind], "-c") == 0 || strcmp(argv[optind], "--command") == 0)) {
        run->shell_text = argv[optind + 1];
        optind += 2;
    } else if (optind < argc && strcmp(argv[optind], "--") == 0) {
        optind++;
    }
    run->command = argv + optind;
    if (!run->name || (run->shell_text != NULL) == (optind < argc)) {
        cli_complain("expected NAME and a command; 'redlock run --help' tells more");
        return 1 + STATUS_USAGE;
    }
    return 0;
}

/* --- the watch over the command --- */

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct run *run = userdata;

    (void) lease;
    run->lost_told = true;
    (void) snprintf(run->reason, sizeof(run->reason), "%s: %s", reason, text);
}

static void on_disconnected(struct redlock *connection, void *userdata) {
    struct run *run = userdata;

    (void) snprintf(run->reason, sizeof(run->reason), "%s", redlock_error_text(connection));
}

/* Ends the command in time, by what we know ourselves. Returns when to look again. */
static int64_t enforce(struct run *run) {
    int64_t at_ns = now_ns(), deadline_ns = at_ns + redlock_remaining_ns(run->lease);
    int64_t kill_ns = deadline_ns - run->kill_margin_ns,
            terminate_ns = deadline_ns - run->grace_ms * NS_PER_MS;

    if (at_ns >= kill_ns || run->lost_told) {
        run->terminated = true;
        job_signal(&run->job, SIGKILL);
        return INT64_MAX; /* its end comes as SIGCHLD */
    }
    if (at_ns >= terminate_ns && !run->terminated) {
        run->terminated = true;
        if (!run->reason[0])
            (void) snprintf(run->reason, sizeof(run->reason), "%s", redlock_error_text(run->connection));
        cli_complain("%s: the lease can't be kept%s%s: stopping the command", run->name,
                     run->reason[0] ? ": " : "", run->reason);
        job_signal(&run->job, SIGTERM);
        job_signal(&run->job, SIGCONT);
    }
    return run->terminated ? kill_ns : terminate_ns;
}

static void pass_signals_on(struct run *run) {
    struct signalfd_siginfo info;

    while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        job_signal(&run->job, (int) info.ssi_signo);
    }
}

/* Until the command is over. */
static void watch(struct run *run) {
    struct pollfd fds[] = {
        {.fd = run->signal_fd, .events = POLLIN},
        {.fd = redlock_fd(run->connection), .events = POLLIN},
    };

    for (;;) {
        int64_t look_ns = enforce(run);
        int64_t left_ns = look_ns == INT64_MAX ? INT64_MAX : look_ns - now_ns();
        if (left_ns < 0)
            left_ns = 0;
        const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        int n = ppoll(fds, 2, look_ns == INT64_MAX ? NULL : &timeout, NULL);
        if (n < 0 && errno != EINTR)
            job_signal(&run->job, SIGKILL);
        pass_signals_on(run);
        enum job_change change = job_reap(&run->job);
        if (change == JOB_OVER)
            return;
        (void) redlock_dispatch(run->connection);
        if (change == JOB_CONTINUED) {
            (void) enforce(run); /* the lease may be over by now: then the command must not go on */
            job_continue(&run->job);
        }
    }
}

static int open_signals(void) {
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD};
    sigset_t set;

    (void) sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        (void) sigaddset(&set, passed_on[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int choose_times(struct run *run) {
    int64_t ttl_ms = redlock_remaining_ns(run->lease) / NS_PER_MS;

    if (run->grace_ms < 0)
        run->grace_ms = ttl_ms / 4 < GRACE_MS_MAX ? ttl_ms / 4 : GRACE_MS_MAX;
    if (run->grace_ms > ttl_ms / 2) {
        cli_complain("--grace is %lld ms: expected at most half of the ttl, which leaves %lld ms",
                     (long long) run->grace_ms, (long long) (ttl_ms / 2));
        return STATUS_USAGE;
    }
    int64_t margin_ms =
        ttl_ms / KILL_MARGIN_DIVISOR > KILL_MARGIN_MS ? ttl_ms / KILL_MARGIN_DIVISOR : KILL_MARGIN_MS;
    run->kill_margin_ns = (margin_ms < ttl_ms / 4 ? margin_ms : ttl_ms / 4) * NS_PER_MS;
    return 0;
}

static int run_command(struct run *run) {
    char *const shell[] = {(char *) "/bin/sh", (char *) "-c", run->shell_text, NULL};

    int status = choose_times(run);
    if (status != 0)
        return status;
    run->signal_fd = open_signals();
    if (run->signal_fd < 0 || redlock_fd(run->connection) < 0) {
        cli_complain("can't watch signals: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    (void) redlock_dispatch(run->connection); /* from here on the library keeps its deadline fresh */
    status = job_start(&run->job, run->shell_text ? shell : run->command, run->lease, true);
    if (status != 0)
        return status;
    watch(run);
    if (!run->terminated)
        return job_status(&run->job);
    cli_complain("%s: the lease was lost%s%s", run->name, run->reason[0] ? ": " : "", run->reason);
    return STATUS_LOST;
}

int cli_run(const struct cli *cli, int argc, char **argv) {
    static const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .lost = on_lost, .disconnected = on_disconnected};
    struct run run = {
        .options = {.size = sizeof(run.options), .wait_ms = -1},
        .conflict_status = STATUS_HELD,
        .grace_ms = -1,
        .signal_fd = -1,
    };

    int status = read_arguments(&run, argc, argv);
    if (status != 0)
        return status - 1;
    status = cli_connect(cli, &run.connection);
    if (status != 0)
        return status;
    int error = redlock_acquire(run.connection, run.name, &run.options, &run.lease);
    if (error != REDLOCK_OK) {
        status = cli_failed(run.connection, error, run.name);
        redlock_close(run.connection);
        return error == REDLOCK_BUSY ? run.conflict_status : status;
    }
    redlock_set_callbacks(run.connection, &callbacks, &run);
    status = run_command(&run);
    /* Should the agent not answer, closing the connection releases as well. */
    redlock_set_answer_timeout(run.connection, RELEASE_TIMEOUT_MS);
    if (!run.terminated)
        (void) redlock_release(run.lease);
    redlock_close(run.connection);
    return status;
}
