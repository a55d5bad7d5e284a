/* Requests of four clients, a scripted keeper, and time, in any order. What must hold: each output is RESP;
 * and when all sessions have ended and the keeper has answered, no request is left.
 *
 * An input is a list of steps; a step is a letter and what follows (steps[] below), so that a corpus can be
 * written by hand: "0ACQUIRE a TTL 1000", a line, and "kAG" is a grant of the name. */

#include "fuzz.h"
#include "local-harness.h"
#include "local/argument.h"
#include "local/command.h"
#include "local/reply.h"

enum goal { GRANTED, FAILED, EXTENDED, LOST, RELEASED, RESUMED, CHECKED, BEATEN, QUERIED, OBSERVED, LISTED };

const char *const fuzz_goals[] = {
    [GRANTED] = "a grant",
    [FAILED] = "a failure",
    [EXTENDED] = "an extension",
    [LOST] = "a loss",
    [RELEASED] = "a release",
    [RESUMED] = "a lease that is resumed",
    [CHECKED] = "a lease that CHECK finds",
    [BEATEN] = "a heartbeat",
    [QUERIED] = "an answered query",
    [OBSERVED] = "an observed name",
    [LISTED] = "a listing",
    NULL,
};
uint32_t fuzz_reached;

enum { CLIENTS = 4, INPUT_BYTES_MAX = 16 * 1024, REQUESTS_LIMIT = 24, COMMANDS_MAX = 256, STEPS_MAX = 2000 };

/* A request at the keeper. */
struct at_keeper {
    uint64_t request;
    struct lease_terms terms;
    instant_ns cooldown_until_ns;
    uint16_t spare_tokens;
    bool resume, persist, granted, releasing;
};

static struct world {
    struct at_keeper requests[COMMANDS_MAX];
    struct command queries[COMMANDS_MAX]; /* without their texts */
    unsigned n_requests, n_queries;
    int64_t token;
    uint8_t secret;
    bool surveyed;
    struct client {
        char input[INPUT_BYTES_MAX];
        size_t length;
        struct resp_skip skip;
        bool skipping, closed;
    } clients[CLIENTS];
} world;

/* --- the keeper --- */

static struct at_keeper *at_keeper(uint64_t request) {
    for (unsigned i = 0; i < world.n_requests; i++)
        if (world.requests[i].request == request)
            return &world.requests[i];
    must(world.n_requests < COMMANDS_MAX);
    struct at_keeper *added = &world.requests[world.n_requests++];
    *added = (struct at_keeper){.request = request};
    return added;
}

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    switch (command->kind) {
    case COMMAND_CONTEND:
    case COMMAND_RESUME:
    case COMMAND_SEARCH:
        *at_keeper(command->request) = (struct at_keeper){.request = command->request,
                                                          .terms = command->terms,
                                                          .cooldown_until_ns = command->cooldown_until_ns,
                                                          .spare_tokens = command->spare_tokens,
                                                          .resume = command->kind != COMMAND_CONTEND,
                                                          .persist = command->persist};
        break;
    case COMMAND_RELEASE:
    case COMMAND_FORGET:
        at_keeper(command->request)->releasing = true;
        break;
    case COMMAND_QUERY:
        must(world.n_queries < COMMANDS_MAX);
        world.queries[world.n_queries++] = *command;
        break;
    case COMMAND_ABANDON:
    case COMMAND_BEAT:
    case COMMAND_REFRESH:
        break;
    }
}

static void over(struct at_keeper *request) {
    *request = world.requests[--world.n_requests];
}

static bool is_held(uint64_t id) {
    const struct request *request = registry_find(&harness.front.registry, id);

    return request && request->state == REQUEST_HELD;
}

static void pass_on(const struct report *report, bool resumes) {
    bool was_held = is_held(report->request), awaited = false;

    for (unsigned i = 0; i < CLIENTS; i++)
        awaited |= harness.sessions[i].state == SESSION_RELEASING;
    registry_report(&harness.front.registry, report, harness.now_ns);
    if (report->kind == REPORT_GRANTED && is_held(report->request))
        fuzz_reach(resumes ? RESUMED : GRANTED);
    if (report->kind == REPORT_FAILED && !was_held)
        fuzz_reach(FAILED);
    if (report->kind == REPORT_EXTENDED && was_held)
        fuzz_reach(EXTENDED);
    if (report->kind == REPORT_LOST && was_held)
        fuzz_reach(LOST);
    if (report->kind == REPORT_RELEASED && awaited)
        fuzz_reach(RELEASED);
}

