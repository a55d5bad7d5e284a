/* bench delay ROUND-TRIP-US LISTEN TARGET [LISTEN TARGET]...: a proxy between clients and nodes (Unix
 * sockets) that delays every byte by half a round trip, in both directions. Nothing is lost or reordered,
 * and the rate is not limited. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { ROUTES_MAX = 32, PIPES_MAX = 512, CHUNKS = 1024, RING_BYTES = 1 << 18, CHUNK_BYTES = 1 << 14 };

struct chunk {
    double due_us;
    size_t length;
};

/* One direction of a connection. */
struct pipe {
    int from, to;
    struct pipe *back; /* the other one */
    struct chunk chunks[CHUNKS];
    size_t first_chunk, n_chunks;
    char ring[RING_BYTES];
    size_t first_byte, n_bytes;
};

struct route {
    int listening;
    const char *target;
};

static struct route routes[ROUTES_MAX];
static unsigned n_routes;
static struct pipe *pipes[PIPES_MAX];
static unsigned n_pipes;
static double delay_us;

static struct sockaddr_un address_of(const char *place) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(place) >= sizeof(address.sun_path))
        fail(place, "is too long");
    memcpy(address.sun_path, place, strlen(place));
    return address;
}

static void route_open(const char *place, const char *target) {
    struct sockaddr_un address = address_of(place);
    struct route *route = &routes[n_routes++];

    route->target = target;
    route->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (route->listening < 0 ||
        bind(route->listening, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
        listen(route->listening, PIPES_MAX) < 0)
        fail(place, strerror(errno));
}

static struct pipe *pipe_new(int from, int to) {
    struct pipe *pipe = calloc(1, sizeof(*pipe));

    if (!pipe || n_pipes == PIPES_MAX)
        fail("connections", "too many");
    pipe->from = from;
    pipe->to = to;
    pipes[n_pipes++] = pipe;
    return pipe;
}

static void take_connection(const struct route *route) {
    struct sockaddr_un address = address_of(route->target);
    int client = accept4(route->listening, NULL, NULL, SOCK_CLOEXEC);
    int node = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (client < 0 || node < 0 || connect(node, (const struct sockaddr *) &address, sizeof(address)) < 0)
        fail(route->target, strerror(errno));
    struct pipe *there = pipe_new(client, node), *back = pipe_new(node, client);
    there->back = back;
    back->back = there;
}

static bool has_room(const struct pipe *pipe) {
    return pipe->n_chunks < CHUNKS && pipe->n_bytes < RING_BYTES;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* false: the connection is over. */
static bool take_bytes(struct pipe *pipe) {
    size_t at = (pipe->first_byte + pipe->n_bytes) % RING_BYTES;
    size_t room = least(least(RING_BYTES - pipe->n_bytes, RING_BYTES - at), CHUNK_BYTES);
    ssize_t length = read(pipe->from, pipe->ring + at, room);

    if (length <= 0)
        return false;
    pipe->chunks[(pipe->first_chunk + pipe->n_chunks++) % CHUNKS] =
        (struct chunk){now_us() + delay_us, (size_t) length};
    pipe->n_bytes += (size_t) length;
    return true;
}

static bool give_bytes(struct pipe *pipe) {
    while (pipe->n_chunks > 0 && pipe->chunks[pipe->first_chunk].due_us <= now_us()) {
        size_t length = pipe->chunks[pipe->first_chunk].length; /* in one piece: see take_bytes() */
        if (send(pipe->to, pipe->ring + pipe->first_byte, length, MSG_NOSIGNAL) != (ssize_t) length)
            return false;
        pipe->first_byte = (pipe->first_byte + length) % RING_BYTES;
        pipe->n_bytes -= length;
        pipe->first_chunk = (pipe->first_chunk + 1) % CHUNKS;
        pipe->n_chunks--;
    }
    return true;
}

static void remove_pipe(const struct pipe *pipe) {
    for (unsigned i = 0; i < n_pipes; i++)
        if (pipes[i] == pipe)
            pipes[i] = pipes[--n_pipes];
}

static void connection_close(struct pipe *pipe) {
    struct pipe *back = pipe->back;

    (void) close(pipe->from);
    (void) close(pipe->to);
    remove_pipe(pipe);
    remove_pipe(back);
    free(pipe);
    free(back);
}

static struct timespec until_next(void) {
    double due_us = now_us() + 1e6;

    for (unsigned i = 0; i < n_pipes; i++)
        if (pipes[i]->n_chunks > 0 && pipes[i]->chunks[pipes[i]->first_chunk].due_us < due_us)
            due_us = pipes[i]->chunks[pipes[i]->first_chunk].due_us;
    double left_us = due_us - now_us();
    if (left_us < 0)
        left_us = 0;
    return (struct timespec){(time_t) (left_us / 1e6), (long) (left_us * 1e3) % 1000000000};
}

static void turn(void) {
    static struct pollfd polls[ROUTES_MAX + PIPES_MAX];
    struct timespec wait = until_next();
    unsigned n = 0;

    for (unsigned i = 0; i < n_routes; i++)
        polls[n++] = (struct pollfd){.fd = routes[i].listening, .events = POLLIN};
    for (unsigned i = 0; i < n_pipes; i++)
        polls[n++] = (struct pollfd){.fd = has_room(pipes[i]) ? pipes[i]->from : -1, .events = POLLIN};
    if (ppoll(polls, n, &wait, NULL) < 0)
        fail("ppoll", strerror(errno));
    struct pipe *over = NULL;
    for (unsigned i = 0; i < n_pipes; i++)
        if ((polls[n_routes + i].revents && !take_bytes(pipes[i])) || !give_bytes(pipes[i]))
            over = pipes[i];
    if (over) /* one a turn */
        connection_close(over);
    for (unsigned i = 0; i < n_routes; i++)
        if (polls[i].revents)
            take_connection(&routes[i]);
}

int run_delay(char **arguments) {
    if (!arguments[0] || !arguments[1])
        fail("usage", "bench delay ROUND-TRIP-US LISTEN TARGET [LISTEN TARGET]...");
    delay_us = number_of(arguments[0], 0, 10000000) / 2.0;
    /* No timer slack. */
    (void) prctl(PR_SET_TIMERSLACK, 1UL);
    for (arguments++; arguments[0] && arguments[1] && n_routes < ROUTES_MAX; arguments += 2)
        route_open(arguments[0], arguments[1]);
    for (;;)
        turn();
}
