#include "core/error-text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/shard.h"

enum { HEX_BYTES = 2 * SECRET_BYTES };

static void append(char *buffer, size_t size, size_t *length, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void append(char *buffer, size_t size, size_t *length, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    int wanted = vsnprintf(buffer + *length, size - *length, format, arguments);
    va_end(arguments);
    assert(wanted >= 0);
    *length += (size_t) wanted;
    if (*length >= size)
        *length = node_cut_text(buffer, size);
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* What begins behind the given colon of a lock value of ours: ":host" ":agent" ":pid" ":uid" ":" data. 0
 * when it is none. */
static size_t value_offset(const char *value, size_t length, unsigned colon) {
    if (length <= HEX_BYTES || value[HEX_BYTES] != ':')
        return 0;
    for (size_t i = 0; i < HEX_BYTES; i++)
        if (!is_hex(value[i]))
            return 0;
    for (size_t at = HEX_BYTES; at < length; at++)
        if (value[at] == ':' && --colon == 0)
            return at + 1;
    return 0;
}

size_t error_text_data_offset(const char *value, size_t length) {
    return value_offset(value, length, 5);
}

size_t error_text_holder(const char *value, size_t length, char *buffer, size_t size) {
    size_t uid = error_text_data_offset(value, length) ? value_offset(value, length, 4) : 0;
    size_t from = uid ? HEX_BYTES + 1 : 0, to = uid ? uid - 1 : length;
    size_t used = 0;

    assert(size > 0);
    for (size_t i = from; i < to && size - used > 4; i++) {
        unsigned char c = (unsigned char) value[i];
        if (c > ' ' && c < 0x7f && c != '\\')
            buffer[used++] = (char) c;
        else
            append(buffer, size, &used, "\\x%02x", c);
    }
    buffer[used] = '\0';
    return used;
}

size_t error_text_busy(const struct lease *lease, char buffer[ERROR_TEXT_BYTES]) {
    char holder[256];
    size_t length = 0;

    if (!lease->seen) {
        append(buffer, ERROR_TEXT_BYTES, &length, "several contend for it at this moment");
        return length;
    }
    (void) error_text_holder(lease->seen->bytes, lease->seen->head_length, holder, sizeof(holder));
    if (lease->seen_type)
        append(buffer, ERROR_TEXT_BYTES, &length, "its Redis key holds a %s, which is no lock of ours",
               holder);
    else
        append(buffer, ERROR_TEXT_BYTES, &length, "held by %s", holder);
    if (lease->seen_ttl_ms >= 0)
        append(buffer, ERROR_TEXT_BYTES, &length, ", %lld ms left", (long long) lease->seen_ttl_ms);
    else
        append(buffer, ERROR_TEXT_BYTES, &length, ", without an expiry");
    return length;
}

static const char *trouble_of(const struct shard *shard, unsigned node) {
    return shard->nodes[node].trouble[0] ? shard->nodes[node].trouble : "no answer in time";
}

/* Whether all of these nodes have one trouble in common. */
static bool are_alike(const struct shard *shard, node_set nodes) {
    const char *first = NULL;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        if (!(nodes & node_set_of(i)))
            continue;
        if (first && strcmp(first, trouble_of(shard, i)) != 0)
            return false;
        first = trouble_of(shard, i);
    }
    return true;
}

/* "; a: why; b: why else", or "; a, b: why" when it is the same for all. */
size_t error_text_no_quorum(const struct shard *shard, node_set voted, node_set open,
                            char buffer[ERROR_TEXT_BYTES]) {
    unsigned nodes = shard->config.nodes;
    node_set silent = 0;
    size_t length = 0;

    for (unsigned i = 0; i < nodes; i++)
        if (!((voted | open) & node_set_of(i)))
            silent |= node_set_of(i);
    bool alike = are_alike(shard, silent);
    append(buffer, ERROR_TEXT_BYTES, &length, "%u of %u nodes voted, %u %s needed", node_set_count(voted),
           nodes, quorum_of(nodes), quorum_of(nodes) == 1 ? "is" : "are");
    for (unsigned i = 0, shown = 0; i < nodes; i++) {
        if (!(silent & node_set_of(i)))
            continue;
        append(buffer, ERROR_TEXT_BYTES, &length, "%s%s", alike && shown++ > 0 ? ", " : "; ",
               shard->config.node_names[i]);
        if (!alike || (silent >> i) == 1)
            append(buffer, ERROR_TEXT_BYTES, &length, ": %s", trouble_of(shard, i));
    }
    return length;
}

size_t error_text_ended(const struct shard *shard, node_set gone, char buffer[ERROR_TEXT_BYTES]) {
    size_t length = 0;

    append(buffer, ERROR_TEXT_BYTES, &length, "it has ended: %u of %u nodes have its key no more",
           node_set_count(gone), shard->config.nodes);
    return length;
}
