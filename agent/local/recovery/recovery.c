#include "local/recovery/recovery.h"

#include <string.h>

#include "base/generation.h"
#include "core/lock-value.h"
#include "local/observe.h"
#include "local/outcome.h"
#include "local/recovery/ledger-writer.h"
#include "local/recovery/restore.h"
#include "local/rule-count.h"
#include "local/session.h"

/* --- one entry --- */

/* The decision about an entry. Points into the view of the entry. */
struct decision {
    struct session *session; /* NULL: no session gets its outcome */
    struct registry_ask ask;
    struct restore_entry entry;
};

/* The ttl was allowed by a larger max_ttl: such a lease is not extended. */
static bool is_too_long(const struct front_state *front, const struct ledger_entry *entry) {
    return entry->terms.ttl_ms > front->policy.max_ttl_ms;
}

/* The nodes do not show its keys under the present key_format. */
static bool is_moved(const struct front_state *front, const struct recovery_past *past,
                     const struct ledger_entry *entry) {
    return entry->moved || past->reader.header->key_format != front->identity.key_format;
}

/* `unwanted`: only its keys are to be deleted. */
static struct registry_ask ask_of(const struct front_state *front, const struct session *session,
                                  const struct ledger_reader_entry_view *view, bool unwanted) {
    const struct ledger_entry *entry = &view->entry;
    bool held = entry->granted != 0 && !view->unreported;
    struct lease_terms terms = entry->terms;

    if (is_too_long(front, entry) && (!held || unwanted))
        terms.ttl_ms = front->policy.max_ttl_ms;
    terms.cooldown_ms = (uint32_t) instant_min(terms.cooldown_ms, front->policy.max_ttl_ms);
    return (struct registry_ask){
        .name = view->name,
        .name_length = view->name_length,
        .tail = view->tail,
        .tail_length = view->tail_length,
        .wait_ms = entry->try_once && !held ? 0 : -1,
        .terms = terms,
        .async = true,
        .resumable = entry->resumable,
        .hold_until_ns = entry->hold_until_ns,
        .cooldown_until_ns = entry->granted != 0 || entry->resume ? entry->cooldown_until_ns : 0,
        .token = entry->token,
        .pid = entry->pid,
        .uid = entry->uid,
        .rule = rule_count_number(front, session, entry->uid, view->name, view->name_length),
    };
}

/* Decides how the entry is restored. False: not at all. */
static bool decide(const struct front_state *front, const struct recovery_past *past,
                   const struct ledger_reader_entry_view *view, instant_ns now_ns, struct decision *ret) {
    const struct ledger_entry *entry = &view->entry;
    struct session *session = past->session(past->userdata, entry->session);
    bool granted = entry->granted != 0, moved = is_moved(front, past, entry);
    bool fixed = moved || is_too_long(front, entry); /* not to be extended */
    /* The client has the reply that its ACQUIRE waits: the request waits on, granted or not. */
    bool waits = entry->kind == LEDGER_WAITING && session;
    /* The client surely does not know of its grant, or is dead, so no client considers the lease valid. (A
     * client that resumes may.) */
    bool unreported = view->unreported && !waits && past->whole(past->userdata, entry->session);
    bool orphaned = !session && !unreported && past->dead(past->userdata, entry->pid);
    /* The client has got `at-risk unread`, or the agent has closed the session: then the lease ends. */
    bool unread = granted && entry->risk == 1 + REASON_UNREAD;
    bool expelled = granted && entry->risk == REQUEST_LOST;
    bool lingers = orphaned && entry->terms.linger_ms > 0 && !fixed && !unread && !expelled;
    bool unwanted = unreported || (orphaned && entry->terms.linger_ms == 0);
    bool left = !waits && !unwanted && !lingers && (!session || fixed || unread || expelled);
    /* A request that does not wait is acquired anew, or fails at once for want of a quorum. */
    bool resumes = waits ? entry->resume || (granted && !fixed && !entry->try_once) : granted;

    if ((!granted && !waits) || ((entry->ending & LEDGER_HANDED_OFF) && !session) ||
        (left && !session && now_ns >= entry->deadline_ns) || (unreported && (entry->resume || fixed)))
        return false;
    *ret = (struct decision){
        .session = unwanted ? NULL : session,
        .ask = ask_of(front, session, view, unwanted),
        .entry = {.id = entry->request,
                  .unwanted = unwanted,
                  .abandoned = left && (!session || unread || expelled),
                  .unread = left && unread,
                  .read = entry->read,
                  .risk = entry->risk,
                  .handoffs = entry->handoffs,
                  .page_slot = entry->page_slot,
                  .asked_ns = instant_min(entry->asked_ns, now_ns),
                  .wait_until_ns = entry->wait_until_ns,
                  .deadline_ns = entry->deadline_ns,
                  .acquired = entry->acquired},
    };
    if (waits)
        ret->entry.state = resumes && !entry->resume ? RESTORE_UNREPORTED : RESTORE_NONE;
    else if (entry->ending & LEDGER_HANDED_OFF)
        ret->entry.state = RESTORE_VANISHED;
    else
        ret->entry.state = !left ? RESTORE_REPORTED : moved ? RESTORE_MOVED : RESTORE_LEFT;
    ret->ask.resume = resumes ? entry->secret : NULL;
    /* No client knew of the lease, so no cooldown follows it; or its name has another key now. */
    if (unreported || !resumes || moved)
        ret->ask.cooldown_until_ns = 0;
    return true;
}

