"""Other lock services, where they are installed: node-redlock (npm), redis-py's Lock and etcd (Debian)."""

import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile

from results import target
from world import HERE, Job, World, bench, in_turns, lab, load, monotonic_us, on_one_core

WORKERS = (16, 64)  # of one process
APART_SECONDS = 10  # until as many processes have started and warmed up
INSTALL_SECONDS = 120
IOREDIS = "ioredis@6.0.0"


class Absent(Exception):
    """The reason why a peer is not measured."""


class Program:
    """A peer's worker that runs until it is ended, like world.Job."""

    def __init__(self, command, environment):
        self.process = lab.spawn(command, bufsize=0, env=environment, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        self.line()

    line = Job.line
    kill = Job.kill


class Peer:
    nodes = 0
    command = ()
    places = ()
    environment = None
    servers = ()  # of its own

    def begin(self, mode, *given):
        return lab.spawn([*self.command, mode, *map(str, given), *self.places], env=self.environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self, process):
        try:
            said, complaint = process.communicate(timeout=120)
        finally:
            lab.end_process(process)
        if process.returncode != 0 or not said:
            raise RuntimeError("%s: %s" % (self.name, complaint.strip()[-300:]))
        return json.loads(said)

    def run(self, mode, *given):
        return self.result(self.begin(mode, *given))

    def program(self, mode, *given):
        return Program([*self.command, mode, *map(str, given), *self.places], self.environment)

    def acquire_us(self, ms):
        return self.run("acquire", ms)["p50"]

    def pairs(self, workers, ms):
        return self.run("pairs", workers, ms, 0)["pairs_per_second"]

    def pairs_apart(self, processes, ms):
        """Measures that many processes with one worker each."""
        moment = int(monotonic_us() + APART_SECONDS * 1e6)
        begun = [self.begin("pairs", 1, ms, moment) for _ in range(processes)]
        return sum(self.result(process)["pairs_per_second"] for process in begun)

    def handoff_us(self, count):
        return self.run("handoff", count)["p50"]

    def failover_us(self, name, ttl_ms):
        """From kill -9 of the holder to the waiter's grant."""
        holder = self.program("hold", name, ttl_ms)
        waiter = self.program("await", name, ttl_ms)
        begun_us = monotonic_us()
        holder.kill()
        took_us = waiter.line()["at_us"] - begun_us
        waiter.kill()
        return took_us

    def end(self):
        pass


class NodeRedlock(Peer):
    """The version that npm installs by default."""
    name, nodes, package = "node-redlock 4", 5, "redlock@4.2.0"

    def __init__(self, world):
        if not shutil.which("node") or not shutil.which("npm"):
            raise Absent("node and npm are not installed")
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        cache = os.path.join(cache, "redlockd-bench", self.package)
        modules = os.path.join(cache, "node_modules")
        if not all(os.path.exists(os.path.join(modules, name)) for name in ("redlock", "ioredis")):
            self.install(cache)
        self.version = "redlock %s, ioredis %s" % (self.version_of(modules, "redlock"),
                                                   self.version_of(modules, "ioredis"))
        self.command = ("node", os.path.join(HERE, "peer.js"))
        self.environment = dict(os.environ, NODE_PATH=modules)
        self.places = world.places

    def install(self, cache):
        os.makedirs(cache, exist_ok=True)
        try:
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", cache,
                                   self.package, IOREDIS], cwd=cache, capture_output=True, text=True,
                                  timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise Absent("npm did not reach its registry in time") from None
        if done.returncode != 0:
            raise Absent("npm could not install it: " + done.stderr.strip().split("\n")[-1])

    def version_of(self, modules, name):
        with open(os.path.join(modules, name, "package.json")) as file:
            return json.load(file)["version"]


class NodeRedlockBeta(NodeRedlock):
    """The version that its documentation describes, a beta for years."""
    name, package = "node-redlock 5", "redlock@5.0.0-beta.2"


