/* An agent's replies to what the redlock command lists: status, nodes, leases, history, whoami, leader,
 * metrics, top and `nodes --bless`. What must hold: no byte outside of a reply is read; a command ends, with
 * a documented exit status, once there is no further reply; what it prints for people has no control
 * characters, and its JSON lines are UTF-8.
 *
 * An input is the letter of a command (commands[] below) and the replies that it gets, one after the other.
 * The linker replaces connection_ask() by the one below. */

#include <getopt.h>
#include <poll.h>

#include "bless.h"
#include "cli.h"
#include "connection-internal.h"
#include "fuzz.h"
#include "printable.h"
#include "top-sample.h"
#include "top-view.h"

enum goal {
    STATUS,
    QUOTA,
    USER,
    NODES,
    LEASES,
    HISTORY,
    WHOAMI,
    LEADER,
    METRICS,
    SAMPLE,
    BLESSED,
    JSON,
    MISANSWERED
};

const char *const fuzz_goals[] = {
    [STATUS] = "a state",
    [QUOTA] = "a quota",
    [USER] = "a user's use",
    [NODES] = "a node that votes",
    [LEASES] = "a lease that is held",
    [HISTORY] = "the answers of nodes to an event",
    [WHOAMI] = "what a rule allows",
    [LEADER] = "a leader with a token",
    [METRICS] = "metrics as OpenMetrics text",
    [SAMPLE] = "a sample with users, nodes and grants",
    [BLESSED] = "a node that votes after its blessing",
    [JSON] = "a map as JSON",
    [MISANSWERED] = "a reply of another form",
    NULL,
};
uint32_t fuzz_reached;

enum { TOKENS_MAX = 16384, BULK_BYTES_MAX = 256 * 1024, DEPTH_MAX = 4 }; /* as in client.c */

static struct redlock connection;
static struct fuzz_input replies;
static bool is_away; /* the replies have ended */
static int64_t now_ns;

/* --- the command's surroundings --- */

int64_t cli_now_ns(void) {
    return now_ns;
}

int cli_poll(struct pollfd *fds, unsigned long n_fds, int64_t until_ns) {
    must(!fds && n_fds == 0 && until_ns >= now_ns);
    now_ns = until_ns;
    return 0;
}

int cli_connect(const struct cli *cli, struct redlock **ret) {
    (void) cli;
    *ret = &connection;
    return STATUS_DONE;
}

void __wrap_redlock_close(struct redlock *closed);
void __wrap_redlock_close(struct redlock *closed) {
    must(!closed || closed == &connection);
}

/* A reply with its tokens, each in memory of its own length. */
struct answer {
    char *bytes;
    struct resp_token *tokens;
    size_t n_tokens;
};

/* The next one of the input. False: there is none, or no reply. */
static bool next_answer(struct answer *ret) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = BULK_BYTES_MAX, .tokens_max = TOKENS_MAX, .depth_max = DEPTH_MAX};
    static struct resp_token tokens[TOKENS_MAX];
    size_t n_tokens;
    const char *bytes;

    long length = resp_parse((const char *) replies.bytes, replies.length, &limits, tokens, &n_tokens);
    if (length <= 0 || tokens[0].type == RESP_PUSH)
        return false;
    (void) fuzz_take(&replies, (size_t) length, &bytes);
    *ret = (struct answer){.bytes = fuzz_copy(bytes, (size_t) length), .n_tokens = n_tokens};
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i].text)
            tokens[i].text = ret->bytes + (tokens[i].text - bytes);
    ret->tokens = (struct resp_token *) (void *) fuzz_copy(tokens, n_tokens * sizeof(tokens[0]));
    return true;
}

int __wrap_connection_ask(struct redlock *asked, const struct resp_token *items, size_t n_items,
                          struct client_reply *reply);
int __wrap_connection_ask(struct redlock *asked, const struct resp_token *items, size_t n_items,
                          struct client_reply *reply) {
    struct answer answer;
    int error = REDLOCK_OK;

    must(asked == &connection && n_items > 0 && items[0].length > 0 && reply->on_value);
    must(!is_away);
    client_note(&connection.client, "%s", "");
    is_away = !next_answer(&answer);
    if (is_away)
        return REDLOCK_AGENT_AWAY;
    if (answer.tokens[0].type == RESP_ERROR)
        error = client_error(&connection.client, &answer.tokens[0]);
    else
        reply->on_value(reply->userdata, answer.tokens, answer.n_tokens);
    free(answer.bytes);
    free(answer.tokens);
    return error;
}

/* --- commands --- */

