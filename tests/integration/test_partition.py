"""Partitions and packet loss: five nodes and two agents, each in a namespace of its own."""

import functools
import select
import sys

import history
import lab
import network
from tap import begins, equal, main, note, ok, skip

CONFIG = 'max_ttl = "60s"\ndefault_ttl = "2s"'
LASTING_MS = 5000  # a ttl of leases that are held throughout, and repaired within seconds
LASTING_VALID_S = 4.948  # less the drift
LONG_MS = 60000  # longer than the test: an earlier end is not by expiry


def set_up():
    global net, nodes, first, second
    net = network.Network()
    lab._ends.insert(0, net.remove)  # after all leases in it have ended
    nodes = [network.Node(net, name) for name in "abcde"]
    first, second = (network.agent(net, name, nodes, CONFIG) for name in ("one", "two"))
    ok(True, "five nodes and two agents in namespaces of their own")


def answers_in_time(agent):
    """Whether each keeper and each node answer each other in time. A node may vote while lost packets are
    outstanding: TCP sends them again after seconds."""
    client = agent.client()
    names = ["answered %d" % i for i in range(8)]  # of all keepers
    grants = [client.acquire(name) for name in names]
    answered = all(isinstance(grant, dict) and lab.keys_on(nodes, name) == 5
                   for name, grant in zip(names, grants))
    for grant in grants:
        answered = answered and client.call("RELEASE", grant["id"]) == 1
    client.close()
    return answered


def all_heals():
    net.heal()
    for agent in (first, second):
        agent.wait_voting(5)
        lab.wait_for(lambda: answers_in_time(agent), seconds=20, what="answers in time")


def healed(test):
    """The test, and afterwards a healed network in any case."""
    @functools.wraps(test)
    def run():
        try:
            test()
        finally:
            all_heals()
    return run


def test_agent_cut_off():
    holder, waiter = first.client(3), second.client(3)
    grant = holder.acquire("parted", "WAIT", 10000)
    net.cut("one")
    waiter.send("ACQUIRE", "parted", "TTL", LONG_MS, "WAIT", 20000)
    push = holder.push("at-risk", timeout=10)
    equal(push[1], grant["id"], "rule 13: a cut-off agent sends its holder at-risk")
    push = holder.push("lost", timeout=10)
    equal(push[1:3], [grant["id"], "no-quorum"], "then lost")
    other = lab.as_map(waiter.reply(timeout=30))
    ok(other["fence"] > grant["fence"], "the other side acquires the name, with a larger token")
    begins(holder.acquire("parted"), "NOQUORUM", "the cut-off side acquires nothing")
    all_heals()
    begins(holder.acquire("parted"), "BUSY", "after the partition both see the same holder")
    equal(waiter.call("RELEASE", other["id"]), 1, "the second holder held it throughout")


def test_minority_cut_off():
    client = first.client(3)
    grant = client.acquire("minority", "WAIT", 10000)
    net.cut("a", "b")
    lab.wait_for(lambda: first.status()["voting"] == 3, seconds=20, what="the silence of two nodes")
    ok(client.call("CHECK", grant["id"]) > 0, "two nodes of five are unreachable: the lease is extended")
    ok("id" in first.client().acquire("meanwhile", "WAIT", 10000), "other leases are granted")
    for node in nodes[:2]:
        node.call("DEL", "minority")
    all_heals()
    lab.wait_for(lambda: lab.keys_on(nodes, "minority") == 5, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "rule 7: the missing keys are set again")


def test_majority_cut_off():
    net.cut("a", "b", "c")
    client = first.client()
    lab.wait_for(lambda: str(client.acquire("majority")).startswith("NOQUORUM"), what="NOQUORUM")
    ok(True, "three nodes of five are unreachable: NOQUORUM")
    all_heals()
    ok("id" in client.acquire("majority", "WAIT", 10000), "until they return")


def losing(test):
    """A test that needs single lost packets."""
    @functools.wraps(test)
    def run():
        if net.why_lossless:
            skip(test.__doc__, net.why_lossless)
        else:
            test()
    return run


def granted(answer, what):
    if not ok(isinstance(answer, dict), what):
        note("got: %s" % answer)


def same_everywhere(name):
    """Whether all nodes have the key, with one value."""
    values = {node.call("GET", name) for node in nodes}
    return len(values) == 1 and None not in values


