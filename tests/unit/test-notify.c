/* The watchdog: the service manager replaces an agent with a thread that hangs within one period. And what
 * must arrive at a manager that reads nothing for a while. The test is the manager and the keepers. */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/client/notify.h"
#include "tap.h"

enum { PERIOD_MS = 3000, PING_MS = PERIOD_MS / 4 };

static struct front_state front;
static struct notify notify;
static int manager_fd;
static instant_ns now_ns;

static unsigned fed(void) {
    char message[1024];
    unsigned times = 0;
    ssize_t n;

    while ((n = recv(manager_fd, message, sizeof(message) - 1, MSG_DONTWAIT)) >= 0) {
        message[n] = '\0';
        times += strstr(message, "WATCHDOG=1") != NULL;
    }
    return times;
}

static void begin(unsigned keepers) {
    now_ns = 1000 * NS_PER_S;
    front.identity.n_keepers = keepers;
    notify_deinit(&notify);
    if (notify_init(&notify, now_ns) < 0)
        exit(EXIT_FAILURE);
    (void) fed();
}

/* True: the keepers get a ping. */
static bool pings_at_ms(int64_t ms) {
    now_ns = 1000 * NS_PER_S + ms * NS_PER_MS;
    return now_ns >= notify_due_ns(&notify) && notify_tick(&notify, &front, now_ns);
}

static void test_answers(void) {
    begin(2);
    ok(!pings_at_ms(PING_MS - 1), "no ping before a quarter of the period");
    ok(pings_at_ms(PING_MS), "then the first");
    is_int(fed(), 0, "no keeper has answered: the watchdog gets nothing");
    notify_pong(&notify, notify.ping, now_ns);
    is_int(fed(), 0, "nor when one of two has");
    notify_pong(&notify, notify.ping, now_ns);
    is_int(fed(), 1, "the last answer feeds the watchdog");
    ok(pings_at_ms(2 * PING_MS), "the next ping");
    is_int(fed(), 0, "which proves nothing before it is answered");
}

/* A keeper that hangs just after an answer is the worst: the last feeding must not be later. */
static void test_hang(void) {
    unsigned times = 0;

    begin(1);
    ok(pings_at_ms(PING_MS), "a ping");
    notify_pong(&notify, notify.ping, now_ns);
    is_int(fed(), 1, "is answered");
    for (int64_t ms = PING_MS; ms <= PING_MS + PERIOD_MS; ms++)
        times += pings_at_ms(ms);
    is_int(times, 1, "the keeper hangs: it gets one more");
    is_int(fed(), 0, "and the period after its last answer passes without a feeding");
    notify_pong(&notify, notify.ping - 1, now_ns);
    is_int(fed(), 0, "an answer to another ping counts for none");
    notify_pong(&notify, notify.ping, now_ns);
    notify_pong(&notify, notify.ping, now_ns);
    is_int(fed(), 1, "a late answer counts, once");
    ok(pings_at_ms(2 * PING_MS + PERIOD_MS), "and pings go on");
}

/* Answers that take longer than the time between two pings. */
static void test_slow_keeper(void) {
    int64_t answer_ms = -1, fed_ms = 0, longest_ms = 0;

    begin(1);
    for (int64_t ms = 0; ms <= 10 * PERIOD_MS; ms++) {
        if (pings_at_ms(ms))
            answer_ms = ms + 2 * PING_MS - 1;
        if (ms == answer_ms)
            notify_pong(&notify, notify.ping, now_ns);
        if (fed() > 0) {
            longest_ms = ms - fed_ms > longest_ms ? ms - fed_ms : longest_ms;
            fed_ms = ms;
        }
    }
    ok(fed_ms > 9 * PERIOD_MS && longest_ms < PERIOD_MS,
       "a slow keeper is no hanging one: the watchdog is fed at least each %d ms", (int) longest_ms);
}

/* The manager reads nothing, and its queue takes no more. */
static void stall(void) {
    struct service_manager other = {.fd = -1};

    if (service_manager_open(&other) < 0)
        exit(EXIT_FAILURE);
    while (service_manager_send(&other, "FILLER=1", -1) == 0)
        ;
    service_manager_close(&other);
}

