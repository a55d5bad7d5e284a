#include "local/deadline-page.h"

#include <assert.h>
#include <stdatomic.h>

struct deadline_page_slot {
    _Atomic uint64_t id;
    _Atomic int64_t deadline_ns;
};

struct deadline_page_memory {
    uint32_t magic, version, slots, slot_bytes, header_bytes;
    uint8_t reserved[DEADLINE_PAGE_HEADER_BYTES - 5 * sizeof(uint32_t)];
    struct deadline_page_slot slot[DEADLINE_PAGE_SLOTS];
};

static const uint32_t magic = 0x4b434c52; /* "RLCK" in memory of little-endian machines */

static_assert(sizeof(struct deadline_page_slot) == DEADLINE_PAGE_SLOT_BYTES, "as protocol.md says");
static_assert(sizeof(struct deadline_page_memory) <= DEADLINE_PAGE_BYTES, "all slots are in the page");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the words are shared with another process");

void deadline_page_init(struct deadline_page *page, void *memory) {
    *page = (struct deadline_page){.memory = memory};
    page->memory->version = DEADLINE_PAGE_VERSION;
    page->memory->slots = DEADLINE_PAGE_SLOTS;
    page->memory->slot_bytes = DEADLINE_PAGE_SLOT_BYTES;
    page->memory->header_bytes = DEADLINE_PAGE_HEADER_BYTES;
    page->memory->magic = magic;
}

bool deadline_page_adopt(struct deadline_page *page, void *memory, size_t written_bytes) {
    *page = (struct deadline_page){.memory = memory, .written_bytes = written_bytes};
    return page->memory->magic == magic && page->memory->version == DEADLINE_PAGE_VERSION &&
           page->memory->slots == DEADLINE_PAGE_SLOTS &&
           page->memory->slot_bytes == DEADLINE_PAGE_SLOT_BYTES &&
           page->memory->header_bytes == DEADLINE_PAGE_HEADER_BYTES;
}

int deadline_page_claim(struct deadline_page *page, int slot) {
    if (!page || slot < 0 || slot >= DEADLINE_PAGE_SLOTS)
        return DEADLINE_PAGE_NO_SLOT;
    uint32_t bit = UINT32_C(1) << (slot % 32);
    if (page->taken[slot / 32] & bit)
        return DEADLINE_PAGE_NO_SLOT;
    page->taken[slot / 32] |= bit;
    return slot;
}

void deadline_page_clean(struct deadline_page *page) {
    for (int slot = 0;
         slot < DEADLINE_PAGE_SLOTS &&
         DEADLINE_PAGE_HEADER_BYTES + (size_t) slot * DEADLINE_PAGE_SLOT_BYTES < page->written_bytes;
         slot++)
        if (!(page->taken[slot / 32] & UINT32_C(1) << (slot % 32)) &&
            atomic_load_explicit(&page->memory->slot[slot].deadline_ns, memory_order_relaxed) != 0)
            atomic_store_explicit(&page->memory->slot[slot].deadline_ns, 0, memory_order_release);
}

int deadline_page_take(struct deadline_page *page) {
    if (!page)
        return DEADLINE_PAGE_NO_SLOT;
    for (unsigned i = 0; i < sizeof(page->taken) / sizeof(page->taken[0]); i++) {
        if (page->taken[i] == UINT32_MAX)
            continue;
        unsigned bit = (unsigned) __builtin_ctz(~page->taken[i]);
        if (32 * i + bit >= DEADLINE_PAGE_SLOTS)
            break;
        page->taken[i] |= UINT32_C(1) << bit;
        return (int) (32 * i + bit);
    }
    return DEADLINE_PAGE_NO_SLOT;
}

void deadline_page_set(struct deadline_page *page, int slot, uint64_t id, instant_ns deadline_ns) {
    if (slot == DEADLINE_PAGE_NO_SLOT)
        return;
    struct deadline_page_slot *entry = &page->memory->slot[slot];
    atomic_store_explicit(&entry->id, id, memory_order_release);
    atomic_store_explicit(&entry->deadline_ns, deadline_ns, memory_order_release);
}

void deadline_page_give(struct deadline_page *page, int slot) {
    if (slot == DEADLINE_PAGE_NO_SLOT)
        return;
    uint32_t bit = UINT32_C(1) << (slot % 32);
    assert(page->taken[slot / 32] & bit);
    page->taken[slot / 32] &= ~bit;
    atomic_store_explicit(&page->memory->slot[slot].deadline_ns, 0, memory_order_release);
}
