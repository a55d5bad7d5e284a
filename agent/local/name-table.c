#include "local/name-table.h"

#include <assert.h>

#include "base/hash.h"

void name_table_init(struct name_table *names, uint32_t count, void *memory, uint32_t *buckets,
                     struct shared_string_pool *texts) {
    hash_table_init(&names->table, memory, sizeof(struct name_table_entry), count, buckets, texts);
}

uint64_t name_table_hash(const struct name_table *names, const char *bytes, size_t length) {
    return hash_bytes(names->hash_key, bytes, length);
}

struct name_table_entry *name_table_find(const struct name_table *names, const char *bytes, size_t length) {
    return hash_table_find(&names->table, name_table_hash(names, bytes, length), bytes, length);
}

struct name_table_entry *name_table_get(struct name_table *names, const char *bytes, size_t length) {
    uint64_t hash = name_table_hash(names, bytes, length);
    struct name_table_entry *name = hash_table_find(&names->table, hash, bytes, length);

    if (name)
        return name;
    name = hash_table_add(&names->table, hash, bytes, length);
    if (name) {
        name->handoffs_max = HANDOFFS_MAX;
        list_init(&name->queue);
    }
    return name;
}

void name_table_free(struct name_table *names, struct name_table_entry *name) {
    assert(list_is_empty(&name->queue));

    name->seen = shared_string_unref(names->table.texts, name->seen);
    hash_table_remove(&names->table, pool_index(&names->table.pool, struct name_table_entry, name));
}