/* The first words of what the manager reads then, without status and times. */
static const char *read_words(void) {
    static char words[256];
    char message[32];

    words[0] = '\0';
    while (recv(manager_fd, message, sizeof(message), MSG_DONTWAIT) >= 0) {
        message[sizeof(message) - 1] = '\0';
        message[strcspn(message, "1")] = '\0';
        if (strcmp(message, "FILLER=") != 0 && strlen(words) + sizeof(message) < sizeof(words))
            (void) strcat(strcat(words, message), "1 ");
    }
    return words;
}

/* After the time of the next try. */
static const char *words_later(void) {
    (void) read_words();
    now_ns = notify_due_ns(&notify);
    (void) notify_tick(&notify, &front, now_ns);
    return read_words();
}

static void test_busy_manager(void) {
    begin(1);
    notify_serving(&notify, &front, now_ns);
    ok(pings_at_ms(PING_MS), "a ping");
    stall();
    ok(!pings_at_ms(1000), "the manager is busy when the start ends");
    is_int(notify_due_ns(&notify) - now_ns, 20 * NS_PER_MS, "READY=1 is sent again soon");
    notify_reloading(&notify, now_ns);
    notify_reloaded(&notify, now_ns);
    notify_pong(&notify, notify.ping, now_ns);
    now_ns = notify_due_ns(&notify);
    (void) notify_tick(&notify, &front, now_ns);
    is_int(notify_due_ns(&notify) - now_ns, 20 * NS_PER_MS, "and again, as the manager is still busy");
    is_string(words_later(), "READY=1 RELOADING=1 READY=1 WATCHDOG=1 ", "then it gets all, in order");
    ok(notify_due_ns(&notify) > now_ns + 20 * NS_PER_MS, "and once");

    notify_reloading(&notify, now_ns);
    is_string(read_words(), "RELOADING=1 ", "it gets the beginning of a reload");
    stall();
    notify_reloaded(&notify, now_ns);
    notify_reloading(&notify, now_ns);
    is_string(words_later(), "READY=1 RELOADING=1 ",
              "the end, and the beginning of the next one, come later");
    stall();
    notify_reloaded(&notify, now_ns);
    notify_reloading(&notify, now_ns);
    notify_reloaded(&notify, now_ns);
    notify_reloading(&notify, now_ns);
    notify_reloaded(&notify, now_ns);
    is_string(words_later(), "READY=1 RELOADING=1 READY=1 ", "of two whole reloads it need know the last");
    stall();
    notify_stopping(&notify);
    is_string(words_later(), "", "the end of the agent is reported at once, or not at all");
}

static void test_no_watchdog(void) {
    (void) unsetenv("WATCHDOG_USEC");
    begin(1);
    ok(!pings_at_ms(10 * PERIOD_MS), "without a watchdog there are no pings");
    (void) unsetenv("NOTIFY_SOCKET");
    begin(1);
    is_int(notify_due_ns(&notify), INSTANT_NEVER, "without a service manager nothing is due");
}

static bool become_manager(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof(address);
    char name[sizeof(address.sun_path) + 1];

    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(manager_fd, (struct sockaddr *) &address, sizeof(address.sun_family)) < 0 ||
        getsockname(manager_fd, (struct sockaddr *) &address, &length) < 0)
        return false;
    (void) snprintf(name, sizeof(name), "@%.*s", (int) (length - offsetof(struct sockaddr_un, sun_path)) - 1,
                    address.sun_path + 1);
    return setenv("NOTIFY_SOCKET", name, 1) == 0 && setenv("WATCHDOG_USEC", "3000000", 1) == 0 &&
           unsetenv("WATCHDOG_PID") == 0;
}

int main(void) {
    notify_clear(&notify);
    if (!become_manager())
        return EXIT_FAILURE;
    test_answers();
    test_hang();
    test_slow_keeper();
    test_busy_manager();
    test_no_watchdog();
    notify_deinit(&notify);
    return done_testing();
}
