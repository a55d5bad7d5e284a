#include "hold-options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "options.h"
#include "unit-cgroup.h"

static const char usage[] =
    "redlock hold [OPTION]... NAME\n"
    "Waits for the lease NAME, as long as it takes. Holds the lease until SIGTERM or SIGINT, and then\n"
    "releases it at once; or until the lease can't be kept.\n"
    "\n"
    "  -t, --ttl TIME            the lease's ttl instead of the agent's default, or $REDLOCK_TTL\n"
    "      --grace TIME          act on a loss this long before the lease ends: a quarter of the ttl, or\n"
    "                            $REDLOCK_GRACE; at most half of the ttl\n"
    "      --linger TIME         when this process is killed, keep the lease for so long, so that what it "
    "led\n"
    "                            is stopped meanwhile: 0, or $REDLOCK_LINGER\n"
    "      --data TEXT           publish TEXT with the lease ('redlock leader' shows it)\n"
    "      --unit UNIT           this systemd unit is led: kill its remaining processes before the lease "
    "ends\n"
    "      --pause TIME          ask for the lease after this time only, or $REDLOCK_PAUSE\n"
    "      --exec-leader TEXT    run TEXT with /bin/sh -c when the lease is acquired\n"
    "      --exec-follower TEXT  run TEXT when the lease is released or lost\n"
    "      --once                end after a loss, with hooks too: without hooks this is always so\n"
    "\n"
    "TIME is a number of seconds, or has a unit: 500ms, 10s, 2m, 1h. The hooks find REDLOCK_NAME, "
    "REDLOCK_ID\n"
    "and REDLOCK_FENCE in their environment. A service with Type=notify is ready when the lease is held.\n"
    "Exit status: 0 stopped; 64 usage; 77 denied; 125 the lease was lost.\n";

/* An empty variable counts as unset. */
static bool read_environment(struct hold_options *options) {
    const struct {
        const char *variable;
        int64_t *value;
    } known[] = {
        {"REDLOCK_TTL", &options->request.ttl_ms},
        {"REDLOCK_GRACE", &options->grace_ms},
        {"REDLOCK_LINGER", &options->request.linger_ms},
        {"REDLOCK_PAUSE", &options->pause_ms},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *text = getenv(known[i].variable);
        if (text && *text && !options_duration(known[i].variable, text, known[i].value))
            return false;
    }
    return true;
}

/* Whether the values fit together. */
static bool are_consistent(const struct hold_options *options) {
    if (options->unit && !unit_cgroup_is_name(options->unit)) {
        cli_complain("--unit %s: expected the name of a systemd unit, such as backup.service",
                     options->unit);
        return false;
    }
    return options_grace_fits(options->grace_ms, "the ttl", options->request.ttl_ms);
}

int hold_options_read(struct hold_options *options, int argc, char **argv) {
    int64_t linger_ms = -1, ttl_ms = -1;
    const struct options_row rows[] = {
        {"ttl", 't', OPTIONS_DURATION, &ttl_ms},
        {"grace", 0, OPTIONS_DURATION, &options->grace_ms},
        {"linger", 0, OPTIONS_DURATION, &linger_ms},
        {"data", 0, OPTIONS_TEXT, &options->request.data},
        {"unit", 0, OPTIONS_TEXT, &options->unit},
        {"pause", 0, OPTIONS_DURATION, &options->pause_ms},
        {"exec-leader", 0, OPTIONS_TEXT, &options->leader_hook},
        {"exec-follower", 0, OPTIONS_TEXT, &options->follower_hook},
        {"once", 0, OPTIONS_FLAG, &options->once},
    };

    *options = (struct hold_options){
        .request = {.size = sizeof(options->request), .wait_ms = -1},
        .grace_ms = -1,
    };
    if (!read_environment(options))
        return 1 + STATUS_USAGE;
    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), true, usage, argc, argv);
    if (status != 0)
        return status;
    if (optind == argc) {
        cli_complain("hold: expected NAME; see 'redlock hold --help'");
        return 1 + STATUS_USAGE;
    }
    if (ttl_ms >= 0)
        options->request.ttl_ms = ttl_ms;
    else
        cli_name_ttl("REDLOCK_TTL");
    if (!options_end(argc, argv, 1) || !are_consistent(options))
        return 1 + STATUS_USAGE;
    options->name = argv[optind];
    options->linger_may_shrink = linger_ms < 0;
    if (linger_ms >= 0)
        options->request.linger_ms = linger_ms;
    options->request.data_length = options->request.data ? strlen(options->request.data) : 0;
    options->once = options->once || (!options->leader_hook && !options->follower_hook);
    return 0;
}
