#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

enum { HOST_BYTES_MAX = 253 /* a host name in the DNS */, PORT_DEFAULT = 6379 };

#define DIGITS "0123456789"
#define LABEL DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-"

#define expect(expected, ...) (snprintf((expected), VALUE_EXPECTED_BYTES_MAX, __VA_ARGS__), false)

static bool copy(const char *text, size_t length, char **ret, char *expected) {
    char *copied = strndup(text, length);

    if (!copied)
        return expect(expected, "more memory");
    free(*ret);
    *ret = copied;
    return true;
}

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit times[] = {{"d", INT64_C(86400000000)},
                                    {"h", INT64_C(3600000000)},
                                    {"m", 60000000},
                                    {"s", 1000000},
                                    {"ms", 1000},
                                    {"us", 1},
                                    {NULL, 0}};
static const struct unit plain[] = {{"", 1}, {NULL, 0}};
static const struct unit counts[] = {{"", 1}, {"k", 1000}, {"M", 1000000}, {NULL, 0}};

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

static void show_duration(int64_t ms, char buffer[static 32]) {
    const struct unit *unit = times;

    while (ms * 1000 % unit->factor != 0)
        unit++;
    (void) snprintf(buffer, 32, "%lld%s", (long long) (ms * 1000 / unit->factor), unit->name);
}

VALUE_FUNCTION(value_duration) {
    bool named = option->zero && strcmp(text, option->zero) == 0;
    int64_t us = named || number(text, plain) == 0 ? 0 : number(text, times);
    bool zero = named || (us == 0 && option->zero && number(option->zero, plain) == 0);
    char min[32], max[32];

    if (us < 0)
        return expect(expected, "a whole number and one unit of us, ms, s, m, h, d, such as \"10s\"");
    if (us % 1000 != 0 && us != INT64_MAX)
        return expect(expected, "whole milliseconds");
    show_duration(option->min, min);
    show_duration(option->max, max);
    if ((us / 1000 < option->min || us / 1000 > option->max) && !zero)
        return expect(expected, "%s to %s%s%s", min, max, option->zero ? ", or " : "",
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
    (void) option;
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return expect(expected, "yes or no");
    *(bool *) ret = text[0] == 'y';
    return true;
}

VALUE_FUNCTION(value_mode) {
    const char *digits = text + (strlen(text) == 4 && text[0] == '0');

    (void) option;
    if (strlen(digits) != 3 || strspn(digits, "01234567") != 3)
        return expect(expected, "three octal digits, such as \"0660\"");
    *(mode_t *) ret = (mode_t) strtoul(digits, NULL, 8);
    return true;
}

VALUE_FUNCTION(value_group) {
    int64_t id = number(text, plain);
    const struct group *group = id < 0 ? getgrnam(text) : NULL;

    (void) option;
    if (id >= (gid_t) -1 || (id < 0 && !group))
        return expect(expected, "the name of a group that exists (groupadd(8) makes one), or its number");
    *(gid_t *) ret = group ? group->gr_gid : (gid_t) id;
    return true;
}

VALUE_FUNCTION(value_string) {
    size_t length = strlen(text);

    if (length < (size_t) option->min || length > (size_t) option->max)
        return expect(expected, "%d to %d bytes", (int) option->min, (int) option->max);
    return copy(text, length, ret, expected);
}

VALUE_FUNCTION(value_label) {
    if (text[strspn(text, LABEL)] || !value_string(text, option, ret, expected))
        return expect(expected, "%d to %d letters, digits, '.', '_' or '-'", (int) option->min,
                      (int) option->max);
    return true;
}

VALUE_FUNCTION(value_tls_name) {
    if (text[strspn(text, LABEL ":")] || !value_string(text, option, ret, expected))
        return expect(expected, "a host name, or an address without brackets, as the certificate has it");
    return true;
}

VALUE_FUNCTION(value_path) {
    if (text[0] != '/' || text[strlen(text) - 1] == '/' || !value_string(text, option, ret, expected))
        return expect(expected, "a path from '/' on, at most %d bytes", (int) option->max);
    return true;
}

VALUE_FUNCTION(value_key_format) {
    const char *name = strstr(text, "{name}"), *suffix = name ? name + strlen("{name}") : NULL;
    struct config *config = ret;

    (void) option;
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
