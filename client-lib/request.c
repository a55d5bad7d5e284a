#include "request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sized.h"

enum { NAME_BYTES_MAX = 512, DATA_BYTES_MAX = 1024 };

static void add_item(struct acquire_request *request, const void *bytes, size_t length) {
    request->items[request->n_items++] = (struct resp_token){.text = bytes, .length = length};
}

static void add_number(struct acquire_request *request, const char *word, int64_t value) {
    char *digits = request->numbers[request->n_numbers++];

    add_item(request, word, strlen(word));
    add_item(request, digits, (size_t) snprintf(digits, NUMBER_BYTES, "%lld", (long long) value));
}

static const struct {
    const char *word;
    size_t offset; /* of an int64_t in struct redlock_options; 0 there: not sent */
} numbers[ACQUIRE_NUMBERS] = {
    {"TTL", offsetof(struct redlock_options, ttl_ms)},
    {"WAIT", offsetof(struct redlock_options, wait_ms)},
    {"HEARTBEAT", offsetof(struct redlock_options, heartbeat_ms)},
    {"MAXHOLD", offsetof(struct redlock_options, max_hold_ms)},
    {"LINGER", offsetof(struct redlock_options, linger_ms)},
};

void request_compose(struct acquire_request *request, const char *name,
                     const struct redlock_options *options, bool async) {
    add_item(request, "ACQUIRE", strlen("ACQUIRE"));
    add_item(request, name, strlen(name));
    for (size_t i = 0; i < ACQUIRE_NUMBERS; i++) {
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

int request_options(struct client *client, const struct redlock_options *given, const char *name,
                    struct redlock_options *ret) {
    *ret = (struct redlock_options){.size = sizeof(*ret)};
    if (given && !sized_take(ret, sizeof(*ret), offsetof(struct redlock_options, linger_ms), given)) {
        client_note(client, "the options' size is wrong, or they have more than this library knows");
        return REDLOCK_BAD_ARGUMENT;
    }
    if (strlen(name) < 1 || strlen(name) > NAME_BYTES_MAX) {
        client_note(client, "a name has 1 to 512 bytes");
        return REDLOCK_BAD_NAME;
    }
    if (ret->data_length > DATA_BYTES_MAX || (!ret->data && ret->data_length > 0)) {
        client_note(client, ret->data ? "data has at most 1,024 bytes" : "the data are NULL");
        return REDLOCK_BAD_ARGUMENT;
    }
    if (ret->wait_ms < -1 || ret->wait_ms > INT32_MAX) {
        client_note(client, "wait_ms is from -1 to %ld", (long) INT32_MAX);
        return REDLOCK_BAD_ARGUMENT;
    }
    return REDLOCK_OK;
}
