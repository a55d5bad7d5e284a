/* redlock status, nodes, leases and leader: the state of the agent and of its nodes, as text or JSON. */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "leadership.h"
#include "listing.h"
#include "options.h"
#include "utf8.h"

enum { NUMBER_BYTES = 24 };

/* --- arguments and questions --- */

struct list {
    bool json;
    struct listing listing;
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
    status = cli_connect(cli, &list->listing.connection);
    return status == 0 ? 0 : 1 + status;
}

static int list_end(struct list *list, int status) {
    redlock_close(list->listing.connection);
    return status;
}

/* --- tokens --- */

/* For printf's "%.*s"; names may hold any UTF-8 but no control characters. */
#define TEXT(map, key)                                                 \
    (listing_get(map, key) ? (int) listing_get(map, key)->length : 0), \
        (listing_get(map, key) ? listing_get(map, key)->text : "")

static void print_json(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) n_tokens;
    (void) json_value(stdout, tokens);
    (void) putchar('\n');
}

/* "250 ms", "12.3 s", "4 min", "3 h", "2 d" */
static const char *duration(int64_t ms, char buffer[NUMBER_BYTES]) {
    if (ms < 1000)
        (void) snprintf(buffer, NUMBER_BYTES, "%" PRId64 " ms", ms);
    else if (ms < 120 * 1000)
        (void) snprintf(buffer, NUMBER_BYTES, "%.1f s", (double) ms / 1000);
    else if (ms < 120 * 60 * 1000)
        (void) snprintf(buffer, NUMBER_BYTES, "%" PRId64 " min", ms / 60000);
    else if (ms < INT64_C(48) * 3600 * 1000)
        (void) snprintf(buffer, NUMBER_BYTES, "%" PRId64 " h", ms / 3600000);
    else
        (void) snprintf(buffer, NUMBER_BYTES, "%" PRId64 " d", ms / 86400000);
    return buffer;
}

/* --- status --- */

static void print_status(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) n_tokens;
    if (tokens[0].type != RESP_MAP)
        return;
    for (uint32_t i = 0; i < tokens[0].count; i++) {
        const struct resp_token *key = &tokens[1 + 2 * i], *value = key + 1;
        (void) printf("%-18.*s ", (int) key->length, key->text);
        if (value->type == RESP_INTEGER)
            (void) printf("%" PRId64 "\n", value->integer);
        else
            (void) printf("%.*s\n", (int) value->length, value->text);
    }
}

int cli_status(const struct cli *cli, int argc, char **argv) {
    static const char usage[] = "redlock status [--json]\nThe agent's state and numbers; times in ms.\n";
    struct list list;

    int status = list_begin(&list, cli, argc, argv, usage);
    if (status != 0)
        return status - 1;
    return list_end(&list, listing_ask(&list.listing, "STATUS", NULL, NULL,
                                       list.json ? print_json : print_status, NULL));
}

/* --- nodes --- */

/* Microseconds as ms: "0.24", "12", "1300"; "-" when unknown. */
static const char *milliseconds(int64_t us, char buffer[NUMBER_BYTES]) {
    if (us <= 0)
        return "-";
    (void) snprintf(buffer, NUMBER_BYTES, us < 10000 ? "%.2f" : "%.0f", (double) us / 1000);
    return buffer;
}

enum { COLUMNS_MIN = 20, COLUMNS_USUAL = 100, NAME_COLUMNS_MIN = 12 };

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
static void print_wrapped(const char *text, size_t length) {
    size_t room = columns() - 2;

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
    char since[NUMBER_BYTES], p50[NUMBER_BYTES], p99[NUMBER_BYTES], until[NUMBER_BYTES];
    const struct resp_token *reason = listing_get(node, "reason"), *differs = listing_get(node, "differs");

    (void) printf("%-*.*s %-11.*s %-8s %7s %7s %8" PRId64 "  %-8.*s %.*s\n", name_columns,
                  TEXT(node, "name"), TEXT(node, "state"), duration(listing_integer(node, "since"), since),
                  milliseconds(listing_integer(node, "rtt_p50"), p50),
                  milliseconds(listing_integer(node, "rtt_p99"), p99), listing_integer(node, "clock"),
                  TEXT(node, "version"), TEXT(node, "address"));
    if (reason)
        print_wrapped(reason->text, reason->length);
    if (listing_get(node, "until") && listing_integer(node, "until") >= 0)
        (void) printf("  votes in %s\n", duration(listing_integer(node, "until"), until));
    if (differs)
        print_wrapped(differs->text, differs->length);
}

