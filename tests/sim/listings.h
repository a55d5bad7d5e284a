/* What an agent's listings show, against what the clients know at this instant. STATUS, NODES and METRICS
 * agree with the LEASES that was answered at the same instant. */
#pragma once

struct resp_token;
struct sim_agent;

void listings_reset(void);

void listings_check_leases(const struct sim_agent *agent, const struct resp_token *reply);

/* `observed`: names that the reader observes. */
void listings_check_status(const struct sim_agent *agent, const struct resp_token *reply, unsigned observed);

void listings_check_nodes(const struct sim_agent *agent, const struct resp_token *reply);
void listings_check_metrics(const struct sim_agent *agent, const struct resp_token *reply);
