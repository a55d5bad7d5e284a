#include "local/observe.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/memory-layout.h"
#include "core/lock-value.h"
#include "local/call.h"
#include "local/leader.h"
#include "local/recovery/ledger-writer.h"
#include "local/reply.h"

enum {
    POLL_MS = 1000,       /* between two queries without a hint */
    POLL_JITTER_MS = 100, /* either way: queries of many names spread out */
    GAP_MS = 20,          /* between two queries at least: some names change hands all the time */
    PUSH_US = 50, /* for each push, before the next query: then pushes are a small part of the work */
    PUSHES_MS_MAX = 1000,  /* for all of them */
    EXPIRY_SLACK_MS = 5,   /* after the keys' expiry: the nodes' clocks differ */
    UNKNOWN_MS = 5 * 1000, /* without a majority, until observers get "unknown" */
    OLD_MS = 2 * 1000,     /* no answer for several polls: the process has stood still, say */
};

/* --- memory --- */

/* Each observed name has a name and a value. */
static size_t text_bytes(void) {
    return shared_string_pool_bytes((size_t) OBSERVED_NAMES_MAX * 2, SHARED_STRING_BYTES_MAX);
}

static size_t lay_out(struct observe_table *table, unsigned char *memory) {
    size_t offset = 0;

    void *names = memory_layout_next(memory, &offset, OBSERVED_NAMES_MAX * sizeof(struct observe_name));
    void *entries = memory_layout_next(memory, &offset, OBSERVATIONS_MAX * sizeof(struct observe_entry));
    void *due = memory_layout_next(memory, &offset, timer_queue_memory_bytes(OBSERVED_NAMES_MAX));
    void *buckets =
        memory_layout_next(memory, &offset, hash_table_buckets(OBSERVED_NAMES_MAX) * sizeof(uint32_t));
    void *texts = memory_layout_next(memory, &offset, text_bytes());

    if (memory) {
        hash_table_init(&table->names, names, sizeof(struct observe_name), OBSERVED_NAMES_MAX, buckets,
                        &table->texts);
        pool_init(&table->entries, entries, sizeof(struct observe_entry), OBSERVATIONS_MAX);
        timer_queue_init(&table->due, due, OBSERVED_NAMES_MAX);
        shared_string_pool_init(&table->texts, texts, text_bytes());
    }
    return offset;
}

size_t observe_memory_bytes(void) {
    return lay_out(NULL, NULL);
}

void observe_init(struct observe_table *table, uint64_t seed, void *memory) {
    assert(memory);

    *table = (struct observe_table){0};
    random_init(&table->random, seed);
    (void) lay_out(table, memory);
}

/* --- names --- */

static uint32_t index_of(const struct observe_table *table, const struct observe_name *observed) {
    return pool_index(&table->names.pool, struct observe_name, observed);
}

static struct observe_name *name_new(struct observe_table *table, uint64_t hash, const char *name,
                                     size_t length, instant_ns now_ns) {
    struct observe_name *observed = hash_table_add(&table->names, hash, name, length);

    if (!observed)
        return NULL;
    observed->since_ns = now_ns;
    observed->unanswered_ns = observed->changing_ns = INSTANT_NEVER;
    observed->queried_ns = observed->answered_ns = INSTANT_LONG_AGO;
    list_init(&observed->observers);
    timer_queue_set(&table->due, index_of(table, observed), now_ns);
    return observed;
}

/* A name with a query under way stays until the answer: so there is one query a name, whatever its observers
 * do. */
static void drop_unless_needed(struct observe_table *table, struct observe_name *observed) {
    uint32_t index = index_of(table, observed);

    if (observed->querying || !list_is_empty(&observed->observers))
        return;
    observed->value = shared_string_unref(&table->texts, observed->value);
    timer_queue_remove(&table->due, index);
    hash_table_remove(&table->names, index);
}

/* --- pushes --- */

