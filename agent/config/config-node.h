/* A node as the configuration has it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct config_node {
    char *name;
    char *address;   /* as configured, for messages */
    char *unix_path; /* NULL: host and port */
    char *host;      /* name or numeric address, without brackets */
    uint16_t port;
    char *user;     /* NULL: AUTH with the password alone */
    char *password; /* NULL: no AUTH */
    int database;
    bool tls;
    char *tls_ca;             /* path; NULL: the system's certificates */
    char *tls_cert, *tls_key; /* paths; NULL: no client certificate */
    char *tls_name;           /* in the server's certificate; NULL: the host */
    bool durable;             /* a restart loses no write that the node has acknowledged */
};
