/* The configuration: mistakes of every kind, reported all at once with their lines; defaults and rules. */
#include <grp.h>
#include <limits.h>

#include "config-harness.h"

static void test_defaults(void) {
    _cleanup_(cleanup_config) struct config *config = accepts("one node, nothing else", NODE, "");

    if (!config)
        return;
    is_int(config->n_nodes, 1, "one node");
    is_string(config->nodes[0].name, "a", "its name");
    is_string(config->nodes[0].address, "host", "its address as configured");
    is_string(config->nodes[0].host, "host", "its host");
    is_int(config->nodes[0].port, 6379, "its port");
    ok(!config->nodes[0].unix_path && !config->nodes[0].user && !config->nodes[0].password,
       "no path, no credentials");
    is_int(config->nodes[0].database, 0, "database 0");
    is_int(config->keepers, 1, "one keeper");
    is_int(config->terms.default_ttl_ms, 10000, "default_ttl");
    is_int(config->max_ttl_ms, 60000, "max_ttl");
    is_int(config->node_timeout_ms, 0, "node_timeout by itself");
    is_int(config->terms.max_hold_ms, 0, "max_hold: no bound");
    ok(config->quarantine, "quarantine: yes");
    ok(config->terms.fencing, "fencing: yes");
    is_int(config->fence_skew_ms, 60000, "fence_skew");
    is_int(config->fence_retention_ms, 3600000, "fence_retention: an hour");
    is_string(config->key_prefix, "", "no prefix");
    is_string(config->key_suffix, "", "no suffix");
    is_string(config->socket_path, "/run/redlockd/redlockd.sock", "socket");
    is_int(config->socket_mode, 0660, "socket mode");
    ok(config->socket_group == (gid_t) -1, "socket group as created");
    is_int(config->max_sessions, 10000, "max_sessions");
    is_int(config->max_leases, 131072, "max_leases");
    is_int(config->max_extensions, 1000000, "max_extensions");
    is_int(config->max_buffered_bytes, 256000000, "max_buffered_bytes");
    is_int(config->max_work, 20000, "max_work");
    ok(config->host[0] && strlen(config->host) <= 64 &&
           !config->host[strspn(config->host,
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")],
       "host is the host's name, fit for a lock value");
}

static void test_rules(void) {
    _cleanup_(cleanup_config) struct config *config =
        accepts("rules",
                NODE "rule 'a b/*' { fencing = no }\n"
                     "rule \"*\" { default_ttl = 1s max_hold = 0 }\ndefault_ttl = 5s max_hold = 1h",
                "");
    char many[64 + 24 * (RULES_MAX + 1)] = NODE;

    if (!config)
        return;
    is_int(config->n_rules, 2, "two rules");
    is_string(config->rules[0].pattern, "a b/*", "in the order of the file");
    ok(!config->rules[0].terms.fencing && config->rules[1].terms.fencing, "the first is without fencing");
    is_int(config->rules[0].terms.default_ttl_ms, 5000,
           "an option that a rule lacks has the value outside, even if that follows");
    is_int(config->rules[0].terms.max_hold_ms, 3600000, "and so has max_hold");
    is_int(config->rules[1].terms.default_ttl_ms, 1000, "the second rule has its own ttl");
    is_int(config->rules[1].terms.max_hold_ms, 0, "and no max_hold");
    for (unsigned i = 0; i <= RULES_MAX; i++)
        (void) sprintf(many + strlen(many), "rule r%u { }\n", i);
    refuses("one rule too many", many, "66: one rule too many: expected at most 64");
}

static void test_everything(void) {
    static const char text[] = "# a comment \"with { a quote\n"
                               "node \"a\" { address = \"10.0.0.1:6380\" user = \"redlockd\" password = "
                               "'it\\'s \\n ${HOME}' db = 3 }\n"
                               "/* over\n two lines */ node b { address = \"[0:0::1]:7000\"\n password = "
                               "\"\\\"\\\\\\$\\x41\\xc3\\xa4 $HOME ${HOME} #\" }\n"
                               "node 'c.c-c_' { // the third\n  address = \"unix:/run/redis/c.sock\"\n}\n"
                               "default_ttl = \"2m\" max_ttl = 1h max_hold = \"2d\"\r\n"
                               "node_timeout = \"50ms\"\tkeepers = \"4\" key_format = \"redlock:{name}}\" "
                               "host = \"web-1.example\"\n"
                               "max_sessions = 20k max_leases=\"1M\" max_extensions = 1600\n"
                               "socket { path = /run/x/y.sock mode = \"0600\" group = \"0\" }";
    _cleanup_(cleanup_config) struct config *config = accepts("every option", text, "");

    if (!config)
        return;
    is_int(config->n_nodes, 3, "three nodes");
    is_string(config->nodes[0].host, "10.0.0.1", "IPv4 address");
    is_int(config->nodes[0].port, 6380, "port");
    is_string(config->nodes[0].user, "redlockd", "user");
    is_string(config->nodes[0].password, "it's \\n ${HOME}", "single quotes: only \\' and \\\\ are escapes");
    is_int(config->nodes[0].database, 3, "database");
    is_string(config->nodes[1].host, "::1", "IPv6 address without brackets");
    is_int(config->nodes[1].port, 7000, "port after brackets");
    is_string(config->nodes[1].password, "\"\\$A\xc3\xa4 $HOME ${HOME} #",
              "double quotes: escapes, and $ stays as it is");
    ok(!config->nodes[1].user, "a password alone");
    is_string(config->nodes[2].name, "c.c-c_", "a name with punctuation");
    is_string(config->nodes[2].unix_path, "/run/redis/c.sock", "Unix socket");
    ok(!config->nodes[2].host, "no host beside it");
    is_int(config->terms.default_ttl_ms, 120000, "minutes");
    is_int(config->max_ttl_ms, 3600000, "hours, without quotes");
    is_int(config->terms.max_hold_ms, 172800000, "days");
    is_int(config->node_timeout_ms, 50, "milliseconds");
    is_int(config->keepers, 4, "keepers");
    is_string(config->key_prefix, "redlock:", "prefix");
    is_string(config->key_suffix, "}", "suffix");
    is_string(config->host, "web-1.example", "host");
    is_int(config->max_sessions, 20000, "thousands");
    is_int(config->max_leases, 1000000, "millions");
    is_int(config->max_extensions, 1600, "fewer extensions");
    is_string(config->socket_path, "/run/x/y.sock", "path without quotes");
    is_int(config->socket_mode, 0600, "mode");
    is_int(config->socket_group, 0, "group by number");
}

/* A mistake in an option does not end the reading. */
static void test_options(void) {
    refuses("a misspelt option", NODE "default_tll = \"10s\"",
            "2: unknown option 'default_tll': expected 'default_ttl'?");
    refuses("a misspelt option, and wrong values before and after it",
            NODE "keepers = 99\ndefault_tll = \"10s\"\nmax_sessions = 0",
            "2: expected 1 to 16\n3: expected 'default_ttl'?\n4: expected 1 to 1000000");
    refuses("misspelt options in several sections",
            NODE "keeper = 2\nrule x { fence = no }\nrule y { fence = no }",
            "2: expected 'keepers'?\n3: expected 'fencing'?\n4: expected 'fencing'?");
    refuses("a misspelt option in a section", "node a { adress = h\n address = h }",
            "1: expected 'address'?");
    refuses("an unknown option", NODE "zzzzzzzzz = 1",
            "2: unknown option 'zzzzzzzzz' outside of sections: expected one of redlockd.conf(5)");
    refuses("an option of another section", NODE "address = \"x\"",
            "2: unknown option 'address' outside of sections");
    refuses("an option of the top level", "node a {\naddress = h\nkeepers = 2 }",
            "3: unknown option 'keepers' within a node");
    refuses("an option given twice", NODE "keepers = 2\n\nkeepers = 3",
            "4: 'keepers' is given twice: expected once, the "
            "first is on line 2");
    refuses("an option given twice in a section", "node a {\naddress = h\naddress = h2\n}",
            "3: the first is on line 2");
    refuses("a section given twice", NODE "socket { mode = \"600\" }\nsocket { mode = \"9\" }",
            "3: 'mode' is given twice: expected once, the first is on line 2\n"
            "3: mode = \"9\": expected three octal digits");
    refuses("a value of two words", "node a { address = h password = pass word }",
            "1: more text after the value of 'password': expected quotes around it");
    refuses("two strings", NODE "host = \"a\" \"b\"", "2: more text after the value of 'host'");
    refuses("a semicolon", NODE "keepers = \"2\"; max_leases = 0",
            "2: more text after the value of 'keepers'");
    refuses("a semicolon at a word", NODE "keepers = 2;\nmax_leases = 0",
            "2: keepers = \"2;\": expected a whole number\n3: expected");
    config_free(accepts("the name of an option in quotes", NODE "\"keepers\" = 2", ""));
    refuses("an option of a section by its path", NODE "socket|mode = 600",
            "2: 'mode' is an option of a section: expected it there");
    refuses("an appended list", NODE "rule x { users += {0} }", "2: syntax error: '$', '*', '+'");
    config_free(
        accepts("an asterisk in a list without quotes", NODE "rule x { units = {web-*.service} }", ""));
}

static void test_all_at_once(void) {
    refuses("seven mistakes: wrong values in the order of their lines, then what concerns several options",
            "max_ttl = \"1s\"\ndefault_ttl = \"2s\"\nnode a {\n}\nnode b { address = \"h:x\" }\nkeeper = 3\n"
            "socket { mode = \"8\"\nmode = 9\n}\nhost = \"\"",
            "5: port\n6: 'keepers'?\n7: octal\n8: given twice\n8: octal\n10: host\n2: default_ttl\n"
            "3: no address");
}

static void refuses_path(const char *path, int error, const char *fragment) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;
    int r = read_path(path, CONFIG_RELOAD, &config, &output);

    ok(r == error && !config && strncmp(output, path, strlen(path)) == 0 && strstr(output, fragment),
       "%s: %s", path, fragment);
}

static void test_files(void) {
    _cleanup_(cleanup_config) struct config *config = NULL;

    refuses_path(".", -EISDIR, "Is a directory");
    refuses_path("/dev/zero", -ENOTSUP, "not a regular file");
    refuses_path("missing.conf", -ENOENT, "No such file");
    if (mkfifo("fifo", 0600) == 0)
        refuses_path("fifo", -ENOTSUP, "not a regular file");
    (void) unlink("fifo");

    (void) unlink(FILE_NAME);
    (void) umask(0);
    config = accepts("a file with a password that all users can read, with a warning",
                     "node a { address = h password = x }",
                     "1: warning: the file has a password and is readable by all users: chgrp redlockd; "
                     "chmod 640");
    (void) umask(077);
    (void) unlink(FILE_NAME);
}

static void test_without_a_file(void) {
    _cleanup_(cleanup_config) struct config *config = NULL;

    is_int(config_read(NULL, CONFIG_START, stderr, &config), 0, "defaults, without a file");
    is_int(config->n_nodes, 0, "no nodes");
    is_int(config->terms.default_ttl_ms, 10000, "default_ttl has its default");
    ok(!config_free(NULL), "freeing NULL is fine");
}

/* The example that is installed, given as the argument. */
static void test_example(const char *path) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;

    is_int(read_path(path, CONFIG_RELOAD, &config, &output), 0, "the example is valid");
    is_string(output, "", "without a warning");
    ok(config && config->n_nodes == 3, "and has three nodes");
}

