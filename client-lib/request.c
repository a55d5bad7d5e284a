#include "request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sized.h"

enum { NAME_BYTES_MAX = 512, DATA_BYTES_MAX = 1024 };

static void add_item(struct request_acquire *request, const void *bytes, size_t length) {
    request->items[request->n_items++] = (struct resp_token){.text = bytes, .length = length};
}

static void add_number(struct request_acquire *request, const char *word, int64_t value) {
    char *digits = request->numbers[request->n_numbers++];

    add_item(request, word, strlen(word));
    add_item(request, digits, (size_t) snprintf(digits, REQUEST_NUMBER_BYTES, "%lld", (long long) value));
}

static const struct {
    const char *word;
    size_t offset; /* of the int64_t in struct redlock_options; 0 is not sent */
} numbers[REQUEST_NUMBERS] = {
    {"TTL", offsetof(struct redlock_options, ttl_ms)},
    {"WAIT", offsetof(struct redlock_options, wait_ms)},
    {"HEARTBEAT", offsetof(struct redlock_options, heartbeat_ms)},
    {"MAXHOLD", offsetof(struct redlock_options, max_hold_ms)},
    {"LINGER", offsetof(struct redlock_options, linger_ms)},
    {"COOLDOWN", offsetof(struct redlock_options, cooldown_ms)},
};

void request_compose(struct request_acquire *request, const char *name,
                     const struct redlock_options *options, bool async) {
    add_item(request, "ACQUIRE", strlen("ACQUIRE"));
    add_item(request, name, strlen(name));
    for (size_t i = 0; i < REQUEST_NUMBERS; i++) {
        int64_t value;
        memcpy(&value, (const char *) options + numbers[i].offset, sizeof(value));
        if (value != 0)
            add_number(request, numbers[i].word, value);
    }
    if (options->data_length > 0) {
        add_item(request, "DATA", strlen("DATA"));
        add_item(request, options->data, options->data_length);
    }
    add_item(request, "RESUMABLE", strlen("RESUMABLE"));
    if (async)
        add_item(request, "ASYNC", strlen("ASYNC"));
}

int request_name(const char *name, const char **ret_text) {
    size_t length = strlen(name);

    if (length >= 1 && length <= NAME_BYTES_MAX)
        return REDLOCK_OK;
    *ret_text = "a name has 1 to 512 bytes";
    return REDLOCK_BAD_NAME;
}

/* The protocol's longest time. A shorter heartbeat or max_hold ends a lease earlier, never later. */
static int64_t at_most(int64_t ms) {
    return ms < INT32_MAX ? ms : INT32_MAX;
}

int request_options(const struct redlock_options *given, const char *name, struct redlock_options *ret,
                    const char **ret_text) {
    const char *text = NULL;

    *ret = (struct redlock_options){.size = sizeof(*ret)};
    if (given && !sized_take(ret, sizeof(*ret), offsetof(struct redlock_options, linger_ms), given)) {
        *ret_text = "options.size is wrong, or a member is set that this version of the library lacks";
        return REDLOCK_BAD_ARGUMENT;
    }
    int error = request_name(name, ret_text);
    if (error != REDLOCK_OK)
        return error;
    if (ret->data_length > DATA_BYTES_MAX)
        text = "options.data_length must be at most 1,024";
    else if (!ret->data && ret->data_length > 0)
        text = "options.data is NULL, but options.data_length is not 0";
    else if (ret->wait_ms < -1 || ret->wait_ms > INT32_MAX)
        text = "options.wait_ms must be from -1 to 2147483647";
    ret->heartbeat_ms = at_most(ret->heartbeat_ms);
    ret->max_hold_ms = at_most(ret->max_hold_ms);
    if (text)
        *ret_text = text;
    return text ? REDLOCK_BAD_ARGUMENT : REDLOCK_OK;
}
