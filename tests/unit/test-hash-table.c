/* The hash table, with long chains; and the delays of back-off. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/back-off.h"
#include "base/hash-table.h"
#include "tap.h"

enum { ITEMS = 100, TEXT_BYTES = 2 * SHARED_STRING_BLOCK_BYTES };

struct item {
    struct hash_table_key key;
    uint64_t value;
};

static struct hash_table table;
static struct shared_string_pool texts;
static struct item items[ITEMS];
static uint32_t buckets[128];

/* Few hashes, so that chains are long, and different keys have the same hash. */
static uint64_t hash_of(unsigned i) {
    return i % 7;
}

static struct item *find(unsigned i) {
    char name[16];
    return hash_table_find(&table, hash_of(i), name, (size_t) sprintf(name, "%u", i));
}

static struct item *add(unsigned i) {
    char name[16];
    return hash_table_add(&table, hash_of(i), name, (size_t) sprintf(name, "%u", i));
}

static void drop(unsigned i) {
    hash_table_remove(&table, pool_index(&table.pool, struct item, find(i)));
}

static void test_table(void) {
    bool zeroed = true, found = true, gone = true;

    is_int(hash_table_buckets(ITEMS), 128, "a power of two of buckets");
    for (unsigned i = 0; i < ITEMS; i++) {
        struct item *item = add(i);
        zeroed = zeroed && item && item->value == 0;
        if (item)
            item->value = i;
    }
    ok(zeroed, "new items are zeroed");
    ok(!add(ITEMS) && !find(ITEMS), "a full table takes no item");
    for (unsigned i = 0; i < ITEMS; i += 3)
        drop(i);
    for (unsigned i = 0; i < ITEMS; i++)
        if (i % 3 == 0)
            gone = gone && !find(i);
        else
            found = found && find(i) && find(i)->value == i;
    ok(gone && found, "removed items are gone, the others are found");
    is_int(add(0) ? (int) find(0)->value : -1, 0, "a used place is zeroed again");
    ok(hash_table_find_hash(&table, 0) == find(0), "by the hash alone: the newest");
    ok(!hash_table_find_hash(&table, 7 + 128), "not by the bucket alone");
}

static void test_back_off(void) {
    static const int64_t longest[] = {20, 40, 80, 100, 100};
    struct random random;
    bool within = true;

    random_init(&random, 5);
    for (unsigned i = 0; i < 5000; i++) {
        int64_t delay = back_off_delay(&random, 20, 100, i % 5);
        within = within && delay >= longest[i % 5] / 2 && delay <= longest[i % 5];
    }
    ok(within, "delays double up to the longest, and are at least half as long");
    ok(back_off_delay(&random, 1, INT64_MAX / 2, UINT32_MAX) >= INT64_MAX / 4, "and do not overflow");
}

int main(void) {
    void *memory = calloc(1, TEXT_BYTES);

    if (!memory)
        abort();
    shared_string_pool_init(&texts, memory, TEXT_BYTES);
    hash_table_init(&table, items, sizeof(struct item), ITEMS, buckets, &texts);
    test_table();
    test_back_off();
    free(memory);
    return done_testing();
}
