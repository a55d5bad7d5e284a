/* The nodes, as the agents' scripts see them. */
#pragma once

#include "events.h"
#include "sim.h"

/* A note of an address. */
struct sim_note {
    int64_t at_us; /* by the node's clock; 0: none */
    bool known;    /* noted as a node of the fleet */
};

struct node_data {
    uint32_t epoch;   /* the process that the epoch key names; 0: none */
    int64_t floor_us; /* the rest of the epoch */
    uint32_t max_ttl_ms, proposed_ms, fleet, generation;
    bool rested;
    uint32_t marked_ms;                  /* the longest max_ttl of the agents that left marks */
    int64_t fleet_marked_us[SIM_FLEETS]; /* when each fleet left its mark, by the node's clock; 0: never */
    struct sim_note notes[SIM_NODES_MAX]
                         [SIM_ADDRESSES]; /* the addresses at which agents reach each of their nodes */
    struct {
        uint64_t number;
        uint32_t process;
    } marks[SIM_AGENTS_MAX * SIM_KEEPERS_MAX];
    struct sim_key {
        bool set;
        uint8_t secret[SECRET_BYTES];
        uint32_t owner;
        struct sim_tail tail;
        int64_t expires_ns;   /* by the node's clock */
        int64_t true_set_ns;  /* when a request last set it */
        int64_t token;        /* the largest accepted token; 0: none */
        int64_t own_token;    /* the holder's, behind it */
        bool released;        /* released, and not set since */
        bool released_before; /* the same, of the last set */
        bool late;            /* its last request came late: see note_late() */
        bool repeated; /* its last request was a relay's repetition, of which its agent knows nothing */
    } keys[SIM_NAMES];
    struct {
        uint8_t lease[SECRET_LEASE_BYTES];
        uint16_t number;    /* of its last RESUME */
        uint32_t owner;     /* which set that number */
        int64_t expires_ns; /* by the node's clock */
    } moved[SIM_MOVED];     /* resumed leases; the last one first */
};

struct sim_node {
    struct clock clock;
    int64_t stopped_until_ns;
    int64_t refuses_until_ns;          /* most writes, like a server that is full or read-only */
    bool lacks_scripts;                /* until somebody loads them */
    int64_t slow_until_ns, slow_us;    /* each answer is late by up to so much */
    uint32_t process;                  /* the run_id: another one after each restart */
    int64_t lost_ns;                   /* when it last lost data */
    int64_t overwritten_ns;            /* when another program last set a key */
    int64_t set_back_ns;               /* by how much its clock was set back in all */
    int64_t odd_from_ns, odd_until_ns; /* true time: its clock stops, or runs backwards */
    bool reversed;
    uint32_t subscribers[SIM_AGENTS_MAX][SIM_KEEPERS_MAX][SIM_NAMES]; /* lives of their connections */
    struct node_data data, saved; /* its data, and the data of its last write to disk */
};

extern struct sim_node sim_nodes[SIM_NODES_MAX];
extern unsigned sim_n_nodes;

void node_reset(struct sim_node *node, int64_t clock_offset_ns);
void node_bless(struct sim_node *node, uint32_t max_ttl_ms, uint32_t fleet, bool rested,
                uint32_t fence_skew_ms);
bool node_has_mark(const struct sim_node *node, unsigned agent, unsigned keeper); /* of this keeper */
bool node_is_rested(const struct sim_node *node); /* votes, after a quarantine */
void node_forget(struct sim_node *node);          /* drops everything, like FLUSHALL */
void node_restart(struct sim_node *node);         /* starts another process */
void node_save(struct sim_node *node);
void node_load(struct sim_node *node); /* loads its saved data */
void node_set_clock(struct sim_node *node, int64_t by_ns);
void node_freeze_clock(struct sim_node *node, int64_t until_ns, bool reversed);
void node_probe(struct sim_node *node, struct event *probe); /* replaces it by its answer */
int64_t node_clock_us(const struct sim_node *node);
/* Of the RESUME that gave a lease this value. */
uint16_t node_number_of(const uint8_t secret[SECRET_BYTES]);

int64_t node_key_left_ns(const struct sim_node *node, unsigned name); /* of a key that is set */

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms); /* by another program */

/* The dialect of another library: SET NX, and extension and deletion of its own value. */
bool node_other_set(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                    uint32_t ttl_ms);
bool node_other_extend(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                       uint32_t ttl_ms);
void node_other_delete(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES]);

/* Executes the request. Returns the reply. */
struct sim_reply node_execute(struct sim_node *node, unsigned name, const struct sim_request *request);
bool node_has_keys(const struct sim_node *node);
