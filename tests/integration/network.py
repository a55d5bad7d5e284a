"""A network that fails: hosts in network namespaces of their own, on a bridge that is in a namespace, too.
Nothing leaves this network. Packets are lost on the bridge, whose ports have their hosts' names."""

import os
import shutil
import subprocess

import lab

PREFIX = "redlock-%d-" % os.getpid()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def in_namespace(name):
    return ("ip", "netns", "exec", PREFIX + name)


def why_none():
    """The reason why no network can be made; None: it can."""
    if not shutil.which("ip"):
        return "the command ip is not installed"
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", PREFIX + "try"],
                                           capture_output=True).returncode != 0:
        return "network namespaces need root and a kernel that has them"
    ip("netns", "del", PREFIX + "try")
    return None


# Rules that lose packets, for Network.lose(). Hosts that can't be resolved lose ARP too, as on a real wire.

def to(*hosts):
    """Packets to these hosts are lost; packets from them pass."""
    return ['oifname "%s" drop' % host for host in hosts]


def from_hosts(*hosts):
    """Packets from these hosts are lost; packets to them pass."""
    return ['iifname "%s" drop' % host for host in hosts]


def between(one, hosts):
    """Packets between `one` and these hosts are lost; all others pass."""
    return one_way([one], hosts) + one_way(hosts, [one])


def one_way(sources, sinks):
    return ['iifname "%s" oifname "%s" drop' % (source, sink) for source in sources for sink in sinks]


def replies(nodes, sinks):
    """The nodes' replies to these hosts are lost, after the requests were executed."""
    return ['iifname "%s" oifname "%s" tcp flags psh drop' % (node, sink)
            for node in nodes for sink in sinks]


def requests_but_one(source, nodes):
    """Its next request to each of these nodes passes, nothing later."""
    return ['iifname "%s" oifname "%s" tcp flags psh limit rate over 1/day burst 1 packets drop' % (
        source, node) for node in nodes]


def some(percent, *hosts):
    """By chance, both ways."""
    return ['%s "%s" numgen random mod 100 < %d drop' % (side, host, percent)
            for host in hosts for side in ("iifname", "oifname")]


class Network:
    """A bridge in a namespace, and hosts connected to it."""

    def __init__(self):
        self.namespaces = []
        self.parted = set()
        self.lossy = False
        self.hosts = 0
        self._add_namespace("hub")
        ip("-n", PREFIX + "hub", "link", "add", "bridge", "type", "bridge")
        ip("-n", PREFIX + "hub", "link", "set", "dev", "bridge", "up")
        self.why_lossless = self._try_to_lose()

    def _add_namespace(self, name):
        ip("netns", "add", PREFIX + name)
        self.namespaces.append(PREFIX + name)
        ip("-n", PREFIX + name, "link", "set", "dev", "lo", "up")

    def _try_to_lose(self):
        """The reason why single packets can't be lost here; None: they can."""
        if not shutil.which("nft"):
            return "the command nft is not installed"
        try:
            self.lose(to("a") + replies("a", "b") + requests_but_one("a", "b") + some(1, "a"))
            self.heal()
        except subprocess.CalledProcessError as error:
            return "the kernel filters no packets on a bridge: %s" % error.stderr.decode().split("\n")[0]
        return None

    def host(self, name):
        """Its address."""
        self._add_namespace(name)
        return self.plug(name, PREFIX + name, in_namespace(name))

    def plug(self, name, namespace, within):
        """Connects a namespace that is there: its name, or a process in it, and what runs a command there.
        Its address. A port of this name that is left of an earlier host goes."""
        self.hosts += 1
        address = "198.18.0.%d" % self.hosts
        subprocess.run(["ip", "-n", PREFIX + "hub", "link", "del", "dev", name], capture_output=True)
        ip("link", "add", "name", "eth0", "netns", namespace, "type", "veth", "peer", "name", name,
           "netns", PREFIX + "hub")
        ip("-n", PREFIX + "hub", "link", "set", "dev", name, "master", "bridge", "up")
        for words in (("addr", "add", address + "/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            subprocess.run([*within, "ip", *words], check=True, capture_output=True)
        return address

    def cut(self, *names):
        """Packets to and from these hosts are lost without an error."""
        for name in names:
            self.parted.add(name)
            ip("-n", PREFIX + "hub", "link", "set", "dev", name, "down")

    def lose(self, rules):
        """Replaces the rules of loss, atomically."""
        text = "add table bridge faults\ndelete table bridge faults\n"
        text += "table bridge faults { chain forward { type filter hook forward priority 0;\n"
        text += "\n".join(rules) + "\n}\n}\n"
        self._nft(text)
        self.lossy = True

    def _nft(self, text):
        subprocess.run([*in_namespace("hub"), "nft", "-f", "-"], input=text.encode(), check=True,
                       capture_output=True)

    def heal(self):
        """Of everything."""
        for name in sorted(self.parted):
            ip("-n", PREFIX + "hub", "link", "set", "dev", name, "up")
        self.parted.clear()
        if self.lossy:
            self._nft("flush ruleset\n")
        self.lossy = False

    def remove(self):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


class Node(lab.Node):
    """A node that is reached by TCP; the tests themselves use its Unix socket."""

    def __init__(self, network, name):
        self.ip = network.host(name)
        super().__init__(name, "--port", "6379", "--bind", self.ip, "--protected-mode", "no",
                         prefix=in_namespace(name))

    @property
    def address(self):
        return self.ip + ":6379"


def agent(network, name, nodes, config):
    network.host(name)
    started = lab.Agent(nodes, config, prefix=in_namespace(name))
    started.wait_voting(len(nodes))
    return started
