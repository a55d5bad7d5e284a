/* The library without memory: a release reaches the agent all the same, which would otherwise extend the
 * lease as long as the connection lasts. */

#include <stdlib.h>

#include "library-harness.h"
#include "tap.h"

enum {
    LEASES = 40,    /* more than the library has room for from the start */
    REQUESTS = 200, /* more than it has room for after that many leases */
};

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *memory, size_t size);

static _Thread_local bool no_memory; /* in the thread that calls the library */

/* The linker calls these in place of the C library's. */
void *__wrap_malloc(size_t size) {
    return no_memory ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return no_memory ? NULL : __real_realloc(memory, size);
}

/* No reply makes room. */
static void test_releases(void) {
    struct redlock_lease *leases[LEASES];
    unsigned queued = 0;

    scripted_start();
    struct redlock *connection = connect_scripted();
    for (unsigned i = 0; i < LEASES; i++)
        leases[i] = acquire(connection);
    scripted.is_silent = true;
    no_memory = true;
    for (unsigned i = 1; i < LEASES; i++)
        queued += redlock_release_async(leases[i]) == REDLOCK_OK;
    is(queued, LEASES - 1);
    redlock_set_answer_timeout(connection, 1);
    is(redlock_release(leases[0]), REDLOCK_NO_ANSWER);
    scripted.is_silent = false;
    ok(counts_to(&scripted.releases, LEASES), "the agent gets all releases");
    no_memory = false;
    redlock_close(connection);
}

/* The library releases a request whose id arrives after the release of its handle. */
static void test_orphans(void) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;
    struct redlock_lease *leases[LEASES] = {NULL};
    unsigned withdrawn = 0;

    scripted_start();
    scripted.keeps_waiting = true;
    struct redlock *connection = connect_scripted();
    for (unsigned i = 0; i < LEASES; i++)
        (void) redlock_acquire_async(connection, "x", NULL, &leases[i]);
    ok(counts_to(&scripted.acquires, LEASES), "the agent has sent all ids");
    no_memory = true;
    for (unsigned i = 0; i < LEASES; i++)
        withdrawn += redlock_release(leases[i]) == 1;
    is(withdrawn, LEASES);
    while (scripted.releases < LEASES && boottime_ns() < until_ns)
        (void) redlock_dispatch(connection);
    is(scripted.releases, LEASES);
    no_memory = false;
    redlock_close(connection);
}

/* The library refuses the request whose release may lack memory. */
static void test_requests(void) {
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;
    struct redlock_lease *leases[REQUESTS] = {NULL};
    unsigned requests = 0, released = 0;

    scripted_start();
    struct redlock *connection = connect_scripted();
    for (unsigned i = 0; i < LEASES; i++)
        leases[i] = acquire(connection);
    for (unsigned i = 0; i < LEASES; i++)
        released += redlock_release(leases[i]) == 1;
    is(released, LEASES);
    scripted.keeps_waiting = true;
    no_memory = true;
    while (requests < REQUESTS &&
           redlock_acquire_async(connection, "x", NULL, &leases[requests]) == REDLOCK_OK)
        requests++;
    ok(requests > 0 && requests < REQUESTS, "%u requests have room for their releases", requests);
    ok(counts_to(&scripted.acquires, LEASES + requests), "the agent has sent all ids");
    for (unsigned i = 0; i < requests; i++)
        (void) redlock_release_async(leases[i]);
    while (scripted.releases < LEASES + requests && boottime_ns() < until_ns)
        (void) redlock_dispatch(connection);
    is(scripted.releases, LEASES + requests);
    no_memory = false;
    redlock_close(connection);
}

int main(void) {
    test_releases();
    test_orphans();
    test_requests();
    scripted_die();
    return done_testing();
}
