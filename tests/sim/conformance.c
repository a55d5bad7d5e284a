/* conformance REDIS-SOCKET SEED SEQUENCES: compares the simulated node with a real server. Both execute the
 * same random requests, the server by the scripts that ship. After each request, answers and keys must be
 * equal. */

#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients.h"
#include "node.h"
#include "pubsub.h"
#include "base/hex.h"
#include "io/node/key-names.h"

/* The parts of the simulated world that node.c needs. There are no events here but requests. */
int64_t sim_now_ns = 1;
struct random sim_random;
struct sim_counts sim_counts;
unsigned sim_last_blessed;

int64_t pick(int64_t low, int64_t high) {
    return random_between(&sim_random, low, high);
}

int64_t clock_read(const struct clock *clock) {
    return clock->offset_ns + sim_now_ns;
}

void trace(const char *format, ...) {
    (void) format;
}

void clients_check_deletion(unsigned name, const struct sim_key *deleted) {
    (void) name;
    (void) deleted;
}

bool published; /* by the simulated node */

void pubsub_publish(const struct sim_node *of, unsigned name) {
    (void) of;
    (void) name;
    published = true;
}

redisContext *server;
static redisContext *subscriber;
struct sim_node node;
char known_epoch[EPOCH_BYTES_MAX]; /* from the last probe */
uint32_t known_sim_epoch;
int64_t known_sim_floor_us;
uint32_t known_sim_generation;
char history[STEPS * SIM_NAMES * 128];

_Noreturn void fail(const char *what) {
    (void) printf("not ok 1 - the simulated node answers like a real server\n# %s, after:%s\n1..1\n", what,
                  history);
    exit(1);
}

redisReply *run(enum script_id script, int argc, const char *const *argv, int n_keys) {
    const char *all[3 + ITEMS_MAX] = {"EVAL", script_sources[script].text};
    char keys[12];

    (void) snprintf(keys, sizeof(keys), "%d", n_keys);
    all[2] = keys;
    for (int i = 0; i < argc; i++)
        all[3 + i] = argv[i];
    redisReply *reply = redisCommandArgv(server, argc + 3, all, NULL);
    if (!reply)
        fail("the server is gone");
    return reply;
}

void key_of(unsigned name, char ret[2]) {
    ret[0] = (char) ('0' + name);
    ret[1] = '\0';
}

void secret_of(unsigned secret, uint8_t ret[SECRET_BYTES]) {
    memset(ret, secret + 1 == SECRETS, SECRET_BYTES);
    for (unsigned i = 0; i < 2; i++)
        ret[SECRET_BYTES - 1 - i] = (uint8_t) ((secret + UINT16_MAX) >> 8 * i);
}

void value_of(const uint8_t secret[SECRET_BYTES], unsigned owner, char ret[VALUE_BYTES]) {
    hex_write(secret, SECRET_BYTES, ret);
    (void) snprintf(ret + 2 * SECRET_BYTES, VALUE_BYTES - 2 * SECRET_BYTES,
                    ":host:%08x:%u:1000:data:", owner, 7 + owner);
}

int64_t known_floor_us(void) {
    struct epoch epoch;
    return epoch_read(known_epoch, &epoch) ? epoch.floor_us : 0;
}

void read_fence(unsigned name, int64_t ret[2]) {
    redisReply *reply = redisCommand(server, "HGET " FENCES_KEY " %u", name);

    if (reply && reply->type == REDIS_REPLY_NIL) {
        freeReplyObject(reply);
        reply = redisCommand(server, "HGET " FORMER_FENCES_KEY " %u", name);
    }
    if (!reply)
        fail("the server is gone");
    ret[0] = ret[1] = 0;
    if (reply->type == REDIS_REPLY_STRING) {
        const char *blank = strchr(reply->str, ' ');
        ret[0] = strtoll(reply->str, NULL, 10);
        ret[1] = blank ? strtoll(blank, NULL, 10) : ret[0];
    }
    freeReplyObject(reply);
}

/* Makes the table of tokens old: the next acquisition begins another table. The former one stays until the
 * new one is old. */
