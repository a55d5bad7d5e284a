/* redlock run: a command under a lease. Whatever becomes of the agent, or of redlock, the command ends
 * before the lease does. The arguments, and the two processes that do it: see guard.h. */

#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "guard.h"
#include "signal-relay.h"

static const char usage[] =
    "redlock run [OPTION]... NAME -- COMMAND [ARGUMENT]...\n"
    "redlock run [OPTION]... NAME -c 'SHELL TEXT'\n"
    "Runs COMMAND while holding the lease NAME; waits for it first, as long as it takes.\n"
    "\n"
    "  -n, --nonblock, --nb   don't wait: exit with 1 if the name is held\n"
    "  -w, --wait, --timeout TIME\n"
    "                         wait no longer: exit with 124\n"
    "  -E, --conflict-exit-code N\n"
    "                         exit with N instead of 1 and 124\n"
    "  -t, --ttl TIME         the lease's ttl instead of the agent's default\n"
    "      --grace TIME       when the lease can't be kept: SIGTERM this long before it ends (a quarter of\n"
    "                         the ttl, at most 5s; at most half of it), SIGKILL just before it ends\n"
    "      --data TEXT        publish TEXT with the lease ('redlock leader' shows it)\n"
    "      --max-hold TIME    hold no longer than this\n"
    "      --linger TIME      when redlock's own guard process is killed: keep the lease for so long, for "
    "the\n"
    "                         command to be ended meanwhile (2s)\n"
    "      --min-hold TIME    nobody else gets the lease until so long after it was acquired, even if the\n"
    "                         command ends earlier: at most once an interval (up to the agent's max_ttl)\n"
    "  -o, --close            release when COMMAND ends, whatever it has left running\n"
    "  -q, --quiet            no messages: the exit status alone\n"
    "      --verbose          tell how long it took to acquire the lease\n"
    "  -x, -e, --exclusive    nothing: as flock(1) has it\n"
    "  -c, --command TEXT     run TEXT with /bin/sh -c\n"
    "  -h, --help\n"
    "\n"
    "TIME is a number of seconds, or has a unit: .5, 500ms, 10s, 2m, 1h. COMMAND finds REDLOCK_NAME,\n"
    "REDLOCK_ID and REDLOCK_FENCE in its environment. The lease is released when COMMAND and all that it "
    "has\n"
    "started have ended. Exit status: COMMAND's own, or as 'redlock --help' says; 125 if the lease was "
    "lost.\n";

static bool read_option(struct run *run, int option) {
    switch (option) {
    case 'n':
        run->options.wait_ms = 0;
        return true;
    case 'w':
        return cli_read_duration("--wait", optarg, &run->options.wait_ms);
    case 't':
        return cli_read_duration("--ttl", optarg, &run->options.ttl_ms);
    case 'E':
        return cli_read_status("-E", optarg, &run->conflict_status);
    case 'g':
        return cli_read_duration("--grace", optarg, &run->grace_ms);
    case 'm':
        return cli_read_duration("--max-hold", optarg, &run->options.max_hold_ms);
    case 'k':
        run->linger_may_shrink = false;
        return cli_read_duration("--linger", optarg, &run->options.linger_ms);
    case 'M':
        return cli_read_duration("--min-hold", optarg, &run->options.cooldown_ms);
    case 'd':
        run->options.data = optarg;
        run->options.data_length = strlen(optarg);
        return true;
    case 'c':
        run->shell_text = optarg;
        return true;
    case 'o':
        run->leave_rest = true;
        return true;
    case 'q':
        run->quiet = true;
        return true;
    case 'v':
        cli_be_verbose();
        return true;
    case 'x':
        return true;
    default:
        return false;
    }
}

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct run *run, int argc, char **argv) {
    static const struct option known[] = {
        {"nonblock", no_argument, NULL, 'n'},       {"nb", no_argument, NULL, 'n'},
        {"wait", required_argument, NULL, 'w'},     {"timeout", required_argument, NULL, 'w'},
        {"ttl", required_argument, NULL, 't'},      {"conflict-exit-code", required_argument, NULL, 'E'},
        {"grace", required_argument, NULL, 'g'},    {"data", required_argument, NULL, 'd'},
        {"max-hold", required_argument, NULL, 'm'}, {"linger", required_argument, NULL, 'k'},
        {"min-hold", required_argument, NULL, 'M'}, {"command", required_argument, NULL, 'c'},
        {"close", no_argument, NULL, 'o'},          {"exclusive", no_argument, NULL, 'x'},
        {"quiet", no_argument, NULL, 'q'},          {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},           {0},
    };
    int option;

    /* "+": the options end at NAME. */
    while ((option = cli_option(argc, argv, "+:nw:t:E:c:oqxeh", known)) >= 0) {
        if (option == 'h') {
            (void) fputs(usage, stdout);
            return 1 + STATUS_DONE;
        }
        if (!read_option(run, option == 'e' ? 'x' : option))
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
        cli_complain("expected NAME and a command; see 'redlock run --help'");
        return 1 + STATUS_USAGE;
    }
    return 0;
}

static int run_guarded(const struct cli *cli, struct run *run) {
    int channel[2], signal_fd;

    (void) sigprocmask(SIG_BLOCK, NULL, &run->mask);
    signal_fd = signal_relay_init();
    if (signal_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0) {
        cli_complain("can't watch signals: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    pid_t guard = fork();
    if (guard < 0) {
        cli_complain("can't start the guard process: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    if (guard == 0) {
        (void) close(channel[0]);
        (void) close(signal_fd);
        guard_run(cli, run, channel[1]);
        _exit(STATUS_DONE);
    }
    (void) close(channel[1]);
    return signal_relay_run(signal_fd, channel[0], run->name);
}

int cli_run(const struct cli *cli, int argc, char **argv) {
    struct run run = {
        .options = {.size = sizeof(run.options), .wait_ms = -1, .linger_ms = RUN_LINGER_MS},
        .conflict_status = -1,
        .grace_ms = -1,
        .linger_may_shrink = true,
    };

    int status = read_arguments(&run, argc, argv);
    if (status != 0)
        return status - 1;
    if (run.quiet)
        cli_be_quiet();
    return run_guarded(cli, &run);
}
