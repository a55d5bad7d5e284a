#include "local/observe.h"

#include <assert.h>
#include <string.h>

#include "base/memory-layout.h"
#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/argument.h"
#include "local/command.h"
#include "local/recovery/ledger-writer.h"
#include "local/session.h"

/* Beside command.c's flag for LEADER. */
#define OBSERVE_FLAG (UINT64_C(1) << 61)

enum {
    POLL_MS = 1000,        /* from one question to the next, when nothing is known of a change */
    POLL_JITTER_MS = 100,  /* either way: names are not asked for all at once */
    GAP_MS = 20,           /* between two questions at least: names that change hands all the time */
    EXPIRY_SLACK_MS = 5,   /* after the keys' end: the nodes' clocks differ */
    UNKNOWN_MS = 5 * 1000, /* from the first question that no majority answered, until observers are told */
    BUCKETS = OBSERVED_NAMES_MAX,
};

static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a hash's low bits are its bucket");

/* --- memory --- */

/* A name and a value for each. */
static size_t text_bytes(void) {
    size_t worst =
        (size_t) OBSERVED_NAMES_MAX * 2 * (SHARED_STRING_BYTES_MAX + sizeof(struct shared_string));
    return (worst / SHARED_STRING_BLOCK_BYTES + SHARED_STRING_CLASSES) * SHARED_STRING_BLOCK_BYTES;
}

static size_t lay_out(struct observe_table *observatory, unsigned char *memory) {
    size_t offset = 0;

    void *names = memory_layout_next(memory, &offset, OBSERVED_NAMES_MAX * sizeof(struct observe_name));
    void *observations =
        memory_layout_next(memory, &offset, OBSERVATIONS_MAX * sizeof(struct observe_entry));
    void *due = memory_layout_next(memory, &offset, timer_queue_memory_bytes(OBSERVED_NAMES_MAX));
    void *buckets = memory_layout_next(memory, &offset, BUCKETS * sizeof(uint32_t));
    void *texts = memory_layout_next(memory, &offset, text_bytes());

    if (memory) {
        pool_init(&observatory->names, names, sizeof(struct observe_name), OBSERVED_NAMES_MAX);
        pool_init(&observatory->observations, observations, sizeof(struct observe_entry), OBSERVATIONS_MAX);
        timer_queue_init(&observatory->due, due, OBSERVED_NAMES_MAX);
        shared_string_pool_init(&observatory->texts, texts, text_bytes());
        observatory->buckets = buckets;
    }
    return offset;
}

size_t observe_memory_bytes(void) {
    return lay_out(NULL, NULL);
}

void observe_init(struct observe_table *observatory, uint64_t seed, void *memory) {
    assert(memory);

    *observatory = (struct observe_table){0};
    random_init(&observatory->random, seed);
    (void) lay_out(observatory, memory);
}

/* --- names --- */

static uint32_t index_of(const struct observe_table *observatory, const struct observe_name *observed) {
    return pool_index(&observatory->names, struct observe_name, observed);
}

static struct observe_name *find(const struct observe_table *observatory, uint64_t hash, const char *name,
                                 size_t length) {
    for (uint32_t at = observatory->buckets[hash & (BUCKETS - 1)]; at != 0;) {
        struct observe_name *observed = pool_at(&observatory->names, at - 1);
        if (observed->hash == hash &&
            bytes_equal(observed->name->bytes, observed->name->head_length, name, length))
            return observed;
        at = observed->next_in_bucket;
    }
    return NULL;
}

static struct observe_name *observed_new(struct observe_table *observatory, uint64_t hash, const char *name,
                                         size_t length, instant_ns now_ns) {
    uint32_t *bucket = &observatory->buckets[hash & (BUCKETS - 1)];
    struct shared_string *text = shared_string_new(&observatory->texts, name, length, NULL, 0);
    uint32_t index = text ? pool_take(&observatory->names) : POOL_NONE;

    if (index == POOL_NONE) {
        shared_string_unref(&observatory->texts, text);
        return NULL;
    }
    struct observe_name *observed = pool_at(&observatory->names, index);
    *observed = (struct observe_name){
        .hash = hash,
        .next_in_bucket = *bucket,
        .name = text,
        .since_ns = now_ns,
        .unheard_ns = INSTANT_NEVER,
        .looked_ns = INSTANT_LONG_AGO,
    };
    list_init(&observed->observers);
    *bucket = index + 1;
    timer_queue_set(&observatory->due, index, now_ns);
    return observed;
}

