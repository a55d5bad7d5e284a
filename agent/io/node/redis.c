#include "io/node/redis.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/async.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/latency.h"
#include "base/list.h"
#include "base/random.h"
#include "core/event.h"
#include "io/loop/clock.h"
#include "io/node/evalsha.h"
#include "io/loop/log.h"
#include "io/node/handshake.h"
#include "io/loop/loop.h"
#include "io/node/pipeline.h"
#include "io/node/probe-reply.h"
#include "io/node/pending-call.h"
#include "io/node/resolve.h"
#include "io/node/tls.h"

enum {
    CONNECT_TIMEOUT_MS = 1000,
    PROBE_TIMEOUT_MS = 2000,
    INFO_MS_MIN = 9000, /* between two looks, at random: keepers and agents don't look all at once */
    INFO_MS_MAX = 10000,
    INFO_UNFIT_MS = 1000,
    INFO_TIMEOUT_MS = 10000, /* silence of a node that nothing else was asked of */
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 1000,
    STABLE_MS = 5000, /* ready for that long: the back-off starts anew */
    REASON_BYTES = 160,
};

struct redis {
    struct pipeline pipeline;
    sd_event *event;
    const struct config_node *node;
    unsigned index;
    struct redis_callbacks callbacks;
    void *userdata;

    redisAsyncContext *context; /* NULL while there is none */
    sd_event_source *timer;     /* the end of connecting, probing or backing off, the next INFO or its end */
    struct resolve *resolve;
    struct tls *tls; /* NULL until the first connection that wants it */
    bool answered;   /* it has, to anything that we said on this connection */
    bool closing;    /* no more callbacks */
    enum redis_state state;
    char reason[REASON_BYTES];
    char failure[REASON_BYTES]; /* why the connection is being given up */
    unsigned probes_left;
    bool reloading; /* the scripts are being loaded again: commands are held back */
    unsigned loads_left;
    struct list free_records, held;
    int64_t backoff_ms;
    instant_ns ready_ns;
    uint32_t rtt_us;
    struct latency latency;
    struct random random;
    struct server_info facts;
    bool looking;               /* INFO is under way */
    instant_ns look_ns;         /* when the next one is due, if the node is ready */
    int64_t look_ms;            /* until the one after that; the same for all that look together */
    bool appends, fsync_always; /* CONFIG says so; asked of durable nodes before each INFO */
    bool told_volatile;         /* that it is not what the configuration says */
    struct redis_rights rights;
    const char *forgot; /* how this process has lost keys while its epoch key may stand; NULL: it has not */
    char
        former[48]; /* the durable process before this one, whose data must be here; "" when there is none */
    const struct fleet *fleet;
    struct probe_reply_notes notes; /* of the last probe, blessing or amendment */
    char floor[24];
    instant_ns probe_sent_ns; /* of the last probe or blessing; one is under way at a time */
};

/* A field for each keeper, by its nonce. */
#define MARKS_KEY "redlockd:quarantine"

/* Where agents built before December 2026 had them: in other words, and they would write over our epochs. */
#define OLDER_MARKS_KEY "redlockd:marks"

/* What agents tell each other: addresses of the nodes, settings, the fleet's name for people. */
#define NODES_KEY "redlockd:nodes"

/* A name for the question; nothing stands there. */
#define RIGHTS_KEY "redlockd:rights"

static void connect_now(struct redis *redis);

/* --- state --- */

static void set_state(struct redis *redis, enum redis_state state, const char *reason) {
    if (redis->state == state && strcmp(redis->reason, reason) == 0)
        return;
    redis->state = state;
    if (reason != redis->reason)
        (void) snprintf(redis->reason, sizeof(redis->reason), "%s", reason);
    if (!redis->closing)
        redis->callbacks.on_state(redis->userdata, redis, state, redis->reason);
}

