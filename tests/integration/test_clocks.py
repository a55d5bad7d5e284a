"""Rule 11 on real servers: nodes whose wall clocks are set while they run."""

import lab
from clocknode import ClockNode
from tap import begins, main, ok, within

CONFIG = 'max_ttl = "%ds"\ndefault_ttl = "%ds"\nnode_timeout = "1s"\nquarantine = %s'


def trusting(nodes, quarantine="yes", ttl_s=5):
    agent = lab.Agent(nodes, CONFIG % (ttl_s, ttl_s, quarantine))
    count = len([node for node in nodes if isinstance(node, lab.Node)])

    def vote():
        agent.bless()
        return agent.status()["voting"] == count

    lab.wait_for(vote, what="blessed nodes")
    return agent


class NoNode:
    """An address without a server."""

    def __init__(self, name):
        self.name = name
        self.address = "unix:" + lab.path("nobody")


def take_over(quarantine):
    """A holds a lease by three of five nodes, and the clock of one of them is set forward: B must not
    get it."""
    nodes = [ClockNode(name) for name in "abcde"]
    first = trusting(nodes[:3] + [NoNode("d"), NoNode("e")], quarantine, ttl_s=10)
    second = trusting(nodes, quarantine, ttl_s=10)
    holder = first.client(3)
    deadline = holder.acquire("stepped")["deadline"] / 1e9
    first.stop()  # A extends nothing; its holder considers the lease valid until the deadline
    nodes[2].set_clock(30)  # less than fence_skew: tokens alone would not exclude B
    answer = second.client().acquire("stepped", "WAIT", 1000)
    in_time = lab.now() < deadline
    state = second.node_states()["c"]
    first.kill()
    second.kill()
    return answer, in_time, state


def test_forward():
    answer, in_time, state = take_over("yes")
    ok(in_time and not isinstance(answer, dict),
       "rule 11: a clock set forward lets no second holder in: %s" % answer)
    ok(state["state"] != "voting", "the node does not vote (%s)" % state["state"])
    answer, in_time, _ = take_over("no")
    ok(in_time and isinstance(answer, dict),
       "with quarantine = no there is a second holder: the test detects it")


def test_held_on():
    """The holder's own agent notices it, too: the lease is extended at the other nodes."""
    nodes = [ClockNode(name) for name in "abcde"]
    agent = trusting(nodes)
    client = agent.client(3)
    grant = client.acquire("held on")
    nodes[2].set_clock(3600)
    lab.wait_for(lambda: agent.node_states()["c"]["state"] != "voting", what="the notice")
    lab.wait_for(lambda: "its clock was set forward by 3" in agent.log_text(), what="the log's line")
    ok(True, "one line in the log")
    ok(client.call("CHECK", grant["id"]) > 0, "the other nodes keep the lease")
    agent.wait_voting(5, seconds=20)
    lab.wait_for(lambda: lab.keys_on(nodes, "held on") == 5, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "after the quarantine the node votes, and has the key again")
    nodes[2].set_clock(0)
    lab.wait_for(lambda: agent.node_states()["c"]["state"] != "voting", what="the notice")
    lab.wait_for(lambda: "set back by" in agent.log_text(), what="the log's line")
    ok(True, "a clock set back is noticed")
    agent.wait_voting(5, seconds=20)
    ok(client.call("CHECK", grant["id"]) > 0, "and changes nothing")
    first, second = grant["fence"], client.acquire("next")["fence"]
    ok(first > 0 and second > 0, "tokens grow on")
    agent.terminate()


def test_far():
    """A clock that is wrong but runs at the usual rate does no harm."""
    nodes = [ClockNode("a"), ClockNode("b"), ClockNode("c", ahead_s=-7)]
    agent = trusting(nodes)
    ok("id" in agent.client().acquire("far"), "a node that is 7 s behind votes")
    within(-agent.node_states()["c"]["clock"], 6900, 7100, "NODES has the difference")
    agent.terminate()


def test_all_at_once():
    """All nodes' clocks seem to be set: perhaps the agent's clock stopped."""
    nodes = [ClockNode(name) for name in "abc"]
    agent = trusting(nodes)
    client = agent.client(3)
    grant = client.acquire("stood still")
    epochs = [node.call("GET", "redlockd:epoch") for node in nodes]
    agent.stop()  # it sees all at once
    for node in nodes:
        node.set_clock(100)
    agent.cont()
    push = client.push("lost", timeout=20)
    ok(push[1:3] == [grant["id"], "paused"], "rule 11: the holder gets lost, paused (%s)" % push)
    begins(client.acquire("other"), "NOQUORUM", "this agent sends no requests")
    ok([node.call("GET", "redlockd:epoch") for node in nodes] == epochs, "the epochs stay")
    agent.wait_voting(3, seconds=20)
    ok("id" in client.acquire("other"), "until all leases have ended that the nodes may have forgotten")
    agent.terminate()


main(test_forward, test_held_on, test_far, test_all_at_once)
