/* An extension thread: a loop, a shard of the leases, a connection to every node, and a mailbox each way. A
 * flood of clients can't make an extension late, for nothing of a client happens in here. */
#pragma once

#include <pthread.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "core/shard.h"
#include "io/loop/mailbox.h"

struct keeper;

/* What travels from the front to a keeper (back: io/node/keeper-message.h): this, then the command's text or
 * what the kind says. */
enum keeper_command_kind {
    KEEPER_COMMAND_COMMAND,
    KEEPER_COMMAND_SURVEY,
    KEEPER_COMMAND_PING,
    KEEPER_COMMAND_BLESS,
    KEEPER_COMMAND_SUCCEED, /* then struct shard_predecessor */
    KEEPER_COMMAND_STOP,
};

struct keeper_command {
    enum keeper_command_kind kind;
    uint32_t number; /* of the survey or ping */
    unsigned node;   /* to bless */
    struct command command;
};

struct keeper_config {
    const struct config
        *config; /* nodes, key_format, host: the one the agent started with; outlives the keeper */
    const char *agent_id;
    uint32_t requests_max;
    uint64_t seed;
    unsigned index;
};

/* Starts the thread. 0 or a negative errno. */
int keeper_new(const struct keeper_config *config, struct keeper **ret);

/* Stops the thread, waits for it and frees. What was handed to it before is sent out first. NULL is fine.
 * Returns NULL. */
struct keeper *keeper_free(struct keeper *keeper);

struct mailbox *keeper_inbox(struct keeper *keeper);
struct mailbox *keeper_outbox(struct keeper *keeper);
