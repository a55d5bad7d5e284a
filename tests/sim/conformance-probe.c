/* What decides whether a node is trusted: probes, blessings and amendments of the epoch. */

#include "conformance.h"

#include <stdio.h>
#include <string.h>

#include "events.h"
#include "node.h"
#include "io/node/key-names.h"

enum {
    MARKS = 3,
    CONFORMANCE_NODES = 2, /* nodes of the agents, with their addresses */
    BLESSING_SKEW_MS = 5000,
};

/* An agent of one of two fleets, with two nodes at one of two addresses each. */
static void choose_agent(struct event *probe) {
    static const uint32_t max_ttls_ms[] = {1000, 2000, 60000};
    struct sim_probe *asks = &probe->as.probe;

    probe->keeper = chance(50);
    asks->fleet = 1 + (chance(30) ? 1 : 0);
    asks->quarantine = chance(70);
    asks->max_ttl_ms = max_ttls_ms[pick(0, 2)];
    asks->covered_ms = chance(50) ? asks->max_ttl_ms : 60000;
    asks->n_nodes = CONFORMANCE_NODES;
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++) {
        asks->names[i] = (uint8_t) i;
        asks->at[i] = (uint8_t) (2 * i + (chance(20) ? 1 : 0));
    }
    asks->known = (node_set) pick(0, (1 << CONFORMANCE_NODES) - 1);
    asks->mark = (uint64_t) pick(1, MARKS);
    asks->former = chance(30) ? FORMER_PROCESS : 0;
}

static redisReply *run_probe(const struct event *probe) {
    const struct sim_probe *asks = &probe->as.probe;
    char number[8], fleet[8], max_ttl[16], floor_us[24], addresses[CONFORMANCE_NODES][8];
    static const char *const names[CONFORMANCE_NODES] = {"x", "y"};

    (void) snprintf(number, sizeof(number), "%u", (unsigned) asks->mark);
    (void) snprintf(fleet, sizeof(fleet), "f%u", asks->fleet);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", asks->max_ttl_ms);
    (void) snprintf(floor_us, sizeof(floor_us), "%lld",
                    (long long) (asks->withdraw_us != 0 ? known_floor_us() : 0));
    const char *items[15 + 3 * CONFORMANCE_NODES] = {EPOCH_KEY,
                                                     "redlockd:quarantine",
                                                     "redlockd:nodes",
                                                     probe->keeper ? "1" : "0",
                                                     number,
                                                     "100000",
                                                     asks->leave ? "1" : "0",
                                                     floor_us,
                                                     asks->former != 0 ? FORMER_RUN_ID : "",
                                                     asks->disown ? "1" : "0",
                                                     fleet,
                                                     "for people",
                                                     max_ttl,
                                                     asks->quarantine ? "1" : "0",
                                                     "settings"};
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++) {
        (void) snprintf(addresses[i], sizeof(addresses[i]), "at%u", asks->at[i]);
        items[15 + 3 * i] = names[i];
        items[15 + 3 * i + 1] = addresses[i];
        items[15 + 3 * i + 2] = asks->known & node_set_of(i) ? "1" : "0";
    }
    return run(SCRIPT_PROBE, 15 + 3 * CONFORMANCE_NODES, items, 3);
}

static redisReply *run_bless(const struct event *probe) {
    const struct sim_probe *asks = &probe->as.probe;
    char number[8], fleet[8], max_ttl[16], covered[16];

    (void) snprintf(number, sizeof(number), "%u", (unsigned) asks->mark);
    (void) snprintf(fleet, sizeof(fleet), "f%u", asks->fleet);
    (void) snprintf(max_ttl, sizeof(max_ttl), "%u", asks->max_ttl_ms);
    (void) snprintf(covered, sizeof(covered), "%u", asks->covered_ms);
    const char *const items[] = {EPOCH_KEY,
                                 "redlockd:quarantine",
                                 "redlockd:marks",
                                 probe->keeper ? "1" : "0",
                                 number,
                                 max_ttl,
                                 "5000000",
                                 asks->former != 0 ? FORMER_RUN_ID : "",
                                 covered,
                                 fleet,
                                 asks->quarantine ? "rested" : "unrested"};
    return run(SCRIPT_BLESS, 11, items, 3);
}

static redisReply *run_amend(const struct event *probe, const struct epoch *epoch) {
    char fleet[8], amended[EPOCH_BYTES_MAX];

    (void) snprintf(fleet, sizeof(fleet), "f%u", probe->as.probe.fleet);
    epoch_amend(epoch, &probe->as.probe.amendment, fleet, amended);
    const char *const items[] = {EPOCH_KEY, known_epoch, amended};
    return run(SCRIPT_AMEND, 3, items, 1);
}

