#include "io/node/redis.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/back-off.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/loop/secret-memory.h"
#include "io/node/handshake.h"
#include "io/node/redis-internal.h"
#include "io/node/resolve.h"
#include "io/node/tls.h"

enum {
    RESOLVE_TIMEOUT_MS = 10000, /* a resolver asks a second name server after five seconds */
    CONNECT_TIMEOUT_MS = 1000,
    PROBE_TIMEOUT_MS = 2000,
    INSPECT_MS_MIN = 9000, /* between inspections, at random: keepers and agents don't inspect all at once */
    INSPECT_MS_MAX = 10000,
    INSPECT_UNFIT_MS = 1000,
    INSPECT_TIMEOUT_MS = 10000, /* silence of a node without other calls */
    BACK_OFF_MS_MIN = 20,
    BACK_OFF_MS_MAX = 1000,
    STABLE_MS = 5000, /* ready for so long: the back-off begins anew */
};

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
    /* Fails only without memory; then nothing would ever time out again. */
    if (loop_set_timer(redis->timer, clock_now_ns() + ms * NS_PER_MS) < 0)
        abort();
}

static void set_inspect_timer(struct redis *redis) {
    redis->inspect_ns = clock_now_ns() + redis->inspect_ms * NS_PER_MS;
    set_timer_ms(redis, redis->inspect_ms);
}

/* Reconnects after a random time, which doubles with each failure. */
static void retry_later(struct redis *redis, const char *reason) {
    if (redis->closing)
        return;
    if (redis->state == REDIS_READY && clock_now_ns() - redis->ready_ns > STABLE_MS * NS_PER_MS)
        redis->failures = 0;
    set_timer_ms(redis, back_off_delay(&redis->random, BACK_OFF_MS_MIN, BACK_OFF_MS_MAX, redis->failures++));
    set_state(redis, REDIS_CONNECTING, reason);
}

void redis_give_up(struct redis *redis, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(redis->failure, sizeof(redis->failure), format, arguments);
    va_end(arguments);
    if (redis->context)
        pipeline_close(&redis->pipeline);
}

void redis_require(struct redis *redis, int r) {
    if (r < 0)
        redis_give_up(redis, "the agent has no memory for a command");
}

bool redis_can_send(const struct redis *redis) {
    return redis->state == REDIS_READY && redis->context && redis->failure[0] == '\0';
}

/* --- the first commands of a connection --- */

static void become_ready(struct redis *redis) {
    redis->ready_ns = clock_now_ns();
    redis->inspect_ms = random_between(&redis->random, INSPECT_MS_MIN, INSPECT_MS_MAX);
    set_inspect_timer(redis);
    set_state(redis, REDIS_READY, "");
}

void redis_step_done(struct redis *redis) {
    if (--redis->steps_left == 0 && redis->failure[0] == '\0')
        become_ready(redis);
}

void redis_judge(struct redis *redis) {
    const char *trouble = server_info_trouble(&redis->info);

    if (redis->state == REDIS_READY) {
        if (trouble || redis->lost) {
            redis_give_up(redis, "%s", trouble ? trouble : redis->lost);
        } else {
            set_inspect_timer(redis);
            redis->callbacks.on_server_info(redis->userdata, redis);
        }
        return;
    }
    if (trouble) {
        set_timer_ms(redis, INSPECT_UNFIT_MS);
        set_state(redis, REDIS_UNFIT, trouble);
        return;
    }
    if (redis->state == REDIS_UNFIT) {
        redis->steps_left = 2; /* this one and the scripts, which a loading server rejects */
        set_timer_ms(redis, PROBE_TIMEOUT_MS);
        set_state(redis, REDIS_PROBING, "being examined again");
        redis_require(redis, redis_call_load(redis));
    }
    if (redis->lost)
        redis_inspect_forget(redis);
    redis_step_done(redis);
}

