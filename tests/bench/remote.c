/* bench remote agents COUNT SOCKET SOCKET, bench remote floor COUNT NODE...: the hand-off between hosts.
 * From the releasing call at one agent to the grant at another one, which waits.
 *
 * The floor does the same with hiredis alone. The holder releases by the agent's own script, which
 * publishes, on all nodes at once; the waiter is subscribed on all of them, acquires on all as soon as a
 * majority has published, and is done at a majority's yes. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"
#include "redlock.h"

enum { COUNT_MAX = 100000, PAUSE_US = 2000 /* for the waiter to be one */ };

#define HOLDER_VALUE "f" FLOOR_VALUE
#define WAITER_VALUE "e" FLOOR_VALUE

static double took_us[COUNT_MAX];
static char name[32];

/* --- the floor --- */

static struct remote_node {
    struct node holder, waiter;
    redisContext *messages;
    unsigned owes; /* answers to the waiter */
} nodes[NODES_MAX];
static unsigned n_nodes, majority;

static void open_all(char **places) {
    n_nodes = nodes_count(places);
    majority = n_nodes / 2 + 1;
    for (unsigned i = 0; i < n_nodes; i++) {
        node_open(&nodes[i].holder, places[i]);
        node_open(&nodes[i].waiter, places[i]);
        nodes[i].messages = node_connect(places[i]);
        freeReplyObject(redisCommand(nodes[i].messages, "SUBSCRIBE " RELEASE_CHANNEL "%s", name));
    }
}

static void send_now(struct node *node, enum phase phase, const char *value, long long token) {
    int done = 0;
    char *command;
    int length = node_format(node, phase, name, value, token, &command);

    (void) redisAppendFormattedCommand(node->context, command, (size_t) length);
    redisFreeCommand(command);
    while (!done)
        if (redisBufferWrite(node->context, &done) != REDIS_OK)
            fail(node->place, node->context->errstr);
}

static void waiter_acquires(void) {
    long long token = fresh_token();

    for (unsigned i = 0; i < n_nodes; i++) {
        send_now(&nodes[i].waiter, ACQUIRE, WAITER_VALUE, token);
        nodes[i].owes++;
    }
}

/* Reads the input: returns the number of messages or answers, and in `yes` the number of positive answers.
 * */
static unsigned take(redisContext *context, unsigned *yes) {
    unsigned taken = 0;
    void *reply;

    if (redisBufferRead(context) != REDIS_OK)
        fail("a node", context->errstr);
    while (redisGetReplyFromReader(context, &reply) == REDIS_OK && reply) {
        *yes += says_yes(ACQUIRE, reply);
        taken++;
        freeReplyObject(reply);
    }
    return taken;
}

/* Waits until the waiter has its majority; returns that instant. `published`: nodes that have published. */
static double wait_for_majority(unsigned *published) {
    struct pollfd polls[2 * NODES_MAX];
    unsigned yes = 0, none = 0;

    for (unsigned i = 0; i < n_nodes; i++) {
        polls[2 * i] = (struct pollfd){.fd = nodes[i].messages->fd, .events = POLLIN};
        polls[2 * i + 1] = (struct pollfd){.fd = nodes[i].waiter.context->fd, .events = POLLIN};
    }
    while (yes < majority) {
        unsigned before = *published;
        if (poll(polls, 2 * n_nodes, -1) < 0)
            fail("poll", strerror(errno));
        for (unsigned i = 0; i < n_nodes; i++) {
            if (polls[2 * i].revents)
                *published += take(nodes[i].messages, &none);
            if (polls[2 * i + 1].revents)
                nodes[i].owes -= take(nodes[i].waiter.context, &yes);
        }
        if (before < majority && *published >= majority)
            waiter_acquires();
    }
    return now_us();
}

