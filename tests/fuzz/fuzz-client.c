/* Bytes from an agent to libredlock: replies and pushes to requests of all kinds, breaks of the connection,
 * and time. What must hold: `granted`, `failed` and `lost` are called once a lease at most, nothing follows
 * `lost`, and each reply that a caller waits for comes by the end of the connection.
 *
 * An input is a list of steps; a step is a letter and what follows (steps[] below). */

#include <limits.h>

#include "client.h"
#include "deadline-view.h"
#include "fuzz.h"
#include "lease.h"
#include "observe.h"

enum goal { GRANTED, FAILED, AT_RISK, EXTENDED, LOST, RESUMED, SEEN, LEADER, CHECKED };

const char *const fuzz_goals[] = {
    [GRANTED] = "a grant",
    [FAILED] = "a push of a failure",
    [AT_RISK] = "a push of a risk",
    [EXTENDED] = "an extension",
    [LOST] = "a push of a loss",
    [RESUMED] = "a lease that another agent resumes",
    [SEEN] = "an observed leader",
    [LEADER] = "the reply to LEADER",
    [CHECKED] = "the reply to CHECK",
    NULL,
};
uint32_t fuzz_reached;

enum { LEASES_MAX = 16, REPLIES_MAX = 32, STEPS_MAX = 500 };

static struct world {
    struct client client;
    struct deadline_view view;
    int64_t now_ns;
    struct held {
        struct redlock_lease *lease;
        bool granted, over;
    } leases[LEASES_MAX];
    unsigned n_leases;
    struct client_reply replies[REPLIES_MAX];
    unsigned n_replies;
    bool is_back; /* at another agent */
} world;

static struct held *held(const struct redlock_lease *lease) {
    for (unsigned i = 0; i < world.n_leases; i++)
        if (world.leases[i].lease == lease)
            return &world.leases[i];
    abort(); /* a callback for a lease that is not ours */
}

static void on_granted(struct redlock_lease *lease, void *userdata) {
    struct held *found = held(lease);

    (void) userdata;
    must(!found->granted && !found->over);
    found->granted = true;
    fuzz_reach(GRANTED);
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct held *found = held(lease);

    (void) userdata;
    must(!found->granted && !found->over && error < 0 && memchr(text, '\0', 4096));
    *found = world.leases[--world.n_leases];
    if (error == REDLOCK_TIMED_OUT)
        fuzz_reach(FAILED);
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) userdata;
    must(!held(lease)->over && left_ms >= 0 && reason);
    if (strcmp(reason, "no-quorum") == 0)
        fuzz_reach(AT_RISK);
}

static void on_extended(struct redlock_lease *lease, void *userdata) {
    (void) userdata;
    must(!held(lease)->over);
    fuzz_reach(world.is_back ? RESUMED : EXTENDED);
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    struct held *found = held(lease);

    (void) userdata;
    must(!found->over && reason && text);
    found->over = true;
    if (strcmp(reason, "max-hold") == 0)
        fuzz_reach(LOST);
}

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    (void) connection;
    (void) userdata;
    must(sighting->name && strlen(sighting->name) < 4096);
    if (sighting->leadership == REDLOCK_LEADER_HELD)
        fuzz_reach(SEEN);
    free(fuzz_copy(sighting->data, sighting->leadership == REDLOCK_LEADER_HELD ? sighting->data_length : 0));
}

/* NULL: there are enough. */
static struct client_reply *new_reply(void) {
    if (world.n_replies == REPLIES_MAX)
        return NULL;
    world.replies[world.n_replies] = (struct client_reply){0};
    return &world.replies[world.n_replies++];
}

static void step_acquire(struct fuzz_input *input) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct held *added = &world.leases[world.n_leases];

    options.wait_ms = (int64_t) fuzz_below(input, 4) - 1;
    options.heartbeat_ms = fuzz_below(input, 2) * 100;
    if (world.n_leases == LEASES_MAX)
        return;
    *added = (struct held){0};
    if (client_acquire(&world.client, "a", &options, NULL, world.now_ns, &added->lease) == REDLOCK_OK)
        world.n_leases++;
}

static void step_release(struct fuzz_input *input) {
    if (world.n_leases == 0)
        return;
    struct held *released = &world.leases[fuzz_below(input, world.n_leases)];
    struct redlock_lease *lease = released->lease;
    *released = world.leases[--world.n_leases];
    if (lease->id != 0 && lease->state != LEASE_OVER && !world.client.gone)
        (void) client_request_id(&world.client, KIND_RELEASE, "RELEASE", lease, NULL, world.now_ns);
    lease_drop(&world.client, lease);
}

