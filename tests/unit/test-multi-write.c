/* Writing to several sockets by one system call: full, closed and ready sockets, and no such call. */

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
    struct multi_write multi_write;

    (void) signal(SIGPIPE, SIG_IGN); /* as the agent does */
    open_pairs();
    fill(pairs[FULL][0]);
    (void) close(pairs[CLOSED][1]);
    for (unsigned i = 0; i < SOCKETS; i++)
        writes[i] = (struct multi_write_write){.socket = pairs[i][0], .pieces = pieces, .n_pieces = 2};
    multi_write_init(&multi_write);
    if (multi_write.context == 0)
        skip_all("io_setup(2) can't be had here");
    for (unsigned round = 0; round < 100; round++) { /* each call returns its resources */
        is_int(multi_write_write(&multi_write, writes, SOCKETS), 0, "every socket is tried");
        is_int(writes[OPEN].done, 7, "a ready socket gets all bytes");
        is_int(writes[FULL].done, -EAGAIN, "a full socket gets none, and the call does not wait");
        is_int(writes[CLOSED].done, -EPIPE, "a closed socket fails alone");
        is_int(writes[OTHER].done, 7, "sockets after it get all bytes");
        check_text(pairs[OPEN][1], "one two", "all pieces, in order");
        check_text(pairs[OTHER][1], "one two", "to each socket");
    }
    multi_write_deinit(&multi_write);
    is_int(multi_write_write(&multi_write, writes, SOCKETS), -ENOSYS, "without io_submit(2) the call fails");
    check_text(pairs[OPEN][1], "", "and writes nothing");
    return done_testing();
}
