#include "http-client.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t due_ns(const struct http_client *client) {
    static const int64_t seconds[] = {
        [HTTP_CLIENT_ASKS] = 10, [HTTP_CLIENT_RESTS] = 30, [HTTP_CLIENT_READS] = 30};

    return client->doing < HTTP_CLIENT_ASKS ? INT64_MAX
                                            : client->since_ns + seconds[client->doing] * NS_PER_S;
}

/* The server notices this as the client's end, and closes the connection. */
static void end(struct http_client_table *table, struct http_client *client) {
    (void) shutdown(client->fd, SHUT_RDWR);
    client->doing = HTTP_CLIENT_ENDED;
    table->count--;
}

static bool goes_before(const struct http_client *client, const struct http_client *other) {
    bool reads = client->doing == HTTP_CLIENT_READS, other_reads = other->doing == HTTP_CLIENT_READS;

    return reads != other_reads ? other_reads : client->since_ns < other->since_ns;
}

static void make_room(struct http_client_table *table) {
    struct http_client *first = NULL;

    for (struct http_client *client = table->places; client < table->places + HTTP_CLIENT_PLACES; client++)
        if (client->doing >= HTTP_CLIENT_ASKS && (!first || goes_before(client, first)))
            first = client;
    if (first)
        end(table, first);
}

struct http_client *http_client_new(struct http_client_table *table, int fd, int64_t now_ns) {
    struct http_client *client = table->places;

    if (table->count >= HTTP_CLIENTS_MAX)
        make_room(table);
    while (client < table->places + HTTP_CLIENT_PLACES && client->doing != HTTP_CLIENT_GONE)
        client++;
    if (client == table->places + HTTP_CLIENT_PLACES)
        return NULL;
    *client = (struct http_client){.fd = fd, .doing = HTTP_CLIENT_ASKS, .since_ns = now_ns};
    table->count++;
    return client;
}

void http_client_goes_on(struct http_client *client, enum http_client_doing doing, int64_t now_ns) {
    if (client->doing < HTTP_CLIENT_ASKS)
        return;
    client->doing = doing;
    client->since_ns = now_ns;
}

void http_client_free(struct http_client_table *table, struct http_client *client) {
    if (client->doing >= HTTP_CLIENT_ASKS)
        table->count--;
    client->doing = HTTP_CLIENT_GONE;
}

void http_client_tick(struct http_client_table *table, int64_t now_ns) {
    for (struct http_client *client = table->places; client < table->places + HTTP_CLIENT_PLACES; client++)
        if (now_ns >= due_ns(client))
            end(table, client);
}

int64_t http_client_due_ns(const struct http_client_table *table) {
    int64_t earliest_ns = INT64_MAX;

    for (const struct http_client *client = table->places; client < table->places + HTTP_CLIENT_PLACES;
         client++)
        if (due_ns(client) < earliest_ns)
            earliest_ns = due_ns(client);
    return earliest_ns;
}
