"""Agents whose configurations differ where all must be equal: no client gets another one's lease, and all
agents report the difference."""

import os

import lab
from tap import begins, equal, main, ok

RESTS = 'quarantine = yes\ndefault_ttl = "2s"\nnode_timeout = "900ms"\n'
SHORT = RESTS + 'max_ttl = "2s"\n'
LONG = RESTS + 'max_ttl = "60s"\n'


class Absent:
    """A node of this name that the agent can't reach."""

    def __init__(self, name):
        self.name = name
        self.address = "unix:" + lab.path("absent.sock")


class Named:
    """The same server by another name, or at another address."""

    def __init__(self, node, name=None, address=None):
        self.name = name or node.name
        self.address = address or node.address


def bless(agent, *nodes):
    """As an operator does: again if the agent had not examined the node yet, until all vote."""
    given = set()

    def vote():
        states = agent.node_states()
        for node in nodes:
            if node.name not in given or states[node.name]["state"] != "voting":
                agent.client().call("BLESS", node.name)
                given.add(node.name)
        return agent.status()["voting"] == len(agent.nodes)
    lab.wait_for(vote, what="blessed nodes")


def fleet(nodes, config):
    """An agent whose nodes were blessed by an operator."""
    agent = lab.Agent(nodes, config, keepers=1)
    bless(agent, *nodes)
    return agent


def hold(agent, name, ttl_ms=60000):
    client = agent.client(3)
    grant = client.acquire(name, "TTL", ttl_ms, "WAIT", 10000)
    ok("id" in grant, "%s is held" % name)
    return client, grant


def wait_differs(agent, node, text):
    """Each agent notices differing settings within ten seconds; at once when a node loses its epoch."""
    node.call("DEL", "redlockd:epoch")
    agent.client().acquire("whatever")
    shown = lab.wait_for(lambda: next((state["differs"] for state in agent.node_states().values()
                                       if text in state["differs"]), None), seconds=15, what=text)
    bless(agent, node)
    lab.wait_for(lambda: text in agent.log_text(), what="%s in the log" % text)
    ok(True, "the other agent reports it, too: %s" % shown)


# --- max_ttl ---

def test_fresh_agent_reaches_less():
    """A lease of a minute is held on a and b. An agent that grants 2 s, and can't reach a, finds b and c
    new."""
    nodes = lab.nodes(3)
    long_agent = fleet(nodes, LONG)
    nodes[2].kill()
    hold(long_agent, "cut-off")
    long_agent.kill()  # its client still considers the lease valid
    nodes[1].kill()
    for node in nodes[1:]:
        node.start()
    short_agent = lab.Agent([Absent("a"), *nodes[1:]], SHORT)
    begins(short_agent.client().acquire("cut-off", "TTL", 1000, "WAIT", 5000), "NOQUORUM",
           "rule 10: an agent that can't read the others' epochs blesses no node that lost its memory")
    ok("longest max_ttl" in short_agent.node_states()["b"]["reason"], "and reports what it waits for")
    short_agent.kill()


def test_idle_agent():
    """An agent may know the others' longer ttls only after ten seconds."""
    nodes = lab.nodes(3)
    short_agent = fleet(nodes, SHORT)
    long_agent = lab.Agent(nodes, LONG)
    long_agent.wait_voting(3)
    holder, grant = hold(long_agent, "idle")
    long_agent.stop()
    for node in nodes[:2]:
        node.call("FLUSHALL")
    begins(short_agent.client().acquire("idle", "TTL", 1000, "WAIT", 5000), "NOQUORUM",
           "rule 10: a node that lost its memory is quarantined for the longest max_ttl in the others' "
           "epochs")
    ok(short_agent.node_states()["a"]["until"] > 30000, "NODES shows how long")
    long_agent.cont()
    ok(holder.call("CHECK", grant["id"]) > 0, "the lease is valid all the time")
    for agent in (short_agent, long_agent):
        agent.kill()


