"""The agent under exactly the ACL user that redlockd.conf(5) documents."""

import os
import re

import lab
from tap import begins, equal, main, ok

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "redlockd.conf.5")
LOGIN = 'user = "redlockd" password = "a secret"'
CONFIG = 'quarantine = yes\nmax_ttl = "4s"\ndefault_ttl = "4s"\nnode_timeout = "1900ms"\n'


# Without these a node votes, but publishes no releases.
HELPFUL = ["&redlockd:*", "+publish", "+subscribe", "+unsubscribe"]

# Without this a node votes, but each name of a call is read by itself.
CHEAPER = ["+mget"]


def documented():
    """The ACL rules of the man page, as an operator pastes them."""
    with open(PAGE) as file:
        line = re.search(r"^ACL (SETUSER .*?)\n\.Ed", file.read(), re.M | re.S).group(1)
    return [">a secret" if word == ">PASSWORD" else word for word in line.replace("\\\n", " ").split()]


def allow(node, words):
    """Sets the ACL of the agent's user; the test uses another one."""
    answer = node.call("ACL", *words)
    if answer != "OK":
        raise answer


def refusals(nodes):
    """Commands, keys and channels that the servers have denied."""
    return sorted({lab.as_map(entry)["object"] for node in nodes for entry in node.call("ACL", "LOG")})


def user_of(node):
    """The users of the agents' connections."""
    return {re.search(r" user=(\S*)", line).group(1) for line in node.call("CLIENT", "LIST").splitlines()
            if "cmd=client" not in line}


def listeners(node):
    return node.call("PUBSUB", "NUMSUB", "redlockd:free:waited for")[1]


def test_all_operations():
    nodes = lab.nodes(3)
    for node in nodes:
        allow(node, documented())
    agent, other = (lab.Agent(nodes, CONFIG, node_config=LOGIN) for _ in range(2))
    agent.bless_all()
    other.wait_voting(3)
    ok(True, "nodes are quarantined, marked and blessed")
    equal(user_of(nodes[0]), {"redlockd"}, "by the user of the man page")
    client, rival = agent.client(3), other.client(3)
    grant = client.acquire("one", "RESUMABLE", "DATA", "here")
    waiting = other.client(3)
    waiting.send("ACQUIRE", "waited for", "WAIT", -1)
    held = waiting.reply()
    client.send("ACQUIRE", "waited for", "WAIT", -1)
    lab.wait_for(lambda: all(listeners(node) for node in nodes), what="subscriptions")
    waiting.call("RELEASE", held["id"])
    client.call("RELEASE", client.reply()["id"])
    lab.wait_for(lambda: not any(listeners(node) for node in nodes), what="the end of subscriptions")
    ok(grant["fence"] > 0, "a lease is acquired, with a token: %s" % grant)
    begins(rival.acquire("one"), "BUSY", "the other agent gets BUSY")
    equal(rival.call("LEADER", "one")["data"], "here", "and LEADER returns the data")
    before = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] > before + 1, what="extensions")
    nodes[0].call("DEL", "one")
    lab.wait_for(lambda: lab.keys_on(nodes, "one") == 3, what="the repair of a key")
    agent.kill()
    for node in nodes:
        node.call("PEXPIRE", "one", 60000)  # however long the start takes
    agent.start()
    client = agent.client(3)
    grant = client.call("RESUME", "one", grant["secret"])
    ok(isinstance(grant, dict), "the lease is extended, repaired, resumed")
    equal(client.call("RELEASE", grant["id"]), 1, "and released")
    lab.wait_for(lambda: lab.keys_on(nodes, "one") == 0, what="the end of the keys")
    for node in nodes:
        node.call("HSET", "redlockd:fences", "raised", grant["fence"] + 100000)
    ok(rival.acquire("raised")["fence"] > grant["fence"] + 100000, "a token is raised")
    nodes[2].call("FLUSHALL")
    lab.wait_for(lambda: agent.status()["voting"] < 3 or client.acquire("flushed") is None,
                 what="the loss to be seen")
    agent.wait_node("c", "quarantined", "no epoch key")
    ok(True, "a flushed node is quarantined")
    equal(client.call("BLESS", "c"), "OK", "until an operator blesses it")
    agent.wait_voting(3)
    nodes[2].call("SCRIPT", "FLUSH")
    ok(isinstance(client.acquire("loaded"), dict), "scripts are loaded again")
    nodes[2].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    agent.wait_node("c", "failed", seconds=15)
    nodes[2].call("REPLICAOF", "127.0.0.1", "1")
    nodes[2].call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    nodes[2].call("REPLICAOF", "NO", "ONE")
    agent.wait_voting(3, seconds=30)
    ok(True, "a former replica votes again after its quarantine: the epoch key was deleted")
    equal(refusals(nodes), [], "no server denied anything")
    agent.terminate()
    other.terminate()


