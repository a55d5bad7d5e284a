#include "core/call-plan.h"

#include <assert.h>

/* Calls that are put together at a time; with more kinds in one turn, they go out earlier. */
enum { DRAFTS_MAX = 8 };

/* In one call. */
static const uint32_t names_max[CALL_PLAN_OPERATIONS] = {
    [OPERATION_ACQUIRE] = BATCH_ACQUIRES_MAX, [OPERATION_RAISE] = 1,
    [OPERATION_EXTEND] = BATCH_NAMES_MAX,     [OPERATION_REFRESH] = 1,
    [OPERATION_RELEASE] = BATCH_NAMES_MAX,    [OPERATION_LOOK] = 1,
    [OPERATION_ADOPT] = BATCH_NAMES_MAX,
};

/* Those that some nodes are to get, in the order in which they will go out. */
struct drafts {
    const struct call_plan_turn *turn;
    const struct call_plan_sink *sink;
    node_set nodes;
    unsigned count;
    struct call_plan_call all[DRAFTS_MAX];
};

static bool tells_former(const struct send *send) {
    return send->former && (send->operation == OPERATION_REFRESH || send->operation == OPERATION_RELEASE);
}

static bool tells_token(const struct send *send) {
    return send->token != 0 && send->operation != OPERATION_EXTEND && send->operation != OPERATION_RELEASE &&
           send->operation != OPERATION_ADOPT;
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
        .has_former = tells_former(send),
        .has_token = tells_token(send),
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

/* --- putting calls together --- */

static bool goes_along(const struct call_plan_item *item, const struct call_plan_item *first) {
    return item->operation == first->operation && names_max[item->operation] > 1 &&
           item->quiet == first->quiet && item->has_former == first->has_former &&
           item->has_token == first->has_token && item->has_block == first->has_block;
}

/* May it have the item's key? */
static bool knows(const struct call_plan_call *draft, const struct call_plan_item *item) {
    for (uint32_t i = 0; item->again && i < draft->count; i++)
        if (draft->items[i]->key_hash == item->key_hash)
            return true;
    return false;
}

static void hand_out(struct drafts *drafts) {
    for (unsigned i = 0; i < drafts->count; i++)
        drafts->sink->call(drafts->sink->userdata, drafts->nodes, &drafts->all[i]);
    drafts->count = 0;
}

/* An item joins the draft of its kind, unless that, or one that goes out behind it, has the item's key: so
 * what was asked of the key before is in a draft that goes out earlier, and no call has a key twice. If it
 * may not join, all drafts go out; if there is none of its kind, it begins the last one. */
static void take(struct drafts *drafts, const struct call_plan_item *item) {
    bool alone = drafts->turn->alone[item->operation] & drafts->nodes;
    unsigned own = 0;

    while (own < drafts->count && (alone || !goes_along(item, drafts->all[own].items[0])))
        own++;
    bool fits = own < drafts->count ? drafts->all[own].count < names_max[item->operation]
                                    : drafts->count < DRAFTS_MAX;
    for (unsigned i = own; fits && i < drafts->count; i++)
        fits = !knows(&drafts->all[i], item);
    if (!fits) {
        hand_out(drafts);
        own = 0;
    }
    if (own == drafts->count)
        drafts->all[drafts->count++].count = 0;
    struct call_plan_call *draft = &drafts->all[own];
    assert(draft->count < names_max[item->operation]);
    draft->items[draft->count++] = item;
}

static void call_plan_to(const struct call_plan_turn *turn, const struct call_plan_sink *sink, node_set to) {
    struct drafts drafts;

    drafts.turn = turn;
    drafts.sink = sink;
    drafts.nodes = to;
    drafts.count = 0;
    for (uint32_t i = 0; i < turn->count; i++)
        if (turn->items[i].nodes & to)
            take(&drafts, &turn->items[i]);
    hand_out(&drafts);
}

static node_set side_of(node_set set, node_set node) {
    return set & node ? set : (node_set) ~set;
}

/* Of `nodes`, those that are to get the same calls as the first of them: the same of this turn's requests,
 * put together in the same way. */
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
        call_plan_to(turn, sink, to);
    }
    assert(turn->count == count);
    turn->count = 0;
    return asked;
}