/* The ledger is not trusted: its values are within the bounds of what an agent writes. */
static bool is_sound(const struct ledger_reader_entry_view *view, instant_ns now_ns) {
    const struct ledger_entry *entry = &view->entry;
    const struct lease_terms *terms = &entry->terms;
    struct lock_value_tail tail;
    uint64_t generation = entry->request >> REQUEST_INDEX_BITS;
    instant_ns longest_ns = now_ns + (int64_t) terms->ttl_ms * NS_PER_MS;
    instant_ns coolest_ns = now_ns + (int64_t) TTL_MS_MAX * NS_PER_MS;

    return generation > 0 && generation <= UINT32_MAX && entry->risk <= REASON_COUNT &&
           terms->ttl_ms >= TTL_MS_MIN && terms->ttl_ms <= TTL_MS_MAX && terms->node_timeout_ms > 0 &&
           terms->node_timeout_ms <= TTL_MS_MAX && terms->heartbeat_ms <= INT32_MAX &&
           terms->max_hold_ms <= INT32_MAX && terms->fencing <= 1 && terms->legacy_setnx <= 1 &&
           entry->token >= 0 && entry->token < INT64_C(1) << 53 && entry->asked_ns >= 0 &&
           entry->wait_until_ns >= 0 && entry->hold_until_ns >= 0 && entry->deadline_ns >= 0 &&
           entry->deadline_ns <= longest_ns && terms->cooldown_ms <= TTL_MS_MAX &&
           entry->cooldown_until_ns >= 0 && entry->cooldown_until_ns <= coolest_ns &&
           lock_value_read_tail(view->tail, view->tail_length, &tail);
}

/* --- all entries --- */

/* The requests that were accepted; some of them may have an entry. */
static uint32_t count_accepted(const struct ledger_reader *reader) {
    struct ledger_reader_session_view view;
    uint32_t accepted = 0;

    for (uint32_t slot = 0; slot < reader->header->sessions; slot++)
        accepted += ledger_reader_session(reader, slot, &view) && view.accepted != 0;
    return accepted;
}

uint32_t recovery_slots(const struct ledger_reader *reader) {
    struct ledger_reader_entry_view view;
    uint32_t slots = 0, requests = count_accepted(reader);

    for (uint32_t i = 0; i < reader->header->entries; i++) {
        if (!ledger_reader_entry(reader, i, &view) || view.entry.kind == LEDGER_OBSERVED)
            continue;
        uint32_t slot = (uint32_t) (view.entry.request & (REQUESTS_MAX - 1));
        slots = slot >= slots ? slot + 1 : slots;
        requests++;
    }
    slots = requests > slots ? requests : slots;
    return slots < REQUESTS_MAX ? slots : REQUESTS_MAX;
}

static uint32_t slot_of(const struct session *session) {
    return (uint32_t) (session->id & LEDGER_SLOT_MASK);
}

/* The new ledger has the entry until the client has its outcome. False: it has no room. */
static bool note_left_out(const struct session *session, const struct ledger_reader_entry_view *view) {
    struct ledger *ledger = session->front->registry.ledger;
    struct ledger_entry entry = view->entry;

    entry.ending = LEDGER_LEFT_OUT;
    return ledger && ledger_add(ledger, slot_of(session), &entry, view->name, view->name_length, view->tail,
                                view->tail_length) != 0;
}

