/* deadline-view SOCKET AGENT-PID: redlock_valid() and the deadline page behind it, against a real agent;
 * prints TAP. Started by test_deadline_view.py. The last tests stop and kill the agent. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "app.h"

#define is(got, want) is_int(got, want, #got " is " #want)

enum { BRIEF_MS = 3000 }; /* a ttl whose end a test awaits */

static pid_t agent_pid;
static unsigned descriptors_before; /* see count_without_clients() */

/* With a wait, because nodes on a busy machine may miss the votes of a short lease. */
static struct redlock_lease *acquire(struct redlock *connection, const char *name, int64_t ttl_ms) {
    struct redlock_options options = options_of(ttl_ms, 10000);
    struct redlock_lease *lease = NULL;

    if (redlock_acquire(connection, name, &options, &lease) != REDLOCK_OK) {
        (void) printf("Bail out! can't acquire %s: %s\n", name, redlock_error_text(connection));
        exit(1);
    }
    return lease;
}

/* Waits at most 10 s, without a request to the agent. */
static bool wait_until(bool (*condition)(const struct redlock_lease *lease),
                       const struct redlock_lease *lease) {
    for (int64_t until_ns = now_ns(CLOCK_BOOTTIME) + INT64_C(10000000000); now_ns(CLOCK_BOOTTIME) < until_ns;
         (void) usleep(200))
        if (condition(lease))
            return true;
    return false;
}

static int64_t seen_ns; /* the validity at the last call */

static bool is_longer(const struct redlock_lease *lease) {
    int64_t left_ns = redlock_remaining_ns(lease);
    bool longer = left_ns > seen_ns;

    seen_ns = left_ns;
    return longer;
}

static bool is_over(const struct redlock_lease *lease) {
    return !redlock_valid(lease);
}

static unsigned count_descriptors(pid_t pid) {
    char path[64];
    unsigned count = 0;

    (void) snprintf(path, sizeof(path), "/proc/%ld/fd", (long) pid);
    DIR *directory = opendir(path);
    while (directory && readdir(directory))
        count++;
    if (directory)
        (void) closedir(directory);
    return count;
}

static int raw_connect(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
    if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0) {
        (void) printf("Bail out! can't connect\n");
        exit(1);
    }
    return fd;
}

/* Sends a request, with `sent_fd` unless negative. Fills the reply, and returns its descriptor or -1. */
static int raw_ask(int socket_fd, const char *request, int sent_fd, char *answer, size_t size) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = (char *) (uintptr_t) request, .iov_len = strlen(request)};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    int fd = -1;

    if (sent_fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &sent_fd, sizeof(int));
    }
    if (sendmsg(socket_fd, &message, 0) < 0)
        return -1;
    bytes = (struct iovec){.iov_base = answer, .iov_len = size - 1};
    message = (struct msghdr){.msg_iov = &bytes,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    answer[n > 0 ? n : 0] = '\0';
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (n > 0 && header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(int));
    return fd;
}

/* Returns the number of descriptors that the agent has when it serves this many sessions, `socket_fd` among
 * them: the connections of earlier clients are closed then. */
static unsigned count_with_sessions(int socket_fd, unsigned sessions) {
    char wanted[64];
    char answer[8192] = "";

    (void) snprintf(wanted, sizeof(wanted), "\r\nsessions\r\n:%u\r\n", sessions);
    while (!strstr(answer, wanted))
        (void) raw_ask(socket_fd, "STATUS\r\n", -1, answer, sizeof(answer));
    return count_descriptors(agent_pid);
}

/* How many descriptors a session has depends on the kernel: the second one shows it. */
static unsigned count_without_clients(void) {
    int one = raw_connect();
    unsigned with_one = count_with_sessions(one, 1);
    int two = raw_connect();
    unsigned with_two = count_with_sessions(two, 2);

    (void) close(one);
    (void) close(two);
    return with_one - (with_two - with_one);
}