static void push(const struct observe_name *observed, struct session *session, instant_ns now_ns) {
    static const char *const words[] = {
        [LEADERSHIP_UNKNOWN] = "unknown", [LEADERSHIP_FREE] = "free", [LEADERSHIP_HELD] = "held"};
    struct resp_writer writer = reply_begin_push(session, "leader", 3);
    bool held = observed->leadership == LEADERSHIP_HELD;
    const struct leader_key key = {.value = held ? observed->value->bytes : NULL,
                                   .length = held ? observed->value->head_length : 0,
                                   .foreign_type = observed->foreign_type,
                                   .token = observed->token};

    resp_put_bulk(&writer, observed->key.text->bytes, observed->key.text->head_length);
    resp_put_map(&writer, held ? 2 + leader_pairs(&key) : 2, session->protocol);
    reply_put_text_pair(&writer, "state", words[observed->leadership]);
    reply_put_integer_pair(&writer, "since", (now_ns - observed->since_ns) / NS_PER_MS);
    if (held)
        leader_put(&writer, &key);
    reply_send(session, &writer);
}

/* The session no longer observes the name. */
static void push_end(struct session *session, const char *name, size_t length) {
    struct resp_writer writer = reply_begin_push(session, "leader", 3);

    resp_put_bulk(&writer, name, length);
    resp_put_map(&writer, 2, session->protocol);
    reply_put_text_pair(&writer, "state", "unknown");
    reply_put_integer_pair(&writer, "since", 0);
    reply_send(session, &writer);
}

static void charge_push(instant_ns *paused_until_ns, instant_ns now_ns) {
    *paused_until_ns = instant_min(instant_max(*paused_until_ns, now_ns) + PUSH_US * NS_PER_US,
                                   now_ns + PUSHES_MS_MAX * NS_PER_MS);
}

static void push_to_all(struct observe_table *table, struct observe_name *observed, instant_ns now_ns) {
    list_for_each_safe(node, &observed->observers) {
        struct session *session = list_entry(node, struct observe_entry, observed_link)->session;
        charge_push(&observed->paused_until_ns, now_ns);
        charge_push(&table->paused_until_ns[session->account], now_ns);
        push(observed, session, now_ns);
    }
}

/* --- OBSERVE, UNOBSERVE --- */

/* The oldest observer's user pays for the name. */
static void charge_name(struct quota *quota, struct observe_name *observed) {
    const struct list *oldest = list_first(&observed->observers);

    if (!oldest)
        return;
    observed->account = list_entry(oldest, struct observe_entry, observed_link)->session->account;
    quota_charge_account(quota, observed->account, QUOTA_NAMES, 1);
}

static void entry_end(struct observe_entry *entry) {
    struct session *session = entry->session;
    struct quota *quota = &session->front->registry.quota;
    struct observe_table *table = &session->front->observers;
    struct observe_name *observed = entry->observed;

    ledger_writer_not_observed(session, entry->entry);
    list_unlink(&entry->session_link);
    list_unlink(&entry->observed_link);
    session->n_observations--;
    quota_refund(quota, session->account, QUOTA_OBSERVATIONS, 1);
    quota_refund(quota, observed->account, QUOTA_NAMES, 1);
    charge_name(quota, observed);
    pool_give(&table->entries, pool_index(&table->entries, struct observe_entry, entry));
    drop_unless_needed(table, observed);
}

/* Searches the session's list: shorter than that of a name's observers. */
static struct observe_entry *entry_of(const struct session *session, const struct observe_name *observed) {
    list_for_each_safe(node, &session->observations) {
        struct observe_entry *entry = list_entry(node, struct observe_entry, session_link);
        if (entry->observed == observed)
            return entry;
    }
    return NULL;
}

/* NULL when a limit is reached. */
static struct observe_name *observe(struct session *session, const char *name, size_t length,
                                    instant_ns now_ns) {
    struct observe_table *table = &session->front->observers;
    struct quota *quota = &session->front->registry.quota;
    uint64_t hash = registry_hash(&session->front->registry, name, length);
    struct observe_name *observed = hash_table_find(&table->names, hash, name, length);

    if (!observed)
        observed = name_new(table, hash, name, length, now_ns);
    if (!observed)
        return NULL;
    uint32_t index = pool_take(&table->entries);
    if (index == POOL_NONE) {
        drop_unless_needed(table, observed);
        return NULL;
    }
    struct observe_entry *entry = pool_at(&table->entries, index);
    *entry = (struct observe_entry){.session = session, .observed = observed};
    quota_charge_account(quota, session->account, QUOTA_OBSERVATIONS, 1);
    entry->entry = ledger_writer_observed(session, name, length);
    list_append(&session->observations, &entry->session_link);
    bool first = list_is_empty(&observed->observers);
    list_append(&observed->observers, &entry->observed_link);
    if (first)
        charge_name(quota, observed);
    session->n_observations++;
    session->pushes = true;
    return observed;
}

