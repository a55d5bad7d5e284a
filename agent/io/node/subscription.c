#include "io/node/subscription.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/back-off.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/secret-memory.h"
#include "io/node/channel-list.h"
#include "io/node/handshake.h"
#include "io/node/key-names.h"
#include "io/node/redis.h"
#include "io/node/reply-memory.h"
#include "io/node/tls.h"

enum {
    GREETING_TIMEOUT_MS = 2000,
    PING_MS = 5000, /* between pings; an answer may take as long */
    BACK_OFF_MS_MIN = 20,
    BACK_OFF_MS_MAX = 5000,
    STABLE_MS = 5000,
    REASON_BYTES = 160,
    STEPS_MAX = 4,
    READS_MAX = 64,
    ADDRESS_BYTES = 64,
};

/* The first commands of a connection; the answers come in this order. */
enum step { STEP_AUTH, STEP_CONFIG, STEP_ALIVE, STEP_KEYSPACE };

enum stage { CLOSED, BACKING_OFF, CONNECTING, GREETING, UP };

/* The commands with channels, in the order in which they are sent: the release channel is confirmed last,
 * and confirms both. */
enum change { LEAVE, LEAVE_KEYSPACE, JOIN_KEYSPACE, JOIN, CHANGES };

static const char NO_MEMORY[] = "the agent has no memory for it";

struct subscription {
    struct poller_target target;
    struct poller *poller;
    const struct config_node *config_node;
    unsigned node;
    struct subscription_callbacks callbacks;
    void *userdata;
    sd_event_source *timer; /* the end of connecting, greeting or backing off; when to ping */
    struct tls *tls;        /* NULL until the first connection that wants it */
    struct random random;

    enum stage stage;
    redisContext *context; /* from CONNECTING on */
    struct reply_memory replies;
    size_t unfinished; /* bytes of the incomplete answer */
    bool polls_write;
    bool answered; /* the server has, on this connection */
    bool pinged;   /* the answer is awaited */
    bool may_keyspace, may_config;
    bool keyspace; /* subscribes to keyspace notifications too */
    enum step steps[STEPS_MAX];
    unsigned n_steps, steps_done;
    struct channel_list changes[CHANGES];
    char keyspace_prefix[32];
    char address[ADDRESS_BYTES];
    char logged[REASON_BYTES]; /* the last trouble logged; "" when there is none */
    unsigned failures;         /* in a row, to connect or to stay up */
    instant_ns up_ns;
};

static void set_timer_ms(struct subscription *subscription, int64_t ms) {
    /* Fails only without memory; then nothing would ever time out again. */
    if (loop_set_timer(subscription->timer, clock_now_ns() + ms * NS_PER_MS) < 0)
        abort();
}

static void drop_context(struct subscription *subscription) {
    char ignored[REASON_BYTES];

    if (subscription->context) {
        poller_remove(subscription->poller, subscription->context->fd);
        if (subscription->tls)
            (void) tls_explain(subscription->tls, ignored, sizeof(ignored));
        redisFree(subscription->context);
        subscription->context = NULL;
    }
    for (unsigned i = 0; i < CHANGES; i++)
        channel_list_clear(&subscription->changes[i]);
}

/* Reconnects later; waiters poll meanwhile. */
static void fail(struct subscription *subscription, const char *reason) {
    bool was_up = subscription->stage == UP;

    if (!was_up && strcmp(subscription->logged, reason) != 0) {
        log_notice("node %s: no subscription to releases, so waiters poll it: %s",
                   subscription->config_node->name, reason);
        (void) snprintf(subscription->logged, sizeof(subscription->logged), "%s", reason);
    }
    drop_context(subscription);
    if (was_up && clock_now_ns() - subscription->up_ns > STABLE_MS * NS_PER_MS)
        subscription->failures = 0;
    subscription->stage = BACKING_OFF;
    set_timer_ms(subscription, back_off_delay(&subscription->random, BACK_OFF_MS_MIN, BACK_OFF_MS_MAX,
                                              subscription->failures++));
    if (was_up)
        subscription->callbacks.on_down(subscription->userdata, subscription->node);
}

