"""Nodes that are down, silent, slow or restarted, and foreign keys on them."""

import json
import time

import lab
from lab import acquire_and_release
from tap import begins, equal, main, ok, within


def test_minority_and_majority_down():
    nodes = lab.nodes(5)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    kept = client.acquire("kept", "TTL", 9000)
    for node in nodes[:2]:
        node.kill()
    equal(acquire_and_release(client, "two down"), "granted", "with two nodes of five down: granted")
    nodes[2].kill()

    def refused():
        """The other two vote until the name's keeper has noticed the end of the third connection."""
        begun = lab.now()
        error = client.acquire("three down")
        return (error, lab.now() - begun) if "NOQUORUM 0 " in str(error) else None

    error, took = lab.wait_for(refused, what="the notice")
    begins(error, "NOQUORUM 0 of 5 nodes voted, 3 are needed; ", "with three down: NOQUORUM, with the nodes")
    ok(took < 0.5 * lab.SCALE, "at once (%.1f ms)" % (1000 * took))
    begun = lab.now()
    error = client.acquire("three down", "WAIT", 400)
    begins(error, "NOQUORUM waited", "the same with WAIT, after the wait")
    within(lab.now() - begun, 0.39, 2 * lab.SCALE, "not before")
    push = client.push("at-risk")
    equal((push[1], push[3]), (kept["id"], "no-quorum"), "the holder gets at-risk")
    nodes[2].start()
    push = client.push("extended")
    equal(push[1], kept["id"], "and extended when the quorum is back in time")
    ok(client.call("CHECK", kept["id"]) > 0, "nothing was lost")
    agent.wait_voting(3)
    equal(acquire_and_release(client, "three up"), "granted", "the returned node votes again")
    for node in nodes[:3]:
        node.kill()
    push = client.push("lost")
    equal(push[1:3], [kept["id"], "no-quorum"], "without a quorum until the deadline it is lost")
    agent.terminate()


def test_silent_nodes():
    nodes = lab.nodes(5)
    agent = lab.Agent(nodes, 'node_timeout = "500ms"\n')
    client = agent.client()
    for node in nodes[:2]:
        node.stop()
    times = []
    for i in range(20):
        begun = lab.now()
        assert acquire_and_release(client, "silent %d" % i) == "granted"
        times.append(lab.now() - begun)
    ok(lab.median(times) < 0.05 * lab.SCALE,
       "two stopped nodes of five delay nothing (%.1f ms)" % (1000 * lab.median(times)))
    nodes[2].stop()
    begun = lab.now()
    begins(client.acquire("silent"), "NOQUORUM", "three stopped nodes: NOQUORUM")
    ok(lab.now() - begun < 2.5 * lab.SCALE, "within three node time-outs")
    ok("has not answered" in agent.wait_node("a", "failed")["reason"], "NODES says why")
    for node in nodes[:3]:
        node.cont()
    agent.wait_voting(5)
    equal(acquire_and_release(client, "silent"), "granted", "they vote again when they continue")
    lab.wait_for(lambda: sum(lab.keys_on(nodes, "silent %d" % i) for i in range(20)) == 0, seconds=15,
                 what="the releases at the stopped nodes")
    ok(True, "no key remains on them")
    agent.terminate()


def test_slow_nodes():
    nodes = [lab.Proxy(node) for node in lab.nodes(5)]
    agent = lab.Agent(nodes, 'node_timeout = "200ms"\n')
    client = agent.client()
    for proxy in nodes[:2]:
        proxy.delay = 0.4 * lab.SCALE
    begun = lab.now()
    equal(acquire_and_release(client, "slow"), "granted", "two slow nodes")
    ok(lab.now() - begun < 0.75 * lab.SCALE, "don't slow the majority down")
    for proxy in nodes:
        proxy.delay = 0.4
    begins(client.acquire("all slow"), "NOQUORUM", "all slower than the node time-out: NOQUORUM")
    for proxy in nodes:
        proxy.delay = 0
    lab.wait_for(lambda: sum(lab.keys_on([proxy.node for proxy in nodes], name)
                             for name in ("slow", "all slow")) == 0,
                 what="the end of the keys")
    ok(True, "keys that were set too late are released")
    agent.terminate()


def test_lost_replies():
    proxies = [lab.Proxy(node) for node in lab.nodes(3)]
    agent = lab.Agent(proxies)
    client = agent.client()
    for proxy in proxies:
        proxy.mute = True
    begins(client.acquire("mute"), "NOQUORUM", "replies that are lost after the SET was applied: no grant")
    for proxy in proxies:
        proxy.mute = False
        proxy.cut()
    lab.wait_for(lambda: lab.keys_on([proxy.node for proxy in proxies], "mute") == 0, seconds=8,
                 what="the release")
    ok(True, "rule 4: the keys are released, well before their ttl")
    agent.terminate()


