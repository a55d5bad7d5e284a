#include "io/record.h"

#include <stdlib.h>

enum {
    COMMAND_BYTES_MIN = 128,
    FREE_MAX = 64, /* what a burst had more of under way is given back */
};

struct command_record *record_new(struct list *free_records, size_t length) {
    struct list *first = list_first(free_records);
    struct command_record *record =
        first ? list_entry(first, struct command_record, link) : calloc(1, sizeof(*record));

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
    record->head = record->tail = (struct record_piece){NULL, 0};
    record->length = 0;
    record->rare = record->repeated = false;
    return record;
}

void record_hold(struct list *held, struct command_record *record) {
    struct list *at = held;

    if (record->repeated)
        for (at = held->next; at != held && list_entry(at, struct command_record, link)->repeated;)
            at = at->next;
    list_append(at, &record->link);
}

void record_give(struct list *free_records, struct command_record *record) {
    const struct list *first = list_first(free_records);

    list_unlink(&record->link);
    record->below = first ? list_entry(first, const struct command_record, link)->below + 1 : 0;
    if (record->below >= FREE_MAX) {
        record_free(record);
        return;
    }
    list_prepend(free_records, &record->link);
}

void record_free(struct command_record *record) {
    list_unlink(&record->link);
    free(record->bytes);
    free(record);
}

void records_free(struct list *list) {
    list_for_each_safe(node, list) record_free(list_entry(node, struct command_record, link));
}
