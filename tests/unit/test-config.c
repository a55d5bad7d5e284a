/* The configuration: mistakes of every kind, reported all at once with their lines; libconfuse's pitfalls;
 * defaults, units, reloads. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "io/client/reload.h"
#include "io/node/tls.h"
#include "tap.h"

#define FILE_NAME "test.conf"
#define NODE "node \"a\" { address = \"host\" }\n"

static void cleanup_config(struct config **config) {
    config_free(*config);
}

static void write_file(const char *text, size_t length) {
    FILE *file = fopen(FILE_NAME, "w");

    if (!file || fwrite(text, 1, length, file) != length || fclose(file) != 0) {
        perror(FILE_NAME);
        exit(EXIT_FAILURE);
    }
}

/* Calls config_read(). The caller frees its output. */
static int read_path(const char *path, bool to_use, struct config **ret, char **ret_output) {
    size_t length;
    FILE *output = open_memstream(ret_output, &length);
    int r;

    if (!output)
        exit(EXIT_FAILURE);
    r = config_read(path, to_use, output, ret);
    (void) fclose(output);
    return r;
}

static int read_bytes(const char *text, size_t length, struct config **ret, char **ret_output) {
    write_file(text, length);
    return read_path(FILE_NAME, true, ret, ret_output);
}

/* `expected` has a line "N: fragment" for each line of output, in order; N is the line of the file. */
static bool is_expected(const char *output, const char *expected) {
    char line[512], number[32];

    while (*expected) {
        size_t length = strcspn(expected, "\n"), digits = strspn(expected, "0123456789");
        size_t output_length = strcspn(output, "\n");

        (void) snprintf(line, sizeof line, "%.*s", (int) output_length, output);
        (void) snprintf(number, sizeof number, "%s:%.*s: ", FILE_NAME, (int) digits, expected);
        if (strncmp(line, number, strlen(number)) != 0)
            return false;
        if (!memmem(line, strlen(line), expected + digits + 2, length - digits - 2))
            return false;
        expected += length + (expected[length] == '\n');
        output += output_length + (output[output_length] == '\n');
    }
    return !*output;
}

