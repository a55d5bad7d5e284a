/* libredlock against a scripted agent, which does what a real agent rarely does: reports a lease as over and
 * dies before the push, runs in another time namespace, sends late. */

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "redlock.h"
#include "scripted-agent.h"
#include "tap.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define is(got, want) is_int(got, want, #got " is " #want)

enum { TIMEOUT_MS = 20000 };

static struct {
    unsigned granted, lost, at_risk;
    char reason[64], text[256];
} events;

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    events.granted++;
}

static void on_at_risk(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata) {
    (void) lease;
    (void) left_ms;
    (void) reason;
    (void) userdata;
    events.at_risk++;
}

static void on_lost(struct redlock_lease *lease, const char *reason, const char *text, void *userdata) {
    (void) userdata;
    events.lost++;
    (void) snprintf(events.reason, sizeof(events.reason), "%s", reason);
    (void) snprintf(events.text, sizeof(events.text), "%s", text);
    (void) redlock_valid(lease);
}

static struct redlock *connect_scripted(void) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .granted = on_granted, .at_risk = on_at_risk, .lost = on_lost};
    struct redlock *connection = NULL;

    memset(&events, 0, sizeof(events));
    if (redlock_connect(scripted.path, &connection) != REDLOCK_OK)
        abort();
    (void) redlock_set_callbacks(connection, &callbacks, NULL);
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    return connection;
}

static struct redlock_lease *acquire(struct redlock *connection) {
    struct redlock_lease *lease = NULL;

    if (redlock_acquire(connection, "x", NULL, &lease) != REDLOCK_OK)
        abort();
    return lease;
}

/* Runs an event loop until the counter is at least `wanted`. */
static bool dispatch_until(struct redlock *connection, const unsigned *counter, unsigned wanted) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (*counter < wanted && boottime_ns() < until_ns) {
        struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
        (void) poll(&fd, 1, 10);
        (void) redlock_dispatch(connection);
    }
    return *counter >= wanted;
}

static bool counts_to(const _Atomic unsigned *counter, unsigned wanted) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (*counter < wanted && boottime_ns() < until_ns)
        (void) usleep(200);
    return *counter >= wanted;
}

/* --- false is final --- */

static void test_page_says_lost(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    ok(redlock_valid(lease), "a lease is valid");
    (void) redlock_fd(connection);
    scripted_show(0);
    scripted_die();
    ok(dispatch_until(connection, &events.lost, 1),
       "rule 13: after the agent died, the end shown in its page is reported");
    is_string(events.reason, "lost", "with the reason `lost`");
    ok(!redlock_valid(lease), "rule 13: the deadline received before no longer counts");
    is(events.lost, 1);
    ok(redlock_release(lease) <= 0, "the lease can't be released");
    redlock_close(connection);
}

/* No thread reads the page before the next agent listens. */
static void test_page_says_lost_resume(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    (void) redlock_fd(connection);
    scripted_show(0);
    scripted_die();
    scripted_again();
    ok(redlock_check(lease) <= 0, "the next agent does not hold the lease");
    ok(!redlock_valid(lease), "rule 13: a lease that is over is not resumed");
    is(scripted.resumes, 0);
    (void) redlock_release(lease);
    redlock_close(connection);
}

static void test_seen_over(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_show(boottime_ns());
    ok(!redlock_valid(lease), "the deadline has passed");
    scripted_show(boottime_ns() + 60 * NS_PER_S);
    ok(!redlock_valid(lease), "rule 13: a later extension has no effect");
    is(redlock_check(lease), 0);
    ok(counts_to(&scripted.releases, 1), "the library releases the lease");
    is(events.lost, 1);
    is_string(events.reason, "expired", "the reason is `expired`");
    is(redlock_release(lease), 0);
    redlock_close(connection);
}

static void test_seen_over_and_resumed(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_show(boottime_ns() + 60 * NS_PER_S);
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK); /* detects the break */
    scripted_again();
    scripted.ttl_ms = 1;
    ok(redlock_remaining_ns(lease) > 0, "without an agent the lease stays valid");
    is(redlock_check(lease), 0);
    ok(!redlock_valid(lease), "the lease, resumed for 1 ms, has expired");
    scripted_show(boottime_ns() + 60 * NS_PER_S);
    ok(!redlock_valid(lease), "rule 13: a later deadline in the page has no effect");
    (void) redlock_release(lease);
    redlock_close(connection);
}

struct reader {
    const struct redlock_lease *lease;
    atomic_bool stop;
    atomic_uint back, reads;
};

static void *read_validity(void *userdata) {
    struct reader *reader = userdata;
    bool over = false;

    while (!atomic_load(&reader->stop)) {
        bool valid = redlock_valid(reader->lease);
        if (over && valid)
            atomic_fetch_add(&reader->back, 1);
        over |= !valid;
        atomic_fetch_add(&reader->reads, 1);
    }
    return NULL;
}

