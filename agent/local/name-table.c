#include "local/name-table.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

void name_table_init(struct name_table *names, uint32_t count, void *memory, uint32_t *buckets,
                     struct shared_string_pool *texts) {
    assert((count & (count - 1)) == 0);

    *names = (struct name_table){.buckets = buckets, .texts = texts};
    pool_init(&names->pool, memory, sizeof(struct name_table_entry), count);
}

void name_table_set_key(struct name_table *names, const uint64_t hash_key[2]) {
    memcpy(names->hash_key, hash_key, sizeof(names->hash_key));
}

uint64_t name_table_hash(const struct name_table *names, const char *bytes, size_t length) {
    return hash_bytes(names->hash_key, bytes, length);
}

static uint32_t *bucket_of(const struct name_table *names, uint64_t hash) {
    return &names->buckets[hash & (names->pool.capacity - 1)];
}

static struct name_table_entry *find(const struct name_table *names, uint64_t hash, const char *bytes,
                                     size_t length) {
    for (uint32_t at = *bucket_of(names, hash); at != 0;) {
        struct name_table_entry *name = pool_at(&names->pool, at - 1);
        if (name->hash == hash && bytes_equal(name->text->bytes, name->text->head_length, bytes, length))
            return name;
        at = name->next_in_bucket;
    }
    return NULL;
}

struct name_table_entry *name_table_find(const struct name_table *names, const char *bytes, size_t length) {
    return find(names, name_table_hash(names, bytes, length), bytes, length);
}

struct name_table_entry *name_table_find_hash(const struct name_table *names, uint64_t hash) {
    for (uint32_t at = *bucket_of(names, hash); at != 0;) {
        struct name_table_entry *name = pool_at(&names->pool, at - 1);
        if (name->hash == hash)
            return name;
        at = name->next_in_bucket;
    }
    return NULL;
}

struct name_table_entry *name_table_get(struct name_table *names, const char *bytes, size_t length) {
    uint64_t hash = name_table_hash(names, bytes, length);
    uint32_t *bucket = bucket_of(names, hash);
    struct name_table_entry *known = find(names, hash, bytes, length);

    if (known)
        return known;
    struct shared_string *text = shared_string_new(names->texts, bytes, length, NULL, 0);
    if (!text)
        return NULL;
    uint32_t index = pool_take(&names->pool);
    assert(index != POOL_NONE); /* as many as requests */
    struct name_table_entry *name = pool_at(&names->pool, index);
    *name = (struct name_table_entry){
        .hash = hash, .text = text, .next_in_bucket = *bucket, .handoffs_max = HANDOFFS_MAX};
    list_init(&name->queue);
    *bucket = index + 1;
    return name;
}

void name_table_free(struct name_table *names, struct name_table_entry *name) {
    uint32_t index = pool_index(&names->pool, struct name_table_entry, name);
    uint32_t *link = bucket_of(names, name->hash);

    assert(list_is_empty(&name->queue));
    while (*link != index + 1)
        link = &((struct name_table_entry *) pool_at(&names->pool, *link - 1))->next_in_bucket;
    *link = name->next_in_bucket;
    name->text = shared_string_unref(names->texts, name->text);
    name->seen = shared_string_unref(names->texts, name->seen);
    pool_give(&names->pool, index);
}