static bool grown_old;

static void grow_old(void) {
    freeReplyObject(redisCommand(server, "HSET " FENCES_KEY " %s 1", ""));
    grown_old = true;
    (void) strcat(history, " grow old;");
}

/* A flush, a key overwritten by another program, or a restart of the node with its data. */
static void step_disturb(void) {
    if (!grown_old && chance(30)) {
        grow_old();
        return;
    }
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1);
    char key[2];

    key_of(name, key);
    if (chance(50)) {
        freeReplyObject(redisCommand(server, "FLUSHALL"));
        node_forget(&node);
        (void) strcat(history, " flush;");
    } else if (chance(50) && node.data.epoch == node.process) {
        redisReply *epoch = redisCommand(server, "GET " EPOCH_KEY);
        freeReplyObject(
            redisCommand(server, "SET " EPOCH_KEY " %s%s", FORMER_RUN_ID, strchr(epoch->str, ' ')));
        freeReplyObject(epoch);
        node.data.epoch = FORMER_PROCESS;
        (void) strcat(history, " restart;");
    } else {
        freeReplyObject(redisCommand(server, "SET %s " FOREIGN_VALUE " PX 100000", key));
        node_overwrite(&node, name, LONG_TTL_MS);
        (void) strcat(history, " overwrite;");
    }
}

static void compare_fence(unsigned name) {
    int64_t real[2], simulated[2] = {node.data.keys[name].token, node.data.keys[name].own_token};

    read_fence(name, real);
    if (real[0] - real[1] != simulated[0] - simulated[1])
        fail("the holder's tokens differ");
}

static void compare_keys(void) {
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        char key[2], value[VALUE_BYTES];
        key_of(name, key);
        value_of(node.data.keys[name].secret, node.data.keys[name].owner, value);
        redisReply *reply = redisCommand(server, "GET %s", key);
        if (!reply)
            fail("the server is gone");
        if ((reply->type == REDIS_REPLY_STRING) != node.data.keys[name].set)
            fail("a key exists on one node only");
        if (node.data.keys[name].set && strcmp(reply->str, "foreign") != 0 && strcmp(reply->str, value) != 0)
            fail("the values of a key differ");
        freeReplyObject(reply);
        compare_fence(name);
    }
}

bool chance(unsigned percent) {
    return pick(1, 100) <= (int64_t) percent;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 64;
    random_init(&sim_random, strtoull(argv[2], NULL, 10));
    unsigned long sequences = strtoul(argv[3], NULL, 10);
    server = redisConnectUnix(argv[1]);
    if (!server || server->err) {
        (void) printf("Bail out! can't connect to %s\n", argv[1]);
        return 1;
    }
    subscriber = redisConnectUnix(argv[1]);
    redisReply *subscribed = redisCommand(subscriber, "PSUBSCRIBE " RELEASE_CHANNEL "*");
    if (!subscribed || subscribed->type != REDIS_REPLY_ARRAY)
        fail("the server accepts no subscriber");
    freeReplyObject(subscribed);
    for (unsigned long i = 0; i < sequences; i++) {
        freeReplyObject(redisCommand(server, "FLUSHALL"));
        node_reset(&node, 0);
        node.clock.rate = 1;
        history[0] = '\0';
        grown_old = false;
        (void) strcpy(known_epoch, "-");
        known_sim_epoch = UINT32_MAX;
        known_sim_floor_us = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            int64_t kind = pick(1, 100);
            if (kind <= 15)
                step_acquire();
            else if (kind <= 55)
                step_request();
            else if (kind <= 65)
                step_together();
            else if (kind <= 95)
                step_probe();
            else
                step_disturb();
            compare_keys();
            sim_now_ns += NS_PER_MS; /* time passes on both nodes, so a later blessing has a larger floor */
        }
    }
    (void) printf(
        "ok 1 - the simulated node answers like a real server, in %lu sequences of %d requests\n1..1\n",
        sequences, STEPS);
    redisFree(subscriber);
    redisFree(server);
    return 0;
}