/* The session's observation of the name in the first argument, or NULL. */
static struct observe_entry *find_own(const struct call *call) {
    struct front_state *front = call->session->front;
    const struct resp_token *name = &call->arguments[0];
    const struct observe_name *observed =
        hash_table_find(&front->observers.names, registry_hash(&front->registry, name->text, name->length),
                        name->text, name->length);

    return observed ? entry_of(call->session, observed) : NULL;
}

/* False: the user observes as much as it may, and the session has got the error. */
static bool is_within_quota(struct session *session, const struct resp_token *name) {
    struct front_state *front = session->front;
    uint64_t hash = registry_hash(&front->registry, name->text, name->length);
    const struct observe_name *observed =
        hash_table_find(&front->observers.names, hash, name->text, name->length);
    bool is_new = !observed || list_is_empty(&observed->observers);

    if (is_new && !quota_may(&front->registry.quota, session->uid, QUOTA_NAMES, 1)) {
        reply_quota(session, QUOTA_NAMES, 1);
        return false;
    }
    if (quota_may(&front->registry.quota, session->uid, QUOTA_OBSERVATIONS, 1))
        return true;
    reply_quota(session, QUOTA_OBSERVATIONS, 1);
    return false;
}

void observe_command(const struct call *call) {
    struct session *session = call->session;
    const struct resp_token *name = &call->arguments[0];

    if (!call_has_name(call))
        return;
    if (find_own(call)) {
        reply_integer(session, 0);
        return;
    }
    if (session->n_observations >= SESSION_OBSERVATIONS_MAX) {
        reply_error(session, "QUOTA", "a session observes at most %d names", SESSION_OBSERVATIONS_MAX);
        return;
    }
    if (!is_within_quota(session, name))
        return;
    struct observe_name *observed = observe(session, name->text, name->length, call->now_ns);
    if (!observed) {
        reply_error(session, "QUOTA",
                    "the agent has no room for another observer: %d, and %d names, are its limits",
                    OBSERVATIONS_MAX, OBSERVED_NAMES_MAX);
        return;
    }
    reply_integer(session, 1);
    if (observed->leadership == LEADERSHIP_NEW)
        return;
    observed->owed = call->now_ns - observed->answered_ns > OLD_MS * NS_PER_MS &&
                     observed->leadership != LEADERSHIP_UNKNOWN;
    if (!observed->owed)
        push(observed, session, call->now_ns);
}

void observe_restore(struct session *session, const char *name, size_t length, instant_ns now_ns) {
    if (!session_may(session, POLICY_OBSERVE, name, length))
        push_end(session, name, length);
    else if (session->n_observations < SESSION_OBSERVATIONS_MAX)
        (void) observe(session, name, length, now_ns);
}

void observe_review(struct session *session) {
    list_for_each_safe(node, &session->observations) {
        struct observe_entry *entry = list_entry(node, struct observe_entry, session_link);
        const struct shared_string *name = entry->observed->key.text;
        if (session_may(session, POLICY_OBSERVE, name->bytes, name->head_length))
            continue;
        push_end(session, name->bytes, name->head_length);
        entry_end(entry);
    }
}

void observe_command_end(const struct call *call) {
    if (!call_has_name(call))
        return;
    struct observe_entry *entry = find_own(call);
    if (entry)
        entry_end(entry);
    reply_integer(call->session, entry != NULL);
}

void observe_end(struct session *session) {
    list_for_each_safe(node, &session->observations)
        entry_end(list_entry(node, struct observe_entry, session_link));
    assert(session->n_observations == 0);
}

/* --- queries --- */

/* When the name may be queried again. */
static instant_ns next_query_ns(const struct observe_name *observed) {
    return instant_max(observed->queried_ns + GAP_MS * NS_PER_MS, observed->paused_until_ns);
}

