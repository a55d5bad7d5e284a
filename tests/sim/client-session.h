/* A client's session with its agent. The kernel's part, a socket and a page, outlives the agent's process.
 * The index in client_sessions[] is the session's slot in the ledger. */
#pragma once

#include "local/recovery/ledger-reader.h"
#include "local/session.h"
#include "agent.h"

enum {
    SESSION_INPUT_BYTES = 2048,
    SESSION_OUTPUT_BYTES = 1 << 19,
    SESSION_PAGE_BYTES = DEADLINE_PAGE_HEADER_BYTES + 64 * DEADLINE_PAGE_SLOT_BYTES, /* those in use */
};

struct client_session {
    struct session session;  /* first */
    struct sim_agent *agent; /* NULL: the client has no session */

    /* The kernel's: */
    uint64_t id;
    bool stored;  /* the service manager has the socket, too */
    bool hung_up; /* the client has closed it */
    bool torn;    /* the process was killed when it had sent a part of its output */
    unsigned char *page_memory;
    char socket[SESSION_INPUT_BYTES]; /* sent by the client, and not received */
    size_t n_socket;

    /* The process's: */
    bool expelled;
    struct deadline_page page;
    char input[SESSION_INPUT_BYTES]; /* received, and not parsed */
    size_t n_input;
    uint64_t received, parsed; /* positions in the stream of requests */
    char *output;                          /* not sent */
    size_t n_output;
};

/* Two of each client, and of the reader: its session, and one that its agent or itself has closed. */
extern struct client_session client_sessions[SIM_SESSIONS];

struct client_session *client_session_of(unsigned client);
struct client_session *client_session_closed(unsigned client);

/* The session is the closed one now. */
void client_session_close(unsigned client);

static inline struct client_session *client_session_from(const struct session *session) {
    return (struct client_session *) (uintptr_t) session;
}

static inline uint32_t client_session_slot(const struct client_session *of) {
    return (uint32_t) (of - client_sessions);
}

static inline unsigned client_session_client(const struct client_session *of) {
    return client_session_slot(of) % SIM_USERS;
}

static inline struct ledger *client_session_ledger(const struct client_session *of) {
    return of->agent->front.registry.ledger;
}

void client_sessions_allocate(void);
void client_sessions_reset(void);

/* Of a process: a new session; one from the ledger; and its end. */
void client_session_begin(struct client_session *of, struct sim_agent *agent);
void client_session_restore(struct client_session *of, const struct ledger_reader_session_view *view);
void client_session_restored(struct client_session *of); /* with its leases */
void client_session_end(struct client_session *of);

/* What the client has sent is taken as far as the session takes requests. */
void client_session_take(struct client_session *of);

void client_session_write(struct session *session, const char *bytes, size_t length);
void client_session_flush(struct client_session *of);
void client_sessions_flush(void); /* all, in the order of their first unsent bytes */
void client_sessions_drop_output(void);
