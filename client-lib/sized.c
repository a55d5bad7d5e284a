#include "sized.h"

#include <string.h>

enum { BYTES_MAX = 64 * 1024 }; /* larger than any version: the size was not set */

static size_t size_of(const void *given) {
    size_t size;

    memcpy(&size, given, sizeof(size));
    return size;
}

bool sized_has_room(const void *room, size_t first_size) {
    return size_of(room) >= first_size && size_of(room) <= BYTES_MAX;
}

bool sized_take(void *ret, size_t size, size_t first_size, const void *given) {
    size_t given_size = size_of(given);

    if (!sized_has_room(given, first_size))
        return false;
    for (size_t i = size; i < given_size; i++)
        if (((const char *) given)[i] != 0)
            return false;
    memset(ret, 0, size);
    memcpy(ret, given, given_size < size ? given_size : size);
    memcpy(ret, &size, sizeof(size));
    return true;
}

void sized_give(void *room, const void *ours, size_t size) {
    size_t room_size = size_of(room), head = sizeof(room_size);

    memset((char *) room + head, 0, room_size - head);
    memcpy((char *) room + head, (const char *) ours + head, (room_size < size ? room_size : size) - head);
}
