/* A registry without sessions: records its commands and its outcomes. The test is the keeper. */
#pragma once

#include "local/registry-report.h"

enum { REQUESTS = 1024, NOTES_MAX = 4096 };

struct registry_harness {
    struct registry registry;
    struct admission_requester requests[2]; /* of two sessions, which are nothing else here */
    struct command commands[NOTES_MAX];
    char texts[NOTES_MAX][64];
    unsigned n_commands;
    struct {
        enum request_outcome_kind kind;
        uint64_t id;
        uint8_t secret;
    } outcomes[NOTES_MAX];
    unsigned n_outcomes, changes;
    uint8_t secrets;
    instant_ns now_ns;
    void *memory;
};

extern struct registry_harness harness;

void registry_harness_begin(void);

/* Requests, by default for the name "x" and without end; their ids. */
struct registry_ask usual(void);
uint64_t ask_of(unsigned session, const struct registry_ask *ask);
uint64_t ask_with(const struct registry_ask *ask);
uint64_t ask(void);

struct request *request_of(uint64_t id);
/* The keeper's number of the request. */
uint64_t handle_of(uint64_t id);
void report(enum report_kind kind, uint64_t number);

/* A grant by the last command, which contends: with all the tokens that it asked for. */
void grant(void);

/* A release of this name had subscribers. */
void awaited(const char *name);

void release(uint64_t id);

unsigned count_commands(enum command_kind kind);
const struct command *last_command(void);

/* A holder that contended alone releases; the first of the queue is granted the lease. Returns its id. */
uint64_t grant_from_line(const uint64_t *line);
