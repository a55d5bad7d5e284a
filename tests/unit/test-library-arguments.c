/* Arguments of the library: missing pointers, structures of another version, the largest times. */

#include <poll.h>
#include <stddef.h>

#include "library-harness.h"
#include "request.h"
#include "tap.h"

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) lease;
    (void) reason;
    (void) text;
    (void) userdata;
}

/* Every call, with NULL for each of its pointers. */
static void test_null(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_options no_data = REDLOCK_OPTIONS_INIT;
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *lease = NULL;
    struct {
        const char *call;
        int64_t got, want;
    } calls[] = {
#define CALL(call, want) {#call, call, want}
        CALL(redlock_connect(scripted.path, NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire(NULL, "x", NULL, &lease), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire(connection, NULL, NULL, &lease), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire(connection, "x", NULL, NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire_async(NULL, "x", NULL, &lease), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire_async(connection, NULL, NULL, &lease), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_acquire_async(connection, "x", NULL, NULL), REDLOCK_BAD_ARGUMENT),
        CALL((no_data.data_length = 1, redlock_acquire(connection, "x", &no_data, &lease)),
             REDLOCK_BAD_ARGUMENT),
        CALL(redlock_release(NULL), 0),
        CALL(redlock_release_async(NULL), REDLOCK_OK),
        CALL(redlock_check(NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_beat(NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_remaining_ns(NULL), 0),
        CALL(redlock_valid(NULL), 0),
        CALL((int64_t) redlock_lease_id(NULL), 0),
        CALL((int64_t) redlock_fence(NULL), 0),
        CALL(redlock_lease_name(NULL)[0], 0),
        CALL(redlock_leader(NULL, "x", &leader), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_leader(connection, NULL, &leader), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_leader(connection, "x", NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_observe(NULL, "x"), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_observe(connection, NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_unobserve(NULL, "x"), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_unobserve(connection, NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_set_callbacks(NULL, NULL, NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_set_callbacks(connection, NULL, NULL), REDLOCK_OK),
        CALL(redlock_fd(NULL), REDLOCK_BAD_ARGUMENT),
        CALL(redlock_events(NULL), POLLIN),
        CALL(redlock_dispatch(NULL), REDLOCK_BAD_ARGUMENT),
        CALL((redlock_set_answer_timeout(NULL, 1), 0), 0),
        CALL(redlock_error_text(NULL)[0], 0),
        CALL((redlock_close(NULL), 0), 0),
#undef CALL
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        is_int(calls[i].got, calls[i].want, calls[i].call);
    ok(!lease, "none of these calls acquires a lease");
    is(scripted.acquires, 0);
    ok(redlock_acquire(connection, "x", NULL, &lease) == REDLOCK_OK && redlock_valid(lease),
       "the connection still works");
    redlock_close(connection);
}

/* Structures of programs built against an older or a newer header. */
static void test_sizes(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct {
        struct redlock_options options;
        int64_t more[4];
    } later = {.options = REDLOCK_OPTIONS_INIT};
    struct {
        struct redlock_callbacks callbacks;
        void (*more[2])(void);
    } later_callbacks = {.callbacks = {.lost = on_lost}};
    struct redlock_lease *lease = NULL;
    size_t first = offsetof(struct redlock_options, linger_ms);
    const struct {
        size_t size;
        int64_t last;
        int want;
    } options[] = {
        {0, 0, REDLOCK_BAD_ARGUMENT},
        {sizeof(size_t), 0, REDLOCK_BAD_ARGUMENT},
        {first - 1, 0, REDLOCK_BAD_ARGUMENT},
        {first, 0, REDLOCK_OK},
        {sizeof(later.options), 1, REDLOCK_OK},
        {sizeof(later), 0, REDLOCK_OK},
        {sizeof(later), 1, REDLOCK_BAD_ARGUMENT},
        {SIZE_MAX, 0, REDLOCK_BAD_ARGUMENT},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        later.options.size = options[i].size;
        later.more[3] = options[i].last;
        is(redlock_acquire(connection, "x", &later.options, &lease), options[i].want);
        if (options[i].want == REDLOCK_OK)
            is(redlock_release(lease), 1);
        is(redlock_acquire_async(connection, "x", &later.options, &lease), options[i].want);
        if (options[i].want == REDLOCK_OK)
            is(redlock_release(lease), 1);
    }
    const size_t sizes[] = {0, offsetof(struct redlock_callbacks, leader) - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        later_callbacks.callbacks.size = sizes[i];
        is(redlock_set_callbacks(connection, &later_callbacks.callbacks, NULL), REDLOCK_BAD_ARGUMENT);
    }
    later_callbacks.callbacks.size = sizeof(later_callbacks);
    is(redlock_set_callbacks(connection, &later_callbacks.callbacks, NULL), REDLOCK_OK);
    later_callbacks.more[1] = (void (*)(void)) abort;
    is(redlock_set_callbacks(connection, &later_callbacks.callbacks, NULL), REDLOCK_BAD_ARGUMENT);
    later_callbacks.callbacks.size = offsetof(struct redlock_callbacks, leader);
    is(redlock_set_callbacks(connection, &later_callbacks.callbacks, NULL), REDLOCK_OK);
    redlock_close(connection);
}

/* The caller's structure is not written beyond its size, and fully initialized within. */
static void test_leader(void) {
    struct {
        struct redlock_leader leader;
        char more[16];
    } room;

    scripted_start();
    struct redlock *connection = connect_scripted();
    memset(&room, 'x', sizeof(room));
    room.leader.size = 0;
    is(redlock_leader(connection, "x", &room.leader), REDLOCK_BAD_ARGUMENT);
    room.leader.size = offsetof(struct redlock_leader, since_ms) - 1;
    is(redlock_leader(connection, "x", &room.leader), REDLOCK_BAD_ARGUMENT);
    room.leader.size++;
    is(redlock_leader(connection, "cooling", &room.leader), 1);
    ok(memcmp(&room.leader.since_ms, "xxxx", 4) == 0,
       "a program built for the first version gets its members");
    room.leader.size = sizeof(room.leader);
    is(redlock_leader(connection, "cooling", &room.leader), 1);
    ok(room.leader.since_ms == 1500 && room.leader.cooling_ms == 700,
       "others get the agent's own knowledge");
    is(redlock_leader(connection, "x", &room.leader), 1);
    is_string(room.leader.holder, "web1:00c0ffee:42", "the holder");
    is_string(room.leader.type, "", "without a type: the key is a lock");
    ok(room.leader.since_ms == 0 && room.leader.cooling_ms == 0, "zero when the agent does not know them");
    ok(room.more[0] == 'x', "the bytes behind the structure are unchanged");
    room.leader.size = sizeof(room);
    is(redlock_leader(connection, "x", &room.leader), 1);
    ok(room.more[0] == 0 && room.more[15] == 0 && room.leader.size == sizeof(room),
       "members of a later version are zero");
    is(redlock_leader(connection, "hash", &room.leader), 1);
    is_string(room.leader.type, "hash", "a key that is not a lock has a type");
    is_string(room.leader.holder, "", "but no holder");
    is(room.leader.validity_ms, -1);
    redlock_close(connection);
}

static void test_far_timeouts(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    redlock_set_answer_timeout(connection, INT64_MAX);
    options.wait_ms = INT32_MAX;
    is(redlock_acquire(connection, "x", &options, &lease), REDLOCK_OK);
    ok(redlock_check(lease) > 0, "the largest time-out works");
    options.wait_ms = INT64_MAX;
    is(redlock_acquire(connection, "x", &options, &lease), REDLOCK_BAD_ARGUMENT);
    options.wait_ms = -2;
    is(redlock_acquire(connection, "x", &options, &lease), REDLOCK_BAD_ARGUMENT);
    redlock_close(connection);
}

/* The agent would end the session, and the leases, for a request of more than 1 MiB. */
static void test_names(void) {
    enum { NAME_BYTES = 512, LONG_BYTES = 2 * 1024 * 1024 };
    static char name[LONG_BYTES + 1];
    static const size_t lengths[] = {0, NAME_BYTES + 1, LONG_BYTES};
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *other = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(name, 'n', sizeof(name) - 1);
        name[lengths[i]] = '\0';
        is(redlock_leader(connection, name, &leader), REDLOCK_BAD_NAME);
        ok(redlock_error_text(connection)[0] != '\0', "with a text: %s", redlock_error_text(connection));
        is(redlock_observe(connection, name), REDLOCK_BAD_NAME);
        is(redlock_unobserve(connection, name), 0);
        is(redlock_acquire(connection, name, NULL, &other), REDLOCK_BAD_NAME);
        is(redlock_acquire_async(connection, name, NULL, &other), REDLOCK_BAD_NAME);
    }
    ok(redlock_check(lease) > 0, "the connection still works");
    is(scripted.hang_ups, 0);
    name[NAME_BYTES] = '\0';
    is(redlock_leader(connection, name, &leader), 1);
    redlock_close(connection);
}

static const char *number_of(const struct request_acquire *request, const char *word) {
    for (size_t i = 0; i + 1 < request->n_items; i++)
        if (request->items[i].length == strlen(word) &&
            memcmp(request->items[i].text, word, strlen(word)) == 0)
            return request->items[i + 1].text;
    return "";
}

/* The agent refuses times above 2^31-1, and uses its own max_hold instead of a longer one. */
static void test_long_times(void) {
    struct redlock_options given = REDLOCK_OPTIONS_INIT, taken;
    struct request_acquire request = {0};
    const char *text = "";

    given.heartbeat_ms = INT64_C(1) << 31;
    given.max_hold_ms = INT64_MAX;
    is(request_options(&given, "x", &taken, &text), REDLOCK_OK);
    request_compose(&request, "x", &taken, false);
    is_string(number_of(&request, "HEARTBEAT"), "2147483647", "a longer heartbeat is the longest one");
    is_string(number_of(&request, "MAXHOLD"), "2147483647", "and a longer max_hold, too");
    given.max_hold_ms = -1;
    is(request_options(&given, "x", &taken, &text), REDLOCK_OK);
    is(taken.max_hold_ms, -1); /* for the agent to refuse */
}

int main(void) {
    test_null();
    test_long_times();
    test_sizes();
    test_leader();
    test_names();
    test_far_timeouts();
    scripted_die();
    return done_testing();
}