def test_dead_host():
    """A host that has lost its power answers nothing, closes no connection, and comes back."""
    proxies = [lab.Proxy(node) for node in lab.nodes(3)]
    agent = lab.Agent(proxies)
    client = agent.client()
    proxies[2].mute = True
    equal(acquire_and_release(client, "dead host"), "granted", "a host is dead: granted by the others")
    agent.wait_node("c", "failed")
    begun, before = lab.now(), len(proxies[2].connections)
    proxies[2].mute = False  # the former connections stay silent: what was lost is not sent again
    agent.wait_voting(3)
    took = lab.now() - begun
    ok(len(proxies[2].connections) > before and 3 < took < 4.5 + lab.SCALE,
       "five seconds after the request the agent connects again (%.1f s after the first)" % took)
    agent.terminate()


def test_round_trips():
    nodes = [lab.Proxy(node) for node in lab.nodes(3)]
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()
    for i in range(100):
        assert acquire_and_release(client, "quick %d" % i) == "granted"
    quick = agent.node_states()["a"]
    within(quick["rtt_p50"], 1, 20000 * lab.SCALE, "half of the round trips take at most p50 us")
    ok(quick["rtt_p50"] <= quick["rtt_p99"], "which is not more than p99")
    nodes[0].delay = 0.03
    for i in range(4):
        assert acquire_and_release(client, "slow %d" % i) == "granted"
    slow = lab.wait_for(lambda: [node for node in [agent.node_states()["a"]] if node["rtt_p99"] >= 60000],
                        what="the slow answers")[0]
    within(slow["rtt_p99"], 60000, 300000 * lab.SCALE, "a few slow ones show in p99")
    ok(slow["rtt_p50"] < slow["rtt_p99"] / 2, "but not in p50")
    equal(agent.node_states()["b"]["version"].count("."), 2, "NODES has the version")
    agent.terminate()


def test_foreign_type():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    for node in nodes:
        node.call("HSET", "hash", "field", "1")
    begins(client.acquire("hash"), "BUSY its Redis key is of type hash",
           "a key of another type is reported as such")
    leader = client.call("LEADER", "hash")
    equal((leader["type"], leader["holder"], leader["validity"]), ("hash", "", -1),
          "LEADER and redlock leader show it, and that the key does not expire")
    grant = client.acquire("turned", "TTL", 3000)
    for node in nodes[:2]:
        node.call("HSET", "hers", "field", "1")
        node.call("RENAME", "hers", "turned")
    for node in nodes:
        node.call("SET", "endless", "their:own:token")
    for name, kind, holder in (("hash", "hash", ""), ("endless", None, "their:o...")):
        leader = lab.as_map(client.call("LEADER", name))
        equal((leader["validity"], leader["holder"], leader["host"], leader["data"], leader.get("type")),
              (-1, holder, "", "", kind), "LEADER of %s: validity -1, since the key has no expiry" % name)
        status, out, _ = lab.redlock_run(agent, "leader", name)
        shown = "no lock: its Redis key is of type hash" if kind else holder
        equal((status, out), (0, "%s  %s  without an expiry\n" % (name, shown)), "so does redlock leader")
        shown = json.loads(lab.redlock_run(agent, "leader", "--json", name)[1])
        equal((shown["validity"], shown["holder"], shown.get("type")), (-1, holder, kind), "also as JSON")
        waiter = lab.redlock(agent, "run", "-w", "30", name, "--", "true")
        line = waiter.stderr.readline()
        why = "of type hash, which is no lock" if kind else "held by their:o..., without an expiry"
        ok(why in line, "redlock run waits and prints why: %s" % line.strip())
        waiter.kill()
        waiter.wait()
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "taken"], "a held key replaced by another type on a majority is taken")
    equal(nodes[0].call("TYPE", "turned"), "hash", "and is not overwritten")
    agent.terminate()