void recovery_end_left_out(struct session *session) {
    struct ledger *ledger = session->front->registry.ledger;
    uint32_t next;

    for (uint32_t at = ledger ? ledger_first(ledger, slot_of(session)) : 0; at != 0; at = next) {
        const struct ledger_entry *entry = ledger_at(ledger, at);
        next = entry->next;
        if (!(entry->ending & LEDGER_LEFT_OUT))
            continue;
        outcome_push_left_out(session, entry->request, entry->kind == LEDGER_HELD);
        ledger_end(ledger, slot_of(session), at);
    }
}

/* The entry is not restored. A client may consider its lease valid, or wait for its request. (A client that
 * has released its lease gets the reply, and one that does not know of its request asks again.) */
static void leave_out(const struct recovery_past *past, const struct ledger_reader_entry_view *view,
                      instant_ns now_ns, struct recovery_result *result) {
    const struct ledger_entry *entry = &view->entry;
    struct session *session = past->session(past->userdata, entry->session);
    instant_ns longest_ns = now_ns + (int64_t) TTL_MS_MAX * NS_PER_MS;

    if (entry->granted != 0)
        result->lost_until_ns =
            instant_max(result->lost_until_ns, instant_min(entry->deadline_ns, longest_ns));
    if (!session || entry->kind == LEDGER_FREE || (entry->ending & ~LEDGER_LEFT_OUT) != 0)
        return;
    result->left_out++;
    bool is_pushed = entry->kind != LEDGER_HELD || session_takes_pushes(session);
    if (!is_pushed || !note_left_out(session, view))
        outcome_push_left_out(session, entry->request, entry->kind == LEDGER_HELD);
}

/* Restored or not, its keys stay until its cooldown ends; those of a grant that surely no client knows do
 * not. */
static void note_cooldown(const struct recovery_past *past, struct recovery_result *result,
                          const struct ledger_reader_entry_view *view) {
    const struct ledger_entry *entry = &view->entry;
    bool known = !view->unreported || entry->resume || !past->whole(past->userdata, entry->session);

    if (entry->granted != 0 && known)
        result->lost_until_ns = instant_max(result->lost_until_ns, entry->cooldown_until_ns);
}

/* With the smaller ttl of now a RESUME would shorten the keys, on which its client relies. */
static bool would_shorten(const struct front_state *front, const struct ledger_entry *entry) {
    return entry->kind == LEDGER_WAITING && entry->resume && is_too_long(front, entry);
}

/* Two entries may have one slot: that of a request which is over, though its client does not know, and that
 * of the slot's next request. The newer one is restored. */
static void take_slot(const struct recovery_past *past, uint32_t slot, uint32_t index,
                      const struct ledger_reader_entry_view *view, instant_ns now_ns,
                      struct recovery_result *result) {
    const struct ledger_entry *entry = &view->entry;
    struct ledger_reader_entry_view other;

    if (past->order[slot] != 0 && ledger_reader_entry(&past->reader, past->order[slot] - 1, &other)) {
        bool newer = entry->request > other.entry.request;
        leave_out(past, newer ? &other : view, now_ns, result);
        if (!newer)
            return;
    }
    past->order[slot] = index + 1;
}

/* Sorts the entries of requests by slot, and restores observations. */
static void sort(struct front_state *front, const struct recovery_past *past, instant_ns now_ns,
                 struct recovery_result *result) {
    struct ledger_reader_entry_view view;

    for (uint32_t i = 0; i < past->reader.header->entries; i++) {
        if (!ledger_reader_entry(&past->reader, i, &view))
            continue;
        if (view.entry.kind == LEDGER_OBSERVED) {
            struct session *session = past->session(past->userdata, view.entry.session);
            if (session)
                observe_restore(session, view.name, view.name_length, now_ns);
            continue;
        }
        uint64_t slot = view.entry.request & (REQUESTS_MAX - 1);
        if (slot >= front->registry.requests_max || !is_sound(&view, now_ns) ||
            (view.entry.ending & LEDGER_LEFT_OUT) || would_shorten(front, &view.entry)) {
            leave_out(past, &view, now_ns, result);
            continue;
        }
        note_cooldown(past, result, &view);
        take_slot(past, (uint32_t) slot, i, &view, now_ns, result);
    }
}

/* The new ledger has no entry for a lease without a session, and notes only how long its keys may exist: the
 * next process does not know the lease. */
