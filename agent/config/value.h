/* The types of the configuration file's options: parsing and limits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_ids;

struct value_option {
    const char *name;
    const char *initial; /* the default, as in a file; NULL: none */
    bool (*read)(const char *text, const struct value_option *option, void *ret, char *expected);
    size_t offset;    /* of *ret in its struct */
    int64_t min, max; /* of a number, or of the length of a string */
    const char *zero; /* the text for 0 where 0 is below min; or NULL */
};

/* Each function parses a value and sets *ret, of the type in the comment; or returns false and writes into
 * `expected` what the value should be. A string is copied, and a former one freed. */
enum { VALUE_ITEM = -1 /* in `min`: the function adds an item of a list */ };
enum { VALUE_BYTES_MAX = 1024, VALUE_EXPECTED_BYTES_MAX = 160 };
#define VALUE_FUNCTION(name)                                                                          \
    bool name(const char *text, __attribute__((unused)) const struct value_option *option, void *ret, \
              char *expected)

VALUE_FUNCTION(value_duration);   /* int64_t, in ms: "10s" */
VALUE_FUNCTION(value_count);      /* unsigned: "64", "10k", "1M" */
VALUE_FUNCTION(value_flag);       /* bool: "yes", "no" */
VALUE_FUNCTION(value_mode);       /* mode_t: "0660" */
VALUE_FUNCTION(value_group);      /* gid_t: a name or a number */
VALUE_FUNCTION(value_string);     /* char * */
VALUE_FUNCTION(value_password);   /* char *, of secret_memory_text() */
VALUE_FUNCTION(value_label);      /* char *, of letters, digits, '.', '_' and '-' */
VALUE_FUNCTION(value_tls_name);   /* char *: a host or an address, as a certificate names it */
VALUE_FUNCTION(value_path);       /* char *: of a file or a socket */
VALUE_FUNCTION(value_right);      /* unsigned: adds POLICY_MAY() of "acquire" */
VALUE_FUNCTION(value_user);       /* struct policy_ids: adds a user, by name or number, that exists */
VALUE_FUNCTION(value_peer_group); /* the same: a group */
VALUE_FUNCTION(value_unit);       /* struct policy_rule: adds a unit */
VALUE_FUNCTION(value_key_format); /* struct config: key_prefix, key_suffix */
VALUE_FUNCTION(value_address);    /* struct config_node: address, and unix_path, or host and port */

/* Adds a number of the kind "user" or "group"; one below 0 is a mistake. */
bool value_add_id(int64_t id, const char *kind, struct policy_ids *ids, char *expected);
