#include "core/call-plan.h"

#include <assert.h>

enum { DRAFTS_MAX = 8 }; /* calls that are filled at a time: with more kinds, calls are sent earlier */

/* Names in one call. */
static const uint32_t names_max[CALL_PLAN_OPERATIONS] = {
    [OPERATION_ACQUIRE] = BATCH_ACQUIRES_MAX, [OPERATION_RAISE] = 1,
    [OPERATION_EXTEND] = BATCH_NAMES_MAX,     [OPERATION_REFRESH] = 1,
    [OPERATION_RELEASE] = BATCH_NAMES_MAX,    [OPERATION_QUERY] = 1,
    [OPERATION_ADOPT] = BATCH_NAMES_MAX,      [OPERATION_SEARCH] = BATCH_NAMES_MAX,
};

/* The calls being filled for some nodes, in the order in which they are sent. */
struct drafts {
    const struct call_plan_turn *turn;
    const struct call_plan_sink *sink;
    node_set nodes;
    unsigned count;
    struct call_plan_call all[DRAFTS_MAX];
};

static bool sends_former(const struct send *send) {
    return send->former && (send->operation == OPERATION_REFRESH || send->operation == OPERATION_RELEASE);
}

static bool sends_token(const struct send *send) {
    return send->token != 0 && send->operation != OPERATION_EXTEND && send->operation != OPERATION_RELEASE &&
           send->operation != OPERATION_ADOPT && send->operation != OPERATION_SEARCH;
}

const struct call_plan_item *call_plan_add(struct call_plan_turn *turn, const struct send *send,
                                           uint64_t key_hash) {
    struct call_plan_item *item = &turn->items[turn->count];
    uint64_t *keys = &turn->keys[key_hash % CALL_PLAN_KEYS_BITS / 64];
    uint64_t bit = UINT64_C(1) << key_hash % 64;

    assert(send->nodes != 0 && turn->count < UINT32_MAX);
    assert(send->former || send->operation != OPERATION_REFRESH);
    *item = (struct call_plan_item){
        .operation = send->operation,
        .nodes = send->nodes,
        .quiet = send->quiet,
        .left = send->left,
        .has_former = sends_former(send),
        .has_token = sends_token(send),
        .again = *keys & bit,
        .ticket = send->ticket,
        .key_hash = key_hash,
    };
    item->has_block =
        item->has_token && send->token_last > send->token && send->operation != OPERATION_REFRESH;
    *keys |= bit;
    turn->count++;
    return item;
}

/* --- batching --- */

static bool may_share_call(const struct call_plan_item *item, const struct call_plan_item *first) {
    return item->operation == first->operation && names_max[item->operation] > 1 &&
           item->quiet == first->quiet && item->left == first->left &&
           item->has_former == first->has_former && item->has_token == first->has_token &&
           item->has_block == first->has_block;
}

/* True if the call may have the item's key. */
static bool may_have_key(const struct call_plan_call *draft, const struct call_plan_item *item) {
    for (uint32_t i = 0; item->again && i < draft->count; i++)
        if (draft->items[i]->key_hash == item->key_hash)
            return true;
    return false;
}

static void send_all(struct drafts *drafts) {
    for (unsigned i = 0; i < drafts->count; i++)
        drafts->sink->call(drafts->sink->userdata, drafts->nodes, &drafts->all[i]);
    drafts->count = 0;
}

/* An item joins the draft of its kind, unless that draft, or one behind it, has the item's key: so earlier
 * requests of the key are in drafts that are sent earlier, and no call has a key twice. An item that may not
 * join makes all drafts be sent. Without a draft of its kind, it begins a new one at the end. */
static void add(struct drafts *drafts, const struct call_plan_item *item) {
    bool alone = drafts->turn->alone[item->operation] & drafts->nodes;
    unsigned own = 0;

    while (own < drafts->count && (alone || !may_share_call(item, drafts->all[own].items[0])))
        own++;
    bool fits = own < drafts->count ? drafts->all[own].count < names_max[item->operation]
                                    : drafts->count < DRAFTS_MAX;
    for (unsigned i = own; fits && i < drafts->count; i++)
        fits = !may_have_key(&drafts->all[i], item);
    if (!fits) {
        send_all(drafts);
        own = 0;
    }
    if (own == drafts->count)
        drafts->all[drafts->count++].count = 0;
    struct call_plan_call *draft = &drafts->all[own];
    assert(draft->count < names_max[item->operation]);
    draft->items[draft->count++] = item;
}

static void plan_for(const struct call_plan_turn *turn, const struct call_plan_sink *sink, node_set to) {
    struct drafts drafts;

    drafts.turn = turn;
    drafts.sink = sink;
    drafts.nodes = to;
    drafts.count = 0;
    for (uint32_t i = 0; i < turn->count; i++)
        if (turn->items[i].nodes & to)
            add(&drafts, &turn->items[i]);
    send_all(&drafts);
}

static node_set side_of(node_set set, node_set node) {
    return (set & node) ? set : (node_set) ~set;
}

/* Of `nodes`, those that get the same calls as the first: the same requests of this turn, batched in the
 * same way. */
static node_set alike(const struct call_plan_turn *turn, node_set nodes) {
    node_set first = nodes & (node_set) -nodes;

    for (uint32_t i = 0; i < turn->count; i++)
        nodes &= side_of(turn->items[i].nodes, first);
    for (unsigned i = 0; i < CALL_PLAN_OPERATIONS; i++)
        nodes &= side_of(turn->alone[i], first);
    return nodes;
}

node_set call_plan_all(struct call_plan_turn *turn, const struct call_plan_sink *sink) {
    const uint32_t count = turn->count;
    node_set asked = 0;

    for (uint32_t i = 0; i < count; i++) {
        asked |= turn->items[i].nodes;
        turn->keys[turn->items[i].key_hash % CALL_PLAN_KEYS_BITS / 64] = 0;
    }
    for (node_set left = asked, to; left != 0; left &= (node_set) ~to) {
        to = alike(turn, left);
        plan_for(turn, sink, to);
    }
    assert(turn->count == count);
    turn->count = 0;
    return asked;
}
