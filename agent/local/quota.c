#include "local/quota.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "local/policy.h"

enum {
    EXTENSIONS_TTL_MS = 60 * 1000 * 8 / 3, /* with this ttl: one a minute, after three eighths of the ttl */
    SHORT_TTL_MS = 1000,                   /* below: an extension counts twice, */
    SHORTEST_TTL_MS = 300,                 /* and four times below this */
};

static_assert(QUOTA_ACCOUNTS <= UINT8_MAX + 1, "a request keeps the index in one byte");
static_assert((QUOTA_ACCOUNTS & (QUOTA_ACCOUNTS - 1)) == 0, "a hash's low bits are its bucket");

size_t quota_memory_bytes(void) {
    return QUOTA_ACCOUNTS * sizeof(struct quota_rule_use[RULES_MAX + 1]);
}

void quota_init(struct quota *quota, void *memory) {
    *quota = (struct quota){.free = 1, .n_free = QUOTA_ACCOUNTS - 1, .rule_use = memory};
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        quota->max[kind] = QUOTA_UNLIMITED;
    for (unsigned i = 1; i < QUOTA_ACCOUNTS; i++)
        quota->accounts[i].next = (uint16_t) (i + 1 < QUOTA_ACCOUNTS ? i + 1 : 0);
}

bool quota_is_trusted(const struct quota *quota, uid_t uid) {
    return uid == 0 || uid == quota->owner;
}

/* --- accounts --- */

/* Users choose no uids, but an owner of many subordinate ones may choose among these. */
static uint16_t *bucket_of(struct quota *quota, uid_t uid) {
    return &quota->buckets[(uid ^ uid >> 8 ^ uid >> 16 ^ uid >> 24) & (QUOTA_ACCOUNTS - 1)];
}

unsigned quota_index(const struct quota *quota, uid_t uid) {
    unsigned at = *bucket_of((struct quota *) quota, uid);

    while (at != 0 && quota->accounts[at].uid != uid)
        at = quota->accounts[at].next;
    return at;
}

static bool may_open(const struct quota *quota, uid_t uid) {
    return quota->n_free > (quota_is_trusted(quota, uid) ? 0 : QUOTA_KEPT_ACCOUNTS);
}

const struct quota_account *quota_find(const struct quota *quota, uid_t uid) {
    static const struct quota_account none;
    unsigned index = quota_index(quota, uid);

    return index != 0 ? &quota->accounts[index] : may_open(quota, uid) ? &none : &quota->accounts[0];
}

const struct quota_account *quota_at(const struct quota *quota, unsigned index) {
    assert(index < QUOTA_ACCOUNTS);

    return quota->accounts[index].exists ? &quota->accounts[index] : NULL;
}

static unsigned open_account(struct quota *quota, uid_t uid) {
    unsigned index = quota_index(quota, uid);
    uint16_t *bucket = bucket_of(quota, uid);

    if (index != 0)
        return index;
    if (!may_open(quota, uid)) {
        quota->accounts[0].exists = true;
        return 0;
    }
    index = quota->free;
    struct quota_account *account = &quota->accounts[index];
    quota->free = account->next;
    quota->n_free--;
    *account = (struct quota_account){.uid = uid, .next = *bucket, .exists = true};
    *bucket = (uint16_t) index;
    return index;
}

static void close_account(struct quota *quota, unsigned index) {
    struct quota_account *account = &quota->accounts[index];
    uint16_t *link = bucket_of(quota, account->uid);

    account->exists = false;
    if (index == 0)
        return;
    while (*link != index)
        link = &quota->accounts[*link].next;
    *link = account->next;
    account->next = quota->free;
    quota->free = (uint16_t) index;
    quota->n_free++;
}

/* --- use and limits --- */

/* All that there is for trusted users, or for the others. */
static uint64_t total(const struct quota *quota, enum quota_kind kind, bool trusted) {
    uint64_t max = quota->max[kind], tenth = max / 10;

    if (trusted || kind != QUOTA_SESSIONS || max == QUOTA_UNLIMITED)
        return max;
    return max - (tenth < QUOTA_KEPT_SESSIONS ? tenth : QUOTA_KEPT_SESSIONS);
}

static uint64_t left(const struct quota *quota, enum quota_kind kind, bool trusted) {
    uint64_t max = total(quota, kind, trusted);

    return quota->used[kind] < max ? max - quota->used[kind] : 0;
}

bool quota_may(const struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount) {
    bool trusted = quota_is_trusted(quota, uid);
    uint64_t rest = left(quota, kind, trusted);
    uint64_t after = quota_find(quota, uid)->used[kind] + amount;

    return quota->max[kind] == QUOTA_UNLIMITED || trusted || (amount <= rest && after <= rest - amount);
}

uint8_t quota_charge(struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount) {
    uint8_t account = (uint8_t) open_account(quota, uid);

    quota_charge_account(quota, account, kind, amount);
    return account;
}

void quota_charge_account(struct quota *quota, uint8_t account, enum quota_kind kind, uint64_t amount) {
    assert(quota->accounts[account].exists);

    quota->accounts[account].used[kind] += amount;
    quota->used[kind] += amount;
    assert(quota->used[kind] >= amount);
}

