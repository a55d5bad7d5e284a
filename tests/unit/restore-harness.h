/* One process of the agent after another: the ledger of the first has all replies that its clients have, and
 * the next process continues from it. The harness is the keeper; output is sent when the test flushes it. */
#pragma once

#include "local-harness.h"
#include "local/recovery/recovery.h"
#include "local/resume-token.h"

enum { COMMANDS_MAX = 64, REQUESTS = 16, ENTRIES = 64, LEFT_MS = 9898, TIMEOUT_MS = 100 };

struct keeper {
    struct command commands[COMMANDS_MAX];
    unsigned n_commands;
    bool nobody_reads;     /* else clients read their grants at once */
    bool nothing_is_known; /* whether they have read them */
};

/* What the next process finds. */
struct finds {
    unsigned missing; /* connections that did not come along, a bit each, */
    unsigned torn;    /* because the knowledge of their clients is unknown, */
    unsigned dead;    /* sessions with a dead process */
    unsigned left;    /* the same, but another process has the connection */
    unsigned resp2;   /* sessions that take no pushes */
    uint32_t max_ttl_ms, requests_max;
    uint64_t key_format;
};

extern struct keeper keeper;
extern struct finds finds;
extern struct ledger ledger; /* of the present process */
extern struct recovery_result result;
extern uint32_t slots; /* recovery_slots() of the former process's ledger */

void restore_harness_begin(void);

/* Sends the session's output. */
void flush(unsigned session);

/* The process is killed, and the next one has restored its state, but takes no requests yet. */
void replace(void);

/* The process takes requests. */
void serve(void);

/* The session's output, and whether it has this text. */
const char *got(unsigned session);
bool has(unsigned session, const char *text);
void clear(void);

const struct command *last_command(void);
unsigned count_commands(enum command_kind kind, uint64_t request);

/* The keeper's report; a failure is NOTHELD unless given. */
void report_with(uint64_t request, enum report_kind kind, enum failure failure);
void report(uint64_t request, enum report_kind kind);

void pass_ms(int64_t ms);

/* Granted, and the grant is sent. */
uint64_t hold(unsigned session, const char *line);

/* The client has the reply `waiting`. */
uint64_t wait_for(unsigned session, const char *line);

/* Sends RELEASE, CHECK or BEAT with the id; RESUME of a lease that another agent granted. */
void ask_id(unsigned session, const char *word, uint64_t id);
void resume(unsigned session, const char *name, const char *options);
void resume_cooling(unsigned session, const char *name, const char *options, instant_ns cooldown_until_ns);

/* The same with another token than this one of a lease with a ttl of 10 s. */
struct resume_token resume_token_of_10_s(void);
void resume_token(unsigned session, const char *name, const struct resume_token *token, const char *options);
