/* One client connection's protocol state: who it is, what it holds, what it waits for. Pure, owned by the
 * front thread. Requests are answered in order: while one is under way, session_ready() is false and the
 * caller feeds no more. */
#pragma once

#include <stdbool.h>

#include "local/front-state.h"
#include "resp.h"

enum session_state {
    SESSION_READY,
    SESSION_ACQUIRING,
    SESSION_RELEASING,
    SESSION_LOOKING,
    SESSION_SURVEYING,
    SESSION_QUITTING, /* QUIT was answered: close when the output is sent */
};

enum { SESSION_NAME_BYTES_MAX = 64 };

struct session {
    struct admission_requester requester; /* first: the registry's */
    uint64_t id;
    uint64_t looking; /* the LEADER request under way */
    int protocol;     /* 2 or 3 */
    pid_t pid;
    uid_t uid;
    enum session_state state;
    bool pushes;                /* RESP2: ASYNC or OBSERVE was used */
    bool unhurried;             /* what was written last may wait a moment for what follows it */
    uint32_t written;           /* bytes that it was told so far, modulo 2^32 */
    uint8_t surveying;          /* enum command_survey: which listing waits */
    struct deadline_page *page; /* the caller's; NULL until PAGE */
    struct request *awaited;    /* of SESSION_ACQUIRING and SESSION_RELEASING */
    struct list observations;   /* of names' leaders, see observe.h */
    unsigned n_observations;
    struct list surveyor_link;
    instant_ns asked_ns; /* of a request that a former process has left unanswered; 0: none */
    char name[SESSION_NAME_BYTES_MAX + 1];
};

void session_init(struct session *session, struct front_state *service, uint64_t id, pid_t pid, uid_t uid);

/* Ends it. Its leases are released at once, its requests withdrawn. Idempotent. */
void session_end(struct session *session, struct front_state *service, instant_ns now_ns);

/* Ends it because the agent closes the connection while the client's process may live: tells `lost` for each
 * lease and deletes nothing before its deadline. Returns true when leases stay that session_end() must
 * release when the process dies. */
bool session_expel(struct session *session, struct front_state *service, const char *why, instant_ns now_ns);

static inline bool session_ready(const struct session *session) {
    return session->state == SESSION_READY;
}

/* It has no more on the way than it may: otherwise nothing is to be taken from it until the registry says
 * so. */
static inline bool session_may_ask(struct session *session, struct front_state *service) {
    return registry_may_ask(&service->registry, session, session->uid);
}

/* One request: `tokens` are its items, at least one. */
void session_request(struct session *session, struct front_state *service, const struct resp_token *tokens,
                     size_t n_tokens, instant_ns now_ns);

/* The registry's sink. */
void session_outcome(void *service, struct request *request, const struct request_outcome *outcome,
                     instant_ns now_ns);

/* The answer to a LEADER. */
void session_looked(struct session *session, struct front_state *service, const struct report *report);

/* Who has a name's key: its lock value, or (foreign_type) the type of what is no lock. */
struct session_holder {
    const char *value;
    size_t length;
    bool foreign_type;
    int64_t token;
};

/* Pairs of a map, so many: holder, host, fence and data, as they stand in the lock value; and the type,
 * where there is no such value. */
size_t session_holder_pairs(const struct session_holder *holder);
void session_put_holder(struct resp_writer *writer, const struct session_holder *holder);

/* Tells that the agent is about to stop. */
void session_tell_draining(struct session *session, struct front_state *service);

/* An error reply: "WORD text". */
void session_error(struct session *session, struct front_state *service, const char *word,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The reply under composition in service->reply: begin, put, send. */
struct resp_writer session_compose(struct front_state *service);
void session_send(struct session *session, struct front_state *service, const struct resp_writer *writer);

const char *session_reason_word(enum reason reason);
