/* The commands of the protocol: a table of name, number of arguments and handler. */
#pragma once

#include "local/option.h"
#include "local/session.h"

/* Which listing a session that waits for the keepers' counters has asked for. */
enum command_survey { SURVEY_STATUS, SURVEY_NODES, SURVEY_INFO };

struct command_entry {
    const char *name;
    uint8_t arguments_min; /* without the name */
    uint8_t arguments_max; /* without the options */
    void (*handle)(struct session *session, struct front_state *service, const struct resp_token *arguments,
                   size_t n_arguments, instant_ns now_ns);
    const struct option *options;
    uint8_t n_options;
};

/* The entry of this name, whatever its case; NULL if there is none. */
const struct command_entry *command_find(const char *name, size_t length);

/* How many arguments it takes at most, with all options. */
size_t command_arguments_max(const struct command_entry *entry);

/* The keepers have told their counters: writes the listing that the session waits for. */
void command_surveyed(struct front_state *service, struct session *session, instant_ns now_ns);

/* Writes ACQUIRE's map for a granted request. `outcome` has the random part of its lock value. */
void command_put_grant(struct front_state *service, const struct session *session,
                       const struct request *request, const struct request_outcome *outcome,
                       struct resp_writer *writer, instant_ns now_ns);

/* Makes the request and tells the session where it stands, unless its outcome does. */
void command_ask(struct session *session, struct front_state *service, const struct registry_ask *ask,
                 instant_ns now_ns);

/* RESUME, in resume.c, and its options. */
enum { RESUME_WAIT, RESUME_ASYNC, RESUME_OPTIONS };
extern const struct option command_resume_options[RESUME_OPTIONS];
void command_resume(struct session *session, struct front_state *service, const struct resp_token *arguments,
                    size_t n_arguments, instant_ns now_ns);

/* Tells what is wrong with the name, if anything. */
bool command_name_is_fine(struct session *session, struct front_state *service,
                          const struct resp_token *token);

/* Asks the name's keeper who holds it. `request`: less than 2^62, comes back in the report, with a flag. */
void command_look(struct front_state *service, uint64_t request, const char *name, size_t length);

/* Whether a report is about such a request, and of which session if it was a LEADER: their numbers are told
 * from the leases' ids by a flag. */
bool command_is_look(uint64_t request);
uint64_t command_look_session(uint64_t request);
