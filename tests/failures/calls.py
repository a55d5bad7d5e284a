"""The test's side of failing-calls.c: which errnos each function can give, and the orders."""

import errno
import mmap
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import lab  # noqa: E402

LIBRARY = os.path.join(lab.BUILD, "tests", "failures", "libfailing-calls.so")
SHORT = 100000  # half of the bytes, or of the requests
FEWER = 100001  # half of the messages

MEMORY = ["ENOMEM"]
DESCRIPTOR = ["EMFILE", "ENFILE", "ENOMEM"]
FILE = ["EMFILE", "ENFILE", "ENOENT", "EACCES"]
SENT = ["EINTR", "EAGAIN", "ENOMEM", "ENOBUFS", "EPIPE", "ECONNRESET", "EHOSTUNREACH", "SHORT"]
RECEIVED = ["EINTR", "EAGAIN", "ENOMEM", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH", "SHORT"]
ERRORS = {
    "malloc": MEMORY, "calloc": MEMORY, "realloc": MEMORY, "reallocarray": MEMORY, "posix_memalign": MEMORY,
    "mmap": ["ENOMEM", "EAGAIN"], "ftruncate": ["EINTR", "ENOSPC"],
    "eventfd": DESCRIPTOR, "memfd_create": DESCRIPTOR, "epoll_create1": DESCRIPTOR,
    "epoll_ctl": ["ENOMEM", "ENOSPC"], "epoll_wait": ["EINTR"], "timerfd_create": DESCRIPTOR,
    "signalfd": DESCRIPTOR,
    "socket": DESCRIPTOR + ["ENOBUFS"], "socketpair": DESCRIPTOR, "bind": ["EADDRINUSE", "EACCES", "ENOMEM"],
    "listen": ["EADDRINUSE"],
    "accept4": ["EAGAIN", "EINTR", "ECONNABORTED", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM",
                "EPERM", "EPROTO"],
    "connect": ["EAGAIN", "EINTR", "ECONNREFUSED", "ENOENT", "EACCES", "ETIMEDOUT", "EHOSTUNREACH"],
    "getsockname": ["ENOBUFS"], "getsockopt": ["ENOBUFS", "ENOPROTOOPT"],
    "setsockopt": ["ENOMEM", "ENOBUFS"],
    "send": SENT, "sendto": SENT, "sendmsg": SENT + ["ETOOMANYREFS"],
    "sendmmsg": SENT + ["ETOOMANYREFS", "FEWER"],
    "write": SENT + ["EIO", "ENOSPC"], "writev": SENT,
    "recv": RECEIVED, "recvmsg": RECEIVED, "recvmmsg": RECEIVED, "read": RECEIVED + ["EIO"],
    "pread": ["EINTR", "EIO"],
    "poll": ["EINTR", "ENOMEM"], "ppoll": ["EINTR", "ENOMEM"],
    "open": FILE, "openat": FILE, "fopen": FILE, "fcntl": ["EMFILE", "ENOMEM"], "dup2": [],
    "dup3": ["EMFILE"], "pipe2": ["EMFILE", "ENFILE"],
    "getrandom": ["EINTR", "ENOSYS"], "pthread_create": ["EAGAIN"], "fork": ["EAGAIN", "ENOMEM"],
    "execvp": ["ENOENT", "EACCES", "ENOMEM", "E2BIG"], "prctl": ["EPERM"], "getaddrinfo": ["EAGAIN"],
    "io_setup": ["EAGAIN", "ENOSYS"], "io_submit": ["EAGAIN", "ENOSYS", "SHORT"], "io_getevents": ["EINTR"],
    # A write of io_submit(2): the outcome of one of them.
    "io_write": ["EAGAIN", "EPIPE", "SHORT"],
    "pidfd_open": DESCRIPTOR + ["ENOSYS", "ESRCH", "EPERM"],
    "pidfd_send_signal": ["ENOSYS", "ESRCH", "EPERM"],
    "opendir": FILE + ["ENOMEM"], "mkdir": ["EACCES", "ENOSPC"], "unlink": ["EACCES"],
    "flock": ["EINTR", "ENOLCK"],
}
# What a program meets that has no memory or no descriptor left for as long as the scenario takes.
LASTING = {"ENOMEM", "EMFILE"}
TAKING = {"malloc", "calloc", "realloc", "reallocarray", "mmap", "eventfd", "memfd_create", "epoll_create1",
          "epoll_ctl", "timerfd_create", "signalfd", "socket", "socketpair", "accept4", "open", "openat",
          "fopen", "opendir", "pipe2", "fork", "pidfd_open"}

HEADER = struct.Struct("=6I16s1988sI")
ROOM = 64  # for functions
NAME_BYTES = 24
SIZE = HEADER.size + ROOM * (8 + NAME_BYTES)


# What the kernel or a policy refuses from the start on, or never.
FIRST = {("getrandom", "ENOSYS")}


def error_number(error):
    return {"SHORT": SHORT, "FEWER": FEWER}.get(error) or getattr(errno, error)


class Orders:
    """A file that a program with the shim maps. `program`: the only one to which orders apply. `old_kernel`:
    for this program, there is no SO_PEERPIDFD."""

    def __init__(self, program, old_kernel=False):
        self.path = lab.path("orders")
        with open(self.path, "wb") as file:
            file.write(bytes(SIZE))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        struct.pack_into("16s", self.memory, 24, program.encode())
        struct.pack_into("=I", self.memory, HEADER.size - 4, old_kernel)
        self.given, self.lasting = None, False
        self.environment = {"FAILING_CALLS": self.path, "LD_PRELOAD": LIBRARY}
        self.prefix = ["env"] + ["%s=%s" % pair for pair in self.environment.items()]

    def _names(self):
        start = HEADER.size + 8 * ROOM
        names = [self.memory[start + NAME_BYTES * i:][:NAME_BYTES] for i in range(ROOM)]
        return [name.rstrip(b"\0").decode() for name in names]

    def counts(self):
        """How often each function was called in all."""
        values = struct.unpack_from("=%dQ" % ROOM, self.memory, HEADER.size)
        return {name: value for name, value in zip(self._names(), values) if value}

    def is_disconnect(self):
        """Whether the order, which has been met, says that the other side has gone."""
        error, _, _, injected = struct.unpack_from("=4I", self.memory, 8)
        return injected > 0 and error in (errno.EPIPE, errno.ECONNRESET)

    def names_known(self):
        return self._names()[0] != ""

    def give(self, name, number, error, lasting=False):
        """From now on the number-th call fails; lasting: each later one too."""
        self.given, self.lasting = name, lasting
        names = list(ERRORS)  # before a program has mapped the file
        index = self._names().index(name) if self.names_known() else names.index(name)
        struct.pack_into("=5I", self.memory, 4, number, error_number(error), lasting, 0, 0)
        struct.pack_into("1988s", self.memory, 40, b"")
        struct.pack_into("=I", self.memory, 0, 1 + index)

    def relent(self):
        """Ends a fault that lasts before its scenario."""
        struct.pack_into("=I", self.memory, 0, 0)
        self.lasting = False

    def end(self):
        """Ends the order: how many calls could have failed, and how many did."""
        struct.pack_into("=I", self.memory, 0, 0)
        return struct.unpack_from("=2I", self.memory, 16)

    def where(self):
        """The callers of the call that failed, as functions and lines."""
        frames = self.memory[40:40 + 1988].split(b"\0")[0].decode().splitlines()
        found = []
        for frame in frames:
            file, _, offset = frame.rpartition("+")
            done = subprocess.run(["addr2line", "-fse", file, offset], capture_output=True, text=True)
            lines = done.stdout.split() or ["??", "??"]
            found.append("%s (%s)" % (lines[0], lines[-1]) if lines[0] != "??" else
                         "%s+%s" % (os.path.basename(file), offset))
        return " < ".join(found[:14])
