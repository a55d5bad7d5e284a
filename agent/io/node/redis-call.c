/* Calls of the loaded scripts: loading, sending, repeating after NOSCRIPT, and the time that they take. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/loop/clock.h"
#include "io/node/key-names.h"
#include "io/node/pending-call.h"
#include "io/node/redis-internal.h"
#include "io/node/script.h"

static void on_call_reply(redisReply *reply, void *userdata);
static void answer(struct redis *redis, struct pending_call *call, redisReply *reply);

static int transmit(struct redis *redis, struct pending_call *call) {
    call->sent_ns = clock_now_ns();
    call->on_reply = on_call_reply;
    return pipeline_send(&redis->pipeline, call);
}

/* --- loading --- */

static void on_load_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;
    struct reload_queue_entry *first;

    if (!reply || redis->closing || redis->state == REDIS_UNFIT)
        return;
    /* The replies come in the order of the scripts. */
    if (reply->type != REDIS_REPLY_STRING ||
        strcmp(reply->str, script_sources[SCRIPTS_LOADED - redis->loads_left].hash) != 0) {
        redis_give_up(redis, "did not load our scripts: %s",
                      reply->type == REDIS_REPLY_ERROR ? reply->str : "their hash did not come back");
        return;
    }
    if (--redis->loads_left > 0)
        return;
    if (redis->state != REDIS_READY) {
        redis_step_done(redis);
        return;
    }
    reload_queue_end(&redis->reloads);
    while ((first = reload_queue_next(&redis->reloads))) {
        struct pending_call *call = pending_call_of(&first->link);
        int r = transmit(redis, call);
        if (r < 0)
            answer(redis, call, NULL);
        redis_require(redis, r);
    }
}

static void read_rights(struct redis *redis, const char *answer) {
    const struct user_rights before = redis->rights;

    user_rights_read(&redis->rights, answer);
    if (redis->state == REDIS_READY && !user_rights_equal(&before, &redis->rights))
        redis->callbacks.on_rights(redis->userdata, redis);
}

/* Other errors than NOPERM are usually met, and reported, by the commands that follow. If the node gets
 * ready all the same, the log has the error. */
static void on_rights_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;

    if (!reply || redis->closing || redis->failure[0] != '\0')
        return;
    if (reply->type == REDIS_REPLY_STATUS)
        read_rights(redis, reply->str);
    else if (reply->type != REDIS_REPLY_ERROR)
        redis_give_up(redis, REDIS_MISFIT);
    else if (redis->state != REDIS_UNFIT && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0)
        redis_give_up(redis, "%s", reply->str);
    else if (redis->state != REDIS_READY)
        user_rights_unknown(&redis->rights, reply->str);
}

/* An operator may change the rights of a user that is connected. The connection stays: without a right that
 * a vote needs the node is shown as failed, and the others may be enough to extend leases. */
static void on_rights_again(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;

    if (!reply || redis->closing || redis->failure[0] != '\0')
        return;
    bool lacks = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0;
    (void) snprintf(redis->taken_rights, sizeof(redis->taken_rights), "%s", lacks ? reply->str : "");
    if (reply->type == REDIS_REPLY_STATUS)
        read_rights(redis, reply->str);
}

static int ask_rights(struct redis *redis, pending_call_reply *on_reply) {
    const struct script_source *rights = &script_sources[SCRIPT_RIGHTS];

    return pipeline_ask(&redis->pipeline, on_reply, redis, "EVAL %b 1 %s %s __keyspace@%d__:", rights->text,
                        rights->length, RIGHTS_KEY, RELEASE_CHANNEL, redis->node->database);
}

int redis_call_check_rights(struct redis *redis) {
    return ask_rights(redis, on_rights_again);
}

/* The rights come first: otherwise a missing right, such as that to delete, would show late or never. */
int redis_call_load(struct redis *redis) {
    redis->loads_left = SCRIPTS_LOADED;
    int r = ask_rights(redis, on_rights_reply);
    for (unsigned i = 0; i < SCRIPTS_LOADED && r >= 0; i++)
        r = pipeline_ask(&redis->pipeline, on_load_reply, redis, "SCRIPT LOAD %b", script_sources[i].text,
                         script_sources[i].length);
    return r;
}

/* --- calls --- */

static void answer(struct redis *redis, struct pending_call *call, redisReply *reply) {
    void *tag = call->tag;

    pending_call_give(&redis->free_calls, call);
    if (!redis->closing)
        redis->callbacks.on_reply(redis->userdata, redis, tag, reply);
}

static bool is_noscript(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "NOSCRIPT", strlen("NOSCRIPT")) == 0;
}

static void note_round_trip(struct redis *redis, const struct pending_call *call) {
    instant_ns now_ns = clock_now_ns();
    int64_t us = (now_ns - call->sent_ns) / NS_PER_US;
    int64_t smoothed = redis->rtt_us == 0 ? us : ((int64_t) redis->rtt_us * 7 + us) / 8;

    redis->rtt_us = (uint32_t) (smoothed < 1 ? 1 : smoothed > UINT32_MAX ? UINT32_MAX : smoothed);
    histogram_note(&redis->rtts, now_ns - call->sent_ns);
    latency_note(&redis->latency, (uint32_t) (us < UINT32_MAX ? us : UINT32_MAX), now_ns);
}

/* The node lacks the scripts: loads them. True: the call is held back, and sent once more then. */
static bool hold_back(struct redis *redis, struct pending_call *call) {
    enum reload_queue_verdict verdict = reload_queue_refused(&redis->reloads, &call->entry);

    if (verdict == RELOAD_BEGIN)
        redis_require(redis, redis_call_load(redis));
    return verdict != RELOAD_ANSWER;
}

static void drop_overtaken(struct redis *redis) {
    struct reload_queue_entry *first;

    while ((first = reload_queue_overtaken(&redis->reloads)))
        answer(redis, pending_call_of(&first->link), NULL);
}

static void on_call_reply(redisReply *reply, void *userdata) {
    struct pending_call *call = userdata;
    struct redis *redis = call->redis;

    if (is_noscript(reply) && !redis->closing && hold_back(redis, call))
        return;
    if (reply) {
        drop_overtaken(redis);
        note_round_trip(redis, call);
    }
    answer(redis, call, reply);
}

void redis_call_drop_held(struct redis *redis) {
    struct reload_queue_entry *first;

    reload_queue_end(&redis->reloads);
    while ((first = reload_queue_next(&redis->reloads)))
        answer(redis, pending_call_of(&first->link), NULL);
}

int redis_send(struct redis *redis, const struct redis_call *shared, const struct evalsha_item *own,
               size_t n_own, void *tag) {
    assert(shared->split <= shared->length);

    if (!redis_can_send(redis))
        return -ENOTCONN;
    struct pending_call *call = pending_call_new(&redis->free_calls, evalsha_room(own, n_own));
    if (!call) {
        redis->starved = true;
        return -ENOMEM;
    }
    call->redis = redis;
    call->length = evalsha_put(call->bytes, own, n_own);
    assert(call->length <= call->room);
    call->head = (struct pending_call_piece){shared->bytes, shared->split};
    call->tail = (struct pending_call_piece){shared->bytes + shared->split, shared->length - shared->split};
    call->tag = tag;
    if (reload_queue_holds(&redis->reloads, &call->entry))
        return 0;
    int r = transmit(redis, call);
    if (r < 0) {
        pending_call_give(&redis->free_calls, call);
        redis->starved = true;
    }
    return r;
}