/* While a question is under way its answer is awaited: then there is one question a name, whatever its
 * observers do. */
static void drop_unless_needed(struct observe_table *observatory, struct observe_name *observed) {
    uint32_t index = index_of(observatory, observed);
    uint32_t *link = &observatory->buckets[observed->hash & (BUCKETS - 1)];

    if (observed->looking || !list_is_empty(&observed->observers))
        return;
    while (*link != index + 1)
        link = &((struct observe_name *) pool_at(&observatory->names, *link - 1))->next_in_bucket;
    *link = observed->next_in_bucket;
    observed->name = shared_string_unref(&observatory->texts, observed->name);
    observed->value = shared_string_unref(&observatory->texts, observed->value);
    timer_queue_remove(&observatory->due, index);
    pool_give(&observatory->names, index);
}

/* --- telling --- */

static void put_text(struct resp_writer *writer, const char *text) {
    resp_put_bulk(writer, text, strlen(text));
}

static void tell(struct front_state *service, const struct observe_name *observed, struct session *session,
                 instant_ns now_ns) {
    static const char *const words[] = {
        [LEADERSHIP_UNKNOWN] = "unknown", [LEADERSHIP_FREE] = "free", [LEADERSHIP_HELD] = "held"};
    struct resp_writer writer = session_compose(service);
    bool held = observed->leadership == LEADERSHIP_HELD;
    const struct session_holder holder = {.value = held ? observed->value->bytes : NULL,
                                          .length = held ? observed->value->head_length : 0,
                                          .foreign_type = observed->foreign_type,
                                          .token = observed->token};

    resp_put_push(&writer, 3, session->protocol);
    put_text(&writer, "leader");
    resp_put_bulk(&writer, observed->name->bytes, observed->name->head_length);
    resp_put_map(&writer, held ? 2 + session_holder_pairs(&holder) : 2, session->protocol);
    put_text(&writer, "state");
    put_text(&writer, words[observed->leadership]);
    put_text(&writer, "since");
    resp_put_integer(&writer, (now_ns - observed->since_ns) / NS_PER_MS);
    if (held)
        session_put_holder(&writer, &holder);
    session_send(session, service, &writer);
}

static void tell_all(struct front_state *service, const struct observe_name *observed, instant_ns now_ns) {
    list_for_each_safe(node, &observed->observers)
        tell(service, observed, list_entry(node, struct observe_entry, observed_link)->session, now_ns);
}

/* --- OBSERVE, UNOBSERVE --- */

static void reply_integer(struct session *session, struct front_state *service, int64_t value) {
    struct resp_writer writer = session_compose(service);

    resp_put_integer(&writer, value);
    session_send(session, service, &writer);
}

static void observation_end(struct front_state *service, struct observe_entry *observation) {
    struct observe_table *observatory = &service->observatory;
    struct observe_name *observed = observation->observed;

    ledger_writer_not_observed(service, observation->session, observation->entry);
    list_unlink(&observation->session_link);
    list_unlink(&observation->observed_link);
    observation->session->n_observations--;
    pool_give(&observatory->observations,
              pool_index(&observatory->observations, struct observe_entry, observation));
    drop_unless_needed(observatory, observed);
}

/* From the session's side: it has fewer observations than a name may have observers. */
static struct observe_entry *observation_of(const struct session *session,
                                            const struct observe_name *observed) {
    list_for_each_safe(node, &session->observations) {
        struct observe_entry *observation = list_entry(node, struct observe_entry, session_link);
        if (observation->observed == observed)
            return observation;
    }
    return NULL;
}

/* NULL when a limit is reached. */
static struct observe_name *observe(struct front_state *service, struct session *session, uint64_t hash,
                                    const char *name, size_t length, instant_ns now_ns) {
    struct observe_table *observatory = &service->observatory;
    struct observe_name *observed = find(observatory, hash, name, length);

    if (!observed)
        observed = observed_new(observatory, hash, name, length, now_ns);
    if (!observed)
        return NULL;
    uint32_t index = pool_take(&observatory->observations);
    if (index == POOL_NONE) {
        drop_unless_needed(observatory, observed);
        return NULL;
    }
    struct observe_entry *observation = pool_at(&observatory->observations, index);
    *observation = (struct observe_entry){.session = session, .observed = observed};
    observation->entry = ledger_writer_observed(service, session, name, length);
    list_append(&session->observations, &observation->session_link);
    list_append(&observed->observers, &observation->observed_link);
    session->n_observations++;
    session->pushes = true;
    return observed;
}

