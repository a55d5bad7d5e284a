/* redlock hold: leader election for whoever starts it: a service manager, a script, its own hooks. Waits for
 * the lease as long as it takes, holds it until it is told to stop, and gives up the lead early enough
 * before the deadline for what it leads to stop in time. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "job.h"
#include "linger.h"
#include "notify.h"
#include "unit-guard.h"

static const char usage[] =
    "redlock hold [OPTION]... NAME\n"
    "Waits until it holds the lease NAME, as long as it takes, and holds it until SIGTERM or SIGINT, when "
    "it is\n"
    "released at once, or until it can't be kept.\n"
    "\n"
    "  -t, --ttl TIME            the lease's ttl instead of the agent's default, or $REDLOCK_TTL\n"
    "      --grace TIME          act on a loss this long before the lease ends: a quarter of the ttl, or\n"
    "                            $REDLOCK_GRACE; at most half of the ttl\n"
    "      --linger TIME         if this is killed, keep the lease for so long, for what it led to be "
    "stopped\n"
    "                            meanwhile: 0, or $REDLOCK_LINGER\n"
    "      --data TEXT           publish TEXT with the lease ('redlock leader' shows it)\n"
    "      --unit UNIT           this systemd unit is what is led: kill what is left of it before the lease "
    "ends\n"
    "      --pause TIME          ask for the lease after this time only, or $REDLOCK_PAUSE\n"
    "      --exec-leader TEXT    run TEXT with /bin/sh -c when the lease is held\n"
    "      --exec-follower TEXT  and TEXT when it is held no more\n"
    "      --once                end after a loss, with hooks too: without them it ends anyway\n"
    "\n"
    "TIME is a number of seconds, or has a unit: 500ms, 10s, 2m, 1h. The hooks find REDLOCK_NAME, "
    "REDLOCK_ID\n"
    "and REDLOCK_FENCE in their environment. A service with Type=notify is ready when the lease is held.\n"
    "Exit status: 0 stopped; 64 usage; 77 denied; 125 the lease was lost.\n";

enum {
    OBSERVE_FIRST_MS = 100, /* a lease that is free comes before */
    OBSERVE_AGAIN_MS = 2000,
    OBSERVE_TIMEOUT_MS = 250,
    RETRY_MS = 500, /* after a failure that waiting may mend */
    RELEASE_TIMEOUT_MS = 1000,
    LEAVE_MARGIN_MS = 100, /* what is left of the grace for killing what has not stopped */
    END_UNIT_MS = 5000,    /* for what was killed to be gone, before a release */
    UNIT_STARTS_MS = 5000, /* a led unit is not said not to run before */
};

struct hold {
    const struct cli *cli;
    struct redlock_options options;
    const char *name;
    const char *leader_hook, *follower_hook; /* NULL: none */
    bool once;
    bool linger_may_shrink; /* it comes from the environment, not from this call */
    bool linger_is_short;   /* by the agent's max_ttl, and this was not yet reported */
    int64_t grace_ms;       /* -1: chosen by the ttl */
    int64_t pause_ms;       /* before the lease is asked for */
    const char *unit;       /* NULL: none */
    struct unit_guard guard;
    struct notify notify;
    int64_t ping_ns; /* when its watchdog wants to hear of us */
    int signal_fd;
    sigset_t stop_signals;
    int stops; /* how many of them came */
    struct redlock *connection;
    struct redlock *observer;    /* is told who leads; NULL: not connected */
    struct redlock_lease *lease; /* asked for or held */
    bool granted, lost;
    int error;          /* with which the request failed; REDLOCK_OK: it has not */
    int told_error;     /* the last one that was complained about */
    bool away_told;     /* the same for connecting */
    int64_t longest_ns; /* the most that was ever left: about the ttl */
    struct job hook;
    char reason[320];
    char leading[128]; /* what to tell of it */
    int64_t led_ns;    /* since when */
    char seen[320];    /* who else leads; "": not known */
    uint64_t seen_fence;
    char status[512]; /* that was told last */
};

/* --- arguments --- */

