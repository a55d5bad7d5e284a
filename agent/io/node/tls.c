#include "io/node/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/loop/log.h"

enum { FILES = 3, REASON_BYTES = 160 };

/* Changes when a file changes. */
struct stamp {
    struct {
        ino_t inode;
        struct timespec modified;
    } files[FILES];
};

struct tls {
    const struct config_node *node;
    SSL_CTX *settings;
    struct stamp stamp; /* of the files at the last attempt to load them */
    SSL *connection;    /* owned by hiredis, and freed with the connection */
};

bool tls_built_in(void) {
    return true;
}

/* OpenSSL's first error, in words. */
static const char *found(void) {
    unsigned long error = ERR_peek_error();
    const char *words =
        ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : ERR_reason_error_string(error);

    return error == 0 || !words ? "no reason given" : words;
}

/* --- files --- */

static void take_stamp(const struct config_node *node, struct stamp *ret) {
    const char *const paths[FILES] = {node->tls_ca, node->tls_cert, node->tls_key};
    struct stat status;

    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < FILES; i++) {
        if (!paths[i] || stat(paths[i], &status) < 0)
            continue;
        ret->files[i].inode = status.st_ino;
        ret->files[i].modified = status.st_mtim;
    }
}

/* A daemon has no terminal to ask for the pass phrase of a key. */
static int no_pass_phrase(char *buffer, int size, int writing, void *userdata) {
    (void) buffer;
    (void) size;
    (void) writing;
    (void) userdata;
    return -1;
}

/* The option whose file is wrong, or NULL. */
static const char *load_files(SSL_CTX *settings, const struct config_node *node) {
    if (node->tls_ca ? SSL_CTX_load_verify_locations(settings, node->tls_ca, NULL) != 1
                     : SSL_CTX_set_default_verify_paths(settings) != 1)
        return "tls_ca";
    if (!node->tls_cert)
        return NULL;
    if (SSL_CTX_use_certificate_chain_file(settings, node->tls_cert) != 1)
        return "tls_cert";
    if (SSL_CTX_use_PrivateKey_file(settings, node->tls_key, SSL_FILETYPE_PEM) != 1)
        return "tls_key";
    return NULL;
}

static int load(const struct config_node *node, const char **ret_option, char *reason, size_t size,
                SSL_CTX **ret) {
    ERR_clear_error();
    SSL_CTX *settings = SSL_CTX_new(TLS_client_method());
    const char *option = "tls";
    if (settings && SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION) == 1) {
        SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_default_passwd_cb(settings, no_pass_phrase);
        option = load_files(settings, node);
    }
    if (option) {
        (void) snprintf(reason, size, "can't load it: %s", found());
        *ret_option = option;
        SSL_CTX_free(settings);
        ERR_clear_error();
        return -EINVAL;
    }
    *ret = settings;
    return 0;
}

int tls_new(const struct config_node *node, const char **ret_option, char *reason, size_t size,
            struct tls **ret) {
    struct tls *tls = calloc(1, sizeof(*tls));

    if (!tls) {
        *ret_option = "tls";
        (void) snprintf(reason, size, "out of memory");
        return -EINVAL;
    }
    tls->node = node;
    take_stamp(node, &tls->stamp);
    int r = load(node, ret_option, reason, size, &tls->settings);
    if (r < 0) {
        tls_free(tls);
        return r;
    }
    *ret = tls;
    return 0;
}

struct tls *tls_share(const struct tls *tls) {
    struct tls *other = calloc(1, sizeof(*other));

    if (!other)
        return NULL;
    other->node = tls->node;
    other->stamp = tls->stamp;
    other->settings = tls->settings;
    (void) SSL_CTX_up_ref(other->settings);
    return other;
}

struct tls *tls_free(struct tls *tls) {
    if (!tls)
        return NULL;
    SSL_CTX_free(tls->settings);
    free(tls);
    return NULL;
}

