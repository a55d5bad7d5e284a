"""Networks that part, and networks that lose: five nodes and two agents, each in a namespace of its own."""

import functools
import select
import sys

import history
import lab
import network
from tap import begins, equal, main, note, ok, skip

CONFIG = 'max_ttl = "60s"\ndefault_ttl = "2s"'
VALID_S = 1.978  # of default_ttl, less the drift
LONG_MS = 60000  # so that what ends sooner has not ended by itself


def set_up():
    global net, nodes, first, second
    net = network.Network()
    lab._ends.insert(0, net.remove)  # after everything in it has ended
    nodes = [network.Node(net, name) for name in "abcde"]
    first, second = (network.agent(net, name, nodes, CONFIG) for name in ("one", "two"))
    ok(True, "five nodes and two agents in namespaces of their own")


def heard_by_all(agent):
    """Whether each keeper and each node answer each other in time. A node may vote already while what was
    lost is still to come: TCP sends it again after seconds."""
    client = agent.client()
    names = ["heard %d" % i for i in range(8)]  # of all keepers
    grants = [client.acquire(name) for name in names]
    heard = all(isinstance(grant, dict) and lab.keys_on(nodes, name) == 5
                for name, grant in zip(names, grants))
    for grant in grants:
        heard = heard and client.call("RELEASE", grant["id"]) == 1
    client.close()
    return heard


def all_heals():
    net.heal()
    for agent in (first, second):
        agent.wait_voting(5)
        lab.wait_for(lambda: heard_by_all(agent), seconds=20, what="answers in time")


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


def losing(test):
    """A test that wants single packets lost."""
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
    grant = client.acquire("goes on")
    net.lose(network.to("a", "b"))
    brief = client.acquire("brief", "TTL", LONG_MS)
    granted(brief, "requests to two nodes of five are lost: leases are granted")
    equal(client.call("RELEASE", brief["id"]), 1, "and released")
    lab.wait_for(lambda: lab.now() > grant["deadline"] / 1e9, what="the first deadline")
    ok(client.call("CHECK", grant["id"]) > 0, "and go on")
    all_heals()
    lab.wait_for(lambda: lab.keys_on(nodes, "brief") == 0, what="the release")
    ok(True, "rule 4: what the two hear late they are told to forget")
    lab.wait_for(lambda: same_everywhere("goes on"), what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "rule 7: and what they missed is set")


@losing
def test_requests_lost_at_a_majority():
    """requests to three nodes of five are lost"""
    client, waiter = first.client(), second.client()
    net.lose(network.to("a", "b", "c"))
    begins(client.acquire("unheard", "TTL", LONG_MS), "NOQUORUM",
           "requests to three nodes of five are lost: NOQUORUM")
    lab.wait_for(lambda: lab.keys_on(nodes, "unheard") == 0, what="the release")
    ok(True, "rule 5: and what the others have set is released")
    waiter.send("ACQUIRE", "unheard", "WAIT", 60000)
    net.heal()
    grant = lab.as_map(waiter.reply(timeout=60))
    granted(grant, "who waits for it gets it when they hear again")
    lab.wait_for(lambda: same_everywhere("unheard"), what="the release and the repair")
    ok(waiter.call("CHECK", grant["id"]) > 0, "rule 4: at all of them, whatever they have heard late")


@losing
def test_replies_lost():
    """replies of three nodes of five are lost after they have set the key"""
    client, other = first.client(), second.client()
    net.lose(network.replies("abc", ["one"]))
    begins(client.acquire("unanswered", "TTL", LONG_MS), "NOQUORUM",
           "replies of three nodes of five are lost: NOQUORUM")
    equal(sum(node.call("HEXISTS", "redlockd:fences", "unanswered") for node in nodes), 5,
          "after all five have set the key")
    grant = other.acquire("unanswered", "WAIT", 10000)
    granted(grant, "rule 4: they are told to forget it, and another agent gets the name")
    begins(client.acquire("unanswered"), "NOQUORUM", "and no other does")
    all_heals()
    lab.wait_for(lambda: same_everywhere("unanswered"), what="one value on all nodes")
    begins(client.acquire("unanswered"), "BUSY", "as all can see")
    equal(other.call("RELEASE", grant["id"]), 1, "the second agent's holder had it all the while")


def left_behind(what, ttl_ms):
    """A name whose key stands on three nodes after agent one's attempt has failed: it has not heard that
    they have set it, and they have not heard that they are to forget it."""
    client = first.client()
    for i in range(40):  # what gets through may have been something else
        name = "%s %d" % (what, i)
        net.lose(network.replies("abc", ["one"]) + network.requests_but_one("one", "abc"))
        answer = client.acquire(name, "TTL", ttl_ms)
        if lab.keys_on(nodes[:3], name) == 3:
            begins(answer, "NOQUORUM", "replies and releases of three nodes of five are lost: NOQUORUM")
            begins(second.client().acquire(name), "BUSY", "their keys stand, and the name is nobody's")
            return name
        all_heals()
    raise TimeoutError("no key was left behind")