/* An empty variable is like none. */
static bool read_environment(struct hold *hold) {
    const struct {
        const char *variable;
        int64_t *value;
    } known[] = {
        {"REDLOCK_TTL", &hold->options.ttl_ms},
        {"REDLOCK_GRACE", &hold->grace_ms},
        {"REDLOCK_LINGER", &hold->options.linger_ms},
        {"REDLOCK_PAUSE", &hold->pause_ms},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *text = getenv(known[i].variable);
        if (text && *text && !cli_read_duration(known[i].variable, text, known[i].value))
            return false;
    }
    hold->linger_may_shrink = hold->options.linger_ms > 0;
    return true;
}

static bool read_option(struct hold *hold, int option) {
    switch (option) {
    case 't':
        return cli_read_duration("--ttl", optarg, &hold->options.ttl_ms);
    case 'g':
        return cli_read_duration("--grace", optarg, &hold->grace_ms);
    case 'k':
        hold->linger_may_shrink = false;
        return cli_read_duration("--linger", optarg, &hold->options.linger_ms);
    case 'd':
        hold->options.data = optarg;
        hold->options.data_length = strlen(optarg);
        return true;
    case 'l':
        hold->leader_hook = optarg;
        return true;
    case 'f':
        hold->follower_hook = optarg;
        return true;
    case 'o':
        hold->once = true;
        return true;
    case 'p':
        return cli_read_duration("--pause", optarg, &hold->pause_ms);
    case 'u':
        hold->unit = optarg;
        if (unit_cgroup_is_name(optarg))
            return true;
        cli_complain("--unit %s: expected the name of a systemd unit, such as backup.service", optarg);
        return false;
    default:
        return false;
    }
}

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct hold *hold, int argc, char **argv) {
    static const struct option known[] = {
        {"ttl", required_argument, NULL, 't'},
        {"grace", required_argument, NULL, 'g'},
        {"linger", required_argument, NULL, 'k'},
        {"data", required_argument, NULL, 'd'},
        {"exec-leader", required_argument, NULL, 'l'},
        {"exec-follower", required_argument, NULL, 'f'},
        {"once", no_argument, NULL, 'o'},
        {"pause", required_argument, NULL, 'p'},
        {"unit", required_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option;

    if (!read_environment(hold))
        return 1 + STATUS_USAGE;
    while ((option = cli_option(argc, argv, ":t:h", known)) >= 0) {
        if (option == 'h') {
            (void) fputs(usage, stdout);
            return 1 + STATUS_DONE;
        }
        if (!read_option(hold, option))
            return 1 + STATUS_USAGE;
    }
    if (optind + 1 != argc) {
        cli_complain("expected NAME; 'redlock hold --help' tells more");
        return 1 + STATUS_USAGE;
    }
    if (hold->options.ttl_ms > 0 && hold->grace_ms > hold->options.ttl_ms / 2) {
        cli_complain("a grace of %" PRId64 " ms: expected at most half of the ttl, %" PRId64 " ms",
                     hold->grace_ms, hold->options.ttl_ms / 2);
        return 1 + STATUS_USAGE;
    }
    hold->name = argv[optind];
    hold->longest_ns = hold->options.ttl_ms * NS_PER_MS;
    hold->once = hold->once || (!hold->leader_hook && !hold->follower_hook);
    return 0;
}

/* --- what happens --- */

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

static void tell(struct hold *hold, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Once for each change. */
static void tell(struct hold *hold, const char *format, ...) {
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
    tell(hold, "%s, at risk: %s, %" PRId64 " ms left", hold->leading, reason, left_ms);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    if (hold->lost)
        return;
    hold->reason[0] = '\0';
    tell(hold, "%s", hold->leading);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct hold *hold = userdata;

    (void) lease;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s: %s", reason, text);
}

static void end_at_once(int number) {
    (void) number;
    _exit(STATUS_DONE);
}

/* They come to us by the descriptor, and directly only where let_signals_in() says so. Those that are
 * ignored, by nohup(1) or a shell's background, stay so. */
static bool open_signals(struct hold *hold) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    const struct sigaction action = {.sa_handler = end_at_once};
    struct sigaction old;
    sigset_t set;

    (void) sigemptyset(&hold->stop_signals);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void) sigaddset(&hold->stop_signals, numbers[i]);
    set = hold->stop_signals;
    (void) sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return false;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigismember(&set, numbers[i]))
            (void) sigaction(numbers[i], &action, NULL);
    hold->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return hold->signal_fd >= 0;
}

