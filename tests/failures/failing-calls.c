/* Preloaded into an agent, a command or a program: makes the n-th call of one function of the C library
 * fail.
 *
 * $FAILING_CALLS names a file of sizeof(struct control) zeros, which the test and all processes of the
 * program map. The test gives its order there before the program starts, or while it runs, and reads there
 * how often each function was called, and where the failing call came from. calls.py has the other side.
 *
 * Calls between programs and libraries are seen (and malloc() within the C library), its own system calls
 * are not. An order fails only calls that can fail so: ECONNRESET needs a socket, EAGAIN a non-blocking
 * descriptor. A function that is new in the sources is added to CALLS, and its errnos to calls.py. */
#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* Functions of syscall(2) have the name of the system call. */
#define CALLS(X)                                                                                         \
    X(malloc)                                                                                            \
    X(calloc)                                                                                            \
    X(realloc)                                                                                           \
    X(reallocarray)                                                                                      \
    X(posix_memalign)                                                                                    \
    X(mmap)                                                                                              \
    X(ftruncate)                                                                                         \
    X(eventfd)                                                                                           \
    X(memfd_create) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(timerfd_create) X(signalfd) X(socket)  \
        X(socketpair) X(bind) X(listen) X(accept4) X(connect) X(getsockname) X(getsockopt) X(setsockopt) \
            X(send) X(sendto) X(sendmsg) X(sendmmsg) X(write) X(writev) X(recv) X(recvmsg) X(recvmmsg)   \
                X(read) X(pread) X(poll) X(ppoll) X(open) X(openat) X(fopen) X(fcntl) X(dup2) X(dup3)    \
                    X(pipe2) X(getrandom) X(pthread_create) X(fork) X(execvp) X(prctl) X(getaddrinfo)    \
                        X(io_setup) X(io_submit) X(io_getevents) X(pidfd_open) X(pidfd_send_signal)      \
                            X(io_write) X(opendir) X(mkdir) X(unlink) X(flock)

enum { NAME_BYTES = 24 };

enum call {
#define NUMBER(name) CALL_##name,
    CALLS(NUMBER) CALLS_COUNT
};

static const char names[CALLS_COUNT][NAME_BYTES] = {
#define NAME(name) #name,
    CALLS(NAME)};

enum {
    CALLS_ROOM = 64,
    NOTED_MAX = 1000,
    FRAMES = 24,
    SHORT = 100000, /* instead of an errno: half of the bytes */
    FEWER = 100001  /* half of the messages */
};

struct control {
    _Atomic uint32_t call; /* 1 + enum call; 0: no order */
    uint32_t number;       /* the call that fails: 1 is the next one */
    uint32_t error;
    uint32_t onwards;          /* all later calls fail too */
    _Atomic uint32_t seen;     /* calls since the order that could fail so */
    _Atomic uint32_t injected; /* of which so many failed */
    char program[16];          /* only in processes of this program */
    char where[1988];          /* the callers of the last that failed: a line each, "object+0xoffset" */
    uint32_t old_kernel;       /* without SO_PEERPIDFD */
    _Atomic uint64_t counts[CALLS_ROOM];
    char names[CALLS_ROOM][NAME_BYTES];
};

static_assert((int) CALLS_COUNT <= (int) CALLS_ROOM, "the file has room");

static struct control *control;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