/* Certificates are renewed while the agent runs. */
static void renew(struct tls *tls) {
    char reason[REASON_BYTES];
    const char *option;
    struct stamp stamp;
    SSL_CTX *settings;

    take_stamp(tls->node, &stamp);
    if (memcmp(&stamp, &tls->stamp, sizeof(stamp)) == 0)
        return;
    tls->stamp = stamp;
    if (load(tls->node, &option, reason, sizeof(reason), &settings) < 0) {
        log_warning("node %s: %s has changed, %s: the former file stays in use", tls->node->name, option,
                    reason);
        return;
    }
    SSL_CTX_free(tls->settings);
    tls->settings = settings;
}

/* --- a connection --- */

/* The name that the certificate must have. */
static const char *peer_name(const struct config_node *node) {
    return node->tls_name ? node->tls_name : node->host;
}

static bool expect_peer(SSL *connection, const char *name) {
    unsigned char binary[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, binary) == 1 || inet_pton(AF_INET6, name, binary) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), name) == 1;
    return SSL_set1_host(connection, name) == 1 && SSL_set_tlsext_host_name(connection, name) == 1;
}

int tls_begin(struct tls *tls, struct redisContext *context, char *reason, size_t size) {
    assert(!tls->connection);

    const redisContextFuncs *const plain = context->funcs;
    renew(tls);
    ERR_clear_error();
    SSL *connection = SSL_new(tls->settings);
    if (!connection || !expect_peer(connection, peer_name(tls->node))) {
        (void) snprintf(reason, size, "can't begin TLS: %s", found());
    } else {
        tls->connection = connection;
        if (redisInitiateSSL(context, connection) == REDIS_OK)
            return 0;
        if (!tls_explain(tls, reason, size))
            (void) snprintf(reason, size, "can't begin TLS: %s", context->errstr);
    }
    /* hiredis writes once more before the connection is closed, and would use the TLS that there is not. */
    context->funcs = plain;
    tls->connection = NULL;
    SSL_free(connection);
    ERR_clear_error();
    return -EPROTO;
}

/* The configuration's error behind an alert, or behind bytes that are no TLS. */
static void explain_error(char *reason, size_t size) {
    unsigned long error = ERR_peek_error();

    switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
#ifdef SSL_R_RECORD_LAYER_FAILURE /* since 3.2 */
    case SSL_R_RECORD_LAYER_FAILURE:
#endif
        (void) snprintf(reason, size, "does not speak TLS there (%s): tls = no, or another port", found());
        break;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        (void) snprintf(reason, size, "demands a certificate of us: see tls_cert and tls_key");
        break;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        (void) snprintf(reason, size, "refuses our certificate (%s): see tls_cert", found());
        break;
    default:
        (void) snprintf(reason, size, "TLS fails: %s", found());
    }
}

/* Whether the error is one of TLS, not just the end of the connection. */
static bool is_tls_error(unsigned long error) {
    return error != 0 && !ERR_SYSTEM_ERROR(error) &&
           ERR_GET_REASON(error) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

/* A server that rejects the handshake sends an alert and closes: a write may fail before the alert is
 * read. */
static void read_last_alert(SSL *connection) {
    char byte;

    if (!is_tls_error(ERR_peek_error())) {
        ERR_clear_error();
        (void) SSL_read(connection, &byte, 1);
    }
}

bool tls_explain(struct tls *tls, char *reason, size_t size) {
    SSL *connection = tls->connection;

    tls->connection = NULL;
    if (!connection)
        return false;
    read_last_alert(connection);
    long verdict = SSL_get_verify_result(connection);
    bool is_tls = verdict != X509_V_OK || is_tls_error(ERR_peek_error());
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        (void) snprintf(reason, size, "its certificate is not for \"%s\": see tls_name",
                        peer_name(tls->node));
    else if (verdict != X509_V_OK)
        (void) snprintf(reason, size, "its certificate is not trusted (%s)%s",
                        X509_verify_cert_error_string(verdict),
                        verdict == X509_V_ERR_CERT_HAS_EXPIRED ? "" : ": see tls_ca");
    else if (is_tls)
        explain_error(reason, size);
    ERR_clear_error();
    return is_tls;
}