/* For calls that may take long while nothing is held: the end of the process withdraws the request. */
static void let_signals_in(const struct hold *hold, bool in) {
    (void) sigprocmask(in ? SIG_UNBLOCK : SIG_BLOCK, &hold->stop_signals, NULL);
}

static void read_signals(struct hold *hold) {
    struct signalfd_siginfo info;

    while (read(hold->signal_fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            hold->stops++;
    if (job_reap(&hold->hook) && job_status(&hold->hook) != 0)
        cli_complain("%s: a hook failed: exit status %d", hold->name, job_status(&hold->hook));
}

/* What we lead must not go on when we are stopped: nobody would stop it in time. */
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

static void stop_observing(struct hold *hold) {
    redlock_close(hold->observer);
    hold->observer = NULL;
    hold->seen[0] = '\0';
}

/* Waits until something happens, or until `until_ns`, and does what is to be done. */
static void pump(struct hold *hold, int64_t until_ns) {
    int64_t ping_ns = feed_watchdog(hold);
    struct pollfd fds[] = {
        {.fd = hold->signal_fd, .events = POLLIN},
        {.fd = hold->connection ? redlock_fd(hold->connection) : -1, .events = POLLIN},
        {.fd = hold->observer ? redlock_fd(hold->observer) : -1, .events = POLLIN},
        {.fd = hold->guard.fd, .events = POLLIN},
    };

    (void) cli_poll(fds, sizeof(fds) / sizeof(fds[0]), until_ns < ping_ns ? until_ns : ping_ns);
    read_signals(hold);
    if (hold->connection && redlock_dispatch(hold->connection) != REDLOCK_OK && hold->error == REDLOCK_OK)
        hold->error = REDLOCK_AGENT_AWAY;
    if (hold->observer && redlock_dispatch(hold->observer) != REDLOCK_OK)
        stop_observing(hold);
}

/* --- waiting --- */

static void disconnect(struct hold *hold) {
    redlock_close(hold->connection);
    hold->connection = NULL;
    hold->lease = NULL;
}

/* The first failure is complained about, those after it are expected. 0: connected; STATUS_DENIED: waiting
 * will not mend it; else there is no agent. */
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

    let_signals_in(hold, true);
    if (!hold->away_told)
        status = cli_connect(hold->cli, &hold->connection);
    else if (redlock_connect(hold->cli->socket_path, &hold->connection) == REDLOCK_AGENT_AWAY &&
             errno == EACCES)
        status = cli_connect(hold->cli, &hold->connection);
    let_signals_in(hold, false);
    if (status == STATUS_DENIED)
        return status;
    hold->away_told = !hold->connection;
    if (!hold->connection || redlock_fd(hold->connection) < 0) {
        tell(hold, "waiting for %s: no agent answers", hold->name);
        disconnect(hold);
        return STATUS_NO_AGENT;
    }
    redlock_set_callbacks(hold->connection, &callbacks, hold);
    return 0;
}

/* One line in the journal for each change of leader. Nothing for who started this by hand. */
static void log_change(const struct hold *hold, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void log_change(const struct hold *hold, const char *format, ...) {
    char text[sizeof(hold->seen)];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (hold->notify.fd >= 0)
        cli_complain("%s: %s", hold->name, text);
}

static void tell_who_leads(struct hold *hold) {
    if (hold->seen[0])
        tell(hold, "waiting for %s: %s", hold->name, hold->seen);
}

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    struct hold *hold = userdata;
    const char *who = sighting->host[0] ? sighting->host : sighting->holder;

    (void) connection;
    switch (sighting->leadership) {
    case REDLOCK_LEADER_HELD:
        if (sighting->type[0])
            (void) snprintf(hold->seen, sizeof(hold->seen), "no lock: its Redis key is of type %s",
                            sighting->type);
        else
            (void) snprintf(hold->seen, sizeof(hold->seen), "%s leads", who);
        if (sighting->fence != hold->seen_fence)
            log_change(hold, "%s, token %" PRIu64, hold->seen, sighting->fence);
        hold->seen_fence = sighting->fence;
        break;
    case REDLOCK_LEADER_NONE:
        (void) snprintf(hold->seen, sizeof(hold->seen), "nobody leads");
        break;
    case REDLOCK_LEADER_UNKNOWN:
        (void) snprintf(hold->seen, sizeof(hold->seen), "%s", "nobody can tell who leads");
        break;
    }
    tell_who_leads(hold);
}

/* On a connection of its own, which ends when we lead. */
static void observe(struct hold *hold) {
    static const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};
    int error;

    let_signals_in(hold, true);
    error = redlock_connect(hold->cli->socket_path, &hold->observer);
    if (error == REDLOCK_OK) {
        redlock_set_answer_timeout(hold->observer, OBSERVE_TIMEOUT_MS);
        redlock_set_callbacks(hold->observer, &callbacks, hold);
        error = redlock_observe(hold->observer, hold->name);
    }
    let_signals_in(hold, false);
    if (error != REDLOCK_OK)
        stop_observing(hold);
}