#define REAL(name)                                       \
    ({                                                   \
        static __typeof__(name) *found;                  \
        if (!found)                                      \
            *(void **) &found = dlsym(RTLD_NEXT, #name); \
        found;                                           \
    })
#define PUBLIC __attribute__((visibility("default")))

/* The C library's own, since dlsym() may allocate. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static void note_callers(void) {
    void *frames[FRAMES];
    size_t used = 0;
    Dl_info info;

    inside = true;
    int n = backtrace(frames, FRAMES);
    for (int i = 2; i < n && used < sizeof(control->where); i++)
        if (dladdr(frames[i], &info))
            used += (size_t) snprintf(control->where + used, sizeof(control->where) - used, "%s+0x%lx\n",
                                      info.dli_fname, (char *) frames[i] - (char *) info.dli_fbase - 1);
    inside = false;
}

/* After a fault that lasts, the last call that failed need not be the one that did the harm. */
static void on_crash(int number) {
    note_callers();
    (void) signal(number, SIG_DFL);
    (void) raise(number);
}

/* Whose other end takes no more bytes, or is closed. */
static int full_socket, broken_socket;

static void open_sockets(void) {
    char bytes[4096] = {0};
    int full[2], broken[2];

    if (REAL(socketpair)(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, full) != 0 ||
        REAL(socketpair)(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, broken) != 0)
        abort();
    while (REAL(write)(full[0], bytes, sizeof(bytes)) > 0)
        ;
    (void) close(broken[1]);
    full_socket = full[0];
    broken_socket = broken[0];
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CALLS");
    void *frames[2];

    inside = true;
    int fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
    struct control *mapped =
        fd < 0 ? MAP_FAILED : REAL(mmap)(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void) close(fd);
    if (mapped != MAP_FAILED) {
        (void) backtrace(frames, 2); /* loads what it needs */
        memcpy(mapped->names, names, sizeof(names));
        if (mapped->program[0] == '\0' || strcmp(mapped->program, program_invocation_short_name) == 0) {
            control = mapped;
            open_sockets();
            (void) signal(SIGSEGV, on_crash);
            (void) signal(SIGABRT, on_crash);
            (void) unsetenv("LD_PRELOAD"); /* the programs that this one starts have their own allocators */
        }
    }
    inside = false;
}

/* --- which call fails --- */

static bool is_socket(int fd, bool stream) {
    int type = 0;
    socklen_t length = sizeof(type);

    return REAL(getsockopt)(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
           (!stream || type == SOCK_STREAM);
}

static bool is_inet(int fd) {
    int domain = 0;
    socklen_t length = sizeof(domain);

    return REAL(getsockopt)(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
           (domain == AF_INET || domain == AF_INET6);
}

static bool is_regular(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
}

static bool is_blocking(int fd) {
    return !(REAL(fcntl)(fd, F_GETFL) & O_NONBLOCK);
}

/* Whether the ordered error can come from a call with this descriptor; `bytes`: how many it asks for. */
static bool suits(int fd, int flags, size_t bytes) {
    switch (control->error) {
    case SHORT:
        return bytes > 1 && (is_regular(fd) || is_socket(fd, true));
    case EAGAIN:
        return (flags & MSG_DONTWAIT) || !is_blocking(fd);
    case ENOMEM:
    case ECONNRESET:
    case EPIPE:
    case ENOBUFS:
    case ETOOMANYREFS:
        return is_socket(fd, false);
    case ETIMEDOUT:
    case EHOSTUNREACH:
        return is_inet(fd);
    case EIO:
    case ENOSPC:
        return is_regular(fd);
    default:
        return true;
    }
}

static bool is_ordered(enum call call) {
    if (!control || inside)
        return false;
    atomic_fetch_add_explicit(&control->counts[call], 1, memory_order_relaxed);
    return atomic_load(&control->call) == call + 1;
}

/* Counts a call that could fail. Whether it does; errno is the ordered one then. */
static bool count(void) {
    uint32_t seen = atomic_fetch_add(&control->seen, 1) + 1;

    if (control->onwards ? seen < control->number : seen != control->number)
        return false;
    if (atomic_fetch_add(&control->injected, 1) < NOTED_MAX)
        note_callers();
    errno = (int) control->error;
    return true;
}

static bool fails(enum call call) {
    return is_ordered(call) && count();
}

static bool fails_on(enum call call, int fd, int flags, size_t bytes) {
    bool ordered = is_ordered(call), suitable;

    if (!ordered)
        return false;
    inside = true;
    suitable = suits(fd, flags, bytes);
    inside = false;
    return suitable && count();
}

/* --- edge-triggered descriptors --- */

/* A kernel that says EAGAIN has nothing to read, and reports what comes later. */
enum { DESCRIPTORS = 1024 };

static struct {
    int epoll_fd;
    struct epoll_event event;
} watched[DESCRIPTORS];

static void report_again(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS && watched[fd].epoll_fd > 0)
        (void) REAL(epoll_ctl)(watched[fd].epoll_fd, EPOLL_CTL_MOD, fd, &watched[fd].event);
}

PUBLIC int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event) {
    /* Only adding needs memory. */
    if (operation == EPOLL_CTL_ADD && fails(CALL_epoll_ctl))
        return -1;
    int r = REAL(epoll_ctl)(epoll_fd, operation, fd, event);
    if (r == 0 && fd >= 0 && fd < DESCRIPTORS) {
        watched[fd].epoll_fd = operation == EPOLL_CTL_DEL ? 0 : epoll_fd;
        if (operation != EPOLL_CTL_DEL)
            watched[fd].event = *event;
    }
    return r;
}

/* --- bytes --- */

static size_t bytes_of(const struct iovec *pieces, size_t n) {
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/* The first half of the bytes. The number of pieces. */
static size_t halve(const struct iovec *pieces, size_t n, struct iovec *ret) {
    size_t left = bytes_of(pieces, n) / 2, used = 0;

    for (; used < n && left > 0; used++) {
        ret[used] = pieces[used];
        if (ret[used].iov_len > left)
            ret[used].iov_len = left;
        left -= ret[used].iov_len;
    }
    return used;
}

/* -1 and errno, or 1 when the call is to be made with half of the bytes, or 0. */
static int failure(enum call call, int fd, int flags, size_t bytes) {
    if (!fails_on(call, fd, flags, bytes))
        return 0;
    if (errno == SHORT)
        return 1;
    if (errno == EAGAIN) {
        report_again(fd);
        errno = EAGAIN;
    }
    return -1;
}

#define ON_BYTES(name, fd, flags, bytes, ...)                \
    do {                                                     \
        int failed = failure(CALL_##name, fd, flags, bytes); \
        if (failed < 0)                                      \
            return -1;                                       \
        if (failed > 0)                                      \
            bytes /= 2;                                      \
        return REAL(name)(__VA_ARGS__);                      \
    } while (0)

PUBLIC ssize_t read(int fd, void *to, size_t bytes) {
    ON_BYTES(read, fd, 0, bytes, fd, to, bytes);
}

PUBLIC ssize_t pread(int fd, void *to, size_t bytes, off_t offset) {
    ON_BYTES(pread, fd, 0, bytes, fd, to, bytes, offset);
}

PUBLIC ssize_t pread64(int fd, void *to, size_t bytes, off64_t offset) __attribute__((alias("pread")));

PUBLIC ssize_t write(int fd, const void *from, size_t bytes) {
    ON_BYTES(write, fd, 0, bytes, fd, from, bytes);
}

PUBLIC ssize_t send(int fd, const void *from, size_t bytes, int flags) {
    ON_BYTES(send, fd, flags, bytes, fd, from, bytes, flags);
}

PUBLIC ssize_t sendto(int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to,
                      socklen_t length) {
    ON_BYTES(sendto, fd, flags, bytes, fd, from, bytes, flags, to, length);
}

PUBLIC ssize_t recv(int fd, void *to, size_t bytes, int flags) {
    ON_BYTES(recv, fd, flags, bytes, fd, to, bytes, flags);
}

PUBLIC ssize_t writev(int fd, const struct iovec *pieces, int n) {
    struct iovec half[IOV_MAX];
    int failed = failure(CALL_writev, fd, 0, bytes_of(pieces, (size_t) n));

    if (failed < 0)
        return -1;
    if (failed > 0)
        return REAL(writev)(fd, half, (int) halve(pieces, (size_t) n, half));
    return REAL(writev)(fd, pieces, n);
}

/* The message with half of its bytes. */
static struct msghdr half_of(const struct msghdr *message, struct iovec *pieces) {
    struct msghdr half = *message;

    half.msg_iovlen = halve(message->msg_iov, message->msg_iovlen, pieces);
    half.msg_iov = pieces;
    return half;
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    struct iovec pieces[IOV_MAX];
    int failed = failure(CALL_sendmsg, fd, flags, bytes_of(message->msg_iov, message->msg_iovlen));

    if (failed < 0)
        return -1;
    const struct msghdr sent = failed > 0 ? half_of(message, pieces) : *message;
    return REAL(sendmsg)(fd, &sent, flags);
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    struct iovec pieces[IOV_MAX], *whole = message->msg_iov;
    size_t n = message->msg_iovlen;
    int failed = failure(CALL_recvmsg, fd, flags, bytes_of(whole, n));

    if (failed < 0)
        return -1;
    if (failed > 0)
        *message = half_of(message, pieces);
    ssize_t received = REAL(recvmsg)(fd, message, flags);
    message->msg_iov = whole;
    message->msg_iovlen = n;
    return received;
}

/* The kernel writes each message's length where the caller says: only one message is shortened. */
PUBLIC int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags) {
    struct iovec pieces[IOV_MAX], *whole = messages->msg_hdr.msg_iov;
    size_t n_pieces = messages->msg_hdr.msg_iovlen;
    int failed = control && control->error == FEWER && n < 2
                     ? 0
                     : failure(CALL_sendmmsg, fd, flags, bytes_of(whole, n_pieces));

    if (failed < 0 && errno == FEWER)
        return REAL(sendmmsg)(fd, messages, n / 2, flags);
    if (failed < 0)
        return -1;
    if (failed > 0)
        messages->msg_hdr = half_of(&messages->msg_hdr, pieces);
    int sent = REAL(sendmmsg)(fd, messages, n, flags);
    messages->msg_hdr.msg_iov = whole;
    messages->msg_hdr.msg_iovlen = n_pieces;
    return sent;
}

PUBLIC int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *timeout) {
    struct iovec pieces[IOV_MAX], *whole = messages->msg_hdr.msg_iov;
    size_t n_pieces = messages->msg_hdr.msg_iovlen;
    int failed = failure(CALL_recvmmsg, fd, flags, bytes_of(whole, n_pieces));

    if (failed < 0)
        return -1;
    if (failed > 0)
        messages->msg_hdr = half_of(&messages->msg_hdr, pieces);
    int received = REAL(recvmmsg)(fd, messages, n, flags, timeout);
    messages->msg_hdr.msg_iov = whole;
    messages->msg_hdr.msg_iovlen = n_pieces;
    return received;
}

/* --- memory --- */

PUBLIC void *malloc(size_t size) {
    return fails(CALL_malloc) ? NULL : __libc_malloc(size);
}

PUBLIC void *calloc(size_t number, size_t size) {
    return fails(CALL_calloc) ? NULL : __libc_calloc(number, size);
}

PUBLIC void *realloc(void *memory, size_t size) {
    return fails(CALL_realloc) ? NULL : __libc_realloc(memory, size);
}

PUBLIC void *reallocarray(void *memory, size_t number, size_t size) {
    size_t bytes;

    if (fails(CALL_reallocarray))
        return NULL;
    if (__builtin_mul_overflow(number, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(memory, bytes);
}

PUBLIC int posix_memalign(void **ret, size_t alignment, size_t size) {
    if (fails(CALL_posix_memalign))
        return errno;
    *ret = __libc_memalign(alignment, size);
    return *ret ? 0 : ENOMEM;
}

PUBLIC void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return fails(CALL_mmap) ? MAP_FAILED : REAL(mmap)(address, bytes, protection, flags, fd, offset);
}

PUBLIC void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset)
    __attribute__((alias("mmap")));

/* --- what only fails --- */

#define PLAIN(type, name, parameters, ...)                               \
    PUBLIC type name parameters {                                        \
        return fails(CALL_##name) ? (type) -1 : REAL(name)(__VA_ARGS__); \
    }

PLAIN(int, ftruncate, (int fd, off_t bytes), fd, bytes)
PUBLIC int ftruncate64(int fd, off64_t bytes) __attribute__((alias("ftruncate")));
PLAIN(int, memfd_create, (const char *name, unsigned flags), name, flags)
PLAIN(int, epoll_create1, (int flags), flags)
PLAIN(int, epoll_wait, (int fd, struct epoll_event *events, int n, int timeout_ms), fd, events, n,
      timeout_ms)
PLAIN(int, timerfd_create, (int clock, int flags), clock, flags)
PLAIN(int, signalfd, (int fd, const sigset_t *mask, int flags), fd, mask, flags)
PLAIN(int, socket, (int domain, int type, int protocol), domain, type, protocol)
PLAIN(int, socketpair, (int domain, int type, int protocol, int fds[2]), domain, type, protocol, fds)
PLAIN(int, bind, (int fd, const struct sockaddr *address, socklen_t length), fd, address, length)
PLAIN(int, listen, (int fd, int backlog), fd, backlog)
PLAIN(int, getsockname, (int fd, struct sockaddr *address, socklen_t *length), fd, address, length)
PLAIN(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length), fd, level, name,
      value, length)
PLAIN(int, poll, (struct pollfd * fds, nfds_t n, int timeout_ms), fds, n, timeout_ms)
PLAIN(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask), fds,
      n, timeout, mask)
