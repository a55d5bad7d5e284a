/* What the values of a configuration file mean. Each function gives NULL and the value, or a sentence
 * fragment that says what was expected; the value is untouched then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HOST_BYTES_MAX = 253, /* a host name of the DNS */
    UNIX_PATH_BYTES_MAX = 107 /* what fits into a socket address */,
    HOST_LABEL_BYTES_MAX = 64 /* `host`, in lock values */,
};

/* Where a node is, comparable: a host is in lower case, an IPv6 address in its usual form. */
struct value_address {
    char unix_path[UNIX_PATH_BYTES_MAX + 1]; /* or "", then: */
    char host[HOST_BYTES_MAX + 1];
    uint16_t port;
};

/* "10s", "500ms", "0". */
const char *value_duration_ms(const char *text, int64_t *ret_ms);

/* "64", "10k", "1M": thousands and millions. */
const char *value_count(const char *text, int64_t *ret);

const char *value_address(const char *text, struct value_address *ret);
bool value_address_equal(const struct value_address *a, const struct value_address *b);

/* Splits "prefix{name}suffix": gives the length of the prefix, and where the suffix begins. */
const char *value_key_format(const char *text, size_t *ret_prefix_length, const char **ret_suffix);

/* What a certificate names: a host or an address. */
const char *value_tls_name(const char *text);

const char *value_file_path(const char *text);
const char *value_host_label(const char *text);
const char *value_socket_path(const char *text);
const char *value_mode(const char *text, mode_t *ret);

/* The name of a group, or its number. */
const char *value_group(const char *text, gid_t *ret);

/* Makes `host` fit for lock values: cut, and other bytes than letters, digits, '.', '_', '-' replaced by
 * '-'. */
void host_label_from(const char *host, char ret[static HOST_LABEL_BYTES_MAX + 1]);

/* The duration as a person would write it: "90s", "24h". */
void duration_show(int64_t ms, char *buffer, size_t size);
