/* The nodes of --dev: they reply, end with the agent however it ends, and leave no files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "dev/dev.h"
#include "tap.h"

/* A directory of this test alone: every agent with --dev removes what dead ones left beside its own. */
static char parent[] = "/tmp/test-dev-XXXXXX";

static bool have_redis(void) {
    int status = system("command -v redis-server >/dev/null 2>&1");

    return status == 0;
}

/* Sends PING over a new connection. */
static bool answers(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char reply[8] = "";

    (void) snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return fd >= 0 && connect(fd, (const struct sockaddr *) &address, sizeof address) == 0 &&
           write(fd, "PING\r\n", 6) == 6 && read(fd, reply, 7) == 7 && strcmp(reply, "+PONG\r\n") == 0;
}

static bool exists(const char *path) {
    struct stat status;

    return lstat(path, &status) == 0;
}

/* Whether the process exists and is no zombie. */
static bool is_alive(pid_t pid) {
    char path[64], line[256] = "";
    _cleanup_fclose_ FILE *file = NULL;
    const char *state;

    (void) snprintf(path, sizeof path, "/proc/%ld/stat", (long) pid);
    file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        return false;
    state = strrchr(line, ')');
    return state && state[2] != 'Z' && state[2] != 'X';
}

static bool is_gone_soon(pid_t pid) {
    for (int i = 0; i < 1000 && is_alive(pid); i++)
        (void) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return !is_alive(pid);
}

static void test_start_and_stop(void) {
    struct config *config = NULL;
    struct dev *dev = NULL;
    struct stat status;
    char directory[96];
    pid_t pids[3];

    if (config_read(NULL, CONFIG_START, stderr, &config) < 0)
        exit(EXIT_FAILURE);
    is_int(dev_start(3, config, &dev), 0, "three nodes start");
    if (!dev)
        exit(EXIT_FAILURE);
    is_int(config->n_nodes, 3, "and they are configured");
    is_string(config->nodes[0].name, "a", "the first is a");
    is_string(config->nodes[2].name, "c", "the third is c");
    for (unsigned i = 0; i < 3; i++) {
        pids[i] = dev_node_pid(dev, i);
        ok(pids[i] > 0 && is_alive(pids[i]) && answers(config->nodes[i].unix_path), "node %u replies", i);
        ok(getpgid(pids[i]) != getpgrp(), "node %u gets no Ctrl-C", i);
    }
    is_int(dev_node_pid(dev, 3), -1, "there is no fourth");
    (void) snprintf(directory, sizeof directory, "%s", dev_directory(dev));
    ok(stat(directory, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 0777) == 0700,
       "the directory is private");

    (void) kill(pids[1], SIGSTOP);
    (void) kill(pids[2], SIGKILL);
    ok(!dev_stop(dev), "stopping, with one node stopped and one dead");
    for (unsigned i = 0; i < 3; i++)
        ok(!is_alive(pids[i]) && waitpid(pids[i], NULL, WNOHANG) < 0, "node %u has ended and is reaped", i);
    ok(!exists(directory), "the directory is removed");
    ok(!dev_stop(NULL), "stopping NULL is fine");
    config_free(config);
}

struct leftovers {
    pid_t agent;
    pid_t pids[2];
    char directory[96];
};

/* Starts two nodes in a child process and kills that process. Returns its leftovers. */
static bool start_and_kill(struct leftovers *ret) {
    int fds[2];
    ssize_t n;
    pid_t agent;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    agent = fork();
    if (agent == 0) {
        struct leftovers leftovers = {.agent = getpid()};
        struct config *config = NULL;
        struct dev *dev = NULL;
        sigset_t all;

        (void) sigfillset(&all); /* as the agent does */
        (void) sigprocmask(SIG_SETMASK, &all, NULL);
        if (config_read(NULL, CONFIG_START, stderr, &config) < 0 || dev_start(2, config, &dev) < 0)
            _exit(EXIT_FAILURE);
        for (unsigned i = 0; i < 2; i++)
            leftovers.pids[i] = dev_node_pid(dev, i);
        (void) snprintf(leftovers.directory, sizeof leftovers.directory, "%s", dev_directory(dev));
        (void) kill(leftovers.pids[1], SIGSTOP);
        n = write(fds[1], &leftovers, sizeof leftovers);
        for (;;)
            (void) pause();
    }
    (void) close(fds[1]);
    n = read(fds[0], ret, sizeof *ret);
    (void) close(fds[0]);
    if (agent > 0) {
        (void) kill(agent, SIGKILL);
        (void) waitpid(agent, NULL, 0);
    }
    return n == (ssize_t) sizeof *ret;
}

/* Links that the removal of old directories must not follow, to a directory with a file. */
struct trap {
    char directory[64];
    char file[96];
    char inner[128]; /* a directory in the one to be removed, with a link in it */
    char inner_link[160];
    char link[96]; /* beside it, with the name of a dead agent's directory */
};