/* 0 when waiting may mend it, else the exit status. */
static int request_failed(struct hold *hold) {
    int error = hold->error, status = 0;
    bool fatal = error == REDLOCK_BAD_NAME || error == REDLOCK_BAD_ARGUMENT || error == REDLOCK_DENIED;

    hold->error = REDLOCK_OK;
    if (hold->linger_may_shrink && linger_shorten(&hold->options, hold->connection, error)) {
        hold->linger_is_short = true;
        return 0;
    }
    if (fatal || error != hold->told_error)
        status = cli_failed(hold->connection, error, hold->name);
    hold->told_error = error;
    if (fatal)
        return status;
    tell(hold, "waiting for %s: %s", hold->name, redlock_strerror(error));
    if (error == REDLOCK_AGENT_AWAY)
        disconnect(hold);
    pump(hold, cli_now_ns() + RETRY_MS * NS_PER_MS);
    return 0;
}

static int64_t grace_ns(const struct hold *hold) {
    int64_t ns = hold->grace_ms < 0 ? hold->longest_ns / 4 : hold->grace_ms * NS_PER_MS;
    return ns < hold->longest_ns / 2 ? ns : hold->longest_ns / 2;
}

/* When to act as if the lease were lost, as we know now. */
static int64_t act_ns(struct hold *hold) {
    int64_t at_ns = cli_now_ns(), left_ns = redlock_remaining_ns(hold->lease);

    if (left_ns > hold->longest_ns)
        hold->longest_ns = left_ns;
    return at_ns + left_ns - grace_ns(hold);
}

/* One that is as good as lost, because we were stopped, say, is given back. */
static void check_grant(struct hold *hold) {
    if (!hold->granted || (!hold->lost && cli_now_ns() < act_ns(hold)))
        return;
    (void) redlock_release_async(hold->lease);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    pump(hold, cli_now_ns() + RETRY_MS * NS_PER_MS);
}

/* Until it is granted or we are to stop: 0; or the exit status. */
static int wait_for_lease(struct hold *hold) {
    int64_t observe_ns = cli_now_ns() + OBSERVE_FIRST_MS * NS_PER_MS;
    int status = 0;

    while (!hold->granted && hold->stops == 0 && status == 0) {
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
            hold->error = redlock_acquire_async(hold->connection, hold->name, &hold->options, &hold->lease);
            tell_who_leads(hold);
        }
        if (hold->error == REDLOCK_OK && !hold->observer && cli_now_ns() >= observe_ns) {
            observe(hold);
            observe_ns = cli_now_ns() + OBSERVE_AGAIN_MS * NS_PER_MS;
        }
        if (hold->error == REDLOCK_OK)
            pump(hold, hold->observer ? INT64_MAX : observe_ns);
        if (hold->error != REDLOCK_OK)
            status = request_failed(hold);
        else
            check_grant(hold);
    }
    stop_observing(hold);
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

