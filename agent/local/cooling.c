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
    void *due = memory_layout_next(memory, &offset, timer_queue_memory_bytes(COOLING_NAMES_MAX));
    void *texts = memory_layout_next(memory, &offset, text_bytes());

    if (memory) {
        pool_init(&table->names, names, sizeof(struct cooling_name), COOLING_NAMES_MAX);
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
    return pool_at(&table->names, index);
}

static void forget(struct cooling_table *table, uint32_t index) {
    at(table, index)->name = shared_string_unref(&table->texts, at(table, index)->name);
    timer_queue_remove(&table->due, index);
    pool_give(&table->names, index);
}

static void forget_first(struct cooling_table *table) {
    forget(table, timer_queue_first(&table->due));
}

void cooling_begin(struct cooling_table *table, const struct request *request, uint64_t id) {
    const struct shared_string *name = request->name->key.text;

    assert(request->cooldown_until_ns > 0);
    if (table->names.taken == COOLING_NAMES_MAX) {
        if (timer_queue_earliest(&table->due) >= request->cooldown_until_ns)
            return;
        forget_first(table);
    }
    struct shared_string *text = shared_string_new(&table->texts, name->bytes, name->head_length, NULL, 0);
    if (!text)
        return;
    uint32_t index = pool_take(&table->names);
    assert(index != POOL_NONE);
    *at(table, index) = (struct cooling_name){.ttl_ms = request->terms.ttl_ms,
                                              .id = id,
                                              .name = text,
                                              .name_hash = request->name->key.hash,
                                              .until_ns = request->cooldown_until_ns,
                                              .asked_ns = request->asked_ns,
                                              .token = request->token,
                                              .pid = request->pid,
                                              .uid = request->uid};
    timer_queue_set(&table->due, index, request->cooldown_until_ns);
}

uint32_t cooling_count(struct cooling_table *table, instant_ns now_ns) {
    while (timer_queue_earliest(&table->due) <= now_ns)
        forget_first(table);
    return table->names.taken;
}

const struct cooling_name *cooling_find(struct cooling_table *table, uint64_t name_hash, instant_ns now_ns) {
    const struct cooling_name *found = NULL;

    if (cooling_count(table, now_ns) == 0)
        return NULL;
    for (uint32_t i = 0; i < table->names.touched; i++) {
        const struct cooling_name *cooling = at(table, i);
        if (cooling->name && cooling->name_hash == name_hash &&
            (!found || cooling->until_ns > found->until_ns))
            found = cooling;
    }
    return found;
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
    for (uint32_t i = 0; i < table->names.touched; i++) {
        const struct cooling_name *cooling = at(table, i);
        size_t place = n;
        if (!cooling->name || slot_of(cooling->id) >= query->slots ||
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