class RedisPy(Peer):
    """One server, its purpose."""
    name, nodes = "redis-py Lock", 1

    def __init__(self, world):
        done = subprocess.run(["/usr/bin/python3", "-c", "import redis; print(redis.__version__)"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Absent("python3-redis is not installed")
        self.version = "redis-py %s, one server, threads" % done.stdout.strip()
        self.command = ("/usr/bin/python3", os.path.join(HERE, "peer.py"), "redis")
        self.places = world.places[:1]


class Etcd(Peer):
    name, nodes = "etcd", 3

    def __init__(self, world):
        if not shutil.which("etcd"):
            raise Absent("etcd-server is not installed")
        said = subprocess.run(["etcd", "--version"], capture_output=True, text=True).stdout
        self.version = "etcd %s, three members on tmpfs, HTTP, threads" % said.split("\n")[0].split()[-1]
        self.command = ("/usr/bin/python3", os.path.join(HERE, "peer.py"), "etcd")
        self.directory = tempfile.mkdtemp(prefix="redlock-etcd-", dir="/dev/shm")
        ports = [free_port() for _ in range(6)]
        cluster = ",".join("m%d=http://127.0.0.1:%d" % (i, ports[3 + i]) for i in range(3))
        self.servers = [self.member(i, ports[i], ports[3 + i], cluster) for i in range(3)]
        self.places = [str(port) for port in ports[:3]]
        lab.wait_for(self.serves, 30, what="etcd")

    def member(self, number, port, peer_port, cluster):
        url, peer_url = "http://127.0.0.1:%d" % port, "http://127.0.0.1:%d" % peer_port
        return lab.spawn(["etcd", "--name", "m%d" % number, "--data-dir", "%s/%d" % (self.directory, number),
                          "--listen-client-urls", url, "--advertise-client-urls", url,
                          "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
                          "--initial-cluster", cluster, "--log-level", "error"], stderr=subprocess.DEVNULL)

    def serves(self):
        try:
            return self.run("acquire", 1)
        except RuntimeError:
            return False

    def end(self):
        for member in self.servers:
            lab.end_process(member)
        shutil.rmtree(self.directory, ignore_errors=True)


class Agent(Peer):
    """The agent, measured in the same way: workers are connections of one process."""
    name, nodes = "agent", 5

    def __init__(self, world):
        self.version, self.socket = "this tree", world.socket

    def acquire_us(self, ms):
        return load("agent", "connections", 1, ms, self.socket)["acquire"]["p50"]

    def pairs(self, workers, ms):
        ms = max(ms, 4 * workers)
        return load("agent", "connections", workers, ms, self.socket)["pairs_per_second"]

    def pairs_apart(self, processes, ms):
        return load("agent", "processes", processes, ms, self.socket)["pairs_per_second"]

    def handoff_us(self, count):
        return bench("held", self.socket, count)["handoff"]["p50"]

    def failover_us(self, name, ttl_ms):
        holder = Job("hold", self.socket, name, 1, 1, ttl_ms, 0)
        waiter = Job("await", self.socket, name + "-0", ttl_ms)
        begun_us = monotonic_us()
        holder.kill()
        took_us = waiter.line()["at_us"] - begun_us
        waiter.kill()
        return took_us


class AgentWithoutTokens(Agent):
    """The agent with the libraries' promises: without fencing tokens."""
    name = "agent, no tokens"

    def __init__(self, world):
        self.agent = world.agent("fencing = no")
        self.servers = [self.agent.process]
        self.version, self.socket = "this tree, fencing = no", self.agent.socket_path

    def end(self):
        self.agent.kill()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


KINDS = (Agent, AgentWithoutTokens, NodeRedlock, NodeRedlockBeta, RedisPy, Etcd)
REDLOCKS = (NodeRedlock.name, NodeRedlockBeta.name)
LIBRARIES = (*REDLOCKS, RedisPy.name)


def started(results, settings, world):
    """The peers that are available; for the others the reasons."""
    found = []
    for kind in KINDS[:settings.peer_kinds]:
        try:
            peer = kind(world)
        except Absent as absent:
            results.peers[kind.name] = {"nodes": kind.nodes, "absent": str(absent)}
            continue
        results.peers[kind.name] = {"nodes": kind.nodes, "version": peer.version}
        found.append(peer)
    return found


def floor_us(places, ms):
    return load("floor", "connections", 1, ms, *places)["acquire"]["p50"]


def beside(results, key, text, libraries, shown=(), **bound):
    """Rows for the agent, with and without tokens, beside each library. The bound applies to the library
    beside which the agent does worst; not to those in `shown`."""
    measured = results.row(key)
    there = [name for name in libraries if name in measured.series]
    if not there:
        return
    shown = [name for name in shown if name in measured.series]
    worst = (min if bound.get("least") else max)(there, key=measured.ratio)
    results.again(measured, "beside_" + key, "%s: agent / %s" % (text, worst), base=worst, **bound)
    plain = AgentWithoutTokens.name
    results.again(measured, "beside_%s_no_tokens" % key, "the same: %s / %s" % (plain, worst), ours=plain,
                  base=worst)
    for library in (*there, *shown):
        if library != worst:
            results.again(measured, "beside_%s_%s" % (key, library), "the same: agent / " + library,
                          base=library)


def compare(results, settings):
    beside(results, "peer_acquire", "acquire p50", REDLOCKS, bound=target(settings, 1))
    beside(results, "peer_core", "acquire p50, all on one core", REDLOCKS, bound=target(settings, 1))
    beside(results, "peer_pairs_64", "pairs, 64 workers", REDLOCKS, bound=target(settings, 5), least=True)
    beside(results, "peer_pairs_16", "pairs, 16 workers", LIBRARIES, bound=target(settings, 3), least=True)
    beside(results, "peer_apart", "pairs, 16 processes", REDLOCKS, shown=(RedisPy.name,),
           bound=target(settings, 3), least=True)


def measure(results, settings):
    world = World(5)
    acquire = results.row("peer_acquire", "acquire p50")
    pairs = {workers: results.row("peer_pairs_%d" % workers, "pairs, %d workers" % workers, "per s")
             for workers in WORKERS}
    apart = results.row("peer_apart", "pairs, %d processes" % settings.processes, "per s")
    core = results.row("peer_core", "acquire p50, all on one core")
    handoff = results.row("peer_handoff", "hand-off p50")
    failover = results.row("peer_failover", "failover after kill -9 of the holder: share of the ttl", "%")
    peers = started(results, settings, world)
    servers = world.servers + [server for peer in peers for server in peer.servers]
    ask = {peer.name: peer.acquire_us for peer in peers}
    for nodes in {peer.nodes for peer in peers}:
        ask["floor N=%d" % nodes] = functools.partial(floor_us, world.places[:nodes])
    for _ in range(settings.peer_rounds):
        for series in in_turns(ask):
            acquire.note(series, ask[series](settings.peer_ms))
        with on_one_core(*servers):
            for series in in_turns(ask):
                core.note(series, ask[series](settings.peer_ms))
        for workers, row in pairs.items():
            for peer in in_turns(peers):
                row.note(peer.name, peer.pairs(workers, settings.peer_ms))
        for peer in in_turns(peers):
            apart.note(peer.name, peer.pairs_apart(settings.processes, settings.peer_ms))
        for peer in in_turns(peers):
            handoff.note(peer.name, peer.handoff_us(settings.peer_handoffs))
    for number in range(settings.peer_kills):
        for peer in in_turns(peers):
            name = "kill-%d-%d" % (number, peers.index(peer))  # of its own: they are on the same nodes
            took_us = peer.failover_us(name, settings.peer_ttl_ms)
            failover.note(peer.name, took_us / 10 / settings.peer_ttl_ms)
    compare(results, settings)
    for peer in peers:
        peer.end()
    world.end()
