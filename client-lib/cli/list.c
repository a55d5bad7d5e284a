/* redlock status, nodes, leases, leader and check: what the agent and its nodes say, for people or as JSON.
 */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "connection.h"
#include "json.h"
#include "leadership.h"

enum { NUMBER_BYTES = 24 };

/* --- arguments and questions --- */

struct list {
    const struct cli *cli;
    bool json;
    int argc; /* of what is left after the options */
    char **argv;
    struct redlock *connection;
};

/* Reads --json and connects. 0; or 1 + the exit status to end with. */
static int list_begin(struct list *list, const struct cli *cli, int argc, char **argv, int arguments_max,
                      const char *usage) {
    static const struct option known[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    int option;

    *list = (struct list){.cli = cli};
    while ((option = cli_option(argc, argv, ":", known)) >= 0) {
        if (option == 'h') {
            (void) fputs(usage, stdout);
            return 1 + STATUS_DONE;
        }
        if (option != 'j')
            return 1 + STATUS_USAGE;
        list->json = true;
    }
    list->argc = argc - optind;
    list->argv = argv + optind;
    if (list->argc > arguments_max) {
        cli_complain("unexpected argument '%s'; 'redlock %s --help' tells more", list->argv[arguments_max],
                     argv[0]);
        return 1 + STATUS_USAGE;
    }
    int status = cli_connect(cli, &list->connection);
    return status == 0 ? 0 : 1 + status;
}

static int list_end(struct list *list, int status) {
    redlock_close(list->connection);
    if (fflush(stdout) != 0 && status == 0) {
        cli_complain("can't write to standard output");
        return STATUS_SYSTEM;
    }
    return status;
}

static int ask(struct list *list, const char *word, const char *option, const char *value,
               void (*on_value)(void *userdata, const struct resp_token *tokens, size_t n_tokens),
               void *userdata) {
    const struct resp_token items[] = {
        {.text = word, .length = strlen(word)},
        {.text = option, .length = option ? strlen(option) : 0},
        {.text = value, .length = value ? strlen(value) : 0},
    };
    struct client_reply reply = {.on_value = on_value, .userdata = userdata};

    int error = connection_ask(list->connection, items, option ? 3 : 1, &reply);
    return error == REDLOCK_OK ? STATUS_DONE : cli_failed(list->connection, error, word);
}

/* --- tokens --- */

/* The value of `key` in the map at `map`; NULL when it is not there. Maps here hold scalars only. */
static const struct resp_token *get(const struct resp_token *map, const char *key) {
    for (uint32_t i = 0; i < map->count; i++) {
        const struct resp_token *at = &map[1 + 2 * i];
        if (at->length == strlen(key) && memcmp(at->text, key, at->length) == 0)
            return at + 1;
    }
    return NULL;
}

static int64_t get_integer(const struct resp_token *map, const char *key) {
    const struct resp_token *value = get(map, key);
    return value && value->type == RESP_INTEGER ? value->integer : 0;
}

/* For printf's "%.*s"; names may hold any UTF-8 but no control characters. */
#define TEXT(map, key) \
    (get(map, key) ? (int) get(map, key)->length : 0), (get(map, key) ? get(map, key)->text : "")

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

    int status = list_begin(&list, cli, argc, argv, 0, usage);
    if (status != 0)
        return status - 1;
    return list_end(&list, ask(&list, "STATUS", NULL, NULL, list.json ? print_json : print_status, NULL));
}

/* --- nodes --- */

/* "0.24", "12", "1300": ms, from us; "-" when unknown. */
static const char *milliseconds(int64_t us, char buffer[NUMBER_BYTES]) {
    if (us <= 0)
        return "-";
    (void) snprintf(buffer, NUMBER_BYTES, us < 10000 ? "%.2f" : "%.0f", (double) us / 1000);
    return buffer;
}

enum { COLUMNS = 100 };

/* Indented, broken at blanks. */
static void print_wrapped(const char *text, size_t length) {
    while (length > 0) {
        size_t take = length;
        if (take > COLUMNS - 2) {
            for (take = COLUMNS - 2; take > 0 && text[take] != ' '; take--)
                ;
            if (take == 0)
                take = COLUMNS - 2;
        }
        (void) printf("  %.*s\n", (int) take, text);
        take += take < length && text[take] == ' ';
        text += take;
        length -= take;
    }
}

