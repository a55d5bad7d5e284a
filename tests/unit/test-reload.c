/* A reload: which options can change in a running agent. */
#include "config-harness.h"
#include "io/client/reload.h"

static const char *difference(const char *running, const char *fresh) {
    static char buffer[128];
    _cleanup_(cleanup_config) struct config *a = accepts("before", running, ""),
                                            *b = accepts("after", fresh, "");
    int length;

    if (!a || !b)
        return "refused";
    length = reload_restart_needed(a, b, buffer, sizeof buffer);
    if (length != (int) strlen(buffer) || reload_restart_needed(a, b, NULL, 0) != length)
        return "wrong length";
    return buffer;
}

static void test_reload(void) {
    char short_buffer[8];
    _cleanup_(cleanup_config) struct config *a = NULL, *b = NULL;

    is_string(difference(NODE, NODE
                         "default_ttl = 5s max_ttl = 50s max_hold = 1h node_timeout = 9ms max_sessions = 5"
                         " socket { mode = 600 group = 0 }"),
              "", "times, sessions and the socket's mode can change");
    is_string(
        difference(NODE,
                   NODE "keepers = 3 host = x max_leases = 9 key_format = \"x{name}\" socket { path = /x }"),
        "keepers, key_format, host, socket path, max_leases", "the rest can't");
    is_string(difference(NODE, NODE "fencing = no fence_skew = 1m\nfence_retention = 1d"), "fence_retention",
              "fence_retention can't be reloaded");
    is_string(difference(NODE "rule x { fencing = no }", NODE "fencing = no rule y { max_hold = 1h }"), "",
              "fencing and rules can");
    is_string(difference(NODE, NODE "max_ttl = 2m quarantine = no"), "quarantine, a larger max_ttl",
              "options in the nodes' epoch keys can't");
    is_string(difference(NODE, NODE "max_sessions = 20k"), "a larger max_sessions",
              "slots for more sessions can't");
    is_string(difference(NODE, "node b { address = host }"), "node", "a node's name");
    is_string(difference(NODE, "node a { address = host2 }"), "node", "a node's address");
    is_string(difference(NODE, "node a { address = host:6380 }"), "node", "a node's port");
    is_string(difference(NODE, "node a { address = \"unix:/h\" }"), "node", "a node's kind of address");
    is_string(difference(NODE, "node a { address = host password = x }"), "node", "a node's password");
    is_string(difference(NODE, "node a { address = host db = 1 }"), "node", "a node's database");
    is_string(difference(NODE, "node a { address = host durable = yes }"), "node", "a node's durability");
    is_string(difference(NODE, NODE "node b { address = b } node c { address = c }"), "node",
              "the number of nodes");

    a = accepts("before", NODE, "");
    b = accepts("after", NODE "keepers = 3 host = x", "");
    if (a && b) {
        is_int(reload_restart_needed(a, b, short_buffer, sizeof short_buffer), 13,
               "the result is the whole length");
        is_string(short_buffer, "keepers", "the text is cut");
    }
}

/* Each option that needs a restart, by its word in the message. */
static const struct {
    const char *word, *change;
} restarts[] = {
    {"node", "node b { address = b } node c { address = c }\n"},
    {"keepers", "keepers = 3\n"},
    {"quarantine", "quarantine = no\n"},
    {"fence_skew", "fence_skew = 1h\n"},
    {"fence_retention", "fence_retention = 1d\n"},
    {"a larger max_ttl", "max_ttl = 2m default_ttl = 90s\n"},
    {"a larger max_sessions", "max_sessions = 20k\n"},
    {"key_format", "key_format = \"x{name}\"\n"},
    {"host", "host = x\n"},
    {"socket path", "socket { path = /x }\n"},
    {"max_leases", "max_leases = 9\n"},
    {"max_leases", "max_leases = 1M\n"},
    {"a larger max_ttl, node_timeout", "max_ttl = 10m default_ttl = 2m node_timeout = 40s\n"},
};

/* What local-layer.c and front.c read from the configuration of a reload. */
static bool applies_same(const struct config *a, const struct config *b) {
    for (unsigned i = 0; i < a->n_rules && i < b->n_rules; i++)
        if (a->rules[i].terms.legacy_setnx != b->rules[i].terms.legacy_setnx)
            return false;
    return a->max_ttl_ms == b->max_ttl_ms && a->node_timeout_ms == b->node_timeout_ms &&
           a->terms.max_hold_ms == b->terms.max_hold_ms && a->terms.fencing == b->terms.fencing &&
           a->n_rules == b->n_rules && a->max_sessions == b->max_sessions &&
           a->max_leases == b->max_leases && a->max_extensions == b->max_extensions &&
           a->max_buffered_bytes == b->max_buffered_bytes && a->max_work == b->max_work &&
           a->socket_mode == b->socket_mode && a->socket_group == b->socket_group;
}

static void needs_restart(const char *word, const char *before, const char *change) {
    _cleanup_(cleanup_config) struct config *running = accepts("before", before, ""), *fresh = NULL;
    char text[256];

    (void) snprintf(text, sizeof text, "%s%s", NODE, change);
    is_string(difference(before, text), word, "the change needs a restart");
    fresh = accepts("after", text, "");
    if (!running || !fresh)
        return;
    reload_limit(running, fresh, NULL);
    ok(applies_same(running, fresh), "%s: a reload changes nothing that a running agent applies", word);
    ok(fresh->terms.default_ttl_ms <= running->max_ttl_ms, "nor is the default ttl longer than max_ttl");
}

static void test_restart_alone(void) {
    for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++)
        needs_restart(restarts[i].word, NODE, restarts[i].change);
    needs_restart("node, legacy_setnx", NODE "node b { address = b } node c { address = c } rule x { }\n",
                  "rule x { legacy_setnx = yes }\n");
}

int main(void) {
    char directory[] = "/tmp/test-reload-XXXXXX";

    config_harness_begin(directory);
    test_reload();
    test_restart_alone();
    config_harness_end(directory);
    return done_testing();
}