/* The reply to AUTH or SELECT. */
static void on_greeting_reply(redisReply *reply, void *userdata) {
    struct redis *redis = userdata;

    if (!reply || redis->closing)
        return;
    redis->answered = true;
    if (reply->type == REDIS_REPLY_ERROR)
        redis_give_up(redis, "refused the greeting: %.*s", handshake_error_length(redis->node, reply->str),
                      reply->str);
    else if (reply->type != REDIS_REPLY_STATUS)
        redis_give_up(redis, REDIS_MISFIT);
    else
        redis_step_done(redis);
}

static int authenticate(struct redis *redis) {
    char *bytes;
    int length = handshake_format(redis->node, &bytes);

    if (length < 0)
        return -ENOMEM;
    redis->steps_left++;
    int r = pipeline_ask_bytes(&redis->pipeline, on_greeting_reply, redis, bytes, (size_t) length);
    secret_memory_free(bytes, (size_t) length);
    return r;
}

/* All in one write: user, database, INFO, scripts. */
static void greet(struct redis *redis) {
    int r = 0;

    redis->steps_left = 2; /* INFO and the scripts */
    if (redis->node->password)
        r = authenticate(redis);
    if (r >= 0 && redis->node->database != 0) {
        redis->steps_left++;
        r = pipeline_ask(&redis->pipeline, on_greeting_reply, redis, "SELECT %d", redis->node->database);
    }
    if (r >= 0)
        r = redis_inspect(redis);
    if (r >= 0)
        r = redis_call_load(redis);
    if (r < 0) {
        redis_require(redis, r);
        return;
    }
    set_timer_ms(redis, PROBE_TIMEOUT_MS);
    /* The former reason stays until the new attempt succeeds or fails. */
    set_state(redis, REDIS_PROBING, redis->reason[0] != '\0' ? redis->reason : "connected, being examined");
}

/* --- connecting --- */

/* The likely trouble of a server that accepts connections and has not answered; a server's log has more. */
static const char *silence_hint(const struct redis *redis, bool closed) {
    if (redis->answered)
        return "";
    if (!redis->node->tls)
        return redis->node->unix_path ? "" : "; if the server requires TLS: set tls = yes";
    if (!closed)
        return "; if the server has no TLS: set tls = no";
    return redis->node->tls_cert ? "" : "; if it demands a certificate of us: see tls_cert";
}

static void on_disconnect(const redisAsyncContext *context, int status) {
    struct redis *redis = context->data;
    char reason[REDIS_REASON_BYTES];
    bool explained = redis->tls && tls_explain(redis->tls, reason, sizeof(reason));

    (void) status;
    reply_memory_explain(&redis->pipeline.replies, &redis->context->c);
    if (redis->failure[0] != '\0')
        (void) snprintf(reason, sizeof(reason), "%s", redis->failure);
    else if (!explained)
        (void) snprintf(reason, sizeof(reason), "connection lost: %.90s%s",
                        context->c.err != 0 && context->c.errstr[0] ? context->c.errstr : "closed",
                        silence_hint(redis, true));
    redis->failure[0] = '\0';
    redis->context = NULL;
    if (!redis->answered)
        redis->place++;
    pipeline_drop(&redis->pipeline);
    redis_call_drop_held(redis);
    retry_later(redis, reason);
}

