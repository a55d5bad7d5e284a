/* Quotas: how much each user has of what sessions can use up, and in all. Owned by the front thread.
 *
 * A user may take more of a kind only if afterwards it has at most as much as is left: a user alone has at
 * most half, the next one half of the rest, and so on (the rule of dbus-broker's accounts). So no user takes
 * all, and no user needs a limit of its own. Root and the agent's own user are trusted: they may take all
 * that is left, and what they have counts as used. Of the sessions QUOTA_KEPT_SESSIONS are kept for them: a
 * user with many uids can't keep root from connecting.
 *
 * A few leases with a short ttl keep the keepers and the nodes as busy as many with a long one. So
 * extensions have a limit of their own.
 *
 * Requests at the nodes are shared in another way (admission.h, query-share.h): those beyond a user's share
 * wait, so quota_may() is not asked about them. The limit shown is the most that a user's sessions have.
 *
 * Users with something in use have an account each, while there are free ones; the last QUOTA_KEPT_ACCOUNTS
 * are for root and the agent's user. Further users share account 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/limits.h"

struct policy_rule;

enum quota_kind {
    QUOTA_SESSIONS,
    QUOTA_LEASES,       /* leases and waiters */
    QUOTA_EXTENSIONS,   /* the extensions a minute that these need, or would need */
    QUOTA_NAMES,        /* observed names; the oldest observer of a name has it */
    QUOTA_OBSERVATIONS, /* observers of all names */
    QUOTA_BYTES,        /* half requests, and replies and pushes that are unread */
    QUOTA_DESCRIPTORS,  /* SESSION_DESCRIPTORS for each session */
    QUOTA_REQUESTS,     /* at the nodes: first attempts and LEADER */
    QUOTA_KINDS,        /* each adds 9 KiB to METRICS, of which libredlock reads 256 KiB at most */
};

enum {
    QUOTA_ACCOUNTS = 256,
    QUOTA_KEPT_ACCOUNTS = 2,
    QUOTA_KEPT_SESSIONS = 16, /* at most a tenth of all */
    QUOTA_REQUESTS_USER_MAX = ADMITTED_USER_MAX + QUERIES_USER_MAX,
};
#define QUOTA_UNLIMITED UINT64_MAX

struct quota_account {
    uid_t uid;
    uint64_t used[QUOTA_KINDS];
    uint16_t next; /* in its bucket, or of the free ones: index; 0: the last */
    bool exists;
};

/* A user's use of a rule's max_leases and max_waiters. */
struct quota_rule_use {
    uint32_t leases; /* held or contending */
    uint32_t waiters;
};

struct quota {
    uint64_t max[QUOTA_KINDS];
    uint64_t used[QUOTA_KINDS]; /* by all users */
    uid_t owner;                /* the agent's user */
    uint16_t buckets[QUOTA_ACCOUNTS], free, n_free;
    struct quota_account accounts[QUOTA_ACCOUNTS];
    struct quota_rule_use (*rule_use)[RULES_MAX + 1]; /* by account and by number of the rule */
    const struct policy_rule *rules;                  /* the policy's: policy_number() counts from 1 */
};

size_t quota_memory_bytes(void);

/* No kind has a limit yet. `memory`: that many zeroed bytes, which the caller frees after the last use. */
void quota_init(struct quota *quota, void *memory);

/* Root, or the agent's user. */
bool quota_is_trusted(const struct quota *quota, uid_t uid);

/* The user's account; for a user without one an empty one, or account 0 if that is what it would get. */
const struct quota_account *quota_find(const struct quota *quota, uid_t uid);

/* The index of the user's account; 0 if it has none of its own. */
unsigned quota_index(const struct quota *quota, uid_t uid);

/* The account in this place, or NULL: for listings, with `index` from 0 to QUOTA_ACCOUNTS - 1. Account 0 is
 * there only if users share it. */
const struct quota_account *quota_at(const struct quota *quota, unsigned index);

/* True if the user may take this much more. */
bool quota_may(const struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount);

/* The user takes so much, whether it may or not. Returns the index of the account, for quota_refund(). */
uint8_t quota_charge(struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount);

/* The same for an account that has something in use. */
void quota_charge_account(struct quota *quota, uint8_t account, enum quota_kind kind, uint64_t amount);
void quota_refund(struct quota *quota, uint8_t account, enum quota_kind kind, uint64_t amount);

/* The most that the user may have of this kind as long as the others have what they have. */
uint64_t quota_limit(const struct quota *quota, uid_t uid, enum quota_kind kind);

/* Extensions a minute of one lease with this ttl, rounded up. Each counts twice with a ttl below a second,
 * and four times below 300 ms, since fewer of them share a script call and a turn of the keeper. */
uint32_t quota_extensions(uint32_t ttl_ms);

/* The largest part of its limit that a user has, in thousandths. Users without a limit don't count. */
unsigned quota_fullest_permille(const struct quota *quota, enum quota_kind kind);

/* "max_leases: user 1001 has 64 of at most 65 …": why quota_may() was false. */
enum { QUOTA_TEXT_BYTES = 256 };
void quota_text(const struct quota *quota, uid_t uid, enum quota_kind kind, uint64_t amount,
                char text[QUOTA_TEXT_BYTES]);

/* The user's requests under a rule, by its number, become more or fewer. Rule 0 is none: nothing is
 * counted. */
void quota_count_rule(struct quota *quota, uint8_t account, uint8_t rule, int leases, int waiters);

/* The user's leases and waiters under the rule. */
struct quota_rule_use quota_rule_use(const struct quota *quota, uid_t uid, uint8_t rule);

/* False: one more lease, or waiter, would exceed the rule's limit. Root and the agent's user always may. */
bool quota_rule_may(const struct quota *quota, uid_t uid, uint8_t rule, bool waits);

/* 'rule "deploy/…" (line 3) has max_leases = 2 …': why quota_rule_may() was false. */
enum { QUOTA_RULE_TEXT_BYTES = NAME_BYTES_MAX + 128 };
void quota_rule_text(const struct quota *quota, uid_t uid, uint8_t rule, bool waits,
                     char text[QUOTA_RULE_TEXT_BYTES]);

/* The rules have changed: these count from now on, and stay where they are until the next call. All counts
 * of rules are zero, and quota_count_rule() follows for each request. */
void quota_set_rules(struct quota *quota, const struct policy_rule *rules);

/* The kind's name: the option of redlockd.conf(5) that limits it, or a word. */
const char *quota_word(enum quota_kind kind);