static void set_timer_ms(struct redis *redis, int64_t ms) {
    /* Can only fail for want of memory; then nothing would ever time out again. */
    if (loop_set_timer(redis->timer, clock_now_ns() + ms * NS_PER_MS) < 0)
        abort();
}

static void set_look_timer(struct redis *redis) {
    redis->look_ns = clock_now_ns() + redis->look_ms * NS_PER_MS;
    set_timer_ms(redis, redis->look_ms);
}

/* Waits a random while, longer after each failure, and connects anew. */
static void retry_later(struct redis *redis, const char *reason) {
    if (redis->closing)
        return;
    if (redis->state == REDIS_READY && clock_now_ns() - redis->ready_ns > STABLE_MS * NS_PER_MS)
        redis->backoff_ms = BACKOFF_MS_MIN;
    set_timer_ms(redis, random_between(&redis->random, redis->backoff_ms / 2, redis->backoff_ms));
    redis->backoff_ms = redis->backoff_ms * 2 < BACKOFF_MS_MAX ? redis->backoff_ms * 2 : BACKOFF_MS_MAX;
    set_state(redis, REDIS_CONNECTING, reason);
}

/* --- commands and their records --- */

static void answer(struct redis *redis, struct pending_call *record, redisReply *reply) {
    void *tag = record->tag;

    pending_call_give(&redis->free_records, record);
    if (!redis->closing)
        redis->callbacks.on_reply(redis->userdata, redis, tag, reply);
}

static void reload_scripts(struct redis *redis);
static void on_command_reply(redisAsyncContext *context, void *reply, void *privdata);

static void transmit(struct redis *redis, struct pending_call *record) {
    record->sent_ns = clock_now_ns();
    record->on_reply = on_command_reply;
    pipeline_send(&redis->pipeline, record);
}

static bool is_noscript(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "NOSCRIPT", strlen("NOSCRIPT")) == 0;
}

static void note_round_trip(struct redis *redis, const struct pending_call *record) {
    instant_ns now_ns = clock_now_ns();
    int64_t us = (now_ns - record->sent_ns) / NS_PER_US;
    int64_t smoothed = redis->rtt_us == 0 ? us : ((int64_t) redis->rtt_us * 7 + us) / 8;
    redis->rtt_us = (uint32_t) (smoothed < 1 ? 1 : smoothed > UINT32_MAX ? UINT32_MAX : smoothed);
    latency_note(&redis->latency, (uint32_t) (us < UINT32_MAX ? us : UINT32_MAX), now_ns);
}

static void on_command_reply(redisAsyncContext *context, void *reply, void *privdata) {
    struct pending_call *record = privdata;
    struct redis *redis = record->redis;

    (void) context;
    if (is_noscript(reply) && !record->repeated && !redis->closing) {
        /* All commands behind it meet the same, until the scripts are back: they are repeated in their
         * order. */
        record->repeated = true;
        pending_call_hold(&redis->held, record);
        reload_scripts(redis);
        return;
    }
    if (reply)
        note_round_trip(redis, record);
    answer(redis, record, reply);
}

/* Every held command is answered as cut off. */
static void drop_held(struct redis *redis) {
    struct list *first;

    while ((first = list_first(&redis->held)))
        answer(redis, list_entry(first, struct pending_call, link), NULL);
}

/* --- greeting --- */

/* Ends the connection for this reason; the disconnect callback goes on from there. */
static void give_up(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void give_up(struct redis *redis, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(redis->failure, sizeof(redis->failure), format, arguments);
    va_end(arguments);
    if (redis->context)
        pipeline_close(&redis->pipeline);
}

static void become_ready(struct redis *redis) {
    redis->ready_ns = clock_now_ns();
    redis->look_ms = random_between(&redis->random, INFO_MS_MIN, INFO_MS_MAX);
    set_look_timer(redis);
    set_state(redis, REDIS_READY, "");
}

static void probe_step_done(struct redis *redis) {
    if (--redis->probes_left == 0 && redis->failure[0] == '\0')
        become_ready(redis);
}

/* A reply to AUTH or SELECT. */
static void on_greeting_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;
    const redisReply *reply = data;

    (void) context;
    if (!reply || redis->closing)
        return;
    redis->answered = true;
    if (reply->type == REDIS_REPLY_ERROR)
        give_up(redis, "refused the greeting: %s", reply->str);
    else
        probe_step_done(redis);
}

