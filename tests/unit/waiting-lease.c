#include "waiting-lease.h"

const struct vote held = {.kind = VOTE_FOREIGN,
                          .text = "0123456789abcdef0123456789abcdef01234567"
                                  ":web1:00c0ffee:4321:1000:data",
                          .text_length = 69,
                          .ttl_left_ms = 8000};

void meet_holder(void) {
    const struct sent sent = *last_sent(OPERATION_ACQUIRE);
    for (unsigned i = 0; i < harness.shard.config.nodes; i++)
        vote_with(i, sent.ticket, &held);
}

void listening(unsigned node, instant_ns since_ns) {
    shard_subscribed(&harness.shard, node, 1, since_ns, harness.now_ns);
}

void freed(unsigned node) {
    shard_freed(&harness.shard, node, 1, harness.now_ns);
}

void wait_covered(unsigned nodes) {
    shard_harness_begin(nodes);
    contend(1, true);
    meet_holder();
    pass_ms(1);
    for (unsigned i = 0; i < nodes; i++)
        listening(i, harness.now_ns);
    meet_holder();
}

bool tries_within_ms(int64_t ms) {
    unsigned before = count_sent(OPERATION_ACQUIRE);
    pass_ms(ms);
    return count_sent(OPERATION_ACQUIRE) > before;
}
