/* Leaders of names as LEADER and OBSERVE show them, against what the clients and the nodes have. */
#pragma once

#include <stdbool.h>

struct resp_token;
struct sim_agent;

void leaders_reset(void);

/* The reader's session with this agent begins. */
void leaders_begin(const struct sim_agent *readers);

/* The reader asks with LEADER. */
void leaders_asked(unsigned name);
void leaders_check_reply(const struct resp_token *reply);

/* Call leaders_observe() before OBSERVE or UNOBSERVE is sent, since a push may come with the answer;
 * leaders_unobserve() after UNOBSERVE. */
void leaders_observe(unsigned name);
void leaders_unobserve(unsigned name);
unsigned leaders_observed(void); /* the number of names */
void leaders_read_push(const struct resp_token *push);

/* The last push of each observed name is still true. */
void leaders_check_pushes(void);

void leaders_granted(unsigned client, bool in_calm); /* a new lease */
void leaders_resumes(unsigned client); /* the nodes' values of its lease may differ from now on */

/* All nodes have answered an observers' query of this agent in time. */
void leaders_all_answered(const struct sim_agent *answered, unsigned name);
