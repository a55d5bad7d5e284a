/* What Redis clients ask at connection: the whole reply to each, so that none is followed by another. */

#include <assert.h>

#include "scripted-keeper.h"
#include "tap.h"

#define NAME_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HELLO_USAGE "-ERR HELLO takes a version, AUTH user password, SETNAME name\r\n"
#define CLIENT_USAGE \
    "-ERR CLIENT knows SETNAME name, GETNAME, ID, SETINFO attribute value, NO-EVICT and NO-TOUCH\r\n"
#define BAD_CHARACTERS "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"

struct example {
    const char *line, *reply;
};

static void try_all(const struct example *examples, size_t n) {
    begin(512);
    for (size_t i = 0; i < n; i++) {
        ask(0, examples[i].line);
        is_string(got(0), examples[i].reply, examples[i].line);
    }
}

static void test_client(void) {
    static const struct example examples[] = {
        {"CLIENT GETNAME", "$-1\r\n"},
        {"CLIENT SETNAME " NAME_64, "+OK\r\n"},
        {"CLIENT GETNAME", "$64\r\n" NAME_64 "\r\n"},
        {"CLIENT SETNAME " NAME_64 "0", "-BADARG a client's name has at most 64 bytes\r\n"},
        {"CLIENT GETNAME", "$64\r\n" NAME_64 "\r\n"},
        {"CLIENT SETNAME !~", "+OK\r\n"},
        {"CLIENT GETNAME", "$2\r\n!~\r\n"},
        {"CLIENT SETNAME", CLIENT_USAGE},
        {"CLIENT SETNAME a b", CLIENT_USAGE},
        {"CLIENT GETNAME x", CLIENT_USAGE},
        {"CLIENT ID", ":1\r\n"},
        {"CLIENT ID x", CLIENT_USAGE},
        {"client setinfo lib-name redis-py", "+OK\r\n"},
        {"CLIENT SETINFO lib-name", CLIENT_USAGE},
        {"CLIENT NO-EVICT on", "+OK\r\n"},
        {"CLIENT NO-EVICT", CLIENT_USAGE},
        {"CLIENT NO-TOUCH on", "+OK\r\n"},
        {"CLIENT NO-TOUCH", CLIENT_USAGE},
        {"CLIENT KILL 1", CLIENT_USAGE},
    };
    static const char blank[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\na b\r\n",
                      rubout[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\na\x7f\r\n";

    try_all(examples, sizeof(examples) / sizeof(examples[0]));
    ask_bytes(0, blank, sizeof(blank) - 1);
    is_string(got(0), BAD_CHARACTERS, "a name with a blank");
    ask_bytes(0, rubout, sizeof(rubout) - 1);
    is_string(got(0), BAD_CHARACTERS, "a name with a rubout");
    ask(0, "CLIENT GETNAME");
    is_string(got(0), "$2\r\n!~\r\n", "the last good name stays");
}

static void test_hello(void) {
    static const struct example rejected[] = {
        {"HELLO 1", "-NOPROTO unsupported protocol version; 2 and 3 are known\r\n"},
        {"HELLO 3 AUTH user", HELLO_USAGE},
        {"HELLO 3 SETNAME", HELLO_USAGE},
        {"HELLO 3 NONSENSE", HELLO_USAGE},
        {"HELLO 3 SETNAME " NAME_64 "0", "-BADARG a client's name has at most 64 bytes\r\n"},
        {"CLIENT GETNAME", "$-1\r\n"}, /* in RESP2 */
    };

    try_all(rejected, sizeof(rejected) / sizeof(rejected[0]));
    ask(0, "HELLO");
    ok(begins(0, "*18\r\n$6\r\nserver\r\n$8\r\nredlockd\r\n$7\r\nversion\r\n"), "HELLO without a version");
    ask(0, "HELLO 3");
    ok(begins(0, "%9\r\n"), "the largest version");
    ask(0, "CLIENT GETNAME");
    is_string(got(0), "_\r\n", "then replies are of RESP3");
    ask(0, "HELLO 2 AUTH user password SETNAME me");
    ok(begins(0, "*18\r\n"), "the smallest version, with all words");
    ask(0, "CLIENT GETNAME");
    is_string(got(0), "$2\r\nme\r\n", "the name, in RESP2");
    ask(0, "HELLO 2 SETNAME");
    is_string(got(0), HELLO_USAGE, "no name after SETNAME");
}

static void test_commands(void) {
    static const char first[] = "*25\r\n*6\r\n$7\r\nACQUIRE\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*6\r\n";
    unsigned entries = 0;

    begin(512);
    ask(0, "COMMAND");
    ok(begins(0, first), "COMMAND begins with ACQUIRE, which has options");
    ok(strstr(got(0), "\r\n*6\r\n$7\r\nRELEASE\r\n:2\r\n*0\r\n"), "RELEASE has one argument");
    for (const char *at = got(0); (at = strstr(at, "\r\n*6\r\n")); at++)
        entries++;
    is_int(entries, 25, "each command has an entry");
    ask(0, "COMMAND INFO");
    ok(begins(0, first), "so does COMMAND INFO");
    ask(0, "COMMAND INFO nonesuch ping");
    ok(begins(0, "*2\r\n*-1\r\n*6\r\n$4\r\nPING\r\n"), "COMMAND INFO of names: nil for one that is none");
    ask(0, "COMMAND LIST");
    ok(begins(0, "*25\r\n$7\r\nACQUIRE\r\n"), "COMMAND LIST has the names");
    ask(0, "COMMAND GETKEYS GET a");
    is_string(got(0), "-ERR COMMAND knows COUNT, DOCS, LIST and INFO name...\r\n",
              "another word is an error, and no more");
    ask(0, "COMMAND COUNT");
    is_string(got(0), ":25\r\n", "COMMAND COUNT");
    ask(0, "COMMAND DOCS");
    is_string(got(0), "*0\r\n", "COMMAND DOCS in RESP2");
}

/* --- the page --- */

static int page_result;

static int on_page(void *userdata, struct session *session) {
    static struct deadline_page page;

    (void) userdata;
    if (page_result == 0)
        session->requester.page = &page;
    return page_result;
}

static void test_page(void) {
    begin(512);
    harness.front.sink.page = on_page;
    page_result = -1;
    ask(0, "PAGE");
    is_string(got(0), "-QUOTA the agent has no memory or descriptors for a page\r\n", "no page");
    page_result = 0;
    ask(0, "PAGE");
    is_string(got(0), "*6\r\n$7\r\nversion\r\n:1\r\n$5\r\nbytes\r\n:65536\r\n$5\r\nslots\r\n:4092\r\n",
              "a page");
    ask(0, "PAGE");
    is_string(got(0), "-BADARG this session has its page already\r\n", "not twice");
}

int main(void) {
    test_client();
    test_hello();
    test_commands();
    test_page();
    return done_testing();
}
