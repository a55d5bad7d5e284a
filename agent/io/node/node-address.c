#include "io/node/node-address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"

/* Writes an IPv6 address, with or without "%interface", in the form of inet_ntop(3). */
static bool normalize_ipv6(char host[static NODE_ADDRESS_HOST_BYTES_MAX + 1]) {
    char *scope = strchrnul(host, '%'), copied[32], usual[INET6_ADDRSTRLEN];
    struct in6_addr binary;

    if (snprintf(copied, sizeof copied, "%s", scope) > 17 ||
        copied[strspn(copied, NODE_ADDRESS_LETTERS "%")] || strlen(copied) == 1)
        return false;
    *scope = 0;
    if (inet_pton(AF_INET6, host, &binary) != 1 || !inet_ntop(AF_INET6, &binary, usual, sizeof usual))
        return false;
    (void) snprintf(host, NODE_ADDRESS_HOST_BYTES_MAX + 1, "%s%s", usual, copied);
    return true;
}

const char *node_address_read(const char *text, struct node_address *ret) {
    size_t bracket = text[0] == '[', length = strcspn(text + bracket, bracket ? "]" : ":");
    const char *after = text + bracket + length + (bracket && text[bracket + length]);
    int64_t port = *after == ':' ? quantity_read(after + 1, quantity_plain) : NODE_ADDRESS_PORT_DEFAULT;
    char *host = ret->host;
    struct in_addr binary;

    if (length == 0 || length > NODE_ADDRESS_HOST_BYTES_MAX || strchr(text, '/') ||
        (*after && *after != ':'))
        return "\"host:port\", \"[::1]:port\" or \"unix:/path\"";
    memcpy(host, text + bracket, length);
    host[length] = 0;
    for (char *at = host; *at && *at != '%'; at++) /* interfaces differ by case */
        *at = (char) tolower(*at);
    if (bracket ? after[-1] != ']' || !normalize_ipv6(host) : *after && strchr(after + 1, ':'))
        return "an IPv6 address in brackets, such as \"[::1]:6379\"";
    if (!bracket && host[strspn(host, NODE_ADDRESS_LETTERS)])
        return "a host name of letters, digits, '.', '_' or '-'";
    if (!host[strspn(host, "0123456789.")] && inet_pton(AF_INET, host, &binary) != 1)
        return "an IPv4 address of four numbers from 0 to 255";
    if (port < 1 || port > UINT16_MAX)
        return "a port from 1 to 65535 after the ':'";
    ret->port = (uint16_t) port;
    return NULL;
}
