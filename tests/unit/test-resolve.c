/* Host names, by a resolver that answers, fails, or hangs until the test lets it go. */

#include "io/node/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "io/loop/clock.h"
#include "tap.h"

enum { TIMEOUT_MS = 20, LONG_MS = 60000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hangs;
static struct sockaddr_in loopback = {.sin_family = AF_INET}, next = {.sin_family = AF_INET};
static struct addrinfo second = {.ai_addr = (struct sockaddr *) &next, .ai_addrlen = sizeof(next)};
static struct addrinfo found = {.ai_addr = (struct sockaddr *) &loopback, .ai_addrlen = sizeof(loopback)};
static unsigned asking; /* threads in getaddrinfo() */

/* --- in place of the C library --- */

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
    (void) service;
    (void) hints;
    pthread_mutex_lock(&mutex);
    asking++;
    while (hangs)
        pthread_cond_wait(&changed, &mutex);
    asking--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (strcmp(host, "unknown") == 0)
        return EAI_NONAME;
    *ret = &found;
    return 0;
}

void freeaddrinfo(struct addrinfo *list) {
    (void) list;
}

/* --- asking --- */

static sd_event *event;
static struct resolve *resolve;
static unsigned answers;
static char answer[64];

static void on_answer(void *userdata, const char *address, const char *error) {
    (void) userdata;
    answers++;
    (void) snprintf(answer, sizeof(answer), "%s%s", address ? "" : "error: ", address ? address : error);
    resolve = resolve_free(resolve);
}

static unsigned place;

static int ask(const char *host, unsigned timeout_ms) {
    answers = 0;
    answer[0] = '\0';
    return resolve_new(event, host, place, timeout_ms, on_answer, NULL, &resolve);
}

static const char *answer_to(const char *host, unsigned timeout_ms) {
    int r = ask(host, timeout_ms);

    while (r == 0 && answers == 0 && sd_event_run(event, UINT64_MAX) >= 0)
        ;
    return answer;
}

static void hang(bool wanted) {
    pthread_mutex_lock(&mutex);
    hangs = wanted;
    pthread_cond_broadcast(&changed);
    while (!wanted && asking > 0)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void test_answers(void) {
    is_int(ask("127.0.0.1", LONG_MS), 1, "a numeric address needs no resolver");
    is_int(ask("::1", LONG_MS), 1, "nor does one of IPv6");
    is_string(answer_to("known", LONG_MS), "127.0.0.1", "a name is resolved");
    is_string(answer_to("unknown", LONG_MS), "error: Name or service not known",
              "or the resolver's error is reported");
}

static void test_addresses(void) {
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2", "127.0.0.1"};

    found.ai_next = &second;
    for (place = 0; place < 3; place++)
        is_string(answer_to("known", LONG_MS), addresses[place], "of two addresses the one in this place");
    place = 0;
}

static void test_hanging(void) {
    hang(true);
    instant_ns begun_ns = clock_now_ns();
    is_string(answer_to("known", TIMEOUT_MS), "error: no answer within 0.02 s",
              "a resolver that hangs is not awaited for longer");
    ok(clock_now_ns() - begun_ns >= TIMEOUT_MS * NS_PER_MS, "nor for less");
    unsigned refused = 0;
    for (unsigned i = 1; i < RESOLVE_ABANDONED_MAX + 3; i++) {
        int r = ask("known", LONG_MS);
        refused += r == -EAGAIN;
        if (r == 0)
            resolve = resolve_free(resolve);
    }
    is_int(refused, 3, "the number of threads that hang is limited");
    hang(false);
    while (ask("known", LONG_MS) == -EAGAIN)
        (void) sched_yield(); /* until the threads have ended */
    while (answers == 0 && sd_event_run(event, UINT64_MAX) >= 0)
        ;
    is_string(answer, "127.0.0.1", "once they have ended, names are resolved again");
    is_int(answers, 1, "and late answers are nobody's");
}

int main(void) {
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    next.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    if (sd_event_new(&event) < 0)
        skip_all("no event loop");
    test_answers();
    test_addresses();
    test_hanging();
    sd_event_unref(event);
    return done_testing();
}
