#include "base/hash-table.h"

#include <string.h>

#include "base/bytes.h"

uint32_t hash_table_buckets(uint32_t capacity) {
    uint32_t count = 1;

    while (count < capacity)
        count *= 2;
    return count;
}

void hash_table_init(struct hash_table *table, void *items, size_t item_bytes, uint32_t capacity,
                     uint32_t *buckets, struct shared_string_pool *texts) {
    *table =
        (struct hash_table){.buckets = buckets, .mask = hash_table_buckets(capacity) - 1, .texts = texts};
    pool_init(&table->pool, items, item_bytes, capacity);
}

void *hash_table_find(const struct hash_table *table, uint64_t hash, const void *bytes, size_t length) {
    for (uint32_t at = table->buckets[hash & table->mask]; at != 0;) {
        struct hash_table_key *key = pool_at(&table->pool, at - 1);
        if (key->hash == hash && bytes_equal(key->text->bytes, key->text->head_length, bytes, length))
            return key;
        at = key->next;
    }
    return NULL;
}

void *hash_table_find_hash(const struct hash_table *table, uint64_t hash) {
    for (uint32_t at = table->buckets[hash & table->mask]; at != 0;) {
        struct hash_table_key *key = pool_at(&table->pool, at - 1);
        if (key->hash == hash)
            return key;
        at = key->next;
    }
    return NULL;
}

void *hash_table_add(struct hash_table *table, uint64_t hash, const void *bytes, size_t length) {
    struct shared_string *text = shared_string_new(table->texts, bytes, length, NULL, 0);
    uint32_t *bucket = &table->buckets[hash & table->mask];
    uint32_t index = text ? pool_take(&table->pool) : POOL_NONE;

    if (index == POOL_NONE) {
        (void) shared_string_unref(table->texts, text);
        return NULL;
    }
    struct hash_table_key *key = memset(pool_at(&table->pool, index), 0, table->pool.item_bytes);
    *key = (struct hash_table_key){.next = *bucket, .hash = hash, .text = text};
    *bucket = index + 1;
    return key;
}

void hash_table_remove(struct hash_table *table, uint32_t index) {
    struct hash_table_key *key = pool_at(&table->pool, index);
    uint32_t *link = &table->buckets[key->hash & table->mask];

    while (*link != index + 1)
        link = &((struct hash_table_key *) pool_at(&table->pool, *link - 1))->next;
    *link = key->next;
    key->text = shared_string_unref(table->texts, key->text);
    pool_give(&table->pool, index);
}