static void report_request(struct at_keeper *at, enum report_kind kind, struct fuzz_input *input) {
    static const char secret[SECRET_BYTES] = "abcdefghijklmnopqrst";
    struct report report = {.kind = kind,
                            .request = at->request,
                            .reason = (enum reason) fuzz_below(input, REASON_UNREAD),
                            .failure = (enum failure) fuzz_below(input, FAILURE_COUNT),
                            .deadline_ns =
                                harness.now_ns + ((int64_t) fuzz_number(input, 2) - 100) * NS_PER_MS,
                            .token = ++world.token,
                            .text = "why",
                            .text_length = 3};
    bool resumes = at->resume;

    if (kind == REPORT_GRANTED) {
        report.text = secret;
        report.text_length = SECRET_BYTES;
        report.token_last = world.token += at->spare_tokens;
        report.cooldown_until_ns = at->cooldown_until_ns;
        if (!at->resume && at->terms.cooldown_ms > 0)
            report.cooldown_until_ns = harness.now_ns + at->terms.cooldown_ms * NS_PER_MS;
        at->granted = true;
    } else if (kind == REPORT_FAILED && !at->resume) {
        report.failure = at->persist ? FAILURE_QUOTA : report.failure % FAILURE_NOT_HELD;
    } else if (kind == REPORT_CONTENDED) {
        report.failure = report.failure % FAILURE_QUOTA;
    }
    if (kind == REPORT_RELEASED || ((kind == REPORT_FAILED || kind == REPORT_LOST) && !at->releasing))
        over(at);
    pass_on(&report, resumes);
}

/* A report that a keeper could make. */
static void step_keeper(struct fuzz_input *input) {
    unsigned which = fuzz_byte(input);
    char letter = (char) fuzz_byte(input);

    if (world.n_requests == 0)
        return;
    struct at_keeper *at = &world.requests[(which + 256 - 'A') % world.n_requests];
    if (letter == 'G' && !at->granted)
        report_request(at, REPORT_GRANTED, input);
    else if (letter == 'C' && !at->granted && at->persist)
        report_request(at, REPORT_CONTENDED, input);
    else if (letter == 'F' && !at->granted)
        report_request(at, REPORT_FAILED, input);
    else if (letter == 'E' && at->granted)
        report_request(at, REPORT_EXTENDED, input);
    else if (letter == 'R' && at->granted)
        report_request(at, REPORT_AT_RISK, input);
    else if (letter == 'L' && at->granted)
        report_request(at, REPORT_LOST, input);
    else if (at->releasing)
        report_request(at, REPORT_RELEASED, input);
}

static struct session *session_with_id(uint64_t id) {
    for (unsigned i = 0; i < CLIENTS; i++)
        if (harness.sessions[i].id == id)
            return &harness.sessions[i];
    return NULL;
}

static void answer_query(struct fuzz_input *input) {
    const struct command query = world.queries[--world.n_queries];
    const char *value;
    struct report report = {.kind = REPORT_LEADER,
                            .origin = query.origin,
                            .request = query.request,
                            .token = (int64_t) fuzz_number(input, 2),
                            .validity_ms = (int64_t) fuzz_number(input, 2) - 1,
                            .foreign_type = fuzz_below(input, 4) == 0,
                            .undecided = fuzz_below(input, 4) == 0};

    report.text_length = (uint16_t) fuzz_take(input, fuzz_byte(input), &value);
    char *text = fuzz_copy(value, report.text_length);
    report.text = report.text_length > 0 ? text : NULL;
    fuzz_reach(query.origin == REPORT_ORIGIN_OBSERVE ? OBSERVED : QUERIED);
    if (query.origin == REPORT_ORIGIN_OBSERVE) {
        observe_report(&harness.front, &report, harness.now_ns);
    } else {
        leader_report(&harness.front, session_with_id(leader_session_id(&report)), &report, harness.now_ns);
    }
    free(text);
}

static void step_query(struct fuzz_input *input) {
    if (world.n_queries > 0)
        answer_query(input);
}

