#include "io/node/pending-call.h"

#include <stdlib.h>

enum {
    COMMAND_BYTES_MIN = 128,
    FREE_MAX = 64, /* more are freed after a burst */
};

struct pending_call *pending_call_new(struct list *free_records, size_t length) {
    struct list *first = list_first(free_records);
    struct pending_call *record =
        first ? list_entry(first, struct pending_call, link) : calloc(1, sizeof(*record));

    if (!record)
        abort();
    if (first)
        list_unlink(&record->link);
    else
        list_init(&record->link);
    if (record->room < length) {
        size_t room = COMMAND_BYTES_MIN;
        while (room < length)
            room *= 2;
        free(record->bytes);
        record->bytes = malloc(room);
        if (!record->bytes)
            abort();
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
    const struct list *first = list_first(free_records);

    list_unlink(&record->link);
    record->below = first ? list_entry(first, const struct pending_call, link)->below + 1 : 0;
    if (record->below >= FREE_MAX) {
        pending_call_free(record);
        return;
    }
    list_prepend(free_records, &record->link);
}

void pending_call_free(struct pending_call *record) {
    list_unlink(&record->link);
    free(record->bytes);
    free(record);
}

void pending_call_free_all(struct list *list) {
    list_for_each_safe(node, list) pending_call_free(list_entry(node, struct pending_call, link));
}
