/* redlockd: the agent that keeps Redlock leases for the processes of this host. Options, signals, the socket
 * and the nodes of --dev; io/client/front.c serves the clients. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/instant.h"
#include "base/version.h"
#include "config/config.h"
#include "dev/dev.h"
#include "io/client/front.h"
#include "io/client/listener.h"
#include "io/loop/core-dump.h"
#include "io/loop/log.h"
#include "io/restart/inherited-fds.h"
#include "io/restart/ledger-memory.h"

enum { EXIT_USAGE = 64, EXIT_UNAVAILABLE = 69, EXIT_SYSTEM = 71, EXIT_CONFIGURATION = 78 };
enum { BIND_WITHIN_MS = 2000, BIND_RETRY_MS = 50 };

static const char default_config_path[] = REDLOCK_DEFAULT_CONFIG;

struct options {
    const char *config_path;
    const char *socket_path;
    unsigned dev_nodes; /* 0: not --dev */
    bool check_config;
    bool store;
    bool core_dumps;
};

static void cleanup_config(struct config **config) {
    config_free(*config);
}

static void cleanup_dev(struct dev **dev) {
    dev_stop(*dev);
}

static void print_help(void) {
    (void) printf(
        "redlockd [OPTION]...\n"
        "Keeps Redlock leases for the processes of this host on N independent Redis masters.\n"
        "\n"
        "  --config FILE    read this configuration instead of %s\n"
        "  --socket PATH    listen here, not at the path of the configuration\n"
        "  --store          keep connections and leases for the next process, in the service manager\n"
        "  --dev[=N]        start N (3) private Redis servers and use them: for trials and tests\n"
        "  --core-dumps     do not prevent core dumps, which can have lock values and passwords in them\n"
        "  --check-config   report the configuration's mistakes; exit 0: none, 78: some, 71: no access\n"
        "  --version        print the version\n"
        "  --help           print this\n"
        "\n"
        "SIGHUP reloads the configuration, SIGTERM stops. See redlockd(8) and redlockd.conf(5).\n",
        default_config_path);
}

enum {
    OPTION_CONFIG = 256,
    OPTION_SOCKET,
    OPTION_STORE,
    OPTION_DEV,
    OPTION_CORE_DUMPS,
    OPTION_CHECK,
    OPTION_VERSION,
    OPTION_HELP
};

/* 0, or 1 + an exit status: the process must end. */
static int take_dev(const char *text, unsigned *ret_nodes) {
    char *end = NULL;
    unsigned long n_nodes = text ? strtoul(text, &end, 10) : 3;

    if (text && (end == text || *end != '\0' || n_nodes < 1 || n_nodes > NODES_MAX)) {
        (void) fprintf(stderr, "redlockd: --dev=%s: expected a number of nodes from 1 to %d\n", text,
                       NODES_MAX);
        return 1 + EXIT_USAGE;
    }
    *ret_nodes = (unsigned) n_nodes;
    return 0;
}

static int take_option(int option, struct options *ret) {
    switch (option) {
    case OPTION_CONFIG:
        ret->config_path = optarg;
        return 0;
    case OPTION_SOCKET:
        ret->socket_path = optarg;
        return 0;
    case OPTION_STORE:
        ret->store = true;
        return 0;
    case OPTION_DEV:
        return take_dev(optarg, &ret->dev_nodes);
    case OPTION_CORE_DUMPS:
        ret->core_dumps = true;
        return 0;
    case OPTION_CHECK:
        ret->check_config = true;
        return 0;
    case OPTION_VERSION:
        (void) printf("redlockd %s (protocol %d, keys %d)\n", REDLOCK_VERSION, VERSION_PROTOCOL,
                      VERSION_KEYS);
        return 1 + EXIT_SUCCESS;
    case OPTION_HELP:
        print_help();
        return 1 + EXIT_SUCCESS;
    default:
        (void) fputs("redlockd: 'redlockd --help' lists the options\n", stderr);
        return 1 + EXIT_USAGE;
    }
}