def test_one_prefix():
    nodes = lab.nodes(3)
    words = ["~redlock:*" if word == "~*" else word for word in documented()]
    for node in nodes:
        allow(node, words)
    agent = lab.Agent(nodes, CONFIG + 'key_format = "redlock:{name}"', node_config=LOGIN)
    agent.bless_all()
    client = agent.client(3)
    grant = client.acquire("prefixed")
    ok(grant["fence"] > 0, "with a prefix the user needs no other keys")
    before = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] > before, what="an extension")
    equal(client.call("RELEASE", grant["id"]), 1, "released")
    equal(refusals(nodes), [], "no server denied anything")
    agent.terminate()
    agent = lab.Agent(nodes, CONFIG, node_config=LOGIN)
    agent.wait_voting(3)
    error = agent.client().acquire("elsewhere")
    begins(error, "NOQUORUM 0 of 3 nodes voted", "a name that the user may not use")
    ok("NOPERM" in str(error) or "can't access" in str(error), "is denied, with the reason: %s" % error)
    agent.terminate()


def test_durable_in_a_database():
    nodes = lab.nodes(3, "--appendonly", "yes", "--appendfsync", "always", "--dir", lab.directory)
    for node in nodes:
        allow(node, documented() + ["+config|get", "+select"])
    agent = lab.Agent(nodes, CONFIG, node_config=LOGIN + " durable = yes db = 2")
    agent.bless_all()
    ok(isinstance(agent.client().acquire("in database 2"), dict), "durable nodes, another database")
    equal(refusals(nodes), [], "with two more rights nothing is denied")
    ok("called durable, but" not in agent.log_text(), "and no right is missing")
    agent.terminate()


def test_missing():
    rights = [word for word in documented() if word.startswith("+") and word not in HELPFUL + CHEAPER]
    for some in (rights[::2], rights[1::2]):  # an agent has fewer nodes than there are rights
        missing(some)


def missing(rights):
    words = documented()
    nodes = [lab.Node(word.strip("+").replace("|", "-")) for word in rights]
    for node, right in zip(nodes, rights):
        allow(node, [word for word in words if word != right])
    agent = lab.Agent(nodes, CONFIG, keepers=1, node_config=LOGIN)
    for node, right in zip(nodes, rights):
        state = agent.wait_node(node.name, reason="NOPERM")
        ok(right.strip("+") in state["reason"] and state["state"] != "voting",
           "without %s: %s" % (right, state["reason"]))
    equal(agent.status()["voting"], 0, "none of them votes: every documented right is necessary")
    for node in nodes:
        allow(node, words)
    agent.bless_all()
    ok(True, "with the right they vote")
    agent.terminate()


def test_without_channels():
    words = documented()
    nodes = [lab.Node("without" + str(i)) for i in range(len(HELPFUL))]
    for node, word in zip(nodes, HELPFUL):
        ok(word in words, "%s is documented" % word)
        allow(node, [each for each in words if each != word])
    agent = lab.Agent(nodes, CONFIG, node_config=LOGIN)
    agent.bless_all()
    for node, word in zip(nodes, HELPFUL):
        pattern = r"node %s: does not wake waiters, which poll instead: .*" % node.name
        line = lab.wait_for(lambda: re.search(pattern, agent.log_text()), what="the log's line").group(0)
        ok(word in line, "without %s a node votes, and the log says: %s" % (word, line))
    client = agent.client()
    equal(client.call("RELEASE", client.acquire("without a channel")["id"]), 1, "a release works without it")
    equal(refusals(nodes), [], "and no command is denied")
    agent.terminate()


