/* Which rule of the policy a request counts under, for the rule's max_leases and max_waiters. */
#pragma once

#include "local/front-state.h"

/* The number of the rule that is for this session, or for this user if it is NULL, and this name; 0: none.
 * Of a user without a session neither groups nor unit are known. */
uint8_t rule_count_number(const struct front_state *front, const struct session *session, uid_t uid,
                          const char *name, size_t length);

/* After registry_set_rules(), and when each session has its rules of the new policy: each lease and waiter
 * counts under the rule that is for it now. */
void rule_count_again(struct front_state *front);
