/* The text of a node's epoch key, by which agents trust it. core/node-epoch.h explains epochs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"

enum {
    EPOCH_BYTES_MAX = 160,
    FLEET_BYTES = 17, /* a fleet's hex digits */
};

/* "run_id max_ttl floor fleet rested|unrested generation [proposed max_ttl]" */
struct epoch {
    char run_id[48]; /* of the server process */
    uint32_t max_ttl_ms;
    int64_t floor_us;
    char fleet[FLEET_BYTES];
    bool rested;
    uint32_t generation;
    uint32_t proposed_ms; /* 0: none */
};

/* False for other texts, such as an older agent's. */
bool epoch_read(const char *text, struct epoch *ret);

/* The text of the amended epoch, for this fleet. */
void epoch_amend(const struct epoch *epoch, const struct amendment *amendment, const char *fleet,
                 char text[static EPOCH_BYTES_MAX]);
