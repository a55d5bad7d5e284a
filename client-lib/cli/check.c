/* redlock check: acquires a lease to test agent and nodes; or checks that NAME is held, by a given lease. */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli.h"
#include "leadership.h"
#include "listing.h"
#include "options.h"

static const char usage[] =
    "redlock check [--timeout TIME] [--lease NAME] [--json]\n"
    "Acquires and releases a lease of its own, redlock-check:HOST or NAME. Exit status: 0 this works,\n"
    "69 no agent, 75 no quorum, 77 denied.\n"
    "\n"
    "redlock check [--id ID] [--fence TOKEN] [--timeout TIME] [--json] NAME\n"
    "Prints the holder of NAME on any host. Exit status: 0 NAME is held, 1 it is not. With --fence\n"
    "only the lease with that token counts, with --id only the lease of this host with that id.\n"
    "\n"
    "  -w, --timeout TIME   take no longer: exit with 69 (10s)\n";

enum { WAIT_MS = 1000, NAME_BYTES = 512 };

struct check {
    struct redlock *connection;
    uint64_t id, fence; /* 0: any */
    const char *lease;  /* to acquire; NULL: redlock-check:HOST */
    bool json;
    int64_t timeout_ms; /* -1: none */
};

/* --- arguments --- */

/* 0; or 1 + the exit status to end with. */
static int read_arguments(struct check *check, int argc, char **argv) {
    const struct options_row rows[] = {
        {"json", 0, OPTIONS_FLAG, &check->json},
        {"id", 0, OPTIONS_NUMBER, &check->id},
        {"fence", 0, OPTIONS_TOKEN, &check->fence},
        {"lease", 0, OPTIONS_TEXT, &check->lease},
        {"wait", 'w', OPTIONS_DURATION, &check->timeout_ms},
        {"timeout", 0, OPTIONS_DURATION, &check->timeout_ms},
    };

    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), true, usage, argc, argv);
    if (status != 0)
        return status;
    if (check->timeout_ms == 0) {
        cli_complain("--timeout 0: expected a time above 0, such as 10s");
        return 1 + STATUS_USAGE;
    }
    if (!options_end(argc, argv, 1))
        return 1 + STATUS_USAGE;
    if ((check->id != 0 || check->fence != 0) && optind == argc) {
        cli_complain("check: --id and --fence want NAME; see 'redlock check --help'");
        return 1 + STATUS_USAGE;
    }
    if (check->lease && optind < argc) {
        cli_complain("check: expected either NAME or --lease NAME; see 'redlock check --help'");
        return 1 + STATUS_USAGE;
    }
    return 0;
}

/* --- the time-out --- */

static char timed_out[128];

/* For the connection and for each answer. */
static void on_alarm(int number) {
    ssize_t n = write(STDERR_FILENO, timed_out, strlen(timed_out));

    (void) number;
    (void) n;
    _exit(STATUS_NO_AGENT);
}

static void start_timeout(int64_t timeout_ms) {
    const struct itimerval timer = {
        .it_value = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000}};
    const struct sigaction action = {.sa_handler = on_alarm};

    if (timeout_ms < 0)
        return;
    (void) snprintf(timed_out, sizeof(timed_out),
                    "redlock: check: no answer within %" PRId64
                    " ms: the agent is stopped, stuck or overloaded\n",
                    timeout_ms);
    (void) sigaction(SIGALRM, &action, NULL);
    (void) setitimer(ITIMER_REAL, &timer, NULL);
}

/* --- a lease of its own --- */

struct quorum {
    int64_t nodes, needed, voting;
    char host[256];
};

static void take_quorum(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct quorum *quorum = userdata;
    const struct resp_token *host = listing_get_text(tokens, "host");

    (void) n_tokens;
    quorum->nodes = listing_integer(tokens, "nodes");
    quorum->needed = listing_integer(tokens, "quorum");
    quorum->voting = listing_integer(tokens, "voting");
    (void) snprintf(quorum->host, sizeof(quorum->host), "%.*s", host ? (int) host->length : 0,
                    host ? host->text : "");
}

/* While no agent comes back, a lease expires and counts as lost, and the time of a request passes: then the
 * connection shows that the agent is away. */
static int unless_away(struct redlock *connection, int error) {
    int state = redlock_dispatch(connection);

    return state == REDLOCK_OK ? error : state;
}

/* An enum redlock_error. */
static int release(struct redlock *connection, struct redlock_lease *lease) {
    int released = redlock_release(lease);

    if (released == 0)
        return unless_away(connection, REDLOCK_LOST);
    return released < 0 ? released : REDLOCK_OK;
}

/* `ret_ms`: the duration. A time-out means that another check holds the lease, or that the name of --lease
 * is held, which proves a quorum as well. */