/* One line a node; below it why it does not vote, and until when. */
static void print_node(const struct resp_token *node) {
    char since[NUMBER_BYTES], p50[NUMBER_BYTES], p99[NUMBER_BYTES], until[NUMBER_BYTES];
    const struct resp_token *reason = get(node, "reason");

    (void) printf("%-12.*s %-11.*s %-8s %7s %7s %8" PRId64 "  %-8.*s %.*s\n", TEXT(node, "name"),
                  TEXT(node, "state"), duration(get_integer(node, "since"), since),
                  milliseconds(get_integer(node, "rtt_p50"), p50),
                  milliseconds(get_integer(node, "rtt_p99"), p99), get_integer(node, "clock"),
                  TEXT(node, "version"), TEXT(node, "address"));
    if (reason)
        print_wrapped(reason->text, reason->length);
    if (get(node, "until") && get_integer(node, "until") >= 0)
        (void) printf("  votes in %s\n", duration(get_integer(node, "until"), until));
}

static void print_nodes(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) printf("%-12s %-11s %-8s %7s %7s %8s  %-8s %s\n", "NODE", "STATE", "SINCE", "P50 ms", "P99 ms",
                  "CLOCK ms", "REDIS", "ADDRESS");
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += 1 + 2 * tokens[at].count)
        print_node(&tokens[at]);
}

/* An operator's word about one node. */
static int bless(const struct cli *cli, const char *node) {
    const struct resp_token items[] = {{.text = "BLESS", .length = 5},
                                       {.text = node, .length = strlen(node)}};
    struct client_reply reply = {0};
    struct redlock *connection = NULL;

    int status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    int error = connection_ask(connection, items, 2, &reply);
    if (error != REDLOCK_OK)
        status = cli_failed(connection, error, node);
    redlock_close(connection);
    return status;
}

int cli_nodes(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock nodes [--json]\nThe Redis nodes, since when they vote or not, why not, until when, the "
        "round\n"
        "trip of the last minutes, and how far its clock is ahead of the others'.\n"
        "\n"
        "redlock nodes --bless NODE\n"
        "Lets a quarantined node vote at once, on your word that it has forgotten no lease that may still "
        "be held:\n"
        "for the first nodes of a fleet, say. Wants root, or the agent's own user.\n";
    struct list list;

    if (argc == 3 && strcmp(argv[1], "--bless") == 0)
        return bless(cli, argv[2]);
    if (argc > 1 && strncmp(argv[1], "--bless", strlen("--bless")) == 0) {
        cli_complain("nodes: --bless wants NODE and nothing else; 'redlock nodes --help' tells more");
        return STATUS_USAGE;
    }

    int status = list_begin(&list, cli, argc, argv, 0, usage);
    if (status != 0)
        return status - 1;
    return list_end(&list, ask(&list, "NODES", NULL, NULL, list.json ? print_json : print_nodes, NULL));
}

/* --- leases --- */

struct leases {
    bool json;
    size_t printed;
    char last_id[NUMBER_BYTES]; /* of this page; "" when the page was empty */
};

static void print_lease(const struct resp_token *lease) {
    char age[NUMBER_BYTES], validity[NUMBER_BYTES];

    (void) printf("%-12" PRId64 " %-9.*s %7" PRId64 " %6" PRId64 " %9s %9s  %.*s\n",
                  get_integer(lease, "id"), TEXT(lease, "state"), get_integer(lease, "pid"),
                  get_integer(lease, "uid"), duration(get_integer(lease, "age"), age),
                  duration(get_integer(lease, "validity"), validity), TEXT(lease, "name"));
}

static void print_leases(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct leases *leases = userdata;

    leases->last_id[0] = '\0';
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += 1 + 2 * tokens[at].count) {
        (void) snprintf(leases->last_id, sizeof(leases->last_id), "%" PRId64,
                        get_integer(&tokens[at], "id"));
        if (!leases->json) {
            print_lease(&tokens[at]);
            continue;
        }
        if (leases->printed++ > 0)
            (void) fputs(",\n", stdout);
        (void) json_value(stdout, &tokens[at]);
    }
}

int cli_leases(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leases [--json]\nThe leases held and awaited by processes of this host.\n";
    struct leases leases = {.last_id = "0"};
    struct list list;

    int status = list_begin(&list, cli, argc, argv, 0, usage);
    if (status != 0)
        return status - 1;
    leases.json = list.json;
    if (leases.json)
        (void) putchar('[');
    else
        (void) printf("%-12s %-9s %7s %6s %9s %9s  %s\n", "ID", "STATE", "PID", "UID", "AGE", "VALIDITY",
                      "NAME");
    status = ask(&list, "LEASES", NULL, NULL, print_leases, &leases);
    while (status == 0 && leases.last_id[0] != '\0') {
        char after[NUMBER_BYTES];
        memcpy(after, leases.last_id, sizeof(after));
        status = ask(&list, "LEASES", "AFTER", after, print_leases, &leases);
    }
    if (leases.json)
        (void) puts("]");
    return list_end(&list, status);
}

