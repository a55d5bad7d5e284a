/* Cooling names: leases of this host that have ended, while their COOLDOWN keeps the name taken. For people
 * alone (STATUS, LEASES, LEADER): the keys on the nodes exclude others, not this table. Owned by the front
 * thread.
 *
 * A name is listed from the end of its lease to the end of the cooldown, or until this agent grants it
 * again: its keys may be lost, or deleted by a person. If more than COOLING_NAMES_MAX names cool, those
 * whose cooldown ends first are missing. A restarted agent begins with an empty table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash-table.h"
#include "base/shared-string.h"
#include "base/timer-queue.h"

struct request;
struct session;

struct cooling_name {
    struct hash_table_key key; /* the name */
    uint64_t id;               /* of the lease that has ended */
    instant_ns until_ns;       /* the end of the cooldown */
    instant_ns asked_ns;
    int64_t token;
    int64_t pid;
    int64_t uid;
    uint32_t ttl_ms;
};

struct cooling_table {
    struct hash_table names;
    struct timer_queue due;
    struct shared_string_pool texts;
};

size_t cooling_memory_bytes(void);

/* `memory`: that many zeroed bytes, aligned to 4,096, which the caller frees after the last use. */
void cooling_init(struct cooling_table *table, void *memory);

/* The lease of this request, with this id, has ended; it has a cooldown. Of two leases of one name the last
 * one counts. */
void cooling_begin(struct cooling_table *table, const struct request *request, uint64_t id);

/* Removes names whose cooldown has ended. Returns the number of the others. */
uint32_t cooling_count(struct cooling_table *table, instant_ns now_ns);

/* The name with this hash has another lease: it cools no longer. */
void cooling_end(struct cooling_table *table, uint64_t name_hash);

/* The cooling name with this hash, or NULL. */
const struct cooling_name *cooling_find(struct cooling_table *table, uint64_t name_hash, instant_ns now_ns);

struct cooling_query {
    uint64_t after; /* an id, or 0 */
    uint32_t slots; /* only leases that had a slot before this one */
    instant_ns now_ns;
    bool (*wants)(const struct session *session, const struct cooling_name *name);
    const struct session *session;
};

/* Lists the names that `wants` accepts behind the lease with the id `after`, in the order of
 * cooling_precedes(). Returns how many, at most `max`. */
size_t cooling_list(struct cooling_table *table, const struct cooling_query *query, size_t max,
                    const struct cooling_name *ret[]);

/* The order of LEASES: by the slot of the request, then by its generation. */
bool cooling_precedes(uint64_t id, uint64_t other_id);