def test_longer_max_ttl_votes_at_once():
    nodes = lab.nodes(3)
    short_agent = fleet(nodes, RESTS + 'max_ttl = "20s"\n')
    begun = lab.now()
    long_agent = lab.Agent(nodes, LONG)
    long_agent.wait_voting(3)
    ok(lab.now() - begun < min(8 * lab.SCALE, 20),  # a quarantine takes 21 s
       "nodes after a quarantine vote at once for an agent that grants longer leases")
    equal([node.call("GET", "redlockd:epoch").split()[1] for node in nodes], ["60000"] * 3,
          "and their epochs have the longer max_ttl")
    ok("id" in short_agent.client().acquire("both", "WAIT", 5000), "the other agent continues")
    long_agent.terminate()
    short_agent.bless()
    lab.wait_for(lambda: all(node.call("GET", "redlockd:epoch").split()[1] == "20000" for node in nodes),
                 what="shorter epochs")
    ok("id" in short_agent.client().acquire("shorter", "WAIT", 5000),
       "an operator's --bless makes them shorter again")
    short_agent.terminate()


# --- quarantine ---

def test_quarantine_of_one():
    """One agent's `quarantine = no` counts for that agent alone."""
    nodes = lab.nodes(3)
    careful = fleet(nodes, LONG)
    nodes[2].kill()
    hold(careful, "rested")
    careful.stop()
    nodes[2].start()
    for node in nodes[:2]:
        node.call("FLUSHALL")
    careless = lab.Agent(nodes, 'quarantine = no\nmax_ttl = "60s"')
    careless.wait_voting(3)
    ok("id" in careless.client().acquire("own", "WAIT", 5000),
       "for the agent with quarantine = no all nodes vote")
    other = lab.Agent(nodes, LONG)
    begins(other.client().acquire("rested", "TTL", 1000, "WAIT", 1000), "NOQUORUM",
           "rule 10: not for other agents, whose clients would get a held lease")
    other.wait_node("a", reason="quarantine = no")
    ok(True, "which report why")
    for agent in (careful, careless, other):
        agent.kill()


# --- sets of nodes ---

def test_overlapping_sets():
    """a, b, c beside c, d, e: of the same names, or of others."""
    for names in ("cde", "abc", ["%s-%s" % (name, "x" * 30) for name in "cde"]):
        nodes = lab.nodes(5)
        first = fleet(nodes[:3], LONG)
        holder, grant = hold(first, "shared")
        second = lab.Agent([Named(node, name) for node, name in zip(nodes[2:], names)], LONG)
        for name in names[1:]:
            second.client().call("BLESS", name)
        state = second.wait_node(names[0], "failed", "its own db")
        ok("run 'redlock nodes --bless %s'" % names[0] in state["reason"], "and the next step")
        equal("has the epoch of node c: are their addresses" in state["reason"], names == "abc",
              "of the same names, that addresses may be swapped")
        begins(second.client().acquire("shared", "WAIT", 500), "NOQUORUM",
               "an agent with other nodes gets no votes, where one of them is another fleet's")
        equal(second.status()["voting"], 0, "nor does any node vote for it")
        ok(holder.call("CHECK", grant["id"]) > 0 and "id" in first.client().acquire("other", "WAIT", 5000),
           "the node's own fleet is not disturbed")
        differs = "nodes = c,d,e" if names == "cde" else "name = %s at another agent, c here" % names[0]
        wait_differs(first, nodes[0], differs)
        first.kill()
        second.kill()


def test_shared_node_restarts_with_its_data():
    """Its epoch names a former process, and still the fleet."""
    nodes = lab.nodes(5, "--appendonly", "yes", "--appendfsync", "always")
    first = fleet(nodes[:3], SHORT)
    holder, grant = hold(first, "shared", 2000)
    first.kill()
    nodes[2].kill()
    nodes[2].start()
    second = lab.Agent(nodes[2:], SHORT)
    state = second.wait_node("c", "quarantined", "fleet")
    ok("a, b, c" in state["reason"] or "voted for another fleet, and has restarted" in state["reason"],
       "NODES shows the former fleet of the node, after three seconds what happened: %s" % state["reason"])
    ok("redlock nodes --bless c" in state["reason"], "and the next step")
    equal(second.status()["voting"], 0, "none of its nodes votes")
    second.kill()


def test_one_node_replaced():
    """One agent has d where another one still has c; then a and b restart."""
    for name in "cd":
        nodes = lab.nodes(4)
        former = fleet(nodes[:3], LONG)
        holder, grant = hold(former, "replaced")
        current = lab.Agent([*nodes[:2], Named(nodes[3], name)], LONG)
        lab.wait_for(lambda: current.node_states()[name]["state"] not in ("connecting", "probing"),
                     what="the new node's answer")
        for node in nodes[:2]:
            node.kill()
            node.start()
        begins(current.client().acquire("replaced", "TTL", 1000, "WAIT", 4000), "NOQUORUM",
               "the nodes that have restarted, and the new one, are not a majority")
        ok(holder.call("CHECK", grant["id"]) > 0, "the lease is valid all the time")
        former.kill()
        current.kill()