void observe_hint(struct front_state *front, uint64_t name_hash, const char *name, size_t length) {
    struct observe_table *table = &front->observers;
    struct observe_name *observed =
        table->names.pool.taken > 0 ? hash_table_find(&table->names, name_hash, name, length) : NULL;

    if (!observed)
        return;
    observed->hinted = true;
    if (!observed->querying)
        timer_queue_set(&table->due, index_of(table, observed), next_query_ns(observed));
}

static void query(struct front_state *front, struct observe_name *observed, instant_ns now_ns) {
    struct observe_table *table = &front->observers;
    uint32_t index = index_of(table, observed);

    observed->querying = true;
    observed->queried_ns = now_ns;
    observed->due_since_ns = 0;
    if (observed->hinted)
        observed->chase_ms = GAP_MS;
    observed->hinted = false;
    table->querying++;
    observed->asker = observed->account;
    table->querying_of[observed->asker]++;
    timer_queue_remove(&table->due, index);
    leader_ask(front, REPORT_ORIGIN_OBSERVE, index + 1, observed->key.text->bytes,
               observed->key.text->head_length);
}

/* Plans the next query: at the keys' expiry, but not before the gap and not after the usual time. After a
 * hint, queries follow at growing distances until a change shows, which the last answer may have shown. */
static void plan(struct observe_table *table, struct observe_name *observed, int64_t validity_ms,
                 bool changed, instant_ns now_ns) {
    int64_t delay_ms = random_between(&table->random, POLL_MS - POLL_JITTER_MS, POLL_MS + POLL_JITTER_MS);

    if (observed->hinted || changed)
        observed->chase_ms = 0;
    if (observed->hinted) {
        delay_ms = GAP_MS;
    } else if (observed->chase_ms > 0 && observed->chase_ms < delay_ms) {
        delay_ms = observed->chase_ms;
        observed->chase_ms *= 2;
    } else {
        observed->chase_ms = 0;
    }
    if (validity_ms >= 0 && validity_ms < delay_ms - EXPIRY_SLACK_MS)
        delay_ms = validity_ms + EXPIRY_SLACK_MS;
    timer_queue_set(&table->due, index_of(table, observed),
                    instant_max(now_ns + delay_ms * NS_PER_MS, next_query_ns(observed)));
}

/* A resumable lease that was waited for gets another value soon, with the same token. (Only agents' values
 * have a token here.) */
static bool is_same_lease(const struct observe_name *observed, const struct report *report, size_t length,
                          int64_t token) {
    const struct shared_string *value = observed->value;

    if (observed->leadership != LEADERSHIP_HELD || observed->foreign_type != report->foreign_type)
        return false;
    return lock_value_is_same_lease(value->bytes, value->head_length, report->text, length) ||
           (token != 0 && token == observed->token &&
            lock_value_is_same_holder(value->bytes, value->head_length, report->text, length));
}

/* True if observers get a push. */
static bool take_holder(struct observe_table *table, struct observe_name *observed,
                        const struct report *report, instant_ns now_ns) {
    size_t length =
        report->text_length < SHARED_STRING_BYTES_MAX ? report->text_length : SHARED_STRING_BYTES_MAX;
    int64_t token = lock_value_is_agents(report->text, length) ? report->token : 0;
    bool same = is_same_lease(observed, report, length, token);
    bool changed = !same || (token != 0 && token != observed->token);

    struct shared_string *value = shared_string_new(&table->texts, report->text, length, NULL, 0);
    if (!value)
        return false; /* the next query tries again */
    shared_string_unref(&table->texts, observed->value);
    observed->value = value;
    observed->foreign_type = report->foreign_type;
    observed->leadership = LEADERSHIP_HELD;
    if (!same)
        observed->since_ns = now_ns;
    if (!same || token != 0)
        observed->token = token;
    return changed;
}

static bool take_no_holder(struct observe_table *table, struct observe_name *observed,
                           enum observe_leadership leadership, instant_ns now_ns) {
    if (observed->leadership == leadership)
        return false;
    observed->value = shared_string_unref(&table->texts, observed->value);
    observed->token = 0;
    observed->leadership = (uint8_t) leadership;
    observed->since_ns = now_ns;
    return true;
}

