#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "io/loop/secret-memory.h"

enum { HOST_BYTES_MAX = 253 /* a host name in the DNS */, PORT_DEFAULT = 6379 };

#define DIGITS "0123456789"
#define LABEL DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-"

#define expect(expected, ...) (snprintf((expected), VALUE_EXPECTED_BYTES_MAX, __VA_ARGS__), false)

static bool copy(const char *text, size_t length, char **ret, char *expected) {
    free(*ret);
    *ret = strndup(text, length);
    return *ret || expect(expected, "more memory");
}

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit counts[] = {{"k", 1000}, {"M", 1000000}, {"", 1}, {0}}, *const plain = &counts[2];
static const struct unit times[] = {
    {"d", 86400000000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}, {0}};

/* Parses digits and a unit. INT64_MAX: too large for any option; -1: not a number. */
static int64_t number(const char *text, const struct unit *unit) {
    size_t digits = strspn(text, DIGITS);
    int64_t value = strtoll(text, NULL, 10);

    while (unit->name && strcmp(text + digits, unit->name) != 0)
        unit++;
    if (digits == 0 || !unit->name)
        return -1;
    return __builtin_mul_overflow(value, unit->factor, &value) ? INT64_MAX : value;
}

const char *value_show_duration(int64_t ms, char buffer[static VALUE_DURATION_BYTES_MAX]) {
    const struct unit *unit = times;

    while (ms * 1000 % unit->factor != 0)
        unit++;
    (void) snprintf(buffer, VALUE_DURATION_BYTES_MAX, "%lld%s", (long long) (ms * 1000 / unit->factor),
                    unit->name);
    return buffer;
}

VALUE_FUNCTION(value_duration) {
    bool named = option->zero && strcmp(text, option->zero) == 0;
    int64_t us = named || number(text, plain) == 0 ? 0 : number(text, times);
    bool zero = named || (us == 0 && option->zero && number(option->zero, plain) == 0);
    char min[VALUE_DURATION_BYTES_MAX], max[VALUE_DURATION_BYTES_MAX];

    if (us < 0)
        return expect(expected, "a whole number and one unit of us, ms, s, m, h, d, such as \"10s\"");
    if (us % 1000 != 0 && us != INT64_MAX)
        return expect(expected, "whole milliseconds");
    if ((us / 1000 < option->min || us / 1000 > option->max) && !zero)
        return expect(expected, "%s to %s%s%s", value_show_duration(option->min, min),
                      value_show_duration(option->max, max), option->zero ? ", or " : "",
                      option->zero ? option->zero : "");
    *(int64_t *) ret = us / 1000;
    return true;
}

