"""Servers that refuse, are of another kind or unfit, want a password, come late, have several addresses."""

import os
import socket
import threading

import lab
from lab import acquire_and_release
from tap import begins, equal, main, ok, skip, within


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
    waiter = lab.wait_at(agent, "six")
    lab.wait_for(lambda: node.call("PUBSUB", "NUMSUB", "redlockd:free:six")[1], what="the subscription")
    ok(True, "and sends messages")
    waiter.close()
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


main(test_refusing_nodes, test_real_refusals, test_refused_writes, test_wrong_servers,
     test_no_answer_to_connecting, test_facts_under_way, test_evictions_under_way, test_passwords,
     test_late_start, test_name_with_two_addresses, test_ipv6)
