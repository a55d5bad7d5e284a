#include "config/value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/limits.h"

enum { PORT_DEFAULT = 6379 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_label(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-';
}

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char) *text < ' ' || *text == 0x7f)
            return true;
    return false;
}

/* Leading digits. Gives how many there were; a number too large for any option becomes INT64_MAX. */
static size_t take_number(const char *text, int64_t *ret) {
    size_t length = 0;
    int64_t number = 0;

    for (; is_digit(text[length]); length++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text[length] - '0', &number))
            number = INT64_MAX;
    *ret = number;
    return length;
}

static const struct {
    const char *name;
    int64_t us;
} units[] = {
    {"d", INT64_C(86400000000)},
    {"h", INT64_C(3600000000)},
    {"m", 60000000},
    {"s", 1000000},
    {"ms", 1000},
    {"us", 1},
};

const char *value_duration_ms(const char *text, int64_t *ret_ms) {
    int64_t number, us = 0;
    size_t length = take_number(text, &number);

    if (length == 0)
        return "expected a whole number with a unit (us, ms, s, m, h, d), such as \"10s\"";
    if (!text[length]) {
        if (number != 0)
            return "expected a unit after the number (us, ms, s, m, h, d), such as \"10s\"";
        *ret_ms = 0;
        return NULL;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + length, units[i].name) == 0)
            us = units[i].us;
    if (us == 0)
        return "expected a whole number and one unit of us, ms, s, m, h, d, such as \"10s\"";
    if (__builtin_mul_overflow(number, us, &us))
        us = INT64_MAX / 1000 * 1000;
    if (us % 1000 != 0)
        return "expected whole milliseconds";
    *ret_ms = us / 1000;
    return NULL;
}

void duration_show(int64_t ms, char *buffer, size_t size) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (units[i].us < 1000 || ms % (units[i].us / 1000) != 0 || ms == 0)
            continue;
        (void) snprintf(buffer, size, "%lld%s", (long long) (ms / (units[i].us / 1000)), units[i].name);
        return;
    }
    (void) snprintf(buffer, size, "%lld", (long long) ms);
}

const char *value_count(const char *text, int64_t *ret) {
    int64_t number, factor = 1;
    size_t length = take_number(text, &number);

    if (length > 0 && text[length] == 'k')
        factor = 1000;
    else if (length > 0 && text[length] == 'M')
        factor = 1000000;
    length += factor > 1;
    if (length == 0 || text[length])
        return "expected a whole number, such as \"64\", \"10k\" or \"1M\"";
    if (__builtin_mul_overflow(number, factor, &number))
        number = INT64_MAX;
    *ret = number;
    return NULL;
}

static const char *take_port(const char *text, uint16_t *ret) {
    int64_t port;
    size_t length = take_number(text, &port);

    if (length == 0 || text[length] || port < 1 || port > UINT16_MAX)
        return "expected a port from 1 to 65535 after the ':'";
    *ret = (uint16_t) port;
    return NULL;
}

