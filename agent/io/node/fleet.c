#include "io/node/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/quantity.h"
#include "base/version.h"
#include "core/node.h"

enum { SHOWN_BYTES = 60 }; /* of a fleet in a reason of NODE_TROUBLE_BYTES */

static const char unknown_version[] = "before 0.2.0";

/* In the shortest form; but 60s, the usual form. */
static const char *duration(int64_t ms, char buffer[static QUANTITY_BYTES_MAX]) {
    return ms == 60000 ? "60s" : quantity_show_ms(ms, buffer);
}

static int compare_names(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void write_text(struct fleet *fleet, unsigned node) {
    const struct config *config = fleet->config;
    const char *names[NODES_MAX] = {0};
    char skew[QUANTITY_BYTES_MAX];
    size_t length;

    for (unsigned i = 0; i < config->n_nodes; i++)
        names[i] = config->nodes[i].name;
    qsort(names, config->n_nodes, sizeof(names[0]), compare_names);
    length = (size_t) snprintf(fleet->text, sizeof(fleet->text), "%s of ", config->nodes[node].name);
    for (unsigned i = 0; i < config->n_nodes && length < sizeof(fleet->text); i++)
        length += (size_t) snprintf(fleet->text + length, sizeof(fleet->text) - length, "%s%s",
                                    i > 0 ? ", " : "", names[i]);
    if (length < sizeof(fleet->text))
        (void) snprintf(fleet->text + length, sizeof(fleet->text) - length, " with fence_skew %s",
                        duration(config->fence_skew_ms, skew));
}

static const char *yes_or_no(bool yes) {
    return yes ? "yes" : "no";
}

static void write_settings(struct fleet *fleet, unsigned node) {
    const struct config *config = fleet->config;
    char max_ttl[QUANTITY_BYTES_MAX], skew[QUANTITY_BYTES_MAX], retention[QUANTITY_BYTES_MAX];

    (void) snprintf(fleet->settings, sizeof(fleet->settings),
                    "version=" REDLOCK_VERSION
                    " keys=%d max_ttl=%s quarantine=%s fencing=%s fence_skew=%s fence_retention=%s "
                    "key_format=%s{name}%s name=%s nodes=",
                    VERSION_KEYS, duration(config->max_ttl_ms, max_ttl), yes_or_no(config->quarantine),
                    yes_or_no(config->terms.fencing), duration(config->fence_skew_ms, skew),
                    duration(config->fence_retention_ms, retention),
                    config->key_prefix ? config->key_prefix : "",
                    config->key_suffix ? config->key_suffix : "", config->nodes[node].name);
}

/* The names in "a of a, b, c with …". */
static const char *names_of(const char *text, int *ret_length) {
    const char *names = strstr(text, " of "), *end = names ? strstr(names, " with ") : NULL;

    *ret_length = end ? (int) (end - names) - 4 : 0;
    return end ? names + 4 : "";
}

void fleet_init(struct fleet *fleet, const struct config *config, unsigned node) {
    static const uint64_t key[2] = {0, 0};
    size_t length;
    int names_length;

    *fleet = (struct fleet){.config = config};
    write_text(fleet, node);
    (void) snprintf(fleet->id, sizeof(fleet->id), "%016" PRIx64,
                    hash_bytes(key, fleet->text, strlen(fleet->text)));
    write_settings(fleet, node);
    const char *names = names_of(fleet->text, &names_length);
    length = strlen(fleet->settings);
    for (int i = 0; i < names_length && length + 1 < sizeof(fleet->settings); i++)
        if (names[i] != ' ')
            fleet->settings[length++] = names[i];
    fleet->settings[length] = '\0';
}

/* With long names the text is cut, so that the advice behind it has room. */
static const char *shortened(const char *text, char buffer[static SHOWN_BYTES]) {
    if (snprintf(buffer, SHOWN_BYTES, "%s", text) >= SHOWN_BYTES)
        (void) node_cut_text(buffer, SHOWN_BYTES);
    return buffer;
}

/* Only the node's own name differs: two addresses of one fleet are swapped, the server has a copy of another
 * node's data, or another set of servers has the same names. These look alike, so no node is asked. */
static bool is_same_but_name(const char *one, const char *other) {
    size_t length = strcspn(one, " "), other_length = strcspn(other, " ");

    return one[length] && strcmp(one + length, other + other_length) == 0;
}

static void explain_sibling(const struct fleet *fleet, const char *others, char *buffer, size_t size) {
    (void) snprintf(buffer, size,
                    "has the epoch of node %.*s: are their addresses swapped, here or there? If the server "
                    "has a copy of "
                    "that node's data, run 'redlock nodes --bless %.*s'; another fleet needs its own db",
                    (int) strcspn(others, " "), others, (int) strcspn(fleet->text, " "), fleet->text);
}

void fleet_explain(const struct fleet *fleet, const char *others, bool blessed, char *buffer, size_t size) {
    char theirs[SHOWN_BYTES], ours[SHOWN_BYTES];

    if (is_same_but_name(fleet->text, others)) {
        explain_sibling(fleet, others, buffer, size);
        return;
    }
    (void) snprintf(
        buffer, size,
        "%s: that fleet has the node as %s, this agent as %s: give each fleet its own db; or, when "
        "the other fleet's agents have ended, run 'redlock nodes --bless %.*s'",
        blessed ? "votes for another fleet" : "has another fleet's mark",
        shortened(others[0] != '\0' ? others : "one of other nodes", theirs), shortened(fleet->text, ours),
        (int) strcspn(fleet->text, " "), fleet->text);
}

/* The value of "name=value" among words. Agents before version 0.2.0 do not note theirs. */
static bool setting_of(const char *settings, const char *word, const char **ret, int *ret_length) {
    int name_length = (int) strcspn(word, "=") + 1;
    const char *at = settings;

    do {
        at += *at == ' ';
        if (strncmp(at, word, (size_t) name_length) == 0) {
            *ret = at + name_length;
            *ret_length = (int) strcspn(*ret, " ");
            return true;
        }
        at = strchr(at, ' ');
    } while (at);
    if (settings[0] == '\0' || strncmp(word, "version=", (size_t) name_length) != 0)
        return false;
    *ret = unknown_version;
    *ret_length = (int) strlen(unknown_version);
    return true;
}

void fleet_difference(const struct fleet *fleet, const char *others, char buffer[static DIFFERENCE_BYTES]) {
    size_t used = 0;

    buffer[0] = '\0';
    for (const char *word = fleet->settings; word; word = strchr(word, ' ')) {
        word += *word == ' ';
        const char *theirs, *ours = strchr(word, '=') + 1;
        int length = (int) strcspn(ours, " "), their_length, name_length = (int) (ours - word) - 1;
        if (!setting_of(others, word, &theirs, &their_length) ||
            (length == their_length && strncmp(ours, theirs, (size_t) length) == 0))
            continue;
        used += (size_t) snprintf(buffer + used, DIFFERENCE_BYTES - used,
                                  "%s%.*s = %.*s at another agent, %.*s here", used > 0 ? "; " : "",
                                  name_length, word, their_length, theirs, length, ours);
        if (used >= DIFFERENCE_BYTES)
            return;
    }
}

void fleet_address(const struct config_node *node, char buffer[static NODE_ADDRESS_BYTES]) {
    if (node->unix_path)
        (void) snprintf(buffer, NODE_ADDRESS_BYTES, "unix:%s", node->unix_path);
    else
        (void) snprintf(buffer, NODE_ADDRESS_BYTES, "%s:%u", node->host, node->port);
}
