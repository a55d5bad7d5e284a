#include "group-witness.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_S = 1 };

/* Bit n - 1 is signal n. */
static uint64_t take_pending(const sigset_t *all) {
    static const struct timespec none = {0};
    uint64_t taken = 0;
    int number;

    while ((number = sigtimedwait(all, NULL, &none)) > 0)
        taken |= UINT64_C(1) << (number - 1);
    return taken;
}

__attribute__((noreturn)) static void testify(int fd, pid_t parent, const sigset_t *all) {
    char question;

    (void) prctl(PR_SET_NAME, "redlock-witness");
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int other = 0; other < fd; other++)
        (void) close(other); /* readers of inherited pipes wait until all copies are closed */
    (void) close_range((unsigned) fd + 1, ~0U, 0);
    while (getppid() == parent && read(fd, &question, 1) == 1) {
        uint64_t taken = take_pending(all);
        if (write(fd, &taken, sizeof(taken)) != sizeof(taken))
            break;
    }
    _exit(0);
}

void group_witness_init(struct group_witness *witness) {
    static const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
    pid_t parent = getpid();
    sigset_t all, old;
    int fds[2];

    *witness = (struct group_witness){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return;
    (void) setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &old);
    witness->pid = fork();
    if (witness->pid == 0)
        testify(fds[1], parent, &all);
    (void) sigprocmask(SIG_SETMASK, &old, NULL);
    (void) close(fds[1]);
    if (witness->pid < 0) {
        (void) close(fds[0]);
        witness->pid = 0;
        return;
    }
    witness->fd = fds[0];
}

void group_witness_deinit(struct group_witness *witness) {
    if (witness->pid <= 0)
        return;
    (void) close(witness->fd);
    (void) kill(witness->pid, SIGKILL);
    while (waitpid(witness->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *witness = (struct group_witness){.fd = -1};
}

void group_witness_ask(struct group_witness *witness, sigset_t *ret) {
    uint64_t taken = 0;

    (void) sigemptyset(ret);
    if (witness->fd < 0)
        return;
    if (send(witness->fd, "?", 1, MSG_NOSIGNAL) != 1 ||
        recv(witness->fd, &taken, sizeof(taken), MSG_WAITALL) != sizeof(taken)) {
        group_witness_deinit(witness);
        return;
    }
    for (int number = 1; number <= 64; number++)
        if (taken & (UINT64_C(1) << (number - 1)))
            (void) sigaddset(ret, number);
}
