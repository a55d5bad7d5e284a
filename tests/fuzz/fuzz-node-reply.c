/* Bytes from a node: the reader of hiredis with the agent's reply memory, and everything that is read from
 * an answer. What must hold: each text that a vote or a probe points to is whole.
 *
 * The first byte is the number of names in the call; the others are the node's. */

#include <hiredis/hiredis.h>

#include "fuzz.h"
#include "io/node/probe-reply.h"
#include "io/node/reply-memory.h"
#include "io/node/script-replies.h"
#include "io/node/server-info.h"
#include "io/node/user-rights.h"

/* After those of votes, which are numbered as their kinds are. */
enum goal { BLESSED = VOTE_CUT, MARKED, OTHERS, DIFFERENCE, RIGHTS, POLLS, INFO, APPENDS };

const char *const fuzz_goals[] = {
    [VOTE_YES] = "a vote for the agent",
    [VOTE_FREE] = "a free name",
    [VOTE_FOREIGN] = "another's key",
    [VOTE_REFUSED] = "a refusal",
    [VOTE_REPAIRED] = "a key that was set again",
    [VOTE_BEHIND] = "a token that is too small",
    [VOTE_EPOCH] = "a changed epoch",
    [BLESSED] = "the probe of a blessed node",
    [MARKED] = "the probe of one with a mark",
    [OTHERS] = "another fleet",
    [DIFFERENCE] = "another configuration",
    [RIGHTS] = "the rights of a user",
    [POLLS] = "a user without them",
    [INFO] = "INFO",
    [APPENDS] = "the settings of a file",
    NULL,
};
uint32_t fuzz_reached;

enum { TEXTS_MAX = 4 };

static struct fleet fleet;

/* Reads each byte, so that a sanitizer notices one that is not there. */
static void read_text(const char *text, size_t length) {
    free(fuzz_copy(text, text ? length : 0));
}

static void read_votes(const redisReply *reply, uint32_t count) {
    static const enum operation operations[] = {OPERATION_ACQUIRE, OPERATION_RAISE,   OPERATION_EXTEND,
                                                OPERATION_REFRESH, OPERATION_RELEASE, OPERATION_QUERY,
                                                OPERATION_ADOPT,   OPERATION_SEARCH};

    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (!script_replies_fit(operations[i], count, reply))
            continue;
        (void) script_replies_time_us(operations[i], reply);
        for (uint32_t name = 0; name < count; name++) {
            struct vote vote = script_replies_vote(operations[i], reply, name);
            must(vote.kind != VOTE_CUT);
            fuzz_reach(vote.kind);
            read_text(vote.text, vote.text_length);
        }
    }
}

static void read_info(const char *text) {
    struct server_info before = {0}, after;
    struct user_rights rights;
    bool sure;

    server_info_read(&before, text);
    after = before;
    server_info_read(&after, text);
    must(!server_info_loss(&before, &after));
    (void) server_info_trouble(&before);
    (void) server_info_refusal(&before, &sure);
    (void) server_info_durable(&before);
    (void) server_info_of_file(&before);
    if (before.run_id[0] != '\0')
        fuzz_reach(INFO);
    user_rights_read(&rights, text);
    if (rights.missing[0] != '\0')
        fuzz_reach(POLLS);
    if (rights.config)
        fuzz_reach(RIGHTS);
    must(memchr(rights.missing, '\0', sizeof(rights.missing)));
}

static void read_settings(const redisReply *reply) {
    const char *texts[TEXTS_MAX];
    size_t n = 0;

    for (; n < reply->elements && n < TEXTS_MAX && reply->element[n]->type == REDIS_REPLY_STRING; n++)
        texts[n] = reply->element[n]->str;
    if (server_info_appends(texts, n))
        fuzz_reach(APPENDS);
    (void) server_info_fsync_always(texts, n);
}

static void read_probe(const redisReply *reply) {
    struct probe_reply_notes notes = {0};

    if (!probe_reply_fits(reply, fleet.config->n_nodes))
        return;
    struct probe probe = probe_reply_read(reply, 0, &fleet, &notes);

    read_text(probe.error, probe.error_length);
    read_text(probe.others, probe.others_length);
    must(memchr(notes.epoch, '\0', sizeof(notes.epoch)) &&
         memchr(notes.difference, '\0', sizeof(notes.difference)));
    must(!probe.rested || probe.blessed);
    must((notes.epoch[0] != '\0') == probe.blessed); /* requests carry the epoch of a blessed node only */
    must(probe.max_ttl_ms <= TTL_MS_MAX);
    if (probe.blessed || probe.marked)
        fuzz_reach(probe.blessed ? BLESSED : MARKED);
    if (notes.others[0] != '\0')
        fuzz_reach(OTHERS);
    if (notes.difference[0] != '\0')
        fuzz_reach(DIFFERENCE);
}

static void read_reply(const redisReply *reply, uint32_t count) {
    read_votes(reply, count);
    read_probe(reply);
    if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)
        read_info(reply->str);
    if (reply->type == REDIS_REPLY_ARRAY)
        read_settings(reply);
}

static void begin_fleet(void) {
    static char names[3][2] = {"a", "b", "c"}, addresses[3][12] = {"h:1", "h:2", "h:3"};
    static struct config config = {.n_nodes = 3, .max_ttl_ms = 60000, .fence_skew_ms = 60000};

    for (unsigned i = 0; i < config.n_nodes; i++)
        config.nodes[i] =
            (struct config_node){.name = names[i], .address = addresses[i], .host = addresses[i]};
    fleet_init(&fleet, &config, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct fuzz_input input = {bytes, length};
    redisContext context = {.reader = redisReaderCreate()};
    struct reply_memory memory = {0};
    size_t unfinished = 0;
    void *reply;

    if (fleet.id[0] == '\0')
        begin_fleet();
    uint32_t count = 1 + fuzz_below(&input, 8);
    must(context.reader);
    reply_memory_attach(&memory, &context);
    if (redisReaderFeed(context.reader, (const char *) input.bytes, input.length) == REDIS_OK &&
        reply_memory_count(&context, input.length, &unfinished) == 0) {
        while (redisReaderGetReply(context.reader, &reply) == REDIS_OK && reply) {
            read_reply(reply, count);
            reply_memory_clear(&memory);
        }
    }
    redisReaderFree(context.reader);
    reply_memory_deinit(&memory);
    return 0;
}
