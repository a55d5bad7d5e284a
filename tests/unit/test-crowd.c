/* A name that tens of thousands of requests of one user wait for: neither a RESUME nor a grant takes longer
 * than without them. */

#include <assert.h>
#include <time.h>

#include "local-harness.h"
#include "local/resume-token.h"
#include "tap.h"

enum { WAITERS = 60000, TURNS = 20, ROUNDS = 100 /* of a turn */, REQUESTS = 1 << 16 };

static uint64_t contender, released; /* the last */

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    if (command->kind == COMMAND_CONTEND)
        contender = command->request;
    if (command->kind == COMMAND_RELEASE)
        released = command->request;
}

static void begin(unsigned waiters) {
    const struct local_harness_setup setup = {.identity = {.agent = "00c0ffee", .host = "web1"},
                                              .registry_sink = {.command = on_command},
                                              .requests_max = REQUESTS,
                                              .limit = REQUESTS,
                                              .sessions = LISTENERS};

    local_harness_begin(&setup);
    for (unsigned i = 0; i < waiters; i++)
        ask(1, "ACQUIRE job WAIT -1 ASYNC");
}

static void report_granted(void) {
    const struct report report = {
        .kind = REPORT_GRANTED, .request = contender, .deadline_ns = harness.now_ns + NS_PER_S, .token = 7};

    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* A turn of the next waiter; another waits, and one that does not is rejected. */
static void take_turn(void) {
    struct registry *registry = &harness.front.registry;
    struct report report = {.kind = REPORT_RELEASED};

    ask(1, "ACQUIRE job WAIT -1 ASYNC");
    report_granted();
    ask(2, "ACQUIRE job WAIT 0");
    registry_release(registry, keeper_handle_find(&registry->handles, contender), harness.now_ns);
    report.request = released;
    registry_report(registry, &report, harness.now_ns);
}

static void resume(void) {
    struct resume_token token = {.terms.ttl_ms = 10000, .hold_until_ns = INSTANT_NEVER};
    char text[RESUME_TOKEN_BYTES_MAX + 1], line[RESUME_TOKEN_BYTES_MAX + 32];

    text[resume_token_write(&token, text)] = '\0';
    (void) snprintf(line, sizeof(line), "RESUME job %s", text);
    ask(0, line);
    assert(strncmp(harness.output[0], "-NOTHELD another", 16) == 0);
}

/* Of this thread: that of the process is coarse under a limit of processor time (mutants.py). */
static int64_t processor_ns(void) {
    struct timespec at;

    assert(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) == 0);
    return at.tv_sec * NS_PER_S + at.tv_nsec;
}

/* In the fastest turn: on a busy machine some take longer for reasons of their own. */
static int64_t mean_ns(void (*act)(void)) {
    int64_t least_ns = INT64_MAX;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        int64_t begun_ns = processor_ns();
        for (unsigned i = 0; i < ROUNDS; i++)
            act();
        int64_t took_ns = (processor_ns() - begun_ns) / ROUNDS;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return least_ns;
}

static void compare(void (*act)(void), const char *what) {
    int64_t took_ns[2];

    for (unsigned i = 0; i < 2; i++) {
        begin(i == 0 ? 2 : WAITERS);
        if (act == resume)
            report_granted();
        took_ns[i] = mean_ns(act);
    }
    ok(took_ns[1] < 8 * took_ns[0], "a %s takes %lld ns beside two requests of the name, %lld ns beside %d",
       what, (long long) took_ns[0], (long long) took_ns[1], WAITERS);
}

int main(void) {
    compare(resume, "RESUME");
    compare(take_turn, "grant");
    return done_testing();
}