/* --- leader, check --- */

struct answer {
    const char *name;
    bool json, held;
};

static void print_leader(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct answer *answer = userdata;

    (void) n_tokens;
    answer->held = tokens[0].type == RESP_MAP;
    if (!answer->held) {
        (void) puts(answer->json ? "null" : "nobody");
        return;
    }
    const struct resp_token *holder = get(tokens, "holder"), *host = get(tokens, "host"),
                            *data = get(tokens, "data"), *type = get(tokens, "type");
    struct leadership leadership = {.name = answer->name,
                                    .holder = holder ? holder->text : "",
                                    .holder_length = holder ? holder->length : 0,
                                    .host = host ? host->text : "",
                                    .host_length = host ? host->length : 0,
                                    .data = data ? data->text : "",
                                    .data_length = data ? data->length : 0,
                                    .type = type ? type->text : "",
                                    .type_length = type ? type->length : 0,
                                    .fence = (uint64_t) get_integer(tokens, "fence"),
                                    .since_us = -1,
                                    .validity_ms = get_integer(tokens, "validity")};
    leadership_print(&leadership, answer->json);
}

/* 0 held, 1 free, or another exit status, told. */
static int show_leader(struct list *list, const char *name) {
    const struct resp_token items[] = {{.text = "LEADER", .length = 6},
                                       {.text = name, .length = strlen(name)}};
    struct answer answer = {.name = name, .json = list->json};
    struct client_reply reply = {.on_value = print_leader, .userdata = &answer};

    int error = connection_ask(list->connection, items, 2, &reply);
    if (error != REDLOCK_OK)
        return cli_failed(list->connection, error, name);
    return answer.held ? STATUS_DONE : STATUS_HELD;
}

int cli_leader(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock leader [--json] NAME\n"
        "Who holds NAME, on whichever host, as a majority of the nodes says: host:agent:pid, the host, the\n"
        "fencing token, since when, the time left unless it is extended, and its data. Exit status 1 when\n"
        "nobody does.\n";
    struct list list;

    int status = list_begin(&list, cli, argc, argv, 1, usage);
    if (status != 0)
        return status - 1;
    if (list.argc != 1) {
        cli_complain("expected NAME; 'redlock leader --help' tells more");
        return list_end(&list, STATUS_USAGE);
    }
    return list_end(&list, show_leader(&list, list.argv[0]));
}

struct quorum {
    int64_t nodes, needed, voting;
};

static void take_quorum(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct quorum *quorum = userdata;

    (void) n_tokens;
    if (tokens[0].type != RESP_MAP)
        return;
    quorum->nodes = get_integer(tokens, "nodes");
    quorum->needed = get_integer(tokens, "quorum");
    quorum->voting = get_integer(tokens, "voting");
}

int cli_check(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock check [NAME]\n"
        "Without NAME: exit status 0 when the agent is there and a quorum of its nodes votes, else 69 or "
        "75.\n"
        "With NAME: 0 when somebody holds it (and prints who), 1 when nobody does.\n";
    struct quorum quorum = {0};
    struct list list;

    int status = list_begin(&list, cli, argc, argv, 1, usage);
    if (status != 0)
        return status - 1;
    if (list.argc == 1)
        return list_end(&list, show_leader(&list, list.argv[0]));
    status = ask(&list, "STATUS", NULL, NULL, take_quorum, &quorum);
    if (status != 0)
        return list_end(&list, status);
    bool enough = quorum.needed > 0 && quorum.voting >= quorum.needed;
    if (list.json)
        (void) printf("{\"nodes\":%" PRId64 ",\"quorum\":%" PRId64 ",\"voting\":%" PRId64 "}\n",
                      quorum.nodes, quorum.needed, quorum.voting);
    else
        (void) printf("%" PRId64 " of %" PRId64 " nodes vote, %" PRId64 " are needed\n", quorum.voting,
                      quorum.nodes, quorum.needed);
    return list_end(&list, enough ? STATUS_DONE : STATUS_NO_QUORUM);
}
