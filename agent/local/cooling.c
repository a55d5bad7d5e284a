#include "local/cooling.h"

#include <assert.h>
#include <string.h>

#include "base/memory-layout.h"
#include "local/registry.h"

/* --- memory --- */

static size_t text_bytes(void) {
    return shared_string_pool_bytes((size_t) COOLING_NAMES_MAX, NAME_BYTES_MAX);
}

static size_t lay_out(struct cooling_table *table, unsigned char *memory) {
    size_t offset = 0;

    void *names = memory_layout_next(memory, &offset, COOLING_NAMES_MAX * sizeof(struct cooling_name));
    uint32_t *buckets =
        memory_layout_next(memory, &offset, hash_table_buckets(COOLING_NAMES_MAX) * sizeof(uint32_t));
    void *due = memory_layout_next(memory, &offset, timer_queue_memory_bytes(COOLING_NAMES_MAX));
    void *texts = memory_layout_next(memory, &offset, text_bytes());

    if (memory) {
        hash_table_init(&table->names, names, sizeof(struct cooling_name), COOLING_NAMES_MAX, buckets,
                        &table->texts);
        timer_queue_init(&table->due, due, COOLING_NAMES_MAX);
        shared_string_pool_init(&table->texts, texts, text_bytes());
    }
    return offset;
}

size_t cooling_memory_bytes(void) {
    return lay_out(NULL, NULL);
}

void cooling_init(struct cooling_table *table, void *memory) {
    assert(memory);

    *table = (struct cooling_table){0};
    (void) lay_out(table, memory);
}

/* --- names --- */

static struct cooling_name *at(const struct cooling_table *table, uint32_t index) {
    return pool_at(&table->names.pool, index);
}

static void forget(struct cooling_table *table, uint32_t index) {
    timer_queue_remove(&table->due, index);
    hash_table_remove(&table->names, index);
}

static void forget_first(struct cooling_table *table) {
    forget(table, timer_queue_first(&table->due));
}

void cooling_begin(struct cooling_table *table, const struct request *request, uint64_t id) {
    const struct hash_table_key *name = &request->name->key;

    assert(request->cooldown_until_ns > 0);
    cooling_end(table, name->hash);
    if (table->names.pool.taken == COOLING_NAMES_MAX) {
        if (timer_queue_earliest(&table->due) >= request->cooldown_until_ns)
            return;
        forget_first(table);
    }
    struct cooling_name *cooling =
        hash_table_add(&table->names, name->hash, name->text->bytes, name->text->head_length);
    if (!cooling)
        return;
    cooling->ttl_ms = request->terms.ttl_ms;
    cooling->id = id;
    cooling->until_ns = request->cooldown_until_ns;
    cooling->asked_ns = request->asked_ns;
    cooling->token = request->token;
    cooling->pid = request->pid;
    cooling->uid = request->uid;
    timer_queue_set(&table->due, pool_index(&table->names.pool, struct cooling_name, cooling),
                    request->cooldown_until_ns);
}

void cooling_end(struct cooling_table *table, uint64_t name_hash) {
    const struct cooling_name *cooling = hash_table_find_hash(&table->names, name_hash);

    if (cooling)
        forget(table, pool_index(&table->names.pool, struct cooling_name, cooling));
}

uint32_t cooling_count(struct cooling_table *table, instant_ns now_ns) {
    while (timer_queue_earliest(&table->due) <= now_ns)
        forget_first(table);
    return table->names.pool.taken;
}

const struct cooling_name *cooling_find(struct cooling_table *table, uint64_t name_hash, instant_ns now_ns) {
    return cooling_count(table, now_ns) > 0 ? hash_table_find_hash(&table->names, name_hash) : NULL;
}

/* --- listing --- */

static uint64_t slot_of(uint64_t id) {
    return id & (REQUESTS_MAX - 1);
}

bool cooling_precedes(uint64_t id, uint64_t other_id) {
    return slot_of(id) != slot_of(other_id) ? slot_of(id) < slot_of(other_id) : id < other_id;
}

size_t cooling_list(struct cooling_table *table, const struct cooling_query *query, size_t max,
                    const struct cooling_name *ret[]) {
    size_t n = 0;

    if (cooling_count(table, query->now_ns) == 0)
        return 0;
    for (uint32_t i = 0; i < table->names.pool.touched; i++) {
        const struct cooling_name *cooling = at(table, i);
        size_t place = n;
        if (!cooling->key.text || slot_of(cooling->id) >= query->slots ||
            (query->after != 0 && !cooling_precedes(query->after, cooling->id)) ||
            !query->wants(query->session, cooling))
            continue;
        while (place > 0 && cooling_precedes(cooling->id, ret[place - 1]->id))
            place--;
        if (place == max)
            continue;
        n += n < max;
        memmove(&ret[place + 1], &ret[place], (n - place - 1) * sizeof(void *));
        ret[place] = cooling;
    }
    return n;
}
