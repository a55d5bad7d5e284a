#include "io/node/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/loop/blocking-call.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"

/* Threads whose answer is no longer awaited. A resolver that hangs must not fill the process with them. */
static _Atomic int abandoned;

/* What the thread reads and writes. */
struct question {
    int error;
    unsigned place;
    char host[256];
    char address[RESOLVED_BYTES];
};

struct resolve {
    struct blocking_call *call;
    struct question *question; /* the call's */
    sd_event_source *timer;
    unsigned timeout_ms;
    resolve_handler handler;
    void *userdata;
};

static const struct addrinfo *address_at(const struct addrinfo *found, unsigned place) {
    const struct addrinfo *address = found;

    while (place-- > 0)
        address = address->ai_next ? address->ai_next : found;
    return address;
}

static void ask(void *data) {
    struct question *question = data;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;

    question->error = getaddrinfo(question->host, NULL, &hints, &found);
    if (question->error == 0) {
        const struct addrinfo *address = address_at(found, question->place);
        question->error = getnameinfo(address->ai_addr, address->ai_addrlen, question->address,
                                      sizeof(question->address), NULL, 0, NI_NUMERICHOST);
    }
    if (found)
        freeaddrinfo(found);
}

/* The last one of the thread and resolve_free() calls this, so that the question is not abandoned any
 * more. */
static void free_question(void *data) {
    atomic_fetch_sub(&abandoned, 1);
    free(data);
}

static const struct blocking_call_type question_type = {.run = ask, .free_data = free_question};

static void on_answer(void *userdata) {
    struct resolve *resolve = userdata;
    const struct question *question = resolve->question;

    if (question->error == 0)
        resolve->handler(resolve->userdata, question->address, NULL);
    else
        resolve->handler(resolve->userdata, NULL, gai_strerror(question->error));
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
    struct resolve *resolve = userdata;
    char error[48];

    (void) source;
    (void) usec;
    (void) snprintf(error, sizeof(error), "no answer within %g s", resolve->timeout_ms / 1000.0);
    resolve->handler(resolve->userdata, NULL, error);
    return 0;
}

static bool is_numeric(const char *host) {
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static int start(struct resolve *resolve, sd_event *event, struct question *question) {
    int r = loop_add_timer(event, on_timeout, resolve, &resolve->timer);

    if (r >= 0)
        r = loop_set_timer(resolve->timer, clock_now_ns() + resolve->timeout_ms * NS_PER_MS);
    if (r >= 0)
        r = blocking_call_new(event, LOOP_PRIORITY_NODE, &question_type, question, on_answer, resolve,
                              &resolve->call);
    resolve->question = question;
    return r;
}

int resolve_new(sd_event *event, const char *host, unsigned place, unsigned timeout_ms,
                resolve_handler handler, void *userdata, struct resolve **ret) {
    if (is_numeric(host))
        return 1;
    if (atomic_load(&abandoned) >= RESOLVE_ABANDONED_MAX)
        return -EAGAIN;
    struct resolve *resolve = calloc(1, sizeof(*resolve));
    struct question *question = calloc(1, sizeof(*question));
    int r = !resolve || !question ? -ENOMEM : strlen(host) >= sizeof(question->host) ? -ENAMETOOLONG : 0;
    if (r == 0) {
        memcpy(question->host, host, strlen(host) + 1);
        question->place = place;
        *resolve = (struct resolve){.timeout_ms = timeout_ms, .handler = handler, .userdata = userdata};
        r = start(resolve, event, question);
    }
    if (r < 0) {
        if (resolve)
            sd_event_source_disable_unref(resolve->timer);
        free(question);
        free(resolve);
        return r;
    }
    *ret = resolve;
    return 0;
}

struct resolve *resolve_free(struct resolve *resolve) {
    if (!resolve)
        return NULL;
    sd_event_source_disable_unref(resolve->timer);
    atomic_fetch_add(&abandoned, 1);
    blocking_call_free(resolve->call);
    free(resolve);
    return NULL;
}