/* Threads read while page, agent and connection change. */
static void test_threads(void) {
    enum { ROUNDS = 30, THREADS = 2 };
    unsigned back = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        scripted_start();
        struct redlock *connection = connect_scripted();
        struct reader reader = {.lease = acquire(connection)};
        for (unsigned i = 0; i < THREADS; i++)
            (void) pthread_create(&threads[i], NULL, read_validity, &reader);
        scripted_show(round % 2 == 0 ? 0 : boottime_ns() + NS_PER_MS);
        if (round % 3 == 0)
            scripted_show(boottime_ns() + 60 * NS_PER_S);
        scripted_die();
        (void) redlock_dispatch(connection);
        scripted_again();
        for (unsigned i = 0; i < 5; i++) {
            (void) redlock_dispatch(connection);
            (void) usleep(500);
        }
        reader.stop = true;
        for (unsigned i = 0; i < THREADS; i++)
            (void) pthread_join(threads[i], NULL);
        back += reader.back;
        redlock_close(connection);
    }
    is_int(back, 0, "rule 13: no thread sees an expired lease valid again");
}

/* --- reasons --- */

static void test_reason(const char *reason, bool with_page) {
    scripted_start();
    scripted.has_page = with_page;
    scripted.ttl_ms = 60;
    scripted.check_ms = 0; /* as in the lease's last millisecond */
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = NULL;

    (void) redlock_fd(connection);
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    (void) dispatch_until(connection, &events.granted, 1);
    int64_t deadline_ns = boottime_ns() + redlock_remaining_ns(lease);
    if (reason)
        scripted_send(">4\r\n$7\r\nat-risk\r\n:%llu\r\n:50\r\n$%zu\r\n%s\r\n",
                      (unsigned long long) scripted.id, strlen(reason), reason);
    ok(dispatch_until(connection, &events.lost, 1), "the lease is lost");
    is_string(events.reason, reason ? reason : "expired", "the reason is the agent's, else `expired`");
    ok(!with_page || boottime_ns() >= deadline_ns - NS_PER_MS, "not before its deadline");
    is(events.lost, 1);
    is(redlock_release(lease), 0);
    redlock_close(connection);
}

static void test_reasons(void) {
    for (unsigned with_page = 0; with_page < 2; with_page++) {
        test_reason("max-hold", with_page);
        test_reason("heartbeat", with_page);
        test_reason("no-quorum", with_page);
        test_reason(NULL, with_page);
    }
}

/* After a caller got 0, the lease stays lost. */
static void test_refused(void) {
    for (unsigned beat = 0; beat < 2; beat++) {
        scripted_start();
        scripted.check_ms = 0;
        scripted.beat = 0;
        struct redlock *connection = connect_scripted();
        struct redlock_lease *lease = acquire(connection);

        is(beat ? redlock_beat(lease) : redlock_check(lease), 0);
        ok(!redlock_valid(lease), "rule 13: after %s returned 0 the lease is not valid",
           beat ? "BEAT" : "CHECK");
        is(events.lost, 1);
        is(redlock_release(lease), 0);
        redlock_close(connection);
    }
}

/* --- other time namespaces --- */

static void test_clock(int64_t ahead_ns, bool in_hello, bool with_page, bool async) {
    scripted_start();
    scripted.clock_ns = ahead_ns;
    scripted.sends_clock = in_hello;
    scripted.has_page = with_page;
    scripted.ttl_ms = 30000;
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = NULL;

    (void) redlock_fd(connection);
    if (async) {
        is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
        (void) dispatch_until(connection, &events.granted, 1);
    } else {
        is(redlock_acquire(connection, "x", NULL, &lease), REDLOCK_OK);
    }
    int64_t left_ms = lease ? redlock_remaining_ns(lease) / NS_PER_MS : 0;
    ok(left_ms > 15000 && left_ms <= 30000, "agent's clock %lld s ahead%s%s%s: %lld ms left",
       (long long) (ahead_ns / NS_PER_S), in_hello ? ", sent in HELLO" : "",
       with_page ? ", with a page" : "", async ? ", asynchronous" : "", (long long) left_ms);
    if (with_page && lease) {
        scripted_show(boottime_ns() + 60 * NS_PER_S);
        left_ms = redlock_remaining_ns(lease) / NS_PER_MS;
        ok(left_ms > 45000 && left_ms <= 60000, "the page shows the extension: %lld ms",
           (long long) left_ms);
        scripted_show(boottime_ns());
        ok(!redlock_valid(lease), "and shows the end");
    }
    (void) redlock_release(lease);
    redlock_close(connection);
}

static void test_clocks(void) {
    const int64_t ahead_ns[] = {0, 3600 * NS_PER_S, -boottime_ns() / 2, 40 * NS_PER_S, -20 * NS_PER_S};

    for (size_t i = 0; i < sizeof(ahead_ns) / sizeof(ahead_ns[0]); i++)
        for (unsigned set = 0; set < 8; set++)
            test_clock(ahead_ns[i], set & 1, set & 2, set & 4);
}

