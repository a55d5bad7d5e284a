"""What goes over a client's connection: whole answers or nothing, whatever the kernel refuses."""

import array
import os
import shutil
import socket

import lab
from descriptor_store import KeptAgent
from tap import equal, main, ok

LINES = 10  # of one kind in the log, before they are counted only
DESCRIPTORS = 256  # of the agent, which may be told of as many in flight

nodes = lab.nodes(1)
# Whoever may use any amount of the system's resources has no bound on descriptors in flight.
BOUNDED = ["prlimit", "--nofile=%d" % DESCRIPTORS]
if os.getuid() == 0:
    BOUNDED += ["setpriv", "--no-new-privs", "--bounding-set=-sys_resource,-sys_admin"]


class InFlight:
    """Descriptors that were sent and not received: the kernel bounds their number by user."""

    def __init__(self, count):
        self.pairs = []
        file = os.open("/dev/null", os.O_RDONLY)
        while count > 0:
            some = min(count, 250)  # a message takes no more than 253
            pair = socket.socketpair()
            socket.send_fds(pair[0], [b"x"], [file] * some)
            self.pairs.append(pair)
            count -= some
        os.close(file)

    def land(self):
        for pair in self.pairs:
            for end in pair:
                end.close()


def receive(client, wanted):
    """What comes until the agent has nothing more to say, and how many descriptors came with it."""
    data, fds = b"", []
    client.socket.settimeout(10 * lab.SCALE)
    while len(data) < wanted:
        more, ancillary, _, _ = client.socket.recvmsg(65536, 1024)
        if not more:
            break
        data += more
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += array.array("i", content)
    client.socket.settimeout(0.1)
    try:
        data += client.socket.recv(65536)
    except socket.timeout:
        pass
    for fd in fds:
        os.close(fd)
    return data, len(fds)


PAGE_REPLY = b"*6\r\n$7\r\nversion\r\n:1\r\n$5\r\nbytes\r\n:65536\r\n$5\r\nslots\r\n:4092\r\n"


def test_page_that_cannot_be_passed():
    if not shutil.which("prlimit") or not shutil.which("setpriv"):
        ok(True, "no prlimit or setpriv here # SKIP")
        return
    agent = lab.Agent(nodes, prefix=BOUNDED)
    other = agent.client()
    secret = other.acquire("other's", "RESUMABLE")["secret"].encode()
    in_flight = InFlight(DESCRIPTORS + 1)
    clients = [agent.client() for _ in range(LINES + 2)]
    before, behind = b"before" * 300, b"behind" * 300
    expected = (b"$%d\r\n%s\r\n" % (len(before), before)) + PAGE_REPLY + \
        (b"$%d\r\n%s\r\n" % (len(behind), behind))
    for client in clients:
        client.send_raw(b"ECHO " + before + b"\r\nPAGE\r\nECHO " + behind + b"\r\n")
    for client in clients:
        data, fds = receive(client, len(expected))
        ok(secret not in data, "nothing of another client's")
        equal((data, fds), (expected, 0), "every byte that was composed, and no other; without the page")
        client.send_raw(b"PING\r\n")
        equal(receive(client, 7)[0], b"+PONG\r\n", "the session goes on")
    in_flight.land()
    late = agent.client()
    late.send_raw(b"PAGE\r\n")
    equal(receive(late, len(PAGE_REPLY)), (PAGE_REPLY, 1), "once they have landed, pages are passed again")
    equal(agent.log_text().count("can't pass"), LINES, "the log says what could not be done, not each time")
    agent.kill()


def switches(agent):
    """How often the agent's threads have slept so far."""
    total = 0
    for task in os.listdir("/proc/%d/task" % agent.process.pid):
        with open("/proc/%d/task/%s/status" % (agent.process.pid, task)) as file:
            total += [int(line.split()[1]) for line in file if line.startswith("voluntary")][0]
    return total


def test_store_that_cannot_be_reached():
    if not shutil.which("prlimit") or not shutil.which("setpriv"):
        ok(True, "no prlimit or setpriv here # SKIP")
        return
    agent = KeptAgent(nodes, prefix=BOUNDED)
    in_flight = InFlight(DESCRIPTORS + 1)
    client = agent.client()
    grant = client.acquire("kept")
    lab.wait_for(lambda: "can't store" in agent.log_text(), what="the store to be tried")
    begun, before = lab.now(), switches(agent)
    lab.wait_for(lambda: lab.now() - begun > 1.2, what="a second to pass")
    ok((switches(agent) - before) / (lab.now() - begun) < 40 * lab.SCALE,
       "what the kernel refuses is not tried all the time")
    ok(client.call("CHECK", grant["id"]) > 0, "and the lease goes on meanwhile")
    in_flight.land()
    lab.wait_for(lambda: any(name.startswith("session-") for name in agent.names()),
                 what="the session in the store")
    agent.kill()
    agent.start()
    ok(client.call("CHECK", grant["id"]) > 0, "then it is stored, and goes on at the next process")
    agent.kill()


def test_nobody_reads():
    agent = lab.Agent(nodes)
    client = agent.client()
    held = client.acquire("held")["id"]
    client.socket.shutdown(socket.SHUT_RD)
    client.send("RELEASE", held)
    client.send("ACQUIRE", "unheard", "TTL", 60000)
    other = agent.client()
    ok("id" in other.acquire("held", "WAIT", 5000),
       "a client that does not read any more: what it sent before that shows is worked on")
    lab.wait_for(lambda: agent.status()["sessions"] == 2, what="the end of its session")
    ok("id" in other.acquire("unheard", "WAIT", 5000), "and its session ends, with its leases")
    agent.kill()


def test_log_flood():
    agent = lab.Agent(nodes)
    for i in range(300):
        client = agent.client()
        client.acquire("noisy %d" % i, "TTL", 100)
        client.send_raw(b"*1\r\n:1\r\n")
        client.close()
    lab.wait_for(lambda: agent.status()["sessions"] == 1, what="the end of the sessions")
    equal(agent.log_text().count("malformed"), LINES,
          "of 300 sessions that end by a malformed request, some are logged; test-log-limit has the rest")
    agent.kill()


main(test_nobody_reads, test_log_flood, test_page_that_cannot_be_passed, test_store_that_cannot_be_reached)
