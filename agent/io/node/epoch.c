#include "io/node/epoch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool epoch_read(const char *text, struct epoch *ret) {
    struct epoch epoch = {0};
    char rested[16];
    int end = 0;

    if (sscanf(text, "%47[0-9a-zA-Z] %" SCNu32 " %" SCNd64 " %16[0-9a-f] %15[a-z] %" SCNu32 "%n",
               epoch.run_id, &epoch.max_ttl_ms, &epoch.floor_us, epoch.fleet, rested, &epoch.generation,
               &end) != 6)
        return false;
    if (text[end] != '\0' && sscanf(text + end, " %" SCNu32, &epoch.proposed_ms) != 1)
        return false;
    epoch.rested = strcmp(rested, "rested") == 0;
    if (epoch.max_ttl_ms > TTL_MS_MAX)
        epoch.max_ttl_ms = TTL_MS_MAX;
    if (epoch.floor_us < 0 || epoch.floor_us >= INT64_C(1) << 53)
        epoch.floor_us = 0;
    *ret = epoch;
    return true;
}

void epoch_amend(const struct epoch *epoch, const struct amendment *amendment, const char *fleet,
                 char text[static EPOCH_BYTES_MAX]) {
    char proposed[16] = "";

    if (amendment->proposed_ms != 0)
        (void) snprintf(proposed, sizeof(proposed), " %u", (unsigned) amendment->proposed_ms);
    (void) snprintf(text, EPOCH_BYTES_MAX, "%s %u %lld %s %s %u%s", epoch->run_id,
                    (unsigned) amendment->max_ttl_ms, (long long) epoch->floor_us, fleet,
                    epoch->rested ? "rested" : "unrested", (unsigned) epoch->generation + 1, proposed);
}