static void on_forget_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;
    const redisReply *reply = data;

    (void) context;
    if (!reply || redis->closing)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        give_up(redis, "%s; its epoch can't be deleted: %s", redis->forgot, reply->str);
        return;
    }
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
        log_warning("node %s: %s: it is no longer trusted", redis->node->name, redis->forgot);
    redis->forgot = NULL;
    probe_step_done(redis);
}

/* The epoch key, which vouches for what is lost, has to go: then all agents quarantine it as if flushed. */
static void node_lost_memory(struct redis *redis) {
    const struct redis_script_source *script = &redis_scripts[SCRIPT_FORGET];

    redis->probes_left++;
    (void) pipeline_ask(&redis->pipeline, on_forget_reply, redis, "EVAL %b 2 %s %s %s", script->text,
                        script->length, REDIS_EPOCH_KEY, MARKS_KEY, redis->notes.epoch);
}

/* Of a durable process that we knew to be trusted the next one must have all data, if its epoch key is
 * there. While that one loads them, it may be looked at more than once. */
static void note_former(struct redis *redis, const struct server_info *before) {
    size_t length = strlen(before->run_id);

    redis->former[0] = '\0';
    if (server_info_durable(before) && strncmp(redis->notes.epoch, before->run_id, length) == 0 &&
        redis->notes.epoch[length] == ' ')
        memcpy(redis->former, before->run_id, sizeof(redis->former));
}

static int load_scripts(struct redis *redis);

/* While greeting, while it is unfit, or just to look. */
static void judge_facts(struct redis *redis) {
    const char *trouble = server_info_trouble(&redis->facts);

    if (redis->state == REDIS_READY) {
        if (trouble || redis->forgot)
            give_up(redis, "%s", trouble ? trouble : redis->forgot);
        else {
            set_look_timer(redis);
            redis->callbacks.on_facts(redis->userdata, redis);
        }
        return;
    }
    if (trouble) {
        set_timer_ms(redis, INFO_UNFIT_MS);
        set_state(redis, REDIS_UNFIT, trouble);
        return;
    }
    if (redis->state == REDIS_UNFIT) {
        redis->probes_left = 2; /* this one and the scripts, which a server that loads does not take */
        set_timer_ms(redis, PROBE_TIMEOUT_MS);
        set_state(redis, REDIS_PROBING, "being examined again");
        (void) load_scripts(redis);
    }
    if (redis->forgot)
        node_lost_memory(redis);
    probe_step_done(redis);
}

static void on_info_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;
    const redisReply *reply = data;
    const struct server_info before = redis->facts;

    (void) context;
    redis->looking = false;
    if (!reply || redis->closing || redis->failure[0] != '\0')
        return;
    redis->answered = true;
    if (reply->type == REDIS_REPLY_ERROR) {
        give_up(redis, "refused INFO: %s", reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_STRING) {
        give_up(redis, "is no Redis server: it answered INFO with something else");
        return;
    }
    server_info_read(&redis->facts, reply->str);
    redis->facts.appends = redis->appends;
    redis->facts.fsync_always = redis->fsync_always;
    const char *loss = server_info_loss(&before, &redis->facts);
    if (loss) {
        redis->forgot = loss;
    } else if (strcmp(before.run_id, redis->facts.run_id) != 0) {
        redis->forgot = NULL; /* another process, which the epoch key does not name */
        note_former(redis, &before);
    }
    if (!server_info_of_file(&redis->facts))
        redis->former[0] = '\0'; /* it may have begun with older data than those of its append-only file */
    judge_facts(redis);
}

