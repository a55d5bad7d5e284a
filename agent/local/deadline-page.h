/* A session's shared page: each lease's deadline, where its holder reads it without asking (protocol.md,
 * §8). Pure: the memory is the caller's, and the reader's map of it is read-only. Written by the front
 * thread alone.
 *
 * A slot's deadline is 0 whenever it stands for no held lease. A reader takes the deadline first and then
 * the id: a deadline of the slot's next lease never shows with the id of the one before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

enum {
    DEADLINE_PAGE_VERSION = 1,
    DEADLINE_PAGE_BYTES = 64 * 1024, /* only what is touched takes memory */
    DEADLINE_PAGE_SLOT_BYTES = 16,
    DEADLINE_PAGE_HEADER_BYTES = 64,
    DEADLINE_PAGE_SLOTS = (DEADLINE_PAGE_BYTES - DEADLINE_PAGE_HEADER_BYTES) / DEADLINE_PAGE_SLOT_BYTES,
    DEADLINE_PAGE_NO_SLOT = -1,
};

struct deadline_page_memory;

struct deadline_page {
    struct deadline_page_memory *memory;
    uint32_t taken[(DEADLINE_PAGE_SLOTS + 31) / 32];
};

/* `memory`: DEADLINE_PAGE_BYTES zeroed bytes, aligned to 64, which outlive the page. */
void deadline_page_init(struct deadline_page *page, void *memory);

/* Goes on with a page that deadline_page_init() made, in another process. False when the memory is no such
 * page. */
bool deadline_page_adopt(struct deadline_page *page, void *memory);

/* A slot for a lease, or DEADLINE_PAGE_NO_SLOT when all are taken or `page` is NULL. */
int deadline_page_take(struct deadline_page *page);

/* Takes the slot that a lease had before; DEADLINE_PAGE_NO_SLOT when it is none or is taken, or `page` is
 * NULL. */
int deadline_page_claim(struct deadline_page *page, int slot);

/* A page that another process wrote: frees what was not claimed of its first `bytes`. The rest, never
 * written, takes no memory, and would if it were read. */
void deadline_page_clean(struct deadline_page *page, size_t bytes);

/* The lease with this id is held until then. Nothing for DEADLINE_PAGE_NO_SLOT. */
void deadline_page_set(struct deadline_page *page, int slot, uint64_t id, instant_ns deadline_ns);

/* It is not held any more, and the slot is free again. Nothing for DEADLINE_PAGE_NO_SLOT. */
void deadline_page_give(struct deadline_page *page, int slot);
