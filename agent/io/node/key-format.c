#include "io/node/key-format.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

/* How io/node/key-names.h's keys begin, and all that may follow. */
static const char own[] = "redlockd:";
static const char *const rests[] = {"epoch", "fence", "quarantine", "marks", "nodes", "moved:", "rights"};

static_assert(KEY_AFFIX_BYTES_MAX == 64, "as the message says");

/* True if a name that is a part of "redlockd:", such as "redlockd", becomes one of the agent's own keys. (No
 * name begins with the whole: argument_name_fault().) */
static bool completes_own_key(const char *suffix) {
    for (const char *end = own + 1; *end; end++) {
        if (strncmp(suffix, end, strlen(end)) != 0)
            continue;
        for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++)
            if (strncmp(suffix + strlen(end), rests[i], strlen(rests[i])) == 0)
                return true;
    }
    return false;
}

const char *key_format_read(const char *text, size_t *ret_prefix_length, const char **ret_suffix) {
    const char *name = strstr(text, "{name}"), *suffix = name ? name + strlen("{name}") : NULL;

    if (!name || strstr(suffix, "{name}"))
        return "\"{name}\" in it once, such as \"redlock:{name}\"";
    if (name - text > KEY_AFFIX_BYTES_MAX || strlen(suffix) > KEY_AFFIX_BYTES_MAX)
        return "at most 64 bytes before \"{name}\", and after it";
    size_t length = (size_t) (name - text);
    if (length > 0 && strncmp(text, own, length < strlen(own) ? length : strlen(own)) == 0)
        return "another prefix: keys that begin with \"redlockd:\" are the agent's own";
    if (length == 0 && completes_own_key(suffix))
        return "another end: with it a name could become one of the agent's own keys, such as "
               "\"redlockd:epoch\"";
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
