/* The ledger of an agent, and the process that continues from the former one's. */
#pragma once

#include "sim.h"

struct sim_agent;

struct client_session;

void restart_allocate(struct sim_agent *agent); /* once */
void restart_begin(struct sim_agent *agent);    /* a ledger for this process */
void restart_continue(struct sim_agent *agent);
void restart_disconnect(struct client_session *of);