VALUE_FUNCTION(value_count) {
    int64_t count = number(text, counts);

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

/* The id of a user or a group, by name or number; -1 if none has this name or number. */
static int64_t user_id(const char *text) {
    int64_t id = number(text, plain);
    const struct passwd *user = id < 0 ? getpwnam(text) : NULL;

    return user ? user->pw_uid : id < (uid_t) -1 ? id : -1;
}

static int64_t group_id(const char *text) {
    int64_t id = number(text, plain);
    const struct group *group = id < 0 ? getgrnam(text) : NULL;

    return group ? group->gr_gid : id < (gid_t) -1 ? id : -1;
}

VALUE_FUNCTION(value_group) {
    int64_t id = group_id(text);

    if (id < 0)
        return expect(expected, "the name of a group that exists (groupadd(8) makes one), or its number");
    *(gid_t *) ret = (gid_t) id;
    return true;
}

VALUE_FUNCTION(value_right) {
    unsigned action = POLICY_FREE + 1;

    while (action < POLICY_ACTIONS && strcmp(policy_word(action), text) != 0)
        action++;
    if (action == POLICY_ACTIONS)
        return expect(expected, "{...} of acquire, resume, observe, leader, list, history, metrics, bless");
    *(unsigned *) ret |= POLICY_MAY(action);
    return true;
}

static bool add_id(int64_t id, const char *kind, uint32_t **ids, unsigned *n, char *expected) {
    uint32_t *larger = id < 0 ? NULL : reallocarray(*ids, *n + 1, sizeof larger[0]);

    if (id < 0)
        return expect(expected, "%ss that exist, or their numbers", kind);
    if (!larger)
        return expect(expected, "more memory");
    *ids = larger;
    larger[(*n)++] = (uint32_t) id;
    return true;
}

VALUE_FUNCTION(value_user) {
    struct policy_rule *rule = ret;

    return add_id(user_id(text), "user", &rule->users, &rule->n_users, expected);
}

VALUE_FUNCTION(value_peer_group) {
    struct policy_rule *rule = ret;

    return add_id(group_id(text), "group", &rule->groups, &rule->n_groups, expected);
}

VALUE_FUNCTION(value_unit) {
    struct policy_rule *rule = ret;
    char **larger = reallocarray(rule->units, rule->n_units + 1, sizeof larger[0]);

    if (!larger)
        return expect(expected, "more memory");
    rule->units = larger;
    larger[rule->n_units] = NULL;
    if (!*text || !copy(text, strlen(text), &larger[rule->n_units], expected))
        return expect(expected, "units, such as {\"web.service\"}");
    rule->n_units++;
    return true;
}

VALUE_FUNCTION(value_string) {
    size_t length = strlen(text);

    if (length < (size_t) option->min || length > (size_t) option->max)
        return expect(expected, "%d to %d bytes", (int) option->min, (int) option->max);
    return copy(text, length, ret, expected);
}

VALUE_FUNCTION(value_password) {
    size_t length = strlen(text);

    if (length < (size_t) option->min || length > (size_t) option->max)
        return expect(expected, "%d to %d bytes", (int) option->min, (int) option->max);
    secret_memory_free_text(*(char **) ret);
    *(char **) ret = secret_memory_text(text, length);
    return *(char **) ret || expect(expected, "more memory");
}

VALUE_FUNCTION(value_label) {
    return (!text[strspn(text, LABEL)] && value_string(text, option, ret, expected)) ||
           expect(expected, "%d to %d letters, digits, '.', '_' or '-'", (int) option->min,
                  (int) option->max);
}

VALUE_FUNCTION(value_tls_name) {
    return (!text[strspn(text, LABEL ":")] && value_string(text, option, ret, expected)) ||
           expect(expected, "a host name, or an address without brackets, as the certificate has it");
}

VALUE_FUNCTION(value_path) {
    return (text[0] == '/' && text[strlen(text) - 1] != '/' && value_string(text, option, ret, expected)) ||
           expect(expected, "a path from '/' on, at most %d bytes", (int) option->max);
}

VALUE_FUNCTION(value_key_format) {
    const char *name = strstr(text, "{name}"), *suffix = name ? name + strlen("{name}") : NULL;
    struct config *config = ret;

    if (!name || strstr(suffix, "{name}"))
        return expect(expected, "\"{name}\" in it once, such as \"redlock:{name}\"");
    if (name - text > KEY_AFFIX_BYTES_MAX || strlen(suffix) > KEY_AFFIX_BYTES_MAX)
        return expect(expected, "at most %d bytes before \"{name}\", and after it", KEY_AFFIX_BYTES_MAX);
    if (strncmp(text, "redlockd:", strlen("redlockd:")) == 0)
        return expect(expected, "another prefix: keys that begin with \"redlockd:\" are the agent's own");
    return copy(text, (size_t) (name - text), &config->key_prefix, expected) &&
           copy(suffix, strlen(suffix), &config->key_suffix, expected);
}

/* Writes an IPv6 address, with or without "%interface", in the form of inet_ntop(3). */
static bool normalize_ipv6(char host[static HOST_BYTES_MAX + 1]) {
    char *scope = strchrnul(host, '%'), copied[32], usual[INET6_ADDRSTRLEN];
    struct in6_addr binary;

    if (snprintf(copied, sizeof copied, "%s", scope) > 17 || copied[strspn(copied, LABEL "%")] ||
        strlen(copied) == 1)
        return false;
    *scope = 0;
    if (inet_pton(AF_INET6, host, &binary) != 1 || !inet_ntop(AF_INET6, &binary, usual, sizeof usual))
        return false;
    (void) snprintf(host, HOST_BYTES_MAX + 1, "%s%s", usual, copied);
    return true;
}

VALUE_FUNCTION(value_address) {
    size_t bracket = text[0] == '[', length = strcspn(text + bracket, bracket ? "]" : ":");
    const char *after = text + bracket + length + (bracket && text[bracket + length]);
    int64_t port = *after == ':' ? number(after + 1, plain) : PORT_DEFAULT;
    struct config_node *node = ret;
    char host[HOST_BYTES_MAX + 1];
    struct in_addr binary;

    if (strncmp(text, "unix:", strlen("unix:")) == 0)
        return value_path(text + strlen("unix:"), option, &node->unix_path, expected) &&
               copy(text, strlen(text), &node->address, expected);
    if (length == 0 || length > HOST_BYTES_MAX || strchr(text, '/') || (*after && *after != ':'))
        return expect(expected, "\"host:port\", \"[::1]:port\" or \"unix:/path\"");
    for (size_t i = 0; i <= length; i++)
        host[i] = i < length ? (char) tolower(text[bracket + i]) : 0;
    if (bracket ? after[-1] != ']' || !normalize_ipv6(host) : *after && strchr(after + 1, ':'))
        return expect(expected, "an IPv6 address in brackets, such as \"[::1]:6379\"");
    if (!bracket && host[strspn(host, LABEL)])
        return expect(expected, "a host name of letters, digits, '.', '_' or '-'");
    if (!host[strspn(host, DIGITS ".")] && inet_pton(AF_INET, host, &binary) != 1)
        return expect(expected, "an IPv4 address of four numbers from 0 to 255");
    if (port < 1 || port > UINT16_MAX)
        return expect(expected, "a port from 1 to 65535 after the ':'");
    node->port = (uint16_t) port;
    return copy(host, strlen(host), &node->host, expected) &&
           copy(text, strlen(text), &node->address, expected);
}
