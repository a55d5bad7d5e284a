/* redlock status, metrics, nodes, leases and leader: the state of the agent and of its nodes, as text or
 * JSON. */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bless.h"
#include "cli.h"
#include "duration.h"
#include "json.h"
#include "leadership.h"
#include "listing.h"
#include "options.h"
#include "printable.h"
#include "utf8.h"

/* --- arguments and questions --- */

struct list {
    bool json;
    struct redlock *connection;
};

/* Reads --json and connects. 0; or 1 + the exit status to end with. */
static int list_begin(struct list *list, const struct cli *cli, int argc, char **argv, const char *usage) {
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &list->json}};

    *list = (struct list){0};
    int status = options_read(rows, 1, true, usage, argc, argv);
    if (status != 0)
        return status;
    if (!options_end(argc, argv, 0))
        return 1 + STATUS_USAGE;
    status = cli_connect(cli, &list->connection);
    return status == 0 ? 0 : 1 + status;
}

static int list_end(struct list *list, int status) {
    redlock_close(list->connection);
    return status;
}

/* --- status --- */

int cli_status(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock status [--json]\n"
        "The agent's state and numbers, times in ms; what you and all users have of each quota, of which\n"
        "limit; and, for those who may list it, what each user has.\n";
    struct list list;

    int status = list_begin(&list, cli, argc, argv, usage);
    if (status != 0)
        return status - 1;
    return list_end(&list, listing_ask(list.connection, "STATUS", LISTING_MAP,
                                       list.json ? listing_print_json : listing_print_map, NULL));
}

/* --- metrics --- */

static void print_text(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) n_tokens;
    (void) fwrite(tokens[0].text, 1, tokens[0].length, stdout);
}

int cli_metrics(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock metrics\nThe agent's numbers as OpenMetrics text, which Prometheus and others read.\n";
    struct redlock *connection = NULL;

    int status = options_read(NULL, 0, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 0))
        return STATUS_USAGE;
    status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    status = listing_ask(connection, "METRICS", LISTING_TEXT, print_text, NULL);
    redlock_close(connection);
    return status;
}

/* --- nodes --- */

enum { COLUMNS_MIN = 20, COLUMNS_USUAL = 100, NAME_COLUMNS_MIN = 12, NAME_COLUMNS_MAX = 64 };

/* Of the terminal, or of $COLUMNS. */
static size_t columns(void) {
    const char *text = getenv("COLUMNS");
    struct winsize size;
    long number = text ? strtol(text, NULL, 10) : 0;

    if (number == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        number = size.ws_col;
    return number >= COLUMNS_MIN && number <= INT16_MAX ? (size_t) number : COLUMNS_USUAL;
}

/* The bytes of a line: as many words as have room, but at least one. */
static size_t line_length(const char *text, size_t length, size_t room) {
    size_t end = length, used = 0;

    for (size_t at = 0; at < length; at += utf8_sequence(text + at, length - at), used++) {
        if (used > room && end < length)
            return end;
        if (text[at] == ' ')
            end = at;
    }
    return used > room ? end : length;
}

/* Indented, broken at blanks only. */
static void print_wrapped(const struct resp_token *value) {
    const char *text = printable_text(value->text, value->length);
    size_t room = columns() - 2, length = strlen(text);

    while (length > 0) {
        size_t take = line_length(text, length, room);
        (void) printf("  %.*s\n", (int) take, text);
        take += take < length && text[take] == ' ';
        text += take;
        length -= take;
    }
}

/* A line for each node; below it the reason and the end of its quarantine or failure. */
static void print_node(const struct resp_token *node, int name_columns) {
    char since[DURATION_BYTES], p50[DURATION_BYTES], p99[DURATION_BYTES], until[DURATION_BYTES];
    const struct resp_token *reason = listing_get_text(node, "reason"),
                            *differs = listing_get_text(node, "differs"), *end = listing_get(node, "until");

    (void) printf(
        "%-*s %-11s %-8s %7s %7s %8" PRId64 "  %-8s %s\n", name_columns, listing_text(node, "name"),
        listing_text(node, "state"), duration_text(listing_integer(node, "since"), since),
        duration_milliseconds(listing_integer(node, "rtt_p50"), p50),
        duration_milliseconds(listing_integer(node, "rtt_p99"), p99), listing_integer(node, "clock"),
        listing_text(node, "version"), listing_text(node, "address"));
    if (reason)
        print_wrapped(reason);
    if (end && end->type == RESP_INTEGER && end->integer >= 0)
        (void) printf("  votes in %s\n", duration_text(end->integer, until));
    if (differs)
        print_wrapped(differs);
}

static void print_nodes(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct listing_items to_measure = listing_items(tokens), to_print = to_measure;
    size_t name_columns = NAME_COLUMNS_MIN;

    (void) userdata;
    (void) n_tokens;
    for (const struct resp_token *node; (node = listing_next(&to_measure));) {
        const struct resp_token *name = listing_get_text(node, "name");
        if (name && name->length > name_columns)
            name_columns = name->length < NAME_COLUMNS_MAX ? name->length : NAME_COLUMNS_MAX;
    }
    (void) printf("%-*s %-11s %-8s %7s %7s %8s  %-8s %s\n", (int) name_columns, "NODE", "STATE", "SINCE",
                  "P50 ms", "P99 ms", "CLOCK ms", "REDIS", "ADDRESS");
    for (const struct resp_token *node; (node = listing_next(&to_print));)
        print_node(node, (int) name_columns);
}

int cli_nodes(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock nodes [--json]\n"
        "The Redis nodes: whether each votes and since when, if not why and until when, the round trip\n"
        "of the last minutes, and how far the node's clock is ahead of the others'.\n"
        "\n"
        "redlock nodes --bless NODE...\n"
        "Makes quarantined nodes vote at once. Safe only if they have lost no lease that may still be\n"
        "held: for example the first nodes of a fleet. A node of agents with another set of nodes\n"
        "becomes this agent's: safe only if these agents have stopped. Needs root, the agent's own user,\n"
        "or the right 'bless'. Exits with 75 and a line for each of these nodes that does not vote within\n"
        "2 seconds.\n";
    struct list list = {0};
    bool blesses = false;
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &list.json},
                                       {"bless", 0, OPTIONS_FLAG, &blesses}};

    int status = options_read(rows, 2, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (blesses && list.json) {
        cli_complain("nodes: expected either --bless or --json; see 'redlock nodes --help'");
        return STATUS_USAGE;
    }
    if (blesses && optind == argc) {
        cli_complain("nodes: --bless wants NODE...; see 'redlock nodes --help'");
        return STATUS_USAGE;
    }
    if (blesses)
        return bless_nodes(cli, argv + optind, argc - optind);
    if (!options_end(argc, argv, 0))
        return STATUS_USAGE;
    status = cli_connect(cli, &list.connection);
    if (status != STATUS_DONE)
        return status;
    return list_end(&list, listing_ask(list.connection, "NODES", LISTING_MAPS,
                                       list.json ? listing_print_json : print_nodes, NULL));
}