static void note_without_entry(struct ledger *ledger, const struct decision *decision, instant_ns now_ns) {
    int64_t linger_ns = decision->entry.abandoned ? 0 : (int64_t) decision->ask.terms.linger_ms * NS_PER_MS;

    if (ledger && !decision->entry.unwanted)
        ledger_note_lost_until(ledger,
                               instant_max(decision->entry.deadline_ns, instant_add(now_ns, linger_ns)));
}

/* The request that the decision makes; NULL: none. What its client knows goes into the new ledger too. */
static struct request *make(struct front_state *front, const struct decision *decision, instant_ns now_ns) {
    struct request *request =
        restore_request(&front->registry, decision->session, &decision->ask, &decision->entry);

    if (request && decision->session)
        ledger_writer_restored(decision->session, request, &decision->ask);
    else if (request)
        note_without_entry(front->registry.ledger, decision, now_ns);
    return request;
}

/* The former processes, the latest first. None if lock values have another host. If the ledger lacks leases,
 * the keys of each of them may be those of a missing one. Returns their number. */
static unsigned find_chain(const struct front_state *front, const struct ledger_header *header,
                           instant_ns now_ns, struct ledger_predecessor ret[PREDECESSORS_MAX]) {
    const struct ledger_predecessor *past = header->predecessors;
    unsigned count = 1;

    if (strcmp(header->host, front->identity.host) != 0)
        return 0;
    memcpy(ret[0].agent, header->agent, sizeof(ret[0].agent));
    ret[0].until_ns = now_ns + 2 * (int64_t) front->policy.max_ttl_ms * NS_PER_MS;
    ret[0].spared = header->leaky || header->resumes;
    for (; count < PREDECESSORS_MAX && past->agent[0] != '\0' && now_ns < past->until_ns; past++) {
        ret[count] = *past;
        ret[count++].spared |= header->leaky;
    }
    return count;
}

/* Keys of the former processes may be deleted when their leases that were not restored have ended. The next
 * process may meet them, too. */
static struct shard_predecessors find_predecessors(const struct front_state *front,
                                                   const struct ledger_header *header, instant_ns ended_ns,
                                                   instant_ns now_ns) {
    struct ledger_predecessor chain[PREDECESSORS_MAX] = {0};
    struct shard_predecessors predecessors = {.count = find_chain(front, header, now_ns, chain),
                                              .from_ns = instant_max(header->lost_until_ns, ended_ns)};

    for (unsigned i = 0; i < predecessors.count; i++) {
        lock_value_identify(&predecessors.all[i].identity, header->host, chain[i].agent);
        predecessors.all[i].until_ns = chain[i].until_ns;
        predecessors.all[i].spared = chain[i].spared;
    }
    if (front->registry.ledger) {
        memcpy(front->registry.ledger->header->predecessors, chain, sizeof(chain));
        ledger_note_lost_until(front->registry.ledger, ended_ns);
    }
    return predecessors;
}

static void count_decision(struct recovery_result *result, const struct decision *decision) {
    if (!decision->session)
        return;
    result->held += restore_state_is_held(decision->entry.state);
    result->too_long += decision->entry.state == RESTORE_LEFT && !decision->entry.abandoned;
    result->moved += decision->entry.state == RESTORE_MOVED && !decision->entry.abandoned;
}

struct recovery_result recovery_run(struct front_state *front, const struct recovery_past *past,
                                    instant_ns now_ns) {
    struct registry *registry = &front->registry;
    struct recovery_result result = {0};
    struct ledger_reader_entry_view view;
    struct decision decision;

    sort(front, past, now_ns, &result);
    registry->generation = generation_latest(registry->generation, past->reader.header->generation);
    registry->searched_ttl_ms_max = (uint32_t) front->policy.max_ttl_ms;
    if (front->registry.ledger)
        ledger_succeed(front->registry.ledger, past->reader.header);
    for (uint32_t slot = 0; slot < registry->requests_max; slot++) {
        if (past->order[slot] == 0 || !ledger_reader_entry(&past->reader, past->order[slot] - 1, &view))
            continue;
        if (!decide(front, past, &view, now_ns, &decision) || !make(front, &decision, now_ns))
            leave_out(past, &view, now_ns, &result);
        else
            count_decision(&result, &decision);
    }
    result.predecessors = find_predecessors(front, past->reader.header, result.lost_until_ns, now_ns);
    return result;
}