PLAIN(int, dup2, (int from, int to), from, to)
PLAIN(int, dup3, (int from, int to, int flags), from, to, flags)
PLAIN(int, pipe2, (int fds[2], int flags), fds, flags)
PLAIN(ssize_t, getrandom, (void *bytes, size_t length, unsigned flags), bytes, length, flags)
PLAIN(pid_t, fork, (void) )
PLAIN(int, execvp, (const char *file, char *const arguments[]), file, arguments)

PLAIN(int, eventfd, (unsigned value, int flags), value, flags)
PLAIN(int, mkdir, (const char *path, mode_t mode), path, mode)
PLAIN(int, unlink, (const char *path), path)
PLAIN(int, flock, (int fd, int operation), fd, operation)

PUBLIC DIR *opendir(const char *path) {
    return fails(CALL_opendir) ? NULL : REAL(opendir)(path);
}

/* Older kernels do not know SO_PEERPIDFD, which is in all headers only since 2023. */
PUBLIC int getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
    enum { PEER_PIDFD = 77 };

    if (control && control->old_kernel && name == PEER_PIDFD) {
        errno = ENOPROTOOPT;
        return -1;
    }
    bool suitable = control && (control->error != ENOPROTOOPT || name == PEER_PIDFD);
    return suitable && fails(CALL_getsockopt) ? -1 : REAL(getsockopt)(fd, level, name, value, length);
}