/* What a rule says about peers. */
static void test_peers(void) {
    struct config *config = accepts("rules for peers",
                                    NODE "rule \"deploy/*\" {\n"
                                         "  users = {root, 1001}  # a comment\n"
                                         "  groups = {\n    \"root\", # another\n    7,\n  }\n"
                                         "  units = {\"web-*.service\", user@1000.service}\n"
                                         "  may = {acquire, list}\n"
                                         "  max_ttl = 5s\n  default_ttl = 2s\n  max_leases = 3\n"
                                         "  max_waiters = 4\n}\n"
                                         "rule \"deploy/*\" { may = {} }\n"
                                         "rule 'x y' { users = {0} }\nrule 'x y' { }\nrule bare { }\n",
                                    "");
    const struct policy_rule *rule = &config->rules[0];

    is_int(config->n_rules, 5, "two of them with one pattern");
    is_string(config->rules[1].pattern, "deploy/*", "which both have");
    is_string(config->rules[3].pattern, "x y", "in quotes of either kind");
    is_string(config->rules[4].pattern, "bare", "or without");
    ok(rule->users.n == 2 && rule->users.all[0] == 0 && rule->users.all[1] == 1001,
       "users by name and number");
    ok(rule->groups.n == 2 && rule->groups.all[0] == 0 && rule->groups.all[1] == 7,
       "groups over several lines");
    is_int(rule->n_units, 2, "units");
    is_string(rule->units[0], "web-*.service", "with a pattern");
    is_string(rule->units[1], "user@1000.service", "or without quotes");
    is_int(rule->terms.may, POLICY_MAY(POLICY_ACQUIRE) | POLICY_MAY(POLICY_LIST), "rights");
    is_int(rule->terms.max_ttl_ms, 5000, "max_ttl");
    is_int(rule->terms.max_leases, 3, "max_leases");
    is_int(rule->terms.max_waiters, 4, "max_waiters");
    is_int(rule->line, 2, "the line for messages");
    is_int(config->rules[1].line, 15, "also behind a list");
    is_int(config->rules[1].terms.may, 0, "an empty list of rights");
    is_int(config->rules[2].terms.may, POLICY_MAY_DEFAULT, "without one the default");
    config_free(config);
    refuses("an unknown user", NODE "rule x {\nusers = {root, nobody-there}\n}",
            "3: users = \"nobody-there\": expected users that exist, or their numbers");
    refuses("an unknown group", NODE "rule x {\ngroups = {nobody-there}\n}", "3: groups = \"nobody-there\"");
    refuses("no user", NODE "rule x {\nusers = {}\n}", "2: users = {}: expected at least one");
    refuses("a unit without its type", NODE "rule x {\nunits = {web}\n}",
            "3: units = \"web\": expected the whole names of units");
    refuses("a slice", NODE "rule x {\nunits = {user.slice}\n}", "3: units = \"user.slice\": expected");
    config_free(accepts("a unit of any type", NODE "rule x { units = {\"web*\", \"*\"} }", ""));
    refuses("no unit", NODE "rule x {\nunits = { }\n}", "2: units = {}: expected at least one");
    refuses("rights given twice, an empty list last", NODE "rule x {\nmay = {acquire}\n\nmay = {}\n}",
            "3: 'may' is given twice: expected once");
    refuses("rights given twice", NODE "rule x {\nmay = {list}\nmay = {list, acquire}\n}",
            "4: 'may' is given twice");
    refuses("users given twice", NODE "rule x {\nusers = {0, 1}\nusers = {2}\n}",
            "4: 'users' is given twice");
    refuses("groups given twice, an empty list last", NODE "rule x {\ngroups = {0}\ngroups = {}\n}",
            "2: groups = {}: expected at least one");
    refuses("an unknown right", NODE "rule x {\nmay = {acquire, fly}\n}", "3: may = \"fly\": expected");
    refuses("a list without its end", NODE "rule x {\nusers = {root\n}", "2: the section is not closed");
    refuses("a list without commas", NODE "rule x { users = {0 b} }",
            "2: syntax error: unexpected token 'b'");
    refuses("a rule's max_ttl above the agent's", NODE "rule x { max_ttl = 2m }", "2: max_ttl = \"2m\"");
    refuses("no limit for rules where the agent's max_ttl is wrong",
            "max_ttl = 5x default_ttl = 2m " NODE "rule x { max_ttl = 3m default_ttl = 2m }",
            "1: max_ttl = \"5x\"");
    refuses("a rule's default_ttl above its max_ttl", NODE "rule x { max_ttl = 2s default_ttl = 3s }",
            "2: default_ttl = \"3s\"");
}

