/* The inspection of the server behind a connection: INFO and CONFIG, and the loss of keys that they show. */
#include <string.h>

#include "io/loop/log.h"
#include "io/node/key-names.h"
#include "io/node/redis-internal.h"
#include "io/node/script.h"

static void on_forget_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;

    if (!reply || redis->closing)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_give_up(redis, "%s; its epoch can't be deleted: %s", redis->lost, reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_INTEGER) {
        redis_give_up(redis, REDIS_MISFIT);
        return;
    }
    if (reply->integer == 1)
        log_warning("node %s: %s: it is no longer trusted", redis->node->name, redis->lost);
    redis->lost = NULL;
    redis_step_done(redis);
}

void redis_inspect_forget(struct redis *redis) {
    const struct script_source *script = &script_sources[SCRIPT_FORGET];

    redis->steps_left++;
    redis_require(redis,
                  pipeline_ask(&redis->pipeline, on_forget_reply, redis, "EVAL %b 2 %s %s %s", script->text,
                               script->length, EPOCH_KEY, MARKS_KEY, redis->notes.epoch));
}

/* The successor of a trusted durable process must have all of its data, if it has the epoch key. While the
 * successor loads them, it may be inspected more than once. */
static void note_former(struct redis *redis, const struct server_info *before) {
    size_t length = strlen(before->run_id);

    redis->former[0] = '\0';
    if (server_info_durable(before) && strncmp(redis->notes.epoch, before->run_id, length) == 0 &&
        redis->notes.epoch[length] == ' ')
        memcpy(redis->former, before->run_id, sizeof(redis->former));
}

static void note_loss(struct redis *redis, const struct server_info *before) {
    const char *loss = server_info_loss(before, &redis->info);

    if (loss) {
        redis->lost = loss;
    } else if (strcmp(before->run_id, redis->info.run_id) != 0) {
        redis->lost = NULL; /* another process, which the epoch key does not name */
        note_former(redis, before);
    }
    if (!server_info_of_file(&redis->info))
        redis->former[0] = '\0'; /* it may have begun with older data than its append-only file has */
}

static void on_info_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;
    const struct server_info before = redis->info;

    redis->inspecting = false;
    if (!reply || redis->closing || redis->failure[0] != '\0')
        return;
    redis->answered = true;
    if (reply->type == REDIS_REPLY_ERROR) {
        redis_give_up(redis, "refused INFO: %s", reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_STRING) {
        redis_give_up(redis, "is no Redis server: it answered INFO with something else");
        return;
    }
    server_info_read(&redis->info, reply->str);
    redis->info.appends = redis->appends;
    redis->info.fsync_always = redis->fsync_always;
    note_loss(redis, &before);
    redis_judge(redis);
}

static void on_config_reply(redisReply *reply, void *userdata) {
    const char *texts[16];
    struct redis *redis = userdata;
    size_t n = 0;

    if (!reply || redis->closing)
        return;
    if (reply->type != REDIS_REPLY_ARRAY && reply->type != REDIS_REPLY_ERROR) {
        redis_give_up(redis, REDIS_MISFIT);
        return;
    }
    for (; reply->type == REDIS_REPLY_ARRAY && n < reply->elements && n < sizeof(texts) / sizeof(texts[0]);
         n++) {
        if (reply->element[n]->type != REDIS_REPLY_STRING) {
            redis_give_up(redis, REDIS_MISFIT);
            return;
        }
        texts[n] = reply->element[n]->str;
    }
    redis->appends = server_info_appends(texts, n);
    redis->fsync_always = server_info_fsync_always(texts, n);
    bool durable = redis->appends && redis->fsync_always;
    if (!durable && !redis->warned_volatile)
        log_warning("node %s: configured as durable, but %s: after a restart it is quarantined like others",
                    redis->node->name,
                    reply->type == REDIS_REPLY_ERROR
                        ? reply->str
                        : "its appendonly is not yes, its appendfsync not always, or its "
                          "no-appendfsync-on-rewrite not no");
    redis->warned_volatile = !durable;
}

int redis_inspect(struct redis *redis) {
    int r = 0;

    redis->inspecting = true;
    redis->appends = redis->fsync_always = false;
    if (redis->state == REDIS_READY)
        r = redis_call_check_rights(redis);
    if (r >= 0 && redis->node->durable)
        r = pipeline_ask(&redis->pipeline, on_config_reply, redis, "CONFIG GET *append*");
    return r < 0 ? r : pipeline_ask(&redis->pipeline, on_info_reply, redis, "INFO");
}