/* Without a majority the leadership stays as it is for UNKNOWN_MS. */
static bool take_no_majority(struct observe_table *table, struct observe_name *observed, instant_ns now_ns) {
    observed->unanswered_ns = instant_min(observed->unanswered_ns, now_ns);
    if (now_ns - observed->unanswered_ns < UNKNOWN_MS * NS_PER_MS)
        return false;
    return take_no_holder(table, observed, LEADERSHIP_UNKNOWN, now_ns);
}

/* No value has a majority. The same while a lease's value may be changing; values that differ for longer are
 * those of attempts that fail. */
static bool take_free(struct observe_table *table, struct observe_name *observed, bool changing,
                      instant_ns now_ns) {
    observed->changing_ns = changing ? instant_min(observed->changing_ns, now_ns) : INSTANT_LONG_AGO;
    if (changing && now_ns - observed->changing_ns < UNKNOWN_MS * NS_PER_MS)
        return false;
    return take_no_holder(table, observed, LEADERSHIP_FREE, now_ns);
}

static bool take_report(struct observe_table *table, struct observe_name *observed,
                        const struct report *report, instant_ns now_ns) {
    if (report->kind != REPORT_LEADER || report->undecided)
        return take_no_majority(table, observed, now_ns);
    observed->answered_ns = now_ns;
    observed->unanswered_ns = INSTANT_NEVER;
    if (!report->text)
        return take_free(table, observed, report->changing, now_ns);
    observed->changing_ns = INSTANT_NEVER;
    return take_holder(table, observed, report, now_ns);
}

void observe_report(struct front_state *front, const struct report *report, instant_ns now_ns) {
    struct observe_table *table = &front->observers;
    struct observe_name *observed = pool_at(&table->names.pool, (uint32_t) report->request - 1);
    bool is_held = report->kind == REPORT_LEADER && report->text;

    assert(observed->querying && table->querying > 0);
    table->querying--;
    table->querying_of[observed->asker]--;
    observed->querying = false;
    bool changed = take_report(table, observed, report, now_ns);
    if (changed || (observed->owed && observed->answered_ns == now_ns))
        push_to_all(table, observed, now_ns);
    observed->owed = observed->owed && !changed && observed->answered_ns != now_ns;
    plan(table, observed, is_held ? report->validity_ms : -1, changed, now_ns);
    drop_unless_needed(table, observed);
}

/* When the name may be queried within its user's share. Other users' requests wait at the nodes behind the
 * queries, and at the front behind the pushes; a pause of at most GAP_MS does not count. No name waits for
 * the end of pauses for longer than PUSHES_MS_MAX, as other users may observe it, too. Users that share
 * account 0 are not root. */
static instant_ns user_may_query_ns(const struct front_state *front, const struct observe_name *observed,
                                    instant_ns now_ns) {
    const struct observe_table *table = &front->observers;
    const struct quota *quota = &front->registry.quota;
    uint8_t account = observed->account;
    instant_ns gap_end_ns = now_ns + GAP_MS * NS_PER_MS;
    instant_ns latest_ns = observed->due_since_ns + PUSHES_MS_MAX * NS_PER_MS;

    if (account != 0 && quota_is_trusted(quota, quota->accounts[account].uid))
        return now_ns;
    if (now_ns < latest_ns && table->paused_until_ns[account] > gap_end_ns)
        return instant_min(table->paused_until_ns[account], latest_ns);
    return table->querying_of[account] < OBSERVE_USER_QUERIES_MAX ? now_ns : gap_end_ns;
}

void observe_tick(struct front_state *front, instant_ns now_ns) {
    struct observe_table *table = &front->observers;

    while (observe_due_ns(front) <= now_ns) {
        uint32_t index = timer_queue_first(&table->due);
        struct observe_name *observed = pool_at(&table->names.pool, index);
        if (observed->due_since_ns == 0)
            observed->due_since_ns = now_ns;
        instant_ns at_ns = user_may_query_ns(front, observed, now_ns);
        if (at_ns <= now_ns)
            query(front, observed, now_ns);
        else
            timer_queue_set(&table->due, index, at_ns);
    }
}

instant_ns observe_due_ns(const struct front_state *front) {
    const struct observe_table *table = &front->observers;
    return table->querying < OBSERVE_QUERIES_MAX ? timer_queue_earliest(&table->due) : INSTANT_NEVER;
}
