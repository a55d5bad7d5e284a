/* The front of an agent, and its sessions. */
#pragma once

#include "sim.h"

struct event;
struct sim_agent;

void front_allocate(struct sim_agent *agent); /* once */
void front_start(struct sim_agent *agent);
void front_event(struct sim_agent *agent, const struct event *event); /* mail, or its timer */
bool front_is_idle(const struct sim_agent *agent);
void front_check_idle(const struct sim_agent *agent); /* without requests, no limit counts any */
void front_kill(struct sim_agent *agent);
void front_continue(struct sim_agent *agent); /* continues the sessions of the former process */
bool front_serves(const struct sim_agent *agent);

/* The process may be killed at this point, is killed there, or will be soon. */
void front_may_die(struct sim_agent *agent);
void front_die(struct sim_agent *agent) __attribute__((noreturn));
bool front_is_dying(const struct sim_agent *agent);
const struct request *front_request(const struct sim_agent *agent, uint64_t id); /* NULL: none */
bool front_has_holder(const struct sim_agent *agent, unsigned name);

/* Each client has one session. What its agent sends it goes to client_answer_read(). */
void front_connect(struct sim_agent *agent, unsigned client);
void front_receive(unsigned client, const char *bytes, size_t length);
void front_hang_up(unsigned client); /* the client closes its session, or dies */
bool front_may_hang_up(unsigned client);
void front_expel(unsigned client); /* the agent closes it */
void front_exit(unsigned client);  /* the process of a session that the agent closed dies */
bool front_is_connected(unsigned client);
const void *front_page(unsigned client); /* that is the client's */

/* The values of the lease with this id: that of its client, and the one in the keys. */
void front_values(const struct sim_agent *agent, uint64_t id, uint8_t ret[2][SECRET_BYTES]);
