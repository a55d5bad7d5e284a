/* WHOAMI: which process the agent takes the client for, which rule of the policy counts for a name, what it
 * allows, and what the user has of the quotas. */
#pragma once

struct call;

void whoami_command(const struct call *call);
