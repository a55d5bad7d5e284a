/* The parts of the conformance test: both nodes, what the last probe showed of them, and the steps. */
#pragma once

#include <hiredis/hiredis.h>

#include "io/node/epoch.h"
#include "io/node/script.h"
#include "node.h"

#define FORMER_RUN_ID "f0123456789"
#define FOREIGN_VALUE "foreign"

enum {
    STEPS = 40,
    FORMER_PROCESS = 999, /* the process of the node before a restart with its data */
    LONG_TTL_MS = 100000,
    ITEMS_MAX = 32, /* of a script call */
    SECRETS = 4,
    VALUE_BYTES = 80,
};

extern redisContext *server;
extern struct sim_node node;
extern char known_epoch[EPOCH_BYTES_MAX];
extern uint32_t known_sim_epoch;
extern int64_t known_sim_floor_us;
extern uint32_t known_sim_generation;
extern bool published; /* by the simulated node */
extern char history[STEPS * SIM_NAMES * 128];

/* Prints the requests so far, and ends the program. */
_Noreturn void fail(const char *what);

/* Calls the script at the server. */
redisReply *run(enum script_id script, int argc, const char *const *argv, int n_keys);

void key_of(unsigned name, char ret[2]);
/* The random part with this index: 0 to 2 belong to one lease, with the numbers 65535, 0 and 1; 3 belongs to
 * another lease. */
void secret_of(unsigned secret, uint8_t ret[SECRET_BYTES]);
void value_of(const uint8_t secret[SECRET_BYTES], unsigned owner, char ret[VALUE_BYTES]);

/* Tokens are compared by their distance from the floor, since the two nodes have different floors. */
int64_t known_floor_us(void);

/* The largest token that the server has accepted, and the holder's token. */
void read_fence(unsigned name, int64_t ret[2]);

/* One random request to both nodes, and the comparison of their answers. */
void step_acquire(void);
void step_request(void);
void step_together(void);
void step_probe(void);
