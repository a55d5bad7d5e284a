/* The channels of a SUBSCRIBE or UNSUBSCRIBE command, as RESP bulk strings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct channel_list {
    char *bytes;
    size_t used, room, count;
    bool starved; /* no memory for a channel: the list is incomplete */
};

/* Adds the channel "prefix" + "key". */
void channel_list_add(struct channel_list *list, const char *prefix, const char *key, size_t length);

/* Empties the list, and keeps its memory. */
void channel_list_clear(struct channel_list *list);

void channel_list_deinit(struct channel_list *list);
