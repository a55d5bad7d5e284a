"""Scenarios of an agent's start: a fresh process for each fault."""

import os
import subprocess
import time

import calls
import lab
from descriptor_store import KeptAgent
from served import CONFIG, Refused, require

BOUND_S = 8
UNSERVED_S = 1  # of a fault that lasts; then it ends, and the agent must serve
ENDS = (69, 71, 78)  # of redlockd(8)


class Starts:
    def __init__(self, nodes):
        self.nodes = nodes
        self.orders = calls.Orders("redlockd")
        self.agent = lab.Agent(nodes, CONFIG, keepers=1, start=False)
        self.kept = None
        self.fences = {}

    def end(self):
        if self.kept:
            self.kept.kill()

    def renew(self):
        pass

    def name(self):
        return "start-%d" % os.getpid()

    def run(self, scenario):
        try:
            scenario(self)
            return True
        except Refused:
            return False

    def learn(self, scenario):
        before = self.orders.counts()
        require(self.run(scenario[0]), "a scenario without a fault")
        counts = {name: count - before.get(name, 0) for name, count in self.orders.counts().items()
                  if count > before.get(name, 0)}
        return counts, counts, set()

    def verify(self, names):
        pass  # each process has ended

    def tidy(self):
        pass

    def begin(self, *arguments, **options):
        return lab.spawn([*self.orders.prefix, lab.REDLOCKD, *arguments], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, **options)

    def finish(self, process, good=(0,)):
        try:
            out, _ = process.communicate(timeout=BOUND_S * lab.SCALE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TimeoutError("the agent does not end")
        lab._ends.pop()
        self.judge(process.returncode, out, good)
        return out

    def judge(self, status, said, good=(0,)):
        if status not in good:
            require(status in ENDS, "the agent ended with %d: %s" % (status, said[-300:]))
            require(said.strip(), "the agent ended with %d without a word" % status)
            raise Refused(said)

    def serve(self, process, socket_path):
        """Acquires and releases as soon as it serves; the agent may end instead."""
        begun = lab.now()
        until = begun + BOUND_S * lab.SCALE
        tries = 0
        while process.poll() is None:
            tries += 1
            name = "%s-%d" % (self.name(), tries)  # a lease whose session broke may last for its ttl
            if self.orders.lasting and lab.now() > begun + UNSERVED_S:
                self.orders.relent()  # it may end all sessions
            if lab.now() > until:
                raise TimeoutError("the agent does not serve")
            try:
                client = lab.Client(socket_path, 3, timeout=BOUND_S)
                grant = client.acquire(name, "WAIT", 3000)
                if self.orders.lasting and str(grant).startswith("NOQUORUM"):
                    self.orders.relent()  # without memory or descriptors it reaches no node
                    continue
                require(isinstance(grant, dict), "the first lease: %s" % grant)
                require(grant["fence"] > (self.fences.get(name, 0) if self.in_nodes else 0),
                        "a fencing token that does not grow")
                if self.in_nodes:
                    self.fences[name] = grant["fence"]
                holders = sum(node.call("EXISTS", name) for node in self.nodes)
                over = lab.now() > grant["deadline"] / 1e9  # on a busy machine
                require(holders > len(self.nodes) // 2 or not self.in_nodes or over,
                        "a lease on %d nodes" % holders)
                require(client.call("RELEASE", grant["id"]) == 1, "the release of the first lease")
                client.close()
                return
            except (FileNotFoundError, ConnectionError):
                time.sleep(0.005)

    in_nodes = True


def start(starts):
    process = starts.begin("--config", starts.agent.config_path)
    try:
        starts.serve(process, starts.agent.socket_path)
    finally:
        process.terminate()
        starts.finish(process)


class Address:
    def __init__(self, name, address):
        self.name, self.address = name, address


def start_by_name(starts):
    """The nodes' addresses are host names."""
    agent = getattr(starts, "by_name", None)
    if not agent:
        agent = starts.by_name = lab.Agent(
            [Address(node.name, "localhost:%d" % node.port) for node in starts.nodes], CONFIG, keepers=1,
            start=False)
    process = starts.begin("--config", agent.config_path)
    try:
        starts.serve(process, agent.socket_path)
    finally:
        process.terminate()
        starts.finish(process)


def check_config(starts):
    starts.finish(starts.begin("--config", starts.agent.config_path, "--check-config"))


def dev(starts):
    directory = lab.path("dev")
    os.mkdir(directory)
    process = starts.begin("--dev", "--socket", os.path.join(directory, "sock"),
                           env=dict(os.environ, TMPDIR=directory))
    starts.in_nodes = False
    try:
        starts.serve(process, os.path.join(directory, "sock"))
    finally:
        starts.in_nodes = True
        process.terminate()
        said = starts.finish(process)
    left = set(os.listdir(directory)) - {"sock"}  # a stale socket is the next start's to remove
    require(not left or "can't be removed" in said, "what --dev leaves: %s" % left)


def store(starts):
    """The first process of a store gets a session, and is killed; the second continues."""
    kept = starts.kept
    if not kept:
        kept = starts.kept = KeptAgent(starts.nodes, CONFIG, keepers=1)
    kept.prefix = ()
    if kept.process.poll() is not None:
        kept.start()
    client = lab.Client(kept.socket_path, 3, timeout=BOUND_S)
    grant = client.acquire(starts.name() + "-kept", "WAIT", 4000)
    require(isinstance(grant, dict), "the kept lease: %s" % grant)
    lab.wait_for(kept.sessions, 5, "the stored session")
    kept.kill()
    kept.prefix = starts.orders.prefix
    kept.begin()
    try:
        until = lab.now() + BOUND_S
        while kept.process.poll() is None and lab.now() < until and not kept.ready.is_set():
            time.sleep(0.005)
        if kept.process.poll() is None:
            left = client.call("CHECK", grant["id"])
            require(left > 0 or lab.now() > grant["deadline"] / 1e9 or
                    any(push[0] == "lost" for push in client.pushes), "a lease lost in silence")
            client.call("RELEASE", grant["id"])
            starts.serve(kept.process, kept.socket_path)
    except ConnectionError:
        pass  # this session was not restored
    finally:
        kept.kill()
        client.close()
    status = kept.process.returncode
    if status != -9:
        starts.judge(status, kept.log_text())


STARTS = {
    "start, serve, stop": (start, []),
    "start with host names": (start_by_name, []),
    "--check-config": (check_config, []),
    "--dev": (dev, []),
    "restart with --store": (store, []),
}