static int parse_options(int argc, char **argv, struct options *ret) {
    static const struct option known[] = {
        {"config", required_argument, NULL, OPTION_CONFIG},
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"store", no_argument, NULL, OPTION_STORE},
        {"dev", optional_argument, NULL, OPTION_DEV},
        {"core-dumps", no_argument, NULL, OPTION_CORE_DUMPS},
        {"check-config", no_argument, NULL, OPTION_CHECK},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, OPTION_HELP},
        {0},
    };
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, "", known, NULL)) >= 0)
        r = take_option(option, ret);
    if (r != 0)
        return r;
    if (optind < argc) {
        (void) fprintf(stderr, "redlockd: unexpected argument '%s'; 'redlockd --help' lists the options\n",
                       argv[optind]);
        return 1 + EXIT_USAGE;
    }
    if (ret->dev_nodes > 0 && ret->config_path) {
        (void) fputs("redlockd: --dev has its own nodes and defaults: use it without --config\n", stderr);
        return 1 + EXIT_USAGE;
    }
    return 0;
}

static int set_string(char **string, const char *value) {
    char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    free(*string);
    *string = copy;
    return 0;
}

/* With --dev: no file, but the defaults and new private nodes, which need no quarantine. */
static int read_config(const struct options *options, struct config **ret) {
    if (options->dev_nodes > 0) {
        int r = config_read(NULL, CONFIG_START, stderr, ret);
        if (r >= 0)
            (*ret)->quarantine = false;
        return r;
    }
    return config_read(options->config_path ? options->config_path : default_config_path,
                       options->check_config ? CONFIG_CHECK : CONFIG_START, stderr, ret);
}

/* Takes the socket of systemd. It may be blocking (NonBlocking= in systemd.service(5)); accept(2) must never
 * block the front. */
static int inherit_socket(struct config *config, int fd) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof(address);
    int r = sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0);

    if (r <= 0) {
        log_error("socket of systemd: expected a listening Unix stream socket: see ListenStream= in "
                  "redlockd.socket");
        return r < 0 ? r : -EINVAL;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        r = -errno;
        log_error("socket of systemd: can't be used: %s", strerror(errno));
        return r;
    }
    /* The socket path of messages and reloads is the one that is served. */
    if (getsockname(fd, (struct sockaddr *) &address, &length) == 0 &&
        length > offsetof(struct sockaddr_un, sun_path) && address.sun_path[0] == '/') {
        r = set_string(&config->socket_path, address.sun_path);
        if (r < 0)
            return r;
        config->socket_is_given = true;
    }
    return fd;
}

/* The agent that listens may be one that was just ended, and is not gone yet: it gets some time. */
static int bind_socket(const struct config *config) {
    int r;

    for (int waited_ms = 0;; waited_ms += BIND_RETRY_MS) {
        r = listener_bind(config->socket_path, config->socket_mode, config->socket_group);
        if (r != -EADDRINUSE || waited_ms >= BIND_WITHIN_MS)
            return r;
        (void) nanosleep(&(struct timespec){.tv_nsec = BIND_RETRY_MS * NS_PER_MS}, NULL);
    }
}

/* The socket of systemd, or else a new one. A descriptor, or a negative errno that is logged. */
static int open_socket(struct config *config, const struct inherited_fds *inherited) {
    if (inherited->n_listen > 1) {
        log_error("systemd passed %u sockets: expected one: see redlockd.socket", inherited->n_listen);
        return -EINVAL;
    }
    if (inherited->n_listen == 1)
        return inherit_socket(config, inherited->listen_fd);
    int fd = bind_socket(config);
    if (fd == -EADDRINUSE)
        log_error("%s: another agent listens", config->socket_path);
    else if (fd == -ENOTSOCK)
        log_error("%s: exists and is no socket: remove the file, or choose another path",
                  config->socket_path);
    else if (fd == -ENOENT)
        log_error("%s: its directory does not exist: create it, or choose another path with --socket",
                  config->socket_path);
    else if (fd < 0)
        log_error("%s: can't listen: %s", config->socket_path, strerror(-fd));
    return fd;
}

/* Clients are authorised by uid. In a user namespace that does not map all uids (PrivateUsers= of a unit)
 * all unmapped users are the same uid. */
static bool all_uids_are_mapped(void) {
    FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned long inside, outside, count;

    if (!map)
        return errno == ENOENT; /* a kernel without user namespaces */
    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers are in range */
    int n = fscanf(map, "%lu %lu %lu", &inside, &outside, &count);
    (void) fclose(map);
    return n == 3 && inside == 0 && outside == 0 && count == UINT32_MAX;
}

