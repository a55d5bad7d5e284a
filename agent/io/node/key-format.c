#include "io/node/key-format.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

static_assert(KEY_AFFIX_BYTES_MAX == 64, "as the message says");

const char *key_format_read(const char *text, size_t *ret_prefix_length, const char **ret_suffix) {
    static const char own[] = "redlockd:";
    const char *name = strstr(text, "{name}"), *suffix = name ? name + strlen("{name}") : NULL;

    if (!name || strstr(suffix, "{name}"))
        return "\"{name}\" in it once, such as \"redlock:{name}\"";
    if (name - text > KEY_AFFIX_BYTES_MAX || strlen(suffix) > KEY_AFFIX_BYTES_MAX)
        return "at most 64 bytes before \"{name}\", and after it";
    size_t length = (size_t) (name - text);
    if (length > 0 && strncmp(text, own, length < strlen(own) ? length : strlen(own)) == 0)
        return "another prefix: keys that begin with \"redlockd:\" are the agent's own";
    *ret_prefix_length = length;
    *ret_suffix = suffix;
    return NULL;
}

size_t key_format_put(const char *prefix, const char *suffix, const char *name, size_t length,
                      char ret[static KEY_FORMAT_KEY_BYTES_MAX]) {
    size_t prefix_length = strlen(prefix), suffix_length = strlen(suffix);

    assert(prefix_length <= KEY_AFFIX_BYTES_MAX && suffix_length <= KEY_AFFIX_BYTES_MAX);
    assert(length <= NAME_BYTES_MAX);
    /* NOLINTBEGIN(bugprone-not-null-terminated-result): the key has a length, and no NUL */
    memcpy(ret, prefix, prefix_length);
    memcpy(ret + prefix_length, name, length);
    memcpy(ret + prefix_length + length, suffix, suffix_length);
    /* NOLINTEND(bugprone-not-null-terminated-result) */
    return prefix_length + length + suffix_length;
}

bool key_format_name(const char *prefix, const char *suffix, const char *key, size_t length,
                     const char **ret, size_t *ret_length) {
    size_t prefix_length = strlen(prefix), suffix_length = strlen(suffix);

    if (length < prefix_length + suffix_length || !bytes_begin_with(key, length, prefix, prefix_length) ||
        !bytes_equal(key + length - suffix_length, suffix_length, suffix, suffix_length))
        return false;
    *ret = key + prefix_length;
    *ret_length = length - prefix_length - suffix_length;
    return true;
}
