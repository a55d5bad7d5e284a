/* A hash table of byte strings: items of a pool, chained by index, in the caller's memory. The caller
 * computes the hashes (hash.h), so that tables can share them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/shared-string.h"

/* Each item begins with its key. */
struct hash_table_key {
    uint32_t pool_link;
    uint32_t next; /* in the bucket: index + 1; 0: none */
    uint64_t hash;
    struct shared_string *text; /* its head is the key; NULL: the item is free */
};

struct hash_table {
    struct pool pool;
    uint32_t *buckets; /* index + 1 */
    uint32_t mask;
    struct shared_string_pool *texts;
};

/* How many buckets a table of this capacity has. */
uint32_t hash_table_buckets(uint32_t capacity);

/* `items` and `buckets` are zeroed. */
void hash_table_init(struct hash_table *table, void *items, size_t item_bytes, uint32_t capacity,
                     uint32_t *buckets, struct shared_string_pool *texts);

/* The item with this key, or NULL. */
void *hash_table_find(const struct hash_table *table, uint64_t hash, const void *bytes, size_t length);

/* The newest item with this hash, or NULL. */
void *hash_table_find_hash(const struct hash_table *table, uint64_t hash);

/* Adds an item, zeroed behind its key, which the table must not have. NULL: no item or no room for the text
 * is left. */
void *hash_table_add(struct hash_table *table, uint64_t hash, const void *bytes, size_t length);

void hash_table_remove(struct hash_table *table, uint32_t index);
