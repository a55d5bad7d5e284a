/* What goes into the ledger of a session's requests, and what a successor makes of it. Pure, owned by the
 * front thread. Nothing happens without a ledger. */
#pragma once

#include "local/recovery/ledger.h"
#include "local/registry.h"

struct front_state;
struct session;

/* The session is about to be told that its request waits, ... */
void ledger_writer_waiting(const struct session *session, struct request *request,
                           const struct registry_ask *ask);

/* ... that it is granted: `secret` is the random part of its lock value, ... */
void ledger_writer_granted(const struct session *session, struct request *request, const char *secret);

/* ... that it is at risk, or no more, ... */
void ledger_writer_risk(const struct session *session, const struct request *request);

/* ... that it is over, ... */
void ledger_writer_ended(const struct session *session, struct request *request);

/* ... or lost; but who does not hear of it may believe in it until its deadline. */
void ledger_writer_lost(const struct session *session, struct request *request);

/* The session ends without a release: its lease lingers, if it is one that does, and is nobody's any more.
 */
void ledger_writer_lingers(const struct session *session, const struct request *request, instant_ns now_ns);

/* A client wants to resume a lease: it may believe in it whatever becomes of that. */
void ledger_writer_resuming(const struct session *session, const struct registry_ask *ask,
                            instant_ns now_ns);

/* The session observes a name: its place in the ledger, for ledger_writer_not_observed(). */
uint32_t ledger_writer_observed(const struct session *session, const char *name, size_t length);
void ledger_writer_not_observed(const struct session *session, uint32_t entry);

/* A former process's sessions, by slot: those that are here again. */
struct ledger_writer_past {
    struct ledger_reader reader;
    struct session *(*session)(void *userdata, uint64_t id); /* NULL: it is not here */
    bool (*whole)(void *userdata, uint64_t id);              /* it could have been handed on */
    bool (*dead)(void *userdata, pid_t pid);                 /* for sure */
    void *userdata;
    uint32_t *order; /* room for the indices of as many entries as there are */
};

struct ledger_writer_result {
    unsigned held;                /* leases, by sessions that are here */
    instant_ns believed_until_ns; /* by then all leases have ended that could not be brought back */
};

/* Brings back what those sessions hold, wait for and observe, and what clients that are not here may believe
 * in. Before anything else is asked of the registry. */
struct ledger_writer_result ledger_writer_restore(struct front_state *front,
                                                  const struct ledger_writer_past *past, instant_ns now_ns);
