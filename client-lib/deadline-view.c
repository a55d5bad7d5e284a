#include "deadline-view.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { VERSION = 1, MAGIC = 0x4b434c52, BYTES_MAX = 1 << 20 };

struct deadline_view_old {
    struct deadline_view_old *next;
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

/* The header describes a page that fits into the file. */
static bool is_sound(const struct header *header, size_t bytes) {
    return header->magic == MAGIC && header->version == VERSION &&
           header->header_bytes >= sizeof(struct header) && header->header_bytes % sizeof(uint64_t) == 0 &&
           header->slot_bytes >= sizeof(struct slot) && header->slot_bytes % sizeof(uint64_t) == 0 &&
           header->header_bytes <= bytes &&
           header->slots <= (bytes - header->header_bytes) / header->slot_bytes;
}

int deadline_view_open(struct deadline_view *view, int fd) {
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
    *view = (struct deadline_view){.memory = memory,
                                   .bytes = bytes,
                                   .slots = header->slots,
                                   .slot_bytes = header->slot_bytes,
                                   .header_bytes = header->header_bytes,
                                   .old = view->old};
    return 0;
}

void deadline_view_retire(struct deadline_view *view) {
    struct deadline_view_old *old = view->memory ? malloc(sizeof(*old)) : NULL;

    if (old)
        *old = (struct deadline_view_old){
            .next = view->old, .memory = (void *) (uintptr_t) view->memory, .bytes = view->bytes};
    *view = (struct deadline_view){.old = old ? old : view->old};
}

void deadline_view_close(struct deadline_view *view) {
    if (view->memory)
        (void) munmap((void *) (uintptr_t) view->memory, view->bytes);
    while (view->old) {
        struct deadline_view_old *next = view->old->next;
        (void) munmap(view->old->memory, view->old->bytes);
        free(view->old);
        view->old = next;
    }
    *view = (struct deadline_view){0};
}

const void *deadline_view_slot(const struct deadline_view *view, int64_t index) {
    if (!view->memory || index < 0 || index >= view->slots)
        return NULL;
    return (const char *) view->memory + view->header_bytes + (size_t) index * view->slot_bytes;
}

int64_t deadline_view_read_ns(const void *address, uint64_t id) {
    const struct slot *slot = address;

    /* The agent writes the id before the deadline. Read in the opposite order, so that a deadline of the
     * slot's next lease never goes with this id. */
    int64_t deadline_ns = atomic_load_explicit(&slot->deadline_ns, memory_order_acquire);
    return atomic_load_explicit(&slot->id, memory_order_acquire) == id ? deadline_ns : 0;
}