void observe_command(struct session *session, struct front_state *service,
                     const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    const char *name = arguments[0].text;
    size_t length = arguments[0].length;

    (void) n_arguments;
    if (!command_name_is_fine(session, service, &arguments[0]))
        return;
    uint64_t hash = registry_hash(&service->registry, name, length);
    struct observe_name *observed = find(&service->observatory, hash, name, length);
    if (observed && observation_of(session, observed)) {
        reply_integer(session, service, 0);
        return;
    }
    if (session->n_observations >= SESSION_OBSERVATIONS_MAX) {
        session_error(session, service, "QUOTA", "a session observes at most %d names",
                      SESSION_OBSERVATIONS_MAX);
        return;
    }
    observed = observe(service, session, hash, name, length, now_ns);
    if (!observed) {
        session_error(session, service, "QUOTA",
                      "the agent has no room for another observer: %d, and %d names, are its limits",
                      OBSERVATIONS_MAX, OBSERVED_NAMES_MAX);
        return;
    }
    reply_integer(session, service, 1);
    if (observed->leadership != LEADERSHIP_NEW)
        tell(service, observed, session, now_ns);
}

void observe_restore(struct front_state *service, struct session *session, const char *name, size_t length,
                     instant_ns now_ns) {
    uint64_t hash = registry_hash(&service->registry, name, length);

    if (session->n_observations < SESSION_OBSERVATIONS_MAX)
        (void) observe(service, session, hash, name, length, now_ns);
}

void observe_command_end(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    const char *name = arguments[0].text;
    size_t length = arguments[0].length;

    (void) n_arguments;
    (void) now_ns;
    if (!command_name_is_fine(session, service, &arguments[0]))
        return;
    const struct observe_name *observed =
        find(&service->observatory, registry_hash(&service->registry, name, length), name, length);
    struct observe_entry *observation = observed ? observation_of(session, observed) : NULL;
    if (observation)
        observation_end(service, observation);
    reply_integer(session, service, observation != NULL);
}

void observe_end(struct session *session, struct front_state *service) {
    list_for_each_safe(node, &session->observations)
        observation_end(service, list_entry(node, struct observe_entry, session_link));
    assert(session->n_observations == 0);
}

/* --- looking --- */

void observe_hint(struct front_state *service, uint64_t name_hash, const char *name, size_t length) {
    struct observe_table *observatory = &service->observatory;
    struct observe_name *observed =
        observatory->names.taken > 0 ? find(observatory, name_hash, name, length) : NULL;

    if (!observed)
        return;
    observed->hinted = true;
    if (!observed->looking)
        timer_queue_set(&observatory->due, index_of(observatory, observed),
                        observed->looked_ns + GAP_MS * NS_PER_MS);
}

bool observe_asked(uint64_t request) {
    return request & OBSERVE_FLAG;
}

static void ask(struct front_state *service, struct observe_name *observed, instant_ns now_ns) {
    struct observe_table *observatory = &service->observatory;
    const struct shared_string *name = observed->name;

    observed->looking = true;
    observed->looked_ns = now_ns;
    if (observed->hinted)
        observed->hunt_ms = GAP_MS;
    observed->hinted = false;
    observatory->looking++;
    timer_queue_remove(&observatory->due, index_of(observatory, observed));
    command_look(service, OBSERVE_FLAG | index_of(observatory, observed), name->bytes, name->head_length);
}

/* The next question: when the keys may end, but not before the gap and not after the usual time. Who has
 * been given a hint looks for the change: more and more rarely, for it may have been seen before. */