static int try_lease(struct check *check, const char *name, int64_t *ret_ms, bool *ret_held) {
    struct redlock_options options = {.size = sizeof(options), .wait_ms = WAIT_MS};
    struct redlock *connection = check->connection;
    struct redlock_lease *lease = NULL;
    int64_t begun_ns = cli_now_ns();

    if (check->timeout_ms >= 0 && check->timeout_ms / 2 < WAIT_MS)
        options.wait_ms = check->timeout_ms / 2; /* a held name is known only then */

    int error = redlock_acquire(connection, name, &options, &lease);
    if (error == REDLOCK_OK)
        error = release(connection, lease);
    else if (error == REDLOCK_TIMED_OUT)
        error = unless_away(connection, error);
    *ret_ms = (cli_now_ns() - begun_ns) / NS_PER_MS;
    *ret_held = error == REDLOCK_TIMED_OUT;
    if (error == REDLOCK_OK || error == REDLOCK_TIMED_OUT)
        return STATUS_DONE;
    return cli_failed(connection, error, name);
}

static int check_all(struct check *check) {
    struct quorum quorum = {0};
    char name[NAME_BYTES];
    int64_t took_ms = 0;
    bool is_held = false;

    int status = listing_ask(check->connection, "STATUS", LISTING_MAP, take_quorum, &quorum);
    if (status != STATUS_DONE)
        return status;
    (void) snprintf(name, sizeof(name), "redlock-check:%s", quorum.host);
    bool votes = quorum.voting >= quorum.needed;
    status = try_lease(check, check->lease ? check->lease : name, &took_ms, &is_held);
    if (status == STATUS_USAGE)
        return status;
    if (check->json)
        (void) printf("{\"nodes\":%" PRId64 ",\"quorum\":%" PRId64 ",\"voting\":%" PRId64
                      ",\"works\":%s,\"took\":%" PRId64 "}\n",
                      quorum.nodes, quorum.needed, quorum.voting, status == STATUS_DONE ? "true" : "false",
                      took_ms);
    else
        (void) printf("%" PRId64 " of %" PRId64 " nodes vote, %" PRId64 " %s needed%s\n", quorum.voting,
                      quorum.nodes, quorum.needed, quorum.needed == 1 ? "is" : "are",
                      status != STATUS_DONE ? ""
                      : is_held && !votes   ? "; the lease is still held"
                      : is_held             ? "; the lease is held, so a majority of them answers"
                                            : "; a lease was acquired and released");
    return status;
}

/* --- whether a name is held --- */

struct search {
    struct listing_choice wanted;
    bool found;
    uint64_t other_fence; /* of a valid lease of this host with this name; 0: none */
};

static void find_lease(void *userdata, const struct resp_token *lease) {
    struct search *search = userdata;
    const struct listing_choice any = {.name = search->wanted.name};

    if (listing_is_chosen(&search->wanted, lease))
        search->found = true;
    else if (listing_is_chosen(&any, lease))
        search->other_fence = (uint64_t) listing_integer(lease, "fence");
}

/* Of a lease that this host does not list: it is another host's, another user's, or has ended. */
static int check_token(uint64_t wanted, const char *name, const struct leadership_facts *facts,
                       uint64_t other_fence) {
    uint64_t fence = other_fence != 0 ? other_fence : facts->fence;

    if (fence == wanted)
        return STATUS_DONE;
    if (fence != 0) {
        cli_complain("%s: held by the lease with token %" PRIu64 ", not %" PRIu64, name, fence, wanted);
        return STATUS_HELD;
    }
    if (!facts->is_agents) {
        cli_complain("%s: held by a lock of another program, which has no token", name);
        return STATUS_HELD;
    }
    cli_complain("%s: held, but no majority of the nodes shows its token", name);
    return STATUS_NO_QUORUM;
}

static int check_name(struct check *check, const char *name) {
    struct search search = {.wanted = {.id = check->id, .fence = check->fence, .name = name}};
    struct leadership_facts facts = {0};

    int status = leadership_show(check->connection, name, check->json, &facts);
    if (status != STATUS_DONE || (check->id == 0 && check->fence == 0))
        return status;
    /* The agent knows the tokens of its own leases. Just after a hand-off the nodes show the former
     * holder's, and after a loss of data none. */
    status = listing_leases(check->connection, find_lease, &search);
    if (status != STATUS_DONE || search.found)
        return status;
    if (facts.cooling_ms > 0) {
        cli_complain("%s: not held: the last lease has ended, and the name is kept for %" PRId64 " ms more",
                     name, facts.cooling_ms);
        return STATUS_HELD;
    }
    status = check->fence == 0 ? STATUS_DONE : check_token(check->fence, name, &facts, search.other_fence);
    if (status != STATUS_DONE || check->id == 0)
        return status;
    cli_complain("%s: held by another lease, or lease %" PRIu64 " is another user's", name, check->id);
    return STATUS_HELD;
}

int cli_check(const struct cli *cli, int argc, char **argv) {
    struct check check = {.timeout_ms = -1};

    int status = read_arguments(&check, argc, argv);
    if (status != 0)
        return status - 1;
    start_timeout(check.timeout_ms);
    status = cli_connect(cli, &check.connection);
    if (status != STATUS_DONE)
        return status;
    status = optind < argc ? check_name(&check, argv[optind]) : check_all(&check);
    redlock_close(check.connection);
    return status;
}
