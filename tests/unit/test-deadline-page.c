/* The deadline page: its slots, and a page of a former process. */

#include <stdalign.h>

#include "local/deadline-page.h"
#include "tap.h"

enum { HEADER_WORDS = 5, LAST = DEADLINE_PAGE_SLOTS - 1 };

static alignas(64) unsigned char memory[DEADLINE_PAGE_BYTES];
static struct deadline_page page;

static void begin(void) {
    memset(memory, 0, sizeof(memory));
    deadline_page_init(&page, memory);
}

static int64_t shown(int slot) {
    int64_t deadline_ns;

    memcpy(&deadline_ns,
           memory + DEADLINE_PAGE_HEADER_BYTES + (size_t) slot * DEADLINE_PAGE_SLOT_BYTES + sizeof(uint64_t),
           sizeof(deadline_ns));
    return deadline_ns;
}

static void test_slots(void) {
    begin();
    for (int i = 0; i < DEADLINE_PAGE_SLOTS; i++)
        if (deadline_page_take(&page) != i)
            ok(false, "slot %d is the next", i);
    is_int(deadline_page_take(&page), DEADLINE_PAGE_NO_SLOT, "all slots are taken");
    deadline_page_set(&page, LAST, 7, 5000);
    is_int(shown(LAST), 5000, "the last slot shows a deadline");
    deadline_page_give(&page, LAST);
    is_int(shown(LAST), 0, "and none when it is free");
    is_int(deadline_page_take(&page), LAST, "it is taken again");
    deadline_page_give(&page, 3);
    is_int(deadline_page_take(&page), 3, "so is another one");
    is_int(deadline_page_take(NULL), DEADLINE_PAGE_NO_SLOT, "no page has no slot");
    deadline_page_set(&page, DEADLINE_PAGE_NO_SLOT, 7, 5000);
    deadline_page_give(&page, DEADLINE_PAGE_NO_SLOT);
    is_int(deadline_page_take(&page), DEADLINE_PAGE_NO_SLOT, "a lease without a slot changes none");
}

static void test_claims(void) {
    begin();
    is_int(deadline_page_claim(&page, -1), DEADLINE_PAGE_NO_SLOT, "there is no slot -1");
    is_int(deadline_page_claim(&page, LAST + 1), DEADLINE_PAGE_NO_SLOT, "nor one behind the last");
    is_int(deadline_page_claim(NULL, 0), DEADLINE_PAGE_NO_SLOT, "nor one of no page");
    is_int(deadline_page_claim(&page, 0), 0, "the first slot");
    is_int(deadline_page_claim(&page, LAST), LAST, "the last slot");
    is_int(deadline_page_claim(&page, 0), DEADLINE_PAGE_NO_SLOT, "no slot twice");
    is_int(deadline_page_take(&page), 1, "a claimed slot is taken");
}

static void test_adoption(void) {
    begin();
    ok(deadline_page_adopt(&page, memory, DEADLINE_PAGE_BYTES), "the page of a former process");
    for (unsigned i = 0; i < HEADER_WORDS; i++) {
        memory[i * sizeof(uint32_t)]++;
        ok(!deadline_page_adopt(&page, memory, DEADLINE_PAGE_BYTES), "not with another word %u", i);
        memory[i * sizeof(uint32_t)]--;
    }
}

static void test_cleaning(void) {
    enum { WRITTEN = 40 };
    const size_t written_bytes = DEADLINE_PAGE_HEADER_BYTES + WRITTEN * DEADLINE_PAGE_SLOT_BYTES;

    begin();
    for (int i = 0; i < DEADLINE_PAGE_SLOTS; i++)
        deadline_page_set(&page, i, 7, 5000 + i);
    ok(deadline_page_adopt(&page, memory, written_bytes), "a page with deadlines");
    (void) deadline_page_claim(&page, 33);
    deadline_page_clean(&page);
    is_int(shown(0), 0, "the first slot is clean");
    is_int(shown(33), 5033, "a claimed slot keeps its deadline");
    is_int(shown(WRITTEN - 1), 0, "the last slot of the written part is clean");
    is_int(shown(WRITTEN), 5000 + WRITTEN, "the next one is not touched");
    (void) deadline_page_adopt(&page, memory, DEADLINE_PAGE_BYTES);
    deadline_page_clean(&page);
    is_int(shown(LAST), 0, "the whole page is clean");
}

int main(void) {
    test_slots();
    test_claims();
    test_adoption();
    test_cleaning();
    return done_testing();
}