static void step_node(struct fuzz_input *input) {
    const struct report report = {.kind = REPORT_NODE,
                                  .node_state = (enum node_state) fuzz_below(input, NODE_STATE_FAILED + 1),
                                  .stepped = fuzz_below(input, 2) == 1,
                                  .text = "a reason",
                                  .text_length = 8};

    front_state_node_report(&harness.front, 0, &report, harness.now_ns);
}

static void on_survey(void *userdata) {
    (void) userdata;
    world.surveyed = true;
}

static void step_counted(struct fuzz_input *input) {
    (void) input;
    if (world.surveyed)
        listing_counted(&harness.front);
    while (listing_due_ns(&harness.front, harness.now_ns) <= harness.now_ns) {
        fuzz_reach(LISTED);
        listing_turn(&harness.front, harness.now_ns);
    }
    world.surveyed = false;
}

/* --- the clients --- */

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, ++world.secret, SECRET_BYTES);
}

static int on_page(void *userdata, struct session *session) {
    (void) userdata;
    (void) session;
    return -1;
}

static void on_bless(void *userdata, unsigned node) {
    (void) userdata;
    (void) node;
}

/* The output consists of whole values of RESP. */
static void check_output(unsigned i) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = OUTPUT_MAX, .tokens_max = 65536, .depth_max = RESP_DEPTH_MAX};
    static struct resp_token tokens[65536];
    size_t n_tokens, used = 0;

    while (used < harness.output_length[i]) {
        long n = resp_parse(harness.output[i] + used, harness.output_length[i] - used, &limits, tokens,
                            &n_tokens);
        must(n > 0);
        used += (size_t) n;
    }
    harness.output_length[i] = 0;
}

static void close_client(unsigned i, bool expel) {
    struct client *client = &world.clients[i];

    if (expel && !client->closed) {
        (void) disconnect_expel(&harness.sessions[i], "a reason", harness.now_ns);
        client->closed = true;
        return;
    }
    disconnect_end(&harness.sessions[i], harness.now_ns);
    check_output(i);
    session_init(&harness.sessions[i], &harness.front, harness.sessions[CLIENTS].id++, (pid_t) (100 + i),
                 1000);
    client->length = 0;
    client->skipping = client->closed = false;
}

/* False: the session pauses before the request. */
static bool run_command(unsigned i, const struct resp_token *tokens, size_t n_tokens) {
    size_t before = harness.output_length[i];

    if (command_run(&harness.sessions[i], tokens, n_tokens, harness.now_ns) == 0)
        return false;
    const char *reply = harness.output[i] + before;
    if (harness.output_length[i] == before || reply[0] != ':' || reply[1] <= '0')
        return true;
    if (argument_is(&tokens[0], "CHECK"))
        fuzz_reach(CHECKED);
    else if (argument_is(&tokens[0], "BEAT"))
        fuzz_reach(BEATEN);
    return true;
}

/* Returns the bytes taken; 0: more are needed, or the session pauses; negative: the client breaks the
 * protocol. */
static long take_request(unsigned i, const char *bytes, size_t length) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = REQUEST_ITEM_BYTES_MAX, .tokens_max = REQUEST_ITEMS_MAX, .depth_max = 1};
    struct resp_token tokens[REQUEST_ITEMS_MAX];
    struct client *client = &world.clients[i];
    size_t n_tokens = 0;
    bool done;
    long n = 0;

    if (!client->skipping)
        n = resp_parse_request(bytes, length, &limits, tokens, &n_tokens);
    if (n == RESP_TOO_LARGE) {
        resp_skip_begin(&client->skip, REQUEST_SKIPPED_BYTES_MAX);
        client->skipping = true;
    }
    if (client->skipping) {
        n = resp_skip(&client->skip, bytes, length, &done);
        client->skipping = !done;
    } else if (n > 0 && n_tokens > 0 && !run_command(i, tokens, n_tokens)) {
        return 0;
    }
    must(n <= (long) length);
    return n;
}

static void take_requests(unsigned i) {
    struct client *client = &world.clients[i];
    struct session *session = &harness.sessions[i];

    while (client->length > 0 && !client->closed && session_ready(session) && session_may_ask(session)) {
        char *bytes = fuzz_copy(client->input, client->length);
        long n = take_request(i, bytes, client->length);
        free(bytes);
        if (n == 0)
            return;
        if (n < 0 || session->state == SESSION_QUITTING) {
            close_client(i, n < 0);
            return;
        }
        client->length -= (size_t) n;
        memmove(client->input, client->input + n, client->length);
    }
}