def test_same_name_elsewhere():
    nodes = lab.nodes(4)
    first = fleet(nodes[:3], SHORT)
    lab.wait_for(lambda: all(node.call("HGET", "redlockd:nodes", "c") for node in nodes[:2]), seconds=15,
                 what="the address of c on the others")
    current = lab.Agent([*nodes[:2], Named(nodes[3], "c")], SHORT)
    current.wait_voting(2)
    current.wait_node("c", "quarantined", "another address")
    ok(True, "an agent that finds another server under a node's name does not bless it by itself")
    bless(current, nodes[2])
    alias = lab.Agent([*nodes[:2], lab.Proxy(nodes[2])], SHORT)
    alias.wait_voting(3)
    ok(True, "an agent that reaches the same server by another address gets its votes")
    for agent in (first, current, alias):
        agent.kill()


def test_sets_change():
    nodes = lab.nodes(4)
    former = fleet(nodes[:3], SHORT)
    ok("id" in former.client().acquire("before", "WAIT", 5000), "a fleet works")
    former.terminate()
    current = lab.Agent([*nodes[:2], nodes[3]], SHORT)
    for name in "ab":
        current.wait_node(name, "failed", "--bless")
    current.wait_node("d", "quarantined", "no epoch key")
    current.bless()  # once: none is lost
    current.wait_voting(3)
    ok("id" in current.client().acquire("after", "WAIT", 5000),
       "an operator's --bless makes its nodes another fleet's")
    late = lab.Agent(nodes[:3], SHORT)
    late.wait_node("a", "failed", "a, b, d")
    equal(late.status()["voting"], 0, "an agent with the former set gets no votes from then on")
    for agent in (current, late):
        agent.terminate()


def test_twins():
    nodes = lab.nodes(2)
    agent = lab.Agent([nodes[0], Named(lab.Proxy(nodes[0]), "b"), Named(nodes[1], "c")], "", keepers=1)
    states = lab.wait_for(lambda: [state for state in agent.node_states().values() if "same server" in
                                   state["reason"]], what="the same server")
    equal(len(states), 1, "one server under two names votes once")
    ok(states[0]["state"] == "failed" and states[0]["name"] in "ab", "and NODES shows that")
    agent.wait_voting(2)
    agent.terminate()


def test_twin_alone():
    """The name that votes loses its connection, then leads to another server."""
    nodes = lab.nodes(3)
    twins = {name: lab.Proxy(nodes[0]) for name in "ab"}
    agent = lab.Agent([*(Named(twins[name], name) for name in "ab"), Named(nodes[1], "c")], lab.UNHURRIED,
                      keepers=1)
    agent.wait_voting(2)
    client, grant = hold(agent, "kept")
    voter, other = ("a", "b") if agent.node_states()["a"]["state"] == "voting" else ("b", "a")
    twins[voter].cut()
    lab.wait_for(lambda: twins[voter].connections, what="the next connection of node " + voter)
    agent.wait_voting(2)
    states = agent.node_states()
    equal((states[voter]["state"], states[other]["state"]), ("voting", "failed"),
          "after a reconnect the server votes by the same name")
    ok("same server" in states[other]["reason"] and client.call("CHECK", grant["id"]) > 0,
       "the other name does not take its place, under which its epoch would be another fleet's")
    nodes[0].kill()
    twins[voter].node = nodes[2]
    nodes[0].start()
    agent.wait_voting(3)
    ok(client.call("CHECK", grant["id"]) > 0, "names that lead to two servers both vote")
    agent.terminate()


# --- settings ---

