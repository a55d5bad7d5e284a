#include "floor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

/* Replies that a node may owe: a slow one lags behind the majority. */
enum { QUEUE = 1 << 18 };

struct owed {
    struct floor_slot *slot;
    unsigned number;
    enum phase phase;
};

struct floor_node {
    struct node node;
    struct owed *owed; /* a ring: replies come in the order of the requests */
    unsigned first, count;
    bool unsent;
};

static struct floor_node nodes[NODES_MAX];
static unsigned n_nodes, majority;
static void (*on_decided)(struct floor_slot *slot);

void floor_open(char **places, struct floor_slot *slots, unsigned n_slots,
                void (*decided)(struct floor_slot *slot)) {
    n_nodes = nodes_count(places);
    majority = n_nodes / 2 + 1;
    on_decided = decided;
    for (unsigned i = 0; i < n_nodes; i++) {
        struct node *node = &nodes[i].node;
        node_open(node, places[i]);
        /* A node that is stopped must not stop the others. */
        (void) fcntl(node->context->fd, F_SETFL, O_NONBLOCK);
        node->context->flags &= ~REDIS_BLOCK;
        nodes[i].owed = calloc(QUEUE, sizeof(struct owed));
        if (!nodes[i].owed)
            fail("calloc", "no memory");
    }
    for (unsigned i = 0; i < n_slots; i++)
        (void) snprintf(slots[i].name, sizeof(slots[i].name), "floor-%d-%u", (int) getpid(), i);
}

void floor_ask(struct floor_slot *slot, enum phase phase) {
    long long token = phase == ACQUIRE ? fresh_token() : 0;

    slot->number++;
    slot->yes = 0;
    slot->phase = phase;
    slot->begun_us = now_us();
    for (unsigned i = 0; i < n_nodes; i++) {
        struct floor_node *node = &nodes[i];
        char *command;
        int length = node_format(&node->node, phase, slot->name, FLOOR_VALUE, token, &command);
        if (redisAppendFormattedCommand(node->node.context, command, (size_t) length) != REDIS_OK)
            fail("redisAppendFormattedCommand", "failed");
        redisFreeCommand(command);
        node->unsent = true;
        if (node->count == QUEUE)
            fail("the floor", "a node owes too many replies");
        node->owed[(node->first + node->count++) % QUEUE] = (struct owed){slot, slot->number, phase};
    }
}

static void take_replies(struct floor_node *node) {
    void *reply;

    if (redisBufferRead(node->node.context) != REDIS_OK)
        fail("a node", node->node.context->errstr);
    while (redisGetReplyFromReader(node->node.context, &reply) == REDIS_OK && reply) {
        struct owed owed = node->owed[node->first];
        expect_yes(owed.phase, reply);
        freeReplyObject(reply);
        node->first = (node->first + 1) % QUEUE;
        node->count--;
        if (owed.number == owed.slot->number && ++owed.slot->yes == majority)
            on_decided(owed.slot);
    }
}

void floor_turn(void) {
    struct pollfd polls[NODES_MAX];

    for (unsigned i = 0; i < n_nodes; i++) {
        redisContext *context = nodes[i].node.context;
        int done = 1;
        if (nodes[i].unsent && redisBufferWrite(context, &done) != REDIS_OK)
            fail("a node", context->errstr);
        nodes[i].unsent = !done;
        polls[i] = (struct pollfd){.fd = context->fd, .events = (short) (POLLIN | (done ? 0 : POLLOUT))};
    }
    if (poll(polls, n_nodes, -1) < 0)
        fail("poll", strerror(errno));
    for (unsigned i = 0; i < n_nodes; i++)
        if (polls[i].revents & POLLIN)
            take_replies(&nodes[i]);
}

static bool owes(void) {
    for (unsigned i = 0; i < n_nodes; i++)
        if (nodes[i].count > 0)
            return true;
    return false;
}

void floor_drain(void) {
    while (owes())
        floor_turn();
}