/* Reads what is still under way, so that the next round begins with nothing. */
static void settle(unsigned published) {
    unsigned none = 0;

    for (unsigned i = 0; i < n_nodes; i++) {
        node_await(&nodes[i].holder);
        for (; nodes[i].owes > 0; nodes[i].owes--)
            node_await(&nodes[i].waiter);
        send_now(&nodes[i].waiter, RELEASE, WAITER_VALUE, 0);
        node_await(&nodes[i].waiter);
    }
    while (published < 2 * n_nodes) /* both releases are published */
        for (unsigned i = 0; i < n_nodes; i++) {
            struct pollfd message = {.fd = nodes[i].messages->fd, .events = POLLIN};
            if (poll(&message, 1, 1) == 1)
                published += take(nodes[i].messages, &none);
        }
}

static void remote_floor(unsigned count, char **places) {
    open_all(places);
    for (unsigned k = 0; k < count; k++) {
        unsigned published = 0;
        long long token = fresh_token();
        for (unsigned i = 0; i < n_nodes; i++) {
            send_now(&nodes[i].holder, ACQUIRE, HOLDER_VALUE, token);
            node_await(&nodes[i].holder);
        }
        (void) usleep(PAUSE_US);
        double begun_us = now_us();
        for (unsigned i = 0; i < n_nodes; i++)
            send_now(&nodes[i].holder, RELEASE, HOLDER_VALUE, 0);
        took_us[k] = wait_for_majority(&published) - begun_us;
        settle(published);
    }
}

/* --- two agents --- */

static bool granted;

static void on_granted(struct redlock_lease *lease, void *userdata) {
    (void) lease;
    (void) userdata;
    granted = true;
}

static struct redlock *connect_to(const char *place) {
    struct redlock *connection;

    if (redlock_connect(place, &connection) != REDLOCK_OK)
        fail(place, "can't connect");
    return connection;
}

static void wait_for_grant(struct redlock *holder, struct redlock *waiter) {
    struct pollfd polls[2] = {{.fd = redlock_fd(holder), .events = POLLIN},
                              {.fd = redlock_fd(waiter), .events = POLLIN}};

    while (!granted) {
        if (poll(polls, 2, -1) < 0)
            fail("poll", strerror(errno));
        if ((polls[0].revents && redlock_dispatch(holder) != REDLOCK_OK) ||
            (polls[1].revents && redlock_dispatch(waiter) != REDLOCK_OK))
            fail("redlock_dispatch", redlock_error_text(waiter));
    }
}

static void remote_agents(unsigned count, char **places) {
    const struct redlock_options options = {.size = sizeof(options), .wait_ms = -1};
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .granted = on_granted};
    struct redlock *holder = connect_to(places[0]), *waiter = connect_to(places[1]);

    redlock_set_callbacks(waiter, &callbacks, NULL);
    for (unsigned k = 0; k < count; k++) {
        struct redlock_lease *held, *wanted;
        if (redlock_acquire(holder, name, &options, &held) != REDLOCK_OK)
            fail("redlock_acquire", redlock_error_text(holder));
        granted = false;
        if (redlock_acquire_async(waiter, name, &options, &wanted) != REDLOCK_OK)
            fail("redlock_acquire_async", redlock_error_text(waiter));
        (void) usleep(PAUSE_US);
        double begun_us = now_us();
        if (redlock_release_async(held) != REDLOCK_OK)
            fail("redlock_release_async", redlock_error_text(holder));
        wait_for_grant(holder, waiter);
        took_us[k] = now_us() - begun_us;
        if (redlock_release(wanted) != 1)
            fail("redlock_release", redlock_error_text(waiter));
    }
    redlock_close(holder);
    redlock_close(waiter);
}

int run_remote(char **arguments) {
    for (unsigned i = 0; i < 3; i++)
        if (!arguments[i])
            fail("usage", "bench remote agents COUNT SOCKET SOCKET | remote floor COUNT NODE...");
    unsigned count = number_of(arguments[1], 1, COUNT_MAX);
    (void) snprintf(name, sizeof(name), "remote-%d", (int) getpid());
    if (strcmp(arguments[0], "floor") == 0)
        remote_floor(count, arguments + 2);
    else if (arguments[3])
        remote_agents(count, arguments + 2);
    (void) printf("{");
    print_percentiles("handoff", took_us, count);
    (void) printf("}\n");
    return 0;
}
