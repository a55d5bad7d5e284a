/* A session that asks for what the agents know, as LEASES and LEADER show it, and compares. */
#pragma once

#include "sim.h"

struct sim_agent;

void reader_reset(void);
void reader_step(void);

/* Returns the length of the first whole answer or push; 0: there is none. */
size_t reader_reads(const char *bytes, size_t length);

void reader_granted(unsigned client, bool in_calm); /* a new lease */
void reader_resumes(unsigned client); /* the nodes' values of its lease may differ from now on */

/* All nodes have answered an observers' query of this agent in time. */
void reader_all_answered(const struct sim_agent *agent, unsigned name);