static void plan(struct observe_table *observatory, struct observe_name *observed, int64_t validity_ms,
                 bool changed, instant_ns now_ns) {
    int64_t delay_ms =
        random_between(&observatory->random, POLL_MS - POLL_JITTER_MS, POLL_MS + POLL_JITTER_MS);

    if (observed->hinted || changed)
        observed->hunt_ms = 0;
    if (observed->hinted) {
        delay_ms = GAP_MS;
    } else if (observed->hunt_ms > 0 && observed->hunt_ms < delay_ms) {
        delay_ms = observed->hunt_ms;
        observed->hunt_ms *= 2;
    } else {
        observed->hunt_ms = 0;
    }
    if (validity_ms >= 0 && validity_ms < delay_ms - EXPIRY_SLACK_MS)
        delay_ms = validity_ms + EXPIRY_SLACK_MS;
    timer_queue_set(&observatory->due, index_of(observatory, observed),
                    instant_max(now_ns + delay_ms * NS_PER_MS, observed->looked_ns + GAP_MS * NS_PER_MS));
}

/* Whether there is something to tell. */
static bool take_holder(struct observe_table *observatory, struct observe_name *observed,
                        const struct report *report, instant_ns now_ns) {
    size_t length =
        report->text_length < SHARED_STRING_BYTES_MAX ? report->text_length : SHARED_STRING_BYTES_MAX;
    int64_t token = lock_value_is_agents(report->text, length) ? report->token : 0;
    bool same =
        observed->leadership == LEADERSHIP_HELD && observed->foreign_type == report->foreign_type &&
        lock_value_is_same_lease(observed->value->bytes, observed->value->head_length, report->text, length);
    bool news = !same || (token != 0 && token != observed->token);

    struct shared_string *value = shared_string_new(&observatory->texts, report->text, length, NULL, 0);
    if (!value)
        return false; /* told the next time that there is memory */
    shared_string_unref(&observatory->texts, observed->value);
    observed->value = value;
    observed->foreign_type = report->foreign_type;
    observed->leadership = LEADERSHIP_HELD;
    if (!same)
        observed->since_ns = now_ns;
    if (!same || token != 0)
        observed->token = token;
    return news;
}

static bool take_no_holder(struct observe_table *observatory, struct observe_name *observed,
                           enum observe_leadership leadership, instant_ns now_ns) {
    if (observed->leadership == leadership)
        return false;
    observed->value = shared_string_unref(&observatory->texts, observed->value);
    observed->token = 0;
    observed->leadership = (uint8_t) leadership;
    observed->since_ns = now_ns;
    return true;
}

/* Without a majority nothing is known, and nothing is told for a while. */
static bool take_report(struct observe_table *observatory, struct observe_name *observed,
                        const struct report *report, instant_ns now_ns) {
    if (report->kind == REPORT_LOOKED && (report->text || !report->undecided)) {
        observed->unheard_ns = INSTANT_NEVER;
        return report->text ? take_holder(observatory, observed, report, now_ns)
                            : take_no_holder(observatory, observed, LEADERSHIP_FREE, now_ns);
    }
    observed->unheard_ns = instant_min(observed->unheard_ns, now_ns);
    if (now_ns - observed->unheard_ns < UNKNOWN_MS * NS_PER_MS)
        return false;
    return take_no_holder(observatory, observed, LEADERSHIP_UNKNOWN, now_ns);
}

void observe_looked(struct front_state *service, const struct report *report, instant_ns now_ns) {
    struct observe_table *observatory = &service->observatory;
    struct observe_name *observed =
        pool_at(&observatory->names, (uint32_t) (report->request & (OBSERVED_NAMES_MAX - 1)));

    assert(observed->looking && observatory->looking > 0);
    observatory->looking--;
    observed->looking = false;
    bool changed = take_report(observatory, observed, report, now_ns);
    plan(observatory, observed, report->text && report->kind == REPORT_LOOKED ? report->validity_ms : -1,
         changed, now_ns);
    if (changed)
        tell_all(service, observed, now_ns);
    drop_unless_needed(observatory, observed);
}

void observe_tick(struct front_state *service, instant_ns now_ns) {
    struct observe_table *observatory = &service->observatory;

    while (observe_due_ns(service) <= now_ns)
        ask(service, pool_at(&observatory->names, timer_queue_first(&observatory->due)), now_ns);
}

instant_ns observe_due_ns(const struct front_state *service) {
    const struct observe_table *observatory = &service->observatory;
    return observatory->looking < OBSERVE_LOOKS_MAX ? timer_queue_earliest(&observatory->due)
                                                    : INSTANT_NEVER;
}