static void test_life(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = acquire(connection, "seen", BRIEF_MS);

    ok(redlock_valid(lease), "the lease is valid from the grant on");
    int64_t left_ns = redlock_remaining_ns(lease);
    ok(left_ns > 0 && left_ns < BRIEF_MS * INT64_C(1000000), "for less than its ttl");
    seen_ns = left_ns;
    ok(wait_until(is_longer, lease), "rule 13: an extension is visible without a request");
    is(redlock_release(lease), 1);
    redlock_close(connection);
}

/* Leases reuse slots; each handle reads its own lease only. */
static void test_reuse(void) {
    enum { LEASES = 20, ROUNDS = 50 };
    struct redlock *connection = connection_new();
    struct redlock_lease *leases[LEASES];
    unsigned valid = 0;
    char name[32];

    for (unsigned i = 0; i < LEASES; i++) {
        (void) snprintf(name, sizeof(name), "reuse-%u", i);
        leases[i] = acquire(connection, name, 10000);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned i = round * 7 % LEASES;
        is_int(redlock_release(leases[i]), 1, "released");
        (void) snprintf(name, sizeof(name), "reuse-%u", i);
        leases[i] = acquire(connection, name, 10000);
        for (unsigned j = 0; j < LEASES; j++)
            valid += redlock_valid(leases[j]);
    }
    is(valid, LEASES * ROUNDS);
    redlock_close(connection);
}

/* More leases than slots: the others use the last deadline received. */
static void test_full(void) {
    enum { LEASES = 4200 };
    static struct redlock_lease *leases[LEASES];
    struct redlock *connection = connection_new();
    unsigned valid = 0;
    char name[32];

    for (unsigned i = 0; i < LEASES; i++) {
        (void) snprintf(name, sizeof(name), "full-%u", i);
        leases[i] = acquire(connection, name, 60000);
    }
    for (unsigned i = 0; i < LEASES; i++)
        valid += redlock_valid(leases[i]);
    is(valid, LEASES);
    for (unsigned i = 0; i < LEASES; i++)
        (void) redlock_release_async(leases[i]);
    redlock_close(connection);
}

struct watcher {
    const struct redlock_lease *lease;
    atomic_bool stop;
    atomic_uint invalid;
};

static void *watch(void *userdata) {
    struct watcher *watcher = userdata;

    while (!atomic_load(&watcher->stop))
        if (!redlock_valid(watcher->lease))
            atomic_fetch_add(&watcher->invalid, 1);
    return NULL;
}

/* Other threads read while this one uses the connection. */
static void test_threads(void) {
    enum { THREADS = 3, ROUNDS = 200 };
    struct redlock *connection = connection_new();
    struct watcher watcher = {.lease = acquire(connection, "watched", 6000)};
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        (void) pthread_create(&threads[i], NULL, watch, &watcher);
    for (unsigned i = 0; i < ROUNDS; i++)
        (void) redlock_release(acquire(connection, "beside", 1000));
    ok(redlock_check((struct redlock_lease *) watcher.lease) > 0, "the connection was used meanwhile");
    atomic_store(&watcher.stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        (void) pthread_join(threads[i], NULL);
    is_int(atomic_load(&watcher.invalid), 0, "every read was valid");
    redlock_close(connection);
}

static void test_fork(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = acquire(connection, "forked", 10000);

    pid_t child = fork();
    if (child == 0)
        _exit(redlock_valid(lease) ? 1 : 0);
    int status = -1;
    (void) waitpid(child, &status, 0);
    is_int(status, 0, "the lease is not valid in a forked child");
    ok(redlock_valid(lease), "it is valid in the parent");
    redlock_close(connection);
}

/* --- the page itself --- */

static void test_sealed(void) {
    char answer[512];
    int socket_fd = raw_connect();
    int page = raw_ask(socket_fd, "PAGE\r\n", -1, answer, sizeof(answer));

    ok(page >= 0 && strncmp(answer, "*6\r\n$7\r\nversion\r\n:1\r\n", 21) == 0, "PAGE sends a descriptor");
    ok(write(page, "x", 1) < 0 && errno == EBADF, "the page can't be written");
    ok(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0) == MAP_FAILED, "or mapped writable");
    ok(ftruncate(page, 0) < 0, "or truncated");
    ok(fcntl(page, F_ADD_SEALS, F_SEAL_WRITE) < 0, "or sealed further");
    (void) close(page);
    ok(raw_ask(socket_fd, "PAGE\r\n", -1, answer, sizeof(answer)) < 0 && strncmp(answer, "-BADARG", 7) == 0,
       "a session gets one page");
    (void) close(socket_fd);
}

