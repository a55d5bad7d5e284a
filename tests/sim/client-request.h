/* What a client requests of its agent. */
#pragma once

#include "client.h"

uint32_t client_request_any_ttl_ms(void);

/* A new session, with or without pushes and a page. */
void client_request_connect(struct client *client);

/* A lease by ACQUIRE, whose options are chosen; or its last lease by RESUME, with that lease's terms. The
 * client may have its answer already. */
void client_request_acquire(struct client *client);
void client_request_resume(struct client *client);

/* Behind a request that waits: the answer comes after that one's. False: too many are unanswered. */
bool client_request_behind(struct client *client);

/* About its lease. */
void client_request_check(struct client *client);
void client_request_release(struct client *client);
bool client_request_beat(struct client *client); /* false: it sends none */

/* About another user's lease, if there is one. */
void client_request_other(struct client *client);
/* Asks for the lease of another user or host. False: there is none. */
bool client_request_stolen(struct client *client);