/* --- misuse --- */

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

/* --- out of descriptors --- */

static unsigned count_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    while (directory && readdir(directory))
        count++;
    if (directory)
        (void) closedir(directory);
    return count;
}

/* Leaves room for `more` descriptors. */
static void limit_descriptors(rlim_t more) {
    struct rlimit limit;
    int lowest = dup(STDOUT_FILENO);

    (void) close(lowest);
    (void) getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t) lowest + more;
    (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static void test_no_descriptors(void) {
    struct rlimit limit;

    (void) getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned room = 0; room < 2; room++) {
        scripted_start();
        struct redlock *connection = connect_scripted();
        struct redlock_lease *lease = acquire(connection);
        unsigned before = count_descriptors();
        limit_descriptors(room);
        is(redlock_fd(connection), REDLOCK_SYSTEM);
        is(redlock_fd(connection), REDLOCK_SYSTEM);
        ok(redlock_error_text(connection)[0] != 0, "the error has a text: %s",
           redlock_error_text(connection));
        (void) setrlimit(RLIMIT_NOFILE, &limit);
        is_int(count_descriptors(), before, "no descriptor leaks");
        scripted_send(">4\r\n$4\r\nlost\r\n:%llu\r\n$5\r\ntaken\r\n$1\r\nx\r\n",
                      (unsigned long long) scripted.id);
        struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
        is(poll(&fd, 1, TIMEOUT_MS), 1);
        is(redlock_dispatch(connection), REDLOCK_OK);
        is(events.lost, 1);
        is(redlock_release(lease), 0);
        redlock_close(connection);
    }
}

/* --- calls during calls --- */

static struct inside {
    struct redlock *connection;
    struct redlock_lease *other;
    unsigned in_use, calls;
} inside;

static void on_lost_calls(struct redlock_lease *lease, const char *reason, const char *text,
                          void *userdata) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *another = NULL;
    const int64_t results[] = {
        redlock_release(lease),
        redlock_release_async(inside.other),
        redlock_check(inside.other),
        redlock_beat(inside.other),
        redlock_acquire(inside.connection, "y", NULL, &another),
        redlock_acquire_async(inside.connection, "y", NULL, &another),
        redlock_leader(inside.connection, "y", &leader),
        redlock_observe(inside.connection, "y"),
        redlock_unobserve(inside.connection, "y"),
        redlock_fd(inside.connection),
        redlock_dispatch(inside.connection),
    };

    (void) reason;
    (void) text;
    (void) userdata;
    inside.calls = sizeof(results) / sizeof(results[0]);
    for (unsigned i = 0; i < inside.calls; i++)
        inside.in_use += results[i] == REDLOCK_IN_USE;
    redlock_close(inside.connection);
}

static void test_calls_in_callback(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .lost = on_lost_calls};

    scripted_start();
    inside = (struct inside){.connection = connect_scripted()};
    inside.other = acquire(inside.connection);
    struct redlock_lease *lease = acquire(inside.connection);
    is(redlock_set_callbacks(inside.connection, &callbacks, NULL), REDLOCK_OK);
    scripted_send(">4\r\n$4\r\nlost\r\n:%llu\r\n$5\r\ntaken\r\n$1\r\nx\r\n",
                  (unsigned long long) scripted.id);
    while (inside.calls == 0 && redlock_dispatch(inside.connection) == REDLOCK_OK)
        (void) usleep(200);
    is(inside.in_use, inside.calls);
    is(redlock_release(lease), 0);
    is(redlock_release(inside.other), 1);
    redlock_close(inside.connection);
}

static atomic_uint refusals;

static void *ask_until_refused(void *userdata) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    while (refusals == 0 && boottime_ns() < until_ns)
        if (redlock_check(userdata) == REDLOCK_IN_USE)
            refusals++;
    return NULL;
}

/* Both threads wait for replies that do not come. */
static void test_two_threads(void) {
    pthread_t thread;

    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 20);
    (void) pthread_create(&thread, NULL, ask_until_refused, lease);
    (void) ask_until_refused(lease);
    (void) pthread_join(thread, NULL);
    ok(refusals > 0, "of two threads on one connection at a time one gets REDLOCK_IN_USE");
    scripted.is_silent = false;
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

int main(void) {
    test_page_says_lost();
    test_page_says_lost_resume();
    test_seen_over();
    test_seen_over_and_resumed();
    test_threads();
    test_reasons();
    test_refused();
    test_clocks();
    test_null();
    test_sizes();
    test_leader();
    test_no_descriptors();
    test_calls_in_callback();
    test_two_threads();
    test_far_timeouts();
    scripted_die();
    return done_testing();
}
