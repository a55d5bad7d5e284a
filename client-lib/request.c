#include "request.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 512, DATA_BYTES_MAX = 1024 };

static void add_item(struct acquire_request *request, const void *bytes, size_t length) {
    request->items[request->n_items++] = (struct resp_token){.text = bytes, .length = length};
}

static void add_number(struct acquire_request *request, const char *word, int64_t value) {
    char *digits = request->numbers[request->n_numbers++];

    add_item(request, word, strlen(word));
    add_item(request, digits, (size_t) snprintf(digits, NUMBER_BYTES, "%lld", (long long) value));
}

void request_compose(struct acquire_request *request, const char *name,
                     const struct redlock_options *options, bool async) {
    add_item(request, "ACQUIRE", strlen("ACQUIRE"));
    add_item(request, name, strlen(name));
    if (options->ttl_ms != 0)
        add_number(request, "TTL", options->ttl_ms);
    if (options->wait_ms != 0)
        add_number(request, "WAIT", options->wait_ms);
    if (options->heartbeat_ms != 0)
        add_number(request, "HEARTBEAT", options->heartbeat_ms);
    if (options->max_hold_ms != 0)
        add_number(request, "MAXHOLD", options->max_hold_ms);
    if (options->linger_ms != 0)
        add_number(request, "LINGER", options->linger_ms);
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
    if (given)
        memcpy(ret, given, given->size < sizeof(*ret) ? given->size : sizeof(*ret));
    if (strlen(name) < 1 || strlen(name) > NAME_BYTES_MAX) {
        client_note(client, "a name has 1 to 512 bytes");
        return REDLOCK_BAD_NAME;
    }
    if (ret->data_length > DATA_BYTES_MAX) {
        client_note(client, "data has at most 1,024 bytes");
        return REDLOCK_BAD_ARGUMENT;
    }
    return REDLOCK_OK;
}
