"""Rules 7 and 10 on real servers: nodes that return with old data or as replicas, foreign writes to keys,
and all of them at once while clients hold and contend. The clients' records are checked afterwards."""

import os

import history
import lab
from tap import begins, equal, main, ok

TTL_S = 8 * lab.SCALE
TIMES = 'max_ttl = "%ds"\ndefault_ttl = "%ds"\nnode_timeout = "1s"\n' % (TTL_S, TTL_S)
PATIENT = TIMES + "quarantine = yes"
BLIND = TIMES + "quarantine = no"


def trusting(nodes, config=PATIENT):
    agent = lab.Agent(nodes, config)
    agent.bless_all()
    return agent


def test_the_check_itself():
    checked = history.History()
    checked.add("a", 1.0, 2.0, 7)
    checked.add("a", 1.5, 3.0, 8)
    checked.add("b", 1.0, 2.0, 9)
    checked.add("b", 2.0, 3.0, 9)
    equal(len(checked.troubles()), 2, "an overlap and a repeated token are detected")


def second_holder(spoil, config):
    """A holder's agent is stopped, and two of three nodes lose data: a new agent must not grant the
    lease."""
    nodes = lab.nodes(3)
    first = trusting(nodes)
    holder = first.client(3)
    prepared = [spoil(node) for node in nodes[1:]]
    deadline = holder.acquire("contended")["deadline"] / 1e9
    first.stop()  # so nothing is repaired
    for step in prepared:
        step()
    second = lab.Agent(nodes, config)
    answer = second.client().acquire("contended", "WAIT", 1500)
    in_time = lab.now() < deadline
    for agent in (first, second):
        agent.kill()
    return answer, in_time


def old_data(node):
    """The node will return with its data from before the lease."""
    node.call("SAVE")

    def spoil():
        node.kill()
        node.start()
    return spoil


def promoted(node):
    """A replica without the lease replaces the node."""
    port = str(20000 + os.getpid() % 20000 + ord(node.name))
    node.call("CONFIG", "SET", "port", port)
    replica = lab.Node(node.name + "2", "--replicaof", "127.0.0.1 " + port)
    lab.wait_for(lambda: "master_link_status:up" in replica.call("INFO", "replication"), what="the replica")
    replica.call("REPLICAOF", "NO", "ONE")

    def spoil():
        node.kill()
        os.rename(replica.socket_path, node.socket_path)
    return spoil


def flushed(node):
    return lambda: node.call("FLUSHALL")


def test_second_holder():
    for name, spoil in (("old data", old_data), ("a promoted replica", promoted), ("FLUSHALL", flushed)):
        answer, in_time = second_holder(spoil, PATIENT)
        begins(answer, "NOQUORUM", "rule 10: %s on a majority: no second holder" % name)
        answer, in_time = second_holder(spoil, BLIND)
        ok(isinstance(answer, dict) and in_time,
           "with quarantine = no there is a second holder (%s): the test detects it" % name)


class NoNode:
    """An address without a server."""

    def __init__(self, name):
        self.name = name
        self.address = "unix:" + lab.path("nobody")


def third_vote_forgotten(config):
    """A holds a lease by three of five nodes, and one of them restarts empty: B, which reaches all, must
    not get it."""
    nodes = lab.nodes(5)
    second = trusting(nodes, config)
    first = lab.Agent(nodes[:3] + [NoNode("d"), NoNode("e")], config)
    first.wait_voting(3)
    holder = first.client(3)
    deadline = holder.acquire("third vote")["deadline"] / 1e9
    first.stop()
    nodes[2].kill()
    nodes[2].start()
    lab.wait_for(lambda: "voting" not in second.node_states()["c"]["state"] or config == BLIND,
                 what="the notice")
    answer = second.client().acquire("third vote", "WAIT", 3000)
    in_time = lab.now() < deadline
    for agent in (first, second):
        agent.kill()
    return answer, in_time


def test_third_vote_forgotten():
    answer, in_time = third_vote_forgotten(PATIENT)
    ok(in_time and not isinstance(answer, dict),
       "rule 10: a node restarts empty while its vote is needed: no second holder (%s)" % answer)
    answer, in_time = third_vote_forgotten(BLIND)
    ok(in_time and isinstance(answer, dict),
       "with quarantine = no there is a second holder: the test detects it")


def test_foreign_hands():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    grant = client.acquire("touched", "TTL", 5000)
    lab.wait_for(lambda: lab.keys_on(nodes, "touched") == 3, what="the key on all nodes")
    nodes[0].call("SET", "touched", "somebody else")
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] > extensions + 1, what="an extension")
    ok(client.call("CHECK", grant["id"]) > 0,
       "rule 7: with a foreign value on a minority the lease is extended")
    lab.wait_for(lambda: "lease touched: node a has another client's value" in agent.log_text(),
                 what="a line in the log")
    equal(nodes[0].call("GET", "touched"), "somebody else", "and the value is not overwritten")
    nodes[0].call("DEL", "touched")
    lab.wait_for(lambda: lab.keys_on(nodes, "touched") == 3, what="the repair")
    ok(True, "rule 7: a missing key is set again")
    for node in nodes[:2]:
        node.call("DEL", "touched")
    lab.wait_for(lambda: lab.keys_on(nodes, "touched") == 3, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0, "also on a majority, unless another client was faster")
    for node in nodes[:2]:
        node.call("SET", "touched", "somebody else")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "taken"], "rule 13: with a foreign value on a majority: lost, taken")
    equal(nodes[0].call("GET", "touched"), "somebody else", "which stays")
    agent.terminate()


ROUNDS_MAX = 8


def all_vote(nodes, agents, what):
    lab.wait_for(lambda: all(agent.status()["voting"] == len(nodes) for agent in agents), 30, what)


def disturb(nodes, agents, rounds, enough):
    """One fault after the other, each ended before the next, until there are enough records."""
    for i in range(ROUNDS_MAX):
        if i >= rounds and enough():
            break
        node, agent = nodes[i % len(nodes)], agents[i % len(agents)]
        node.kill()
        node.start()
        all_vote(nodes, agents, "the quarantine")
        node.call("FLUSHALL")
        node.stop()
        lab.time.sleep(0.2)
        node.cont()
        all_vote(nodes, agents, "the quarantine")
        agent.stop()
        lab.time.sleep(1.3 * lab.SCALE)  # longer than the ttl
        agent.cont()
        agent.kill()
        agent.start()
        all_vote(nodes, agents, "the agent")


def test_history():
    nodes = lab.nodes(5)
    config = 'max_ttl = "1s"\ndefault_ttl = "1s"\nquarantine = yes'
    agents = [trusting(nodes, config), lab.Agent(nodes, config)]
    agents[1].wait_voting(5)
    recorded = history.History()
    threads = history.holders(recorded, agents, ["one", "two", "three"], 12)
    disturb(nodes, agents, 2 if lab.SCALE == 1 else 1, lambda: len(recorded.intervals) > 20)
    history.stop(threads)
    ok(len(recorded.intervals) > 20, "clients held leases (%d times; refusals: %s)" % (
        len(recorded.intervals), recorded.refusals))
    equal(recorded.troubles(), [], "rule 1 to 13: never two holders at once, and tokens grow")
    for agent in agents:
        agent.kill()


main(test_the_check_itself, test_second_holder, test_third_vote_forgotten, test_foreign_hands,
     test_history)
