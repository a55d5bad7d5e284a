/* A pidfd of the process that has connected, on kernels with and without SO_PEERPIDFD. */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/client/peer-cred.h"
#include "tap.h"

enum { PID = 42, PID_FD = 99 };

static int peer_errno;  /* of SO_PEERPIDFD */
static unsigned opened; /* by the pid */

/* Both instead of the C library's: the only caller here is peer-cred.c. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
    (void) fd;
    (void) level;
    (void) name;
    (void) value;
    (void) length;
    errno = peer_errno;
    return -1;
}

long syscall(long number, ...) {
    opened += number == SYS_pidfd_open;
    return PID_FD;
}

int main(void) {
    static const int ended[] = {ESRCH, EINVAL, ENODATA};
    bool logged = false;
    int pid_fd = 0;

    peer_errno = ENOPROTOOPT;
    ok(peer_cred_open(0, PID, &logged, &pid_fd) == 0 && pid_fd == PID_FD && opened == 1,
       "a kernel without SO_PEERPIDFD: the process is found by its pid");
    for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++) {
        peer_errno = ended[i];
        opened = 0;
        ok(peer_cred_open(0, PID, &logged, &pid_fd) == 0 && pid_fd == -1 && !logged,
           "a process that has ended: no pidfd (%s)", strerror(peer_errno));
        is_int(opened, 0, "another process with its pid is not watched in its place");
    }
    return done_testing();
}
