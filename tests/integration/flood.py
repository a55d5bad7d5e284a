"""flood.py SOCKET pipelined|everywhere SECONDS: asks an agent for far more than it can do, in a process of
another user if there may be one. For the tests and the benchmark."""

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import time

REQUESTS = 130000
CONNECTIONS = 1000
NOBODY = 65534
PR_SET_PDEATHSIG = 1


def request(*items):
    bulks = [b"$%d\r\n%s\r\n" % (len(item), item) for item in items]
    return b"*%d\r\n%s" % (len(items), b"".join(bulks))


def connect(socket_path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(socket_path)
    connection.setblocking(False)
    return connection


def send_all_the_time(flows, seconds):
    """`flows`: by connection, an iterator of requests. Reads what comes back, and goes on with the next flow
    when one is ended by the agent."""
    until = time.monotonic() + seconds
    poll = select.poll()
    by_fd = {connection.fileno(): [connection, flow, b""] for connection, flow in flows}
    for fd in by_fd:
        poll.register(fd, select.POLLIN | select.POLLOUT)
    while time.monotonic() < until and by_fd:
        for fd, events in poll.poll(100):
            flow = by_fd[fd]
            try:
                if events & select.POLLIN and not flow[0].recv(1 << 20):
                    raise ConnectionError
                if events & select.POLLOUT:
                    flow[2] = flow[2] or next(flow[1], b"")
                    flow[2] = flow[2][flow[0].send(flow[2]):]
                    if not flow[2]:
                        poll.modify(fd, select.POLLIN | (select.POLLOUT if flow[1].__length_hint__() else 0))
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(fd)
                del by_fd[fd]


def pipelined(socket_path, seconds):
    """One connection, all requests in a row, with long names."""
    data = b"".join(request(b"ACQUIRE", b"%0490d" % i, b"ASYNC") for i in range(REQUESTS))
    chunks = [data[at:at + (1 << 18)] for at in range(0, len(data), 1 << 18)]
    send_all_the_time([(connect(socket_path), iter(chunks))], seconds)


def from_everywhere(socket_path, seconds):
    """A thousand connections, each with a few dozen requests in a row."""
    flows = []
    for number in range(CONNECTIONS):
        requests = b"".join(request(b"ACQUIRE", b"c%d-%d" % (number, i), b"ASYNC") for i in range(60))
        flows.append((connect(socket_path), iter([requests])))
    send_all_the_time(flows, seconds)


def main(socket_path, form, seconds):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    {"pipelined": pipelined, "everywhere": from_everywhere}[form](socket_path, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
