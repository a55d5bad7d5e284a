/* A lease's handle: what is known of its deadline, and its end. Without I/O, as client.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client.h"

/* A new one in LEASE_ASKED, with a copy of the options, or NULL. */
struct redlock_lease *lease_new(struct client *client, const char *name,
                                const struct redlock_options *options, int64_t now_ns);

void lease_free(struct client *client, struct redlock_lease *lease);

/* The handle is given back. The lease is freed now, or at its last reply. */
void lease_drop(struct client *client, struct redlock_lease *lease);

/* The one that is not over with this id; NULL: none. */
struct redlock_lease *lease_find(struct client *client, int64_t id);

void lease_set_deadline(struct client *client, struct redlock_lease *lease, int64_t deadline_ns);

/* It is held until then, by the agent's clock, and shown in this slot of the page (negative: nowhere). */
void lease_granted(struct client *client, struct redlock_lease *lease, int64_t deadline_ns, int64_t slot);

/* What the agent's page shows need not be asked for. */
void lease_look(struct client *client, struct redlock_lease *lease);

/* The page is given up: its last word counts. False when the lease is over, by that or before. */
bool lease_leave_page(struct client *client, struct redlock_lease *lease);

/* How long it is held by what is shown or told, 0: not any more. Whoever has got 0 for a lease that was
 * granted never gets more again, whatever is shown and told later. Thread-safe. */
int64_t lease_remaining_ns(const struct redlock_lease *lease, int64_t (*clock_ns)(void));

/* It is over for whoever asked for it: its time has passed, or somebody was told that it had. */
bool lease_has_ended(const struct redlock_lease *lease, int64_t now_ns);

/* Ends it and tells its holder why. */
void lease_lost(struct client *client, struct redlock_lease *lease, const char *reason, const char *text);

/* The same by our own knowledge: with the reason for which the agent had called it at risk, else with these.
 */
void lease_expired(struct client *client, struct redlock_lease *lease, const char *reason, const char *text);
