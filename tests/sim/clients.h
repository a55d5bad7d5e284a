/* The clients, as the world sees them; what they share among themselves is in client.h. */
#pragma once

#include "sim.h"

struct answer;
struct sim_agent;
struct sim_key;

void clients_reset(unsigned count);
void clients_give_up(void);
void clients_halt(const struct sim_agent *agent, int64_t for_ns); /* those of the agent */
void client_step(unsigned client);
bool client_relies(unsigned client);     /* on its lease: not after CHECK has said 0 */
bool client_sees_valid(unsigned client); /* its lease, by the page or the last deadline */
bool client_has_read(unsigned client);
unsigned client_uid(unsigned client);
unsigned client_pid(unsigned client); /* of its present process */
unsigned client_of_pid(unsigned pid);
bool client_process_is_dead(unsigned pid);
void client_disconnected(unsigned client);             /* its session ends, and the client did not end it */
void clients_restarted(const struct sim_agent *agent); /* another process takes requests soon */

/* From its agent; and from the agent that the client has left. */
void client_answer_read(unsigned client, const struct answer *answer);
void client_answer_read_former(unsigned client, const struct answer *answer);

/* At each turn of the agent: its clients may look at their pages at any time. */
void client_answer_read_pages(const struct sim_agent *agent);

/* Call before a key with this value is deleted. */
void clients_check_deletion(unsigned name, const struct sim_key *deleted);
void clients_check_end(void);
bool clients_are_idle(void);
