/* Questions about trust: the scripts `probe`, `bless` and `amend`. */
#include <stdio.h>

#include "io/loop/clock.h"
#include "io/node/key-names.h"
#include "io/node/redis-internal.h"
#include "io/node/script.h"

/* The former process whose blessing this one inherits; "" if this one is not durable itself. */
static const char *former(const struct redis *redis) {
    return server_info_durable(&redis->info) ? redis->former : "";
}

static void on_probe_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;

    if (!reply || redis->closing)
        return;
    if (!probe_reply_fits(reply, redis->fleet->config->n_nodes)) {
        redis_give_up(redis, REDIS_MISFIT);
        return;
    }
    const struct probe probe = probe_reply_read(reply, redis->probe_sent_ns, redis->fleet, &redis->notes);
    redis->callbacks.on_probe(redis->userdata, redis, &probe);
}

enum { PROBE_ARGUMENTS = 18, NUMBER_BYTES = 24 };

static void eval(struct redis *redis, int argc, const char *argv[]) {
    char *bytes;
    int length = (int) redisFormatCommandArgv(&bytes, argc, argv, NULL);

    redis->probe_sent_ns = clock_now_ns();
    if (length < 0) {
        redis->starved = true;
        return;
    }
    redis->starved |=
        pipeline_ask_bytes(&redis->pipeline, on_probe_reply, redis, bytes, (size_t) length) < 0;
    redisFreeCommand(bytes);
}

/* Sends the text of the script each time: it is rare, so it need not be loaded. */
void redis_probe(struct redis *redis, const char *nonce, int64_t mark_ms, const struct inquiry *inquiry) {
    const struct config *config = redis->fleet->config;
    char mark[NUMBER_BYTES], lasts[NUMBER_BYTES], withdraw[NUMBER_BYTES], max_ttl[NUMBER_BYTES];
    char addresses[NODES_MAX][NODE_ADDRESS_BYTES];

    if (inquiry->disown)
        redis->former[0] = '\0';
    if (!redis_can_send(redis))
        return;
    (void) snprintf(mark, sizeof(mark), "%u", (unsigned) inquiry->mark);
    (void) snprintf(lasts, sizeof(lasts), "%lld", (long long) mark_ms);
    (void) snprintf(withdraw, sizeof(withdraw), "%lld", (long long) inquiry->withdraw_us);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", (unsigned) inquiry->max_ttl_ms);
    const char *argv[PROBE_ARGUMENTS + 3 * NODES_MAX] = {"EVAL",
                                                         script_sources[SCRIPT_PROBE].text,
                                                         "3",
                                                         EPOCH_KEY,
                                                         MARKS_KEY,
                                                         NODES_KEY,
                                                         nonce,
                                                         mark,
                                                         lasts,
                                                         inquiry->leave ? "1" : "0",
                                                         withdraw,
                                                         former(redis),
                                                         inquiry->disown ? "1" : "0",
                                                         redis->fleet->id,
                                                         redis->fleet->text,
                                                         max_ttl,
                                                         config->quarantine ? "1" : "0",
                                                         redis->fleet->settings};
    for (unsigned i = 0; i < config->n_nodes; i++) {
        const char **own = argv + PROBE_ARGUMENTS + (size_t) 3 * i;
        fleet_address(&config->nodes[i], addresses[i]);
        own[0] = config->nodes[i].name;
        own[1] = addresses[i];
        own[2] = inquiry->known & (1u << i) ? "1" : "0";
    }
    eval(redis, (int) (PROBE_ARGUMENTS + 3 * config->n_nodes), argv);
}

void redis_bless(struct redis *redis, const char *nonce, const struct blessing *blessing,
                 int64_t fence_skew_us) {
    char mark[NUMBER_BYTES], max_ttl[NUMBER_BYTES], skew[NUMBER_BYTES], covered[NUMBER_BYTES];

    if (!redis_can_send(redis))
        return;
    (void) snprintf(mark, sizeof(mark), "%u", (unsigned) blessing->mark);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", (unsigned) blessing->max_ttl_ms);
    (void) snprintf(skew, sizeof(skew), "%lld", (long long) fence_skew_us);
    (void) snprintf(covered, sizeof(covered), "%u", (unsigned) blessing->covered_ms);
    const char *argv[] = {"EVAL",
                          script_sources[SCRIPT_BLESS].text,
                          "3",
                          EPOCH_KEY,
                          MARKS_KEY,
                          OLDER_MARKS_KEY,
                          nonce,
                          mark,
                          max_ttl,
                          skew,
                          former(redis),
                          covered,
                          redis->fleet->id,
                          blessing->rested ? "rested" : "unrested"};
    eval(redis, (int) (sizeof(argv) / sizeof(argv[0])), argv);
}

void redis_amend(struct redis *redis, const struct amendment *amendment) {
    char epoch[EPOCH_BYTES_MAX];

    if (!redis_can_send(redis))
        return;
    epoch_amend(&redis->notes.fields, amendment, redis->fleet->id, epoch);
    const char *argv[] = {"EVAL", script_sources[SCRIPT_AMEND].text, "1", EPOCH_KEY, redis->notes.epoch,
                          epoch};
    eval(redis, (int) (sizeof(argv) / sizeof(argv[0])), argv);
}

void redis_trust_epoch(struct redis *redis, bool trusted) {
    (void) snprintf(redis->epoch, sizeof(redis->epoch), "%s", trusted ? redis->notes.epoch : "untrusted");
    redis->floor[0] = '\0';
    if (trusted)
        (void) snprintf(redis->floor, sizeof(redis->floor), "%lld",
                        (long long) redis->notes.fields.floor_us);
}

const char *redis_epoch(const struct redis *redis) {
    return redis->epoch;
}

const char *redis_floor(const struct redis *redis) {
    return redis->floor;
}

const char *redis_difference(const struct redis *redis) {
    return redis->notes.difference;
}
