/* One keeper's connection to one node: connect, greet, load the scripts, send, match the answers, reconnect;
 * and look every ten seconds whether the server still is one that may vote.
 *
 * Built on hiredis' asynchronous connections (0.14 and 1.x) with a queue of our own (io/node/pipeline.h),
 * and on sd-event with our own deadlines. Everything here belongs to one thread: the one whose loop was
 * given. Nothing in here waits.
 *
 * Writing is deferred: redis_send() appends to the output, and redis_flush(), called once at the end of a
 * loop turn, sends everything in one write, unless that is more than 32 calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "io/node/epoch.h"
#include "io/node/evalsha.h"
#include "io/node/server-info.h"
#include "io/loop/poller.h"

enum redis_script {
    SCRIPT_ACQUIRE,
    SCRIPT_RAISE,
    SCRIPT_EXTEND,
    SCRIPT_REFRESH,
    SCRIPT_RELEASE,
    SCRIPT_LOOK,
    SCRIPT_ADOPT,
    SCRIPT_PROBE, /* from here on: rare, and sent as a whole each time */
    SCRIPT_BLESS,
    SCRIPT_AMEND,
    SCRIPT_FORGET,
    SCRIPT_RIGHTS,
    SCRIPTS_COUNT,
    SCRIPTS_LOADED = SCRIPT_PROBE,
};

struct redis_script_source {
    const char *name; /* "acquire" */
    const char *text;
    size_t length;
    const char *hash; /* as SCRIPT LOAD answers it */
};

/* The embedded agent/scripts/NAME.lua, indexed by enum redis_script (made by the build). */
extern const struct redis_script_source redis_scripts[SCRIPTS_COUNT];

enum redis_state {
    REDIS_CONNECTING, /* no connection: resolving, connecting, or waiting for the next try; see the reason */
    REDIS_PROBING,    /* connected: AUTH, SELECT, INFO, SCRIPT LOAD under way */
    REDIS_UNFIT,      /* connected, but what INFO says keeps it from voting; asked again every second */
    REDIS_READY,
};

enum {
    LOOK_EARLY_MS = 1500, /* what is due so soon goes along with a look */
};

/* A node's TIME in microseconds as a script answers it, until the year 2112, so that sums fit: a clock
 * beyond is one that was set. Negative when it is none. */
static inline int64_t redis_time_us(const redisReply *reply) {
    const int64_t most_us = (INT64_C(1) << 52) - 1;

    if (reply->type != REDIS_REPLY_INTEGER)
        return -1;
    return reply->integer < 0 ? 0 : reply->integer > most_us ? most_us : (int64_t) reply->integer;
}

/* The node's epoch key, see io/node/epoch.h. Not a name that can be leased. */
#define REDIS_EPOCH_KEY "redlockd:epoch"

/* By lock's key: the largest fencing token that the node has accepted for it. What the first table has not,
 * the former one may have, see acquire.lua. */
#define REDIS_FENCES_KEY "redlockd:fences"
#define REDIS_FORMER_FENCES_KEY "redlockd:fences:old"

/* Then the lock's key: the channel on which a release tells that the key is gone. */
#define REDIS_FREE_CHANNEL "redlockd:free:"

/* What the server lets its user do beyond what a vote needs. Servers before 7.0 can't be asked. */
struct redis_rights {
    bool listen;       /* publish, subscribe and unsubscribe on our channels */
    bool keyspace;     /* subscribe to keyspace notifications */
    bool config;       /* read the configuration */
    char missing[120]; /* without `listen`: what is missing */
};

/* A fencing token in an answer; 0 when it is none. */
static inline int64_t redis_token(const redisReply *reply) {
    return reply->integer > 0 && reply->integer < INT64_C(1) << 53 ? (int64_t) reply->integer : 0;
}

/* EVALSHA for several nodes: written once, but for what each node is told of its own, which goes between. */
struct redis_call {
    const char *bytes;
    size_t length, split; /* the node's own bytes go behind the first `split` ones */
};

struct redis;
struct multi_write;
struct inquiry;
struct blessing;
struct amendment;
struct fleet;
struct probe;

