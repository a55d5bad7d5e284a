#include "sight.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { VERSION = 1, MAGIC = 0x4b434c52, BYTES_MAX = 1 << 20 };

struct old_sight {
    struct old_sight *next;
    void *memory;
    size_t bytes;
};

struct header {
    uint32_t magic, version, slots, slot_bytes, header_bytes;
};

struct slot {
    _Atomic uint64_t id;
    _Atomic int64_t deadline_ns;
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the words are shared with another process");

/* What the agent says of it fits into it. */
static bool is_sound(const struct header *header, size_t bytes) {
    return header->magic == MAGIC && header->version == VERSION &&
           header->header_bytes >= sizeof(struct header) && header->header_bytes % sizeof(uint64_t) == 0 &&
           header->slot_bytes >= sizeof(struct slot) && header->slot_bytes % sizeof(uint64_t) == 0 &&
           header->header_bytes <= bytes &&
           header->slots <= (bytes - header->header_bytes) / header->slot_bytes;
}

int sight_open(struct sight *sight, int fd) {
    struct stat status;

    if (fstat(fd, &status) < 0 || status.st_size < (off_t) sizeof(struct header) ||
        status.st_size > BYTES_MAX)
        return -1;
    size_t bytes = (size_t) status.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -1;
    const struct header *header = memory;
    if (!is_sound(header, bytes)) {
        (void) munmap(memory, bytes);
        return -1;
    }
    *sight = (struct sight){.memory = memory,
                            .bytes = bytes,
                            .slots = header->slots,
                            .slot_bytes = header->slot_bytes,
                            .header_bytes = header->header_bytes,
                            .old = sight->old};
    return 0;
}

void sight_put_away(struct sight *sight) {
    struct old_sight *old = sight->memory ? malloc(sizeof(*old)) : NULL;

    if (old)
        *old = (struct old_sight){
            .next = sight->old, .memory = (void *) (uintptr_t) sight->memory, .bytes = sight->bytes};
    *sight = (struct sight){.old = old ? old : sight->old};
}

void sight_close(struct sight *sight) {
    if (sight->memory)
        (void) munmap((void *) (uintptr_t) sight->memory, sight->bytes);
    while (sight->old) {
        struct old_sight *next = sight->old->next;
        (void) munmap(sight->old->memory, sight->old->bytes);
        free(sight->old);
        sight->old = next;
    }
    *sight = (struct sight){0};
}

const void *sight_place(const struct sight *sight, int64_t slot) {
    if (!sight->memory || slot < 0 || slot >= sight->slots)
        return NULL;
    return (const char *) sight->memory + sight->header_bytes + (size_t) slot * sight->slot_bytes;
}

int64_t sight_deadline_ns(const void *place, uint64_t id) {
    const struct slot *slot = place;

    /* In this order: the agent writes the id before the deadline, so that a deadline of the slot's next
     * lease never goes with our id. */
    int64_t deadline_ns = atomic_load_explicit(&slot->deadline_ns, memory_order_acquire);
    return atomic_load_explicit(&slot->id, memory_order_acquire) == id ? deadline_ns : 0;
}
