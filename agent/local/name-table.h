/* The names that requests of this host contend for, wait for or hold, each with its queue. Part of the
 * registry. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash-table.h"
#include "base/instant.h"
#include "base/list.h"
#include "core/event.h"

struct name_table_entry {
    struct hash_table_key key;
    struct list queue;
    struct shared_string *seen; /* the result of the last attempt, in words; NULL: see seen_failure */
    uint8_t seen_failure;       /* 1 + enum failure of the last attempt; 0: no attempt has ended */
    bool seen_own : 1;          /* that attempt met a key of this agent */
    bool overdue : 1;           /* a request of the queue may be overdue */
    bool resumed_twice : 1;     /* the last RESUME began beside another user's */
    uint16_t handoffs_max;      /* of a series of hand-offs, and its tokens: handoff.h */
    int32_t pause_ns;           /* before the next request contends */
    instant_ns seen_ns; /* when the last attempt ended, or another host was known to wait; 0: never */
    int64_t token_last; /* the largest fencing token reserved on this host */
};

struct name_table {
    struct hash_table table;
    uint64_t hash_key[2];
};

/* `memory` has room for `count` names, `buckets` for hash_table_buckets() indices; both are zeroed. */
void name_table_init(struct name_table *names, uint32_t count, void *memory, uint32_t *buckets,
                     struct shared_string_pool *texts);

uint64_t name_table_hash(const struct name_table *names, const char *bytes, size_t length);

/* The name, which is made with an empty queue if need be. NULL: no room for its text. */
struct name_table_entry *name_table_get(struct name_table *names, const char *bytes, size_t length);

/* The name, or NULL if no request of this host has it. */
struct name_table_entry *name_table_find(const struct name_table *names, const char *bytes, size_t length);

/* Its queue is empty. */
void name_table_free(struct name_table *names, struct name_table_entry *name);
