"""Rule 12: fencing tokens from real servers. Tokens grow from holder to holder, whatever data the nodes
lose."""

import json
import lab
from tap import begins, equal, main, ok


def script_calls(node):
    """How many scripts the node has run."""
    line = [line for line in node.call("INFO", "commandstats").splitlines()
            if line.startswith("cmdstat_evalsha:")]
    return int(line[0].split("calls=")[1].split(",")[0]) if line else 0


def executed(nodes, name):
    """Waits until each node has set and deleted the key: a grant and a release need a majority only."""
    lab.wait_for(lambda: all(node.call("HEXISTS", "redlockd:fences", name) for node in nodes) and
                 lab.keys_on(nodes, name) == 0, what="%s on each node" % name)


def take(agent, name, *options):
    """Acquires and releases a lease; its token."""
    with_client = agent.client()
    grant = with_client.acquire(name, *options)
    with_client.call("RELEASE", grant["id"])
    with_client.close()
    return grant["fence"]


def test_uncontended():
    nodes = lab.nodes(5)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    agent.wait_voting(5)
    take(agent, "warm")
    executed(nodes, "warm")
    before = [script_calls(node) for node in nodes]
    token = take(agent, "one round trip")
    executed(nodes, "one round trip")
    equal([script_calls(node) - calls for node, calls in zip(nodes, before)], [2] * 5,
          "rule 12: a token costs no round trip: one script to acquire, one to release")
    ok(0 < token < 1 << 53, "the token fits into 53 bits")
    equal([node.call("HGET", "redlockd:fences", "one round trip") for node in nodes], [str(token)] * 5,
          "the nodes remember it")
    client = agent.client()
    grant = client.acquire("seen", "DATA", "x")
    equal(lab.as_map(client.call("LEADER", "seen"))["fence"], grant["fence"], "LEADER returns it")
    shown = json.loads(lab.redlock_run(agent, "leader", "--json", "seen")[1])
    equal(shown["fence"], grant["fence"], "so does redlock leader")
    agent.terminate()


def test_growing():
    nodes = lab.nodes(3)
    agents = [lab.Agent(nodes, lab.UNHURRIED), lab.Agent(nodes, lab.UNHURRIED)]
    take(agents[0], "growing", "WAIT", 5000)
    before = [script_calls(node) for node in nodes]
    tokens = [take(agents[i % 2], "growing", "WAIT", 5000) for i in range(200)]
    ok(all(a < b for a, b in zip(tokens, tokens[1:])), "200 holders on two agents: each token is larger")
    raised = [script_calls(node) - calls - 2 * len(tokens) for node, calls in zip(nodes, before)]
    ok(max(raised) < len(tokens) / 2,
       "each with one round trip to acquire, or nearly, though the nodes' floors are ahead of their clocks")
    for agent in agents:
        agent.terminate()


