/* Credentials of the service manager in the configuration. */
#include "config-harness.h"
#include "io/node/tls.h"

#define WITH_CREDENTIAL "node a { address = h password = credential(\"secret\") db = 2 }\n"

static void write_credential(const char *text) {
    FILE *file = fopen("secret", "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(EXIT_FAILURE);
}

/* Reads as --check-config does. `expected` has warnings and mistakes. */
static void checks(const char *what, const char *text, int expected_result, const char *expected) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;

    write_file(text, strlen(text));
    int r = read_path(FILE_NAME, CONFIG_CHECK, &config, &output);
    if (!ok(r == expected_result && is_expected(output, expected), "checked: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
}

/* Without a service manager. */
static void test_unchecked(void) {
    checks("a credential", WITH_CREDENTIAL, 0, "1: password = credential(\"secret\"): not checked");
    checks("a number that is a credential", "node a { address = h db = credential(\"x\") }", 0,
           "1: not checked");
    checks("a max_ttl that is a credential, and limits nothing yet",
           "node a { address = h } max_ttl = credential(\"x\")\nrule x { max_ttl = 3m default_ttl = 2m }", 0,
           "1: not checked");
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
           -EIO,
           "1: warning: tls_ca\n2: warning: password\n3: tls_ca of node \"b\": can't load it: No such file");
}

/* As in ExecReload= of systemd 252: the variable is set, and the directory is out of reach. */
static void test_out_of_reach(void) {
    (void) setenv("CREDENTIALS_DIRECTORY", "/nonesuch", 1);
    checks("a credential out of reach", WITH_CREDENTIAL, 0,
           "1: password = credential(\"secret\"): not checked");
    (void) unsetenv("CREDENTIALS_DIRECTORY");
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

int main(void) {
    char directory[] = "/tmp/test-credential-XXXXXX";

    config_harness_begin(directory);
    test_unchecked();
    test_out_of_reach();
    test_credentials(directory);
    config_harness_end(directory);
    return done_testing();
}
