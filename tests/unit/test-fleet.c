/* Epoch keys as texts, and the differences between agents' configurations. */

#include <stdio.h>
#include <string.h>

#include "core/node.h"
#include "io/node/fleet.h"
#include "tap.h"

static const char usual[] =
    "0123456789abcdef0123456789abcdef01234567 60000 1795503228409855 00ff00ff00ff00ff rested 7";

static void test_epoch(void) {
    const struct amendment longer = {.max_ttl_ms = 120000},
                           shorter = {.max_ttl_ms = 60000, .proposed_ms = 2000};
    char text[EPOCH_BYTES_MAX];
    struct epoch epoch, large = {0};

    ok(epoch_read(usual, &epoch), "an epoch");
    ok(epoch.max_ttl_ms == 60000 && epoch.floor_us == 1795503228409855 && epoch.generation == 7 &&
           epoch.rested && epoch.proposed_ms == 0,
       "its numbers");
    is_string(epoch.fleet, "00ff00ff00ff00ff", "its fleet");
    ok(epoch_read("abc 4294967396 99999999999999999999 00ff00ff00ff00ff rested 99999999999", &large) &&
           large.max_ttl_ms == TTL_MS_MAX && large.floor_us == 0 && large.generation == UINT32_MAX,
       "a number that is too large does not become a small one");
    epoch_amend(&epoch, &shorter, "0123456789012345", text);
    is_string(
        text,
        "0123456789abcdef0123456789abcdef01234567 60000 1795503228409855 0123456789012345 rested 8 2000",
        "an amended epoch is a new text, never a former one");
    ok(epoch_read(text, &epoch) && epoch.proposed_ms == 2000, "with a proposal");
    epoch_amend(&epoch, &longer, epoch.fleet, text);
    is_string(text,
              "0123456789abcdef0123456789abcdef01234567 120000 1795503228409855 0123456789012345 rested 9",
              "and without");
    ok(!epoch_read("0123456789abcdef 60000 1795503228409855", &epoch), "an older agent's is none");
    ok(!epoch_read("", &epoch) && !epoch_read("x y z", &epoch), "nor is nonsense");
    ok(epoch_read("a 99999999 1 0 unrested 0", &epoch) && epoch.max_ttl_ms == TTL_MS_MAX && !epoch.rested,
       "no lease is longer than a day");
}

static char a[] = "a", b[] = "b", c[] = "c", d[] = "d";

static struct config config_of(unsigned n_nodes, char *names[]) {
    struct config config = {.n_nodes = n_nodes,
                            .max_ttl_ms = 60000,
                            .quarantine = true,
                            .terms.fencing = true,
                            .fence_skew_ms = 60000,
                            .fence_retention_ms = 3600000};

    for (unsigned i = 0; i < n_nodes; i++)
        config.nodes[i].name = names[i];
    return config;
}

static struct fleet fleet_of(const struct config *config, unsigned node) {
    struct fleet fleet;

    fleet_init(&fleet, config, node);
    return fleet;
}

static void test_fleets(void) {
    char *abc[] = {a, b, c}, *cab[] = {c, a, b}, *abd[] = {a, b, d};
    const struct config one = config_of(3, abc), ordered = config_of(3, cab), other = config_of(3, abd);
    struct config skewed = one;

    skewed.fence_skew_ms = 30000;
    const struct fleet first = fleet_of(&one, 0);
    is_string(first.text, "a of a, b, c with fence_skew 60s", "a fleet's text for operators");
    is_string(fleet_of(&ordered, 1).id, first.id, "the order of the nodes does not matter");
    ok(strcmp(fleet_of(&one, 1).id, first.id) != 0, "but the node's own name does");
    ok(strcmp(fleet_of(&other, 0).id, first.id) != 0, "and all names");
    ok(strcmp(fleet_of(&skewed, 0).id, first.id) != 0, "and fence_skew");
}

static void test_explained(void) {
    char *abc[] = {a, b, c}, *abd[] = {a, b, d}, names[3][33];
    struct config one = config_of(3, abc), other = config_of(3, abd), skewed = one;
    char text[NODE_TROUBLE_BYTES];
    const struct fleet first = fleet_of(&one, 0);

    fleet_explain(&first, fleet_of(&other, 0).text, true, text, sizeof(text));
    is_string(text,
              "votes for another fleet: that fleet has the node as a of a, b, d with fence_skew 60s, this "
              "agent as a of a, b, c with fence_skew 60s: give each fleet its own db; or, when the other "
              "fleet's agents have ended, run 'redlock nodes --bless a'",
              "a node of a fleet with other nodes");
    fleet_explain(&first, fleet_of(&one, 1).text, false, text, sizeof(text));
    is_string(
        text,
        "has the epoch of node b: are their addresses swapped, here or there? If the server has a copy of "
        "that node's data, run 'redlock nodes --bless a'; another fleet needs its own db",
        "of the same nodes, under another name: swapped addresses, or copied data");
    skewed.fence_skew_ms = 30000;
    fleet_explain(&first, fleet_of(&skewed, 1).text, true, text, sizeof(text));
    ok(strstr(text, "--bless a"), "not if fence_skew differs, too");
    fleet_explain(&first, "", true, text, sizeof(text));
    ok(strstr(text, "the node as one of other nodes,"), "nor if the other fleet is unknown");
    for (unsigned i = 0; i < 3; i++) {
        (void) snprintf(names[i], sizeof(names[i]), "%032u", i);
        one.nodes[i].name = names[i];
    }
    const struct fleet longest = fleet_of(&one, 0);
    fleet_explain(&longest, fleet_of(&one, 1).text, true, text, sizeof(text));
    ok(strstr(text, "another fleet needs its own db"), "with the longest names the advice has room");
}

static void test_differences(void) {
    char *abc[] = {a, b, c}, prefix[] = "x:", nothing[] = "";
    struct config one = config_of(3, abc), other = one;
    char text[DIFFERENCE_BYTES];

    other.max_ttl_ms = 2000;
    other.fence_retention_ms = 7200000;
    other.quarantine = false;
    const struct fleet first = fleet_of(&one, 0), second = fleet_of(&other, 0);
    fleet_difference(&first, "", text);
    is_string(text, "", "without settings there is no difference");
    fleet_difference(&first, second.settings, text);
    is_string(text,
              "max_ttl = 2s at another agent, 60s here; quarantine = no at another agent, yes here; "
              "fence_retention = 2h at another agent, 1h here",
              "differences are listed");
    fleet_difference(&second, second.settings, text);
    is_string(text, "", "equal settings are not");
    other = one;
    other.key_prefix = prefix;
    other.key_suffix = nothing;
    const struct fleet prefixed = fleet_of(&other, 0);
    fleet_difference(&first, prefixed.settings, text);
    is_string(text, "key_format = x:{name} at another agent, {name} here", "another key_format");
    fleet_difference(&first, "version=" REDLOCK_VERSION " max_ttl=5s", text);
    is_string(text, "max_ttl = 5s at another agent, 60s here",
              "a setting that another agent does not note is not compared");
    fleet_difference(&first, "max_ttl=60s", text);
    is_string(text, "version = before 0.2.0 at another agent, " REDLOCK_VERSION " here",
              "an agent that does not note its version is an old one");
    fleet_difference(&first, "version=9.9.9 keys=99", text);
    is_string(text,
              "version = 9.9.9 at another agent, " REDLOCK_VERSION
              " here; keys = 99 at another agent, 5 here",
              "another version of the program and of the keys");
}

int main(void) {
    test_epoch();
    test_fleets();
    test_explained();
    test_differences();
    return done_testing();
}
