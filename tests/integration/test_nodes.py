"""Nodes that are down, silent, slow, rejecting, unfit, or restarted."""

import json
import os
import socket
import threading
import time

import lab
from tap import begins, equal, main, note, ok, skip, within


def acquire_and_release(client, name):
    grant = client.acquire(name)
    if not isinstance(grant, dict):
        return grant
    client.call("RELEASE", grant["id"])
    return "granted"


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


def test_refusing_nodes():
    for error, name in (("-LOADING Redis is loading the dataset in memory", "LOADING"),
                        ("-MISCONF Redis is configured to save RDB snapshots", "MISCONF"),
                        ("-OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
                        ("-READONLY You can't write against a read only replica.", "READONLY"),
                        ("-WRONGTYPE Operation against a key", "WRONGTYPE"),
                        (":7", "a strange answer"), (None, "no answer")):
        good = lab.nodes(2)
        agent = lab.Agent(good + [lab.FakeNode("fake", error)], lab.UNHURRIED)
        client = agent.client()
        equal(acquire_and_release(client, "one refuses"), "granted", "%s from one of three: granted" % name)
        agent.terminate()
        agent = lab.Agent(good[:1] + [lab.FakeNode("f1", error), lab.FakeNode("f2", error)],
                          lab.UNHURRIED if error else "", node_config="db = 1")  # another fleet
        client = agent.client()
        answer = client.acquire("two refuse")
        begins(answer, "NOQUORUM ", "%s from two of three: NOQUORUM" % name)
        if name.isupper():
            ok(name in str(answer), "and the answer says %s" % name)
        agent.terminate()


def test_real_refusals():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    for node in nodes[:2]:
        node.call("CONFIG", "SET", "maxmemory", "1")
    begins(client.acquire("full"), "NOQUORUM", "two full nodes of three: NOQUORUM")
    ok("OOM" in str(client.acquire("full")), "because of OOM")
    for node in nodes[:2]:
        node.call("CONFIG", "SET", "maxmemory", "0")
    grant = client.acquire("held while full", "TTL", 4000)
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", "1")
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 3, what="extensions")
    ok(client.call("CHECK", grant["id"]) > 0, "full nodes still extend leases")
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", "0")
    nodes[0].call("REPLICAOF", "127.0.0.1", "1")
    nodes[1].call("REPLICAOF", "127.0.0.1", "1")
    ok("READONLY" in str(client.acquire("replicas")), "nodes that became replicas reject: READONLY")
    agent.terminate()


def failed_and_reasons(agent):
    states = agent.node_states()
    return [states[name]["reason"] for name in states if states[name]["state"] == "failed"]


