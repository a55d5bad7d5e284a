/* The local layer (agent/local) as the front runs it: its memory, and its sinks, which lead to the clients'
 * connections and to the keepers. */
#pragma once

#include "config/config.h"
#include "io/client/conn.h"
#include "io/client/keeper-set.h"
#include "io/loop/loss-log.h"
#include "io/loop/random-bytes.h"
#include "local/front-state.h"

struct local_layer {
    struct front_state state;
    struct keeper_set *keepers;
    struct random_bytes random_bytes;
    void *registry_memory;
    size_t registry_bytes;
    void *observe_memory;
    void *cooling_memory;
    void *history_memory;
    char *reply;
    struct loss_log losses;
};

/* `config` and `agent_id` of the start, and `keepers`, outlive the layer. 0 or a negative errno. */
int local_layer_init(struct local_layer *layer, const struct config *config, const char *agent_id,
                     uint32_t requests_max, struct keeper_set *keepers);

/* Fine for all zeroes. */
void local_layer_deinit(struct local_layer *layer);

/* Applies the rules and limits of this configuration, which must stay until the next call. When each session
 * has found its rules, rule_count_again() follows. */
void local_layer_set_policy(struct local_layer *layer, const struct config *config);

/* True if rules of this configuration are for units of processes. */
bool local_layer_needs_units(const struct config *config);
