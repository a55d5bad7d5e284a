/* The text of a node's epoch key, and which fleet it names. What an epoch means: core/node.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"

enum {
    EPOCH_BYTES_MAX = 160,
    FLEET_BYTES = 17, /* of a fleet's digits */
};

/* "run_id max_ttl floor fleet rested generation", or "unrested"; behind it the proposed max_ttl, if any. */
struct epoch {
    char run_id[48]; /* the process that it names */
    uint32_t max_ttl_ms;
    int64_t floor_us;
    char fleet[FLEET_BYTES];
    bool rested;
    uint32_t generation;
    uint32_t proposed_ms; /* 0: none */
};

/* False when it is none, or an older agent's. */
bool epoch_read(const char *text, struct epoch *ret);

/* What it is changed to, for this fleet. */
void epoch_amend(const struct epoch *epoch, const struct amendment *amendment, const char *fleet,
                 char text[static EPOCH_BYTES_MAX]);