static int run_top(const struct cli *cli, int argc, char **argv) {
    static struct top_sample samples[2];

    (void) cli;
    (void) argc;
    (void) argv;
    int error = top_sample_take(&samples[0], &connection);
    if (error != REDLOCK_OK)
        return cli_failed(&connection, error, "top");
    top_view_print(stdout, &samples[0], NULL);
    if (samples[0].n_users > 0 && samples[0].n_node_rows > 0 && samples[0].n_grant_rows > 0)
        fuzz_reach(SAMPLE);
    now_ns += NS_PER_S;
    error = top_sample_take(&samples[1], &connection);
    if (error == REDLOCK_OK)
        top_view_print(stdout, &samples[1], &samples[0]);
    return STATUS_DONE;
}

static int run_bless(const struct cli *cli, int argc, char **argv) {
    int status = bless_nodes(cli, argv + 1, argc - 1);

    if (status == STATUS_DONE)
        fuzz_reach(BLESSED);
    return status;
}

static const struct command {
    char letter;
    int (*run)(const struct cli *cli, int argc, char **argv);
    bool is_raw; /* prints bytes as they are */
    const char *arguments[3];
} commands[] = {
    {'s', cli_status, false, {"status"}},        {'S', cli_status, false, {"status", "--json"}},
    {'n', cli_nodes, false, {"nodes"}},          {'N', cli_nodes, false, {"nodes", "--json"}},
    {'l', cli_leases, false, {"leases"}},        {'L', cli_leases, false, {"leases", "--json"}},
    {'h', cli_history, false, {"history", "a"}}, {'H', cli_history, false, {"history", "--json", "a"}},
    {'w', cli_whoami, false, {"whoami"}},        {'W', cli_whoami, false, {"whoami", "--json"}},
    {'e', cli_leader, false, {"leader", "a"}},   {'E', cli_leader, false, {"leader", "--json", "a"}},
    {'m', cli_metrics, true, {"metrics"}},       {'t', run_top, false, {"top"}},
    {'b', run_bless, false, {"bless", "a"}},
};

/* --- output --- */

static void check_printed(const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = printable_decode(text + at, length - at, &character);
        must(bytes > 0 && (character == '\n' || printable_is(character)));
        at += bytes;
    }
}

static void note_goals(const char *out, const char *errors) {
    static const struct {
        enum goal goal;
        const char *text;
    } signs[] = {
        {STATUS, "state              ready\n"},
        {QUOTA, "; all users: "},
        {USER, "user               uid: "},
        {NODES, " voting "},
        {LEASES, " held "},
        {HISTORY, " yes 0."},
        {WHOAMI, "may                acquire "},
        {LEADER, "  fence "},
        {METRICS, "\n# EOF\n"},
        {JSON, "{\""},
    };

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strstr(out, signs[i].text))
            fuzz_reach(signs[i].goal);
    if (strstr(errors, ": expected "))
        fuzz_reach(MISANSWERED);
}

static bool is_documented(int status) {
    return status == STATUS_DONE || status == STATUS_HELD || status == STATUS_USAGE ||
           status == STATUS_NO_AGENT || status == STATUS_SYSTEM || status == STATUS_NO_QUORUM ||
           status == STATUS_DENIED || status == STATUS_TIMED_OUT || status == STATUS_LOST;
}

/* The texts are in memory meanwhile; findings go to the true standard error. */
static int run(const struct command *command, FILE *out, FILE *errors) {
    FILE *true_out = stdout, *true_errors = stderr;
    const struct cli cli = {0};
    char words[3][16], *argv[4] = {NULL};
    int argc = 0;

    for (; argc < 3 && command->arguments[argc]; argc++) {
        (void) snprintf(words[argc], sizeof(words[argc]), "%s", command->arguments[argc]);
        argv[argc] = words[argc];
    }
    optind = 0;
    stdout = out;
    stderr = errors;
    int status = command->run(&cli, argc, argv);
    stdout = true_out;
    stderr = true_errors;
    return status;
}

static void run_command(const struct command *command) {
    char *out_text = NULL, *error_text = NULL;
    size_t out_length, error_length;
    FILE *out = open_memstream(&out_text, &out_length), *errors = open_memstream(&error_text, &error_length);

    must(out && errors);
    int status = run(command, out, errors);
    (void) fclose(out);
    (void) fclose(errors);
    must(is_documented(status));
    must((status == STATUS_DONE || status == STATUS_HELD) || error_length > 0);
    if (!command->is_raw)
        check_printed(out_text, out_length);
    check_printed(error_text, error_length);
    note_goals(out_text, error_text);
    free(out_text);
    free(error_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char letter;

    replies = (struct fuzz_input){bytes, length};
    letter = (char) fuzz_byte(&replies);
    is_away = false;
    now_ns = 1000000000000;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].letter == letter)
            run_command(&commands[i]);
    return 0;
}
