/* BLESS: an operator's statement that a node has forgotten no lease, so that the node may vote at once. */
#pragma once

struct call;

/* For root and the agent's own user. */
void bless_command(const struct call *call);
