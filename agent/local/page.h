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
    PAGE_VERSION = 1,
    PAGE_BYTES = 64 * 1024, /* only what is touched takes memory */
    PAGE_SLOT_BYTES = 16,
    PAGE_HEADER_BYTES = 64,
    PAGE_SLOTS = (PAGE_BYTES - PAGE_HEADER_BYTES) / PAGE_SLOT_BYTES,
    PAGE_NO_SLOT = -1,
};

struct page_memory;

struct page {
    struct page_memory *memory;
    uint32_t taken[(PAGE_SLOTS + 31) / 32];
};

/* `memory`: PAGE_BYTES zeroed bytes, aligned to 64, which outlive the page. */
void page_init(struct page *page, void *memory);

/* Goes on with a page that page_init() made, in another process. False when the memory is no such page. */
bool page_adopt(struct page *page, void *memory);

/* A slot for a lease, or PAGE_NO_SLOT when all are taken or `page` is NULL. */
int page_take(struct page *page);

/* Takes the slot that a lease had before; PAGE_NO_SLOT when it is none or is taken, or `page` is NULL. */
int page_claim(struct page *page, int slot);

/* A page that another process wrote: frees what was not claimed of its first `bytes`. The rest, never
 * written, takes no memory, and would if it were read. */
void page_clean(struct page *page, size_t bytes);

/* The lease with this id is held until then. Nothing for PAGE_NO_SLOT. */
void page_set(struct page *page, int slot, uint64_t id, instant_ns deadline_ns);

/* It is not held any more, and the slot is free again. Nothing for PAGE_NO_SLOT. */
void page_give(struct page *page, int slot);
