/* redlock whoami: the user as the agent knows it, the rule for a name, and what it allows. */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "listing.h"
#include "options.h"
#include "printable.h"

static void print_scalar(const struct resp_token *value) {
    if (value->type == RESP_INTEGER)
        (void) printf("%" PRId64, value->integer);
    else
        (void) fputs(printable_text(value->text, value->length), stdout);
}

/* "acquire resume observe" */
static void print_words(const struct resp_token *words) {
    const struct resp_token *word = words + 1;

    for (uint32_t i = 0; i < words->count; i++, word += listing_size(word)) {
        (void) fputs(i > 0 ? " " : "", stdout);
        print_scalar(word);
    }
    (void) putchar('\n');
}

/* A line for each quota: "quota              max_sessions: 1 of 4992" */
static void print_quotas(const struct resp_token *quotas) {
    const struct resp_token *key = quotas + 1;

    for (uint32_t i = 0; i < quotas->count; i++) {
        const struct resp_token *quota = key + 1;

        (void) printf("%-18s %s: ", "quota", printable_text(key->text, key->length));
        listing_print_use(quota, "use", "limit");
        (void) putchar('\n');
        key = quota + listing_size(quota);
    }
}

static void print_identity(const struct resp_token *map) {
    const struct resp_token *key = map + 1;

    for (uint32_t i = 0; i < map->count; i++) {
        const struct resp_token *value = key + 1;

        if (value->type == RESP_MAP) {
            print_quotas(value);
        } else {
            (void) printf("%-18s ", printable_text(key->text, key->length));
            if (value->type == RESP_ARRAY) {
                print_words(value);
            } else {
                print_scalar(value);
                (void) putchar('\n');
            }
        }
        key = value + listing_size(value);
    }
}

static void on_reply(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    const bool *json = userdata;

    (void) n_tokens;
    if (*json) {
        (void) json_value(stdout, tokens);
        (void) putchar('\n');
    } else if (tokens[0].type == RESP_MAP) {
        print_identity(tokens);
    }
}

int cli_whoami(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock whoami [--json] [NAME]\n"
        "The user and process that the agent takes you for, the rule of redlockd.conf(5) that counts for\n"
        "NAME (without NAME: for requests that concern no name), what it allows, its limits in ms, and\n"
        "what you have of the agent's quotas.\n";
    struct redlock *connection = NULL;
    bool json = false;
    struct client_reply reply = {.on_value = on_reply, .userdata = &json};
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &json}};

    int status = options_read(rows, 1, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    const char *name = optind < argc ? argv[optind] : NULL;
    const struct resp_token items[] = {{.text = "WHOAMI", .length = 6},
                                       {.text = name, .length = name ? strlen(name) : 0}};
    status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    int error = connection_ask(connection, items, name ? 2 : 1, &reply);
    if (error != REDLOCK_OK)
        status = cli_failed(connection, error, name ? name : "whoami");
    redlock_close(connection);
    return status;
}