static bool tell_ready(struct hold *hold) {
    char since[64];

    hold->led_ns = cli_now_ns();
    hold->seen_fence = redlock_fence(hold->lease);
    log_change(hold, "this host leads, token %" PRIu64, hold->seen_fence);
    if (hold->linger_is_short)
        cli_complain(
            "%s: the agent's max_ttl is less than the linger that was asked for: the lease lingers %" PRId64
            " ms",
            hold->name, hold->options.linger_ms);
    hold->linger_is_short = false;
    (void) time_text(time(NULL), since);
    (void) snprintf(hold->leading, sizeof(hold->leading), "leader since %s, token %" PRIu64, since,
                    redlock_fence(hold->lease));
    (void) strcpy(hold->status, hold->leading);
    if (notify_send(&hold->notify, "READY=1", hold->status))
        return true;
    cli_complain("%s: the service manager does not take our message", hold->name);
    return false;
}

/* What runs in the unit is killed when only this is left of the lease. */
static int64_t margin_ns(const struct hold *hold) {
    int64_t half_ns = grace_ns(hold) / 2;
    return half_ns < LEAVE_MARGIN_MS * NS_PER_MS ? half_ns : LEAVE_MARGIN_MS * NS_PER_MS;
}

/* A led unit that was stopped, or has ended: the lead goes on, for all to see. */
static void tell_unit(struct hold *hold) {
    if (!hold->unit || hold->reason[0])
        return;
    if (cli_now_ns() < hold->led_ns + UNIT_STARTS_MS * NS_PER_MS ||
        unit_cgroup_is_populated(&hold->guard.cgroup))
        tell(hold, "%s", hold->leading);
    else
        tell(hold, "%s, %s does not run", hold->leading, hold->unit);
}

static void heed_guard(struct hold *hold) {
    enum unit_guard_event event = unit_guard_dispatch(&hold->guard);

    if (event == UNIT_GUARD_QUIET || hold->lost)
        return;
    hold->lost = true;
    (void) snprintf(hold->reason, sizeof(hold->reason), "%s",
                    event == UNIT_GUARD_KILLED ? "this process stood still until the lease was about to end"
                                               : "the process that would stop the unit in time was killed");
}

/* Until the lease is lost, as good as lost, or we are to stop. */
static void lead(struct hold *hold) {
    run_hook(hold, hold->leader_hook);
    while (hold->stops == 0 && !hold->lost) {
        int64_t at_ns = act_ns(hold);
        unit_guard_set(&hold->guard, at_ns + grace_ns(hold) - margin_ns(hold));
        if (cli_now_ns() >= at_ns) {
            hold->lost = true;
            if (!hold->reason[0])
                (void) snprintf(hold->reason, sizeof(hold->reason), "%s",
                                redlock_error_text(hold->connection));
            break;
        }
        tell_unit(hold);
        pump(hold, at_ns);
        heed_guard(hold);
    }
    if (hold->lost && !redlock_valid(hold->lease))
        unit_guard_set(&hold->guard, 0); /* too late for stopping */
    if (hold->lost)
        cli_complain("%s: the lease %s%s%s", hold->name,
                     redlock_valid(hold->lease) ? "can't be kept" : "was lost", hold->reason[0] ? ": " : "",
                     hold->reason);
}

/* A service manager stops what we lead as soon as it knows. Should the agent come back while that goes on,
 * our end would release the lease: so we stay until just before the deadline. */
static int64_t tell_end(struct hold *hold, bool ends) {
    int64_t left_ns = redlock_remaining_ns(hold->lease) - margin_ns(hold);

    if (!ends)
        tell(hold, "the lease was lost: %s", hold->reason);
    else if (notify_send(&hold->notify, "STOPPING=1", hold->lost ? "the lease was lost" : "releasing") &&
             hold->notify.fd >= 0 && hold->lost && left_ns > 0)
        return cli_now_ns() + left_ns;
    return 0;
}

/* The hooks run one after the other: a leader's that still runs has half of the grace to end. One more
 * signal, and nothing is waited for. */
