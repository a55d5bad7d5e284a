/* redlock-metrics: serves the agent's METRICS over HTTP, for Prometheus. A process of its own, so that
 * neither the agent nor its users depend on an HTTP server: without this program nothing listens on the
 * network.
 *
 * One thread serves all connections, and each scrape is one connection to the agent: a flood of scrapes
 * waits here, not in the agent. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "connection.h"

enum {
    STATUS_USAGE = 64,
    STATUS_SYSTEM = 71,
    ANSWER_TIMEOUT_MS = 4000, /* less than Prometheus' usual 10 s */
    IDLE_TIMEOUT_S = 30,
    CONNECTIONS_MAX = 32,
    CONNECTION_BYTES = 16 * 1024,
    PLACE_BYTES = 256,
};

static const char usage[] = "redlock-metrics [--socket PATH] [--listen [ADDRESS:]PORT]\n"
                            "Serves the metrics of the local redlockd agent over HTTP: GET /metrics. "
                            "Listens on the socket that systemd passes\n"
                            "(redlock-metrics.socket), or on ADDRESS (127.0.0.1) and PORT. The agent's "
                            "socket is that of --socket, else of\n"
                            "$REDLOCK_SOCKET, else " REDLOCK_DEFAULT_SOCKET ".\n";

static const char page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>redlockd</title></head>\n"
    "<body><h1>redlockd</h1><p><a href=\"/metrics\">Metrics</a> of this host's lease "
    "agent.</p></body></html>\n";

static const char *agent_path(const char *option) {
    const char *path = option ? option : getenv("REDLOCK_SOCKET");

    return path ? path : REDLOCK_DEFAULT_SOCKET;
}

/* --- answers --- */

static enum MHD_Result answer(struct MHD_Connection *http, unsigned status, const char *type,
                              const char *text, size_t length) {
    /* The buffer is copied, so it may be constant. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *) (uintptr_t) text, MHD_RESPMEM_MUST_COPY);

    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (result == MHD_YES)
        result = MHD_queue_response(http, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *http, unsigned status, const char *text) {
    return answer(http, status, "text/plain; charset=utf-8", text, strlen(text));
}

struct scrape {
    struct MHD_Connection *http;
    enum MHD_Result result;
    bool answered;
};

static void on_metrics(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct scrape *scrape = userdata;

    if (n_tokens != 1 || tokens[0].type != RESP_BULK)
        return;
    scrape->answered = true;
    scrape->result =
        answer(scrape->http, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8",
               tokens[0].text, tokens[0].length);
}

static enum MHD_Result answer_unavailable(struct MHD_Connection *http, const char *path, const char *fact,
                                          const char *next_step) {
    char text[1024];

    (void) snprintf(text, sizeof(text), "%s: %s%s\n", path, fact, next_step);
    return answer_text(http, MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *http, const char *path) {
    static const struct resp_token item = {.text = "METRICS", .length = 7};
    struct scrape scrape = {.http = http};
    struct client_reply reply = {.on_value = on_metrics, .userdata = &scrape};
    struct redlock *connection = NULL;

    int error = redlock_connect(path, &connection);
    if (error == REDLOCK_AGENT_AWAY && (errno == EACCES || errno == EPERM))
        return answer_unavailable(http, path, "permission denied",
                                  ": redlock-metrics needs the socket's group");
    if (error == REDLOCK_AGENT_AWAY)
        return answer_unavailable(http, path, "no agent there", "; is redlockd running?");
    if (error != REDLOCK_OK)
        return answer_unavailable(http, path, redlock_strerror(error), "; is redlockd stopped, or stuck?");
    redlock_set_answer_timeout(connection, ANSWER_TIMEOUT_MS);
    error = connection_ask(connection, &item, 1, &reply);
    if (!scrape.answered)
        scrape.result = answer_unavailable(http, path,
                                           redlock_error_text(connection)[0] ? redlock_error_text(connection)
                                                                             : redlock_strerror(error),
                                           "; METRICS needs redlockd 0.4.0 or later");
    redlock_close(connection);
    return scrape.result;
}

/* The library calls it when a request's head is there, and again at its end: only then it is answered. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *http, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  /* cppcheck-suppress constParameter ; the type is libmicrohttpd's */
                                  size_t *upload_length, void **state) {
    static char seen;

    (void) version;
    (void) upload;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(http, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (*state != &seen) {
        *state = &seen;
        return MHD_YES;
    }
    if (*upload_length > 0)
        return MHD_NO;
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(http, userdata);
    if (strcmp(url, "/") == 0)
        return answer(http, MHD_HTTP_OK, "text/html; charset=utf-8", page, sizeof(page) - 1);
    return answer_text(http, MHD_HTTP_NOT_FOUND, "only /metrics is here\n");
}

/* --- the socket --- */

static int listen_on(const struct addrinfo *address) {
    int one = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0) {
        int error = errno;
        (void) close(fd);
        return -error;
    }
    return fd;
}