/* --- writing --- */

/* Queues the command for these channels, if there are any. */
static void append_command(struct subscription *subscription, const char *command,
                           struct channel_list *channels) {
    char head[64];

    if (channels->count == 0)
        return;
    int length = snprintf(head, sizeof(head), "*%zu\r\n$%zu\r\n%s\r\n", 1 + channels->count, strlen(command),
                          command);
    /* Without memory the connection has an error, which the next write reports. */
    (void) redisAppendFormattedCommand(subscription->context, head, (size_t) length);
    (void) redisAppendFormattedCommand(subscription->context, channels->bytes, channels->used);
    channel_list_clear(channels);
}

static void poll_write(struct subscription *subscription, bool wanted) {
    if (subscription->polls_write == wanted)
        return;
    subscription->polls_write = wanted;
    if (poller_modify(subscription->poller, subscription->context->fd,
                      EPOLLIN | (wanted ? (uint32_t) EPOLLOUT : 0u), &subscription->target) < 0)
        abort();
}

void subscription_flush(struct subscription *subscription) {
    if (subscription->stage != UP && subscription->stage != GREETING)
        return;
    for (unsigned i = 0; i < CHANGES; i++)
        if (subscription->changes[i].starved) {
            fail(subscription, NO_MEMORY);
            return;
        }
    for (unsigned i = 0; i < CHANGES; i++)
        append_command(subscription, i < JOIN_KEYSPACE ? "UNSUBSCRIBE" : "SUBSCRIBE",
                       &subscription->changes[i]);
    if (redisBufferWrite(subscription->context, NULL) != REDIS_OK) {
        fail(subscription, subscription->context->errstr);
        return;
    }
    /* hiredis 0.14 does not check the buffer, and crashes when it reports whether all is written. */
    if (!subscription->context->obuf) {
        fail(subscription, NO_MEMORY);
        return;
    }
    bool done = subscription->context->obuf[0] == '\0'; /* no request has this byte */
    /* Until the server answers, a TLS handshake may be under way, which continues with its bytes. */
    poll_write(subscription, !done && (!subscription->config_node->tls || subscription->answered));
}

static void change(struct subscription *subscription, enum change keyspace, enum change release,
                   const char *key, size_t length) {
    if (subscription->stage != UP)
        return;
    if (subscription->keyspace)
        channel_list_add(&subscription->changes[keyspace], subscription->keyspace_prefix, key, length);
    channel_list_add(&subscription->changes[release], RELEASE_CHANNEL, key, length);
}

void subscription_join(struct subscription *subscription, const char *key, size_t length) {
    change(subscription, JOIN_KEYSPACE, JOIN, key, length);
}

void subscription_leave(struct subscription *subscription, const char *key, size_t length) {
    change(subscription, LEAVE_KEYSPACE, LEAVE, key, length);
}

/* --- greeting --- */

/* The command is appended: without memory the connection has an error, which the next write reports. */
static void ask(struct subscription *subscription, enum step step, int result) {
    (void) result;
    subscription->steps[subscription->n_steps++] = step;
}

static void ping(struct subscription *subscription) {
    (void) redisAppendCommand(subscription->context, "SUBSCRIBE %s", ALIVE_CHANNEL); /* like ask() */
}

/* Without hiredis's buffer, which leaves the password on the heap: an empty socket takes the bytes at once.
 * 0 or a negative errno. */
static int authenticate(struct subscription *subscription) {
    redisContext *context = subscription->context;
    char *bytes;
    int length = handshake_format(subscription->config_node, &bytes), r = 0;

    if (length < 0)
        return -ENOMEM;
    if (subscription->config_node->tls)
        (void) redisAppendFormattedCommand(context, bytes, (size_t) length); /* like ask() */
    else if (send(context->fd, bytes, (size_t) length, MSG_NOSIGNAL | MSG_DONTWAIT) != length)
        r = -EIO;
    secret_memory_free(bytes, (size_t) length);
    return r;
}