def test_without_mget():
    """A user with the ACL of an older man page."""
    nodes = lab.nodes(3)
    for node in nodes:
        allow(node, [word for word in documented() if word not in CHEAPER])
    agent = lab.Agent(nodes, CONFIG, keepers=1, node_config=LOGIN)
    agent.bless_all()
    clients = [agent.client(3) for _ in range(20)]
    agent.stop()
    for i, client in enumerate(clients):
        client.send("ACQUIRE", "n%d" % i)
    agent.cont()
    grants = [client.reply() for client in clients]
    ok(all(isinstance(grant, dict) and grant["fence"] > 0 for grant in grants),
       "names acquired in one batch")
    before = agent.status()["extensions"]
    nodes[0].call("DEL", "n0")
    nodes[1].call("EVAL", "redis.call('DEL', 'n1') redis.call('RPUSH', 'n1', \"another's\")", 0)
    lab.wait_for(lambda: agent.status()["extensions"] > before + 60, 20, "extensions")
    lab.wait_for(lambda: nodes[0].call("EXISTS", "n0") == 1, what="the repair of a key")
    equal(nodes[1].call("LRANGE", "n1", 0, -1), ["another's"], "extended and repaired; a foreign key stays")
    agent.stop()
    for client, grant in zip(clients, grants):
        client.send("RELEASE", grant["id"])
    agent.cont()
    equal([client.reply() for client in clients], [1] * 20, "and released")
    lab.wait_for(lambda: nodes[0].call("KEYS", "n*") == [], what="the end of the keys")
    equal(refusals(nodes), ["mget"], "only MGET is denied")
    agent.terminate()


def test_wrong_password():
    proxy = lab.Proxy(lab.Node("a"))
    agent = lab.Agent([proxy], CONFIG, keepers=1, node_config=LOGIN)
    failed = agent.wait_node("a", reason="WRONGPASS")
    begins(failed["reason"], "refused", "a user that does not exist: %s" % failed["reason"])
    proxy.delay = 0.3
    states = []

    def tried_again():
        states.append(agent.node_states()["a"])
        return [state["state"] for state in states].count("probing") >= 3

    lab.wait_for(tried_again, what="being tried again")
    equal({state["reason"] for state in states}, {failed["reason"]},
          "the reason stays the same between tries")
    agent.terminate()


def taker():
    """Takes a right to messages, gives it back, and takes that to load scripts: a step for each next()."""
    node = lab.Node("b")
    allow(node, documented())
    agent = lab.Agent([node], CONFIG, node_config=LOGIN)
    agent.bless_all()
    node.call("SET", "waited for", "a foreign value")
    waiter = lab.wait_at(agent, "waited for")
    lab.wait_for(lambda: listeners(node), what="the subscription")
    node.call("ACL", "SETUSER", "redlockd", "-publish")
    yield
    lab.wait_for(lambda: not listeners(node), 20, "the subscription's end")
    lab.wait_for(lambda: "+publish" in agent.log_text(), 20, "the log's line")
    equal(agent.status()["voting"], 1, "without +publish the node votes, and waiters poll")
    node.call("ACL", "SETUSER", "redlockd", "+publish")
    yield
    lab.wait_for(lambda: listeners(node), 20, "the next subscription")
    ok(True, "with the right again they wait for messages")
    waiter.close()
    node.call("ACL", "SETUSER", "redlockd", "-script|load")
    yield
    agent.wait_node("b", "failed", "+script|load", seconds=20)
    ok(True, "the right to load scripts shows before scripts are lost")
    client = agent.client(3)
    held = client.acquire("held beside", "TTL", 4000)
    node.call("ACL", "SETUSER", "redlockd", "-info")
    yield
    equal(client.push("at-risk", 20)[1], held["id"], "without a right to examine it a node extends nothing")
    agent.terminate()
    yield


def test_taken_right():
    """A right that is taken while the agent is connected."""
    nodes = lab.nodes(1)
    allow(nodes[0], documented())
    agent = lab.Agent(nodes, CONFIG, node_config=LOGIN)
    agent.bless_all()
    agent.wait_voting(1)
    client = agent.client(3)
    held = client.acquire("held", "WAIT", 5000)
    nodes[0].call("ACL", "SETUSER", "redlockd", "-rename")
    others = taker()
    next(others)
    agent.wait_node("a", "failed", "+rename", seconds=20)
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 3, 20, "extensions")
    ok(client.call("CHECK", held["id"]) > 0 and client.pushes == [],
       "leases are extended without a right that extensions don't need")
    next(others)
    nodes[0].call("ACL", "SETUSER", "redlockd", "+rename")
    agent.wait_voting(1, 20)
    next(others)
    client.close()
    nodes[0].call("ACL", "SETUSER", "redlockd", "-pexpire")
    agent.wait_node("a", reason="+pexpire", seconds=20)
    next(others)
    equal(agent.status()["voting"], 0, "the node does not vote, and NODES names the right")
    nodes[0].call("ACL", "SETUSER", "redlockd", "+pexpire")
    agent.wait_voting(1, 20)
    next(others)
    ok(True, "until the user has it again")
    agent.terminate()


main(test_all_operations, test_one_prefix, test_durable_in_a_database, test_missing, test_without_channels,
     test_without_mget, test_wrong_password, test_taken_right)