static void step_down(struct hold *hold, bool ends) {
    int64_t stay_ns = tell_end(hold, ends), kill_ns = cli_now_ns() + grace_ns(hold) / 2;
    const char *next = hold->follower_hook;
    int stops = hold->stops;

    job_signal(&hold->hook, SIGTERM);
    while (hold->hook.pid != 0 || next || cli_now_ns() < stay_ns) {
        if (hold->hook.pid == 0 && next) {
            run_hook(hold, next);
            next = NULL;
            kill_ns = INT64_MAX;
        }
        if (cli_now_ns() >= kill_ns || hold->stops > stops) {
            job_signal(&hold->hook, SIGKILL);
            job_wait(&hold->hook);
            if (hold->stops > stops)
                break;
        }
        pump(hold, hold->hook.pid == 0 ? stay_ns : kill_ns);
    }
}

/* The lease's end; the next one's beginning. The service manager stops what we lead before it stops us,
 * unless it has forgotten that it should. */
static void let_go(struct hold *hold) {
    (void) unit_guard_end_unit(&hold->guard, END_UNIT_MS);
    if (!hold->lost)
        log_change(hold, "this host leads no more, token %" PRIu64, redlock_fence(hold->lease));
    if (hold->stops > 0) {
        /* Should the agent not answer, closing the connection releases as well. */
        redlock_set_answer_timeout(hold->connection, RELEASE_TIMEOUT_MS);
        (void) redlock_release(hold->lease);
    } else {
        (void) redlock_release_async(hold->lease);
    }
    unit_guard_set(&hold->guard, INT64_MAX);
    hold->lease = NULL;
    hold->granted = hold->lost = false;
    hold->reason[0] = '\0';
    hold->told_error = REDLOCK_OK;
}

static int stopped(struct hold *hold) {
    if (hold->granted)
        let_go(hold);
    (void) notify_send(&hold->notify, "STOPPING=1", NULL);
    return STATUS_DONE;
}

/* After failures of what it leads, it lets others lead first. */
static void pause_first(struct hold *hold) {
    int64_t until_ns = cli_now_ns() + hold->pause_ms * NS_PER_MS;
    const char *reason = getenv("REDLOCK_PAUSE_REASON");
    char until[64];

    if (hold->pause_ms <= 0)
        return;
    tell(hold, "not asking for %s before %s%s%s", hold->name,
         time_text(time(NULL) + (time_t) (hold->pause_ms / 1000), until), reason ? ": " : "",
         reason ? reason : "");
    while (hold->stops == 0 && cli_now_ns() < until_ns)
        pump(hold, until_ns);
}

/* From one lead to the next. The exit status. */
static int hold_and_wait(struct hold *hold) {
    pause_first(hold);
    for (;;) {
        tell(hold, "waiting for %s", hold->name);
        int status = wait_for_lease(hold);
        if (status != 0)
            return status;
        if (hold->stops > 0)
            return stopped(hold);
        if (!tell_ready(hold))
            return STATUS_SYSTEM;
        lead(hold);
        bool ends = hold->once || !hold->lost;
        step_down(hold, ends);
        if (ends && hold->lost) {
            (void) unit_guard_end_unit(&hold->guard, END_UNIT_MS);
            return STATUS_LOST;
        }
        if (hold->stops > 0)
            return stopped(hold);
        let_go(hold);
    }
}

int cli_hold(const struct cli *cli, int argc, char **argv) {
    struct hold hold = {
        .cli = cli,
        .options = {.size = sizeof(hold.options), .wait_ms = -1},
        .grace_ms = -1,
    };

    int status = read_arguments(&hold, argc, argv);
    if (status != 0)
        return status - 1;
    int r = unit_guard_init(&hold.guard, hold.unit);
    if (r < 0) {
        cli_complain("%s: can't watch its control group: %s", hold.unit, strerror(-r));
        return STATUS_SYSTEM;
    }
    if (!notify_init(&hold.notify))
        cli_complain("NOTIFY_SOCKET is none that can be sent to: nobody is told");
    if (!open_signals(&hold)) {
        cli_complain("can't watch signals: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    status = hold_and_wait(&hold);
    redlock_close(hold.connection);
    unit_guard_deinit(&hold.guard);
    notify_deinit(&hold.notify);
    (void) close(hold.signal_fd);
    return status;
}
