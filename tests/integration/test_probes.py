"""A tracer that is attached to a running agent: each probe fires, with the lease's name, token and time."""

import os
import queue
import subprocess
import threading

import lab
import pages
from tap import equal, main, ok, skip, within

LINES = "\n".join(
    'usdt:*:redlockd:%s { printf("%s %%s %%ld %%ld %%s\\n", str(arg0), arg2, arg3, %s); }' % (
        probe, probe, "str(arg4)" if probe == "loss" else '"-"')
    for probe in ("grant", "handoff", "extend", "loss"))


def can_trace():
    """Needs root, bpftrace, and a kernel that permits it, which that of a container often does not."""
    try:
        traced = subprocess.run(["bpftrace", "-e", "uprobe:%s:main { } BEGIN { exit(); }" % lab.REDLOCKD],
                                capture_output=True, timeout=30 * lab.SCALE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return traced.returncode == 0 and b"Attaching" in traced.stdout


class Tracer:
    """A bpftrace at a terminal (a pipe would get its lines late), and its lines by their first words."""

    def __init__(self, arguments, **options):
        self.terminal, inner = os.openpty()
        self.process = lab.spawn(arguments, stdin=subprocess.DEVNULL, stdout=inner,
                                 stderr=subprocess.DEVNULL, **options)
        os.close(inner)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            with open(self.terminal) as lines:
                for line in lines:
                    self.lines.put(line.split())
        except OSError:  # EIO: the tracer has ended
            pass

    def seen(self, *words):
        """The next line that begins so, if there is one by now."""
        while not self.lines.empty():
            line = self.lines.get()
            if tuple(line[:len(words)]) == words:
                return line
        return None

    def next(self, *words):
        return lab.wait_for(lambda: self.seen(*words), 20, "a line %s of the tracer" % " ".join(words))

    def attached(self, cause, *words):
        """Repeats the cause of a line until the tracer shows it: a tracer does not say when it begins."""
        return lab.wait_for(lambda: cause() and self.seen(*words), 30, "a tracer that is attached")

    def end(self):
        """A tracer misses a signal now and then; its probes end with its process in any case."""
        self.process.terminate()
        try:
            self.process.wait(5 * lab.SCALE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def pair(client, name):
    """Acquires and releases."""
    return client.call("RELEASE", client.acquire(name, "WAIT", 5000)["id"]) == 1


def hand_on(agent, tokens):
    """From one waiter to the next: by hand, if the lease is younger than 50 ms."""
    line = [agent.client(3) for _ in range(3)]
    for i, client in enumerate(line):
        client.send("ACQUIRE", "handed", "WAIT", -1)
        lab.wait_for(lambda: agent.status()["waiters"] + agent.status()["leases"] > i, what="the waiter")
    for client in line:
        grant = lab.as_map(client.reply())
        tokens.append(grant["fence"])
        client.call("RELEASE", grant["id"])
        client.close()
    return True


def test_each_probe():
    agent = lab.Agent(lab.nodes(3), lab.UNHURRIED + 'max_hold = "10s"\n')
    client = agent.client(3)
    tracer = Tracer(["bpftrace", "-p", str(agent.process.pid), "-e", LINES])
    for probe in ("grant", "extend"):
        held = client.acquire("first", "TTL", 1500, "WAIT", 5000)
        tracer.attached(lambda: pair(client, "next"), probe)
        client.call("RELEASE", held["id"])
    begun = lab.now()
    grant = client.acquire("traced", "TTL", 1500, "WAIT", 5000)
    line = tracer.next("grant", "traced")
    equal(int(line[2]), grant["fence"], "grant: the name and the fencing token")
    within(int(line[3]), 1, 1e6 * (lab.now() - begun), "the microseconds since the request")
    line = tracer.next("extend", "traced")
    equal(int(line[2]), grant["fence"], "extend: the same token")
    client.call("RELEASE", grant["id"])
    tokens = []
    line = tracer.attached(lambda: hand_on(agent, tokens), "handoff", "handed")
    ok(int(line[2]) in tokens, "handoff: that of the next holder")
    lost = client.acquire("short", "TTL", 1500, "MAXHOLD", 200, "WAIT", 5000)
    reason = client.push("lost")[2]
    line = tracer.next("loss", "short")
    equal((int(line[2]), line[4]), (lost["fence"], reason), "loss: the token and the reason")
    begun = lab.now()
    gone = agent.client(3)
    lost = gone.acquire("left", "TTL", 1500, "MAXHOLD", 200, "LINGER", 5000, "WAIT", 5000)
    gone.close()
    line = tracer.next("loss", "left")
    equal((int(line[2]), line[4]), (lost["fence"], "max-hold"), "also of a lease that outlives its session")
    within(int(line[3]), 100_000, 1e6 * (lab.now() - begun), "the microseconds since its request")
    tracer.end()
    ok(pair(client, "traced"), "the agent goes on without the tracer")
    equal(agent.terminate(), 0, "and ends in order")


def test_example():
    """That of redlockd(8): grants that take more than 5 ms."""
    nodes = [lab.Proxy(node) for node in lab.nodes(3)]
    agent = lab.Agent(nodes, lab.UNHURRIED, node_config="db = 1")
    client = agent.client(3)
    places = lab.path("bin")
    os.mkdir(places)
    pidof = os.path.join(places, "pidof")
    with open(pidof, "w") as file:
        file.write("#!/bin/sh\necho %d\n" % agent.process.pid)  # of several agents on this machine
    os.chmod(pidof, 0o755)
    tracer = Tracer(["sh", "-c", "exec " + pages.find("redlockd.8", "bpftrace")],
                    env=dict(os.environ, PATH=places + ":" + os.environ["PATH"]))
    for node in nodes:
        node.delay = 0.01
    line = tracer.attached(lambda: pair(client, "slow"), "slow")
    ok(int(line[1]) > 5000 and line[2] == "us", "it prints the name and the time: %s" % " ".join(line))
    tracer.end()
    agent.terminate()


if can_trace():
    main(test_each_probe, test_example)
else:
    main(lambda: skip("probes with a tracer", "no bpftrace, or a kernel that does not permit it"))
