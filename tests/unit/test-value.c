/* The values of the configuration: units, limits, addresses, TLS options, and messages for wrong ones. */
#include "config-harness.h"
#include "io/client/reload.h"
#include "io/node/tls.h"

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
    refuses("key_format that makes such keys of names like d:epoch", NODE "key_format = \"redlock{name}\"",
            "2: redlockd:");
    refuses("key_format whose end makes such a key of the name redlockd",
            NODE "key_format = \"{name}:epoch\"", "2: redlockd:epoch");
    refuses("or of a part of that name", NODE "key_format = \"{name}ckd:fences:old\"", "2: redlockd:epoch");
    refuses("or one whose rest has any form", NODE "key_format = \"{name}:moved:x\"", "2: redlockd:epoch");
    config_free(accepts("other ends", NODE "key_format = \"{name}:lock\"", ""));
    config_free(accepts("and such an end with a beginning", NODE "key_format = \"x{name}:epoch\"", ""));
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

static void test_link_local(void) {
    _cleanup_(cleanup_config) struct config *config =
        accepts("two interfaces",
                "node a { address = \"[FE80:0::1%enP2p1s0]:1\" }\n"
                "node b { address = \"[fe80::1%enp2p1s0]:1\" }\nnode c { address = x }",
                "");

    if (config)
        is_string(config->nodes[0].host, "fe80::1%enP2p1s0", "the name of an interface keeps its case");
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
    refuses_with(-EIO, "a file that is not there", "node a { address = h tls = yes\ntls_ca = /nonesuch }",
                 "2: tls_ca of node \"a\": can't load it: No such file");
    refuses_with(-EIO, "one without a certificate",
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

int main(void) {
    char directory[] = "/tmp/test-value-XXXXXX";

    config_harness_begin(directory);
    test_values();
    test_nodes();
    test_link_local();
    test_tls();
    config_harness_end(directory);
    return done_testing();
}
