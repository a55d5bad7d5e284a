#include "bless.h"

#include <string.h>

#include "listing.h"

/* An agent blesses a connected node within a few round trips, and drops the blessing of another one. */
enum { WAIT_MS = 2000, POLL_MS = 50 };

/* The agent's text names a command of the protocol. */
static int bless_failed(struct redlock *connection, int error, const char *name) {
    static const char unknown[] = "no node has this name";

    if (error != REDLOCK_BAD_ARGUMENT ||
        strncmp(redlock_error_text(connection), unknown, sizeof(unknown) - 1) != 0)
        return cli_failed(connection, error, name);
    cli_complain("%s: not blessed: %s; 'redlock nodes' lists them", name, unknown);
    return STATUS_USAGE;
}

static int bless_node(struct redlock *connection, const char *name) {
    int error =
        listing_request(connection, (const char *const[]){"BLESS", name, NULL}, LISTING_OK, NULL, NULL);

    return error == REDLOCK_OK ? STATUS_DONE : bless_failed(connection, error, name);
}

/* The blessed nodes that were not seen voting. */
struct awaited {
    char **names; /* NULL: another node */
    int n_names;
    int count;    /* in the last list */
    bool reports; /* them */
};

static void complain(const struct resp_token *node) {
    const char *state = listing_text(node, "state"), *reason = listing_text(node, "reason");

    cli_complain("node %s is still %s%s%s: the blessing may have had no effect: repeat it %s",
                 listing_text(node, "name"), state, reason[0] ? ": " : "", reason,
                 strcmp(state, "quarantined") == 0 ? "now" : "when 'redlock nodes' shows quarantined");
}

static void on_node(struct awaited *awaited, const struct resp_token *node) {
    bool votes = listing_is(node, "state", "voting"), waits = false;

    for (int i = 0; i < awaited->n_names; i++) {
        if (!awaited->names[i] || !listing_is(node, "name", awaited->names[i]))
            continue;
        waits = !votes;
        if (votes)
            awaited->names[i] = NULL;
    }
    awaited->count += waits;
    if (waits && awaited->reports)
        complain(node);
}

static void on_nodes(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct listing_items nodes = listing_items(tokens);

    (void) n_tokens;
    for (const struct resp_token *node; (node = listing_next(&nodes));)
        on_node(userdata, node);
}

static int wait_for_votes(struct redlock *connection, char **names, int n_names) {
    struct awaited awaited = {.names = names, .n_names = n_names};
    int64_t until_ns = cli_now_ns() + WAIT_MS * NS_PER_MS;

    for (;;) {
        awaited.count = 0;
        awaited.reports = cli_now_ns() >= until_ns;
        int status = listing_ask(connection, "NODES", LISTING_MAPS, on_nodes, &awaited);
        if (status != STATUS_DONE || awaited.count == 0)
            return status;
        if (awaited.reports)
            return STATUS_NO_QUORUM;
        (void) cli_poll(NULL, 0, cli_now_ns() + POLL_MS * NS_PER_MS);
    }
}

int bless_nodes(const struct cli *cli, char **names, int n_names) {
    struct redlock *connection = NULL;
    int blessed = 0, status = cli_connect(cli, &connection);

    if (status != STATUS_DONE)
        return status;
    for (int i = 0; i < n_names; i++) {
        int failure = bless_node(connection, names[i]);
        status = status == STATUS_DONE ? failure : status;
        if (failure == STATUS_DONE)
            blessed++;
        else
            names[i] = NULL;
    }
    if (blessed > 0) {
        int failure = wait_for_votes(connection, names, n_names);
        status = status == STATUS_DONE ? failure : status;
    }
    redlock_close(connection);
    return status;
}
