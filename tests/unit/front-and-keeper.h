/* The front's registry and a keeper's shard, together over simulated nodes, in injected time: nodes fail in
 * many ways, and requests are answered. */
#pragma once

#include "core/shard.h"
#include "local/registry-report.h"

enum {
    MAIL_MAX = 512,
    MAIL_TEXT_MAX = 1100,
    ASKERS_MAX = 8,
    NODE_TIMEOUT_MS = 100,
    TTL_MS = 10000,
    SHORT_MS = 20,
    LONG_MS = 700,
    LEFT_MS = 8000, /* of others' keys */
    SECRET_TO_RESUME = 0xee,
};

enum situation { FREE, HELD_HERE, HELD_THERE, HELD_BY_LIBRARY, SPLIT, RESUMED, RESUMED_ENDED, SITUATIONS };
enum fault { DOWN, REFUSING, CUT, HUNG, STALLED, SLOW, TOO_SLOW, QUARANTINED, CONNECTING, FAULTS };

struct key {
    const char *text; /* another holder's value; NULL: none, or the agent's own */
    uint8_t secret;   /* the agent's own; 0: none */
};

enum mail_kind { MAIL_COMMAND, MAIL_REPORT, MAIL_CALL, MAIL_VOTE, MAIL_PROBED, MAIL_GONE };

struct mail {
    enum mail_kind kind;
    instant_ns at_ns;
    uint64_t order;
    unsigned node;
    struct command command;
    struct report report;
    char text[MAIL_TEXT_MAX];
    enum operation operation;
    uint8_t secret;
    bool our_name;
    uint64_t ticket;
    struct vote vote;
};

struct asker {
    struct admission_requester requester; /* first: the registry's */
    int64_t wait_ms;
    instant_ns asked_ns, answered_ns;
    char word[16], text[256];
};

struct front_and_keeper {
    struct registry registry;
    struct shard shard;
    void *registry_memory, *shard_memory;
    instant_ns now_ns;
    struct mail mail[MAIL_MAX];
    unsigned n_mail;
    uint64_t order;
    uint8_t secrets;
    unsigned n_nodes;
    struct key keys[NODES_MAX];
    node_set faulty;
    enum fault fault;
};

extern struct front_and_keeper harness;
extern struct asker askers[ASKERS_MAX];

struct mail *post(enum mail_kind kind, int64_t after_us);
bool is_faulty(unsigned node);

/* One way; negative: nothing gets there, or back. */
int64_t way_us(unsigned node);

void node_breaks(unsigned node);
void pass_ms(int64_t ms);

/* No node is connected yet. */
void front_and_keeper_begin(unsigned nodes);
void join_nodes(enum fault fault, node_set faulty);

/* The request of askers[index]. */
void ask_for(unsigned index, const char *name, int64_t wait_ms, bool resume);
void set_keys(enum situation situation);

/* Everything that is wrong from now on. Nodes that are faulty from the start join, if at all, as such. */
void begin_faults(enum fault fault, node_set faulty);