static void on_config_reply(redisAsyncContext *context, void *data, void *privdata) {
    const char *texts[16];
    struct redis *redis = privdata;
    const redisReply *reply = data;
    size_t n = 0;

    (void) context;
    if (!reply || redis->closing)
        return;
    for (; reply->type == REDIS_REPLY_ARRAY && n < reply->elements && n < sizeof(texts) / sizeof(texts[0]);
         n++) {
        if (reply->element[n]->type != REDIS_REPLY_STRING)
            break;
        texts[n] = reply->element[n]->str;
    }
    redis->appends = server_info_appends(texts, n);
    redis->fsync_always = server_info_fsync_always(texts, n);
    bool durable = redis->appends && redis->fsync_always;
    if (!durable && !redis->told_volatile)
        log_warning("node %s: is called durable, but %s: after a restart it rests like others",
                    redis->node->name,
                    reply->type == REDIS_REPLY_ERROR
                        ? reply->str
                        : "its appendonly is not yes, its appendfsync not always, or its "
                          "no-appendfsync-on-rewrite not no");
    redis->told_volatile = !durable;
}

/* One at a time: the answers come in the order of what was asked, so it disturbs no other. */
static int look(struct redis *redis) {
    redis->looking = true;
    redis->appends = redis->fsync_always = false;
    if (redis->node->durable)
        (void) pipeline_ask(&redis->pipeline, on_config_reply, redis, "CONFIG GET *append*");
    return pipeline_ask(&redis->pipeline, on_info_reply, redis, "INFO");
}

static void on_load_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;
    const redisReply *reply = data;
    struct list *first;

    (void) context;
    if (!reply || redis->closing || redis->state == REDIS_UNFIT)
        return;
    /* The replies come in the order of the scripts. */
    if (reply->type != REDIS_REPLY_STRING ||
        strcmp(reply->str, redis_scripts[SCRIPTS_LOADED - redis->loads_left].hash) != 0) {
        give_up(redis, "did not load our scripts: %s",
                reply->type == REDIS_REPLY_ERROR ? reply->str : "their hash did not come back");
        return;
    }
    if (--redis->loads_left > 0)
        return;
    if (redis->state != REDIS_READY) {
        probe_step_done(redis);
        return;
    }
    redis->reloading = false;
    while ((first = list_first(&redis->held)))
        transmit(redis, list_entry(first, struct pending_call, link));
}

/* Rights that the agent can do without: see rights.lua. */
static void note_rights(struct redis_rights *rights, const char *text) {
    static const char poll[] = "POLL ";
    bool polls = strncmp(text, poll, strlen(poll)) == 0;

    rights->listen = !polls;
    rights->keyspace = !polls && strstr(text, " keyspace") != NULL;
    rights->config = !polls && strstr(text, " config") != NULL;
    (void) snprintf(rights->missing, sizeof(rights->missing), "%s", polls ? text + strlen(poll) : "");
}

/* Other errors than this one's are met, and told, by what follows. */
static void on_rights_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;
    const redisReply *reply = data;

    (void) context;
    if (reply && !redis->closing && redis->failure[0] == '\0' && redis->state != REDIS_UNFIT &&
        reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0)
        give_up(redis, "%s", reply->str);
    if (reply && reply->type == REDIS_REPLY_STATUS)
        note_rights(&redis->rights, reply->str);
}

/* The scripts, and before them whether the user may do what they do: some rights, such as that to delete,
 * would otherwise be missed late, or by nobody. */
static int load_scripts(struct redis *redis) {
    const struct redis_script_source *rights = &redis_scripts[SCRIPT_RIGHTS];

    redis->loads_left = SCRIPTS_LOADED;
    int r = pipeline_ask(&redis->pipeline, on_rights_reply, redis,
                         "EVAL %b 1 %s %s __keyspace@%d__:", rights->text, rights->length, RIGHTS_KEY,
                         REDIS_FREE_CHANNEL, redis->node->database);
    for (unsigned i = 0; i < SCRIPTS_LOADED && r >= 0; i++)
        r = pipeline_ask(&redis->pipeline, on_load_reply, redis, "SCRIPT LOAD %b", redis_scripts[i].text,
                         redis_scripts[i].length);
    return r;
}