@losing
def test_requests_lost_at_a_minority():
    """requests to two nodes of five are lost"""
    client = first.client(3)
    grant = client.acquire("goes on", "TTL", LASTING_MS, "WAIT", 10000)
    net.lose(network.to("a", "b"))
    brief = client.acquire("brief", "TTL", LONG_MS)
    granted(brief, "requests to two nodes of five are lost: leases are granted")
    equal(client.call("RELEASE", brief["id"]), 1, "and released")
    lab.wait_for(lambda: lab.now() > grant["deadline"] / 1e9, what="the first deadline")
    ok(client.call("CHECK", grant["id"]) > 0, "and extended")
    all_heals()
    lab.wait_for(lambda: lab.keys_on(nodes, "brief") == 0, what="the release")
    ok(True, "rule 4: the late requests at the two nodes are released")
    lab.wait_for(lambda: same_everywhere("goes on"), what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "rule 7: the missing keys are set")


@losing
def test_requests_lost_at_a_majority():
    """requests to three nodes of five are lost"""
    client, waiter = first.client(), second.client()
    net.lose(network.to("a", "b", "c"))
    begins(client.acquire("unreachable", "TTL", LONG_MS), "NOQUORUM",
           "requests to three nodes of five are lost: NOQUORUM")
    lab.wait_for(lambda: lab.keys_on(nodes, "unreachable") == 0, what="the release")
    ok(True, "rule 5: the keys on the others are released")
    waiter.send("ACQUIRE", "unreachable", "TTL", LASTING_MS, "WAIT", 60000)
    net.heal()
    grant = lab.as_map(waiter.reply(timeout=60))
    granted(grant, "a waiter acquires it when the three nodes are reachable")
    lab.wait_for(lambda: same_everywhere("unreachable"), what="the release and the repair")
    ok(waiter.call("CHECK", grant["id"]) > 0, "rule 4: on all nodes, after late requests too")


@losing
def test_replies_lost():
    """replies of three nodes of five are lost after they have set the key"""
    client, other = first.client(), second.client()
    net.lose(network.replies("abc", ["one"]))
    begins(client.acquire("unanswered", "TTL", LONG_MS), "NOQUORUM",
           "replies of three nodes of five are lost: NOQUORUM")
    lab.wait_for(lambda: all(node.call("HEXISTS", "redlockd:fences", "unanswered") for node in nodes),
                 what="the key's token on each node")
    ok(True, "after all five have set the key")
    grant = other.acquire("unanswered", "TTL", LASTING_MS, "WAIT", 10000)
    granted(grant, "rule 4: the keys are released, and another agent acquires the name")
    begins(client.acquire("unanswered"), "NOQUORUM", "and no other agent")
    all_heals()
    lab.wait_for(lambda: same_everywhere("unanswered"), what="one value on all nodes")
    lab.wait_for(lambda: first.status()["voting"] == 5, what="five nodes that vote for the first agent")
    begins(client.acquire("unanswered", "WAIT", 1000), "TIMEOUT", "as both agents can see")
    equal(other.call("RELEASE", grant["id"]), 1, "the second agent's holder held it throughout")


def left_behind(what, ttl_ms):
    """A name whose key remains on three nodes after agent one's attempt failed: their replies and its
    releases were lost."""
    client = first.client()
    for i in range(40):  # another packet may have got through
        name = "%s %d" % (what, i)
        net.lose(network.replies("abc", ["one"]) + network.requests_but_one("one", "abc"))
        answer = client.acquire(name, "TTL", ttl_ms)
        if lab.keys_on(nodes[:3], name) == 3:
            begins(answer, "NOQUORUM", "replies and releases of three nodes of five are lost: NOQUORUM")
            begins(second.client().acquire(name), "BUSY", "their keys remain, and the name has no holder")
            return name
        all_heals()
    raise TimeoutError("no key remained")


def others_turn(other, name, what):
    """Agent one's attempt ends, and the next holder's keys stay."""
    grant = other.acquire(name, "TTL", LASTING_MS, "WAIT", 20000)
    granted(grant, what)
    all_heals()
    lab.wait_for(lambda: same_everywhere(name), what="one value on all nodes")
    equal(other.call("RELEASE", grant["id"]), 1, "and keeps it when late packets arrive")


@losing
def test_releases_lost():
    """replies and then releases of three nodes of five are lost"""
    other = second.client()
    name = left_behind("short", int(2000 * lab.SCALE))
    others_turn(other, name, "the keys expire: another agent acquires it")

    name = left_behind("delayed", LONG_MS)
    net.heal()
    others_turn(other, name, "rule 4: the releases arrive late: another agent acquires it")

    name = left_behind("cut", LONG_MS)
    given_up = ("connecting", "probing")
    lab.wait_for(lambda: all(first.node_states()[node]["state"] in given_up for node in "abc"), seconds=20,
                 what="the end of the connections")
    begins(other.acquire(name), "BUSY", "the connections are closed, the keys remain")
    net.heal()
    others_turn(other, name, "rule 4: the releases are sent again: another agent acquires it")


