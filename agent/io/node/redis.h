/* A keeper's connection to a node: connects, authenticates, loads the scripts, sends calls, matches replies
 * and reconnects. Every ten seconds it inspects whether the server may still vote.
 *
 * Uses hiredis' asynchronous connections (0.14 and 1.x) with a queue of its own (io/node/pipeline.h), and
 * sd-event with deadlines of its own. Belongs to the thread whose loop it is given. Nothing here blocks.
 *
 * Writing is deferred: redis_send() queues, and redis_flush() at the end of a loop turn sends everything in
 * one write (of at most 32 calls). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <systemd/sd-event.h>

#include "base/histogram.h"
#include "config/config.h"
#include "io/loop/poller.h"
#include "io/node/evalsha.h"
#include "io/node/server-info.h"
#include "io/node/user-rights.h"

/* The reason to close a connection on which an answer has a type that its request can't have: from then on
 * it is unknown to which request each answer belongs. */
#define REDIS_MISFIT "sent an answer of a wrong type"

enum redis_state {
    REDIS_CONNECTING, /* no connection: resolving, connecting, or backing off; see the reason */
    REDIS_PROBING,    /* connected: AUTH, SELECT, INFO and SCRIPT LOAD are under way */
    REDIS_UNFIT,      /* connected, but INFO forbids to vote; inspected again every second */
    REDIS_READY,
};

enum { INSPECT_EARLY_MS = 1500 }; /* inspections due so soon go together */

/* EVALSHA for several nodes: written once, except for the items of each node, which go in between. */
struct redis_call {
    const char *bytes;
    size_t length, split; /* the node's own bytes follow the first `split` ones */
};

struct redis;
struct multi_write;
struct inquiry;
struct blessing;
struct amendment;
struct fleet;
struct probe;
struct tls;

struct redis_callbacks {
    /* The answer to redis_probe(), redis_bless() or redis_amend(); none after the connection broke. */
    void (*on_probe)(void *userdata, struct redis *redis, const struct probe *probe);
    /* The state changed. `reason` is for people, "" when ready; valid during the call. */
    void (*on_state)(void *userdata, struct redis *redis, enum redis_state state, const char *reason);
    /* The answer to one redis_send(). `reply` is NULL when the connection broke before the answer: the call
     * may or may not have been executed. After NOSCRIPT the call is repeated once, and NOSCRIPT shows only
     * if that meets it again. `reply` is also NULL when a later call was executed before the repetition. */
    void (*on_reply)(void *userdata, struct redis *redis, void *tag, redisReply *reply);
    /* redis_server_info() of a ready server is new. */
    void (*on_server_info)(void *userdata, struct redis *redis);
    /* redis_rights() of a ready server have changed. */
    void (*on_rights)(void *userdata, struct redis *redis);
    /* An inspection begins: others, and probes due soon, can go along in the same turn. */
    void (*on_inspect)(void *userdata, struct redis *redis);
};

/* Creates a connection and starts to connect. `node`, `poller` and `fleet` (the fleet that the node should
 * belong to) must outlive it. `index` is the caller's number for the node. 0 or a negative errno (memory,
 * event loop); an unreachable node is a state, not an error. */
int redis_new(sd_event *event, struct poller *poller, const struct config_node *node, unsigned index,
              const struct fleet *fleet, const struct redis_callbacks *callbacks, void *userdata,
              struct redis **ret);

/* Closes at once; calls under way are dropped without on_reply. NULL is fine. Returns NULL. */
struct redis *redis_free(struct redis *redis);

unsigned redis_index(const struct redis *redis);
enum redis_state redis_state(const struct redis *redis);

/* Queues the call, with the `n_own` keys or arguments in `own` at its split. These are copied; the call's
 * bytes must stay until on_reply, or redis_free(). `tag` comes back in on_reply. Returns 0; or -ENOTCONN
 * when not ready, or -ENOMEM, when redis_flush() ends the connection (then there is no on_reply). Never
 * calls back. */
int redis_send(struct redis *redis, const struct redis_call *call, const struct evalsha_item *own,
               size_t n_own, void *tag);

/* Run the scripts `probe`, `bless` and `amend` (see shard_sink). `nonce` is the keeper's own; marks last
 * `mark_ms`. on_probe has the answer. Nothing happens without a connection.
 * Never call back. */
void redis_probe(struct redis *redis, const char *nonce, int64_t mark_ms, const struct inquiry *inquiry);
void redis_bless(struct redis *redis, const char *nonce, const struct blessing *blessing,
                 int64_t fence_skew_us);
void redis_amend(struct redis *redis, const struct amendment *amendment);

/* Whether requests may carry the epoch of the last answer, until the next answer. */
void redis_trust_epoch(struct redis *redis, bool trusted);

/* The epoch that requests carry, and its floor; a text that no node has, and "", while none is trusted. */
const char *redis_epoch(const struct redis *redis);
const char *redis_floor(const struct redis *redis);

/* The differences of another agent's configuration, according to the node; "": none. */
const char *redis_difference(const struct redis *redis);

/* Sends the queued calls of several connections by one system call, as far as possible; redis_flush() does
 * the rest. Never calls back. */
void redis_burst(const struct multi_write *burst, struct redis *const redises[], size_t n);

/* Sends the queued calls, in one write as far as the socket takes them. Call at the end of each loop turn.
 * May call back. */
void redis_flush(struct redis *redis);

/* Inspects the server together with `first`, if that is due soon. True: there is something to flush. */
bool redis_inspect_along(struct redis *redis, const struct redis *first);

/* Closes the connection to a node that stopped answering, and reconnects. Calls on_reply(NULL) for the calls
 * under way. */
void redis_cut(struct redis *redis, const char *reason);

/* As of the last INFO. Valid as long as the object. */
const struct server_info *redis_server_info(const struct redis *redis);

/* As of the last inspection in which the user had all the rights that a vote needs. */
const struct user_rights *redis_rights(const struct redis *redis);

/* The user's rights that were taken since the connection, as the server's error; "": none. As of the last
 * INFO. */
const char *redis_taken_rights(const struct redis *redis);

/* TLS of the connections; NULL: none yet. */
const struct tls *redis_tls(const struct redis *redis);

/* The numeric address of the server behind the connection; false without a connection. A host name may
 * resolve to several servers. */
bool redis_peer(const struct redis *redis, char *address, size_t size);

/* Smoothed round trip in microseconds (EWMA, 1/8); 0 before the first. */
uint32_t redis_rtt_us(const struct redis *redis);

/* The round trip that `permille` of the calls of the last minutes did not exceed; 0 without any. */
uint32_t redis_rtt_percentile_us(struct redis *redis, unsigned permille);

/* All round trips since the start. */
const struct histogram *redis_rtts(const struct redis *redis);