PUBLIC int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    return fails_on(CALL_accept4, fd, 0, 0) ? -1 : REAL(accept4)(fd, address, length, flags);
}

PUBLIC int connect(int fd, const struct sockaddr *address, socklen_t length) {
    return fails_on(CALL_connect, fd, 0, 0) ? -1 : REAL(connect)(fd, address, length);
}

PUBLIC int pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument) {
    return fails(CALL_pthread_create) ? errno : REAL(pthread_create)(ret, attributes, function, argument);
}

PUBLIC int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret) {
    return fails(CALL_getaddrinfo) ? EAI_MEMORY : REAL(getaddrinfo)(node, service, hints, ret);
}

PUBLIC FILE *fopen(const char *path, const char *mode) {
    return fails(CALL_fopen) ? NULL : REAL(fopen)(path, mode);
}

PUBLIC FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

PUBLIC int open(const char *path, int flags, ...) {
    va_list arguments;

    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(CALL_open) ? -1 : REAL(open)(path, flags, mode);
}

PUBLIC int open64(const char *path, int flags, ...) __attribute__((alias("open")));

/* open(2) and openat(2) without a mode, with _FORTIFY_SOURCE. */
PUBLIC int __open64_2(const char *path, int flags);

PUBLIC int __open64_2(const char *path, int flags) {
    return fails(CALL_open) ? -1 : REAL(open)(path, flags);
}