void quota_refund(struct quota *quota, uint8_t account, enum quota_kind kind, uint64_t amount) {
    struct quota_account *payer = &quota->accounts[account];
    bool used = false;

    assert(payer->used[kind] >= amount && quota->used[kind] >= amount);
    payer->used[kind] -= amount;
    quota->used[kind] -= amount;
    if (payer->used[kind] > 0)
        return;
    for (unsigned i = 0; i < QUOTA_KINDS; i++)
        used |= payer->used[i] != 0;
    if (!used && payer->exists)
        close_account(quota, account);
}

static uint64_t limit_of(const struct quota *quota, const struct quota_account *account, bool trusted,
                         enum quota_kind kind) {
    uint64_t most = account->used[kind] + left(quota, kind, trusted);

    if (quota->max[kind] == QUOTA_UNLIMITED)
        return QUOTA_UNLIMITED;
    if (kind == QUOTA_REQUESTS)
        return QUOTA_REQUESTS_USER_MAX;
    return trusted ? most : most / 2;
}

uint64_t quota_limit(const struct quota *quota, uid_t uid, enum quota_kind kind) {
    return limit_of(quota, quota_find(quota, uid), quota_is_trusted(quota, uid), kind);
}

uint32_t quota_extensions(uint32_t ttl_ms) {
    uint32_t times = ttl_ms >= SHORT_TTL_MS ? 1 : ttl_ms >= SHORTEST_TTL_MS ? 2 : 4;

    return ttl_ms < EXTENSIONS_TTL_MS && ttl_ms > 0 ? (times * EXTENSIONS_TTL_MS + ttl_ms - 1) / ttl_ms : 1;
}

unsigned quota_fullest_permille(const struct quota *quota, enum quota_kind kind) {
    unsigned fullest = 0;

    for (unsigned i = 0; i < QUOTA_ACCOUNTS && quota->max[kind] != QUOTA_UNLIMITED; i++) {
        const struct quota_account *account = quota_at(quota, i);
        if (!account || account->used[kind] == 0 || (i > 0 && quota_is_trusted(quota, account->uid)))
            continue;
        uint64_t limit = limit_of(quota, account, false, kind), used = account->used[kind];
        unsigned permille = used < limit ? (unsigned) (used * 1000 / limit) : 1000;
        fullest = permille > fullest ? permille : fullest;
    }
    return fullest;
}

void quota_count_rule(struct quota *quota, uint8_t account, uint8_t rule, int leases, int waiters) {
    if (rule == 0 || (leases == 0 && waiters == 0))
        return;
    struct quota_rule_use *use = &quota->rule_use[account][rule];
    use->leases += (uint32_t) leases;
    use->waiters += (uint32_t) waiters;
    assert((int32_t) use->leases >= 0 && (int32_t) use->waiters >= 0);
}

struct quota_rule_use quota_rule_use(const struct quota *quota, uid_t uid, uint8_t rule) {
    unsigned index = quota_index(quota, uid);

    if (rule == 0 || (index == 0 && may_open(quota, uid)))
        return (struct quota_rule_use){0};
    return quota->rule_use[index][rule];
}

bool quota_rule_may(const struct quota *quota, uid_t uid, uint8_t rule, bool waits) {
    if (rule == 0 || quota_is_trusted(quota, uid))
        return true;
    const struct policy_limits *most = &quota->rules[rule - 1].terms;
    const struct quota_rule_use use = quota_rule_use(quota, uid, rule);
    if (waits)
        return most->max_waiters == 0 || use.waiters < most->max_waiters;
    return most->max_leases == 0 || use.leases < most->max_leases;
}

void quota_rule_text(const struct quota *quota, uid_t uid, uint8_t rule, bool waits,
                     char text[QUOTA_RULE_TEXT_BYTES]) {
    const struct policy_rule *of = &quota->rules[rule - 1];

    (void) snprintf(text, QUOTA_RULE_TEXT_BYTES,
                    "rule \"%s\" (line %u) has %s = %u, and user %u has as many", of->pattern, of->line,
                    waits ? "max_waiters" : "max_leases",
                    waits ? of->terms.max_waiters : of->terms.max_leases, uid);
}

void quota_set_rules(struct quota *quota, const struct policy_rule *rules) {
    memset(quota->rule_use, 0, quota_memory_bytes());
    quota->rules = rules;
}

const char *quota_word(enum quota_kind kind) {
    static const char *const words[] = {
        [QUOTA_SESSIONS] = "max_sessions",         [QUOTA_LEASES] = "max_leases",
        [QUOTA_EXTENSIONS] = "max_extensions",     [QUOTA_NAMES] = "max_observed_names",
        [QUOTA_OBSERVATIONS] = "max_observations", [QUOTA_BYTES] = "max_buffered_bytes",
        [QUOTA_DESCRIPTORS] = "descriptors",       [QUOTA_REQUESTS] = "requests",
    };

    static_assert(sizeof(words) / sizeof(words[0]) == QUOTA_KINDS, "each kind has its word");
    return words[kind];
}

void quota_text(const struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount,
                char text[QUOTA_TEXT_BYTES]) {
    uint64_t used = quota_find(quota, uid)->used[kind];
    uint64_t max = total(quota, kind, quota_is_trusted(quota, uid));

    (void) snprintf(text, QUOTA_TEXT_BYTES,
                    "%s: user %u has %" PRIu64 " of at most %" PRIu64
                    ", half of what other users leave of %" PRIu64 ", and this needs %" PRIu64 " more",
                    quota_word(kind), uid, used, quota_limit(quota, uid, kind), max, amount);
}