# What the second agent has differently; what NODES, `redlock nodes` and the log of either agent show of it;
# and whether the two agents exclude each other: with another key_format they have other keys.
UNLIKE = {
    "max_ttl": ('max_ttl = "2s"', "max_ttl = 60s at", "max_ttl = 2s at", True),
    "quarantine": ('quarantine = "no"', "quarantine = yes at", "quarantine = no at", True),
    "fencing": ('fencing = "no"', "fencing = yes at", "fencing = no at", True),
    "fence_skew": ('fence_skew = "30s"', "fence_skew = 60s at", "fence_skew = 30s at", True),
    "fence_retention": ('fence_retention = "2h"', "fence_retention = 1h at", "fence_retention = 2h at",
                        True),
    "key_format": ('key_format = "x:{name}"', "key_format = {name} at", "key_format = x:{name} at", False),
    "node": ("", "nodes = a,b,c at", "nodes = a,b,d at", True),
}


def options_of_the_page():
    """The options in which all agents are configured alike."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "agent", "redlockd.conf.5")) as file:
        text = file.read().split("are configured alike in\n")[1].split(";")[0]
    return set(text.replace(".Ic", " ").replace(",", " ").replace("\nand\n", " ").split())


def shows(agent, text):
    lab.wait_for(lambda: any(text in state["differs"] for state in agent.node_states().values()),
                 what=text)
    lab.wait_for(lambda: text in agent.log_text(), what="%s in the log" % text)
    return text in lab.redlock_run(agent, "nodes")[1]


def let_agents_talk(agent, node):
    """Agents read each other's settings every ten seconds; at once when a node loses its epoch."""
    node.call("DEL", "redlockd:epoch")
    agent.client().acquire("whatever")
    agent.wait_node(node.name, "quarantined")
    bless(agent, node)


def test_unlike_settings():
    """Two agents differ in one option: both show it, and neither grants what the other's client holds."""
    equal(set(UNLIKE), options_of_the_page(), "the page names these options")
    nodes = lab.nodes(3)
    first = fleet(nodes, LONG)
    holder, grant = hold(first, "firsts")
    for option, (config, at_first, at_second, excludes) in UNLIKE.items():
        usual = "\n".join(line for line in LONG.splitlines() if not line.startswith(option))
        theirs = [*nodes[:2], Named(nodes[2], "d")] if option == "node" else nodes
        second = lab.Agent(theirs, usual + "\n" + config)
        ok(shows(second, at_first), "%s: the later agent shows %s another agent" % (option, at_first))
        patience = () if excludes else ("WAIT", 5000)
        other = second.client().acquire("firsts", "TTL", 2000, *patience)
        equal(isinstance(other, dict), not excludes, "%s: what the first agent's client holds" % option)
        seconds = second.client()
        own = seconds.acquire("seconds %s" % option, "TTL", 2000)
        if isinstance(own, dict):
            other = first.client().acquire("seconds %s" % option, "TTL", 2000, *patience)
            equal(isinstance(other, dict), not excludes, "%s: what the later agent's client holds" % option)
        else:
            begins(own, "NOQUORUM", "%s: no node votes for the later agent" % option)
        let_agents_talk(first, nodes[0])
        ok(shows(first, at_second), "%s: the first agent shows %s another agent" % (option, at_second))
        second.kill()
        for node in nodes:
            node.call("HDEL", "redlockd:nodes", ":settings:2")
    ok(holder.call("CHECK", grant["id"]) > 0, "the lease is valid all the time")
    first.kill()


def test_versions():
    """An agent of another version has noted its settings on one node."""
    nodes = lab.nodes(3)
    for settings, shown in (("version=9.9.9 keys=99 max_ttl=60s", "version = 9.9.9 at another agent"),
                            ("max_ttl=60s", "version = before 0.2.0 at another agent")):
        seconds, microseconds = nodes[1].call("TIME")
        nodes[1].call("HSET", "redlockd:nodes", ":settings:2",
                      "%s%06d %s" % (seconds, int(microseconds), settings))
        agent = lab.Agent(nodes, LONG)
        lab.wait_for(lambda: shown in agent.node_states()["b"]["differs"], what="the version in NODES")
        lab.wait_for(lambda: shown in agent.log_text(), what="the version in the log")
        ok(shown in lab.redlock_run(agent, "nodes")[1], "redlock nodes, NODES and the log show: %s" % shown)
        agent.kill()


main(test_fresh_agent_reaches_less, test_idle_agent, test_longer_max_ttl_votes_at_once,
     test_quarantine_of_one, test_overlapping_sets, test_shared_node_restarts_with_its_data,
     test_one_node_replaced, test_same_name_elsewhere, test_sets_change, test_twins, test_twin_alone,
     test_unlike_settings, test_versions)
