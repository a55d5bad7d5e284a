#include "config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "config/config.h"
#include "io/loop/account-id.h"
#include "io/loop/secret-memory.h"
#include "io/node/key-format.h"
#include "io/node/node-address.h"

#define expect(expected, ...) (snprintf((expected), VALUE_EXPECTED_BYTES_MAX, __VA_ARGS__), false)

static bool copy(const char *text, size_t length, char **ret, char *expected) {
    free(*ret);
    *ret = strndup(text, length);
    return *ret || expect(expected, "more memory");
}

VALUE_FUNCTION(value_duration) {
    int64_t us = quantity_read(text, quantity_plain) == 0 ? 0 : quantity_read(text, quantity_times);
    bool zero = option->zero && (strcmp(text, option->zero) == 0 || (us == 0 && option->zero[0] == '0'));
    char min[QUANTITY_BYTES_MAX], max[QUANTITY_BYTES_MAX];

    if (us < 0 && !zero)
        return expect(expected, "a whole number and one unit of us, ms, s, m, h, d, such as \"10s\"");
    if (us % 1000 != 0 && us != INT64_MAX && !zero)
        return expect(expected, "whole milliseconds");
    if ((us / 1000 < option->min || us / 1000 > option->max) && !zero)
        return expect(expected, "%s to %s%s%s", quantity_show_ms(option->min, min),
                      quantity_show_ms(option->max, max), option->zero ? ", or " : "",
                      option->zero ? option->zero : "");
    *(int64_t *) ret = zero ? 0 : us / 1000;
    return true;
}

VALUE_FUNCTION(value_count) {
    int64_t count = quantity_read(text, quantity_counts);

    if (count < 0)
        return expect(expected, "a whole number, such as \"64\", \"10k\" or \"1M\"");
    if (count < option->min || count > option->max)
        return expect(expected, "%lld to %lld", (long long) option->min, (long long) option->max);
    *(unsigned *) ret = (unsigned) count;
    return true;
}

VALUE_FUNCTION(value_flag) {
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return expect(expected, "yes or no");
    *(bool *) ret = text[0] == 'y';
    return true;
}

VALUE_FUNCTION(value_mode) {
    const char *digits = text + (strlen(text) == 4 && text[0] == '0');

    if (strlen(digits) != 3 || strspn(digits, "01234567") != 3)
        return expect(expected, "three octal digits, such as \"0660\"");
    *(mode_t *) ret = (mode_t) strtoul(digits, NULL, 8);
    return true;
}

VALUE_FUNCTION(value_group) {
    int64_t id = account_id_of_group(text);

    if (id < 0)
        return expect(expected, "the name of a group that exists (groupadd(8) makes one), or its number");
    *(gid_t *) ret = (gid_t) id;
    return true;
}

VALUE_FUNCTION(value_right) {
    enum policy_action action = policy_action_of(text);

    if (action == POLICY_FREE)
        return expect(expected, "{...} of acquire, resume, observe, leader, list, history, metrics, bless");
    *(unsigned *) ret |= POLICY_MAY(action);
    return true;
}

bool value_add_id(int64_t id, const char *kind, struct policy_ids *ids, char *expected) {
    uint32_t *larger = id < 0 ? NULL : reallocarray(ids->all, ids->n + 1, sizeof larger[0]);

    if (!larger)
        return id < 0 ? expect(expected, "%ss that exist, or their numbers", kind)
                      : expect(expected, "more memory");
    ids->all = larger;
    larger[ids->n++] = (uint32_t) id;
    return true;
}

VALUE_FUNCTION(value_user) {
    return value_add_id(account_id_of_user(text), "user", ret, expected);
}

VALUE_FUNCTION(value_peer_group) {
    return value_add_id(account_id_of_group(text), "group", ret, expected);
}

/* True if the name, or pattern, can be that of a unit with processes of clients. A slice has none. */
static bool has_unit_type(const char *name) {
    static const char *const types[] = {".service", ".scope", ".socket", ".mount", ".swap"};
    const char *dot = strrchr(name, '.'), *type = dot ? dot : name;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i]) == 0 && type != name)
            return true;
    return strchr(type, '*') != NULL;
}

VALUE_FUNCTION(value_unit) {
    struct policy_rule *rule = ret;
    char **larger = reallocarray(rule->units, rule->n_units + 1, sizeof larger[0]);

    if (!larger)
        return expect(expected, "more memory");
    rule->units = larger;
    larger[rule->n_units] = NULL;
    if (!has_unit_type(text) || !copy(text, strlen(text), &larger[rule->n_units], expected))
        return expect(expected, "the whole names of units, such as {\"web.service\"}");
    rule->n_units++;
    return true;
}

static bool has_length(const char *text, const struct value_option *option, char *expected) {
    size_t length = strlen(text);

    return (length >= (size_t) option->min && length <= (size_t) option->max) ||
           expect(expected, "%d to %d bytes", (int) option->min, (int) option->max);
}

VALUE_FUNCTION(value_string) {
    return has_length(text, option, expected) && copy(text, strlen(text), ret, expected);
}

VALUE_FUNCTION(value_password) {
    if (!has_length(text, option, expected))
        return false;
    secret_memory_free_text(*(char **) ret);
    *(char **) ret = secret_memory_text(text, strlen(text));
    return *(char **) ret || expect(expected, "more memory");
}

VALUE_FUNCTION(value_label) {
    return (!text[strspn(text, NODE_ADDRESS_LETTERS)] && value_string(text, option, ret, expected)) ||
           expect(expected, "%d to %d letters, digits, '.', '_' or '-'", (int) option->min,
                  (int) option->max);
}

VALUE_FUNCTION(value_tls_name) {
    return (!text[strspn(text, NODE_ADDRESS_LETTERS ":")] && value_string(text, option, ret, expected)) ||
           expect(expected, "a host name, or an address without brackets, as the certificate has it");
}

VALUE_FUNCTION(value_path) {
    return (text[0] == '/' && text[strlen(text) - 1] != '/' && value_string(text, option, ret, expected)) ||
           expect(expected, "a path from '/' on, at most %d bytes", (int) option->max);
}

VALUE_FUNCTION(value_key_format) {
    struct config *config = ret;
    size_t prefix_length;
    const char *suffix, *wrong = key_format_read(text, &prefix_length, &suffix);

    return wrong ? expect(expected, "%s", wrong)
                 : copy(text, prefix_length, &config->key_prefix, expected) &&
                       copy(suffix, strlen(suffix), &config->key_suffix, expected);
}

VALUE_FUNCTION(value_address) {
    struct config_node *node = ret;
    struct node_address address = {.port = 0};

    if (strncmp(text, "unix:", strlen("unix:")) == 0)
        return value_path(text + strlen("unix:"), option, &node->unix_path, expected) &&
               copy(text, strlen(text), &node->address, expected);
    const char *wrong = node_address_read(text, &address);
    if (wrong)
        return expect(expected, "%s", wrong);
    node->port = address.port;
    return copy(address.host, strlen(address.host), &node->host, expected) &&
           copy(text, strlen(text), &node->address, expected);
}
