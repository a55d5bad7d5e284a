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
    struct pending_call *record = first ? pending_call_of(first) : calloc(1, sizeof(*record));

    if (!record)
        return NULL;
    if (first)
        list_unlink(&record->entry.link);
    else
        list_init(&record->entry.link);
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
    record->rare = false;
    return record;
}

void pending_call_give(struct list *free_records, struct pending_call *record) {
    list_unlink(&record->entry.link);
    secret_clear(record->bytes, record->length);
    record->length = 0;
    record->below = 0;
    if (!list_is_empty(free_records))
        record->below = pending_call_of(free_records->next)->below + 1;
    if (record->below >= FREE_MAX) {
        pending_call_free(record);
        return;
    }
    list_prepend(free_records, &record->entry.link);
}

void pending_call_free(struct pending_call *record) {
    list_unlink(&record->entry.link);
    secret_memory_free(record->bytes, record->length);
    free(record);
}

void pending_call_free_all(struct list *list) {
    list_for_each_safe(node, list) pending_call_free(pending_call_of(node));
}