static void send_bytes(unsigned i, const char *bytes, size_t length) {
    struct client *client = &world.clients[i];

    if (client->closed || client->length + length > INPUT_BYTES_MAX)
        return;
    if (length > 0)
        memcpy(client->input + client->length, bytes, length);
    client->length += length;
}

static void step_line(unsigned i, struct fuzz_input *input) {
    const uint8_t *end = input->length > 0 ? memchr(input->bytes, '\n', input->length) : NULL;
    const char *line;
    size_t length = fuzz_take(input, end ? (size_t) (end - input->bytes) : input->length, &line);

    send_bytes(i, line, length);
    send_bytes(i, "\r\n", 2);
    (void) fuzz_byte(input);
}

static void step_raw(struct fuzz_input *input) {
    unsigned i = fuzz_below(input, CLIENTS);
    const char *bytes;
    size_t length = fuzz_take(input, fuzz_byte(input), &bytes);

    send_bytes(i, bytes, length);
}

static void step_close(struct fuzz_input *input) {
    close_client(fuzz_below(input, CLIENTS), false);
}

static void step_expel(struct fuzz_input *input) {
    close_client(fuzz_below(input, CLIENTS), true);
}

static void pass_ms(int64_t ms) {
    harness.now_ns += ms * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    observe_tick(&harness.front, harness.now_ns);
}

static void step_time(struct fuzz_input *input) {
    pass_ms((int64_t) fuzz_number(input, 2));
}

/* --- */

static void begin(void) {
    static const struct local_harness_setup setup = {
        .identity = {.version = "1.2.3",
                     .agent = "00c0ffee",
                     .host = "web1",
                     .pid = 42,
                     .uid = 1000,
                     .n_nodes = 1,
                     .n_keepers = 1,
                     .node_names = {"a"},
                     .node_addresses = {"unix:/a.sock"}},
        .sink = {.query = on_command, .survey = on_survey, .page = on_page, .bless = on_bless},
        .registry_sink = {.command = on_command, .secret = on_secret},
        .requests_max = 4096,
        .limit = REQUESTS_LIMIT,
        .sessions = CLIENTS + 1};

    for (unsigned i = 0; i < CLIENTS; i++)
        world.clients[i].length = world.clients[i].skipping = world.clients[i].closed = 0;
    world.n_requests = world.n_queries = 0;
    world.token = 0;
    world.surveyed = false;
    local_harness_begin(&setup);
}

/* All sessions end, and the keeper answers. */
static void end(void) {
    const struct registry *registry = &harness.front.registry;
    struct fuzz_input nothing = {0};

    for (unsigned i = 0; i < CLIENTS; i++)
        close_client(i, false);
    for (unsigned i = 0; i < 1000 && registry->requests.taken > 0; i++) {
        for (unsigned k = world.n_requests; k-- > 0;)
            if (world.requests[k].releasing)
                report_request(&world.requests[k], REPORT_RELEASED, &nothing);
        pass_ms(1000);
    }
    must(registry->requests.taken == 0 && registry->held == 0 && registry->waiting == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const struct {
        char letter;
        void (*run)(struct fuzz_input *input);
    } steps[] = {
        {'r', step_raw},    /* client, number of bytes, bytes */
        {'k', step_keeper}, /* the keeper's request from A on; G(rant), C(ontended), F(ailed), E(xtended),
                             * R(isk), L(ost), else released */
        {'l', step_query},  {'n', step_node},  {'c', step_counted}, {'t', step_time}, /* 2 bytes: ms */
        {'e', step_close},  {'x', step_expel},
    };
    struct fuzz_input input = {bytes, length};

    begin();
    for (unsigned step = 0; input.length > 0 && step < STEPS_MAX; step++) {
        char letter = (char) fuzz_byte(&input);
        if (letter >= '0' && letter < '0' + CLIENTS)
            step_line((unsigned) (letter - '0'), &input);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
            if (steps[i].letter == letter)
                steps[i].run(&input);
        for (unsigned i = 0; i < CLIENTS; i++) {
            take_requests(i);
            check_output(i);
        }
        if (world.n_requests + world.n_queries > COMMANDS_MAX / 2)
            break;
    }
    end();
    return 0;
}
