/* Which names are subscribed to, on which nodes and since when; and what of it reaches a waiting lease. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "core/wakeup.h"
#include "tap.h"
#include "shard-harness.h"

enum { NODES = 3, NAMES_MAX = 2 };

static struct wakeup wakeup;
static void *memory;
static unsigned opened[NODES], closed[NODES];
static char subscribed[NODES][64]; /* the commands to each node: "+a-a" */

static void on_open(void *userdata, unsigned node) {
    (void) userdata;
    opened[node]++;
}

static void on_close(void *userdata, unsigned node) {
    (void) userdata;
    closed[node]++;
}

static void note(unsigned node, char sign, const struct shared_string *name) {
    size_t length = strlen(subscribed[node]);

    assert(length + 1 + name->head_length < sizeof(subscribed[node]));
    subscribed[node][length] = sign;
    memcpy(subscribed[node] + length + 1, name->bytes, name->head_length);
    subscribed[node][length + 1 + name->head_length] = '\0';
}

static void on_subscribe(void *userdata, unsigned node, const struct shared_string *name) {
    (void) userdata;
    note(node, '+', name);
}

static void on_unsubscribe(void *userdata, unsigned node, const struct shared_string *name) {
    (void) userdata;
    note(node, '-', name);
}

static void begin(void) {
    static const uint64_t hash_key[2] = {1, 2};
    const struct wakeup_sink sink = {
        .open = on_open, .close = on_close, .subscribe = on_subscribe, .unsubscribe = on_unsubscribe};

    shard_harness_begin(NODES);
    free(memory);
    memory = calloc(1, wakeup_memory_bytes(NAMES_MAX));
    assert(memory);
    memset(opened, 0, sizeof(opened));
    memset(closed, 0, sizeof(closed));
    memset(subscribed, 0, sizeof(subscribed));
    wakeup_init(&wakeup, &harness.shard, NODES, NAMES_MAX, hash_key, &sink, memory);
}

static void listen(uint64_t request, const char *name, bool wanted) {
    struct shared_string *text = shared_string_new(&harness.shard.texts, name, strlen(name), NULL, 0);

    assert(text);
    wakeup_listen(&wakeup, request, text, wanted, harness.now_ns);
    (void) shared_string_unref(&harness.shard.texts, text);
}

static void connect_all(void) {
    for (unsigned i = 0; i < NODES; i++) {
        wakeup_node_ready(&wakeup, i);
        if (opened[i] > closed[i])
            wakeup_connected(&wakeup, i);
    }
}

/* Request 1 waits for a holder of its name, as the shard's harness calls it. */
static const char *wait_for_holder(void) {
    const struct vote held = {.kind = VOTE_FOREIGN, .text = "x", .text_length = 1, .ttl_left_ms = 8000};

    contend(1, true);
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < NODES; i++)
        vote_with(i, sent.ticket, &held);
    uint32_t slot = harness.shard.lease_of_request[1];
    const struct lease *lease = pool_at(&harness.shard.leases, slot - 1);
    static char name[64];
    (void) snprintf(name, sizeof(name), "%.*s", (int) lease->text->head_length, lease->text->bytes);
    return name;
}

static node_set listening(void) {
    const struct lease *lease = pool_at(&harness.shard.leases, harness.shard.lease_of_request[1] - 1);
    return lease->listening;
}

