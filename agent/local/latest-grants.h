/* The latest grants of this host, for people who watch: of each of the last names the last grant. A fixed
 * number: a further name takes the place of the one that was granted longest ago. So a name that is granted
 * again and again has one place. Part of the registry; it has no lock values. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/limits.h"

enum { LATEST_GRANTS_MAX = 64 };

struct latest_grants_entry {
    uint64_t id; /* of the lease, which may have ended */
    instant_ns asked_ns, granted_ns;
    int64_t token;
    int32_t pid;
    uint32_t uid;
    uint32_t ttl_ms;
    uint16_t name_length;
    char name[NAME_BYTES_MAX]; /* last: bytes behind name_length are undefined */
};

struct latest_grants {
    uint64_t hashes[LATEST_GRANTS_MAX]; /* of the names; 0: no entry */
    instant_ns at_ns[LATEST_GRANTS_MAX];
    struct latest_grants_entry entries[LATEST_GRANTS_MAX];
};

struct request;

/* The request with this id was granted now. */
void latest_grants_note(struct latest_grants *latest, const struct request *request, uint64_t id,
                        instant_ns now_ns);

/* Returns how many there are: the latest first. */
size_t latest_grants_list(const struct latest_grants *latest,
                          const struct latest_grants_entry *ret[LATEST_GRANTS_MAX]);
