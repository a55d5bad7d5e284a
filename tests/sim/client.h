/* A simulated client: it speaks the protocol to its agent's front; it requests, holds, releases, dies and
 * hangs. It has its own deadline, until which it considers its lease valid. */
#pragma once

#include "agent.h"
#include "observer.h"

enum client_state {
    CLIENT_IDLE,
    CLIENT_ASKING,
    CLIENT_HOLDING,
    CLIENT_RELEASING,
    CLIENT_CUT_OFF,  /* its session or agent has ended, and it lives: it holds on until its deadline */
    CLIENT_RESUMING, /* and asks an agent to resume its lease, or one that it had once */
};

/* What the next replies answer. */
enum expected {
    EXPECTED_OTHER,
    EXPECTED_OUTCOME,
    EXPECTED_RELEASE,
    EXPECTED_CHECK,
    EXPECTED_BEAT,
    EXPECTED_NOTHING, /* of another user's lease */
    EXPECTED_REFUSAL, /* the same, to RESUME */
};

enum { EXPECTED_MAX = 16 };

struct client {
    enum client_state state;
    unsigned agent, name;
    unsigned process; /* the clients before it have died */
    int protocol;
    bool paged, pushes;       /* of its session */
    int64_t stopped_until_ns; /* its process: it reads nothing */
    enum expected expected[EXPECTED_MAX];
    unsigned n_expected;
    uint64_t id;
    bool holding;
    bool releases_lease; /* while it releases: it had its lease, and did not wait for one */
    bool closed;         /* its agent has closed the session of this lease, and does not resume it */
    bool denied;         /* CHECK has said that the lease is over */
    int64_t deadline_ns; /* by its host's clock, as last seen */
    int64_t slot;
    int64_t asked_ns;
    size_t behind_bytes;  /* that it has sent since then */
    int64_t answer_by_ns; /* of the unanswered request, in true time */
    bool untroubled;      /* when it asked, nothing was in the way of a majority */
    struct sim_ask ask;   /* its request, or its last lease's */
    struct sim_ask lease;
    char token[SIM_TOKEN_BYTES];       /* to resume it; "": none */
    char ended_token[SIM_TOKEN_BYTES]; /* of the lease that its agent last reported as released or lost */
    unsigned ended_by;
    unsigned hung_up;                     /* agents at which the client has ended a session with its lease */
    uint32_t ended_life;                  /* of the agent */
    int64_t true_moved_ns, moved_left_ns; /* it asked another agent to resume its lease then, whose keys */
    node_set moved_keys;                  /* on these nodes would live for so long */
    int64_t fence;
    uint8_t secrets[2][SECRET_BYTES]; /* its own, and the one in the keys, at the grant */
};

extern struct client sim_clients[SIM_CLIENTS_MAX];
extern unsigned sim_n_clients;

/* Of the clients of one schedule. */
struct client_habits {
    bool crowded;    /* most contend for one name, for a short while each */
    uint32_t ttl_ms; /* that most request */
    bool heartbeat;  /* most request one: else few hand-offs have one */
    int64_t pace_ns; /* they act in step, so that their agents act in one turn; 0: they do not */
};

extern struct client_habits client_habits;

static inline unsigned client_index(const struct client *client) {
    return (unsigned) (client - sim_clients);
}

static inline struct sim_agent *client_agent(const struct client *client) {
    return &sim_agents[client->agent];
}

/* --- its life (client.c) --- */

/* The rules don't protect clients of an agent without quarantine among agents with quarantine. */
bool client_has_promises(unsigned agent);

void client_step_later(const struct client *client, int64_t delay_ns);

/* The client closes its session with the agent that it has left. */
void client_close_former(const struct client *client);

/* The client has no lease and no request, and begins anew soon. */
void client_become_idle(struct client *client);

/* The client holds by its own deadline, may try to resume, and begins anew after the deadline. */
void client_cut_off(struct client *client);

/* --- the invariants (exclusion.c) --- */

void exclusion_reset(void);
bool exclusion_holds(const struct client *client);

/* Its lease becomes, or stays, valid: no other client's may be. */
void exclusion_check(const struct client *client);

/* It sends its request now, and expects the answer in time. */
void exclusion_expect_answer(struct client *client);
void exclusion_check_answered(const struct client *client);

/* `error`: NULL: granted. `behind_resume`: so says the error's text. */
void exclusion_check_answer(const struct client *client, const char *error, bool behind_resume);

/* The client has the reply `waiting` to its request: its rule must allow one more waiter. */
void exclusion_check_waits(const struct client *client);

void exclusion_check_token(const struct client *client, int64_t token, bool was_valid);
void exclusion_check_handed_over(const struct client *client);

/* Its agent has acquired the name for the client at that instant of the host's clock. */
void exclusion_note_acquired(const struct client *client, int64_t acquired_ns);

/* A request fails with the result of an attempt of so long ago. */
void exclusion_check_age(const struct client *client, int64_t ago_ms);
void exclusion_note_risk(const struct client *client, bool at_risk);

/* The client has asked another agent for its lease; the answer is NOTHELD. */
void exclusion_moves(struct client *client);
void exclusion_check_not_held(const struct client *client);

/* The client holds a lease, and its host may have been halted. */
void exclusion_check_halted(const struct client *client);

/* No page shows a lease of the name that its client releases. */
void exclusion_check_pages(const struct client *granted);
