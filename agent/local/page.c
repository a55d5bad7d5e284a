#include "local/page.h"

#include <assert.h>
#include <stdatomic.h>

struct page_slot {
    _Atomic uint64_t id;
    _Atomic int64_t deadline_ns;
};

struct page_memory {
    uint32_t magic, version, slots, slot_bytes, header_bytes;
    uint8_t reserved[PAGE_HEADER_BYTES - 5 * sizeof(uint32_t)];
    struct page_slot slot[PAGE_SLOTS];
};

static const uint32_t magic = 0x4b434c52; /* "RLCK" in memory of little-endian machines */

static_assert(sizeof(struct page_slot) == PAGE_SLOT_BYTES, "as protocol.md says");
static_assert(sizeof(struct page_memory) <= PAGE_BYTES, "all slots are in the page");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the words are shared with another process");

void page_init(struct page *page, void *memory) {
    *page = (struct page){.memory = memory};
    page->memory->version = PAGE_VERSION;
    page->memory->slots = PAGE_SLOTS;
    page->memory->slot_bytes = PAGE_SLOT_BYTES;
    page->memory->header_bytes = PAGE_HEADER_BYTES;
    page->memory->magic = magic;
}

bool page_adopt(struct page *page, void *memory) {
    *page = (struct page){.memory = memory};
    return page->memory->magic == magic && page->memory->version == PAGE_VERSION &&
           page->memory->slots == PAGE_SLOTS && page->memory->slot_bytes == PAGE_SLOT_BYTES &&
           page->memory->header_bytes == PAGE_HEADER_BYTES;
}

int page_claim(struct page *page, int slot) {
    if (!page || slot < 0 || slot >= PAGE_SLOTS)
        return PAGE_NO_SLOT;
    uint32_t bit = UINT32_C(1) << (slot % 32);
    if (page->taken[slot / 32] & bit)
        return PAGE_NO_SLOT;
    page->taken[slot / 32] |= bit;
    return slot;
}

void page_clean(struct page *page, size_t bytes) {
    for (int slot = 0; slot < PAGE_SLOTS && PAGE_HEADER_BYTES + (size_t) slot * PAGE_SLOT_BYTES < bytes;
         slot++)
        if (!(page->taken[slot / 32] & UINT32_C(1) << (slot % 32)) &&
            atomic_load_explicit(&page->memory->slot[slot].deadline_ns, memory_order_relaxed) != 0)
            atomic_store_explicit(&page->memory->slot[slot].deadline_ns, 0, memory_order_release);
}

int page_take(struct page *page) {
    if (!page)
        return PAGE_NO_SLOT;
    for (unsigned i = 0; i < sizeof(page->taken) / sizeof(page->taken[0]); i++) {
        if (page->taken[i] == UINT32_MAX)
            continue;
        unsigned bit = (unsigned) __builtin_ctz(~page->taken[i]);
        if (32 * i + bit >= PAGE_SLOTS)
            break;
        page->taken[i] |= UINT32_C(1) << bit;
        return (int) (32 * i + bit);
    }
    return PAGE_NO_SLOT;
}

void page_set(struct page *page, int slot, uint64_t id, instant_ns deadline_ns) {
    if (slot == PAGE_NO_SLOT)
        return;
    struct page_slot *entry = &page->memory->slot[slot];
    atomic_store_explicit(&entry->id, id, memory_order_release);
    atomic_store_explicit(&entry->deadline_ns, deadline_ns, memory_order_release);
}

void page_give(struct page *page, int slot) {
    if (slot == PAGE_NO_SLOT)
        return;
    uint32_t bit = UINT32_C(1) << (slot % 32);
    assert(page->taken[slot / 32] & bit);
    page->taken[slot / 32] &= ~bit;
    atomic_store_explicit(&page->memory->slot[slot].deadline_ns, 0, memory_order_release);
}
