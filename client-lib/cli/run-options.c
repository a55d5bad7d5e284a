#include "run-options.h"

#include <getopt.h>
#include <string.h>

#include "cli.h"
#include "options.h"

/* The default of --linger: for the relay to end the tree when the guard is killed. */
enum { LINGER_MS = 2000 };

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

/* Behind the options: NAME and the command. 0; or 1 + the exit status to end with. */
static int read_command(struct run_options *options, int argc, char **argv) {
    if (optind < argc)
        options->name = argv[optind++];
    const char *word = optind < argc ? argv[optind] : "";
    if (strcmp(word, "-c") == 0 || strcmp(word, "--command") == 0) {
        if (optind + 1 == argc) {
            cli_complain("run: a value is missing after '%s'; 'redlock run --help' lists the options", word);
            return 1 + STATUS_USAGE;
        }
        options->shell_text = argv[optind + 1];
        optind += 2;
    } else if (strcmp(word, "--") == 0) {
        optind++;
    } else if (word[0] == '-') {
        cli_complain("run: unexpected '%s' behind NAME: options stand in front of NAME; see 'redlock run "
                     "--help'",
                     word);
        return 1 + STATUS_USAGE;
    }
    options->command = argv + optind;
    if (options->shell_text && !options_end(argc, argv, 0))
        return 1 + STATUS_USAGE;
    if (!options->name || (!options->shell_text && optind == argc)) {
        cli_complain("run: expected NAME and a command; see 'redlock run --help'");
        return 1 + STATUS_USAGE;
    }
    return 0;
}

int run_options_read(struct run_options *options, int argc, char **argv) {
    int64_t linger_ms = -1, max_hold_ms = -1;
    bool verbose = false;

    *options = (struct run_options){
        .request = {.size = sizeof(options->request), .wait_ms = -1, .linger_ms = LINGER_MS},
        .conflict_status = -1,
        .grace_ms = -1,
    };
    const struct options_row rows[] = {
        OPTIONS_ACQUIRE_ROWS(&options->request, &options->conflict_status, &options->quiet),
        {"grace", 0, OPTIONS_DURATION, &options->grace_ms},
        {"max-hold", 0, OPTIONS_DURATION, &max_hold_ms},
        {"min-hold", 0, OPTIONS_DURATION, &options->request.cooldown_ms},
        {"linger", 0, OPTIONS_DURATION, &linger_ms},
        {"command", 'c', OPTIONS_TEXT, &options->shell_text},
        {"close", 'o', OPTIONS_FLAG, &options->leave_rest},
        {"verbose", 0, OPTIONS_FLAG, &verbose},
    };

    /* The options end at NAME. */
    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), false, usage, argc, argv);
    if (status != 0)
        return status;
    if (verbose)
        cli_be_verbose();
    if (max_hold_ms == 0) { /* in the request it would mean none */
        cli_complain("--max-hold 0: expected 100 ms or more");
        return 1 + STATUS_USAGE;
    }
    options->request.max_hold_ms = max_hold_ms < 0 ? 0 : max_hold_ms;
    if (linger_ms >= 0)
        options->request.linger_ms = linger_ms;
    options->linger_may_shrink = linger_ms < 0;
    if (!options_grace_fits(options->grace_ms, "the ttl", options->request.ttl_ms) ||
        !options_grace_fits(options->grace_ms, "--max-hold", options->request.max_hold_ms))
        return 1 + STATUS_USAGE;
    options->request.data_length = options->request.data ? strlen(options->request.data) : 0;
    return read_command(options, argc, argv);
}
