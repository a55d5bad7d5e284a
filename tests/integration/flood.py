"""flood.py SOCKET FORM SECONDS: sends an agent far more than it can serve, from a process of another user if
possible. FORMS has what there is, and CONNECTING. For the tests and the benchmark."""

import ctypes
import itertools
import os
import re
import resource
import select
import signal
import socket
import sys
import time

REQUESTS = 130000
CONNECTIONS = 1000
NOBODY = 65534
NO_LEASE = os.EX_TEMPFAIL  # the exit status of a form that needs a lease
PR_SET_PDEATHSIG = 1


def request(*items):
    bulks = [b"$%d\r\n%s\r\n" % (len(item), item) for item in items]
    return b"*%d\r\n%s" % (len(items), b"".join(bulks))


def connect(socket_path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(socket_path)
    connection.setblocking(False)
    return connection


class Flow:
    """What one connection sends: an iterator of chunks. `reads`: whether it reads replies. `again`: when the
    agent ends the connection, or all is sent, the next one begins."""

    def __init__(self, socket_path, chunks, reads=True, again=False):
        self.socket_path, self.make, self.reads, self.again = socket_path, chunks, reads, again
        self.open()

    def open(self):
        self.connection, self.chunks, self.rest = connect(self.socket_path), iter(self.make()), b""
        self.done = False

    def events(self):
        return (select.POLLIN if self.reads else 0) | (0 if self.done else select.POLLOUT)

    def turn(self, events):
        """False: the connection has ended."""
        try:
            if events & select.POLLIN and not self.connection.recv(1 << 20):
                return False
            if events & select.POLLOUT:
                self.rest = self.rest or next(self.chunks, b"")
                self.rest = self.rest[self.connection.send(self.rest):]
                if not self.rest:
                    self.rest = next(self.chunks, b"")
                    self.done = not self.rest
        except BlockingIOError:
            pass
        except OSError:
            return False
        return not events & select.POLLHUP and not (self.done and self.again)


def send_all_the_time(flows, seconds):
    until = time.monotonic() + seconds
    poll = select.poll()
    by_fd = {}

    def watch(flow):
        by_fd[flow.connection.fileno()] = flow
        poll.register(flow.connection.fileno(), flow.events())

    for flow in flows:
        watch(flow)
    while time.monotonic() < until and by_fd:
        for fd, events in poll.poll(100):
            flow = by_fd[fd]
            if flow.turn(events):
                poll.modify(fd, flow.events())
                continue
            poll.unregister(fd)
            del by_fd[fd]
            flow.connection.close()
            if flow.again:
                flow.open()
                watch(flow)


CONNECTING = "connecting"


def connect_all_the_time(socket_path, seconds):
    """As a program does that tries again at once, whatever it gets."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connect(socket_path).close()


# --- what each connection sends ---

def in_chunks(requests):
    data = b"".join(requests)
    return [data[at:at + (1 << 18)] for at in range(0, len(data), 1 << 18)]


def for_ever(*items):
    """The same request again and again."""
    chunk = request(*items)
    chunk *= max(1, (1 << 16) // len(chunk))
    return lambda: itertools.repeat(chunk)


def numbered(make):
    """Requests for ever, each with another number."""
    def chunks():
        for at in itertools.count(0, 500):
            yield b"".join(make(i) for i in range(at, at + 500))
    return chunks


def from_each(count, make, **options):
    """Flows from so many connections; make(number) has the chunks of one."""
    return lambda path: [Flow(path, make(number), **options) for number in range(count)]


def acquire(number, *options):
    return numbered(lambda i: request(b"ACQUIRE", b"f%d-%d" % (number, i), *options, b"ASYNC"))


def observe(number):
    return numbered(lambda i: request(b"OBSERVE", b"o%d-%d" % (number, i)) +
                    request(b"UNOBSERVE", b"o%d-%d" % (number, i - 20)))


def valid_token(path):
    """Of a lease; the agent takes it for each name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        own.connect(path)
        own.sendall(request(b"ACQUIRE", b"token-%d" % os.getpid(), b"RESUMABLE"))
        reply = b""
        while not (found := re.search(rb"\$6\r\nsecret\r\n\$\d+\r\n(\S+)\r\n", reply)):
            data = own.recv(4096)
            if not data or reply.startswith(b"-"):
                sys.exit(NO_LEASE)
            reply += data
    return found[1]


def resumptions(path):
    token = valid_token(path)

    def of(number):
        return numbered(lambda i: request(b"RESUME", b"r%d-%d" % (number, i), token, b"WAIT", b"10000",
                                          b"ASYNC"))
    return [Flow(path, of(number)) for number in range(64)]


# One connection, all requests in a row, with long names.
def pipelined(path):
    return [Flow(path, lambda: in_chunks(request(b"ACQUIRE", b"%0490d" % i, b"ASYNC")
                                         for i in range(REQUESTS)))]


HALF = b"*32\r\n" + (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 31 + b"$4096\r\n"
LARGE = b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 900000 + b"\r\n"

FORMS = {
    "pipelined": pipelined,
    # A thousand connections, each with a few dozen requests in a row.
    "everywhere": from_each(CONNECTIONS, lambda n: lambda: [
        b"".join(request(b"ACQUIRE", b"c%d-%d" % (n, i), b"ASYNC") for i in range(60))]),
    "sessions": from_each(64, lambda n: lambda: [request(b"PING")], again=True),
    "leases": from_each(64, lambda n: acquire(n, b"TTL", b"100")),
    "waiters": from_each(64, lambda n: for_ever(b"ACQUIRE", b"same", b"WAIT", b"60000", b"ASYNC")),
    "names": from_each(64, observe),
    "LEADER": from_each(64, lambda n: for_ever(b"LEADER", b"same")),
    "half requests": from_each(CONNECTIONS, lambda n: lambda: itertools.chain([HALF],
                                                                           itertools.repeat(b"x", 2000))),
    "large requests": from_each(64, lambda n: lambda: itertools.repeat(LARGE)),
    "valid RESUME": resumptions,
    "RESUME": from_each(64, lambda n: for_ever(b"RESUME", b"same", b"no secret" * 20)),
    "LEASES": from_each(500, lambda n: for_ever(b"LEASES")),
    "STATUS": from_each(64, lambda n: for_ever(b"STATUS")),
    "METRICS": from_each(64, lambda n: for_ever(b"METRICS")),
    "HISTORY": from_each(64, lambda n: for_ever(b"HISTORY", b"same")),
    "COMMAND": from_each(500, lambda n: for_ever(b"COMMAND")),
    "unread": from_each(500, lambda n: for_ever(b"ECHO", b"x" * 4096), reads=False),
    "unread ASYNC": from_each(500, lambda n: acquire(n), reads=False),
}


def main(socket_path, form, seconds):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if form == CONNECTING:
        connect_all_the_time(socket_path, float(seconds))
    else:
        send_all_the_time(FORMS[form](socket_path), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
