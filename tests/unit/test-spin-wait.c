/* How the library waits for the reply to a RELEASE: polling where that pays, else asleep. Through the public
 * calls, with an agent and a clock of this file: time passes only where the library yields or sleeps, and
 * the agent works only then. */

#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "redlock.h"
#include "resp.h"
#include "tap.h"

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define QUICK_NS (20 * NS_PER_US) /* a reply that needs no nodes */
#define YIELD_NS (5 * NS_PER_US)

enum { ANSWERS_MAX = 8, POLLS = 4 /* until a quick reply arrives */, POLLS_MAX = 10 };

struct answer {
    int64_t at_ns;
    char text[160];
};

static struct world {
    int64_t now_ns;
    unsigned yields, sleeps;
    int64_t yield_ns; /* of one yield */
    int64_t grant_ns; /* delays of the agent's replies */
    int64_t release_ns;
    bool in_pieces, hangs_up; /* the reply to RELEASE */
    int listening_fd, fd;     /* the agent's */
    uint64_t last_id;
    struct answer answers[ANSWERS_MAX];
    size_t n_answers;
} world = {.now_ns = NS_PER_S, .yield_ns = YIELD_NS, .fd = -1};

/* --- the agent --- */

__attribute__((format(printf, 2, 3))) static void answer(int64_t after_ns, const char *format, ...) {
    struct answer *answer = &world.answers[world.n_answers++];
    va_list arguments;

    assert(world.n_answers <= ANSWERS_MAX);
    answer->at_ns = world.now_ns + after_ns;
    va_start(arguments, format);
    (void) vsnprintf(answer->text, sizeof(answer->text), format, arguments);
    va_end(arguments);
}

static void grant(int64_t after_ns, const char *before, uint64_t id) {
    answer(after_ns, "%s%%3\r\n$2\r\nid\r\n:%llu\r\n$8\r\nvalidity\r\n:%lld\r\n$8\r\ndeadline\r\n:%lld\r\n",
           before, (unsigned long long) id, (long long) ((1000 * NS_PER_S - after_ns) / NS_PER_MS),
           (long long) (world.now_ns + 1000 * NS_PER_S));
}

static void serve(const struct resp_token *items, size_t n_items) {
    char push[64];

    if (strncmp(items[0].text, "HELLO", 5) == 0) {
        answer(0, "%%0\r\n");
    } else if (strncmp(items[0].text, "PAGE", 4) == 0) {
        answer(0, "-QUOTA no page here\r\n");
    } else if (strncmp(items[0].text, "RELEASE", 7) == 0) {
        if (world.in_pieces)
            answer(world.release_ns / 2, ":");
        answer(world.release_ns, world.in_pieces ? "1\r\n" : ":1\r\n");
    } else if (strncmp(items[0].text, "CHECK", 5) == 0) {
        answer(world.release_ns, ":1000000\r\n");
    } else if (strncmp(items[n_items - 1].text, "ASYNC", 5) == 0) {
        uint64_t id = ++world.last_id;
        answer(0, "*2\r\n$7\r\nwaiting\r\n:%llu\r\n", (unsigned long long) id);
        (void) snprintf(push, sizeof(push), ">3\r\n$7\r\ngranted\r\n:%llu\r\n", (unsigned long long) id);
        grant(world.grant_ns, push, id);
    } else {
        grant(world.grant_ns, "", ++world.last_id);
    }
}

static void read_requests(void) {
    static const struct resp_limits limits = {.bulk_bytes_max = 4096, .tokens_max = 32, .depth_max = 1};
    struct resp_token items[32];
    char bytes[4096];
    size_t n_items;

    if (world.fd < 0)
        world.fd = accept(world.listening_fd, NULL, NULL);
    ssize_t length = recv(world.fd, bytes, sizeof(bytes), MSG_DONTWAIT), used = 0;
    while (used < length) {
        long n = resp_parse_request(bytes + used, (size_t) (length - used), &limits, items, &n_items);
        assert(n > 0 && n_items > 0);
        serve(items, n_items);
        used += n;
    }
}

static void send_answers(void) {
    size_t n = 0;

    for (; n < world.n_answers && world.answers[n].at_ns <= world.now_ns; n++) {
        size_t length = strlen(world.answers[n].text);
        if (send(world.fd, world.answers[n].text, length, MSG_NOSIGNAL) != (ssize_t) length)
            abort();
    }
    world.n_answers -= n;
    memmove(world.answers, world.answers + n, world.n_answers * sizeof(world.answers[0]));
}

/* --- replacements for calls of the C library --- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    (void) clock;
    *ret = (struct timespec){.tv_sec = world.now_ns / NS_PER_S, .tv_nsec = world.now_ns % NS_PER_S};
    return 0;
}

int sched_yield(void) {
    world.yields++;
    read_requests();
    world.now_ns += world.yield_ns;
    if (world.hangs_up)
        (void) shutdown(world.fd, SHUT_RDWR);
    else
        send_answers();
    return 0;
}

int ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask) {
    (void) timeout;
    (void) mask;
    if (poll(fds, n_fds, 0) == 1)
        return 1;
    world.sleeps++;
    read_requests();
    assert(world.n_answers > 0);
    if (world.answers[0].at_ns > world.now_ns)
        world.now_ns = world.answers[0].at_ns;
    send_answers();
    return poll(fds, n_fds, 0);
}

/* --- the client --- */

static struct redlock *connection;

static struct redlock_lease *acquire(int64_t wait_ms, int64_t grant_ns) {
    const struct redlock_options options = {.size = sizeof(options), .wait_ms = wait_ms};
    struct redlock_lease *lease = NULL;

