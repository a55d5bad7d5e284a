/* bench renew LEASES TTL-MS NODE...: the floor of extension. Acquires leases, and extends them by the
 * agent's script, 64 keys a call, all at once, on all nodes at the same time, as often as the agent does on
 * average. Until its standard input ends. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"

enum { BATCH = 64, LEASES_MAX = 1 << 17, NAME_BYTES = 24 };

/* The agent extends after three eighths of the ttl, or up to a tenth of that earlier. */
#define SHARE_OF_TTL (0.95 * 3 / 8)

static struct node nodes[NODES_MAX];
static unsigned n_nodes, n_leases;
static char names[LEASES_MAX][NAME_BYTES];

static void acquire_all(void) {
    for (unsigned lease = 0; lease < n_leases; lease++) {
        long long token = fresh_token();
        (void) snprintf(names[lease], NAME_BYTES, "renew-%d-%u", (int) getpid(), lease);
        for (unsigned i = 0; i < n_nodes; i++) {
            char *command;
            int length = node_format(&nodes[i], ACQUIRE, names[lease], FLOOR_VALUE, token, &command);
            (void) redisAppendFormattedCommand(nodes[i].context, command, (size_t) length);
            redisFreeCommand(command);
        }
        for (unsigned i = 0; i < n_nodes; i++)
            node_await(&nodes[i]);
    }
}

static void append_batch(struct node *node, unsigned first, unsigned count, const char *ttl) {
    const char *items[4 + 3 * BATCH + 2];
    char n_keys[16];
    int n = 0;

    (void) snprintf(n_keys, sizeof(n_keys), "%u", count + 1);
    items[n++] = "EVALSHA";
    items[n++] = node->shas[SCRIPT_EXTEND];
    items[n++] = n_keys;
    for (unsigned i = 0; i < count; i++)
        items[n++] = names[first + i];
    items[n++] = EPOCH_KEY;
    for (unsigned i = 0; i < count; i++)
        items[n++] = FLOOR_VALUE;
    for (unsigned i = 0; i < count; i++)
        items[n++] = ttl;
    items[n++] = node->epoch;
    (void) redisAppendCommandArgv(node->context, n, items, NULL);
}

static void extend_all(const char *ttl) {
    unsigned calls = (n_leases + BATCH - 1) / BATCH;

    for (unsigned i = 0; i < n_nodes; i++) {
        int done = 0;
        for (unsigned first = 0; first < n_leases; first += BATCH)
            append_batch(&nodes[i], first, n_leases - first < BATCH ? n_leases - first : BATCH, ttl);
        while (!done)
            if (redisBufferWrite(nodes[i].context, &done) != REDIS_OK)
                fail("a node", nodes[i].context->errstr);
    }
    for (unsigned i = 0; i < n_nodes; i++)
        for (unsigned call = 0; call < calls; call++)
            node_await(&nodes[i]);
}

int run_renew(char **arguments) {
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    double due_us, worst_us = 0;

    if (!arguments[0] || !arguments[1])
        fail("usage", "bench renew LEASES TTL-MS NODE...");
    n_leases = number_of(arguments[0], 1, LEASES_MAX);
    double period_us = number_of(arguments[1], 100, 86400000) * 1e3 * SHARE_OF_TTL;
    n_nodes = nodes_count(arguments + 2);
    for (unsigned i = 0; i < n_nodes; i++)
        node_open(&nodes[i], arguments[2 + i]);
    acquire_all();
    (void) printf("{\"holding\": true}\n");
    (void) fflush(stdout);
    for (due_us = now_us();; due_us += period_us) {
        double left_us = due_us - now_us();
        if (poll(&end, 1, left_us > 0 ? (int) (left_us / 1e3) : 0) != 0)
            break;
        extend_all(arguments[1]);
        double took_us = now_us() - due_us;
        worst_us = took_us > worst_us ? took_us : worst_us;
    }
    (void) printf("{\"worst_us\": %.1f}\n", worst_us);
    return 0;
}
