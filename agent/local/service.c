#include "local/service.h"

#include <assert.h>
#include <string.h>

#include "local/command.h"
#include "local/session.h"

void service_init(struct service *service, const struct policy *policy,
                  const struct service_identity *identity, const struct service_sink *sink, char *reply,
                  instant_ns now_ns) {
    assert(identity->n_keepers <= KEEPERS_MAX && identity->n_nodes <= NODES_MAX);

    service->policy = *policy;
    service->identity = *identity;
    service->sink = *sink;
    service->reply = reply;
    list_init(&service->surveyors);
    for (unsigned i = 0; i < KEEPERS_MAX; i++) {
        service->keepers[i] = (struct keeper_view){.counters.extension_margin_permille = 1000};
        for (unsigned j = 0; j < NODES_MAX; j++) {
            service->keepers[i].nodes[j] =
                (struct node_view){.since_ns = now_ns, .reason = "not connected yet"};
            service->keepers[i].figures[j].until_ns = INSTANT_NEVER;
        }
    }
}

void service_node_report(struct service *service, unsigned keeper, const struct report *report,
                         instant_ns now_ns) {
    assert(keeper < service->identity.n_keepers && report->node < service->identity.n_nodes);

    struct node_view *view = &service->keepers[keeper].nodes[report->node];
    size_t length =
        report->text_length < sizeof(view->reason) ? report->text_length : sizeof(view->reason) - 1;
    if (view->standing != report->standing)
        view->since_ns = now_ns;
    view->standing = report->standing;
    if (length > 0)
        memcpy(view->reason, report->text, length);
    view->reason[length] = '\0';
}

void service_surveyed(struct service *service, instant_ns now_ns) {
    list_for_each_safe(node, &service->surveyors) {
        struct session *session = list_entry(node, struct session, surveyor_link);
        list_unlink(node);
        command_surveyed(service, session, now_ns);
    }
}

static unsigned badness(enum standing standing) {
    static const unsigned order[] = {
        [STANDING_VOTING] = 0,     [STANDING_PROBING] = 1, [STANDING_QUARANTINED] = 2,
        [STANDING_CONNECTING] = 3, [STANDING_FAILED] = 4,
    };
    return order[standing];
}

struct node_view service_node(const struct service *service, unsigned node) {
    struct node_view worst = service->keepers[0].nodes[node];

    for (unsigned i = 1; i < service->identity.n_keepers; i++) {
        const struct node_view *view = &service->keepers[i].nodes[node];
        unsigned more = badness(view->standing), most = badness(worst.standing);
        if (more > most || (more == most && worst.reason[0] == '\0'))
            worst = *view;
    }
    return worst;
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

struct node_figures service_figures(const struct service *service, unsigned node) {
    struct node_figures all = service->keepers[0].figures[node];

    for (unsigned i = 1; i < service->identity.n_keepers; i++) {
        const struct node_figures *one = &service->keepers[i].figures[node];
        const struct node_figures sum = all;
        if (!all.known)
            all = *one;
        all.rtt_us = larger(sum.rtt_us, one->rtt_us);
        all.rtt_p50_us = larger(sum.rtt_p50_us, one->rtt_p50_us);
        all.rtt_p99_us = larger(sum.rtt_p99_us, one->rtt_p99_us);
        all.until_ns = instant_min(sum.until_ns, one->until_ns);
        if (all.differs[0] == '\0')
            memcpy(all.differs, one->differs, sizeof(all.differs));
        if (one->evicted_keys > sum.evicted_keys)
            all.evicted_keys = one->evicted_keys; /* the others have not looked since */
        else
            all.evicted_keys = sum.evicted_keys;
    }
    return all;
}

unsigned service_voting(const struct service *service) {
    unsigned voting = 0;

    for (unsigned i = 0; i < service->identity.n_nodes; i++)
        voting += service_node(service, i).standing == STANDING_VOTING;
    return voting;
}