static void step_check(struct fuzz_input *input) {
    struct client_reply *reply = world.n_leases > 0 ? new_reply() : NULL;

    if (!reply)
        return;
    struct redlock_lease *lease = world.leases[fuzz_below(input, world.n_leases)].lease;
    bool beats = fuzz_below(input, 2) == 1;
    if (client_request_id(&world.client, beats ? KIND_BEAT : KIND_CHECK, beats ? "BEAT" : "CHECK", lease,
                          reply, world.now_ns) != REDLOCK_OK)
        world.n_replies--;
}

static void step_leader(struct fuzz_input *input) {
    static struct redlock_leader leaders[REPLIES_MAX];
    static const struct resp_token items[] = {{.type = RESP_BULK, .text = "LEADER", .length = 6},
                                              {.type = RESP_BULK, .text = "a", .length = 1}};
    struct client_reply *reply = new_reply();

    (void) input;
    if (!reply)
        return;
    reply->leader = &leaders[world.n_replies - 1];
    if (client_request(&world.client, KIND_OTHER, items, 2, NULL, reply, world.now_ns) != REDLOCK_OK)
        world.n_replies--;
}

static void break_off(int error) {
    if (!world.client.gone)
        client_disconnected(&world.client, error, "the connection broke", world.now_ns);
    for (unsigned i = 0; i < world.n_replies; i++) {
        must(world.replies[i].done);
        if (world.replies[i].integer > 0)
            fuzz_reach(world.replies[i].leader ? LEADER : CHECKED);
    }
    world.n_replies = 0;
}

static void receive(const char *bytes, size_t length) {
    if (world.client.gone || length == 0)
        return;
    char *room = client_input_room(&world.client, length);
    if (!room) {
        break_off(REDLOCK_NO_MEMORY);
        return;
    }
    memcpy(room, bytes, length);
    int error = client_received(&world.client, length, world.now_ns);
    if (error != REDLOCK_OK)
        break_off(error);
}

static void step_observe(struct fuzz_input *input) {
    (void) input;
    if (observe_add(&world.client, "a") == REDLOCK_OK)
        observe_accepted(&world.client, "a");
}

/* The reply to HELLO. */
static void step_greeting(struct fuzz_input *input) {
    static const char greeting[] = "%2\r\n+proto\r\n:3\r\n+now\r\n:1000000000000\r\n";

    (void) input;
    receive(greeting, strlen(greeting));
}

static void step_line(struct fuzz_input *input) {
    const uint8_t *end = input->length > 0 ? memchr(input->bytes, '\n', input->length) : NULL;
    const char *line;
    size_t length = fuzz_take(input, end ? (size_t) (end - input->bytes) : input->length, &line);

    receive(line, length);
    receive("\r\n", 2);
    (void) fuzz_byte(input);
}

static void step_bytes(struct fuzz_input *input) {
    const char *bytes;
    size_t length = fuzz_take(input, fuzz_byte(input), &bytes);

    receive(bytes, length);
}

static void step_time(struct fuzz_input *input) {
    world.now_ns += (int64_t) fuzz_number(input, 2) * 1000000;
    client_tick(&world.client, world.now_ns);
}

static void step_break(struct fuzz_input *input) {
    (void) input;
    break_off(REDLOCK_AGENT_AWAY);
}

static void step_back(struct fuzz_input *input) {
    (void) input;
    if (!world.client.gone || world.client.over || !client_wants_back(&world.client))
        return;
    client_back(&world.client, world.now_ns);
    world.is_back = true;
}

static void begin(void) {
    static const struct redlock_callbacks callbacks = {.size = sizeof(callbacks),
                                                       .granted = on_granted,
                                                       .failed = on_failed,
                                                       .at_risk = on_at_risk,
                                                       .extended = on_extended,
                                                       .lost = on_lost,
                                                       .leader = on_leader};

    memset(&world, 0, sizeof(world));
    world.now_ns = 1000000000000;
    must(client_init(&world.client, NULL, &world.view) == REDLOCK_OK);
    world.client.callbacks = callbacks;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const struct {
        char letter;
        void (*run)(struct fuzz_input *input);
    } steps[] = {
        {'a', step_acquire}, {'r', step_release}, {'c', step_check},
        {'l', step_leader},  {'>', step_line}, /* from the agent: a line, to its end */
        {'b', step_bytes},                     /* number of bytes, bytes */
        {'t', step_time},                      /* 2 bytes: ms */
        {'x', step_break},   {'y', step_back},    {'h', step_greeting}, /* after 'y' */
        {'o', step_observe},
    };
    struct fuzz_input input = {bytes, length};

    begin();
    for (unsigned step = 0; input.length > 0 && step < STEPS_MAX; step++) {
        char letter = (char) fuzz_byte(&input);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
            if (steps[i].letter == letter)
                steps[i].run(&input);
        if (world.client.output_length > 0)
            client_sent(&world.client, world.client.output_length);
    }
    break_off(REDLOCK_AGENT_AWAY);
    client_over(&world.client);
    client_deinit(&world.client);
    return 0;
}
