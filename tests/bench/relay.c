/* bench relay SOCKET NODE...: the least possible process between clients and nodes. One thread, epoll and
 * hiredis' asynchronous interface: takes a client's request, sends it to all nodes, and answers with the
 * majority's yes. No leases, no deadlines, no waiters, no checks; a name must not be under way twice.
 *
 * A request is a struct of fixed length, an answer one byte. The requests of one turn of the loop go out in
 * one write to each node. */

#include "relay.h"

#include <errno.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nodes.h"

enum { CLIENTS_MAX = 4096, EVENTS = 64 };

struct request {
    enum phase phase;
    char name[28];
};

struct upstream {
    struct node node; /* of its context only what was read at the start is used */
    redisAsyncContext *context;
    bool unsent, waits_to_send;
};

struct client {
    int fd;
    unsigned number; /* of its request: late answers to an earlier one are ignored */
    unsigned yes;
};

/* Which request a reply belongs to travels in hiredis' pointer for the caller. */
union tag {
    void *pointer;
    struct {
        unsigned client, number;
    };
};
static_assert(sizeof(union tag) == sizeof(void *), "a tag fits into a pointer");

static struct upstream upstreams[NODES_MAX];
static unsigned n_upstreams;
static struct client clients[CLIENTS_MAX];
static unsigned n_clients;
static int epoll_fd, listening;

static struct sockaddr_un address_of(const char *place) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(place) >= sizeof(address.sun_path))
        fail(place, "is too long");
    memcpy(address.sun_path, place, strlen(place));
    return address;
}

/* --- the client's side --- */

int relay_connect(const char *place) {
    struct sockaddr_un address = address_of(place);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
        fail(place, strerror(errno));
    return fd;
}

void relay_send(int fd, enum phase phase, unsigned number) {
    struct request request = {.phase = phase};

    (void) snprintf(request.name, sizeof(request.name), "relay-%d-%u", (int) getpid(), number);
    if (write(fd, &request, sizeof(request)) != sizeof(request))
        fail("the relay", "takes nothing");
}

void relay_receive(int fd) {
    char answer;

    if (read(fd, &answer, 1) != 1)
        fail("the relay", "does not answer");
}

/* --- the nodes' side --- */

static void on_reply(redisAsyncContext *context, void *reply, void *userdata) {
    union tag tag = {.pointer = userdata};
    struct client *client = &clients[tag.client];

    (void) context;
    if (!reply)
        fail("a node", "is gone");
    if (((redisReply *) reply)->type == REDIS_REPLY_ERROR)
        fail("a node", ((redisReply *) reply)->str);
    if (client->number != tag.number || ++client->yes != n_upstreams / 2 + 1)
        return;
    if (write(client->fd, "y", 1) != 1 && errno != EPIPE)
        fail("a client", strerror(errno));
}

static void on_write_wanted(void *userdata) {
    struct upstream *upstream = userdata;

    upstream->unsent = true;
}

static void on_write_done(void *userdata) {
    struct upstream *upstream = userdata;

    upstream->unsent = false;
}

static void on_nothing(void *userdata) {
    (void) userdata;
}

static void set_events(struct upstream *upstream, int how, bool to_send) {
    struct epoll_event event = {.events = EPOLLIN | (to_send ? (uint32_t) EPOLLOUT : 0),
                                .data.ptr = upstream};

    upstream->waits_to_send = to_send;
    if (epoll_ctl(epoll_fd, how, upstream->context->c.fd, &event) < 0)
        fail("epoll_ctl", strerror(errno));
}

static void upstream_open(struct upstream *upstream, const char *place) {
    node_open(&upstream->node, place);
    upstream->context = node_connect_async(place);
    upstream->context->ev.data = upstream;
    upstream->context->ev.addRead = on_nothing;
    upstream->context->ev.delRead = on_nothing;
    upstream->context->ev.addWrite = on_write_wanted;
    upstream->context->ev.delWrite = on_write_done;
    upstream->context->ev.cleanup = on_nothing;
    set_events(upstream, EPOLL_CTL_ADD, false);
}

/* One write each; the rest that a socket does not take follows when the socket is ready. */
static void send_all(void) {
    for (unsigned i = 0; i < n_upstreams; i++) {
        struct upstream *upstream = &upstreams[i];
        if (upstream->unsent)
            redisAsyncHandleWrite(upstream->context);
        if (upstream->unsent != upstream->waits_to_send)
            set_events(upstream, EPOLL_CTL_MOD, upstream->unsent);
    }
}

/* --- the loop --- */

static void take_client(void) {
    struct epoll_event event = {.events = EPOLLIN};
    struct client *client = &clients[n_clients];

    if (n_clients == CLIENTS_MAX)
        fail("clients", "too many");
    client->fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (client->fd < 0)
        fail("accept", strerror(errno));
    event.data.ptr = client;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, client->fd, &event) < 0)
        fail("epoll_ctl", strerror(errno));
    n_clients++;
}

static void take_request(struct client *client) {
    struct request request;

    if (read(client->fd, &request, sizeof(request)) != sizeof(request)) {
        (void) close(client->fd);
        return;
    }
    long long token = request.phase == ACQUIRE ? fresh_token() : 0;
    client->yes = 0;
    client->number++;
    for (unsigned i = 0; i < n_upstreams; i++) {
        union tag tag = {.client = (unsigned) (client - clients), .number = client->number};
        char *command;
        int length =
            node_format(&upstreams[i].node, request.phase, request.name, FLOOR_VALUE, token, &command);
        if (redisAsyncFormattedCommand(upstreams[i].context, on_reply, tag.pointer, command,
                                       (size_t) length) != REDIS_OK)
            fail("a node", "takes nothing");
        redisFreeCommand(command);
    }
}

static bool is_upstream(const void *what) {
    return (const struct upstream *) what >= upstreams &&
           (const struct upstream *) what < upstreams + NODES_MAX;
}

static void handle(const struct epoll_event *event) {
    void *what = event->data.ptr;

    if (what == &listening)
        take_client();
    else if (!is_upstream(what))
        take_request(what);
    else if (event->events & EPOLLOUT) /* level-triggered: input is read in the next turn */
        redisAsyncHandleWrite(((struct upstream *) what)->context);
    else
        redisAsyncHandleRead(((struct upstream *) what)->context);
}

int run_relay(char **arguments) {
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.ptr = &listening};

    if (!arguments[0])
        fail("usage", "bench relay SOCKET NODE...");
    struct sockaddr_un address = address_of(arguments[0]);
    n_upstreams = nodes_count(arguments + 1);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < n_upstreams; i++)
        upstream_open(&upstreams[i], arguments[1 + i]);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (epoll_fd < 0 || bind(listening, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
        listen(listening, CLIENTS_MAX) < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listening, &event) < 0)
        fail(arguments[0], strerror(errno));
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++)
            handle(&events[i]);
        send_all();
    }
}