def test_minority_fails():
    """Each token is accepted by a majority, each time another majority."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    tokens = [take(agent, "rotating")]
    for i in range(6):
        nodes[i % 3].kill()
        lab.wait_for(lambda: agent.status()["voting"] == 2, what="the node's end")
        tokens.append(take(agent, "rotating"))
        nodes[i % 3].start()
        agent.wait_voting(3)
        tokens.append(take(agent, "rotating"))
    ok(all(a < b for a, b in zip(tokens, tokens[1:])),
       "rule 12: nodes restart empty one after the other: tokens grow (floors)")
    agent.terminate()


def test_all_forget():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    # As after an agent whose tokens ran ahead: near the largest that a node accepts.
    ahead = int(lab.time.time() * 1e6) + 58 * 1000000
    for node in nodes:
        node.call("HSET", "redlockd:fences", "ahead", ahead)
    first = take(agent, "ahead")
    ok(first > ahead, "a token larger than any proposal: asked again with a larger one")
    for node in nodes:
        node.call("FLUSHALL")
    agent.terminate()
    agent = lab.Agent(nodes, lab.UNHURRIED)
    second = take(agent, "ahead", "WAIT", 10000)
    ok(second > first, "rule 12: tokens grow though all nodes have lost all data")
    agent.terminate()


def test_beyond():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    for node in nodes[:2]:
        node.call("HSET", "redlockd:fences", "beyond", int(lab.time.time() * 1e6) + 3600 * 1000000)
    answer = agent.client().acquire("beyond", "TTL", 60000)
    begins(answer, "NOQUORUM", "a fence from the far future on a majority: no token, no grant")
    ok("has accepted a larger fencing token" in str(answer), "and why")
    lab.wait_for(lambda: lab.keys_on(nodes, "beyond") == 0, what="the release")
    ok(True, "the attempt leaves no key")
    nodes[0].call("HDEL", "redlockd:fences", "beyond")
    ok(take(agent, "beyond") > 0, "on a minority it does not matter")
    nodes[0].call("DEL", "redlockd:fences")
    nodes[0].call("RPUSH", "redlockd:fences", "x")
    ok(take(agent, "beyond") > 0, "nor do fences of another type")
    agent.terminate()


def test_without():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, "fencing = no\n" + lab.UNHURRIED)
    client = agent.client()
    grant = client.acquire("plain")
    equal(grant["fence"], 0, "fencing = no: 0")
    equal(sum(node.call("EXISTS", "redlockd:fences") for node in nodes), 0, "and nothing is kept")
    out = lab.redlock_run(agent, "run", "other", "--", "sh", "-c", 'echo "${REDLOCK_FENCE-none}"')[1]
    equal(out.strip(), "none", "nor REDLOCK_FENCE")
    agent.terminate()
    agent = lab.Agent(nodes, 'rule "plain/*" { fencing = no }\n' + lab.UNHURRIED)
    client = agent.client()
    equal(client.acquire("plain/a")["fence"], 0, "fencing = no of a rule: 0")
    equal(sum(node.call("HEXISTS", "redlockd:fences", "plain/a") for node in nodes), 0,
          "and nothing is kept")
    ok(client.acquire("fenced")["fence"] > 0, "other names have tokens")
    equal(lab.as_map(client.call("LEADER", "plain/a"))["fence"], 0, "LEADER returns 0, too")
    agent.terminate()


def near(node, token):
    """Whether the node would accept a somewhat larger token. Near the floor this takes until its clock
    has advanced."""
    seconds, us = node.call("TIME")
    return token + 10000 < int(seconds) * 1000000 + int(us) + 60 * 1000000


def test_retention():
    """The nodes measure the age of the table of fences by their own clocks: the test makes the table
    older."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, 'fence_retention = "2h"\n' + lab.UNHURRIED)
    agent.wait_voting(3)
    first = take(agent, "kept")
    executed(nodes, "kept")
    equal([node.call("PTTL", "redlockd:fences") for node in nodes], [-1] * 3, "fences don't expire")
    for node in nodes:
        begun_us = int(node.call("HGET", "redlockd:fences", "").split()[0])
        node.call("HSET", "redlockd:fences", "", begun_us - 7201 * 1000000)
    client = agent.client()
    second = client.acquire("other")["fence"]
    lab.wait_for(lambda: all(node.call("HEXISTS", "redlockd:fences", "other") for node in nodes),
                 what="the token on each node")
    equal([node.call("HGET", "redlockd:fences:old", "kept") for node in nodes], [str(first)] * 3,
          "then the nodes begin another table, and keep the former one for the same time")
    equal([node.call("HGET", "redlockd:fences", "other") for node in nodes], [str(second)] * 3,
          "new grants are in the new table")
    ahead = second + 10000
    lab.wait_for(lambda: all(near(node, ahead) for node in nodes), what="clocks that are near enough")
    for node in nodes:
        node.call("HSET", "redlockd:fences:old", "kept", ahead)
    ok(take(agent, "kept") > ahead, "rule 12: and tokens grow beyond those of the former one")
    agent.terminate()


main(test_uncontended, test_growing, test_minority_fails, test_all_forget, test_beyond, test_without,
     test_retention)
