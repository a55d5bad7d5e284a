#include "io/node/channel-list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct channel_list *list, const char *bytes, size_t length) {
    if (list->starved)
        return;
    if (list->used + length > list->room) {
        size_t room = list->room ? list->room : 256;
        while (room < list->used + length)
            room *= 2;
        char *larger = realloc(list->bytes, room);
        if (!larger) {
            list->starved = true;
            return;
        }
        list->bytes = larger;
        list->room = room;
    }
    memcpy(list->bytes + list->used, bytes, length);
    list->used += length;
}

void channel_list_add(struct channel_list *list, const char *prefix, const char *key, size_t length) {
    char head[32];
    int head_length = snprintf(head, sizeof(head), "$%zu\r\n", strlen(prefix) + length);

    put(list, head, (size_t) head_length);
    put(list, prefix, strlen(prefix));
    put(list, key, length);
    put(list, "\r\n", 2);
    list->count++;
}

void channel_list_clear(struct channel_list *list) {
    list->used = list->count = 0;
    list->starved = false;
}

void channel_list_deinit(struct channel_list *list) {
    free(list->bytes);
}
