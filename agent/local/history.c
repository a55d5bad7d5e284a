#include "local/history.h"

#include <assert.h>
#include <string.h>

struct history_set {
    uint32_t uids[HISTORY_SET_EVENTS]; /* beside each other: each event of a full set reads them all */
    uint8_t order[HISTORY_SET_EVENTS]; /* places of events, the oldest first */
    uint8_t kinds[HISTORY_SET_EVENTS]; /* of the event in each place */
    uint32_t n_events;
    struct history_event events[HISTORY_SET_EVENTS];
};

static_assert(HISTORY_SET_EVENTS <= UINT8_MAX, "a place fits into a byte");
static_assert((HISTORY_SETS & (HISTORY_SETS - 1)) == 0, "the set is chosen by bits of the hash");

size_t history_memory_bytes(void) {
    return HISTORY_SETS * sizeof(struct history_set);
}

void history_init(struct history *history, void *memory) {
    assert(memory);

    history->sets = memory;
}

/* The keepers' share of names and the table of names use other bits of the hash. */
static struct history_set *set_of(const struct history *history, uint64_t name_hash) {
    return &history->sets[(name_hash >> 24) & (HISTORY_SETS - 1)];
}

static uint32_t count_asked(const struct history_set *set) {
    uint32_t asked = 0;

    for (uint32_t place = 0; place < set->n_events; place++)
        asked += set->kinds[place] == HISTORY_ASKED;
    return asked;
}

/* The victim among the HISTORY_ASKED events, of which the set has as many as it may. */
static uint32_t asked_victim(const struct history_set *set, uint32_t uid) {
    uint32_t own = 0, oldest = 0, oldest_own = 0;

    for (uint32_t i = set->n_events; i-- > 0;) {
        if (set->kinds[set->order[i]] != HISTORY_ASKED)
            continue;
        bool is_own = set->uids[set->order[i]] == uid;
        own += is_own;
        oldest = i;
        oldest_own = is_own ? i : oldest_own;
    }
    return own >= HISTORY_SET_ASKED / 2 ? oldest_own : oldest;
}

/* The victim among the events of a full set. */
static uint32_t oldest_victim(const struct history_set *set, uint32_t uid) {
    uint32_t own = 0, oldest_own = 0;

    for (uint32_t place = 0; place < HISTORY_SET_EVENTS; place++)
        own += set->uids[place] == uid;
    if (own < HISTORY_SET_EVENTS / 2)
        return 0;
    while (set->uids[set->order[oldest_own]] != uid)
        oldest_own++;
    return oldest_own;
}

/* The place in `order` of the event that gives way to an event of this user and kind; n_events: none has to.
 * Each event of a full set needs a victim, so the usual way is a loop that counts without a branch. */
static uint32_t victim(const struct history_set *set, uint32_t uid, enum history_kind kind) {
    if (kind == HISTORY_ASKED && count_asked(set) >= HISTORY_SET_ASKED)
        return asked_victim(set, uid);
    return set->n_events < HISTORY_SET_EVENTS ? set->n_events : oldest_victim(set, uid);
}

/* True if the last event is the same request, made with no other one before it, and this is its outcome. */
static bool is_outcome_of_last(const struct history_set *set, const struct history_event *event) {
    if (set->n_events == 0 || (event->kind != HISTORY_GRANTED && event->kind != HISTORY_FAILED))
        return false;
    uint32_t place = set->order[set->n_events - 1];
    const struct history_event *last = &set->events[place];
    return set->kinds[place] == HISTORY_ASKED && last->id == event->id &&
           last->name_hash == event->name_hash && last->ahead.n == 0;
}

void history_add(struct history *history, const struct history_event *event, uint32_t uid) {
    struct history_set *set = set_of(history, event->name_hash);
    uint32_t at, place = set->n_events;

    assert(event->name_hash != 0);
    if (is_outcome_of_last(set, event))
        at = set->n_events - 1;
    else
        at = victim(set, uid, (enum history_kind) event->kind);
    if (at == set->n_events) {
        set->n_events++;
    } else {
        place = set->order[at];
        memmove(&set->order[at], &set->order[at + 1], set->n_events - 1 - at);
    }
    set->order[set->n_events - 1] = (uint8_t) place;
    set->uids[place] = uid;
    set->kinds[place] = event->kind;
    memcpy(&set->events[place], event, offsetof(struct history_event, text) + event->text_length);
}

void history_set_text(struct history_event *event, const char *text, size_t length) {
    static const char ellipsis[] = "…";
    size_t more = length > sizeof(event->text) ? sizeof(ellipsis) - 1 : 0;

    if (more > 0) {
        length = sizeof(event->text) - more;
        while (length > 0 && ((unsigned char) text[length] & 0xc0) == 0x80)
            length--;
    }
    if (length > 0)
        memcpy(event->text, text, length);
    if (more > 0)
        memcpy(event->text + length, ellipsis, more);
    event->text_length = (uint8_t) (length + more);
}

void history_explain_loss(struct history *history, uint64_t name_hash, uint64_t id,
                          const struct round_trace *trace) {
    struct history_set *set = set_of(history, name_hash);

    for (uint32_t i = set->n_events; i-- > 0;) {
        struct history_event *event = &set->events[set->order[i]];
        if (event->name_hash != name_hash || event->id != id || event->kind != HISTORY_LOST)
            continue;
        if (!event->traced)
            event->trace = *trace;
        event->traced = true;
        return;
    }
}

size_t history_list(const struct history *history, uint64_t name_hash, bool all, uint32_t uid, size_t max,
                    struct history_view ret[HISTORY_SET_EVENTS]) {
    const struct history_set *set = set_of(history, name_hash);
    struct history_view found[HISTORY_SET_EVENTS];
    size_t n = 0;

    for (uint32_t i = 0; i < set->n_events; i++) {
        uint8_t place = set->order[i];
        if (set->events[place].name_hash == name_hash && (all || set->uids[place] == uid))
            found[n++] = (struct history_view){.event = &set->events[place], .uid = set->uids[place]};
    }
    size_t first = n > max ? n - max : 0;
    for (size_t i = first; i < n; i++)
        ret[i - first] = found[i];
    return n - first;
}
