/* The address of a node as people write it: "host:port", "host", "[IPv6]:port". */
#pragma once

#include <stdint.h>

enum { NODE_ADDRESS_HOST_BYTES_MAX = 253 /* a host name in the DNS */, NODE_ADDRESS_PORT_DEFAULT = 6379 };

#define NODE_ADDRESS_LETTERS \
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-" /* of a host */

struct node_address {
    /* In lower case but for "%interface", IPv6 as inet_ntop(3) writes it. */
    char host[NODE_ADDRESS_HOST_BYTES_MAX + 1];
    uint16_t port;
};

/* NULL, or what the text should be instead. */
const char *node_address_read(const char *text, struct node_address *ret);
