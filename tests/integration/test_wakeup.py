"""A release on another host wakes the waiter. Times are compared with polling in the same run."""

import os
import re

import lab
from tap import equal, main, note, ok

ROUNDS = 25
CHANNEL = "redlockd:free:"
POLLER = ["SETUSER", "poller", "reset", "on", ">a secret", "~*", "+@all", "-@pubsub"]
POLLER_LOGIN = 'user = "poller" password = "a secret"'


def listeners(node, channel):
    return node.call("PUBSUB", "NUMSUB", channel)[1]


def subscribed(nodes, name, prefix=CHANNEL):
    """Waits until one agent is subscribed to the name on all of these nodes."""
    lab.wait_for(lambda: all(listeners(node, prefix + name) >= 1 for node in nodes),
                 what="the subscription to " + name)


def hand_off(holder, waiter, agent, name, listening=()):
    """Seconds from the release to the grant at the other agent, which is subscribed on these nodes."""
    grant = holder.acquire(name)
    waiter.send("ACQUIRE", name, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    subscribed(listening, name)
    begun = lab.now()
    holder.send("RELEASE", grant["id"])
    other = lab.as_map(waiter.reply())
    took = lab.now() - begun
    equal_or_fail(holder.reply(), 1)
    equal_or_fail(waiter.call("RELEASE", other["id"]), 1)
    return took


def equal_or_fail(value, wanted):
    if value != wanted:
        raise AssertionError("%r is not %r" % (value, wanted))


def median_hand_off(agents, label, listening=()):
    """The median in ms, over hand-offs of one new name each."""
    holder, waiter = (agent.client(3) for agent in agents)
    times = [hand_off(holder, waiter, agents[1], "%s %d" % (label, i), listening) for i in range(ROUNDS)]
    for client in (holder, waiter):
        client.close()
    note("%s: median %.2f ms" % (label, 1000 * lab.median(times)))
    return lab.median(times)


def pair(nodes, config="", **options):
    agents = [lab.Agent(nodes, config + lab.UNHURRIED, **options) for _ in range(2)]
    for agent in agents:
        agent.wait_voting(len(nodes))
    return agents


def end(agents):
    for agent in agents:
        agent.terminate()


def test_woken_and_polling():
    nodes = lab.nodes(5)
    for node in nodes:
        equal_or_fail(node.call("ACL", *POLLER), "OK")
    agents, pollers = pair(nodes), pair(nodes, node_config=POLLER_LOGIN)
    woken = median_hand_off(agents, "woken", nodes)
    polling = median_hand_off(pollers, "polling")
    ok(woken < polling / 4, "a release wakes the other agent, well before its next poll")
    equal(sum(listeners(node, CHANNEL + "polling 0") for node in nodes), 0,
          "an agent whose user may not subscribe polls, and acquires")
    lines = re.findall(r"node \w: does not wake waiters, which poll instead.*", pollers[0].log_text())
    equal(len(lines), 5, "and logs it, once a node: %s" % lines[:1])
    ok("+publish" in lines[0] and "+subscribe" in lines[0], "with the missing rights")
    equal([node.call("ACL", "LOG") for node in nodes], [[]] * 5, "without a forbidden command")
    nodes[4].stop()
    stopped = median_hand_off(agents, "woken with one node stopped", nodes[:4])
    ok(stopped < polling / 2, "one stopped node of five delays no wake-up")
    nodes[4].cont()
    end(agents + pollers)


def test_cut():
    nodes = lab.nodes(3)
    agents = pair(nodes)
    holder, waiter = agents[0].client(3), agents[1].client(3)
    for i in range(5):
        name = "cut %d" % i
        grant = holder.acquire(name)
        waiter.send("ACQUIRE", name, "WAIT", -1)
        subscribed(nodes, name)
        killed = sum(node.call("CLIENT", "KILL", "TYPE", "pubsub") for node in nodes)
        holder.call("RELEASE", grant["id"])
        other = lab.as_map(waiter.reply(timeout=5))
        ok(killed >= 3 and other["fence"] > grant["fence"],
           "a release right after the loss of all subscriptions is not missed")
        waiter.call("RELEASE", other["id"])
    grant = holder.acquire("again")
    waiter.send("ACQUIRE", "again", "WAIT", -1)
    subscribed(nodes, "again")
    for node in nodes:
        node.call("CLIENT", "KILL", "TYPE", "pubsub")
    subscribed(nodes, "again")
    holder.call("RELEASE", grant["id"])
    ok(waiter.reply(timeout=5), "the subscriptions return")
    holder.close()
    waiter.close()
    lab.wait_for(lambda: all(node.call("CLIENT", "LIST", "TYPE", "pubsub") == "" for node in nodes),
                 seconds=20, what="the end of the connections for messages")
    ok(True, "without a waiter those connections are closed")
    end(agents)


def foreign_release(nodes, agent, client, name, publish=False):
    """Seconds from another program's release of its lock to the grant."""
    for node in nodes:
        node.call("SET", name, "somebody", "NX", "PX", 60000)
    client.send("ACQUIRE", name, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    subscribed(nodes, name)
    begun = lab.now()
    for node in nodes:
        node.call("DEL", name)
        if publish:
            node.call("PUBLISH", CHANNEL + name, "")
    grant = lab.as_map(client.reply())
    took = lab.now() - begun
    client.call("RELEASE", grant["id"])
    return took


def test_foreign():
    plain, notifying = lab.nodes(3), lab.nodes(3, "--notify-keyspace-events", "Kgx")
    times = {}
    for what, nodes, publish in (("polled", plain, False), ("notified", notifying, False),
                                 ("published", plain, True)):
        agent = lab.Agent(nodes, lab.UNHURRIED)
        agent.wait_voting(3)
        client = agent.client(3)
        times[what] = lab.median([foreign_release(nodes, agent, client, "%s %d" % (what, i), publish)
                                  for i in range(ROUNDS)])
        note("another program's DEL, %s: median %.2f ms" % (what, 1000 * times[what]))
        agent.terminate()
    ok(times["notified"] < times["polled"] / 2, "keyspace notifications wake the waiter for a foreign lock")
    ok(times["published"] < times["polled"] / 2, "a message on the documented channel wakes it, too")


def script_calls(node):
    return int(re.search(r"cmdstat_evalsha:calls=(\d+)", node.call("INFO", "commandstats")).group(1))


def test_own_deletions():
    """Failed attempts delete their keys. The notifications of these deletions wake nobody."""
    nodes = lab.nodes(3, "--notify-keyspace-events", "Kgx")
    agents = pair(nodes)
    for node in nodes[:2]:
        node.call("SET", "taken", "somebody", "NX", "PX", 60000)
    clients = [agent.client(3) for agent in agents]
    for client in clients:
        client.send("ACQUIRE", "taken", "WAIT", -1)
    subscribed(nodes, "taken")
    before, begun = [script_calls(node) for node in nodes], lab.now()
    lab.wait_for(lambda: lab.now() > begun + 1, what="a second")
    passed = lab.now() - begun
    calls = [script_calls(node) - count for node, count in zip(nodes, before)]
    ok(max(calls) < 160 * passed,
       "two agents poll a foreign lock at most 80 times a second: %s calls in %.1f s" % (calls, passed))
    for node in nodes[:2]:
        node.call("DEL", "taken")
    for client in clients:
        client.call("RELEASE", lab.as_map(client.reply())["id"])
    ok(True, "and acquire it")
    end(agents)


def test_tcp_and_a_password():
    nodes = [lab.TcpNode(name) for name in "abc"]
    for node in nodes:
        node.call("ACL", "SETUSER", "someone", "on", ">a secret", "~*", "&*", "+@all")
    agents = pair(nodes, node_config='user = someone password = "a secret" db = 3')
    holder, waiter = agents[0].client(3), agents[1].client(3)
    grant = holder.acquire("over TCP")
    waiter.send("ACQUIRE", "over TCP", "WAIT", -1)
    subscribed(nodes, "over TCP")
    holder.call("RELEASE", grant["id"])
    other = lab.as_map(waiter.reply())
    ok(other["fence"] > grant["fence"], "over TCP, with a password, in another database")
    end(agents)


def test_published():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, 'key_format = "prefix:{name}"\n' + lab.UNHURRIED)
    agent.wait_voting(3)
    ear = lab.Client(nodes[0].socket_path)
    ear.call("SUBSCRIBE", CHANNEL + "prefix:published")
    client = agent.client()
    client.call("RELEASE", client.acquire("published")["id"])
    equal(ear.read(), ["message", CHANNEL + "prefix:published", ""], "published on the key's channel")
    agent.terminate()


def test_without_config():
    """Hardened servers have no CONFIG, which the agent does not need."""
    nodes = lab.nodes(3, "--rename-command", "CONFIG", "")
    agents = pair(nodes)
    holder, waiter = agents[0].client(3), agents[1].client(3)
    grant = holder.acquire("hardened")
    waiter.send("ACQUIRE", "hardened", "WAIT", -1)
    subscribed(nodes, "hardened")
    ear = lab.Client(nodes[0].socket_path)
    ear.call("SUBSCRIBE", CHANNEL + "hardened")
    holder.call("RELEASE", grant["id"])
    equal(ear.read(), ["message", CHANNEL + "hardened", ""], "servers without CONFIG publish a release")
    ok(lab.as_map(waiter.reply())["fence"] > grant["fence"], "and the waiter of the other agent has it")
    ok("does not wake waiters" not in agents[0].log_text(), "which the log does not deny")
    end(agents)


def test_without_needed_command():
    nodes = [lab.Node("a"), lab.Node("b", "--rename-command", "UNLINK", "")]
    agent = lab.Agent(nodes)
    ok(agent.wait_node("b", reason="+unlink"), "a server without a needed command does not vote, and NODES "
       "has the command")
    agent.terminate()


class Speechless(lab.FakeNode):
    """Does not say what rights the agent's user has."""

    def _reply(self, word, items):
        asked = word == b"EVAL" and items[3] == b"redlockd:rights"
        return b"-ERR something else\r\n" if asked else super()._reply(word, items)


def test_unknown_rights():
    agent = lab.Agent([Speechless("a")])
    agent.wait_voting(1)
    line = "node a: does not wake waiters, which poll instead: its user's rights are unknown: ERR something"
    lab.wait_for(lambda: line in agent.log_text(), what="the log's line")
    equal(agent.log_text().count(line), 1, "another answer about rights is logged, once")
    agent.terminate()


def channels(node):
    """All subscribed channels: names, and the pings of the connections."""
    return int(re.search(r"pubsub_channels:(\d+)", node.call("INFO", "stats")).group(1))


def test_many():
    count = 1000
    nodes = lab.nodes(3)
    agents = pair(nodes, "max_leases = 20000\n")
    holder, waiter = agents[0].client(3), agents[1].client(3)
    for client in (holder, waiter):
        for i in range(count):
            client.send("ACQUIRE", "many %d" % i, "ASYNC", "WAIT", -1)
        for i in range(count):
            client.reply()
        if client is holder:
            for i in range(count):
                client.push("granted")
    lab.wait_for(lambda: all(channels(node) > count for node in nodes), what="all subscriptions")
    stats = nodes[0].call("INFO", "commandstats")
    calls = int(re.search(r"cmdstat_subscribe:calls=(\d+)", stats).group(1))
    ok(calls < count / 3, "%d names are subscribed to by %d commands" % (count, calls))
    connections = nodes[0].call("CLIENT", "LIST", "TYPE", "pubsub").count("\n")
    ok(connections <= agents[1].keepers, "over one connection a keeper")
    holder.close()
    for i in range(count):
        waiter.push("granted")
    ok(True, "a waiter for thousands of names gets them all when their holder dies")
    end(agents)


if __name__ == "__main__":
    main(test_woken_and_polling, test_cut, test_foreign, test_own_deletions, test_tcp_and_a_password,
         test_published, test_without_config, test_without_needed_command, test_unknown_rights,
         test_many)
