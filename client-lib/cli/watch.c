/* redlock watch: a line at each change of leader. */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "leadership.h"
#include "options.h"

struct watching {
    bool json;
    bool failed; /* to write */
};

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    static const char *const states[] = {[REDLOCK_LEADER_UNKNOWN] = "unknown",
                                         [REDLOCK_LEADER_NONE] = "free",
                                         [REDLOCK_LEADER_HELD] = "held"};
    struct watching *watching = userdata;
    const struct leadership leadership = {
        .name = sighting->name,
        .state = states[sighting->leadership],
        .holder = sighting->holder,
        .holder_length = strlen(sighting->holder),
        .host = sighting->host,
        .host_length = strlen(sighting->host),
        .data = sighting->data,
        .data_length = sighting->data_length,
        .type = sighting->type,
        .type_length = strlen(sighting->type),
        .fence = sighting->fence,
        .since_us = leadership_wall_clock_us(sighting->since_ms),
        .validity_ms = LEADERSHIP_UNTIMED,
    };

    (void) connection;
    leadership_print(&leadership, watching->json);
    if (!cli_flush_to_reader())
        watching->failed = true;
}

/* Each line is written as a whole, so the process may end at any time, also while it waits for the agent. */
static void on_stop(int number) {
    (void) number;
    _exit(STATUS_DONE);
}

/* Until a signal comes; the exit status. */
static int watch_on(struct redlock *connection, const struct watching *watching) {
    struct pollfd fds[] = {
        {.fd = redlock_fd(connection), .events = (short) redlock_events(connection)},
        {.fd = STDOUT_FILENO}, /* POLLERR or POLLHUP: the reader has ended */
    };

    if (fds[0].fd < 0)
        return cli_failed(connection, fds[0].fd, "watch");
    while (!watching->failed) {
        int error = redlock_dispatch(connection);
        if (error != REDLOCK_OK)
            return cli_failed(connection, error, "watch");
        /* cppcheck-suppress knownConditionTrueFalse ; callbacks set it in redlock_dispatch() */
        if (watching->failed)
            break;
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            cli_complain("can't wait: %s", strerror(errno));
            return STATUS_SYSTEM;
        }
        if (fds[1].revents & (POLLERR | POLLHUP))
            return STATUS_DONE;
    }
    return STATUS_DONE; /* cli_flush() reports the failed write */
}

static int observe_all(const struct cli *cli, char **names, int n_names, struct watching *watching) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};
    struct redlock *connection = NULL;

    int status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    redlock_set_callbacks(connection, &callbacks, watching);
    for (int i = 0; i < n_names && status == STATUS_DONE; i++) {
        int error = redlock_observe(connection, names[i]);
        if (error != REDLOCK_OK)
            status = cli_failed(connection, error, names[i]);
    }
    if (status == STATUS_DONE)
        status = watch_on(connection, watching);
    redlock_close(connection);
    return status;
}

int cli_watch(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock watch [--json] NAME...\n"
        "Prints a line for the leader of each NAME, on any host, and a line at each change: the name, the\n"
        "holder (host:agent:pid; 'nobody' when free; 'unknown' without a majority of the nodes), the host,\n"
        "the fencing token, since when, and the data. Survives restarts of the agent. Ends at SIGINT or\n"
        "SIGTERM, or when its output is closed.\n";
    struct watching watching = {0};
    const struct sigaction stop = {.sa_handler = on_stop};
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &watching.json}};

    int status = options_read(rows, 1, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (optind == argc) {
        cli_complain("watch: expected NAME...; see 'redlock watch --help'");
        return STATUS_USAGE;
    }
    (void) signal(SIGPIPE, SIG_IGN); /* see cli_flush_to_reader() */
    (void) sigaction(SIGINT, &stop, NULL);
    (void) sigaction(SIGTERM, &stop, NULL);
    return observe_all(cli, argv + optind, argc - optind, &watching);
}
