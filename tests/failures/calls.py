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

MEMORY = ["ENOMEM"]
DESCRIPTOR = ["EMFILE", "ENFILE", "ENOMEM"]
FILE = ["EMFILE", "ENFILE", "ENOENT", "EACCES"]
SENT = ["EINTR", "EAGAIN", "ENOMEM", "ENOBUFS", "EPIPE", "ECONNRESET", "SHORT"]
RECEIVED = ["EINTR", "EAGAIN", "ENOMEM", "ECONNRESET", "SHORT"]
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
    "connect": ["EAGAIN", "EINTR", "ECONNREFUSED", "ENOENT", "EACCES"],
    "getsockname": ["ENOBUFS"], "getsockopt": ["ENOBUFS"], "setsockopt": ["ENOMEM", "ENOBUFS"],
    "send": SENT, "sendto": SENT, "sendmsg": SENT + ["ETOOMANYREFS"], "sendmmsg": SENT + ["ETOOMANYREFS"],
    "write": SENT + ["EIO", "ENOSPC"], "writev": SENT,
    "recv": RECEIVED, "recvmsg": RECEIVED, "recvmmsg": RECEIVED, "read": RECEIVED + ["EIO"],
    "pread": ["EINTR", "EIO"],
    "poll": ["EINTR", "ENOMEM"], "ppoll": ["EINTR", "ENOMEM"],
    "open": FILE, "openat": FILE, "fopen": FILE, "fcntl": ["EMFILE", "ENOMEM"], "dup2": [],
    "dup3": ["EMFILE"], "pipe2": ["EMFILE", "ENFILE"],
    "getrandom": ["EINTR", "ENOSYS"], "pthread_create": ["EAGAIN"], "fork": ["EAGAIN", "ENOMEM"],
    "execvp": ["ENOENT", "EACCES", "ENOMEM", "E2BIG"], "prctl": ["EPERM"], "getaddrinfo": ["EAGAIN"],
    "io_setup": ["EAGAIN", "ENOSYS"], "io_submit": ["EAGAIN", "ENOSYS", "SHORT"], "io_getevents": ["EINTR"],
    "pidfd_open": DESCRIPTOR + ["ENOSYS", "ESRCH"],
}
# What a program meets that has no memory or no descriptor left for as long as the scenario takes.
LASTING = {"ENOMEM", "EMFILE"}
TAKING = {"malloc", "calloc", "realloc", "reallocarray", "mmap", "eventfd", "memfd_create", "epoll_create1",
          "epoll_ctl", "timerfd_create", "signalfd", "socket", "socketpair", "accept4", "open", "openat",
          "fopen", "pipe2", "fork", "pidfd_open"}

HEADER = struct.Struct("=6I16s1992s")
ROOM = 64  # for functions
SIZE = HEADER.size + ROOM * (8 + 16)


# What the kernel or a policy refuses from the start on, or never.
FIRST = {("getrandom", "ENOSYS")}


def error_number(error):
    return SHORT if error == "SHORT" else getattr(errno, error)


class Orders:
    """A file that a program with the shim maps. `program`: the only one to which orders apply."""

    def __init__(self, program):
        self.path = lab.path("orders")
        with open(self.path, "wb") as file:
            file.write(bytes(SIZE))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        struct.pack_into("16s", self.memory, 24, program.encode())
        self.given = None
        self.environment = {"FAILING_CALLS": self.path, "LD_PRELOAD": LIBRARY}
        self.prefix = ["env"] + ["%s=%s" % pair for pair in self.environment.items()]

    def _names(self):
        start = HEADER.size + 8 * ROOM
        return [self.memory[start + 16 * i:start + 16 * i + 16].rstrip(b"\0").decode() for i in range(ROOM)]

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
        self.given = name
        names = list(ERRORS)  # before a program has mapped the file
        index = self._names().index(name) if self.names_known() else names.index(name)
        struct.pack_into("=5I", self.memory, 4, number, error_number(error), lasting, 0, 0)
        struct.pack_into("1992s", self.memory, 40, b"")
        struct.pack_into("=I", self.memory, 0, 1 + index)

    def end(self):
        """Ends the order: how many calls could have failed, and how many did."""
        struct.pack_into("=I", self.memory, 0, 0)
        return struct.unpack_from("=2I", self.memory, 16)

    def where(self):
        """The callers of the call that failed, as functions and lines."""
        frames = self.memory[40:40 + 1992].split(b"\0")[0].decode().splitlines()
        found = []
        for frame in frames:
            file, _, offset = frame.rpartition("+")
            done = subprocess.run(["addr2line", "-fse", file, offset], capture_output=True, text=True)
            lines = done.stdout.split() or ["??", "??"]
            found.append("%s (%s)" % (lines[0], lines[-1]) if lines[0] != "??" else
                         "%s+%s" % (os.path.basename(file), offset))
        return " < ".join(found[:14])
