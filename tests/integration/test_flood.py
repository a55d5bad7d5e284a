"""Floods by another user: nobody's lease is lost to them, and others get new leases meanwhile."""

import os
import resource
import select
import socket
import sys
import time

import lab
from tap import equal, main, ok

TTL_MS = 2000
LEASES = 100
REQUESTS = 130000
CONNECTIONS = 1000
NOBODY = 65534

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
nodes = lab.nodes(3)
agent = lab.Agent(nodes, "max_sessions = 3000")
agent.wait_voting(3)
os.chmod(lab.directory, 0o711)


def request(*items):
    bulks = [b"$%d\r\n%s\r\n" % (len(item), item) for item in items]
    return b"*%d\r\n%s" % (len(items), b"".join(bulks))


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(agent.socket_path)
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


def pipelined():
    """One connection, all requests in a row, with long names."""
    data = b"".join(request(b"ACQUIRE", b"%0490d" % i, b"ASYNC") for i in range(REQUESTS))
    chunks = [data[at:at + (1 << 18)] for at in range(0, len(data), 1 << 18)]
    send_all_the_time([(connect(), iter(chunks))], 5)


def from_everywhere():
    """A thousand connections, each with a few dozen requests in a row."""
    flows = []
    for number in range(CONNECTIONS):
        requests = b"".join(request(b"ACQUIRE", b"c%d-%d" % (number, i), b"ASYNC") for i in range(60))
        flows.append((connect(), iter([requests])))
    send_all_the_time(flows, 4)


def as_another(function):
    """In a process of another user, if there may be one."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setresuid(NOBODY, NOBODY, NOBODY)
            lab.die_with_parent()
            function()
        finally:
            os._exit(0)
    return pid


def meanwhile(function, what):
    holder, taker = agent.client(3), agent.client(3)
    lab.wait_for(lambda: isinstance(holder.acquire("room for " + what), dict), 20, "the last flood's end")
    held = [holder.acquire("%s-%d" % (what, i), "TTL", TTL_MS, "WAIT", 5000)["id"] for i in range(LEASES)]
    took = []
    pid = as_another(function)
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        begun = lab.now()
        grant = taker.acquire("taken", "TTL", TTL_MS)
        if isinstance(grant, dict):
            took.append(lab.now() - begun)
            taker.call("RELEASE", grant["id"])
    lost = [id for id in held if holder.call("CHECK", id) == 0]
    if lost:
        print("#", holder.pushes[-5:], agent.status())
    equal(lost, [], "%s: nobody's lease is lost" % what)
    ok(len(took) > 10 and lab.median(took) < 0.1 * lab.SCALE, "others get leases meanwhile")
    print("# %d, p50 %.1f ms, p99 %.1f ms" % (
        len(took), 1e3 * lab.median(took), 1e3 * sorted(took)[len(took) * 99 // 100]))
    holder.close()
    taker.close()


def test_pipelined():
    meanwhile(pipelined, "130,000 requests in a row")


def test_connections():
    meanwhile(from_everywhere, "a thousand connections")


class Torrent(lab.FakeNode):
    """Answers script calls without an end."""

    def __init__(self, name, head, rest):
        super().__init__(name)
        self.answer = head + rest * (64 << 20 >> 16)

    def _reply(self, word, items):
        return self.answer if word == b"EVALSHA" else super()._reply(word, items)


def resident_kib(process):
    with open("/proc/%d/status" % process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def test_answers():
    long = b"x" * 65528
    for head, rest, what in ((b"$4000000000\r\n", long, "a string of 4 GB"),
                             (b"*1000000\r\n", b"$%d\r\n%s\r\n" % (len(long), long), "a million elements")):
        beside = lab.Agent(lab.nodes(2) + [Torrent("torrent", head, rest)])
        beside.wait_voting(3)
        before = resident_kib(beside.process)
        client = beside.client(3)
        grant = client.acquire("beside " + what, "WAIT", 5000)
        ok("id" in grant, "%s as a node's answer: the others grant a lease" % what)
        beside.wait_node("torrent", reason="an answer has more than 1048576 bytes")
        ok(resident_kib(beside.process) - before < 16384, "the agent keeps little of it, and NODES tells")
        ok(client.call("CHECK", grant["id"]) > 0, "the lease goes on")
        client.close()
        beside.kill()


def test_memory():
    """Each of these has as much of a request as the agent may have to keep."""
    before = resident_kib(agent.process)
    half = b"*32\r\n" + (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 31
    clients = [agent.client() for _ in range(1000)]
    for client in clients:
        client.send_raw(half)
    later = agent.client()  # what was allocated last stays
    later.call("ECHO", "x" * 4096)
    lab.wait_for(lambda: resident_kib(agent.process) > before + 64 * 1024, what="the agent's reading")
    for client in clients:
        client.close()
    lab.wait_for(lambda: resident_kib(agent.process) < before + 16 * 1024, what="the memory's return")
    later.close()
    ok(True, "what a thousand half requests took is given back when they are gone")


main(test_memory, test_pipelined, test_connections, test_answers)