/* "[ADDRESS:]PORT"; an address of IPv6 may stand in brackets. The descriptor, or -1 with a message. */
static int open_place(const char *place) {
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char text[PLACE_BYTES];
    const char *host = "127.0.0.1";

    (void) snprintf(text, sizeof(text), "%s", place);
    char *port = strrchr(text, ':');
    if (port) {
        *port++ = '\0';
        host = text;
        size_t length = strlen(text);
        if (text[0] == '[' && text[length - 1] == ']') {
            text[length - 1] = '\0';
            host = text + 1;
        }
    }
    int r = getaddrinfo(host, port ? port : text, &hints, &found);
    if (r != 0) {
        (void) fprintf(stderr, "redlock-metrics: --listen %s: %s\n", place, gai_strerror(r));
        return -1;
    }
    r = listen_on(found);
    freeaddrinfo(found);
    if (r < 0)
        (void) fprintf(stderr, "redlock-metrics: can't listen on %s: %s\n", place, strerror(-r));
    return r < 0 ? -1 : r;
}

/* systemd's socket, or that of --listen. -1 with a message. */
static int open_socket(const char *place) {
    int n = sd_listen_fds(1);

    if (n > 1 || (n == 1 && place)) {
        (void) fprintf(stderr,
                       "redlock-metrics: listens on one place: systemd's socket, or that of --listen\n");
        return -1;
    }
    if (n <= 0 && !place) {
        (void) fprintf(
            stderr,
            "redlock-metrics: no socket from systemd: start redlock-metrics.socket, or see --listen\n");
        return -1;
    }
    return n == 1 ? SD_LISTEN_FDS_START : open_place(place);
}

/* --- life --- */

static int serve(int fd, const char *path) {
    sigset_t ends;
    int number;

    (void) sigemptyset(&ends);
    (void) sigaddset(&ends, SIGTERM);
    (void) sigaddset(&ends, SIGINT);
    (void) sigprocmask(SIG_BLOCK, &ends, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, (void *) (uintptr_t) path,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) IDLE_TIMEOUT_S,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned) CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t) CONNECTION_BYTES, MHD_OPTION_END);
    if (!daemon) {
        (void) fprintf(stderr, "redlock-metrics: can't serve HTTP: %s\n", strerror(errno));
        return STATUS_SYSTEM;
    }
    (void) sigwait(&ends, &number);
    MHD_stop_daemon(daemon);
    return 0;
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"socket", required_argument, NULL, 's'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};
    const char *path = NULL, *place = NULL;
    int letter;

    while ((letter = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        switch (letter) {
        case 's':
            path = optarg;
            break;
        case 'l':
            place = optarg;
            break;
        case 'h':
            (void) fputs(usage, stdout);
            return 0;
        case 'V':
            (void) puts("redlock-metrics " REDLOCK_VERSION);
            return 0;
        default:
            return STATUS_USAGE;
        }
    }
    if (optind < argc) {
        (void) fprintf(stderr, "redlock-metrics: unexpected argument '%s'; see --help\n", argv[optind]);
        return STATUS_USAGE;
    }
    int fd = open_socket(place);
    return fd < 0 ? STATUS_SYSTEM : serve(fd, agent_path(path));
}
