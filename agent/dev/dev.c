#include "dev/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/instant.h"
#include "dev/dev-directory.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"

enum {
    READY_WITHIN_MS = 5000,
    STOPPED_WITHIN_MS = 1000,
    POLL_MS = 2,
};

struct dev_node {
    char name[2];
    char socket_path[DEV_DIRECTORY_BYTES_MAX + 8];
    pid_t pid; /* 0: not running */
};

struct dev {
    char directory[DEV_DIRECTORY_BYTES_MAX];
    int lock_fd; /* the directory, locked */
    unsigned n_nodes;
    struct dev_node nodes[NODES_MAX];
};

static void cleanup_dev(struct dev **dev) {
    dev_stop(*dev);
}

static void pause_ms(int64_t ms) {
    (void) nanosleep(&(struct timespec){.tv_nsec = ms * NS_PER_MS}, NULL);
}

/* In the child, before exec: closes all descriptors of the agent but *report_fd, which exec closes. Only
 * async-signal-safe calls. */
static int become_node(pid_t agent, int *report_fd) {
    sigset_t none;
    int null_fd;

    /* A group of its own: Ctrl-C signals the agent alone, which then stops its nodes. SIGKILL, because a
     * stopped or busy Redis doesn't react to less. */
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (getppid() != agent) /* the agent died before prctl(2) */
        return -ESRCH;
    for (int i = 1; i < NSIG; i++)
        (void) signal(i, SIG_DFL);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return -errno;
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return -errno;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (dup2(null_fd, fd) < 0)
            return -errno;
    if (*report_fd != 3 && dup3(*report_fd, 3, O_CLOEXEC) < 0)
        return -errno;
    *report_fd = 3;
    return close_range(4, UINT_MAX, 0) < 0 ? -errno : 0;
}

static int exec_node(const char *directory, const struct dev_node *node, const char *log_path) {
    const char *arguments[] = {"redis-server",
                               "--port",
                               "0",
                               "--unixsocket",
                               node->socket_path,
                               "--unixsocketperm",
                               "700",
                               "--save",
                               "",
                               "--appendonly",
                               "no",
                               "--daemonize",
                               "no",
                               "--maxmemory-policy",
                               "noeviction",
                               "--dir",
                               directory,
                               "--logfile",
                               log_path,
                               NULL};

    (void) execvp(arguments[0], (char *const *) (void *) arguments);
    return -errno;
}

static int spawn_node(struct dev *dev, struct dev_node *node) {
    _cleanup_close_ int report_read = -1, report_write = -1;
    char log_path[DEV_DIRECTORY_BYTES_MAX + 16];
    int pipe_fds[2], error = 0;
    pid_t agent = getpid(), pid;
    ssize_t n;

    (void) snprintf(log_path, sizeof log_path, "%s/%s.log", dev->directory, node->name);
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    report_read = pipe_fds[0];
    report_write = pipe_fds[1];
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        error = become_node(agent, &report_write);
        if (error == 0)
            error = exec_node(dev->directory, node, log_path);
        (void) !write(report_write, &error, sizeof error);
        _exit(127);
    }
    node->pid = pid;
    (void) close(cleanup_steal_fd(&report_write));
    do
        n = read(report_read, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof error ? error : 0; /* exec has closed the pipe */
}

/* 1 when the node accepts connections, 0 when it doesn't yet, or a negative errno. */
static int node_accepts(const struct dev_node *node) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;

    static_assert(sizeof node->socket_path <= sizeof address.sun_path,
                  "a node's socket fits into an address");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    memcpy(address.sun_path, node->socket_path, sizeof node->socket_path);
    if (connect(fd, (const struct sockaddr *) &address, sizeof address) == 0)
        return 1;
    return errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* The last line that the node has logged. */
static void last_log_line(const struct dev *dev, const struct dev_node *node, char *ret, size_t size) {
    char path[DEV_DIRECTORY_BYTES_MAX + 16], text[2048];
    _cleanup_close_ int fd = -1;
    ssize_t n = 0;
    char *line;

    (void) snprintf(path, sizeof path, "%s/%s.log", dev->directory, node->name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        off_t end = lseek(fd, 0, SEEK_END);

        n = pread(fd, text, sizeof text - 1, end > (off_t) sizeof text ? end - (off_t) sizeof text + 1 : 0);
    }
    for (n = n > 0 ? n : 0; n > 0 && text[n - 1] == '\n';)
        n--;
    text[n] = 0;
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    (void) snprintf(ret, size, "%.300s", *line ? line : "it logged nothing");
}

static int wait_for_node(const struct dev *dev, struct dev_node *node, instant_ns deadline_ns) {
    char line[320];
    int r;

    for (;;) {
        r = node_accepts(node);
        if (r < 0) {
            log_error("--dev: node %s: can't connect to %s: %s", node->name, node->socket_path,
                      strerror(-r));
            return r;
        }
        if (r > 0)
            return 0;
        if (waitpid(node->pid, NULL, WNOHANG) == node->pid) {
            node->pid = 0;
            last_log_line(dev, node, line, sizeof line);
            log_error("--dev: node %s: redis-server has ended: %s", node->name, line);
            return -ECHILD;
        }
        if (clock_now_ns() >= deadline_ns) {
            last_log_line(dev, node, line, sizeof line);
            log_error("--dev: node %s: does not accept connections within %d ms: %s", node->name,
                      READY_WITHIN_MS, line);
            return -ETIMEDOUT;
        }
        pause_ms(POLL_MS);
    }
}

