/* The names that anybody of this host asks for or holds, each with its line. Pure, part of the registry. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/shared-string.h"
#include "core/event.h"

struct name_table_entry {
    uint32_t pool_link;
    uint32_t next_in_bucket; /* index + 1 */
    uint64_t hash;
    struct shared_string *text;
    struct list queue;
    struct shared_string *seen; /* why the first in line has not got it, in words; NULL: see seen_failure */
    uint8_t seen_failure;       /* 1 + enum failure of its last attempt; 0: none has come to an end yet */
    uint16_t handoffs_max;      /* of a turn; its tokens are reserved with it: see handoff.h */
    int32_t pause_ns;           /* before the next one contends */
    instant_ns
        seen_ns; /* what it says of times left is as of then; or when others were known to wait; 0: never */
    int64_t token_last; /* the largest fencing token that was reserved here */
};

struct name_table {
    struct pool pool;
    uint32_t *buckets; /* index + 1; as many as names */
    struct shared_string_pool *texts;
    uint64_t hash_key[2];
};

/* `count`: a power of two. `memory` for that many names, `buckets` as many; both zeroed. */
void name_table_init(struct name_table *names, uint32_t count, void *memory, uint32_t *buckets,
                     struct shared_string_pool *texts);
void name_table_set_key(struct name_table *names, const uint64_t hash_key[2]);

uint64_t name_table_hash(const struct name_table *names, const char *bytes, size_t length);

/* The name, made with an empty line if need be; NULL when there is no room for its text. */
struct name_table_entry *name_table_get(struct name_table *names, const char *bytes, size_t length);

/* The same, or NULL when nobody here asks for it. */
struct name_table_entry *name_table_find(const struct name_table *names, const char *bytes, size_t length);

/* Its line is empty. */
void name_table_free(struct name_table *names, struct name_table_entry *name);