static void reload_scripts(struct redis *redis) {
    if (redis->reloading)
        return;
    redis->reloading = true;
    (void) load_scripts(redis);
}

/* Everything in one go: who we are, which database, what the server is, our scripts. */
static void greet(struct redis *redis) {
    const struct config_node *node = redis->node;
    int r = 0;

    redis->probes_left = 2; /* INFO and the scripts */
    redis->reloading = false;
    if (node->password) {
        char *bytes;
        int length = handshake_format(node, &bytes);
        redis->probes_left++;
        if (length < 0) {
            r = -ENOMEM;
        } else {
            pipeline_ask_bytes(&redis->pipeline, on_greeting_reply, redis, bytes, (size_t) length);
            redisFreeCommand(bytes);
        }
    }
    if (r >= 0 && node->database != 0) {
        redis->probes_left++;
        r = pipeline_ask(&redis->pipeline, on_greeting_reply, redis, "SELECT %d", node->database);
    }
    if (r >= 0)
        r = look(redis);
    if (r >= 0)
        r = load_scripts(redis);
    if (r < 0) {
        give_up(redis, "can't be greeted: out of memory");
        return;
    }
    set_timer_ms(redis, PROBE_TIMEOUT_MS);
    /* What was wrong before stays the reason until we know better: trying anew does not hide it. */
    set_state(redis, REDIS_PROBING, redis->reason[0] != '\0' ? redis->reason : "connected, being examined");
}

/* --- trust --- */

static bool can_send(const struct redis *redis) {
    return redis->state == REDIS_READY && redis->context && redis->failure[0] == '\0';
}

/* The process whose heir this one is; "" if it has not kept all itself. */
static const char *former(const struct redis *redis) {
    return server_info_durable(&redis->facts) ? redis->former : "";
}

static void on_probe_reply(redisAsyncContext *context, void *data, void *privdata) {
    struct redis *redis = privdata;

    (void) context;
    if (!data || redis->closing)
        return;
    const struct probe probe = probe_reply_read(data, redis->probe_sent_ns, redis->fleet, &redis->notes);
    (void) snprintf(redis->floor, sizeof(redis->floor), "%lld", (long long) probe.floor_us);
    redis->callbacks.on_probe(redis->userdata, redis, &probe);
}

enum { PROBE_ARGUMENTS = 18, NUMBER_BYTES = 24 };

static void ask_script(struct redis *redis, int argc, const char *argv[]) {
    char *bytes;
    int length = (int) redisFormatCommandArgv(&bytes, argc, argv, NULL);

    redis->probe_sent_ns = clock_now_ns();
    if (length < 0)
        abort(); /* for want of memory */
    pipeline_ask_bytes(&redis->pipeline, on_probe_reply, redis, bytes, (size_t) length);
    redisFreeCommand(bytes);
}

