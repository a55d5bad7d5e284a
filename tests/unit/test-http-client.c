/* The clients of the HTTP server: each has a bounded time for what it does, and a new one finds a place. */

#include <sys/socket.h>
#include <unistd.h>

#include "http-client.h"
#include "tap.h"

#define NS_PER_S INT64_C(1000000000)

static struct http_client_table table;
static struct http_client *clients[HTTP_CLIENT_PLACES + 1];
static int ends[HTTP_CLIENT_PLACES + 1]; /* the clients' */

static void begin(void) {
    table = (struct http_client_table){.count = 0};
}

static void connect_at(unsigned index, int64_t now_ns) {
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    ends[index] = pair[0];
    clients[index] = http_client_new(&table, pair[1], now_ns);
}

/* Whether the server has shut the connection down. */
static bool is_ended(unsigned index) {
    char byte;

    return recv(ends[index], &byte, 1, 0) == 0;
}

static void disconnect(unsigned index) {
    int fd = clients[index]->fd;

    http_client_free(&table, clients[index]);
    (void) close(fd);
    (void) close(ends[index]);
}

static void test_times(void) {
    begin();
    is_int(http_client_due_ns(&table), INT64_MAX, "without clients nothing is due");
    connect_at(0, 0);
    connect_at(1, 1 * NS_PER_S);
    is_int(http_client_due_ns(&table), 10 * NS_PER_S, "a client has 10 s for its request");
    http_client_goes_on(clients[1], HTTP_CLIENT_READS, 2 * NS_PER_S);
    http_client_tick(&table, 10 * NS_PER_S - 1);
    ok(!is_ended(0), "it stays until then");
    http_client_tick(&table, 10 * NS_PER_S);
    ok(is_ended(0) && !is_ended(1), "then it goes");
    is_int(http_client_due_ns(&table), 32 * NS_PER_S, "another has 30 s to read its answer");
    http_client_goes_on(clients[0], HTTP_CLIENT_READS, 11 * NS_PER_S);
    is_int(http_client_due_ns(&table), 32 * NS_PER_S, "one that went does nothing more");
    http_client_goes_on(clients[1], HTTP_CLIENT_RESTS, 3 * NS_PER_S);
    is_int(http_client_due_ns(&table), 33 * NS_PER_S, "and 30 s for its next request");
    http_client_tick(&table, 33 * NS_PER_S);
    ok(is_ended(1), "then it goes, too");
    is_int(http_client_due_ns(&table), INT64_MAX, "nothing is due");
    is_int(table.count, 0, "none is left");
    disconnect(0);
    disconnect(1);
    is_int(table.count, 0, "nor after their connections were closed");
}

static void test_room(void) {
    unsigned taken = 0;

    begin();
    for (unsigned i = 0; i < HTTP_CLIENTS_MAX; i++)
        connect_at(i, i);
    for (unsigned i = 0; i < HTTP_CLIENTS_MAX; i++)
        if (i != 7 && i != 9)
            http_client_goes_on(clients[i], HTTP_CLIENT_READS, 100 + i);
    http_client_goes_on(clients[7], HTTP_CLIENT_RESTS, 200);
    is_int(table.count, HTTP_CLIENTS_MAX, "all places are taken");
    connect_at(HTTP_CLIENTS_MAX, 300);
    ok(is_ended(9), "for a new client one goes that has sent no complete request");
    connect_at(HTTP_CLIENTS_MAX + 1, 301);
    ok(is_ended(7), "or that has sent none since its answer: the oldest");
    http_client_goes_on(clients[HTTP_CLIENTS_MAX], HTTP_CLIENT_READS, 302);
    http_client_goes_on(clients[HTTP_CLIENTS_MAX + 1], HTTP_CLIENT_READS, 303);
    connect_at(HTTP_CLIENTS_MAX + 2, 304);
    ok(is_ended(0), "else one that reads: the oldest");
    is_int(table.count, HTTP_CLIENTS_MAX, "and not more than these");
    for (unsigned i = HTTP_CLIENTS_MAX + 3; i <= HTTP_CLIENT_PLACES; i++)
        connect_at(i, i + 400);
    for (unsigned i = 0; i <= HTTP_CLIENT_PLACES; i++)
        taken += clients[i] != NULL;
    is_int(taken, HTTP_CLIENT_PLACES, "connections that are not closed yet keep their places");
    disconnect(9);
    connect_at(9, 500);
    ok(clients[9], "once one is closed, there is a place");
    is_int(table.count, HTTP_CLIENTS_MAX, "for it");
}

int main(void) {
    test_times();
    test_room();
    return done_testing();
}
