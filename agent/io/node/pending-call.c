#include "io/node/pending-call.h"

#include <stdlib.h>

#include "base/secret.h"
#include "io/loop/secret-memory.h"

enum {
    COMMAND_BYTES_MIN = 128,
    FREE_MAX = 64, /* more are freed after a burst */
};

struct pending_call *pending_call_new(struct list *free_records, size_t length) {
    struct list *first = list_first(free_records);
    struct pending_call *record =
        first ? list_entry(first, struct pending_call, link) : calloc(1, sizeof(*record));

    if (!record)
        return NULL;
    if (first)
        list_unlink(&record->link);
    else
        list_init(&record->link);
    if (record->room < length) {
        size_t room = COMMAND_BYTES_MIN;
        while (room < length)
            room *= 2;
        secret_memory_free(record->bytes, record->length);
        record->bytes = malloc(room);
        if (!record->bytes) {
            free(record);
            return NULL;
        }
        record->room = room;
    }
    record->head = record->tail = (struct pending_call_piece){NULL, 0};
    record->length = 0;
    record->rare = record->repeated = false;
    return record;
}

void pending_call_hold(struct list *held, struct pending_call *record) {
    struct list *at = held;

    if (record->repeated)
        for (at = held->next; at != held && list_entry(at, struct pending_call, link)->repeated;)
            at = at->next;
    list_append(at, &record->link);
}

void pending_call_give(struct list *free_records, struct pending_call *record) {
    list_unlink(&record->link);
    secret_clear(record->bytes, record->length);
    record->length = 0;
    record->below = 0;
    if (!list_is_empty(free_records))
        record->below = list_entry(free_records->next, const struct pending_call, link)->below + 1;
    if (record->below >= FREE_MAX) {
        pending_call_free(record);
        return;
    }
    list_prepend(free_records, &record->link);
}

void pending_call_free(struct pending_call *record) {
    list_unlink(&record->link);
    secret_memory_free(record->bytes, record->length);
    free(record);
}

void pending_call_free_all(struct list *list) {
    list_for_each_safe(node, list) pending_call_free(list_entry(node, struct pending_call, link));
}
