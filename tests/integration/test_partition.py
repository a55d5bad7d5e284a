"""Networks that part, and networks that lose: five nodes and two agents, each host in a namespace of its own."""

import functools
import sys

import history
import lab
import network
from tap import begins, equal, main, ok

CONFIG = 'max_ttl = "2s"\ndefault_ttl = "2s"'


def set_up():
    global net, nodes, first, second
    net = network.Network()
    lab._ends.insert(0, net.remove)  # after everything in it has ended
    nodes = [network.Node(net, name) for name in "abcde"]
    first, second = (network.agent(net, name, nodes, CONFIG) for name in ("one", "two"))
    ok(True, "five nodes and two agents in namespaces of their own")


def all_heals():
    net.heal()
    for agent in (first, second):
        agent.wait_voting(5)


def healed(test):
    """The test, and afterwards a network that is whole, whatever came of it."""
    @functools.wraps(test)
    def run():
        try:
            test()
        finally:
            all_heals()
    return run


def test_agent_cut_off():
    holder, waiter = first.client(3), second.client(3)
    grant = holder.acquire("parted")
    net.cut("one")
    waiter.send("ACQUIRE", "parted", "WAIT", "20000")
    push = holder.push("at-risk", timeout=10)
    equal(push[1], grant["id"], "rule 13: an agent that is cut off tells its holder: at risk")
    push = holder.push("lost", timeout=10)
    equal(push[1:3], [grant["id"], "no-quorum"], "then lost")
    other = lab.as_map(waiter.reply(timeout=30))
    ok(other["fence"] > grant["fence"], "the other side gets it, with a larger token")
    begins(holder.acquire("parted"), "NOQUORUM", "the cut-off side gets nothing")
    all_heals()
    begins(holder.acquire("parted"), "BUSY", "when the network is whole again both see the same")
    equal(waiter.call("RELEASE", other["id"]), 1, "the second holder had it all the while")


def test_minority_cut_off():
    client = first.client(3)
    grant = client.acquire("minority")
    net.cut("a", "b")
    lab.wait_for(lambda: first.status()["voting"] == 3, seconds=20, what="the silence of two nodes")
    ok(client.call("CHECK", grant["id"]) > 0, "two nodes of five are out of reach: the lease goes on")
    ok("id" in first.client().acquire("meanwhile"), "and others are granted")
    for node in nodes[:2]:
        node.call("DEL", "minority")
    all_heals()
    lab.wait_for(lambda: lab.keys_on(nodes, "minority") == 5, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "rule 7: the votes that it lacks are set again")


def test_majority_cut_off():
    net.cut("a", "b", "c")
    client = first.client()
    lab.wait_for(lambda: str(client.acquire("majority")).startswith("NOQUORUM"), what="NOQUORUM")
    ok(True, "three nodes of five are out of reach: NOQUORUM")
    all_heals()
    ok("id" in client.acquire("majority", "WAIT", 10000), "until they are back")


def test_history():
    """Everything that hangs on the bridge is cut off in turn, while clients hold and contend."""
    told = history.History()
    threads = history.holders(told, [first, second], ["x", "y"], 8, ttl_ms=700)
    for name in ("one", "a", "two", "b", "c", "one", "d"):
        net.cut(name)
        lab.time.sleep(0.9 * lab.SCALE)
        net.heal()
        lab.time.sleep(0.3 * lab.SCALE)
    history.stop(threads)
    ok(len(told.intervals) > 20, "clients held leases (%d times; refusals: %s)" % (
        len(told.intervals), told.refusals))
    equal(told.troubles(), [], "never two holders at once, and tokens grow")


why_none = network.why_none()
if why_none:
    print("1..0 # SKIP %s" % why_none)
    sys.exit(0)
main(set_up, *map(healed, (test_agent_cut_off, test_minority_cut_off, test_majority_cut_off, test_history)))
