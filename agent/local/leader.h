/* Leaders: the holder that a majority of the nodes has under a name's key. LEADER asks once; OBSERVE asks
 * repeatedly (observe.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/event.h"

struct call;
struct front_state;
struct resp_writer;
struct session;

/* Before a LEADER of the session: true if the session pauses, because its user has too many under way. */
bool leader_pauses(struct session *session);

/* LEADER. */
void leader_command(const struct call *call);

/* The id of the session that asked. */
uint64_t leader_session_id(const struct report *report);

/* The keeper's answer to the LEADER of this session; NULL: the session has ended. Until this answer the
 * query counts for its user, which could otherwise have any number at the nodes by ending sessions. */
void leader_report(struct front_state *front, struct session *session, const struct report *report,
                   instant_ns now_ns);

/* The session ends, whatever it waits for. */
void leader_end(struct session *session);

/* Asks the name's keeper. `origin` and `request` come back in the report; `request` is not 0. */
void leader_ask(struct front_state *front, enum report_origin origin, uint64_t request, const char *name,
                size_t length);

/* The content of the key. */
struct leader_key {
    const char *value; /* a lock value, any other string, or: */
    size_t length;
    bool foreign_type; /* the type of a key that is no string */
    int64_t token;
};

/* The pairs that describe the holder in a map: holder, host, fence, data and, for a foreign type, type. */
size_t leader_pairs(const struct leader_key *key);
void leader_put(struct resp_writer *writer, const struct leader_key *key);
