/* The local layer as the front thread drives it, for tests: requests of its sessions go in as text, replies
 * and pushes come out as bytes. The keeper is the test's. */
#pragma once

#include "local/disconnect.h"
#include "local/leader.h"
#include "local/listing.h"
#include "local/observe.h"
#include "local/registry-report.h"
#include "local/session.h"

enum { LISTENERS = 8, SESSIONS_MAX = 1008, OUTPUT_MAX = 400 * 1024 };

extern struct local_harness {
    struct front_state front;
    struct session sessions[SESSIONS_MAX];
    char output[LISTENERS][OUTPUT_MAX]; /* of the first sessions */
    size_t output_length[LISTENERS];
    unsigned crowd_pushes; /* to the others */
    unsigned units;        /* of the last request, see local/work-share.h */
    instant_ns now_ns;
} harness;

struct local_harness_setup {
    struct front_state_identity identity;
    struct front_state_sink sink;       /* but write */
    struct registry_sink registry_sink; /* but outcome and userdata */
    uint32_t requests_max, limit;
    unsigned sessions;
};

void local_harness_begin(const struct local_harness_setup *setup);

/* The session becomes this user's; it has asked for nothing yet. */
void local_harness_set_user(unsigned session, uid_t uid);

/* One request of a session. */
void ask(unsigned session, const char *line);
void ask_bytes(unsigned session, const char *bytes, size_t length);

/* All keepers have reported their counters: the sessions get their listings. */
void local_harness_counted(void);

/* As the keeper reports it, when it grants what the command asks for. */
instant_ns local_harness_cooldown_until_ns(const struct command *command);