/* Within 10 s: the agent closes descriptors later than the client. */
static bool descriptors_are_within(unsigned low, unsigned high) {
    for (int64_t until_ns = now_ns(CLOCK_BOOTTIME) + INT64_C(10000000000); now_ns(CLOCK_BOOTTIME) < until_ns;
         (void) usleep(1000))
        if (count_descriptors(agent_pid) >= low && count_descriptors(agent_pid) <= high)
            return true;
    (void) printf("# the agent has %u descriptors, not %u to %u\n", count_descriptors(agent_pid), low, high);
    return false;
}

static bool descriptors_are(unsigned wanted) {
    return descriptors_are_within(wanted, wanted);
}

static void test_descriptors(void) {
    enum { SESSIONS = 300 };
    static int sockets[SESSIONS];
    char answer[512];
    unsigned pages = 0;

    ok(descriptors_are(descriptors_before), "closed connections leave no descriptor");

    for (unsigned i = 0; i < SESSIONS; i++) {
        sockets[i] = raw_connect();
        int page = raw_ask(sockets[i], "PAGE\r\n", -1, answer, sizeof(answer));
        pages += page >= 0;
        (void) close(page);
    }
    is_int(pages, SESSIONS, "each session has a page");
    ok(descriptors_are_within(0, descriptors_before + 2 * SESSIONS),
       "which keeps no descriptor in the agent");
    for (unsigned i = 0; i < SESSIONS; i++)
        (void) close(sockets[i]);
    ok(descriptors_are(descriptors_before), "their descriptors are closed");
    int socket_fd = raw_connect();
    answer[0] = '\0';
    for (unsigned i = 0; i < 100; i++)
        (void) raw_ask(socket_fd, "PING\r\n", socket_fd, answer, sizeof(answer));
    bool refused = answer[0] == '\0' && errno == EPERM; /* by the kernel, from Linux 6.16 on */
    ok(refused || strcmp(answer, "+PONG\r\n") == 0, "a client that sends descriptors");
    (void) close(socket_fd);
    ok(descriptors_are(descriptors_before), "leaves the agent none");
}

/* --- a stopped and a dead agent --- */

static void test_stopped_agent(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = acquire(connection, "stopped", BRIEF_MS);

    (void) kill(agent_pid, SIGSTOP);
    ok(redlock_valid(lease), "rule 6: the lease stays valid while the agent is stopped");
    ok(wait_until(is_over, lease), "until its deadline");
    (void) kill(agent_pid, SIGCONT);
    redlock_close(connection);
}

static void test_killed_agent(void) {
    struct redlock *connection = connection_new();
    struct redlock_lease *lease = acquire(connection, "killed", BRIEF_MS);

    seen_ns = redlock_remaining_ns(lease);
    ok(wait_until(is_longer, lease), "the lease was extended");
    (void) kill(agent_pid, SIGKILL);
    ok(redlock_valid(lease), "rule 6: the lease stays valid after the agent died");
    ok(wait_until(is_over, lease), "until its deadline");
    redlock_close(connection);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 64;
    socket_path = argv[1];
    agent_pid = atoi(argv[2]);
    descriptors_before = count_without_clients();
    test_life();
    test_reuse();
    test_full();
    test_threads();
    test_fork();
    test_sealed();
    test_descriptors();
    test_stopped_agent();
    test_killed_agent();
    return done_testing();
}
