/* A connection to a node from the inside: for redis.c and its children redis-*.c, which do not know each
 * other. */
#pragma once

#include <hiredis/async.h>

#include "base/histogram.h"
#include "base/latency.h"
#include "base/list.h"
#include "base/random.h"
#include "core/event.h"
#include "io/node/pipeline.h"
#include "io/node/probe-reply.h"
#include "io/node/redis.h"

enum { REDIS_REASON_BYTES = 160 };

struct redis {
    struct pipeline pipeline;
    sd_event *event;
    const struct config_node *node;
    unsigned index;
    const struct fleet *fleet;
    struct redis_callbacks callbacks;
    void *userdata;

    redisAsyncContext *context; /* NULL while there is none */
    sd_event_source *timer;     /* the end of connecting, probing or backing off, the next INFO or its end */
    struct resolve *resolve;
    uint8_t place;   /* among the addresses of the host name: the next one after each without an answer */
    struct tls *tls; /* NULL without TLS, and while its files have never been loaded */
    bool answered;   /* the server has, on this connection */
    bool closing;    /* no more callbacks */
    bool starved;    /* no memory for a command: redis_flush() ends the connection */
    enum redis_state state;
    char reason[REDIS_REASON_BYTES];
    char failure[REDIS_REASON_BYTES]; /* why the connection is being closed; "" while it is not */
    unsigned steps_left;              /* answers to await before the node is ready */
    unsigned failures;                /* in a row, to connect or to stay ready */
    instant_ns ready_ns;
    struct random random;

    /* redis-call.c */
    struct reload_queue reloads;
    unsigned loads_left;
    struct list free_calls;
    struct user_rights rights;
    char taken_rights[160]; /* redis_taken_rights() */
    uint32_t rtt_us;
    struct histogram rtts;
    struct latency latency;

    /* redis-inspect.c */
    struct server_info info;
    bool inspecting;            /* INFO is under way */
    instant_ns inspect_ns;      /* when the next inspection is due, if the node is ready */
    int64_t inspect_ms;         /* until the one after that; the same for all that go together */
    bool appends, fsync_always; /* according to CONFIG; asked of durable nodes before each INFO */
    bool warned_volatile;       /* logged that the node is not as durable as configured */
    const char *lost;           /* how this process lost keys while its epoch key may survive; or NULL */
    char former[48];            /* run_id of the durable process before, whose data must be here; "": none */

    /* redis-probe.c */
    struct probe_reply_notes notes; /* of the answer to the last probe, blessing or amendment */
    instant_ns probe_sent_ns;       /* when that was sent; the next is sent after its answer */
    char epoch[EPOCH_BYTES_MAX];    /* redis_epoch(): a copy, since the shard judges new notes only later */
    char floor[24];                 /* redis_floor() */
};

/* --- redis.c --- */

/* Ends the connection for this reason; the disconnect callback continues. */
void redis_give_up(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Gives up after a negative `r`, without memory for a command. */
void redis_require(struct redis *redis, int r);

/* One of the answers before the node is ready has come. */
void redis_step_done(struct redis *redis);

/* INFO was read: judges the server. */
void redis_judge(struct redis *redis);

/* Whether there is a ready connection. */
bool redis_can_send(const struct redis *redis);

/* --- redis-call.c --- */

/* Asks for the user's rights, and loads the scripts. 0 or -ENOMEM. */
int redis_call_load(struct redis *redis);

/* Asks for the rights of a user that is connected, for redis_taken_rights(). 0 or -ENOMEM. */
int redis_call_check_rights(struct redis *redis);

/* The connection has ended: answers every call that was held back as cut off. */
void redis_call_drop_held(struct redis *redis);

/* --- redis-inspect.c --- */

/* Sends INFO, and before it CONFIG GET where that matters, and the question for the rights of a user that is
 * connected. 0 or -ENOMEM. */
int redis_inspect(struct redis *redis);

/* Deletes the epoch key, which would vouch for lost keys: then all agents quarantine the node as if it were
 * flushed. */
void redis_inspect_forget(struct redis *redis);