def test_refused_writes():
    """Too few replicas: the servers are masters without trouble, and refuse all writes."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    for node in nodes[:2]:
        node.call("CONFIG", "SET", "min-replicas-to-write", "1")
    begins(client.acquire("refused"), "NOQUORUM", "two nodes of three that refuse writes: NOQUORUM")
    reasons = failed_and_reasons(agent)
    ok(len(reasons) == 2 and all(reason.startswith("NOREPLICAS ") for reason in reasons),
       "they are failed: %s" % reasons)
    status = agent.status()
    equal((status["state"], status["voting"]), ("no-quorum", 1), "so the agent has no quorum")
    for node in nodes[:2]:
        node.call("CONFIG", "SET", "min-replicas-to-write", "0")
    equal(acquire_and_release(client, "refused"), "granted", "they take writes again: granted")
    lab.wait_for(lambda: not failed_and_reasons(agent), what="the votes of both nodes", seconds=5)
    equal(agent.status()["voting"], 3, "then they vote, at once")
    for node in nodes:
        node.call("CONFIG", "SET", "min-replicas-to-write", "1")

    def all_refuse():
        begins(client.acquire("refused"), "NOQUORUM", "all refuse a write, the last one for now")
        return len(failed_and_reasons(agent)) == 3

    lab.wait_for(all_refuse, what="the third refusal, which may come after the request's end")
    for node in nodes:
        node.call("CONFIG", "SET", "min-replicas-to-write", "0")
    agent.wait_voting(3, seconds=25)
    ok(True, "and vote later, though nothing is asked of them")
    agent.terminate()


def test_wrong_servers():
    nodes = lab.nodes(2)
    agent = lab.Agent(nodes + [lab.FakeNode("replica", role="slave")])
    state = agent.wait_node("replica", reason="is a replica")
    ok(state["state"] != "voting", "a replica does not vote, and NODES says why: %s" % state["reason"])
    agent.terminate()
    silent = lab.FakeNode("silent", silent_from_start=True)
    agent = lab.Agent(nodes + [silent], lab.UNHURRIED, node_config="db = 1")  # another fleet
    agent.wait_node("silent", reason="does not answer")
    ok(True, "a server that accepts and never answers does not vote")
    equal(acquire_and_release(agent.client(), "despite it"), "granted", "the others go on")
    agent.terminate()
    agent = lab.Agent(nodes + [lab.FakeNode("other", hashes=False)], node_config="db = 2")
    agent.wait_node("other", reason="their hash")
    ok(True, "a server that returns other script hashes does not vote")
    agent.terminate()


def test_no_answer_to_connecting():
    """Like a host that has disappeared: a full accept queue drops connections."""
    nodes = [*lab.nodes(2), lab.TcpNode("c")]
    agent = lab.Agent(nodes, lab.UNHURRIED)
    agent.wait_voting(3)
    nodes[2].kill()
    full, filler = socket.socket(), socket.socket()
    full.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    full.bind(("127.0.0.1", nodes[2].port))
    full.listen(0)
    filler.setblocking(False)
    filler.connect_ex(("127.0.0.1", nodes[2].port))
    agent.wait_node("c", reason="no connection within")
    equal(acquire_and_release(agent.client(), "gone"), "granted",
          "a node that disappeared is reported")
    filler.close()
    full.close()
    nodes[2].start()
    agent.wait_voting(3)
    ok(True, "and tried again until it returns")
    agent.terminate()


def test_facts_under_way():
    """Nodes are inspected every ten seconds; all changes of the first round share one such wait."""
    nodes = lab.nodes(5)
    agent = lab.Agent(nodes, 'max_ttl = "2s"\ndefault_ttl = "2s"\nnode_timeout = "900ms"\nquarantine = yes')
    client = agent.client(3)
    agent.bless_all()
    begun = lab.now()
    nodes[0].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    nodes[1].call("REPLICAOF", "127.0.0.1", "1")
    epoch = nodes[2].call("GET", "redlockd:epoch")
    nodes[2].call("REPLICAOF", "127.0.0.1", "1")
    nodes[2].call("REPLICAOF", "NO", "ONE")
    equal(nodes[2].call("GET", "redlockd:epoch"), epoch, "a replica for a moment: its epoch survives")
    agent.wait_node("a", "failed", "maxmemory-policy", seconds=15)
    agent.wait_node("b", "failed", "replica", seconds=15)
    state = agent.wait_node("c", "quarantined", seconds=15)
    within(lab.now() - begun, 0, 11 * lab.SCALE, "within ten seconds the changed nodes don't vote")
    equal(state["until"], -1, "NODES has no end of the quarantine: two of the others are silent")
    lab.wait_for(lambda: nodes[2].call("GET", "redlockd:epoch") is None, what="the end of the epoch")
    ok(True, "the replica of a moment lost its blessing, for all agents")
    agent.wait_node("c", "quarantined", "fewer are within reach")
    nodes[0].call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    agent.wait_node("a", "voting", seconds=15)
    ok(True, "with noeviction the node votes again without a quarantine, since nothing was evicted")
    agent.wait_node("c", "voting", seconds=15)
    equal(agent.node_states()["c"]["until"], -1, "then three others of node c have answered, and c votes")
    equal(acquire_and_release(client, "four of five"), "granted", "the four other nodes vote")
    equal(lab.keys_on(nodes[1:2], "four of five"), 0, "without the replica")
    nodes[1].call("REPLICAOF", "NO", "ONE")
    agent.wait_node("b", "quarantined", seconds=15)
    agent.wait_node("b", "voting", seconds=15)
    ok(True, "a master again: it is quarantined, then votes")
    lines = [line for line in agent.log_text().splitlines() if "node a:" in line]
    equal(len([line for line in lines if "maxmemory-policy" in line]), 1, "one line in the log")
    agent.terminate()


def test_evictions_under_way():
    """Each INFO has noeviction, but keys were evicted in between: the epoch key proves nothing about
    them."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, 'max_ttl = "2s"\ndefault_ttl = "2s"\nquarantine = yes')
    agent.bless_all()
    node = nodes[0]
    node.call("SET", "victim", "x" * 100)
    node.call("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    node.call("SET", "victim", "x", "PX", 100000)
    node.call("CONFIG", "SET", "maxmemory", "1")
    lab.wait_for(lambda: not node.call("EXISTS", "victim"), what="the eviction")
    node.call("CONFIG", "SET", "maxmemory", "0")
    node.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    ok(node.call("GET", "redlockd:epoch"), "keys are evicted, the epoch key is not")
    agent.wait_node("a", "quarantined", seconds=25)
    lab.wait_for(lambda: "node a: has evicted keys" in agent.log_text(), what="the line in the log")
    ok(True, "the eviction is noticed, and the node quarantined")
    ok(agent.node_states()["a"]["evicted"] > 0, "NODES has the count")
    agent.wait_node("a", "voting", seconds=15)
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
    for name, kind, holder in (("hash", "hash", ""), ("endless", None, "their:own:token")):
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
        why = "of type hash, which is no lock" if kind else "held by their:own:token, without an expiry"
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


def test_passwords():
    nodes = lab.nodes(3)
    for node in nodes:
        node.call("ACL", "SETUSER", "agent", "on", ">user secret", "~*", "+@all")
        node.call("CONFIG", "SET", "requirepass", "open sesame")
    agent = lab.Agent(nodes, lab.UNHURRIED, node_config='password = "open sesame"')
    equal(acquire_and_release(agent.client(), "password"), "granted", "AUTH with a password")
    agent.terminate()
    agent = lab.Agent(nodes, lab.UNHURRIED, node_config='user = "agent" password = "user secret" db = 3')
    client = agent.client()
    equal(acquire_and_release(client, "user"), "granted", "AUTH with a user, and SELECT")
    agent.terminate()
    agent = lab.Agent(nodes, node_config='password = "wrong"')
    begins(agent.client().acquire("wrong"), "NOQUORUM", "with a wrong password: no quorum")
    agent.wait_node("a", reason="WRONGPASS")
    ok(True, "NODES says why")
    ok("wrong\"" not in agent.log_text(), "and the log does not contain the password")
    agent.terminate()


def test_late_start():
    """The agent starts before its nodes; one node has a host name that can't be resolved."""
    class Nowhere:
        name, address = "nowhere", "no-such-host.invalid:6379"

    class Refusing:
        name, address = "refusing", "127.0.0.1:1"

    nodes = lab.nodes(3)
    for node in nodes:
        node.kill()
    agent = lab.Agent(nodes + [Nowhere, Refusing], lab.UNHURRIED)
    begins(agent.client().acquire("early"), "NOQUORUM", "an agent without nodes answers NOQUORUM")
    for node in nodes:
        node.start()
    agent.wait_voting(3)
    equal(acquire_and_release(agent.client(), "late"), "granted", "it finds its nodes when they start")
    agent.wait_node("nowhere", reason="no-such-host.invalid", seconds=30)
    ok(True, "a host name without an address is reported")
    agent.wait_node("refusing", reason="efused")
    ok(True, "a refused connection is reported")
    agent.terminate()


def test_name_with_two_addresses():
    """As localhost is in many a hosts(5), while the server listens at one of them; then something else does
    at the other."""
    if os.geteuid() != 0:
        skip("a name with two addresses", "only root may mount another /etc/hosts")
        return
    node = lab.TcpNode("a", "--bind", "127.0.0.2")
    hosts = lab.path("hosts")
    with open(hosts, "w") as file:
        file.write("127.0.0.1 both\n127.0.0.2 both\n")
    there = Named("a", "both:%d" % node.port)

    def votes(what):
        agent = lab.Agent([there], prefix=["unshare", "-m", "sh", "-c",
                                           'mount --bind "$0" /etc/hosts && exec "$@"', hosts])
        agent.wait_voting(1)
        equal(agent.node_states()["a"]["state"], "voting", what)
        agent.terminate()

    votes("the agent connects to the address that answers")
    with socket.socket() as hanging_up:
        hanging_up.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hanging_up.bind(("127.0.0.1", node.port))
        hanging_up.listen()
        threading.Thread(target=hang_up_all, args=(hanging_up,), daemon=True).start()
        votes("also if another one accepts connections, and closes them")
        lab.hang_up(hanging_up)


def test_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as local:
            local.bind(("::1", 0))
    except OSError as error:
        skip("a node at [::1]", str(error))
        return
    node = lab.TcpNode("a", "--bind", "::1")
    agent = lab.Agent([Named("a", "[0::1]:%d" % node.port)], lab.UNHURRIED)
    equal(acquire_and_release(agent.client(), "six"), "granted", "a node at an IPv6 address votes")
    node.call("SET", "six", "a foreign value")
    lab.wait_at(agent, "six")
    lab.wait_for(lambda: node.call("PUBSUB", "NUMSUB", "redlockd:free:six")[1], what="the subscription")
    ok(True, "and sends messages")
    agent.terminate()


def hang_up_all(listening):
    try:
        while True:
            listening.accept()[0].close()
    except OSError:
        pass


class Named:
    def __init__(self, name, address):
        self.name, self.address = name, address


main(test_minority_and_majority_down, test_silent_nodes, test_slow_nodes, test_lost_replies, test_dead_host,
     test_refusing_nodes, test_no_answer_to_connecting,
     test_real_refusals, test_refused_writes, test_wrong_servers, test_facts_under_way,
     test_evictions_under_way, test_round_trips, test_foreign_type,
     test_leader_with_silent_node, test_foreign_writes,
     test_script_flush_and_restart, test_scripts_of_another_agent,
     test_name_with_two_addresses, test_ipv6,
     test_even_and_single, test_passwords, test_late_start)