def test_leader_with_silent_node():
    """One node has lost the key of a held lease, another is silent: the silent one decides."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, 'node_timeout = "1s"\n')
    client, asker = agent.client(3), agent.client(3)
    client.acquire("held", "TTL", 60000)
    lab.wait_for(lambda: lab.keys_on(nodes, "held") == 3, what="the key on all nodes")
    nodes[0].call("DEL", "held")
    nodes[1].stop()
    begins(asker.call("LEADER", "held"), "NOQUORUM the nodes that did not answer decide",
           "LEADER of a held name does not say that it is free")
    equal(lab.redlock_run(agent, "leader", "held")[0], 75, "nor does redlock leader")
    equal(asker.call("LEADER", "free"), None, "a name without any key is free")
    nodes[1].cont()
    lab.wait_for(lambda: isinstance(asker.call("LEADER", "held"), dict), what="the silent node's answer")
    ok(True, "when the node answers, its key counts")
    nodes[1].call("DEL", "held")
    equal(asker.call("LEADER", "held"), None, "a key of one node of three that answer is no lease")
    agent.terminate()


def test_foreign_writes():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    grant = client.acquire("deleted", "TTL", 6000)
    lab.wait_for(lambda: lab.keys_on(nodes, "deleted") == 3, what="the key on all nodes")
    for node in nodes:
        node.call("DEL", "deleted")
    lab.wait_for(lambda: lab.keys_on(nodes, "deleted") == 3, what="the repair")
    equal(client.push("at-risk")[1], grant["id"], "a key deleted everywhere puts the lease at risk")
    equal(client.push("extended")[1], grant["id"], "it is set again while the lease is valid, and extended")
    for node in nodes[:2]:
        node.call("SET", "deleted", "thief")
    equal(client.push("lost")[1:3], [grant["id"], "taken"], "a key overwritten on a majority: lost, taken")
    equal(nodes[0].call("GET", "deleted"), "thief", "the other's value is never overwritten")
    nodes[0].call("DEL", "deleted")
    nodes[1].call("DEL", "deleted")
    lab.wait_for(lambda: lab.keys_on(nodes, "deleted") == 0, what="the end of the key")
    ok(True, "the key expires at its deadline")
    agent.terminate()


def test_script_flush_and_restart():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    grant = client.acquire("flushed", "TTL", 5000)
    for i in range(20):
        for node in nodes:
            node.call("SCRIPT", "FLUSH")
        if acquire_and_release(client, "flush %d" % i) != "granted":
            ok(False, "a SCRIPT FLUSH goes unnoticed")
    ok(True, "twenty times SCRIPT FLUSH on all nodes go unnoticed")
    for node in nodes:
        node.kill()
        node.start()
        lab.wait_for(lambda: lab.keys_on(nodes, "flushed") == 3, what="the repair")
        agent.wait_voting(3)
        extensions = agent.status()["extensions"]
        lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 2, what="two extensions")
    ok(client.call("CHECK", grant["id"]) > 0,
       "each node restarted empty in turn: the lease is repaired and kept")
    equal(lab.keys_on(nodes, "flushed"), 3, "on all nodes")
    agent.terminate()


class Forgetful(lab.FakeNode):
    """Has no scripts for the first call, which it answers with the second: by then another agent has loaded
    them."""

    def __init__(self):
        self.seen = []
        super().__init__("forgetful")

    def _reply(self, word, items):
        if word != b"EVALSHA":
            return super()._reply(word, items)
        self.seen.append(items)
        released = b"*0\r\n"
        if len(self.seen) <= 2:
            return b"-NOSCRIPT No matching script.\r\n" + released if len(self.seen) == 2 else None
        return released if items[1] == self.seen[1][1] else b"*1\r\n:%d\r\n" % (time.time() * 1e6)


def test_scripts_of_another_agent():
    node = Forgetful()
    agent = lab.Agent([node], lab.UNHURRIED, keepers=1)
    client = agent.client()
    client.send("ACQUIRE", "early")
    lab.wait_for(lambda: len(node.seen) == 1, what="the acquisition")
    client.close()
    lab.wait_for(lambda: len(node.seen) >= 2, what="the release")
    equal(acquire_and_release(agent.client(), "later"), "granted", "the scripts are loaded again")
    equal([b"early" in items for items in node.seen], [True, True, False, False],
          "a request without scripts is not repeated behind a later one that was executed")
    agent.terminate()


def test_even_and_single():
    nodes = lab.nodes(4)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()
    for node in nodes[:2]:
        node.call("SET", "tie", "other", "PX", 30000)
    begun = lab.now()
    begins(client.acquire("tie"), "BUSY", "two of four taken by another: no majority for us")
    ok(lab.now() - begun < 2 * lab.SCALE, "and the request does not hang")
    nodes[0].kill()
    nodes[1].kill()
    begins(client.acquire("half"), "NOQUORUM", "two of four down: no quorum")
    agent.terminate()
    agent = lab.Agent(lab.nodes(1), lab.UNHURRIED)
    client = agent.client()
    equal(acquire_and_release(client, "single"), "granted", "a single node is its own majority")
    agent.terminate()


main(test_minority_and_majority_down, test_silent_nodes, test_slow_nodes, test_lost_replies,
     test_dead_host, test_round_trips, test_foreign_type, test_leader_with_silent_node,
     test_foreign_writes, test_script_flush_and_restart, test_scripts_of_another_agent,
     test_even_and_single)