static void greet(struct subscription *subscription) {
    redisContext *context = subscription->context;

    subscription->stage = GREETING;
    subscription->n_steps = subscription->steps_done = 0;
    subscription->keyspace = subscription->may_keyspace;
    set_timer_ms(subscription, GREETING_TIMEOUT_MS);
    if (subscription->config_node->password) {
        int r = authenticate(subscription);
        if (r < 0) {
            fail(subscription, r == -ENOMEM ? NO_MEMORY : "can't send the password");
            return;
        }
        ask(subscription, STEP_AUTH, REDIS_OK);
    }
    if (subscription->may_keyspace && subscription->may_config)
        ask(subscription, STEP_CONFIG, redisAppendCommand(context, "CONFIG GET notify-keyspace-events"));
    ask(subscription, STEP_ALIVE, REDIS_OK);
    ping(subscription);
    if (subscription->may_keyspace)
        ask(subscription, STEP_KEYSPACE,
            redisAppendCommand(context, "SUBSCRIBE %s%s", subscription->keyspace_prefix, ALIVE_CHANNEL));
    subscription_flush(subscription);
}

/* {kind, channel, text or number}: what a subscribed connection receives. */
static bool is_push(const redisReply *reply, const char *kind, int type) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING &&
           reply->element[2]->type == type && strcmp(reply->element[0]->str, kind) == 0;
}

static bool is_subscribed(const redisReply *reply) {
    return is_push(reply, "subscribe", REDIS_REPLY_INTEGER);
}

/* Whether CONFIG's answer includes notifications of keys that are deleted or expire. */
static bool sends_notifications(const redisReply *reply) {
    if (reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_STRING)
        return true; /* unknown: it may */
    const char *kinds = reply->element[1]->str;
    return strchr(kinds, 'K') && strpbrk(kinds, "Agx");
}

static bool fits_step(enum step step, const redisReply *reply) {
    switch (step) {
    case STEP_AUTH:
        return reply->type == REDIS_REPLY_STATUS;
    case STEP_CONFIG:
        return reply->type == REDIS_REPLY_ARRAY || reply->type == REDIS_REPLY_ERROR;
    case STEP_ALIVE:
        return is_subscribed(reply);
    case STEP_KEYSPACE:
        return is_subscribed(reply) || reply->type == REDIS_REPLY_ERROR;
    }
    return false;
}

static void on_greeting_reply(struct subscription *subscription, const redisReply *reply) {
    enum step step = subscription->steps[subscription->steps_done++];
    bool refused = reply->type == REDIS_REPLY_ERROR;

    if (!fits_step(step, reply)) {
        char reason[REASON_BYTES] = REDIS_MISFIT;
        if (refused)
            (void) snprintf(reason, sizeof(reason), "%.*s",
                            handshake_error_length(subscription->config_node, reply->str), reply->str);
        fail(subscription, reason);
        return;
    }
    switch (step) {
    case STEP_AUTH:
    case STEP_ALIVE:
        break;
    case STEP_CONFIG:
        subscription->keyspace = refused || sends_notifications(reply);
        break;
    case STEP_KEYSPACE:
        subscription->keyspace &= !refused;
        break;
    }
    if (subscription->steps_done < subscription->n_steps)
        return;
    subscription->stage = UP;
    subscription->pinged = false;
    subscription->up_ns = clock_now_ns();
    set_timer_ms(subscription, PING_MS);
    if (subscription->logged[0] != '\0')
        log_notice("node %s: subscribed to releases again", subscription->config_node->name);
    subscription->logged[0] = '\0';
    subscription->callbacks.on_up(subscription->userdata, subscription->node);
}

/* --- reading --- */

static bool begins(const redisReply *reply, const char *prefix, size_t *ret_length) {
    size_t length = strlen(prefix);

    *ret_length = length;
    return bytes_begin_with(reply->str, (size_t) reply->len, prefix, length);
}

