#include "nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TTL_MS = 10000 };
enum { HOST_BYTES = 64 };

#define RETENTION_MS "604800000"
#define SKEW_US "60000000"

static long long last_token;

/* The port of HOST:PORT, and its host; 0 of a path. */
static int port_of(const char *place, char ret_host[static HOST_BYTES]) {
    const char *colon = strrchr(place, ':');

    if (*place == '/')
        return 0;
    if (!colon || colon - place >= HOST_BYTES)
        fail(place, "is neither a path nor HOST:PORT");
    memcpy(ret_host, place, (size_t) (colon - place));
    ret_host[colon - place] = '\0';
    return (int) number_of(colon + 1, 1, 65535);
}

redisContext *node_connect(const char *place) {
    char host[HOST_BYTES];
    int port = port_of(place, host);
    redisContext *context = port ? redisConnect(host, port) : redisConnectUnix(place);

    if (!context || context->err)
        fail(place, "can't connect");
    return context;
}

redisAsyncContext *node_connect_async(const char *place) {
    char host[HOST_BYTES];
    int port = port_of(place, host);
    redisAsyncContext *context = port ? redisAsyncConnect(host, port) : redisAsyncConnectUnix(place);

    if (!context || context->err)
        fail(place, "can't connect");
    return context;
}

static void read_text(redisReply *reply, char *ret, size_t size, const char *why) {
    if (!reply || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        fail("a node", why);
    (void) snprintf(ret, size, "%s", reply->str);
    freeReplyObject(reply);
}

void node_open(struct node *node, const char *place) {
    node->place = place;
    node->context = node_connect(place);
    read_text(redisCommand(node->context, "GET %s", EPOCH_KEY), node->epoch, sizeof(node->epoch),
              "is not blessed");
    for (unsigned i = 0; i < SCRIPTS_LOADED; i++)
        read_text(redisCommand(node->context, "SCRIPT LOAD %s", script_sources[i].text), node->shas[i],
                  sizeof(node->shas[i]), "does not load a script");
    long long least = atoll(strrchr(node->epoch, ' ') + 1);
    if (last_token < least)
        last_token = least;
}

void node_close(struct node *node) {
    redisFree(node->context);
    node->context = NULL;
}

unsigned nodes_count(char **places) {
    unsigned count = 0;

    while (places[count])
        count++;
    if (count < 1 || count > NODES_MAX)
        fail("nodes", "there are none, or too many");
    return count;
}

long long fresh_token(void) {
    struct timespec t;

    (void) clock_gettime(CLOCK_REALTIME, &t);
    long long us = (long long) t.tv_sec * 1000000 + t.tv_nsec / 1000;
    last_token = us > last_token ? us : last_token + 1;
    return last_token;
}

int node_format(const struct node *node, enum phase phase, const char *name, const char *value,
                long long token, char **ret) {
    int length;

    if (phase == ACQUIRE)
        length = redisFormatCommand(ret,
                                    "EVALSHA %s 4 %s " FENCES_KEY " " FORMER_FENCES_KEY " %s %s %s " SKEW_US
                                    " " RETENTION_MS " 0 %s %d %lld",
                                    node->shas[SCRIPT_ACQUIRE], EPOCH_KEY, name, node->epoch,
                                    strrchr(node->epoch, ' ') + 1, value, TTL_MS, token);
    else
        length = redisFormatCommand(ret, "EVALSHA %s 1 %s %s %s", node->shas[SCRIPT_RELEASE], name, value,
                                    RELEASE_CHANNEL);
    if (length < 0)
        fail("redisFormatCommand", "failed");
    return length;
}

/* The script's answer for the one name; behind the node's time, if it acquires. NULL: the short answer,
 * success. */
static const redisReply *word_on_name(enum phase phase, const redisReply *reply) {
    const size_t at = phase == ACQUIRE ? 1 : 0;

    if (!reply)
        fail("a node", "does not answer");
    if (reply->type != REDIS_REPLY_ARRAY)
        fail("a node", reply->type == REDIS_REPLY_ERROR ? reply->str : "answers something else");
    return reply->elements > at ? reply->element[at] : NULL;
}

bool says_yes(enum phase phase, const redisReply *reply) {
    const redisReply *word = word_on_name(phase, reply);

    return !word || (word->type == REDIS_REPLY_INTEGER && word->integer >= 1);
}

void expect_yes(enum phase phase, const redisReply *reply) {
    if (says_yes(phase, reply))
        return;
    if (phase == ACQUIRE && reply->element[1]->elements == 2)
        fail("a node", "did not accept the token");
    fail("a node", phase == ACQUIRE ? "has the name already" : "does not have the name");
}

void node_await(struct node *node) {
    void *reply;

    if (redisGetReply(node->context, &reply) != REDIS_OK)
        fail(node->place, node->context->errstr);
    if (((redisReply *) reply)->type == REDIS_REPLY_ERROR)
        fail(node->place, ((redisReply *) reply)->str);
    freeReplyObject(reply);
}
