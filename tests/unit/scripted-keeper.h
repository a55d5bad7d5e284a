/* A keeper for tests of the local layer: notes the commands that it gets, and reports what the test says. */
#pragma once

#include "local-harness.h"

enum { COMMANDS_MAX = 64 };

extern struct scripted_keeper {
    struct command commands[COMMANDS_MAX];
    char command_names[COMMANDS_MAX][NAME_BYTES_MAX + 1];
    unsigned n_commands;
    unsigned surveys;
    bool nobody_reads;
    unsigned losses; /* that the registry has reported */
    enum reason last_loss;
} keeper;

/* A new front with LISTENERS sessions, of at most `limit` requests. */
void begin(uint32_t limit);

/* ACQUIRE with a name of any bytes. */
void ask_name(unsigned session, const char *name, size_t name_length);

/* The session's output since the last request or clear(). */
const char *got(unsigned session);

bool begins(unsigned session, const char *prefix);

/* Forgets all output. */
void clear(void);

/* NULL: none yet. */
const struct command *last_command(void);

/* The keeper's report: a grant or extension has 9,898 ms left and token 7. */
void report(uint64_t request, enum report_kind kind);

/* Grants the request from the queue that the last command contends for; the lease may be handed off. */
void grant_from_queue(void);

/* Asks and is granted. Returns the id in the command. */
uint64_t hold(unsigned session, const char *line);

/* The sinks, for a test with a setup of its own. */
void on_command(void *userdata, uint64_t hash, const struct command *command);

void on_survey(void *userdata);
