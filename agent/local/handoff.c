#include "local/handoff.h"

#include <assert.h>

#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/registry.h"

enum {
    PAUSE_DIVISOR = 8,
    PAUSE_MS_MAX = 5,
    PAUSE_ALONE_DIVISOR = 32,
    PAUSE_ALONE_MS = 1,
    PAUSE_ALONE_LONG_DIVISOR = 200,
    COMPANY_MS = 10000,
    GROWTH = 4,
};

static_assert(PAUSE_MS_MAX * NS_PER_MS <= INT32_MAX, "a name keeps the pause in 32 bits");

static instant_ns series_ends_ns(const struct request *holder) {
    return instant_add(holder->tenure.acquired_ns, HANDOFF_MS * NS_PER_MS);
}

static bool has_company(const struct name_table_entry *name, instant_ns now_ns) {
    return name->seen_ns > 0 && now_ns - name->seen_ns < COMPANY_MS * NS_PER_MS;
}

/* The series must end, so that other hosts can acquire the name. */
static bool series_is_over(const struct request *holder, instant_ns now_ns) {
    return holder->tenure.handoffs >= holder->name->handoffs_max || now_ns >= series_ends_ns(holder);
}

/* True if user and data are the same. */
static bool tails_are_alike(const struct shared_string *one, const struct shared_string *other) {
    struct lock_value_tail tail, other_tail;

    return lock_value_read_tail(one->bytes, one->head_length, &tail) &&
           lock_value_read_tail(other->bytes, other->head_length, &other_tail) &&
           bytes_equal(tail.user, tail.user_length, other_tail.user, other_tail.user_length);
}

bool handoff_is_fine(const struct request *holder, const struct request *next, bool has_ledger,
                     instant_ns now_ns) {
    assert(holder->state == REQUEST_HELD);

    if (!next || next->state != REQUEST_QUEUED || next->resume || request_is_leaving(next) ||
        !lease_terms_match(&holder->terms, &next->terms))
        return false;
    if (!holder->tenure.secret || (has_ledger && !tails_are_alike(holder->tail, next->tail)) ||
        holder->risk != 0 || holder->abandoned)
        return false;
    if (holder->deadline_ns - now_ns < (int64_t) holder->terms.ttl_ms * NS_PER_MS / 2)
        return false;
    if (holder->terms.fencing && holder->token >= holder->secrets->token_last)
        return false;
    return !series_is_over(holder, now_ns);
}

void handoff_move(const struct request *holder, struct request *next, instant_ns now_ns) {
    next->deadline_ns = holder->deadline_ns;
    next->tenure = holder->tenure;
    next->tenure.handoffs++;
    next->token = holder->terms.fencing ? holder->token + 1 : 0;
    next->risk = 0;
    if (next->terms.max_hold_ms > 0)
        next->hold_until_ns = instant_add(now_ns, next->terms.max_hold_ms * NS_PER_MS);
    assert(next->token <= holder->secrets->token_last && next->deadline_ns <= next->hold_until_ns);
}

instant_ns handoff_refresh_ns(const struct request *holder) {
    return holder->tenure.secret ? series_ends_ns(holder) : INSTANT_NEVER;
}

int64_t handoff_pause_ns(const struct request *holder, instant_ns now_ns) {
    if (!series_is_over(holder, now_ns))
        return 0;
    int64_t had_ns = now_ns - holder->tenure.acquired_ns, pause_ns = had_ns / PAUSE_DIVISOR;
    if (!has_company(holder->name, now_ns))
        pause_ns = instant_min(had_ns / PAUSE_ALONE_DIVISOR,
                               instant_max(PAUSE_ALONE_MS * NS_PER_MS, had_ns / PAUSE_ALONE_LONG_DIVISOR));
    return instant_min(pause_ns, PAUSE_MS_MAX * NS_PER_MS);
}

void handoff_awaited(const struct name_table *names, const struct report *report, instant_ns now_ns) {
    struct name_table_entry *name = name_table_find(names, report->text, report->text_length);

    if (!name)
        return;
    name->handoffs_max = HANDOFFS_MAX;
    if (!name->seen)
        name->seen_ns = now_ns;
}

uint16_t handoff_next_max(const struct request *holder, instant_ns now_ns) {
    int64_t turn_us = (now_ns - holder->tenure.acquired_ns) / NS_PER_US;
    int64_t most = instant_min((int64_t) GROWTH * holder->tenure.handoffs, turn_us);

    if (has_company(holder->name, now_ns) || most < HANDOFFS_MAX)
        return HANDOFFS_MAX;
    return (uint16_t) instant_min(most, HANDOFFS_ALONE_MAX);
}
