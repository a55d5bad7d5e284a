"""Networks that part: five nodes and two agents, each in a network namespace of its own, on a bridge that is
in one too. Nothing leaves it."""

import os
import shutil
import subprocess
import sys

import history
import lab
from tap import begins, equal, main, ok

PREFIX = "redlock-%d-" % os.getpid()
CONFIG = 'max_ttl = "2s"\ndefault_ttl = "2s"'


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """A bridge in a namespace, and hosts that hang on it."""

    def __init__(self):
        self.namespaces = []
        self._add_namespace("hub")
        ip("-n", PREFIX + "hub", "link", "add", "bridge", "type", "bridge")
        ip("-n", PREFIX + "hub", "link", "set", "dev", "bridge", "up")
        self.hosts = 0

    def _add_namespace(self, name):
        ip("netns", "add", PREFIX + name)
        self.namespaces.append(PREFIX + name)
        ip("-n", PREFIX + name, "link", "set", "dev", "lo", "up")

    def host(self, name):
        """Its address."""
        self.hosts += 1
        address = "198.18.0.%d" % self.hosts
        self._add_namespace(name)
        ip("link", "add", "name", "eth0", "netns", PREFIX + name, "type", "veth", "peer", "name", name,
           "netns", PREFIX + "hub")
        ip("-n", PREFIX + "hub", "link", "set", "dev", name, "master", "bridge", "up")
        ip("-n", PREFIX + name, "addr", "add", address + "/24", "dev", "eth0")
        ip("-n", PREFIX + name, "link", "set", "eth0", "up")
        return address

    def cut(self, name):
        """Nothing gets through to it or from it, and nobody is told."""
        ip("-n", PREFIX + "hub", "link", "set", "dev", name, "down")

    def heal(self, name):
        ip("-n", PREFIX + "hub", "link", "set", "dev", name, "up")

    def remove(self):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


class FarNode(lab.Node):
    """A node that is reached by TCP; the tests themselves use its Unix socket."""

    def __init__(self, network, name):
        self.ip = network.host(name)
        super().__init__(name, "--port", "6379", "--bind", self.ip, "--protected-mode", "no",
                         prefix=in_namespace(name))

    @property
    def address(self):
        return self.ip + ":6379"


def in_namespace(name):
    return ("ip", "netns", "exec", PREFIX + name)


def agent_on(network, name, nodes):
    network.host(name)
    agent = lab.Agent(nodes, CONFIG, prefix=in_namespace(name))
    agent.wait_voting(len(nodes))
    return agent


def set_up():
    global network, nodes, first, second
    network = Network()
    lab._ends.insert(0, network.remove)  # after everything in it has ended
    nodes = [FarNode(network, name) for name in "abcde"]
    first, second = agent_on(network, "one", nodes), agent_on(network, "two", nodes)
    ok(True, "five nodes and two agents in namespaces of their own")


def test_agent_cut_off():
    holder, waiter = first.client(3), second.client(3)
    grant = holder.acquire("parted")
    network.cut("one")
    waiter.send("ACQUIRE", "parted", "WAIT", "20000")
    push = holder.push("at-risk", timeout=10)
    equal(push[1], grant["id"], "rule 13: an agent that is cut off tells its holder: at risk")
    push = holder.push("lost", timeout=10)
    equal(push[1:3], [grant["id"], "no-quorum"], "then lost")
    other = lab.as_map(waiter.reply(timeout=30))
    ok(other["fence"] > grant["fence"], "the other side gets it, with a larger token")
    begins(holder.acquire("parted"), "NOQUORUM", "the cut-off side gets nothing")
    network.heal("one")
    first.wait_voting(5)
    begins(holder.acquire("parted"), "BUSY", "when the network is whole again both see the same")
    equal(waiter.call("RELEASE", other["id"]), 1, "the second holder had it all the while")


def test_minority_cut_off():
    client = first.client(3)
    grant = client.acquire("minority")
    for name in "ab":
        network.cut(name)
    lab.wait_for(lambda: first.status()["voting"] == 3, seconds=20, what="the silence of two nodes")
    ok(client.call("CHECK", grant["id"]) > 0, "two nodes of five are out of reach: the lease goes on")
    ok("id" in first.client().acquire("meanwhile"), "and others are granted")
    for node in nodes[:2]:
        node.call("DEL", "minority")
    for name in "ab":
        network.heal(name)
    first.wait_voting(5)
    lab.wait_for(lambda: lab.keys_on(nodes, "minority") == 5, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "rule 7: the votes that it lacks are set again")


def test_majority_cut_off():
    for name in "abc":
        network.cut(name)
    client = first.client()
    lab.wait_for(lambda: str(client.acquire("majority")).startswith("NOQUORUM"), what="NOQUORUM")
    ok(True, "three nodes of five are out of reach: NOQUORUM")
    for name in "abc":
        network.heal(name)
    for agent in (first, second):
        agent.wait_voting(5)
    ok("id" in client.acquire("majority", "WAIT", 10000), "until they are back")


def test_history():
    """Everything that hangs on the bridge is cut off in turn, while clients hold and contend."""
    told = history.History()
    threads = history.holders(told, [first, second], ["x", "y"], 8, ttl_ms=700)
    for name in ("one", "a", "two", "b", "c", "one", "d"):
        network.cut(name)
        lab.time.sleep(0.9 * lab.SCALE)
        network.heal(name)
        lab.time.sleep(0.3 * lab.SCALE)
    for agent in (first, second):
        agent.wait_voting(5)
    history.stop(threads)
    ok(len(told.intervals) > 20, "clients held leases (%d times; refusals: %s)" % (
        len(told.intervals), told.refusals))
    equal(told.troubles(), [], "never two holders at once, and tokens grow")


if not shutil.which("ip"):
    print("1..0 # SKIP the command ip is not installed")
    sys.exit(0)
if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", PREFIX + "try"],
                                       capture_output=True).returncode != 0:
    print("1..0 # SKIP network namespaces want root and a kernel that has them")
    sys.exit(0)
ip("netns", "del", PREFIX + "try")
main(set_up, test_agent_cut_off, test_minority_cut_off, test_majority_cut_off, test_history)