    world.grant_ns = grant_ns;
    world.yields = 0;
    is_int(redlock_acquire(connection, "name", &options, &lease), REDLOCK_OK, "the lease is granted");
    is_int(world.yields, 0, "the library sleeps until the grant");
    world.sleeps = 0;
    return lease;
}

static void release(struct redlock_lease *lease, int64_t release_ns) {
    world.release_ns = release_ns;
    is_int(redlock_release(lease), 1, "the lease is released");
}

/* Acquires a lease after others, and releases it to the next waiter. */
static void hand_off(void) {
    release(acquire(-1, 400 * NS_PER_US), QUICK_NS);
}

static void test_polls(void) {
    hand_off();
    is_int(world.yields, 0, "before the first reply the library sleeps");
    is_int(world.sleeps, 1, "once");
    hand_off();
    is_int(world.yields, POLLS,
           "after a quick reply the library polls for the next one, and yields before each poll");
    is_int(world.sleeps, 0, "it does not sleep");
}

static void test_in_pieces(void) {
    world.in_pieces = true;
    hand_off();
    is_int(world.yields, POLLS, "a part of the reply does not end the polling");
    world.in_pieces = false;
}

static void test_not_waited_for(void) {
    release(acquire(0, 400 * NS_PER_US), QUICK_NS);
    is_int(world.yields, 0, "no polling for a lease that did not wait: there is no queue");
    release(acquire(-1, 3 * QUICK_NS), QUICK_NS);
    is_int(world.yields, 0, "nor for a thread that waited hardly longer than a release takes");
    release(acquire(0, 400 * NS_PER_US), 10 * NS_PER_MS);
    hand_off();
    is_int(world.yields, POLLS, "releases without a wait do not count for the next one with a wait");
}

static void test_late_answer(void) {
    release(acquire(-1, 10 * NS_PER_MS), 200 * NS_PER_US);
    is_int(world.yields, POLLS_MAX, "a late reply is polled for during 50 us");
    is_int(world.sleeps, 1, "then the library sleeps");
    release(acquire(-1, 10 * NS_PER_MS), QUICK_NS);
    is_int(world.yields, 0, "before the next reply it sleeps at once");
    hand_off();
    is_int(world.yields, POLLS, "that reply was quick: the library polls for the one after");
}

static void test_other_answers(void) {
    struct redlock_lease *lease = acquire(-1, 400 * NS_PER_US);

    ok(redlock_check(lease) > 0, "the lease is held");
    is_int(world.yields, 0, "no polling for the reply to CHECK");
    release(lease, QUICK_NS);
}

/* The first yield takes `lost_ns`. */
static void lose(int64_t lost_ns) {
    hand_off(); /* a quick reply, so that the next release polls */
    world.yield_ns = lost_ns;
    hand_off();
    world.yield_ns = YIELD_NS;
}

static void test_brief_losses(void) {
    for (unsigned i = 0; i < 100; i++)
        lose(400 * NS_PER_US);
    is_int(world.yields, 1, "yields of less than half a millisecond cost nothing");
    for (unsigned i = 0; i < 4; i++) {
        lose(2 * NS_PER_MS);
        is_int(world.yields, 1, "a few longer yields do not stop the polling");
    }
    world.now_ns += NS_PER_S;
}

static void test_busy_neighbour(void) {
    lose(9 * NS_PER_MS);
    lose(9 * NS_PER_MS);
    is_int(world.yields, 1, "two yields take 9 ms each");
    world.now_ns += 750 * NS_PER_MS;
    hand_off();
    hand_off();
    is_int(world.yields, 0, "that exceeds the budget: no polling for three quarters of a second");
    world.now_ns += 50 * NS_PER_MS;
    hand_off();
    is_int(world.yields, POLLS, "then polling resumes");
    world.now_ns += 10 * NS_PER_S;
}

static void test_stop(void) {
    lose(3600 * NS_PER_S);
    is_int(world.yields, 1, "the machine stops for an hour");
    world.now_ns += 98 * NS_PER_S;
    hand_off();
    hand_off();
    is_int(world.yields, 0, "a stop counts as one second: no polling yet");
    world.now_ns += 2 * NS_PER_S;
    hand_off();
    is_int(world.yields, POLLS, "100 seconds later polling resumes");
    world.now_ns += 10 * NS_PER_S;
}

static void test_time_out(void) {
    redlock_set_answer_timeout(connection, 10);
    lose(15 * NS_PER_MS);
    is_int(world.yields, 1,
           "a reply that arrives during a long yield counts, even after the answer time-out");
    world.now_ns += 10 * NS_PER_S;
}

static void test_agent_dies(void) {
    hand_off();
    struct redlock_lease *lease = acquire(-1, 400 * NS_PER_US);
    world.hangs_up = true;
    is_int(redlock_release(lease), REDLOCK_AGENT_AWAY, "a dead agent does not reply");
    is_int(world.yields, 1, "the first poll detects that");
}

int main(void) {
    char directory[] = "/tmp/redlock-spin-wait-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (!mkdtemp(directory))
        return EXIT_FAILURE;
    (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    world.listening_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(world.listening_fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
        listen(world.listening_fd, 1) < 0)
        return EXIT_FAILURE;
    is_int(redlock_connect(address.sun_path, &connection), REDLOCK_OK, "the connection is open");
    test_polls();
    test_in_pieces();
    test_not_waited_for();
    test_late_answer();
    test_other_answers();
    test_brief_losses();
    test_busy_neighbour();
    test_stop();
    test_time_out();
    test_agent_dies();
    redlock_close(connection);
    (void) close(world.fd);
    (void) close(world.listening_fd);
    (void) unlink(address.sun_path);
    (void) rmdir(directory);
    return done_testing();
}
