/* The library's answer to "is the lease valid?": once false, it stays false, with the reason of the loss, in
 * whatever time namespace the agent runs. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "library-harness.h"
#include "tap.h"

enum { SHORT_MS = 300 };

static void test_page_says_lost(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    ok(redlock_valid(lease), "a lease is valid after its grant");
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

/* The agent has reported the risk, and dies before it extends the lease. */
static void test_risk_and_resumed(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    (void) redlock_fd(connection);
    scripted_send(">4\r\n$7\r\nat-risk\r\n:%llu\r\n:50\r\n$9\r\nno-quorum\r\n",
                  (unsigned long long) scripted.id);
    ok(dispatch_until(connection, &events.at_risk, 1), "the lease is at risk");
    is(events.extended, 0);
    scripted_die();
    scripted_again();
    ok(redlock_check(lease) > 0, "the next agent resumes the lease");
    is(scripted.resumes, 1);
    is(events.at_risk, 1);
    is(events.extended, 1);
    scripted_die();
    scripted_again();
    ok(redlock_check(lease) > 0, "again, without a risk before");
    is(scripted.resumes, 2);
    is(events.extended, 1);
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

static void test_reason(const char *reason, bool with_page) {
    scripted_start();
    scripted.has_page = with_page;
    scripted.ttl_ms = reason ? 1000 : 60; /* the reason comes before the deadline */
    scripted.check_ms = 0;                /* as in the lease's last millisecond */
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

static void on_lost_answer(struct redlock_lease *lease, const char *reason, const char *text,
                           void *userdata) {
    (void) lease;
    (void) text;
    (void) userdata;
    events.lost++;
    (void) snprintf(events.reason, sizeof(events.reason), "%s", reason);
    scripted.is_silent = false;
}

/* A lease for SHORT_MS, of an agent that stops and goes on when the callback `lost` is called. */
static struct redlock *connect_and_stop(int64_t answer_ms, struct redlock_lease **ret) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .lost = on_lost_answer};

    scripted_start();
    scripted.ttl_ms = SHORT_MS;
    struct redlock *connection = connect_scripted();
    *ret = acquire(connection);
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    redlock_set_answer_timeout(connection, answer_ms);
    scripted.is_silent = true;
    scripted.ttl_ms = 60000;
    return connection;
}

static void test_deadline_in_acquire(int64_t wait_ms) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease, *other = NULL;
    struct redlock *connection = connect_and_stop(TIMEOUT_MS, &lease);

    options.wait_ms = wait_ms;
    is(redlock_acquire(connection, "y", &options, &other), REDLOCK_OK);
    ok(events.lost == 1, "rule 13: `lost` is called during redlock_acquire() with wait_ms %lld",
       (long long) wait_ms);
    is_string(events.reason, "expired", "the agent gave no reason");
    ok(!redlock_valid(lease), "rule 13: and the lease is over");
    ok(redlock_valid(other), "the new lease is valid");
    is(redlock_release(lease), 0);
    is(redlock_release(other), 1);
    ok(counts_to(&scripted.releases, 2), "the library releases both");
    redlock_close(connection);
}

static void test_deadline_in_check(void) {
    struct redlock_lease *lease;
    struct redlock *connection = connect_and_stop(TIMEOUT_MS, &lease);

    scripted.check_ms = 5000;
    is(redlock_check(lease), 0);
    is(events.lost, 1);
    is(redlock_release(lease), 0);
    redlock_close(connection);
}

static void test_deadline_in_release(void) {
    struct redlock_lease *lease;
    struct redlock *connection = connect_and_stop(2 * SHORT_MS, &lease);

    is(redlock_release(lease), REDLOCK_NO_ANSWER);
    is(events.lost, 0);
    redlock_close(connection);
}

/* The page has a later deadline than the grant. */
static void test_extended_in_call(void) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *lease;
    struct redlock *connection = connect_and_stop(2 * SHORT_MS, &lease);

    scripted_show(boottime_ns() + 60 * NS_PER_S);
    is(redlock_leader(connection, "y", &leader), REDLOCK_NO_ANSWER);
    is(events.lost, 0);
    ok(redlock_valid(lease), "the lease was extended");
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    scripted.is_silent = false;
    is(redlock_release(lease), 1);
    is(events.lost, 0);
    redlock_close(connection);
}

static void pass_deadline(const struct redlock_lease *lease) {
    int64_t until_ns = boottime_ns() + redlock_remaining_ns(lease);

    while (boottime_ns() < until_ns)
        (void) usleep(1000);
}

/* The push lies unread when the deadline passes, which a reader may see before the call. */
static void test_reason_before_deadline(bool is_seen) {
    struct redlock_lease *lease;
    struct redlock *connection = connect_and_stop(2 * SHORT_MS, &lease);

    scripted_send(">4\r\n$4\r\nlost\r\n:%llu\r\n$5\r\ntaken\r\n$1\r\nx\r\n",
                  (unsigned long long) scripted.id);
    pass_deadline(lease);
    if (is_seen)
        ok(!redlock_valid(lease), "the program sees the deadline pass");
    is(redlock_check(lease), 0);
    is(events.lost, 1);
    is_string(events.reason, "taken", "the agent's reason counts, though it is read after the deadline");
    is(redlock_release(lease), 0);
    redlock_close(connection);
}

/* Only the reply shows that the agent has extended the lease. */
static void test_checked_without_page(void) {
    scripted_start();
    scripted.has_page = false;
    scripted.ttl_ms = SHORT_MS;
    scripted.check_ms = 5000;
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    pass_deadline(lease);
    is(redlock_check(lease), 5000);
    ok(redlock_valid(lease), "the lease was extended");
    is(events.lost, 0);
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

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
        ok(!redlock_valid(lease), "the page shows the end");
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

int main(void) {
    test_page_says_lost();
    test_page_says_lost_resume();
    test_seen_over();
    test_seen_over_and_resumed();
    test_threads();
    test_risk_and_resumed();
    test_reasons();
    test_refused();
    test_deadline_in_acquire(0);
    test_deadline_in_acquire(5000);
    test_deadline_in_check();
    test_deadline_in_release();
    test_extended_in_call();
    test_reason_before_deadline(false);
    test_reason_before_deadline(true);
    test_checked_without_page();
    test_clocks();
    scripted_die();
    return done_testing();
}
