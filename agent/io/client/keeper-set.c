#include "io/client/keeper-set.h"

#include "base/secret.h"
#include <assert.h>
#include <errno.h>
#include <sys/random.h>

enum { SURVEY_TIMEOUT_MS = 200 /* a stuck keeper delays a listing by at most this */ };

void keeper_set_init(struct keeper_set *set) {
    *set = (struct keeper_set){.survey_until_ns = INSTANT_NEVER};
}

int keeper_set_start(struct keeper_set *set, const struct config *config, const char *agent_id,
                     uint32_t requests_max, struct poller *poller) {
    uint64_t seeds[KEEPERS_MAX];

    if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
        return -errno;
    while (set->n < config->keepers) {
        const struct keeper_config keeper = {
            .config = config,
            .agent_id = agent_id,
            .requests_max = requests_max,
            .seed = seeds[set->n],
            .index = set->n,
        };
        int r = keeper_new(&keeper, &set->keepers[set->n]);
        if (r < 0)
            return r;
        r = mailbox_attach(keeper_outbox(set->keepers[set->n++]), poller);
        if (r < 0)
            return r;
    }
    return 0;
}

void keeper_set_deinit(struct keeper_set *set) {
    while (set->n > 0) {
        set->n--;
        set->keepers[set->n] = keeper_free(set->keepers[set->n]);
    }
}

void keeper_set_command(struct keeper_set *set, uint64_t name_hash, const struct command *command) {
    struct keeper_command message = {.kind = KEEPER_COMMAND_COMMAND, .command = *command};
    uint64_t keeper = (name_hash >> 40) % set->n; /* the registry's buckets use the low bits */

    mailbox_post(keeper_inbox(set->keepers[keeper]), &message, sizeof(message), command->text,
                 (size_t) command->head_length + command->tail_length);
    secret_clear(message.command.secret, sizeof(message.command.secret));
}

void keeper_set_broadcast(struct keeper_set *set, const struct keeper_command *command, const void *tail,
                          size_t tail_length) {
    for (unsigned i = 0; i < set->n; i++)
        mailbox_post(keeper_inbox(set->keepers[i]), command, sizeof(*command), tail, tail_length);
}

bool keeper_set_flush(struct keeper_set *set) {
    bool backlog = false;

    for (unsigned i = 0; i < set->n; i++)
        backlog |= mailbox_flush(keeper_inbox(set->keepers[i]));
    return backlog;
}

bool keeper_set_waits(struct keeper_set *set, bool sleeping) {
    bool any = false;

    for (unsigned i = 0; i < set->n; i++)
        any |= mailbox_waits(keeper_outbox(set->keepers[i]), sleeping);
    return any;
}

const struct keeper_message *keeper_set_next(struct keeper_set *set, unsigned keeper, size_t *ret_length) {
    const struct keeper_message *message = mailbox_next(keeper_outbox(set->keepers[keeper]), ret_length);

    assert(!message || *ret_length >= sizeof(*message));
    return message;
}

void keeper_set_survey(struct keeper_set *set, instant_ns now_ns) {
    if (set->n_awaited > 0)
        return;
    const struct keeper_command survey = {.kind = KEEPER_COMMAND_SURVEY, .number = ++set->survey};
    set->n_awaited = set->n;
    set->survey_until_ns = now_ns + SURVEY_TIMEOUT_MS * NS_PER_MS;
    keeper_set_broadcast(set, &survey, NULL, 0);
}

bool keeper_set_survey_reply(struct keeper_set *set, uint32_t number) {
    return number == set->survey && set->n_awaited > 0 && --set->n_awaited == 0;
}

void keeper_set_end_survey(struct keeper_set *set) {
    set->n_awaited = 0;
    set->survey_until_ns = INSTANT_NEVER;
}