static int start_nodes(struct dev *dev, unsigned n_nodes) {
    char path[sizeof dev->nodes[0].socket_path] = "";
    int r;

    while (dev->n_nodes < n_nodes) {
        struct dev_node *node = &dev->nodes[dev->n_nodes];

        node->name[0] = (char) ('a' + dev->n_nodes);
        (void) snprintf(path, sizeof path, "%s/%s.sock", dev->directory, node->name);
        memcpy(node->socket_path, path, sizeof path);
        dev->n_nodes++; /* dev_stop() stops it from here on */
        r = spawn_node(dev, node);
        if (r == -ENOENT)
            log_error("--dev: redis-server is not on the PATH: install the package redis-server");
        else if (r < 0)
            log_error("--dev: node %s: can't start redis-server: %s", node->name, strerror(-r));
        if (r < 0)
            return r;
    }
    return 0;
}

static int configure_node(struct config *config, const struct dev_node *node) {
    struct config_node *ret;

    if (config->n_nodes == NODES_MAX)
        return -ENOSPC;
    ret = &config->nodes[config->n_nodes++];
    ret->name = strdup(node->name);
    ret->unix_path = strdup(node->socket_path);
    if (asprintf(&ret->address, "unix:%s", node->socket_path) < 0)
        ret->address = NULL;
    return ret->name && ret->unix_path && ret->address ? 0 : -ENOMEM;
}

int dev_start(unsigned n_nodes, struct config *config, struct dev **ret) {
    _cleanup_(cleanup_dev) struct dev *dev = NULL;
    instant_ns deadline_ns;
    int r;

    if (n_nodes < 1 || n_nodes > NODES_MAX) {
        log_error("--dev=%u: expected 1 to %d nodes", n_nodes, NODES_MAX);
        return -EINVAL;
    }
    dev = malloc(sizeof *dev);
    if (!dev) {
        log_error("--dev: %s", strerror(ENOMEM));
        return -ENOMEM;
    }
    *dev = (struct dev){.lock_fd = -1};
    dev_directory_sweep();
    r = dev_directory_make(dev->directory, &dev->lock_fd);
    if (r < 0) {
        log_error("--dev: can't create the directory %s: %s", dev->directory, strerror(-r));
        return r;
    }
    r = start_nodes(dev, n_nodes);
    deadline_ns = instant_add(clock_now_ns(), READY_WITHIN_MS * NS_PER_MS);
    for (unsigned i = 0; i < n_nodes && r == 0; i++)
        r = wait_for_node(dev, &dev->nodes[i], deadline_ns);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < n_nodes; i++) {
        r = configure_node(config, &dev->nodes[i]);
        if (r < 0) {
            log_error("--dev: node %s: can't be configured: %s", dev->nodes[i].name, strerror(-r));
            return r;
        }
    }
    *ret = dev;
    dev = NULL;
    return 0;
}

pid_t dev_node_pid(const struct dev *dev, unsigned i) {
    return i < dev->n_nodes && dev->nodes[i].pid > 0 ? dev->nodes[i].pid : -1;
}

const char *dev_directory(const struct dev *dev) {
    return dev->directory;
}

/* Reaps nodes that have ended. True when others are left. */
static bool reap(struct dev *dev, int flags) {
    bool left = false;

    for (unsigned i = 0; i < dev->n_nodes; i++) {
        pid_t r;

        if (dev->nodes[i].pid <= 0)
            continue;
        do
            r = waitpid(dev->nodes[i].pid, NULL, flags);
        while (r < 0 && errno == EINTR);
        if (r == 0)
            left = true;
        else
            dev->nodes[i].pid = 0;
    }
    return left;
}

static void signal_nodes(const struct dev *dev, int signal_number) {
    for (unsigned i = 0; i < dev->n_nodes; i++)
        if (dev->nodes[i].pid > 0)
            (void) kill(dev->nodes[i].pid, signal_number);
}

struct dev *dev_stop(struct dev *dev) {
    instant_ns deadline_ns;

    if (!dev)
        return NULL;
    signal_nodes(dev, SIGTERM);
    signal_nodes(dev, SIGCONT); /* a stopped node gets SIGTERM then */
    deadline_ns = instant_add(clock_now_ns(), STOPPED_WITHIN_MS * NS_PER_MS);
    while (reap(dev, WNOHANG) && clock_now_ns() < deadline_ns)
        pause_ms(POLL_MS);
    signal_nodes(dev, SIGKILL);
    (void) reap(dev, 0);
    dev_directory_remove(dev->directory, dev->lock_fd);
    free(dev);
    return NULL;
}