/* Whether this keyspace event means that the lock is gone. */
static bool ends_lock(const char *event) {
    static const char *const ends[] = {"del", "expired", "evicted", "rename_from", "move_from"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(event, ends[i]) == 0)
            return true;
    return false;
}

static void on_message(struct subscription *subscription, const redisReply *channel,
                       const redisReply *payload) {
    size_t prefix;

    bool released = begins(channel, RELEASE_CHANNEL, &prefix);
    if (released || (begins(channel, subscription->keyspace_prefix, &prefix) && ends_lock(payload->str)))
        subscription->callbacks.on_freed(subscription->userdata, subscription->node, channel->str + prefix,
                                         (size_t) channel->len - prefix,
                                         released && strcmp(payload->str, LEFT_MESSAGE) == 0);
}

static void on_confirmed(struct subscription *subscription, const redisReply *channel) {
    size_t prefix;

    if (begins(channel, RELEASE_CHANNEL, &prefix))
        subscription->callbacks.on_joined(subscription->userdata, subscription->node, channel->str + prefix,
                                          (size_t) channel->len - prefix);
    else if (strcmp(channel->str, ALIVE_CHANNEL) == 0)
        subscription->pinged = false;
}

static void on_reply(struct subscription *subscription, const redisReply *reply) {
    if (subscription->stage == GREETING)
        on_greeting_reply(subscription, reply);
    else if (is_push(reply, "message", REDIS_REPLY_STRING))
        on_message(subscription, reply->element[1], reply->element[2]);
    else if (is_subscribed(reply))
        on_confirmed(subscription, reply->element[1]);
    else if (!is_push(reply, "unsubscribe", REDIS_REPLY_INTEGER))
        fail(subscription, reply->type == REDIS_REPLY_ERROR ? reply->str : REDIS_MISFIT);
}

/* TLS may hold more than one read returns, and epoll would not report the rest. */
static bool read_all(struct subscription *subscription) {
    redisReader *reader = subscription->context->reader;

    for (unsigned i = 0; i < READS_MAX; i++) {
        size_t before = reader->len;
        if (redisBufferRead(subscription->context) != REDIS_OK ||
            reply_memory_count(subscription->context, reader->len - before, &subscription->unfinished) < 0)
            return false;
        /* cppcheck-suppress knownConditionTrueFalse ; redisBufferRead() changes the reader */
        if (reader->len == before || !subscription->config_node->tls)
            break;
    }
    return true;
}

static void take_replies(struct subscription *subscription) {
    void *reply = NULL;

    while (subscription->context && redisGetReplyFromReader(subscription->context, &reply) == REDIS_OK &&
           reply) {
        subscription->answered = true;
        subscription->unfinished = subscription->context->reader->len - subscription->context->reader->pos;
        on_reply(subscription, reply);
        reply_memory_clear(&subscription->replies);
        reply = NULL;
    }
    if (subscription->context && subscription->context->err != 0) {
        reply_memory_explain(&subscription->replies, subscription->context);
        fail(subscription, subscription->context->errstr);
    }
}

/* --- connecting --- */

static void on_connected(struct subscription *subscription) {
    const struct config_node *node = subscription->config_node;
    int fd = subscription->context->fd, error = 0;
    socklen_t length = sizeof(error);
    char reason[REASON_BYTES];

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 || error != 0) {
        fail(subscription, strerror(error));
        return;
    }
    if (!node->unix_path)
        handshake_set_options(fd);
    poll_write(subscription, false);
    if (node->tls &&
        handshake_tls(node, &subscription->tls, subscription->context, reason, sizeof(reason)) < 0)
        fail(subscription, reason);
    else
        greet(subscription);
}