struct redis_callbacks {
    /* The answer to redis_probe(), redis_bless() or redis_amend(); none comes when the connection breaks. */
    void (*on_probe)(void *userdata, struct redis *redis, const struct probe *probe);
    /* The state changed. `reason` is for people, "" when ready; it stands until the call returns. */
    void (*on_state)(void *userdata, struct redis *redis, enum redis_state state, const char *reason);
    /* The answer to one redis_send(). `reply` is NULL when the connection broke before the answer: the
     * command may or may not have been executed. NOSCRIPT never shows: the script was loaded again and the
     * call repeated. */
    void (*on_reply)(void *userdata, struct redis *redis, void *tag, redisReply *reply);
    /* INFO was read of a server that is ready: redis_facts() are new. */
    void (*on_facts)(void *userdata, struct redis *redis);
    /* The server is being looked at again: the others could go along, and what else is to be asked soon. */
    void (*on_look)(void *userdata, struct redis *redis);
};

/* Makes a connection object and starts to connect. `node` and `poller`, which watches the socket, must
 * outlive it. `index` is the caller's number for the node. Returns 0 or a negative errno (memory, event
 * loop); a node that can't be reached is a state, not an error. `fleet`, which must outlive it too, is what
 * it is to be a node of. */
int redis_new(sd_event *event, struct poller *poller, const struct config_node *node, unsigned index,
              const struct fleet *fleet, const struct redis_callbacks *callbacks, void *userdata,
              struct redis **ret);

/* Closes at once; outstanding commands are dropped without on_reply. NULL is fine. Returns NULL. */
struct redis *redis_free(struct redis *redis);

unsigned redis_index(const struct redis *redis);
enum redis_state redis_state(const struct redis *redis);

/* Queues the call, with the `n_own` keys or arguments in `own` at its split. These are copied; the call's
 * bytes must stand until on_reply, or redis_free(). `tag` comes back in on_reply. Returns 0, or -ENOTCONN
 * when not ready (then there is no on_reply). Never calls back. */
int redis_send(struct redis *redis, const struct redis_call *call, const struct evalsha_item *own,
               size_t n_own, void *tag);

/* Run the scripts `probe`, `bless` and `amend` (see shard_sink). `nonce` is the caller's own; marks
 * stand for `mark_ms`. Never call back; on_probe has the answer, and redis_epoch() the epoch. Without
 * a connection nothing happens. */
void redis_probe(struct redis *redis, const char *nonce, int64_t mark_ms, const struct inquiry *inquiry);
void redis_bless(struct redis *redis, const char *nonce, const struct blessing *blessing,
                 int64_t fence_skew_us);

void redis_amend(struct redis *redis, const struct amendment *amendment);

/* The epoch as the last probe found it, and its floor; "" when the node is not blessed. */
const char *redis_epoch(const struct redis *redis);
const char *redis_floor(const struct redis *redis);

/* How another agent of the fleet is configured differently, as far as the node knows; "": it is not. */
const char *redis_difference(const struct redis *redis);

/* Sends what is queued on these by one system call, as far as that goes; redis_flush() does the rest. Never
 * calls back. */
void redis_burst(const struct multi_write *burst, struct redis *const redises[], size_t n);

/* Sends what is queued, in one write as far as the socket takes it. Call at the end of each loop turn. May
 * call back. */
void redis_flush(struct redis *redis);

/* Looks at the server together with `first`, if that is due soon. True: there is something to flush. */
bool redis_look_along(struct redis *redis, const struct redis *first);

/* Gives the connection up and connects anew, for a node that has stopped answering. Calls on_reply(NULL) for
 * what was under way. */
void redis_cut(struct redis *redis, const char *reason);

/* As of the last INFO. Stands as long as the object. */
const struct server_info *redis_facts(const struct redis *redis);

/* As of the last greeting. */
const struct redis_rights *redis_rights(const struct redis *redis);

/* The numeric address of the server behind the connection; false without one. A name may stand for several
 * servers. */
bool redis_peer(const struct redis *redis, char *address, size_t size);

/* Smoothed round trip in microseconds (EWMA, 1/8), 0 before the first. */
uint32_t redis_rtt_us(const struct redis *redis);

/* Of the commands of the last minutes, at most this in `permille` of a thousand cases; 0 without any. */
uint32_t redis_rtt_percentile_us(struct redis *redis, unsigned permille);