/* "[address]" or "[address]:port", from the bracket on. */
static const char *take_ipv6(const char *text, struct value_address *ret) {
    static const char expected[] = "expected an IPv6 address in brackets, such as \"[::1]:6379\"";
    const char *end = strchr(text, ']');
    char *scope;
    struct in6_addr binary;
    char usual[INET6_ADDRSTRLEN], inside[HOST_BYTES_MAX + 1];

    if (!end || end - text > INET6_ADDRSTRLEN + 16 || (end[1] && end[1] != ':'))
        return expected;
    (void) snprintf(inside, sizeof inside, "%.*s", (int) (end - text - 1), text + 1);
    scope = strchr(inside, '%');
    if (scope) {
        *scope++ = 0;
        if (!scope[0] ||
            scope[strspn(scope, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")])
            return expected;
    }
    if (inet_pton(AF_INET6, inside, &binary) != 1 || !inet_ntop(AF_INET6, &binary, usual, sizeof usual))
        return expected;
    (void) snprintf(ret->host, sizeof ret->host, "%s%s%s", usual, scope ? "%" : "", scope ? scope : "");
    return end[1] ? take_port(end + 2, &ret->port) : NULL;
}

/* "name", "name:port", or an IPv4 address in the place of the name. */
static const char *take_host(const char *text, struct value_address *ret) {
    size_t length = strcspn(text, ":");
    struct in_addr binary;

    if (strchr(text, '/'))
        return text[0] == '/' ? "expected \"unix:\" before the path of a socket"
                              : "expected \"host:port\", \"[::1]:port\" or \"unix:/path\"";
    if (strchr(text + length, ':') != strrchr(text, ':'))
        return "expected an IPv6 address in brackets, such as \"[::1]:6379\"";
    if (length == 0 || length > HOST_BYTES_MAX)
        return "expected \"host:port\", \"[::1]:port\" or \"unix:/path\"";
    for (size_t i = 0; i < length; i++) {
        if (!is_label(text[i]))
            return "expected a host name of letters, digits, '.', '_' or '-'";
        ret->host[i] = (char) (text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    }
    ret->host[length] = 0;
    if (strspn(ret->host, "0123456789.") == length && inet_pton(AF_INET, ret->host, &binary) != 1)
        return "expected an IPv4 address of four numbers from 0 to 255";
    return text[length] ? take_port(text + length + 1, &ret->port) : NULL;
}

const char *value_address(const char *text, struct value_address *ret) {
    struct value_address address = {.port = PORT_DEFAULT};
    const char *expected;

    if (has_control(text) || strchr(text, ' '))
        return "expected an address without blanks";
    if (strncmp(text, "unix:", 5) == 0) {
        expected = value_socket_path(text + 5);
        if (!expected)
            (void) snprintf(address.unix_path, sizeof address.unix_path, "%s", text + 5);
    } else if (text[0] == '[') {
        expected = take_ipv6(text, &address);
    } else {
        expected = take_host(text, &address);
    }
    if (!expected)
        *ret = address;
    return expected;
}

bool value_address_equal(const struct value_address *a, const struct value_address *b) {
    return strcmp(a->unix_path, b->unix_path) == 0 && strcmp(a->host, b->host) == 0 &&
           (a->unix_path[0] || a->port == b->port);
}

const char *value_key_format(const char *text, size_t *ret_prefix_length, const char **ret_suffix) {
    static const char name[] = "{name}", ours[] = "redlockd:";
    const char *found = strstr(text, name);
    const char *suffix;

    if (!found || strstr(found + 1, name))
        return "expected \"{name}\" in it once, such as \"redlock:{name}\"";
    suffix = found + strlen(name);
    if (found - text > KEY_AFFIX_BYTES_MAX || strlen(suffix) > KEY_AFFIX_BYTES_MAX)
        return "expected at most 64 bytes before and 64 after \"{name}\"";
    if (has_control(text))
        return "expected no control characters";
    if (strncmp(text, ours, strlen(ours)) == 0)
        return "expected another beginning: keys that begin with \"redlockd:\" are the agent's own";
    *ret_prefix_length = (size_t) (found - text);
    *ret_suffix = suffix;
    return NULL;
}
static_assert(KEY_AFFIX_BYTES_MAX == 64, "as the message says");

const char *value_host_label(const char *text) {
    size_t length = strlen(text);

    for (size_t i = 0; i < length; i++)
        if (!is_label(text[i]))
            length = 0;
    return length < 1 || length > HOST_LABEL_BYTES_MAX ? "expected 1 to 64 letters, digits, '.', '_' or '-'"
                                                       : NULL;
}
static_assert(HOST_LABEL_BYTES_MAX == 64, "as the message says");

const char *value_tls_name(const char *text) {
    size_t length = strlen(text);

    for (size_t i = 0; i < length; i++)
        if (!is_label(text[i]) && text[i] != ':')
            length = 0;
    return length < 1 || length > HOST_BYTES_MAX
               ? "expected a host name, or an address without brackets, as the certificate has it"
               : NULL;
}

const char *value_file_path(const char *text) {
    return text[0] != '/' || has_control(text) ? "expected the path of a file from '/' on" : NULL;
}

void host_label_from(const char *host, char ret[static HOST_LABEL_BYTES_MAX + 1]) {
    size_t length = strnlen(host, HOST_LABEL_BYTES_MAX);

    for (size_t i = 0; i < length; i++)
        ret[i] = host[i];
    for (size_t i = 0; i < length; i++)
        if (!is_label(ret[i]))
            ret[i] = '-';
    ret[length] = 0;
    if (length == 0)
        (void) snprintf(ret, HOST_LABEL_BYTES_MAX + 1, "localhost");
}

const char *value_socket_path(const char *text) {
    size_t length = strlen(text);

    if (text[0] != '/' || text[length - 1] == '/' || length > UNIX_PATH_BYTES_MAX || has_control(text))
        return "expected the path of a socket from '/' on, at most 107 bytes";
    return NULL;
}
static_assert(UNIX_PATH_BYTES_MAX == 107, "as the message says");

const char *value_mode(const char *text, mode_t *ret) {
    size_t length = strlen(text);
    mode_t mode = 0;

    if (length < 3 || length > 4 || strspn(text, "01234567") != length || (length == 4 && text[0] != '0'))
        return "expected three octal digits, such as \"0660\"";
    for (size_t i = 0; i < length; i++)
        mode = mode * 8 + (mode_t) (text[i] - '0');
    *ret = mode;
    return NULL;
}

const char *value_group(const char *text, gid_t *ret) {
    enum { SPACE = 1024 * 1024 }; /* a group may have very many members */
    _cleanup_free_ char *space = NULL;
    struct group group, *found = NULL;
    int64_t number;
    size_t length = take_number(text, &number);

    if (length > 0 && !text[length]) {
        if (number >= (gid_t) -1)
            return "expected the name of a group, or its number";
        *ret = (gid_t) number;
        return NULL;
    }
    if (!text[0] || has_control(text))
        return "expected the name of a group, or its number";
    space = malloc(SPACE);
    if (!space)
        return "expected enough memory to look it up";
    if (getgrnam_r(text, &group, space, SPACE, &found) != 0 || !found)
        return "expected a group that exists (groupadd(8) makes one)";
    *ret = found->gr_gid;
    return NULL;
}