static void on_socket(struct poller_target *target, uint32_t events) {
    struct subscription *subscription = (struct subscription *) (void *) target;

    if (!subscription->context)
        return;
    if (subscription->stage == CONNECTING) {
        on_connected(subscription);
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || read_all(subscription)) {
        take_replies(subscription);
        subscription_flush(subscription);
        return;
    }
    fail(subscription, subscription->context->errstr);
}

static void connect_now(struct subscription *subscription) {
    const struct config_node *node = subscription->config_node;
    redisContext *context = node->unix_path ? redisConnectUnixNonBlock(node->unix_path)
                                            : redisConnectNonBlock(subscription->address, node->port);

    if (!context) {
        fail(subscription, NO_MEMORY);
        return;
    }
    if (context->err != 0 ||
        poller_add(subscription->poller, context->fd, EPOLLIN | EPOLLOUT, &subscription->target) < 0) {
        fail(subscription, context->err != 0 ? context->errstr : "can't watch the connection");
        redisFree(context);
        return;
    }
    subscription->unfinished = 0;
    reply_memory_attach(&subscription->replies, context);
    subscription->context = context;
    subscription->stage = CONNECTING;
    subscription->polls_write = true;
    subscription->answered = false;
    set_timer_ms(subscription, GREETING_TIMEOUT_MS);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct subscription *subscription = userdata;

    (void) source;
    (void) usec;
    switch (subscription->stage) {
    case CLOSED:
        break;
    case BACKING_OFF:
        connect_now(subscription);
        break;
    case CONNECTING:
    case GREETING:
        fail(subscription, "no answer within 2 s");
        break;
    case UP:
        if (subscription->pinged) {
            fail(subscription, "stopped answering");
            break;
        }
        subscription->pinged = true;
        set_timer_ms(subscription, PING_MS);
        ping(subscription);
        subscription_flush(subscription);
        break;
    }
    return 0;
}

/* --- the contract --- */

int subscription_new(sd_event *event, struct poller *poller, const struct config_node *config_node,
                     unsigned node, const struct subscription_callbacks *callbacks, void *userdata,
                     struct subscription **ret) {
    struct subscription *subscription = calloc(1, sizeof(*subscription));
    uint64_t seed;

    if (!subscription)
        return -ENOMEM;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        free(subscription);
        return -EIO;
    }
    subscription->target.on_events = on_socket;
    subscription->poller = poller;
    subscription->config_node = config_node;
    subscription->node = node;
    subscription->callbacks = *callbacks;
    subscription->userdata = userdata;
    random_init(&subscription->random, seed);
    (void) snprintf(subscription->keyspace_prefix, sizeof(subscription->keyspace_prefix),
                    "__keyspace@%d__:", config_node->database);
    int r = loop_add_timer(event, on_timer, subscription, &subscription->timer);
    if (r < 0) {
        free(subscription);
        return r;
    }
    *ret = subscription;
    return 0;
}

struct subscription *subscription_free(struct subscription *subscription) {
    if (!subscription)
        return NULL;
    drop_context(subscription);
    reply_memory_deinit(&subscription->replies);
    for (unsigned i = 0; i < CHANGES; i++)
        channel_list_deinit(&subscription->changes[i]);
    tls_free(subscription->tls);
    sd_event_source_disable_unref(subscription->timer);
    free(subscription);
    return NULL;
}

void subscription_open(struct subscription *subscription, const struct redis *redis) {
    const struct user_rights *rights = redis_rights(redis);

    if (subscription->stage != CLOSED)
        return;
    if (!subscription->config_node->unix_path &&
        !redis_peer(redis, subscription->address, sizeof(subscription->address)))
        return;
    if (!subscription->tls && redis_tls(redis))
        subscription->tls = tls_share(redis_tls(redis));
    subscription->may_keyspace = rights->keyspace;
    subscription->may_config = rights->config;
    subscription->failures = 0;
    connect_now(subscription);
}

void subscription_close(struct subscription *subscription) {
    drop_context(subscription);
    subscription->stage = CLOSED;
    if (loop_set_timer(subscription->timer, INSTANT_NEVER) < 0)
        abort();
}
