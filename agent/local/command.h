/* The commands of the protocol: a table of name, number of arguments and handler. */
#pragma once

#include "local/session.h"

/* Which listing a session that waits for the keepers' counters has asked for. */
enum command_survey { SURVEY_STATUS, SURVEY_NODES, SURVEY_INFO };

struct command_entry {
    const char *name;
    uint8_t arguments_min; /* without the name */
    uint8_t arguments_max;
    void (*handle)(struct session *session, struct service *service, const struct resp_token *arguments,
                   size_t n_arguments, instant_ns now_ns);
};

/* The entry of this name, whatever its case; NULL if there is none. */
const struct command_entry *command_find(const char *name, size_t length);

/* The keepers have told their counters: writes the listing that the session waits for. */
void command_surveyed(struct service *service, struct session *session, instant_ns now_ns);

/* Writes ACQUIRE's map for a granted request. */
void command_put_grant(struct service *service, const struct session *session, const struct request *request,
                       struct resp_writer *writer, instant_ns now_ns);

/* Whether a report is about a LEADER request, and of which session: their numbers are told from the leases'
 * ids by a flag. */
bool command_is_look(uint64_t request);
uint64_t command_look_session(uint64_t request);