/* The whole text of the script each time: it is rare, and so needs none to be loaded. */
void redis_probe(struct redis *redis, const char *nonce, int64_t mark_ms, const struct inquiry *inquiry) {
    const struct config *config = redis->fleet->config;
    char mark[NUMBER_BYTES], lasts[NUMBER_BYTES], withdraw[NUMBER_BYTES], max_ttl[NUMBER_BYTES];
    char addresses[NODES_MAX][NODE_ADDRESS_BYTES];

    if (inquiry->disown)
        redis->former[0] = '\0';
    if (!can_send(redis))
        return;
    (void) snprintf(mark, sizeof(mark), "%u", (unsigned) inquiry->mark);
    (void) snprintf(lasts, sizeof(lasts), "%lld", (long long) mark_ms);
    (void) snprintf(withdraw, sizeof(withdraw), "%lld", (long long) inquiry->withdraw_us);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", (unsigned) inquiry->max_ttl_ms);
    const char *argv[PROBE_ARGUMENTS + 3 * NODES_MAX] = {"EVAL",
                                                         redis_scripts[SCRIPT_PROBE].text,
                                                         "3",
                                                         REDIS_EPOCH_KEY,
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
    ask_script(redis, (int) (PROBE_ARGUMENTS + 3 * config->n_nodes), argv);
}

void redis_bless(struct redis *redis, const char *nonce, const struct blessing *blessing,
                 int64_t fence_skew_us) {
    char mark[NUMBER_BYTES], max_ttl[NUMBER_BYTES], skew[NUMBER_BYTES], covered[NUMBER_BYTES];

    if (!can_send(redis))
        return;
    (void) snprintf(mark, sizeof(mark), "%u", (unsigned) blessing->mark);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", (unsigned) blessing->max_ttl_ms);
    (void) snprintf(skew, sizeof(skew), "%lld", (long long) fence_skew_us);
    (void) snprintf(covered, sizeof(covered), "%u", (unsigned) blessing->covered_ms);
    const char *argv[] = {"EVAL",
                          redis_scripts[SCRIPT_BLESS].text,
                          "3",
                          REDIS_EPOCH_KEY,
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
    ask_script(redis, (int) (sizeof(argv) / sizeof(argv[0])), argv);
}

void redis_amend(struct redis *redis, const struct amendment *amendment) {
    char epoch[EPOCH_BYTES_MAX];

    if (!can_send(redis))
        return;
    epoch_amend(&redis->notes.fields, amendment, redis->fleet->id, epoch);
    const char *argv[] = {"EVAL", redis_scripts[SCRIPT_AMEND].text, "1", REDIS_EPOCH_KEY, redis->notes.epoch,
                          epoch};
    ask_script(redis, (int) (sizeof(argv) / sizeof(argv[0])), argv);
}

const char *redis_epoch(const struct redis *redis) {
    return redis->notes.epoch;
}

const char *redis_floor(const struct redis *redis) {
    return redis->notes.epoch[0] != '\0' ? redis->floor : "";
}

const char *redis_difference(const struct redis *redis) {
    return redis->notes.difference;
}

/* --- connecting --- */

/* What may be wrong with a server that takes connections and has not said a word; a server's log has more.
 */
static const char *silence_hint(const struct redis *redis, bool closed) {
    if (redis->answered)
        return "";
    if (!redis->node->tls)
        return redis->node->unix_path ? "" : "; if it speaks TLS only: see tls";
    if (!closed)
        return "; if it does not speak TLS: see tls";
    return redis->node->tls_cert ? "" : "; if it demands a certificate of us: see tls_cert";
}

static void on_disconnect(const redisAsyncContext *context, int status) {
    struct redis *redis = context->data;
    char reason[REASON_BYTES];
    bool told = redis->tls && tls_explain(redis->tls, reason, sizeof(reason));

    (void) status;
    if (redis->failure[0] != '\0')
        (void) snprintf(reason, sizeof(reason), "%s", redis->failure);
    else if (!told)
        (void) snprintf(reason, sizeof(reason), "connection lost: %.90s%s",
                        context->c.err != 0 && context->c.errstr[0] ? context->c.errstr : "closed",
                        silence_hint(redis, true));
    redis->failure[0] = '\0';
    redis->context = NULL;
    pipeline_drop(&redis->pipeline);
    drop_held(redis);
    retry_later(redis, reason);
}

static void on_connect(const redisAsyncContext *context, int status) {
    struct redis *redis = context->data;
    char reason[REASON_BYTES];

    if (status == REDIS_OK) {
        pipeline_connected(&redis->pipeline);
        if (!redis->node->unix_path)
            handshake_set_options(context->c.fd);
        if (redis->node->tls &&
            handshake_tls(redis->node, &redis->tls, &redis->context->c, reason, sizeof(reason)) < 0)
            give_up(redis, "%s", reason);
        else
            greet(redis);
        return;
    }
    (void) snprintf(reason, sizeof(reason), "%s",
                    redis->failure[0]                       ? redis->failure
                    : context->errstr && context->errstr[0] ? context->errstr
                                                            : "can't connect");
    redis->failure[0] = '\0';
    redis->context = NULL; /* hiredis frees it */
    retry_later(redis, reason);
}

static void adopt(struct redis *redis, redisAsyncContext *context) {
    char reason[REASON_BYTES];

    if (!context || context->err) {
        (void) snprintf(reason, sizeof(reason), "%s",
                        context && context->errstr[0] ? context->errstr : "out of memory");
        if (context)
            redisAsyncFree(context);
        retry_later(redis, reason);
        return;
    }
    redis->context = context;
    redis->answered = false;
    redis->failure[0] = '\0';
    redis->looking = false;
    context->data = redis;
    set_timer_ms(redis, CONNECT_TIMEOUT_MS);
    if (pipeline_attach(&redis->pipeline, context, redis->node->tls) < 0 ||
        redisAsyncSetConnectCallback(context, on_connect) != REDIS_OK ||
        redisAsyncSetDisconnectCallback(context, on_disconnect) != REDIS_OK) {
        redis->context = NULL;
        redisAsyncFree(context);
        retry_later(redis, "can't watch the connection");
    }
}

static void on_resolved(void *userdata, const char *address, const char *error) {
    struct redis *redis = userdata;
    char reason[REASON_BYTES];

    if (address) {
        adopt(redis, redisAsyncConnect(address, redis->node->port));
    } else {
        (void) snprintf(reason, sizeof(reason), "can't find the address of %s: %s", redis->node->host,
                        error);
        retry_later(redis, reason);
    }
    redis->resolve = resolve_free(redis->resolve);
}

static void connect_now(struct redis *redis) {
    if (redis->node->unix_path) {
        adopt(redis, redisAsyncConnectUnix(redis->node->unix_path));
        return;
    }
    int r = resolve_new(redis->event, redis->node->host, on_resolved, redis, &redis->resolve);
    if (r > 0)
        adopt(redis, redisAsyncConnect(redis->node->host, redis->node->port));
    else if (r < 0)
        retry_later(redis, "can't look up its address now");
}

static void look_again(struct redis *redis, int64_t next_ms) {
    redis->look_ms = next_ms;
    set_timer_ms(redis, INFO_TIMEOUT_MS);
    (void) look(redis);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct redis *redis = userdata;

    (void) source;
    (void) usec;
    if (!redis->context) {
        if (!redis->resolve)
            connect_now(redis);
    } else if (!redis->pipeline.adapter.connected) {
        /* A context that never connected has no disconnect callback. */
        redisAsyncContext *context = redis->context;
        redis->context = NULL;
        redisAsyncFree(context);
        retry_later(redis, "no connection within 1 s");
    } else if (redis->state == REDIS_PROBING || redis->looking) {
        give_up(redis, "%s%s",
                redis->state == REDIS_READY ? "stopped answering"
                                            : "accepts connections but does not answer",
                silence_hint(redis, false));
    } else if (redis->state == REDIS_READY) {
        look_again(redis, random_between(&redis->random, INFO_MS_MIN, INFO_MS_MAX));
        redis->callbacks.on_look(redis->userdata, redis);
    } else {
        set_timer_ms(redis, PROBE_TIMEOUT_MS);
        (void) look(redis);
    }
    redis_flush(redis);
    return 0;
}

/* --- the contract --- */

int redis_new(sd_event *event, struct poller *poller, const struct config_node *node, unsigned index,
              const struct fleet *fleet, const struct redis_callbacks *callbacks, void *userdata,
              struct redis **ret) {
    struct redis *redis = calloc(1, sizeof(*redis));
    uint64_t seed;

    if (!redis)
        return -ENOMEM;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        free(redis);
        return -EIO;
    }
    pipeline_init(&redis->pipeline, poller);
    redis->event = event;
    redis->node = node;
    redis->index = index;
    redis->fleet = fleet;
    redis->callbacks = *callbacks;
    redis->userdata = userdata;
    redis->backoff_ms = BACKOFF_MS_MIN;
    random_init(&redis->random, seed);
    list_init(&redis->free_records);
    list_init(&redis->held);
    int r = loop_add_timer(event, on_timer, redis, &redis->timer);
    if (r < 0) {
        free(redis);
        return r;
    }
    /* From the loop, so that no callback comes before the caller has the object. */
    r = loop_set_timer(redis->timer, 0);
    if (r < 0) {
        redis_free(redis);
        return r;
    }
    *ret = redis;
    return 0;
}

struct redis *redis_free(struct redis *redis) {
    if (!redis)
        return NULL;
    redis->closing = true;
    redis->resolve = resolve_free(redis->resolve);
    if (redis->context)
        redisAsyncFree(redis->context);
    redis->tls = tls_free(redis->tls);
    redis->timer = sd_event_source_disable_unref(redis->timer);
    pending_call_free_all(&redis->free_records);
    pipeline_deinit(&redis->pipeline);
    pending_call_free_all(&redis->held);
    free(redis);
    return NULL;
}

unsigned redis_index(const struct redis *redis) {
    return redis->index;
}

enum redis_state redis_state(const struct redis *redis) {
    return redis->state;
}

uint32_t redis_rtt_us(const struct redis *redis) {
    return redis->rtt_us;
}

uint32_t redis_rtt_percentile_us(struct redis *redis, unsigned permille) {
    return latency_us(&redis->latency, permille, clock_now_ns());
}

const struct server_info *redis_facts(const struct redis *redis) {
    return &redis->facts;
}

const struct redis_rights *redis_rights(const struct redis *redis) {
    return &redis->rights;
}

bool redis_peer(const struct redis *redis, char *address, size_t size) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);

    return redis->context && redis->pipeline.adapter.connected &&
           getpeername(redis->context->c.fd, (struct sockaddr *) &peer, &length) == 0 &&
           getnameinfo((struct sockaddr *) &peer, length, address, (socklen_t) size, NULL, 0,
                       NI_NUMERICHOST) == 0;
}

