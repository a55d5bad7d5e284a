#include "core/error-text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "core/lock-value.h"
#include "core/shard-state.h"

__attribute__((format(printf, 3, 4))) static void append(char *buffer, size_t *length, const char *format,
                                                         ...) {
    va_list arguments;

    va_start(arguments, format);
    int wanted = vsnprintf(buffer + *length, ERROR_TEXT_BYTES - *length, format, arguments);
    va_end(arguments);
    assert(wanted >= 0);
    *length += (size_t) wanted;
    if (*length >= ERROR_TEXT_BYTES)
        *length = node_cut_text(buffer, ERROR_TEXT_BYTES);
}

size_t error_text_busy(const struct lease *lease, char buffer[ERROR_TEXT_BYTES]) {
    char holder[256];
    size_t length = 0;

    if (!lease->seen) {
        append(buffer, &length, "several requests contend for the name at this moment");
        return length;
    }
    if (lease->seen_type) {
        (void) bytes_escape(lease->seen->bytes, lease->seen->head_length, holder, sizeof(holder));
        append(buffer, &length, "its Redis key is of type %s, which is no lock", holder);
    } else if (lock_value_print(lease->seen->bytes, lease->seen->head_length, holder, sizeof(holder)) == 0) {
        append(buffer, &length, "held by a key with an empty value");
    } else {
        append(buffer, &length, "held by %s", holder);
    }
    if (lease->seen_ttl_ms >= 0)
        append(buffer, &length, ", %lld ms left", (long long) lease->seen_ttl_ms);
    else
        append(buffer, &length, ", without an expiry");
    return length;
}

static const char *trouble_of(const struct shard *shard, unsigned node) {
    return shard->nodes[node].trouble[0] ? shard->nodes[node].trouble : "no answer in time";
}

/* Those of these nodes that have the same trouble as this one. */
static node_set alike(const struct shard *shard, node_set nodes, unsigned node) {
    node_set same = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if ((nodes & node_set_of(i)) && strcmp(trouble_of(shard, node), trouble_of(shard, i)) == 0)
            same |= node_set_of(i);
    return same;
}

size_t error_text_no_quorum(const struct shard *shard, node_set voted, node_set open,
                            char buffer[ERROR_TEXT_BYTES]) {
    unsigned nodes = shard->config.nodes;
    node_set silent = 0;
    size_t length = 0;

    for (unsigned i = 0; i < nodes; i++)
        if (!((voted | open) & node_set_of(i)))
            silent |= node_set_of(i);
    append(buffer, &length, "%u of %u nodes voted, %u %s needed", node_set_count(voted), nodes,
           quorum_of(nodes), quorum_of(nodes) == 1 ? "is" : "are");
    for (unsigned i = 0; i < nodes; i++) {
        if (!(silent & node_set_of(i)))
            continue;
        node_set same = alike(shard, silent, i);
        silent &= ~same;
        for (unsigned j = i; j < nodes; j++)
            if (same & node_set_of(j))
                append(buffer, &length, "%s%s", j > i ? ", " : "; ", shard->config.node_names[j]);
        append(buffer, &length, ": %s", trouble_of(shard, i));
    }
    return length;
}

size_t error_text_ended(const struct shard *shard, node_set gone, char buffer[ERROR_TEXT_BYTES]) {
    size_t length = 0;

    append(buffer, &length, "the lease has ended: %u of %u nodes no longer have its key",
           node_set_count(gone), shard->config.nodes);
    return length;
}
