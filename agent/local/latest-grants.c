#include "local/latest-grants.h"

#include <string.h>

#include "local/request.h"

/* Of the name, else of the entry that gives way: a free one, or the oldest. */
static unsigned place_for(const struct latest_grants *latest, uint64_t hash) {
    unsigned oldest = 0;

    for (unsigned i = 0; i < LATEST_GRANTS_MAX; i++) {
        if (latest->hashes[i] == hash)
            return i;
        if (latest->at_ns[i] < latest->at_ns[oldest])
            oldest = i;
    }
    return oldest;
}

void latest_grants_note(struct latest_grants *latest, const struct request *request, uint64_t id,
                        instant_ns now_ns) {
    const struct shared_string *name = request->name->key.text;
    unsigned place = place_for(latest, request->name->key.hash);
    struct latest_grants_entry *entry = &latest->entries[place];

    latest->hashes[place] = request->name->key.hash;
    latest->at_ns[place] = now_ns;
    entry->id = id;
    entry->asked_ns = request->asked_ns;
    entry->granted_ns = now_ns;
    entry->token = request->token;
    entry->pid = request->pid;
    entry->uid = request->uid;
    entry->ttl_ms = request->terms.ttl_ms;
    entry->name_length = (uint16_t) name->head_length;
    memcpy(entry->name, name->bytes, name->head_length);
}

size_t latest_grants_list(const struct latest_grants *latest,
                          const struct latest_grants_entry *ret[LATEST_GRANTS_MAX]) {
    size_t n = 0;

    for (unsigned i = 0; i < LATEST_GRANTS_MAX; i++) {
        const struct latest_grants_entry *entry = &latest->entries[i];
        size_t at = n;
        if (latest->hashes[i] == 0)
            continue;
        for (; at > 0 && ret[at - 1]->granted_ns < entry->granted_ns; at--)
            ret[at] = ret[at - 1];
        ret[at] = entry;
        n++;
    }
    return n;
}
