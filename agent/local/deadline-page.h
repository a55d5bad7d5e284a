/* The deadline page: memory shared with a session's client, which reads the deadlines of its leases there
 * without a request (protocol.md, §8). The memory is the caller's; the client maps it read-only. Written by
 * the front thread alone.
 *
 * The deadline of a slot without a held lease is 0. A client reads the deadline first, then the id: so the
 * deadline of the slot's next lease is never taken for that of the lease before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

enum {
    DEADLINE_PAGE_VERSION = 1,
    DEADLINE_PAGE_BYTES = 64 * 1024, /* pages that are not touched take no memory */
    DEADLINE_PAGE_SLOT_BYTES = 16,
    DEADLINE_PAGE_HEADER_BYTES = 64,
    DEADLINE_PAGE_SLOTS = (DEADLINE_PAGE_BYTES - DEADLINE_PAGE_HEADER_BYTES) / DEADLINE_PAGE_SLOT_BYTES,
    DEADLINE_PAGE_NO_SLOT = -1,
};

struct deadline_page_memory;

struct deadline_page {
    struct deadline_page_memory *memory;
    size_t written_bytes; /* by a former process, from the start of the memory on */
    uint32_t taken[(DEADLINE_PAGE_SLOTS + 31) / 32];
};

/* `memory`: DEADLINE_PAGE_BYTES zeroed bytes, aligned to 64, which outlive the page. */
void deadline_page_init(struct deadline_page *page, void *memory);

/* Takes over a page that deadline_page_init() made in a former process, and that has no data behind its
 * first `written_bytes`. False: the memory is no such page. */
bool deadline_page_adopt(struct deadline_page *page, void *memory, size_t written_bytes);

/* Takes a slot. DEADLINE_PAGE_NO_SLOT: all are taken, or `page` is NULL. */
int deadline_page_take(struct deadline_page *page);

/* Takes the slot that a restored lease had. DEADLINE_PAGE_NO_SLOT: no such slot, or it is taken, or `page`
 * is NULL. */
int deadline_page_claim(struct deadline_page *page, int slot);

/* After the claims on an adopted page: clears the other slots that the former process has written. The rest
 * would take memory if it were read. */
void deadline_page_clean(struct deadline_page *page);

/* Shows id and deadline of a held lease. No effect for DEADLINE_PAGE_NO_SLOT. */
void deadline_page_set(struct deadline_page *page, int slot, uint64_t id, instant_ns deadline_ns);

/* Clears and frees the slot. No effect for DEADLINE_PAGE_NO_SLOT. */
void deadline_page_give(struct deadline_page *page, int slot);