PUBLIC int openat(int directory_fd, const char *path, int flags, ...) {
    va_list arguments;

    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(CALL_openat) ? -1 : REAL(openat)(directory_fd, path, flags, mode);
}

PUBLIC int openat64(int directory_fd, const char *path, int flags, ...) __attribute__((alias("openat")));

PUBLIC int fcntl(int fd, int command, ...) {
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fails(CALL_fcntl) ? -1 : REAL(fcntl)(fd, command, argument);
}

PUBLIC int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

PUBLIC int prctl(int option, ...) {
    unsigned long values[4];
    va_list arguments;

    va_start(arguments, option);
    for (unsigned i = 0; i < 4; i++)
        values[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    /* Of a thread's name: never. */
    return option != PR_SET_NAME && fails(CALL_prctl)
               ? -1
               : REAL(prctl)(option, values[0], values[1], values[2], values[3]);
}

/* The ordered outcome of one of the writes, which are pwritev(2) each. */
static void change_writes(struct iocb **writes, long n) {
    static _Thread_local struct iovec half[IOV_MAX];

    for (long i = 0; i < n; i++) {
        const struct iovec *pieces = (const struct iovec *) (uintptr_t) writes[i]->aio_buf;
        size_t n_pieces = writes[i]->aio_nbytes;
        int failed = failure(CALL_io_write, (int) writes[i]->aio_fildes, 0, bytes_of(pieces, n_pieces));
        if (failed > 0) {
            writes[i]->aio_nbytes = halve(pieces, n_pieces, half);
            writes[i]->aio_buf = (uintptr_t) half;
        } else if (failed < 0) {
            writes[i]->aio_fildes = (uint32_t) (errno == EAGAIN ? full_socket : broken_socket);
        }
    }
}

PUBLIC long syscall(long number, ...) {
    long values[6];
    enum call call = CALLS_COUNT;
    va_list arguments;

    va_start(arguments, number);
    for (unsigned i = 0; i < 6; i++)
        values[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_io_setup)
        call = CALL_io_setup;
    else if (number == SYS_io_submit)
        call = CALL_io_submit;
    else if (number == SYS_io_getevents)
        call = CALL_io_getevents;
    else if (number == SYS_pidfd_open)
        call = CALL_pidfd_open;
    else if (number == SYS_pidfd_send_signal)
        call = CALL_pidfd_send_signal;
    if (call != CALLS_COUNT && fails(call)) {
        if (errno != SHORT)
            return -1;
        values[1] = (values[1] + 1) / 2; /* io_submit: the rest is not accepted */
    }
    if (number == SYS_io_submit)
        change_writes((struct iocb **) values[2], values[1]);
    return REAL(syscall)(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
