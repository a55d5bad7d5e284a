/* Several sockets by one call: what is written, what is not, and what if there is no such call. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop/multi-write.h"
#include "tap.h"

enum { SOCKETS = 4, OPEN = 0, FULL = 1, CLOSED = 2, OTHER = 3 };

static int pairs[SOCKETS][2];

static void open_pairs(void) {
    for (unsigned i = 0; i < SOCKETS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pairs[i]) < 0)
            skip_all("no socket pairs");
}

static void fill(int fd) {
    static const char bytes[4096];

    while (write(fd, bytes, sizeof(bytes)) > 0)
        ;
}

static void check_text(int fd, const char *want, const char *what) {
    char text[64];
    ssize_t n = read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    is_string(text, want, what);
}

int main(void) {
    struct iovec pieces[2] = {{.iov_base = (char[]){"one "}, .iov_len = 4},
                              {.iov_base = (char[]){"two"}, .iov_len = 3}};
    struct multi_write_write writes[SOCKETS];
    struct multi_write burst;

    (void) signal(SIGPIPE, SIG_IGN); /* as the agent does */
    open_pairs();
    fill(pairs[FULL][0]);
    (void) close(pairs[CLOSED][1]);
    for (unsigned i = 0; i < SOCKETS; i++)
        writes[i] = (struct multi_write_write){.socket = pairs[i][0], .pieces = pieces, .n_pieces = 2};
    multi_write_init(&burst);
    if (burst.context == 0)
        skip_all("io_setup(2) can't be had here");
    for (unsigned round = 0; round < 100; round++) { /* what it takes it gives back */
        is_int(multi_write_write(&burst, writes, SOCKETS), 0, "all are tried");
        is_int(writes[OPEN].done, 7, "what takes all has all");
        is_int(writes[FULL].done, -EAGAIN, "what is full takes nothing, and nobody waits for it");
        is_int(writes[CLOSED].done, -EPIPE, "who is gone does not disturb");
        is_int(writes[OTHER].done, 7, "those behind");
        check_text(pairs[OPEN][1], "one two", "all pieces, in order");
        check_text(pairs[OTHER][1], "one two", "to each");
    }
    multi_write_deinit(&burst);
    is_int(multi_write_write(&burst, writes, SOCKETS), -ENOSYS, "without the call nothing is tried");
    check_text(pairs[OPEN][1], "", "and nothing is written");
    return done_testing();
}
