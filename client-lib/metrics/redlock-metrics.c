/* redlock-metrics: serves the agent's METRICS over HTTP, for Prometheus. A process of its own, so that
 * neither the agent nor its users depend on an HTTP server: without this program nothing listens on the
 * network.
 *
 * One thread serves all connections, and each scrape is one connection to the agent: a flood of scrapes
 * waits here, not in the agent. While the agent does not answer, the scrapes that wait get one result. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "connect.h"
#include "connection.h"
#include "http-client.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

enum {
    STATUS_USAGE = 64,
    STATUS_SYSTEM = 71,
    /* Of the agent, altogether less than Prometheus' usual 10 s, also for one that waits for another. */
    SCRAPE_MS = 4000,
    PLACE_MS = 1000,
    HELLO_MS = 3000,
    SILENT_MS = 1000, /* after no answer: scrapes do not wait for another */
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

struct server {
    const char *path; /* of the agent's socket */
    struct http_client_table clients;
    int64_t silent_until_ns; /* the agent has not answered */
};

static int64_t now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

static const char *agent_path(const char *option) {
    const char *path = option ? option : getenv("REDLOCK_SOCKET");

    return path && *path ? path : REDLOCK_DEFAULT_SOCKET;
}

/* --- clients --- */

static struct http_client *client_of(struct MHD_Connection *http) {
    return MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void on_connection(void *userdata, struct MHD_Connection *http, void **context,
                          enum MHD_ConnectionNotificationCode what) {
    struct server *server = userdata;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *context = http_client_new(&server->clients, fd, now_ns());
    } else if (*context) {
        http_client_free(&server->clients, *context);
    }
}

/* The answer was sent, or the connection ends. */
static void on_completed(void *userdata, struct MHD_Connection *http,
                         /* cppcheck-suppress constParameter ; the type is libmicrohttpd's */
                         void **state, enum MHD_RequestTerminationCode how) {
    struct http_client *client = client_of(http);

    (void) userdata;
    (void) state;
    (void) how;
    if (client)
        http_client_goes_on(client, HTTP_CLIENT_RESTS, now_ns());
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
    if (client_of(http))
        http_client_goes_on(client_of(http), HTTP_CLIENT_READS, now_ns());
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

/* `text`: the agent's. */
static const char *next_step(int error, const char *text) {
    static const char unknown[] = "ERR unknown command";

    if (error == REDLOCK_NO_ANSWER)
        return "; is redlockd stopped, or stuck?";
    if (error == REDLOCK_PROTOCOL && strncmp(text, unknown, sizeof(unknown) - 1) == 0)
        return "; METRICS needs redlockd 0.4.0 or later";
    return "";
}

static enum MHD_Result answer_failed(struct MHD_Connection *http, struct server *server, int error,
                                     const char *text) {
    if (error == REDLOCK_NO_ANSWER)
        server->silent_until_ns = now_ns() + SILENT_MS * NS_PER_MS;
    return answer_unavailable(http, server->path, text[0] ? text : redlock_strerror(error),
                              next_step(error, text));
}

static enum MHD_Result answer_not_connected(struct MHD_Connection *http, struct server *server, int error) {
    if (error == REDLOCK_AGENT_AWAY && (errno == EACCES || errno == EPERM))
        return answer_unavailable(http, server->path, "permission denied",
                                  ": redlock-metrics needs the socket's group");
    if (error == REDLOCK_AGENT_AWAY)
        return answer_unavailable(http, server->path, "no agent there", "; is redlockd running?");
    return answer_failed(http, server, error, "");
}

static enum MHD_Result answer_metrics(struct MHD_Connection *http, struct server *server) {
    static const struct resp_token item = {.text = "METRICS", .length = 7};
    struct scrape scrape = {.http = http};
    struct client_reply reply = {.on_value = on_metrics, .userdata = &scrape};
    struct redlock *connection = NULL;
    int64_t begun_ns = now_ns();

    if (begun_ns < server->silent_until_ns)
        return answer_unavailable(http, server->path, redlock_strerror(REDLOCK_NO_ANSWER),
                                  next_step(REDLOCK_NO_ANSWER, ""));
    int error = connect_within(server->path, PLACE_MS, HELLO_MS, &connection);
    if (error != REDLOCK_OK)
        return answer_not_connected(http, server, error);
    redlock_set_answer_timeout(connection, SCRAPE_MS - (now_ns() - begun_ns) / NS_PER_MS);
    error = connection_ask(connection, &item, 1, &reply);
    if (!scrape.answered)
        scrape.result = answer_failed(http, server, error == REDLOCK_OK ? REDLOCK_PROTOCOL : error,
                                      redlock_error_text(connection));
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

static volatile sig_atomic_t stopped;

static void on_stop(int number) {
    (void) number;
    stopped = 1;
}

/* How long nothing is due. False: for ever. */
static bool time_left(struct MHD_Daemon *daemon, const struct server *server, struct timespec *ret) {
    int64_t due_ns = http_client_due_ns(&server->clients);
    int64_t left_ns = due_ns < INT64_MAX ? due_ns - now_ns() : INT64_MAX;
    MHD_UNSIGNED_LONG_LONG pending_ms; /* 0: the library has something to do; it has no time-outs itself */

    if (MHD_get_timeout(daemon, &pending_ms) == MHD_YES || left_ns < 0)
        left_ns = 0;
    if (left_ns < INT64_MAX)
        *ret = (struct timespec){.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return left_ns < INT64_MAX;
}

/* Until a signal that is blocked otherwise. */
static void serve_all(struct MHD_Daemon *daemon, struct server *server, const sigset_t *unblocked) {
    struct pollfd fd = {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                        .events = POLLIN};

    while (!stopped) {
        struct timespec left;
        (void) ppoll(&fd, 1, time_left(daemon, server, &left) ? &left : NULL, unblocked);
        (void) MHD_run(daemon);
        http_client_tick(&server->clients, now_ns());
    }
}

static int serve(int fd, const char *path) {
    struct server server = {.path = path};
    const struct sigaction stop = {.sa_handler = on_stop};
    sigset_t ends, unblocked;

    (void) sigemptyset(&ends);
    (void) sigaddset(&ends, SIGTERM);
    (void) sigaddset(&ends, SIGINT);
    (void) sigprocmask(SIG_BLOCK, &ends, &unblocked);
    (void) sigdelset(&unblocked, SIGTERM);
    (void) sigdelset(&unblocked, SIGINT);
    (void) sigaction(SIGTERM, &stop, NULL);
    (void) sigaction(SIGINT, &stop, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, &server, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, &server, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, &server, MHD_OPTION_CONNECTION_LIMIT, (unsigned) HTTP_CLIENT_PLACES,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_BYTES, MHD_OPTION_END);
    if (!daemon) {
        (void) fprintf(stderr, "redlock-metrics: can't serve HTTP: %s\n", strerror(errno));
        return STATUS_SYSTEM;
    }
    serve_all(daemon, &server, &unblocked);
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
