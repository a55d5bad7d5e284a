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
#include "options.h"
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
    "      --linger TIME      when redlock's own guard process is killed, keep the lease for so long, so "
    "that\n"
    "                         COMMAND is killed meanwhile (2s)\n"
    "      --min-hold TIME    keep the lease from others for so long after its acquisition, even if "
    "COMMAND\n"
    "                         ends earlier: at most once an interval (up to the agent's max_ttl)\n"
    "  -o, --close            release when COMMAND ends, even if processes of it run on\n"
    "  -q, --quiet            no messages: the exit status alone\n"
    "      --verbose          print how long the acquisition took\n"
    "  -x, -e, --exclusive    no effect: for compatibility with flock(1)\n"
    "  -c, --command TEXT     run TEXT with /bin/sh -c\n"
    "  -h, --help\n"
    "\n"
    "TIME is a number of seconds, or has a unit: .5, 500ms, 10s, 2m, 1h. COMMAND finds REDLOCK_NAME,\n"
    "REDLOCK_ID and REDLOCK_FENCE in its environment. The lease is released when COMMAND and all that it "
    "has\n"
    "started have ended. Exit status: COMMAND's own, or as 'redlock --help' says; 125 if the lease was "
    "lost.\n";

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct run *run, int argc, char **argv) {
    int64_t linger_ms = -1;
    bool verbose = false;
    const struct options_row rows[] = {
        {"nonblock", 'n', OPTIONS_ZERO, &run->options.wait_ms},
        {"nb", 0, OPTIONS_ZERO, &run->options.wait_ms},
        {"wait", 'w', OPTIONS_DURATION, &run->options.wait_ms},
        {"timeout", 0, OPTIONS_DURATION, &run->options.wait_ms},
        {"conflict-exit-code", 'E', OPTIONS_STATUS, &run->conflict_status},
        {"ttl", 't', OPTIONS_DURATION, &run->options.ttl_ms},
        {"grace", 0, OPTIONS_DURATION, &run->grace_ms},
        {"data", 0, OPTIONS_TEXT, &run->options.data},
        {"max-hold", 0, OPTIONS_DURATION, &run->options.max_hold_ms},
        {"min-hold", 0, OPTIONS_DURATION, &run->options.cooldown_ms},
        {"linger", 0, OPTIONS_DURATION, &linger_ms},
        {"command", 'c', OPTIONS_TEXT, &run->shell_text},
        {"close", 'o', OPTIONS_FLAG, &run->leave_rest},
        {"exclusive", 'x', OPTIONS_FLAG, NULL},
        {"exclusive", 'e', OPTIONS_FLAG, NULL},
        {"quiet", 'q', OPTIONS_FLAG, &run->quiet},
        {"verbose", 0, OPTIONS_FLAG, &verbose},
    };

    /* The options end at NAME. */
    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), false, usage, argc, argv);
    if (status != 0)
        return status;
    if (verbose)
        cli_be_verbose();
    if (linger_ms >= 0)
        run->options.linger_ms = linger_ms;
    run->linger_may_shrink = linger_ms < 0;
    run->options.data_length = run->options.data ? strlen(run->options.data) : 0;
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
    };

    int status = read_arguments(&run, argc, argv);
    if (status != 0)
        return status - 1;
    if (run.quiet)
        cli_be_quiet();
    return run_guarded(cli, &run);
}