def parted(name, rules, what):
    """A partition between agent one and nodes a, b and c; agent two reaches all."""
    holder, waiter = first.client(3), second.client()
    grant = holder.acquire(name, "WAIT", 10000)
    granted(grant, "a lease at an agent that reaches all nodes")
    net.lose(rules)
    waiter.send("ACQUIRE", name, "TTL", LASTING_MS, "WAIT", 60000)
    equal(holder.push("at-risk", timeout=10)[1], grant["id"], what + ": its holder gets at-risk")
    asked = lab.now()
    left_ms = holder.call("CHECK", grant["id"])  # 0, when this test was slow
    deadline = asked + left_ms / 1e3 if left_ms else grant["deadline"] / 1e9
    early = select.select([waiter.socket], [], [], max(deadline - lab.now(), 0))[0]
    ok(not early or lab.now() >= deadline, "no other client gets the lease before its deadline")
    equal(holder.push("lost", timeout=10)[1:3], [grant["id"], "no-quorum"], "then: lost")
    other = lab.as_map(waiter.reply(timeout=60))
    ok(other["fence"] > grant["fence"], "agent two acquires it, with a larger token")
    ok(other["deadline"] / 1e9 - LASTING_VALID_S >= deadline, "by an attempt that began after the deadline")
    begins(holder.acquire(name), "NOQUORUM", "agent one acquires nothing")
    all_heals()
    begins(holder.acquire(name), "BUSY", "also not after the partition")
    lab.wait_for(lambda: same_everywhere(name), what="one value on all nodes")
    equal(waiter.call("RELEASE", other["id"]), 1, "agent two's holder held it throughout")


@losing
def test_pair_parted():
    """one agent and three nodes of five are parted"""
    parted("pair", network.between("one", "abc"), "a partition between an agent and three nodes of five")
    parted("pair one-way", network.one_way(["one"], "abc"), "the agent's packets to the three are lost")
    parted("pair unanswered", network.one_way("abc", ["one"]), "the three's packets to the agent are lost")
    parted("pair mute", network.replies("abc", ["one"]), "the three's replies are lost")


@losing
def test_random_loss():
    """three packets of ten are lost"""
    net.lose(network.some(30, *"abcde"))
    recorded = history.History()
    threads = history.holders(recorded, [first, second], "pqrstuvw", 16, ttl_ms=2000)
    try:
        lab.wait_for(lambda: len(recorded.intervals) >= 15, seconds=60, what="fifteen leases")
    finally:
        history.stop(threads)
    ok(True, "three packets of ten are lost: clients hold leases (%d times; refusals: %s)" % (
        len(recorded.intervals), recorded.refusals))
    equal(recorded.troubles(), [], "never two holders at once, and tokens grow")


def faults():
    """One partition after the other, each replacing the former. Some leave a majority to each agent."""
    for cut in (["one"], ["a"], ["two"], ["b", "c"]):
        yield lambda: net.cut(*cut)
    if net.why_lossless:
        return
    for rules in (network.to("a", "c", "e"),
                  network.between("one", "ab") + network.between("two", "de"),
                  network.replies("abc", ["one"]),
                  network.one_way(["two"], "cde") + network.replies("ab", ["one"]),
                  network.some(15, *"abcde"),
                  network.replies("ab", ["one"]) + network.replies("de", ["two"]) + network.some(5, "c")):
        yield lambda: net.lose(rules)


PASSES_MAX = 4  # usually one agent has a majority


def test_history():
    """All of the above, while clients hold and contend."""
    recorded = history.History()
    threads = history.holders(recorded, [first, second], ["x", "y"], 8, ttl_ms=700)
    try:
        for _ in range(PASSES_MAX):
            for fault in faults():
                fault()
                lab.time.sleep(0.9 * lab.SCALE)
                net.heal()
                lab.time.sleep(0.3 * lab.SCALE)
            if len(recorded.intervals) > 20:
                break
        all_heals()
    finally:
        history.stop(threads)
    ok(len(recorded.intervals) > 20, "clients held leases (%d times; refusals: %s)" % (
        len(recorded.intervals), recorded.refusals))
    equal(recorded.troubles(), [], "never two holders at once, and tokens grow")


why_none = network.why_none()
if why_none:
    print("1..0 # SKIP %s" % why_none)
    sys.exit(0)
main(set_up, *map(healed, (
    test_agent_cut_off, test_minority_cut_off, test_majority_cut_off, test_requests_lost_at_a_minority,
    test_requests_lost_at_a_majority, test_replies_lost, test_releases_lost, test_pair_parted,
    test_random_loss, test_history)))
