/* The memory of a lease: a change that needs more must raise the bound here. The benchmark's row has the
 * whole, with the memory of allocator and kernel. */

#include "core/shard.h"
#include "local/recovery/ledger.h"
#include "local/registry.h"
#include "tap.h"

enum {
    TIMER_BYTES = sizeof(struct timer_queue_item), /* its instant is many others', as a rule */
    FRONT_BYTES = sizeof(struct request) + sizeof(struct name_table_entry) +
                  sizeof(uint32_t) /* its bucket */ + sizeof(struct keeper_handle_slot) + TIMER_BYTES,
    KEEPER_BYTES = sizeof(struct lease) + sizeof(uint32_t) /* its request */ + TIMER_BYTES,
    TEXTS_BYTES = 32 + 40, /* of a name of 16 characters: alone, and with pid, uid and data */
    LEASE_BYTES_MAX = 592,
};

static void at_most(size_t got, size_t most, const char *what) {
    ok(got <= most, "%s: %zu, at most %zu", what, got, most);
}

static void test_sizes(void) {
    at_most(FRONT_BYTES, 280, "bytes of a lease in the front, besides its name");
    at_most(KEEPER_BYTES, 224, "and in its keeper");
    at_most(FRONT_BYTES + KEEPER_BYTES + TEXTS_BYTES + DEADLINE_PAGE_SLOT_BYTES, LEASE_BYTES_MAX, "in all");
    at_most(sizeof(struct ledger_entry), 200, "bytes in the ledger");
    ok(offsetof(struct request, pool_link) == 0 && offsetof(struct lease, pool_link) == 0 &&
           offsetof(struct request_secrets, pool_link) == 0,
       "a pool's link comes first");
    ok(offsetof(struct request, generation) >= sizeof(uint32_t) &&
           offsetof(struct lease, serial) >= sizeof(uint32_t),
       "and what outlives an item does not share its place");
}

int main(void) {
    test_sizes();
    return done_testing();
}