int redis_send(struct redis *redis, const struct redis_call *call, const struct evalsha_item *own,
               size_t n_own, void *tag) {
    assert(call->split <= call->length);

    if (!can_send(redis))
        return -ENOTCONN;
    struct pending_call *record = pending_call_new(&redis->free_records, evalsha_room(own, n_own));
    record->redis = redis;
    record->length = evalsha_put(record->bytes, own, n_own);
    assert(record->length <= record->room);
    record->head = (struct pending_call_piece){call->bytes, call->split};
    record->tail = (struct pending_call_piece){call->bytes + call->split, call->length - call->split};
    record->tag = tag;
    if (redis->reloading)
        pending_call_hold(&redis->held, record);
    else
        transmit(redis, record);
    return 0;
}

bool redis_look_along(struct redis *redis, const struct redis *first) {
    if (!can_send(redis) || redis->looking || redis->look_ns - clock_now_ns() > LOOK_EARLY_MS * NS_PER_MS)
        return false;
    look_again(redis, first->look_ms);
    return true;
}

void redis_burst(const struct multi_write *burst, struct redis *const redises[], size_t n) {
    struct pipeline *pipelines[NODES_MAX];

    assert(n <= NODES_MAX);
    for (size_t i = 0; i < n; i++)
        pipelines[i] = &redises[i]->pipeline;
    pipeline_burst(burst, pipelines, n);
}

void redis_flush(struct redis *redis) {
    pipeline_flush(&redis->pipeline);
}

void redis_cut(struct redis *redis, const char *reason) {
    if (redis->context && redis->pipeline.adapter.connected)
        give_up(redis, "%s", reason);
}