/* --- leases --- */

struct leases {
    bool json;
    size_t printed;
};

static void print_lease(void *userdata, const struct resp_token *lease) {
    struct leases *leases = userdata;
    char age[DURATION_BYTES], left[DURATION_BYTES];

    if (leases->json) {
        if (leases->printed++ > 0)
            (void) fputs(",\n", stdout);
        (void) json_value(stdout, lease);
        return;
    }
    bool cools = listing_is(lease, "state", "cooling");
    (void) printf("%-12" PRId64 " %-9s %7" PRId64 " %6" PRId64 " %9s %9s  %s\n",
                  listing_integer(lease, "id"), listing_text(lease, "state"), listing_integer(lease, "pid"),
                  listing_integer(lease, "uid"), duration_text(listing_integer(lease, "age"), age),
                  duration_text(listing_integer(lease, cools ? "cooldown" : "validity"), left),
                  listing_text(lease, "name"));
}

int cli_leases(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leases [--json]\n"
        "The leases that processes of this host hold or wait for, and ended ones whose name cools down\n"
        "(run --min-hold). LEFT: until the lease ends if not extended, or until the cooldown is over.\n";
    struct leases leases = {0};
    struct list list;

    int status = list_begin(&list, cli, argc, argv, usage);
    if (status != 0)
        return status - 1;
    leases.json = list.json;
    if (leases.json)
        (void) putchar('[');
    else
        (void) printf("%-12s %-9s %7s %6s %9s %9s  %s\n", "ID", "STATE", "PID", "UID", "AGE", "LEFT",
                      "NAME");
    status = listing_leases(list.connection, print_lease, &leases);
    if (leases.json)
        (void) puts("]");
    return list_end(&list, status);
}

/* --- leader --- */

int cli_leader(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leader [--json] NAME\n"
        "The holder of NAME on any host, as a majority of the nodes reports it: host:agent:pid, the host,\n"
        "the fencing token, since when, the time left if not extended, and the data. Exit status 1: NAME\n"
        "is free.\n";
    struct list list = {0};
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &list.json}};

    int status = options_read(rows, 1, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (optind == argc) {
        cli_complain("leader: expected NAME; see 'redlock leader --help'");
        return STATUS_USAGE;
    }
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    status = cli_connect(cli, &list.connection);
    if (status != STATUS_DONE)
        return status;
    return list_end(&list, leadership_show(list.connection, argv[optind], list.json, NULL));
}
