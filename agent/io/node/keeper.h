/* An extension thread: a loop, a shard of the leases, a connection to each node, and a mailbox each way. A
 * keeper does no work for clients, so a flood of clients can't delay an extension. */
#pragma once

#include <pthread.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/loop/mailbox.h"

struct keeper;

/* A message from the front to a keeper (the way back: io/node/keeper-message.h): struct keeper_command, then
 * the command's text, or what the kind says. */
enum keeper_command_kind {
    KEEPER_COMMAND_COMMAND,
    KEEPER_COMMAND_SURVEY,
    KEEPER_COMMAND_PING,
    KEEPER_COMMAND_BLESS,
    KEEPER_COMMAND_SUCCEED, /* then struct shard_predecessors */
    KEEPER_COMMAND_STOP,
};

struct keeper_command {
    enum keeper_command_kind kind;
    uint32_t number; /* of the survey or ping; comes back in the answer */
    unsigned node;   /* to bless */
    struct command command;
};

struct keeper_config {
    const struct config
        *config; /* nodes, key_format, host: as of the agent's start; must outlive the keeper */
    const char *agent_id;
    uint32_t requests_max;
    uint64_t seed;
    unsigned index;
};

/* Starts the thread, which has all descriptors but those of connections when this returns. 0 or a negative
 * errno. */
int keeper_new(const struct keeper_config *config, struct keeper **ret);

/* Sends what is queued, stops the thread, joins it, and frees. NULL is fine. Returns NULL. */
struct keeper *keeper_free(struct keeper *keeper);

struct mailbox *keeper_inbox(struct keeper *keeper);
struct mailbox *keeper_outbox(struct keeper *keeper);