static void print_nodes(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    int name_columns = NAME_COLUMNS_MIN;

    (void) userdata;
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += 1 + 2 * tokens[at].count) {
        const struct resp_token *name = listing_get(&tokens[at], "name");
        if (name && (int) name->length > name_columns)
            name_columns = (int) name->length;
    }
    (void) printf("%-*s %-11s %-8s %7s %7s %8s  %-8s %s\n", name_columns, "NODE", "STATE", "SINCE", "P50 ms",
                  "P99 ms", "CLOCK ms", "REDIS", "ADDRESS");
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += 1 + 2 * tokens[at].count)
        print_node(&tokens[at], name_columns);
}

/* The agent's text names a command of the protocol. */
static int bless_failed(struct redlock *connection, int error, const char *node) {
    static const char unknown[] = "no node has this name";

    if (error != REDLOCK_BAD_ARGUMENT ||
        strncmp(redlock_error_text(connection), unknown, sizeof(unknown) - 1) != 0)
        return cli_failed(connection, error, node);
    cli_complain("%s: not blessed: %s; 'redlock nodes' lists them", node, unknown);
    return STATUS_USAGE;
}

/* An operator's word about these nodes. The first failure counts. */
static int bless(const struct cli *cli, char **nodes, int n_nodes) {
    struct redlock *connection = NULL;

    int status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    for (int i = 0; i < n_nodes; i++) {
        const struct resp_token items[] = {{.text = "BLESS", .length = 5},
                                           {.text = nodes[i], .length = strlen(nodes[i])}};
        struct client_reply reply = {0};
        int error = connection_ask(connection, items, 2, &reply);
        int failure = error == REDLOCK_OK ? STATUS_DONE : bless_failed(connection, error, nodes[i]);
        status = status == STATUS_DONE ? failure : status;
    }
    redlock_close(connection);
    return status;
}

int cli_nodes(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock nodes [--json]\nThe Redis nodes, since when they vote or not, why not, until when, the "
        "round\n"
        "trip of the last minutes, and how far its clock is ahead of the others'.\n"
        "\n"
        "redlock nodes --bless NODE...\n"
        "Lets quarantined nodes vote at once, on your word that they have forgotten no lease that may still "
        "be held:\n"
        "for the first nodes of a fleet, say. Makes a node this agent's that belongs to agents with other "
        "nodes,\n"
        "on your word that these have ended. Wants root, or the agent's own user.\n";
    struct list list = {0};
    bool blesses = false;
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &list.json},
                                       {"bless", 0, OPTIONS_FLAG, &blesses}};

    int status = options_read(rows, 2, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (blesses && optind == argc) {
        cli_complain("nodes: --bless wants NODE...; see 'redlock nodes --help'");
        return STATUS_USAGE;
    }
    if (blesses)
        return bless(cli, argv + optind, argc - optind);
    if (!options_end(argc, argv, 0))
        return STATUS_USAGE;
    status = cli_connect(cli, &list.listing.connection);
    if (status != STATUS_DONE)
        return status;
    return list_end(
        &list, listing_ask(&list.listing, "NODES", NULL, NULL, list.json ? print_json : print_nodes, NULL));
}

/* --- leases --- */

struct leases {
    bool json;
    size_t printed;
};

static void print_lease(void *userdata, const struct resp_token *lease) {
    struct leases *leases = userdata;
    char age[NUMBER_BYTES], left[NUMBER_BYTES];

    if (leases->json) {
        if (leases->printed++ > 0)
            (void) fputs(",\n", stdout);
        (void) json_value(stdout, lease);
        return;
    }
    const struct resp_token *state = listing_get(lease, "state");
    bool cools = state && state->length == 7 && memcmp(state->text, "cooling", 7) == 0;
    (void) printf("%-12" PRId64 " %-9.*s %7" PRId64 " %6" PRId64 " %9s %9s  %.*s\n",
                  listing_integer(lease, "id"), TEXT(lease, "state"), listing_integer(lease, "pid"),
                  listing_integer(lease, "uid"), duration(listing_integer(lease, "age"), age),
                  duration(listing_integer(lease, cools ? "cooldown" : "validity"), left),
                  TEXT(lease, "name"));
}

int cli_leases(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leases [--json]\n"
        "The leases held and awaited by processes of this host, and those that have ended while their name "
        "cools\n"
        "(run --min-hold). LEFT: until the lease ends unless it is extended, or until the name has "
        "cooled.\n";
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
    status = listing_leases(&list.listing, print_lease, &leases);
    if (leases.json)
        (void) puts("]");
    return list_end(&list, status);
}

/* --- leader --- */

int cli_leader(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leader [--json] NAME\n"
        "Who holds NAME, on whichever host, as a majority of the nodes says: host:agent:pid, the host, the\n"
        "fencing token, since when, the time left unless it is extended, and its data. Exit status 1 when\n"
        "nobody does.\n";
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
    status = cli_connect(cli, &list.listing.connection);
    if (status != STATUS_DONE)
        return status;
    return list_end(&list, leadership_show(list.listing.connection, argv[optind], list.json, NULL));
}