static void compare_epoch(const char *text, const struct probe *answer, uint32_t fleet) {
    struct epoch epoch;

    if (!epoch_read(text, &epoch))
        fail("the epoch is malformed");
    if (epoch.max_ttl_ms != answer->max_ttl_ms || epoch.proposed_ms != answer->proposed_ms ||
        epoch.generation != answer->generation || epoch.rested != answer->rested)
        fail("the epochs differ");
    if (((uint32_t) (epoch.fleet[1] - '0') != fleet) != answer->foreign)
        fail("the fleets differ");
}

/* Compares what a probe returns besides epoch and mark. */
static void compare_knowledge(const redisReply *reply, const struct event *probe) {
    const struct probe *answer = &probe->as.probe.answer;

    if (reply->elements != 7 + CONFORMANCE_NODES)
        fail("a probe's answer has another form");
    if ((reply->element[4]->type == REDIS_REPLY_ARRAY) != (answer->foreign || answer->rival))
        fail("other fleets on one node only");
    if (reply->element[4]->type == REDIS_REPLY_ARRAY &&
        (reply->element[4]->element[2]->integer == 1) != answer->foreign)
        fail("another fleet's epoch on one node only");
    if ((reply->element[5]->integer == 1) != answer->unrested)
        fail("an epoch without a quarantine on one node only");
    for (unsigned i = 0; i < CONFORMANCE_NODES; i++)
        if ((reply->element[7 + i]->integer == 1) != ((answer->elsewhere & node_set_of(i)) != 0))
            fail("a name at another address on one node only");
}

static void compare_probed(const redisReply *reply, const struct event *probe) {
    const struct probe *answer = &probe->as.probe.answer;
    long long third = reply->element[2]->type == REDIS_REPLY_INTEGER ? reply->element[2]->integer : 0;

    if (answer->blessed != (reply->element[0]->integer == 1))
        fail("one of the two nodes is blessed");
    if (answer->blessed)
        compare_epoch(reply->element[2]->str, answer, probe->as.probe.fleet);
    else if (answer->marked != (third == 1) || answer->heir != (third == 2))
        fail("the states of an unblessed node differ");
    else if (reply->element[3]->integer != answer->max_ttl_ms && (!answer->brief || answer->marked))
        fail("the longest max_ttl differ");
    if (!answer->brief)
        compare_knowledge(reply, probe);
}

void step_probe(void) {
    struct event probe = {0};
    struct sim_probe *asks = &probe.as.probe;
    struct epoch known;
    redisReply *reply;

    choose_agent(&probe);
    asks->bless = chance(30);
    asks->amend = !asks->bless && chance(20) && epoch_read(known_epoch, &known);
    asks->leave = !asks->bless && !asks->amend && chance(30);
    asks->disown = !asks->bless && !asks->amend && chance(5);
    if (asks->amend) {
        asks->amendment = (struct amendment){.max_ttl_ms = asks->max_ttl_ms,
                                             .proposed_ms = chance(50) ? asks->max_ttl_ms / 2 : 0};
        asks->amended_floor_us = known_sim_floor_us;
        asks->amended_generation = known_sim_generation;
    } else if (!asks->bless && chance(20)) {
        asks->withdraw_us = known_sim_floor_us;
    }
    reply = asks->bless ? run_bless(&probe) : asks->amend ? run_amend(&probe, &known) : run_probe(&probe);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3)
        fail(reply->type == REDIS_REPLY_ERROR ? reply->str : "a probe's answer has another form");
    asks->fence_skew_ms = BLESSING_SKEW_MS;
    node_probe(&node, &probe);
    (void) snprintf(history + strlen(history), sizeof(history) - strlen(history), " %s %u of f%u%s;",
                    asks->bless              ? "bless"
                    : asks->amend            ? "amend"
                    : asks->withdraw_us != 0 ? "withdraw"
                    : asks->leave            ? "mark"
                                             : "probe",
                    (unsigned) asks->mark, asks->fleet, asks->quarantine ? "" : " (careless)");
    compare_probed(reply, &probe);
    const struct probe *answer = &asks->answer;
    known_sim_epoch = answer->blessed ? asks->epoch : UINT32_MAX;
    known_sim_floor_us = answer->floor_us;
    known_sim_generation = answer->generation;
    (void) snprintf(known_epoch, sizeof(known_epoch), "%s", answer->blessed ? reply->element[2]->str : "-");
    freeReplyObject(reply);
}