static void refuses(const char *what, const char *text, const char *expected) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;
    int r = read_bytes(text, strlen(text), &config, &output);

    if (!ok(r == -EINVAL && !config && is_expected(output, expected), "refused: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
}

/* The configuration, or NULL if it is refused. `expected` has warnings. */
static struct config *accepts(const char *what, const char *text, const char *expected) {
    _cleanup_free_ char *output = NULL;
    struct config *config = NULL;
    int r = read_bytes(text, strlen(text), &config, &output);

    if (!ok(r == 0 && config && is_expected(output, expected), "accepted: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
    return config;
}

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
                               "max_sessions = 20k max_leases=\"1M\"\n"
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
    is_string(config->socket_path, "/run/x/y.sock", "path without quotes");
    is_int(config->socket_mode, 0600, "mode");
    is_int(config->socket_group, 0, "group by number");
}

static void test_values(void) {
    refuses("a number without a unit", NODE "default_ttl = \"10\"", "2: unit");
    config_free(accepts("zero in other forms", NODE "max_hold = 00 rule x { max_hold = 0s }", ""));
    refuses("a bare number without a unit", NODE "default_ttl = 10", "2: unit");
    refuses("an unknown unit", NODE "max_hold = \"10w\"", "2: one unit of us, ms, s, m, h, d");
    refuses("a unit alone", NODE "max_hold = \"s\"", "2: whole number");
    refuses("a negative duration", NODE "max_hold = \"-1s\"", "2: whole number");
    refuses("a fraction", NODE "max_hold = \"1.5s\"", "2: whole number");
    refuses("less than a millisecond", NODE "node_timeout = \"1500us\"", "2: whole milliseconds");
    refuses("a duration too large to count", NODE "max_hold = \"99999999999999999999d\"",
            "2: expected 100ms to");
    refuses("default_ttl of 0", NODE "default_ttl = \"0\"", "2: expected 100ms to 1d");
    refuses("default_ttl too short", NODE "default_ttl = \"99ms\"", "2: expected 100ms to 1d");
    refuses("max_ttl too long", NODE "max_ttl = \"25h\"", "2: expected 100ms to 1d");
    refuses("neither yes nor no", NODE "quarantine = maybe", "2: expected yes or no");
    refuses("fencing: neither yes nor no", NODE "fencing = 1", "2: expected yes or no");
    refuses("a fence_skew of nothing", NODE "fence_skew = 0s", "2: expected 1s to 1d");
    refuses("a fence_retention that is too short", NODE "fence_retention = 1m", "2: expected 1h to 366d");
    refuses("a rule's ttl above max_ttl", NODE "rule x {\ndefault_ttl = 2m\n}",
            "3: default_ttl = \"2m\": expected at most the agent's max_ttl, which is 1m");
    refuses("legacy_setnx with several nodes",
            NODE "node b { address = \"h2:1\" }\nnode c { address = \"h3:1\" }\n"
                 "rule x { legacy_setnx = yes }",
            "4: legacy_setnx = yes: expected exactly one node");
    refuses("a rule without a pattern", NODE "rule { fencing = no }",
            "2: syntax error: missing title for section 'rule'");
    refuses("a rule's pattern that no name matches", NODE "rule \"a\\x01\" { fencing = no }",
            "2: syntax error: a backslash in a string: expected");
    refuses("a rule without a letter", NODE "rule \"\" { fencing = no }",
            "2: rule name = \"\": expected 1 to 512 bytes");
    refuses("a rule given twice", NODE "rule x { fencing = no }\nrule x { fencing = yes }",
            "3: rule x is given twice: expected once");
    refuses("an option that rules don't have", NODE "rule x { keepers = 2 }",
            "2: unknown option 'keepers' within a rule");
    refuses("max_hold too short", NODE "max_hold = \"1ms\"", "2: expected 100ms to 2147483647ms, or 0");
    refuses("default_ttl above max_ttl", NODE "max_ttl = \"20s\"\ndefault_ttl = \"30s\"",
            "3: at most max_ttl, which is 20s");
    refuses("max_ttl below the default of default_ttl", NODE "max_ttl = \"5s\"",
            "2: default_ttl = \"10s\": expected at most max_ttl, which is 5s");
    refuses("node_timeout too long", NODE "node_timeout = \"5s\"",
            "2: less than half of default_ttl, which is 10s");
    refuses("node_timeout of 0", NODE "node_timeout = 0", "2: expected 1ms to");
    refuses("node_timeout misspelt", NODE "node_timeout = \"automatic\"",
            "2: node_timeout = \"automatic\": expected");
    refuses("no keeper", NODE "keepers = 0", "2: expected 1 to 16");
    refuses("too many keepers", NODE "keepers = 17", "2: expected 1 to 16");
    refuses("not a number", NODE "keepers = two", "2: whole number");
    refuses("an empty number", NODE "keepers = \"\"", "2: whole number");
    refuses("a number with text after it", NODE "keepers = 2x", "2: whole number");
    refuses("too many leases", NODE "max_leases = 2M", "2: expected 1 to 1048576");
    refuses("a number too large to count", NODE "max_leases = 99999999999999999999M",
            "2: expected 1 to 1048576");
    refuses("little work", NODE "max_work = 999", "2: expected 1000 to 1000000000");
    refuses("few bytes", NODE "max_buffered_bytes = 64k", "2: expected 1000000 to 4000000000");
    refuses("no sessions", NODE "max_sessions = 0", "2: expected 1 to");
    refuses("key_format without {name}", NODE "key_format = \"redlock:{r}\"", "2: {name}");
    refuses("key_format with two", NODE "key_format = \"{name}{name}\"", "2: {name}");
    refuses("key_format of the agent's own keys", NODE "key_format = \"redlockd:{name}\"", "2: redlockd:");
    refuses("key_format too long",
            NODE "key_format = \"0123456789012345678901234567890123456789012345678901234567890123x{name}\"",
            "2: at most 64 bytes");
    refuses("host with a blank", NODE "host = \"web 1\"", "2: letters, digits");
    refuses("host empty", NODE "host = \"\"", "2: letters, digits");
    refuses("host too long",
            NODE "host = \"0123456789012345678901234567890123456789012345678901234567890123x\"",
            "2: 1 to 64 letters");
    refuses("socket path relative", NODE "socket { path = \"x.sock\" }", "2: from '/' on");
    refuses("socket path empty", NODE "socket { path = \"\" }", "2: from '/' on");
    refuses("socket path too long",
            NODE "socket { path = "
                 "\"/234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
                 "90123456789012345678\" }",
            "2: at most 107 bytes");
    refuses("socket mode not octal", NODE "socket { mode = \"0680\" }", "2: octal");
    refuses("socket mode with more bits", NODE "socket { mode = \"1777\" }", "2: octal");
    refuses("unknown group", NODE "socket { group = \"no-such-group-here\" }", "2: group that exists");
    refuses("group number too large", NODE "socket { group = \"4294967295\" }", "2: name of a group");
}

static void test_nodes(void) {
    char many[2048] = "", output[128];
    size_t length = 0;

    refuses("an empty file", "", "1: no node: expected at least one");
    refuses("no node", "# nothing\nkeepers = 2\n\n", "4: no node");
    refuses("a node without an address", "\nnode \"a\" {\n db = 1\n}", "2: node \"a\" has no address");
    refuses("an empty address", "node \"a\" { address = \"\" }", "1: \"host:port\"");
    refuses("port 0", "node \"a\" { address = \"h:0\" }", "1: port from 1 to 65535");
    refuses("port too large", "node \"a\" { address = \"h:65536\" }", "1: port from 1 to 65535");
    refuses("no port after the colon", "node \"a\" { address = \"h:\" }", "1: port from 1 to 65535");
    refuses("IPv6 without brackets", "node \"a\" { address = \"::1\" }", "1: \"[::1]:port\"");
    refuses("IPv6 wrong", "node \"a\" { address = \"[::g]:1\" }", "1: IPv6 address in brackets");
    refuses("IPv6 bracket open", "node \"a\" { address = \"[::1\" }", "1: IPv6 address in brackets");
    refuses("IPv4 wrong", "node \"a\" { address = \"10.0.0.256:1\" }", "1: IPv4 address");
    refuses("a URL", "node \"a\" { address = \"redis://h:1\" }", "1: \"host:port\"");
    refuses("a path without unix:", "node \"a\" { address = \"/run/r.sock\" }", "1: \"unix:/path\"");
    refuses("unix: with a relative path", "node \"a\" { address = \"unix:r.sock\" }", "1: from '/' on");
    refuses("a blank in a host", "node \"a\" { address = \"a b\" }", "1: host name of letters");
    refuses("a bad sign in a host", "node \"a\" { address = \"a@b\" }", "1: host name of letters");
    refuses("a name twice", NODE "\nnode \"a\" { address = \"other\" }", "3: node a is given twice");
    refuses("an address twice", NODE "node \"b\" {\n address = \"HOST:6379\" }\nnode c { address = x }",
            "3: address of node \"b\": expected another than that of node \"a\"");
    refuses("an IPv6 address twice",
            "node \"a\" { address = \"[::1]\" }\nnode \"b\" { address = \"[0::0:1]:6379\" }\n"
            "node c { address = x }",
            "2: expected another than that of node \"a\"");
    refuses(
        "a socket twice",
        "node \"a\" { address = \"unix:/r\" }\nnode \"b\" { address = \"unix:/r\" }\nnode c { address = x }",
        "2: expected another than that of node \"a\"");
    refuses("a bad name", "node \"a b\" { address = \"h\" }", "1: letters, digits");
    refuses("an empty name", "node \"\" { address = \"h\" }", "1: letters, digits");
    refuses("a long name", "node \"x12345678901234567890123456789012\" { address = \"h\" }",
            "1: 1 to 32 letters");
    refuses("no name", "node { address = \"h\" }", "1: syntax error: missing title for section 'node'");
    refuses("a user without a password", "node \"a\" { address = \"h\" user = \"u\" }",
            "1: user of node \"a\": expected a password as well");
    refuses("an empty user", "node \"a\" { address = \"h\" user = \"\" password = x }",
            "1: user = \"\": expected 1 to 1024 bytes");
    refuses("an empty password", "node \"a\" { address = \"h\" password = \"\" }",
            "1: password = \"\": expected 1 to 1024 bytes");
    refuses("durable: neither yes nor no", "node a { address = h durable = true }", "1: expected yes or no");
    refuses("a database below 0", "node \"a\" { address = \"h\" db = \"-1\" }", "1: db = \"-1\": expected");
    config_free(accepts("an even number of nodes, with a warning", NODE "node \"b\" { address = \"h2\" }",
                        "2: warning: 2 nodes, an even number, tolerate no more failures than 1 node: "));

    for (int i = 0; i < NODES_MAX; i++)
        length +=
            (size_t) snprintf(many + length, sizeof many - length, "node n%d { address = \"h%d\" }\n", i, i);
    config_free(accepts("the maximum of nodes", many, ""));
    (void) snprintf(many + length, sizeof many - length, "node more { address = \"more\" bad = 1 }\n");
    (void) snprintf(output, sizeof output,
                    "%d: one node too many: expected at most %d\n%d: more text after the value of 'address'",
                    NODES_MAX + 1, NODES_MAX, NODES_MAX + 1);
    refuses("one node more", many, output);
}

static void test_tls(void) {
    refuses("tls: neither yes nor no", "node a { address = h tls = on }", "1: expected yes or no");
    refuses("TLS options without tls = yes", "node a { address = h\ntls_ca = /c\ntls_name = n }",
            "2: tls_ca of node \"a\": expected tls = yes\n3: tls_name of node \"a\": expected");
    refuses("a certificate without its key", "node a { address = h tls = no\ntls_cert = /c }",
            "2: expected tls = yes\n2: tls_cert of node \"a\": expected tls_cert and tls_key");
    refuses("a key without its certificate", "node a { address = h tls = no\ntls_key = /c }",
            "2: expected tls = yes\n2: tls_key of node \"a\": expected tls_cert and tls_key");
    if (!tls_built_in()) {
        refuses(
            "TLS in a build without it", "node a { address = h\ntls = yes }",
            "2: tls of node \"a\": this redlockd was built without TLS: expected one that was built with "
            "hiredis_ssl");
        return;
    }
    refuses("TLS on a Unix socket", "node a { address = unix:/r\ntls = yes }", "2: no for a Unix socket");
    refuses("a relative path", "node a { address = h tls = yes\ntls_ca = c.pem }", "2: from '/' on");
    refuses("a name that no certificate has", "node a { address = h tls = yes\ntls_name = \"a b\" }",
            "2: expected a host name, or an address");
    refuses("a file that is not there", "node a { address = h tls = yes\ntls_ca = /nonesuch }",
            "2: tls_ca of node \"a\": can't load it: No such file");
    refuses("one without a certificate",
            "node a { address = h tls = yes\ntls_cert = /dev/null\ntls_key = /nonesuch }",
            "2: tls_cert of node \"a\": can't load it: no ");

    _cleanup_(cleanup_config) struct config *config =
        accepts("TLS", "node a { address = h tls = yes tls_name = r.example }", "");
    _cleanup_(cleanup_config) struct config *other =
        accepts("another name", "node a { address = h tls = yes }", "");
    char needed[64];
    if (!config || !other)
        return;
    ok(config->nodes[0].tls && !config->nodes[0].tls_ca && !config->nodes[0].tls_cert, "the system's CAs");
    is_string(config->nodes[0].tls_name, "r.example", "the name");
    (void) reload_restart_needed(config, other, needed, sizeof needed);
    is_string(needed, "node", "a changed tls_name needs a restart");
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

/* A syntax error ends the reading. */
static void test_syntax(void) {
    refuses("a misspelt section", NODE "sockte { path = \"/x\" }\nkeepers = 99",
            "2: unknown option 'sockte': expected 'socket'?");
    refuses("a missing '}' at the end", NODE "\nsocket {\n mode = \"0600\"\n",
            "3: syntax error: the section is not closed: expected '}'");
    refuses("a missing '}' before a section",
            "node a {\n address = h\nnode b { address = h2 }\nnode c { address = h3 }",
            "1: syntax error: the section is not closed: expected '}' before the next one");
    refuses("a '}' too many", NODE "}\nkeepers = 99", "2: syntax error: '}' with no section open");
    refuses("a missing '{'", "node a\n address = h }", "2: syntax error: '}' with no section open");
    refuses("a section without content", NODE "node b\nkeepers = 99",
            "3: syntax error: missing opening brace for section 'node'");
    refuses("a section with '='", NODE "socket = \"/x\"",
            "2: syntax error: missing opening brace for section 'socket'");
    refuses("an option with a block", NODE "keepers { x = 1 }",
            "2: syntax error: missing equal sign after option 'keepers'");
    refuses("a title on a section without titles", NODE "socket \"x\" { }",
            "2: syntax error: missing opening brace for section 'socket'");
    refuses("a missing '='", NODE "keepers 3\nmax_leases = 0",
            "2: syntax error: missing equal sign after option 'keepers'");
    refuses("a missing value", NODE "keepers =\nmax_leases = 0",
            "2: syntax error: no value after '=': expected one on the same line");
    refuses("a missing value at the end", NODE "keepers =", "2: syntax error: no value after '='");
    refuses("+=", NODE "keepers += 2", "2: syntax error: '$', '*', '+' or a control");
    refuses("a list", NODE "keepers = { 1, 2 }\nmax_leases = 0",
            "2: syntax error: unexpected token '{'");
    refuses("a stray '='", NODE "= 3", "2: syntax error: unexpected token '='");
    refuses("an option without a name", NODE "\n\"\" = 3",
            "3: syntax error: expected text as in redlockd.conf(5)");
    refuses("a stray ','", NODE "\n, x", "3: syntax error: unexpected token ','");
    refuses("an asterisk outside quotes", NODE "rule cache-* { fencing = no }",
            "2: syntax error: '$', '*', '+' or a control character outside quotes: expected");
    refuses("an open string", NODE "host = \"web1\nkeepers = 99",
            "2: syntax error: the string on this line is not closed: expected a quote at its end");
    refuses("an open string at the end", NODE "host = 'web1",
            "2: syntax error: the string on this line is not");
    refuses("an open string in a file of lines that end by CR LF", NODE "host = \"web1\r\n",
            "2: syntax error: the string on this line is not closed");
    config_free(accepts("the next file begins outside of that string", NODE, ""));
    refuses("an open comment", NODE "\n/* keepers = 99\n",
            "3: syntax error: the comment that begins here does not end");
    config_free(accepts("the next file begins outside of that comment", NODE, ""));
    refuses("an unknown escape", NODE "host = \"a\\nb\"",
            "2: syntax error: a backslash in a string: expected");
    refuses("a backslash at the end", NODE "host = \"a\\",
            "2: syntax error: a backslash in a string: expected");
    refuses("a control character by escape", NODE "host = \"a\\x00b\"",
            "2: syntax error: a backslash in a string: expected \\\\, \\\", \\', \\$ or \\xHH, and no "
            "control character");
    refuses("a control character", NODE "host = \"a\tb\"",
            "2: syntax error: a control character in a string");
    refuses("a variable outside quotes", NODE "host = ${HOME}\nkeepers = 99",
            "2: syntax error: '$', '*', '+' or a control character outside quotes");
}

static void test_text(void) {
    static const char nul[] = NODE "keepers = 99 \0 max_leases = 0\nmax_sessions = 0";
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL, *large = NULL;

    refuses("a line after comments over lines",
            "/* 1\n 2 */ /* x */ // y\n#\nnode a { address = h }\n/*\n*/keepers = 0", "6: expected 1 to 16");
    config_free(accepts("a byte order mark, and lines that end by CR LF",
                        "\xef\xbb\xbf" NODE "keepers = 2\r\n", ""));

    is_int(read_bytes(nul, sizeof nul - 1, &config, &output), -EINVAL, "a NUL byte is a mistake");
    ok(is_expected(output, "2: syntax error: '$', '*', '+' or a control"), "and ends the reading");
    free(output);
    output = NULL;

    large = malloc(2 * 1024 * 1024);
    if (!large)
        exit(EXIT_FAILURE);
    memset(large, '\n', 2 * 1024 * 1024);
    is_int(read_bytes(large, 1024 * 1024, &config, &output), -EINVAL, "1 MiB is read");
    ok(is_expected(output, "1048577: no node"), "to its last line");
    free(output);
    output = NULL;
    is_int(read_bytes(large, 1024 * 1024 + 1, &config, &output), -EFBIG, "a larger file is not");
    ok(strstr(output, "larger than 1 MiB"), "with the reason");
    free(output);
    output = NULL;
    for (size_t i = 0; i < 1024 * 1024 / 16; i++)
        memcpy(large + i * 16, "node a{db=1;}\n  ", 16);
    is_int(read_bytes(large, 1024 * 1024, &config, &output), -EINVAL,
           "a file with tens of thousands of mistakes");
    ok(strstr(output, FILE_NAME ": and 65465 more\n"), "the first are printed, the rest is counted");
    ok(!config, "no configuration results");
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
    int r = read_path(path, true, &config, &output);

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

static void test_without_a_file(void) {
    _cleanup_(cleanup_config) struct config *config = NULL;

    is_int(config_read(NULL, true, stderr, &config), 0, "defaults, without a file");
    is_int(config->n_nodes, 0, "no nodes");
    is_int(config->terms.default_ttl_ms, 10000, "default_ttl has its default");
    ok(!config_free(NULL), "freeing NULL is fine");
}

static void write_credential(const char *text) {
    FILE *file = fopen("secret", "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(EXIT_FAILURE);
}

#define WITH_CREDENTIAL "node a { address = h password = credential(\"secret\") db = 2 }\n"

/* Reads as --check-config does. `expected` has warnings and mistakes. */
static void checks(const char *what, const char *text, int expected_result, const char *expected) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;

    write_file(text, strlen(text));
    int r = read_path(FILE_NAME, false, &config, &output);
    if (!ok(r == expected_result && is_expected(output, expected), "checked: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
}

/* Without a service manager. */
static void test_unchecked(void) {
    checks("a credential", WITH_CREDENTIAL, 0, "1: password = credential(\"secret\"): not checked");
    checks("the path of a credential", "node a { address = h\ntls_ca = credential(\"x\") }", -EINVAL,
           "2: warning: tls_ca\n2: tls_ca of node \"a\": expected tls = yes");
    if (!tls_built_in())
        return;
    checks("files that are credentials",
           "node a { address = h tls = yes\ntls_ca = credential(\"x\")\n"
           "tls_cert = credential(\"y\")\ntls_key = credential(\"z\") }",
           0, "2: not checked\n3: not checked\n4: not checked");
    checks("a missing file, beside a file and a password that are credentials",
           "node a { address = h tls = yes tls_ca = credential(\"x\") }\n"
           "node b { address = i tls = yes password = credential(\"y\")\ntls_ca = /nonesuch }\n"
           "node c { address = j }",
           -EINVAL, "3: tls_ca of node \"b\": can't load it: No such file");
}

static void test_credentials(const char *directory) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;

    refuses("a credential without a service manager", WITH_CREDENTIAL,
            "1: expected the agent to be run by systemd");
    (void) setenv("CREDENTIALS_DIRECTORY", directory, 1);
    refuses("a credential that was not passed", WITH_CREDENTIAL, "1: not passed by the service manager");
    write_credential("two\nlines\n");
    refuses("a credential of two lines", WITH_CREDENTIAL, "1: expected one line of text in it");
    write_credential("\n");
    refuses("an empty credential", WITH_CREDENTIAL, "1: expected 1 to 1024 bytes in it");
    write_credential("a \"$pass{word}\n");
    is_int(read_bytes(WITH_CREDENTIAL, strlen(WITH_CREDENTIAL), &config, &output), 0, "a credential");
    is_string(config ? config->nodes[0].password : "", "a \"$pass{word}",
              "is the password, without the newline");
    is_int(config ? config->nodes[0].database : 0, 2, "and options after it are read");
    refuses("a credential with a path", "node a { address = h password = credential(\"../x\") }",
            "1: expected a credential's name");
    refuses("a credential without a name", "node a { address = h password = credential() }",
            "1: syntax error: a call after '=': expected credential(\"name\")");
    refuses("a credential without ')'", "node a { address = h password = credential(\"x\" }",
            "1: syntax error: a call after '=': expected credential(\"name\")");
    refuses("a credential outside of a value", "credential(\"x\") node a { address = h }",
            "1: credential(...): expected OPTION = credential(\"name\")");
    (void) unlink("secret");
    (void) unsetenv("CREDENTIALS_DIRECTORY");
}

/* The example that is installed, given as the argument. */
static void test_example(const char *path) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;

    is_int(read_path(path, true, &config, &output), 0, "the example is valid");
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
    ok(rule->n_users == 2 && rule->users[0] == 0 && rule->users[1] == 1001, "users by name and number");
    ok(rule->n_groups == 2 && rule->groups[0] == 0 && rule->groups[1] == 7, "groups over several lines");
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
    refuses(
        "an unknown user", NODE "rule x {\nusers = {root, nobody-there}\n}",
        "3: users = \"nobody-there\": expected users that exist, or their numbers");
    refuses("an unknown group", NODE "rule x {\ngroups = {nobody-there}\n}", "3: groups = \"nobody-there\"");
    refuses("no user", NODE "rule x {\nusers = {}\n}", "2: users = {}: expected at least one");
    refuses("no unit", NODE "rule x {\nunits = { }\n}", "2: units = {}: expected at least one");
    refuses("an unknown right", NODE "rule x {\nmay = {acquire, fly}\n}",
            "3: may = \"fly\": expected");
    refuses("a list without its end", NODE "rule x {\nusers = {root\n}", "2: the section is not closed");
    refuses("a list without commas", NODE "rule x { users = {0 b} }",
            "2: syntax error: unexpected token 'b'");
    refuses("a rule's max_ttl above the agent's", NODE "rule x { max_ttl = 2m }", "2: max_ttl = \"2m\"");
    refuses("a rule's default_ttl above its max_ttl", NODE "rule x { max_ttl = 2s default_ttl = 3s }",
            "2: default_ttl = \"3s\"");
}

int main(int argc, char **argv) {
    char directory[] = "/tmp/test-config-XXXXXX";

    (void) setenv("HOME", "expanded", 1);
    (void) umask(077);
    if (argc > 1)
        test_example(argv[1]);
    if (!mkdtemp(directory) || chdir(directory) < 0)
        return EXIT_FAILURE;
    test_defaults();
    test_rules();
    test_peers();
    test_everything();
    test_values();
    test_nodes();
    test_tls();
    test_options();
    test_syntax();
    test_text();
    test_all_at_once();
    test_files();
    test_reload();
    test_without_a_file();
    test_unchecked();
    test_credentials(directory);
    (void) unlink(FILE_NAME);
    (void) rmdir(directory);
    return done_testing();
}