static void trap_init(struct trap *trap, const struct leftovers *leftovers) {
    FILE *file;

    (void) snprintf(trap->directory, sizeof trap->directory, "%s/trap-XXXXXX", parent);
    if (!mkdtemp(trap->directory))
        exit(EXIT_FAILURE);
    (void) snprintf(trap->file, sizeof trap->file, "%s/file", trap->directory);
    (void) snprintf(trap->inner, sizeof trap->inner, "%s/inner", leftovers->directory);
    (void) snprintf(trap->inner_link, sizeof trap->inner_link, "%s/link", trap->inner);
    (void) snprintf(trap->link, sizeof trap->link, "%s/redlockd-dev-%ld-linked", parent,
                    (long) leftovers->agent);
    file = fopen(trap->file, "we");
    if (!file || fclose(file) != 0 || mkdir(trap->inner, 0700) < 0 ||
        symlink(trap->directory, trap->inner_link) < 0 || symlink(trap->directory, trap->link) < 0)
        exit(EXIT_FAILURE);
}

static void trap_deinit(const struct trap *trap) {
    (void) unlink(trap->link);
    (void) unlink(trap->file);
    (void) rmdir(trap->directory);
}

static void test_killed(void) {
    struct config *config = NULL, *other_config = NULL;
    struct dev *dev = NULL, *other = NULL;
    struct leftovers leftovers = {0};
    struct trap trap;

    ok(start_and_kill(&leftovers), "an agent with two nodes, killed");
    ok(is_gone_soon(leftovers.pids[0]), "its running node has ended");
    ok(is_gone_soon(leftovers.pids[1]), "its stopped node has ended");
    ok(exists(leftovers.directory), "its directory is left");
    if (config_read(NULL, CONFIG_START, stderr, &config) < 0 ||
        config_read(NULL, CONFIG_START, stderr, &other_config) < 0)
        exit(EXIT_FAILURE);

    trap_init(&trap, &leftovers);
    is_int(dev_start(1, config, &dev), 0, "the next agent starts");
    ok(!exists(leftovers.directory), "and removes the directory with its contents");
    ok(exists(trap.file), "the file that a link leads to stays");
    ok(exists(trap.link), "and a link with such a name");
    trap_deinit(&trap);

    is_int(dev_start(1, other_config, &other), 0, "a second agent starts beside it");
    ok(dev && exists(dev_directory(dev)) && answers(config->nodes[0].unix_path),
       "and the first agent's nodes stay");
    dev_stop(other);
    dev_stop(dev);
    config_free(other_config);
    config_free(config);
}

/* The standard error of dev_start() without redis-server on the PATH; the caller frees it. */
static char *start_without_redis(int *ret) {
    char *path = strdup(getenv("PATH"));
    int fds[2], saved = dup(STDERR_FILENO);
    struct config *config = NULL;
    struct dev *dev = NULL;
    char errors[512] = "";

    if (!path || saved < 0 || pipe2(fds, O_CLOEXEC) < 0 ||
        config_read(NULL, CONFIG_START, stderr, &config) < 0)
        exit(EXIT_FAILURE);
    (void) setenv("PATH", "/nonexistent", 1);
    (void) dup2(fds[1], STDERR_FILENO);
    *ret = dev_start(2, config, &dev);
    (void) dup2(saved, STDERR_FILENO);
    (void) setenv("PATH", path, 1);
    if (read(fds[0], errors, sizeof errors - 1) < 0)
        errors[0] = 0;
    (void) close(fds[0]);
    (void) close(fds[1]);
    (void) close(saved);
    free(path);
    config_free(config);
    return strdup(errors);
}

static unsigned n_directories(void) {
    struct dirent *entry;
    DIR *directory = opendir(parent);
    unsigned n = 0;

    while (directory && (entry = readdir(directory)))
        n += entry->d_name[0] != '.';
    if (directory)
        (void) closedir(directory);
    return n;
}

static void test_failures(void) {
    _cleanup_free_ char *errors = NULL;
    struct config *config = NULL;
    struct dev *dev = NULL;
    int r;

    errors = start_without_redis(&r);
    is_int(r, -ENOENT, "without redis-server");
    ok(errors && strncmp(errors, "<3>", 3) == 0 && strstr(errors, "install the package redis-server"),
       "the message names the package");
    if (config_read(NULL, CONFIG_START, stderr, &config) < 0)
        exit(EXIT_FAILURE);
    is_int(dev_start(0, config, &dev), -EINVAL, "no nodes");
    is_int(dev_start(NODES_MAX + 1, config, &dev), -EINVAL, "too many nodes");
    ok(!dev, "nothing is returned");
    is_int(n_directories(), 0, "no directory is left");
    config_free(config);
}

static void test_long_parent(void) {
    struct config *config = NULL;
    struct dev *dev = NULL;
    char path[200];

    (void) snprintf(path, sizeof path, "%s/%0*d", parent, 100, 0);
    (void) setenv("TMPDIR", path, 1);
    if (config_read(NULL, CONFIG_START, stderr, &config) < 0)
        exit(EXIT_FAILURE);
    is_int(dev_start(1, config, &dev), 0, "TMPDIR is too long for a socket: the node starts in /tmp");
    ok(dev && strncmp(dev_directory(dev), "/tmp/redlockd-dev-", 18) == 0, "in a directory there");
    dev_stop(dev);
    config_free(config);
}

int main(void) {
    if (!have_redis())
        skip_all("redis-server is not installed");
    if (!mkdtemp(parent) || setenv("TMPDIR", parent, 1) < 0)
        exit(EXIT_FAILURE);
    test_start_and_stop();
    test_killed();
    test_failures();
    test_long_parent();
    ok(rmdir(parent) == 0, "nothing is left in the directory");
    return done_testing();
}
