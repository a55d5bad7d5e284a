/* The form of the configuration file, libconfuse's pitfalls included. */
#include "config-harness.h"

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
    refuses("a list", NODE "keepers = { 1, 2 }\nmax_leases = 0", "2: syntax error: unexpected token '{'");
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

int main(void) {
    char directory[] = "/tmp/test-syntax-XXXXXX";

    config_harness_begin(directory);
    test_syntax();
    test_text();
    config_harness_end(directory);
    return done_testing();
}