/* What a start accepts with a warning, and what no start does. */
static void test_missing_at_start(void) {
    static const struct {
        const char *text, *what;
        bool starts;
    } files[] = {
        {"node a { address = h }\nrule x { users = {no-such-user} }\n", "a user", true},
        {"node a { address = h }\nrule x { groups = {no-such-group} }\n", "a group of a rule", true},
        {"node a { address = h }\nsocket { group = no-such-group }\n", "the socket's group", true},
        {"node a { address = h }\nrule x { users = {12x} }\n", "no number", false},
        {"node a { address = h }\nrule x { groups = {99999999999} }\n", "too large a number", false},
        {"node a { address = h }\nsocket { group = \"\" }\n", "an empty text", false},
    };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        _cleanup_(cleanup_config) struct config *config = NULL;
        _cleanup_free_ char *output = NULL;
        write_file(files[i].text, strlen(files[i].text));
        int r = read_path(FILE_NAME, CONFIG_START, &config, &output);
        bool warned = output && strstr(output, "warning: ");
        ok((r == 0) == files[i].starts && warned == files[i].starts, "at a start, missing or wrong: %s",
           files[i].what);
    }
}

int main(int argc, char **argv) {
    char directory[] = "/tmp/test-config-XXXXXX";

    if (argc > 1)
        test_example(argv[1]);
    config_harness_begin(directory);
    test_defaults();
    test_rules();
    test_peers();
    test_everything();
    test_options();
    test_all_at_once();
    test_files();
    test_without_a_file();
    test_missing_at_start();
    config_harness_end(directory);
    return done_testing();
}