static int block_signals(void) {
    sigset_t signals;

    /* Writing to a closed connection must not end the process. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return -errno;
    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGTERM);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGHUP);
    return sigprocmask(SIG_BLOCK, &signals, NULL) < 0 ? -errno : 0;
}

/* A soft limit is for programs that use select(2). The agent does not. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &limit); /* if not, fewer sessions have their descriptors */
}

/* 8 hex digits that distinguish this process's leases from those of a former one. */
static int make_agent_id(char ret[9]) {
    uint32_t number;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return -errno;
    (void) snprintf(ret, 9, "%08x", number);
    return 0;
}

/* The configuration may be right: another start may succeed. */
static bool is_system_error(int r) {
    return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EIO || r == -EINTR || r == -EACCES;
}

/* The steps that must precede the first thread. EXIT_SUCCESS, or the status to end with. */
static int prepare(char ret_agent_id[static 9]) {
    int r;

    if (!all_uids_are_mapped()) {
        log_error("user namespace: doesn't map all users, so clients can't be distinguished: run the agent "
                  "without PrivateUsers=");
        return EXIT_UNAVAILABLE;
    }
    r = block_signals();
    if (r >= 0)
        r = make_agent_id(ret_agent_id);
    if (r < 0)
        log_error("the agent can't start: %s", strerror(-r));
    return r < 0 ? EXIT_SYSTEM : EXIT_SUCCESS;
}

/* Under another host name no lease of the former process would be found. */
static void keep_host(struct config *config, const struct inherited_fds *inherited) {
    char *host = ledger_memory_host(inherited, config->host);

    if (!host)
        return;
    log_notice(
        "host: goes on as %s, for the leases of the former process: %s takes effect when the agent is "
        "stopped and started again, or restarts while nothing is held and nothing waits",
        host, config->host);
    free(config->host);
    config->host = host;
}

static int serve(const struct options *options, struct config *config) {
    _cleanup_(cleanup_dev) struct dev *dev = NULL;
    _cleanup_(inherited_fds_close) struct inherited_fds inherited = {.listen_fd = -1};
    struct front *front = NULL;
    char agent_id[9];

    int r = prepare(agent_id);
    if (r != EXIT_SUCCESS)
        return r;
    raise_descriptor_limit();
    /* Children before threads: their parent-death signal is bound to this thread. */
    if (options->dev_nodes > 0 && dev_start(options->dev_nodes, config, &dev) < 0)
        return EXIT_UNAVAILABLE;
    r = inherited_fds_take(&inherited);
    if (r < 0) {
        log_error("descriptors of systemd: can't be taken: %s", strerror(-r));
        return EXIT_SYSTEM;
    }
    if (options->store)
        keep_host(config, &inherited);
    else
        inherited_fds_drop(&inherited);
    int listen_fd = open_socket(config, &inherited);
    if (listen_fd < 0)
        return EXIT_UNAVAILABLE;
    const struct front_config front_config = {
        .config = config,
        .config_path = options->dev_nodes > 0 ? NULL
                       : options->config_path ? options->config_path
                                              : default_config_path,
        .agent_id = agent_id,
        .listen_fd = listen_fd,
        .socket_is_inherited = inherited.n_listen == 1,
        .inherited = options->store ? &inherited : NULL,
    };
    r = front_new(&front_config, &front);
    inherited_fds_close(&inherited); /* clients of sessions that were not restored see the end now */
    if (r >= 0)
        r = front_run(front);
    if (inherited.n_listen == 0) /* while it listens: later the next agent's could be at the path */
        (void) listener_remove_stale(config->socket_path);
    front_free(front);
    if (r < 0)
        log_error("the agent stops: %s", strerror(-r));
    return r < 0 ? EXIT_SYSTEM : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    struct options options = {0};

    log_open();

    int status = parse_options(argc, argv, &options);
    if (status != 0)
        return status - 1;
    (void) umask(0077);
    if (!options.core_dumps)
        core_dump_prevent();
    int r = read_config(&options, &config);
    if (r < 0)
        return is_system_error(r) && !(options.check_config && r == -EIO) ? EXIT_SYSTEM : EXIT_CONFIGURATION;
    if (options.check_config)
        return EXIT_SUCCESS;
    if (options.socket_path && set_string(&config->socket_path, options.socket_path) < 0) {
        log_error("the agent can't start: %s", strerror(ENOMEM));
        return EXIT_SYSTEM;
    }
    config->socket_is_given = options.socket_path;
    return serve(&options, config);
}