static void test_connections(void) {
    begin();
    connect_all();
    is_int(opened[0], 0, "no connection for messages without a name");
    listen(7, "a", true);
    is_int(opened[0] + opened[1] + opened[2], NODES, "the first name opens one to each node");
    connect_all();
    is_string(subscribed[0], "+a", "each subscribes");
    wakeup_node_gone(&wakeup, 0, harness.now_ns);
    is_int(closed[0], 1, "a node that is gone is closed");
    wakeup_node_ready(&wakeup, 0);
    is_int(opened[0], 2, "and opened again when it is back");
    wakeup_connected(&wakeup, 0);
    is_string(subscribed[0], "+a+a", "with its names");
    listen(7, "a", false);
    wakeup_tick(&wakeup, wakeup_due_ns(&wakeup) - 1);
    is_string(subscribed[1], "+a", "a subscription outlives its request");
    harness.now_ns += WAKEUP_LINGER_MS * NS_PER_MS;
    ok(wakeup_due_ns(&wakeup) == harness.now_ns, "for WAKEUP_LINGER_MS");
    wakeup_tick(&wakeup, harness.now_ns);
    is_string(subscribed[1], "+a-a", "and ends then");
    is_int(closed[1], 0, "the connection stays for the next name");
    wakeup_tick(&wakeup, wakeup_due_ns(&wakeup));
    is_int(closed[1], 1, "until WAKEUP_CLOSE_MS have passed");
    ok(wakeup_due_ns(&wakeup) == INSTANT_NEVER, "nothing is due any more");
}

/* A connection that broke has no subscriptions, for a name that waits again either. */
static void test_broken_while_idle(void) {
    begin();
    const char *name = wait_for_holder();
    listen(1, name, true);
    connect_all();
    for (unsigned i = 0; i < NODES; i++)
        wakeup_subscribed(&wakeup, i, name, strlen(name), harness.now_ns);
    is_int(listening(), 0x7, "a request is subscribed on all nodes");
    listen(1, name, false);
    wakeup_disconnected(&wakeup, 0, harness.now_ns);
    listen(1, name, true);
    wakeup_settle(&wakeup, harness.now_ns);
    is_int(listening(), 0x6, "but not where the connection broke before it waited again");
}

/* A name keeps its subscriptions for a while; so the next request that waits for the name polls rarely. */
static void test_next_request(void) {
    begin();
    const char *name = wait_for_holder();
    listen(2, name, true);
    connect_all();
    for (unsigned i = 0; i < NODES; i++)
        wakeup_subscribed(&wakeup, i, name, strlen(name), harness.now_ns);
    listen(2, name, false);
    listen(1, name, true);
    is_int(listening(), 0, "a request for a name with subscriptions");
    wakeup_settle(&wakeup, harness.now_ns);
    is_int(listening(), 0x7, "has them at the end of the turn");
}

static void test_memory(void) {
    begin();
    listen(7, "a", true);
    connect_all();
    listen(7, "a", false);
    listen(8, "b", true);
    listen(9, "c", true);
    is_string(subscribed[0], "+a+b-a+c", "an idle subscription gives way to a name with a waiter");
    listen(10, "d", true);
    is_string(subscribed[0], "+a+b-a+c", "without a place a request polls");
    listen(10, "d", false);
    listen(8, "b", true);
    is_string(subscribed[0], "+a+b-a+c", "a name that is subscribed is not subscribed again");
}

static void test_messages(void) {
    begin();
    const char *name = wait_for_holder();
    listen(1, name, true);
    connect_all();
    is_int(listening(), 0, "nothing is promised before a node confirms");
    wakeup_subscribed(&wakeup, 0, name, strlen(name), harness.now_ns);
    wakeup_subscribed(&wakeup, 1, name, strlen(name), harness.now_ns);
    is_int(listening(), 3, "two nodes have");
    wakeup_disconnected(&wakeup, 1, harness.now_ns);
    is_int(listening(), 1, "a connection that breaks takes its subscriptions with it");
    wakeup_connected(&wakeup, 1);
    is_int(listening(), 1, "which a new connection has to confirm");
    wakeup_subscribed(&wakeup, 1, "other", 5, harness.now_ns);
    wakeup_released(&wakeup, 1, "other", 5, harness.now_ns);
    is_int(listening(), 1, "a name that nothing asked for changes nothing");
}

int main(void) {
    test_connections();
    test_broken_while_idle();
    test_next_request();
    test_memory();
    test_messages();
    free(memory);
    return done_testing();
}