def others_turn(other, name, what):
    """Agent one's attempt is over in the end, and takes nothing from who comes after it."""
    grant = other.acquire(name, "WAIT", 20000)
    granted(grant, what)
    all_heals()
    lab.wait_for(lambda: same_everywhere(name), what="one value on all nodes")
    equal(other.call("RELEASE", grant["id"]), 1, "and keeps it, whatever else arrives")


@losing
def test_releases_lost():
    """replies and then releases of three nodes of five are lost"""
    other = second.client()
    name = left_behind("short", int(2000 * lab.SCALE))
    others_turn(other, name, "they end with their ttl: another agent gets it")

    name = left_behind("delayed", LONG_MS)
    net.heal()
    others_turn(other, name, "rule 4: the releases arrive when they can: another agent gets it")

    name = left_behind("cut", LONG_MS)
    given_up = ("connecting", "probing")
    lab.wait_for(lambda: all(first.node_states()[node]["state"] in given_up for node in "abc"), seconds=20,
                 what="the end of the connections")
    begins(other.acquire(name), "BUSY", "the connections are given up, the keys still stand")
    net.heal()
    others_turn(other, name, "rule 4: the releases are sent again: another agent gets it")


def parted(name, rules, what):
    """Agent one and nodes a, b and c part, while agent two sees them all."""
    holder, waiter = first.client(3), second.client()
    grant = holder.acquire(name)
    granted(grant, "a lease at an agent that sees all nodes")
    net.lose(rules)
    waiter.send("ACQUIRE", name, "WAIT", 60000)
    equal(holder.push("at-risk", timeout=10)[1], grant["id"], what + ": its holder is told: at risk")
    asked = lab.now()
    deadline = asked + holder.call("CHECK", grant["id"]) / 1e3
    early = select.select([waiter.socket], [], [], max(deadline - lab.now(), 0))[0]
    ok(not early or lab.now() >= deadline, "nobody gets the lease before its deadline")
    equal(holder.push("lost", timeout=10)[1:3], [grant["id"], "no-quorum"], "then: lost")
    other = lab.as_map(waiter.reply(timeout=60))
    ok(other["fence"] > grant["fence"], "agent two gets it, with a larger token")
    ok(other["deadline"] / 1e9 - VALID_S >= deadline, "by an attempt from after the deadline")
    begins(holder.acquire(name), "NOQUORUM", "agent one gets nothing")
    all_heals()
    begins(holder.acquire(name), "BUSY", "nor when they are together again")
    lab.wait_for(lambda: same_everywhere(name), what="one value on all nodes")
    equal(waiter.call("RELEASE", other["id"]), 1, "agent two's holder had it all the while")


@losing
def test_pair_parted():
    """one agent and three nodes of five are parted"""
    parted("pair", network.between("one", "abc"), "an agent and three nodes of five are parted")
    parted("pair unheard", network.one_way(["one"], "abc"), "the three don't hear the agent")
    parted("pair unanswered", network.one_way("abc", ["one"]), "the agent doesn't hear the three")
    parted("pair mute", network.replies("abc", ["one"]), "the three's replies are lost")


@losing
def test_random_loss():
    """three packets of ten are lost"""
    net.lose(network.some(30, *"abcde"))
    told = history.History()
    threads = history.holders(told, [first, second], "pqrstuvw", 16, ttl_ms=2000)
    try:
        lab.wait_for(lambda: len(told.intervals) >= 15, seconds=60, what="fifteen leases")
    finally:
        history.stop(threads)
    ok(True, "three packets of ten are lost: clients hold leases (%d times; refusals: %s)" % (
        len(told.intervals), told.refusals))
    equal(told.troubles(), [], "never two holders at once, and tokens grow")


def faults():
    """One after the other, each in place of the one before. Some leave each agent a majority of its own."""
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


PASSES_MAX = 4  # as a rule one has enough to look at


def test_history():
    """Everything above, while clients hold and contend."""
    told = history.History()
    threads = history.holders(told, [first, second], ["x", "y"], 8, ttl_ms=700)
    try:
        for _ in range(PASSES_MAX):
            for fault in faults():
                fault()
                lab.time.sleep(0.9 * lab.SCALE)
                net.heal()
                lab.time.sleep(0.3 * lab.SCALE)
            if len(told.intervals) > 20:
                break
        all_heals()
    finally:
        history.stop(threads)
    ok(len(told.intervals) > 20, "clients held leases (%d times; refusals: %s)" % (
        len(told.intervals), told.refusals))
    equal(told.troubles(), [], "never two holders at once, and tokens grow")


why_none = network.why_none()
if why_none:
    print("1..0 # SKIP %s" % why_none)
    sys.exit(0)
main(set_up, *map(healed, (
    test_agent_cut_off, test_minority_cut_off, test_majority_cut_off, test_requests_lost_at_a_minority,
    test_requests_lost_at_a_majority, test_replies_lost, test_releases_lost, test_pair_parted,
    test_random_loss, test_history)))
