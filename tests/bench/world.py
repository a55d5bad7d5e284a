"""Nodes, agents and load generators for the benchmark, and their numbers from /proc."""

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import lab  # noqa: E402

PATIENCE_SECONDS = 180
BENCH = os.path.join(lab.BUILD, "tests", "bench", "bench")
KEEPERS = 1  # as by default
turn_order = random.Random(1)


def in_turns(compared):
    """The series to compare, in a new random order for each round. Servers stay on the cores of the
    former turn, so no series may always follow the same one."""
    return turn_order.sample(list(compared), len(compared))


node_kind = lab.TcpNode


def by_unix_sockets():
    """From now on nodes are reached over Unix sockets."""
    global node_kind
    node_kind = lab.Node


def how_asked():
    return "over TCP, on this host" if node_kind is lab.TcpNode else "over Unix sockets"


def new_nodes(count):
    return lab.nodes(count, kind=node_kind)


class World:
    """Nodes of its own, and agents over them. The first agent blesses the nodes for the floor too."""

    def __init__(self, count, agents=1, config=""):
        self.nodes = new_nodes(count)
        self.agents = [self.agent(config) for _ in range(agents)]

    def agent(self, config=""):
        agent = lab.Agent(self.nodes, config, keepers=KEEPERS)
        agent.wait_voting(len(self.nodes))
        return agent

    @property
    def places(self):
        """The nodes' addresses, for the programs that use them directly."""
        return [node.address.removeprefix("unix:") for node in self.nodes]

    @property
    def socket(self):
        return self.agents[0].socket_path

    @property
    def servers(self):
        return [server.process for server in (*self.nodes, *self.agents)]

    def end(self):
        for agent in self.agents:
            agent.kill()
        for node in self.nodes:
            node.kill()


class Job:
    """A load generator that runs until its input ends. Its first line reports that it has begun."""

    def __init__(self, *arguments):
        self.process = lab.spawn([BENCH, *map(str, arguments)], bufsize=0, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        self.begun = self.line()

    def line(self):
        if not select.select([self.process.stdout], [], [], PATIENCE_SECONDS)[0]:
            raise TimeoutError("%s says nothing" % self.process.args)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("%s ended with status %s" % (self.process.args[1:3], self.process.wait()))
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        line = self.process.stdout.readline()
        self.process.wait()
        return json.loads(line) if line else {}

    def kill(self):
        lab.end_process(self.process)


class Relay:
    """The least that can stand between clients and these nodes."""

    def __init__(self, places):
        self.socket = lab.path("relay.sock")
        self.process = lab.spawn([BENCH, "relay", self.socket, *places])
        lab.wait_for(lambda: os.path.exists(self.socket), what="the relay")

    def end(self):
        lab.end_process(self.process)


def bench(*arguments, **options):
    """Runs a load generator to its end: what it measured."""
    process = lab.spawn([BENCH, *map(str, arguments)], stdout=subprocess.PIPE, **options)
    out = process.communicate(timeout=600)[0]
    if process.returncode != 0:
        raise RuntimeError("bench %s: status %d" % (" ".join(map(str, arguments)), process.returncode))
    return json.loads(out.splitlines()[-1])


def load(through, form, clients, ms, *places, **options):
    return bench("load", through, form, clients, ms, *places, **options)


def tasks(pid):
    return ["/proc/%d/task/%s" % (pid, task) for task in os.listdir("/proc/%d/task" % pid)]


def put_on(cores, servers):
    os.sched_setaffinity(0, cores)
    for server in servers:
        for task in tasks(server.pid):
            os.sched_setaffinity(int(task.rpartition("/")[2]), cores)


@contextlib.contextmanager
def on_one_core(*servers):
    """Meanwhile these servers, and all that is started, share a core: whom a byte wakes is there already."""
    cores = os.sched_getaffinity(0)
    put_on({min(cores)}, servers)
    try:
        yield
    finally:
        put_on(cores, servers)


def cpu_ms(*processes):
    """CPU time of all threads so far."""
    total = 0
    for process in processes:
        for task in tasks(process.pid):
            with open(task + "/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e6


def switches(process):
    """How often its threads were woken so far."""
    total = 0
    for task in tasks(process.pid):
        with open(task + "/status") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return total


def rss_bytes(process):
    with open("/proc/%d/status" % process.pid) as file:
        return [int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS")][0]


def monotonic_us():
    return time.monotonic() * 1e6


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
