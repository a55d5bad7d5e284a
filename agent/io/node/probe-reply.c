#include "io/node/probe-reply.h"

#include <stdio.h>
#include <string.h>

#include "io/node/reply-number.h"

enum {
    ANSWER_VERDICT,
    ANSWER_TIME,
    ANSWER_MARK, /* or the epoch */
    ANSWER_LONGEST,
    ANSWER_OTHERS,
    ANSWER_UNRESTED,
    ANSWER_SETTINGS,
    ANSWER_ELSEWHERE, /* one a node */
};

static bool has_integer(const redisReply *reply, size_t index) {
    return index < reply->elements && reply->element[index]->type == REDIS_REPLY_INTEGER;
}

static bool has_string(const redisReply *reply, size_t index) {
    return index < reply->elements && reply->element[index]->type == REDIS_REPLY_STRING;
}

/* Another fleet: its id, its text, and whether the epoch is of it; "" without any. */
static bool fits_others(const redisReply *others) {
    return others->type == REDIS_REPLY_STRING ||
           (others->type == REDIS_REPLY_ARRAY && others->elements == 3 && has_string(others, 0) &&
            has_string(others, 1) && has_integer(others, 2));
}

bool probe_reply_fits(const redisReply *reply, unsigned n_nodes) {
    if (reply->type == REDIS_REPLY_ERROR)
        return true;
    if (reply->type != REDIS_REPLY_ARRAY || !has_integer(reply, ANSWER_VERDICT) ||
        !has_integer(reply, ANSWER_TIME))
        return false;
    bool names_epoch = reply->element[ANSWER_VERDICT]->integer == 1;
    if (names_epoch ? !has_string(reply, ANSWER_MARK) : !has_integer(reply, ANSWER_MARK))
        return false;
    if (reply->elements <= ANSWER_OTHERS)
        return reply->elements == ANSWER_LONGEST || has_integer(reply, ANSWER_LONGEST);
    if (reply->elements != ANSWER_ELSEWHERE + n_nodes || !has_integer(reply, ANSWER_LONGEST) ||
        !fits_others(reply->element[ANSWER_OTHERS]) || !has_integer(reply, ANSWER_UNRESTED) ||
        !has_string(reply, ANSWER_SETTINGS))
        return false;
    for (size_t i = ANSWER_ELSEWHERE; i < reply->elements; i++)
        if (!has_integer(reply, i))
            return false;
    return true;
}

static uint32_t ttl_ms_at(const redisReply *reply, size_t index) {
    long long number = index < reply->elements ? reply->element[index]->integer : 0;

    return number <= 0 ? 0 : number < TTL_MS_MAX ? (uint32_t) number : TTL_MS_MAX;
}

static void read_epoch(struct probe *probe, const struct fleet *fleet, const char *text,
                       struct probe_reply_notes *notes) {
    if (strlen(text) >= EPOCH_BYTES_MAX || !epoch_read(text, &notes->fields))
        return; /* an older agent has overwritten it: as if there were none */
    (void) snprintf(notes->epoch, sizeof(notes->epoch), "%s", text);
    probe->blessed = true;
    probe->rested = notes->fields.rested;
    probe->foreign = strcmp(notes->fields.fleet, fleet->id) != 0;
    probe->max_ttl_ms = notes->fields.max_ttl_ms;
    probe->proposed_ms = notes->fields.proposed_ms;
    probe->generation = notes->fields.generation;
    probe->floor_us = notes->fields.floor_us;
}

/* The part of a probe's answer behind epoch and mark. */
static void read_knowledge(struct probe *probe, const struct fleet *fleet, const redisReply *reply,
                           struct probe_reply_notes *notes) {
    const redisReply *others = reply->element[ANSWER_OTHERS];

    if (others->type == REDIS_REPLY_ARRAY) {
        probe->rival = !probe->blessed;
        probe->foreign |= others->element[2]->integer == 1;
        fleet_explain(fleet, others->element[1]->str, probe->blessed, notes->others, sizeof(notes->others));
        probe->others = notes->others;
        probe->others_length = strlen(notes->others);
    }
    probe->unrested = reply->element[ANSWER_UNRESTED]->integer == 1;
    fleet_difference(fleet, reply->element[ANSWER_SETTINGS]->str, notes->difference);
    for (unsigned i = 0; i < fleet->config->n_nodes; i++)
        if (reply->element[ANSWER_ELSEWHERE + i]->integer == 1)
            probe->elsewhere |= (node_set) (1u << i);
}

struct probe probe_reply_read(const redisReply *reply, instant_ns sent_ns, const struct fleet *fleet,
                              struct probe_reply_notes *notes) {
    struct probe probe = {.time_us = -1, .sent_ns = sent_ns};

    notes->epoch[0] = '\0';
    if (reply->type == REDIS_REPLY_ERROR) {
        probe.error = reply->str;
        probe.error_length = (size_t) reply->len;
        return probe;
    }
    probe.time_us = reply_number_time_us(reply->element[ANSWER_TIME]);
    probe.brief = reply->elements < ANSWER_ELSEWHERE;
    if (reply->element[ANSWER_VERDICT]->integer == 1) {
        read_epoch(&probe, fleet, reply->element[ANSWER_MARK]->str, notes);
    } else {
        probe.marked = reply->element[ANSWER_MARK]->integer == 1;
        probe.heir = reply->element[ANSWER_MARK]->integer == 2;
        probe.max_ttl_ms = ttl_ms_at(reply, ANSWER_LONGEST);
    }
    if (!probe.brief)
        read_knowledge(&probe, fleet, reply, notes);
    if (probe.foreign && !probe.others) {
        probe.others = notes->others;
        fleet_explain(fleet, "", true, notes->others, sizeof(notes->others));
        probe.others_length = strlen(notes->others);
    }
    return probe;
}
