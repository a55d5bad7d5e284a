/* Sending requests to the nodes. */
#pragma once

#include "core/shard-state.h"

/* Sends the lease's operation to these nodes, which can all be asked, in a new round. */
void send_round(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
                instant_ns now_ns);

/* Sends the operation to more nodes in the current round: the other votes count on. */
void send_more(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
               instant_ns now_ns);

/* Sends a composed request to its nodes, which can all be asked. */
void send_to_nodes(struct shard *shard, const struct send *send, instant_ns now_ns);