static void on_connect(const redisAsyncContext *context, int status) {
    struct redis *redis = context->data;
    char reason[REDIS_REASON_BYTES];

    if (status == REDIS_OK) {
        pipeline_connected(&redis->pipeline);
        if (!redis->node->unix_path)
            handshake_set_options(context->c.fd);
        if (redis->node->tls &&
            handshake_tls(redis->node, &redis->tls, &redis->context->c, reason, sizeof(reason)) < 0)
            redis_give_up(redis, "%s", reason);
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
    redis->place++;
    retry_later(redis, reason);
}

static void take_context(struct redis *redis, redisAsyncContext *context) {
    char reason[REDIS_REASON_BYTES];

    if (!context || context->err) {
        (void) snprintf(reason, sizeof(reason), "%s",
                        context && context->errstr[0] ? context->errstr : "out of memory");
        if (context)
            redisAsyncFree(context);
        redis->place++;
        retry_later(redis, reason);
        return;
    }
    redis->context = context;
    redis->answered = redis->starved = false;
    redis->failure[0] = redis->taken_rights[0] = '\0';
    redis->inspecting = false;
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
    char reason[REDIS_REASON_BYTES];

    if (address) {
        take_context(redis, redisAsyncConnect(address, redis->node->port));
    } else {
        (void) snprintf(reason, sizeof(reason), "can't find the address of %s: %s", redis->node->host,
                        error);
        retry_later(redis, reason);
    }
    redis->resolve = resolve_free(redis->resolve);
}

static void connect_now(struct redis *redis) {
    char reason[REDIS_REASON_BYTES];

    /* Where this fails, on_connect() tries again, and reports it. */
    (void) handshake_load_tls(redis->node, &redis->tls, reason, sizeof(reason));
    if (redis->node->unix_path) {
        take_context(redis, redisAsyncConnectUnix(redis->node->unix_path));
        return;
    }
    int r = resolve_new(redis->event, redis->node->host, redis->place, RESOLVE_TIMEOUT_MS, on_resolved,
                        redis, &redis->resolve);
    if (r > 0)
        take_context(redis, redisAsyncConnect(redis->node->host, redis->node->port));
    else if (r < 0)
        retry_later(redis, "can't resolve its address now");
}

static void inspect_again(struct redis *redis, int64_t next_ms) {
    redis->inspect_ms = next_ms;
    set_timer_ms(redis, INSPECT_TIMEOUT_MS);
    redis_require(redis, redis_inspect(redis));
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
        redis->place++;
        redisAsyncFree(context);
        retry_later(redis, "no connection within 1 s");
    } else if (redis->state == REDIS_PROBING || redis->inspecting) {
        redis_give_up(redis, "%s%s",
                      redis->state == REDIS_READY ? "stopped answering"
                                                  : "accepts connections but does not answer",
                      silence_hint(redis, false));
    } else if (redis->state == REDIS_READY) {
        inspect_again(redis, random_between(&redis->random, INSPECT_MS_MIN, INSPECT_MS_MAX));
        redis->callbacks.on_inspect(redis->userdata, redis);
    } else {
        set_timer_ms(redis, PROBE_TIMEOUT_MS);
        redis_require(redis, redis_inspect(redis));
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
    random_init(&redis->random, seed);
    list_init(&redis->free_calls);
    reload_queue_init(&redis->reloads);
    int r = loop_add_timer(event, on_timer, redis, &redis->timer);
    if (r < 0) {
        free(redis);
        return r;
    }
    /* From the loop: no callback comes before the caller has the object. */
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
    pending_call_free_all(&redis->free_calls);
    pipeline_deinit(&redis->pipeline);
    pending_call_free_all(&redis->reloads.held);
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

const struct histogram *redis_rtts(const struct redis *redis) {
    return &redis->rtts;
}

const struct server_info *redis_server_info(const struct redis *redis) {
    return &redis->info;
}

const struct user_rights *redis_rights(const struct redis *redis) {
    return &redis->rights;
}

const char *redis_taken_rights(const struct redis *redis) {
    return redis->taken_rights;
}

const struct tls *redis_tls(const struct redis *redis) {
    return redis->tls;
}

bool redis_peer(const struct redis *redis, char *address, size_t size) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);

    return redis->context && redis->pipeline.adapter.connected &&
           getpeername(redis->context->c.fd, (struct sockaddr *) &peer, &length) == 0 &&
           getnameinfo((struct sockaddr *) &peer, length, address, (socklen_t) size, NULL, 0,
                       NI_NUMERICHOST) == 0;
}

bool redis_inspect_along(struct redis *redis, const struct redis *first) {
    if (!redis_can_send(redis) || redis->inspecting ||
        redis->inspect_ns - clock_now_ns() > INSPECT_EARLY_MS * NS_PER_MS)
        return false;
    inspect_again(redis, first->inspect_ms);
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
    if (redis->starved)
        redis_require(redis, -ENOMEM);
    pipeline_flush(&redis->pipeline);
}

void redis_cut(struct redis *redis, const char *reason) {
    if (redis->context && redis->pipeline.adapter.connected)
        redis_give_up(redis, "%s", reason);
}
