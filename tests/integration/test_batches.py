"""Several names in one script call: each has the answer that it would have alone,
and what is asked of one name keeps its order."""

import itertools
import os
import re

import lab
from tap import begins, equal, main, ok

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "scripts")
EPOCH = "e" * 40 + " 30000 1000"
SKEW_US, RETENTION_MS = 60 * 1000 * 1000, 3600 * 1000


def script(name):
    with open(os.path.join(SCRIPTS, name + ".lua")) as file:
        return file.read()


def clock_us(node):
    seconds, us = node.call("TIME")
    return int(seconds) * 1000000 + int(us)


def acquire(node, names, tokens=None, lasts=None, epoch=EPOCH, ttl_ms=50000):
    """The answer as it comes; each value is the name's, in capitals."""
    fences = ["redlockd:fence:" + name for name in names] if tokens else []
    keys = ["redlockd:epoch", *names, *fences]
    columns = [[name.upper() for name in names], [ttl_ms] * len(names), tokens or [], lasts or []]
    return node.call("EVAL", script("acquire"), len(keys), *keys, epoch, epoch.split()[2] if tokens else "",
                     SKEW_US, RETENTION_MS, *itertools.chain(*columns))


def release(node, names, *columns, channel="redlockd:free:"):
    return node.call("EVAL", script("release"), len(names), *names, *itertools.chain(*columns), channel)


def extend(node, names, values=None, ttl_ms=50000, epoch=EPOCH):
    values = values or [name.upper() for name in names]
    return node.call("EVAL", script("extend"), len(names) + 1, *names, "redlockd:epoch", *values,
                     *[ttl_ms] * len(names), epoch)


def blessed(name="blessed"):
    node = lab.Node(name)
    node.call("SET", "redlockd:epoch", EPOCH)
    return node


def test_acquire():
    node = blessed()
    node.call("SET", "theirs", "somebody", "PX", 40000)
    node.call("SET", "for ever", "x" * 5000)
    node.call("HSET", "hash", "field", "1")
    before_us = clock_us(node)
    now_us, *answers = acquire(node, ["free", "theirs", "hash", "other", "for ever"])
    ok(before_us <= now_us <= clock_us(node), "the node's time comes once")
    equal((answers[0], answers[3]), (0, 0), "what is free is taken, without fencing")
    kind, value, left_ms = answers[1]
    equal((kind, value, 0 < left_ms <= 40000), ("string", "somebody", True),
          "whose another one is, and for how long")
    equal(answers[2], ["hash", "", -1], "or what stands there instead")
    equal(answers[4], ["string", "x" * 2048, -1], "of a long value its beginning")
    equal([node.call("GET", name) for name in ("free", "theirs", "other")], ["FREE", "somebody", "OTHER"],
          "the keys are as the answers say")
    ok(all(0 < node.call("PTTL", name) <= 50000 for name in ("free", "other")), "and end by themselves")


def test_tokens():
    node = blessed()
    now_us = clock_us(node)
    node.call("SET", "redlockd:fence:used", now_us - 5)
    node.call("SET", "redlockd:fence:ahead", "%d %d" % (now_us + 64, now_us))
    node.call("RPUSH", "redlockd:fence:odd", "1")
    names = ["fresh", "used", "ahead", "small", "far", "odd", "theirs"]
    node.call("SET", "theirs", "somebody")
    tokens = [now_us, now_us, now_us + 64, 999, now_us + 2 * SKEW_US, now_us, now_us]
    equal(acquire(node, names, tokens)[1:],
          [now_us, now_us, [0, now_us + 64], [0, 1000], [-1, 1000], now_us, ["string", "somebody", -1]],
          "each token is judged by its own fence: accepted, too small, below the floor, too far")
    equal([node.call("GET", name) for name in names[:-1]], [name.upper() for name in names[:-1]],
          "the keys are taken in any case")
    equal([node.call("GET", "redlockd:fence:" + name) for name in names],
          [str(now_us), str(now_us), "%d %d" % (now_us + 64, now_us), None, None, str(now_us), None],
          "and only what is accepted is remembered")
    equal(acquire(node, ["one", "two"], [now_us, now_us], [now_us + 64, now_us + 2 * SKEW_US])[1:],
          [now_us + 64, [-1, 1000]], "of a block the last token counts")
    equal(node.call("GET", "redlockd:fence:one"), "%d %d" % (now_us + 64, now_us),
          "and its holder's stands behind")


def without_ttl(answers):
    return [answer[:2] if isinstance(answer, list) else answer for answer in answers]


def test_alone():
    """Two nodes: one is asked for all names at once, the other for each alone."""
    together, alone = blessed("together"), blessed("alone")
    now_us = clock_us(together)
    names = ["n%d" % i for i in range(64)]
    for node in (together, alone):
        for i, name in enumerate(names):
            if i % 3 == 0:
                node.call("SET", name, "somebody %d" % i)
            if i % 4 == 0:
                node.call("SET", "redlockd:fence:" + name, now_us + i % 8)
    tokens = [now_us + i % 5 for i in range(64)]
    for lasts in (None, [token + i % 2 for i, token in enumerate(tokens)]):
        apart = [acquire(alone, [names[i]], [tokens[i]], lasts and [lasts[i]])[1] for i in range(64)]
        equal(without_ttl(acquire(together, names, tokens, lasts)[1:]), without_ttl(apart),
              "64 names together are answered as each alone")
        keys = names + ["redlockd:fence:" + name for name in names]
        equal(together.call("MGET", *keys), alone.call("MGET", *keys), "and so are their keys")
        together.call("DEL", *names[::2])
        alone.call("DEL", *names[::2])


def test_epoch():
    node = blessed()
    begins(acquire(node, ["a", "b"], epoch="f" * 40 + " 30000 1000"), "EPOCH",
           "a node that is not the one that was trusted says so")
    equal(node.call("EXISTS", "a", "b"), 0, "and takes nothing")


def test_refused():
    node = blessed()
    node.call("CONFIG", "SET", "maxmemory", 1)
    answers = acquire(node, ["a", "b"])[1:]
    equal([answer.split()[0] for answer in answers], ["OOM", "OOM"], "why a node takes nothing")


def test_release():
    node = blessed()
    listener = lab.Client(node.socket_path)
    for name in ("a", "c"):
        listener.call("SUBSCRIBE", "redlockd:free:" + name)
    for name, value in (("a", "A"), ("b", "B"), ("c", "other")):
        node.call("SET", name, value)
    node.call("HSET", "hash", "field", "1")
    equal(release(node, ["a", "b", "c", "gone", "hash"], ["A", "B", "C", "GONE", "HASH"]), [2, 1, 0, 0, 0],
          "what is ours is deleted, and who waits is told")
    equal(node.call("MGET", "a", "b", "c"), [None, None, "other"], "what is not stays")
    equal(node.call("HGETALL", "hash"), ["field", "1"], "of whatever type")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(node, ["a", "b", "c"], ["A", "B", "C"], ["-", "-", "other"]), [2, 1, 2],
          "either value counts; all are deleted")
    equal(node.call("EXISTS", "a", "b", "c"), 0, "all of them")
    equal([listener.read()[1] for _ in range(3)], ["redlockd:free:" + name for name in "aac"],
          "each is told once")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(node, ["a", "b"], ["A", "B"], channel=""), [1, 1], "or nobody is")
    node.call("MSET", "a", "A", "b", "B", "c", "other")
    equal(release(user(node, "-mget"), ["a", "b", "c", "gone", "hash"], ["A", "B", "C", "GONE", "HASH"],
                  channel=""), [1, 1, 0, 0, 0], "a user who lacks +mget is answered the same")
    equal(node.call("EXISTS", "a", "b", "c", "hash"), 2, "and deletes no more")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(user(node, "-publish"), ["a", "gone"], ["A", "GONE"]), [2, 0],
          "who may not tell takes it that somebody has to be told")


def user(node, *rights):
    """Another connection to the node, of a user who lacks these."""
    node.call("ACL", "SETUSER", "some", "reset", "on", "nopass", "+@all", "~*", "&*", *rights)
    client = lab.Client(node.socket_path)
    client.call("AUTH", "some", "")
    return client


def test_extend():
    node = blessed()
    names = ["held", "list", "gone", "theirs", "hash", "too"]
    for text, asks, count in (("together", node, 6), ("without +mget", user(node, "-mget"), 6),
                              ("alone", node, 1)):
        node.call("MSET", "held", "HELD", "theirs", "somebody", "too", "TOO")
        node.call("RPUSH", "list", "1")
        node.call("HSET", "hash", "field", "1")
        before_us = clock_us(node)
        answers = []
        for i in range(0, 6, count):
            now_us, *some = extend(asks, names[i:i + count])
            ok(before_us <= now_us <= clock_us(node), "%s: the node's time comes once" % text)
            answers += some
        equal(answers, [1, 0, 2, 0, 0, 1], "%s: extended, another's of any type, or set again" % text)
        equal(node.call("MGET", "held", "gone", "theirs", "too"), ["HELD", "GONE", "somebody", "TOO"],
              "%s: what is another's stays" % text)
        equal((node.call("LRANGE", "list", 0, -1), node.call("HGETALL", "hash")), (["1"], ["field", "1"]),
              "%s: of whatever type" % text)
        equal([node.call("PTTL", name) for name in ("list", "theirs", "hash")], [-1] * 3,
              "%s: and is not made to end" % text)
        ok(all(49000 < node.call("PTTL", name) <= 50000 for name in ("held", "gone", "too")),
           "%s: what is ours ends by itself" % text)
        begins(extend(asks, names[:count], epoch="f" * 40 + " 30000 1000"), "EPOCH",
               "%s: a node that is not the one that was trusted says so" % text)
        node.call("DEL", *names)
    node.call("CONFIG", "SET", "maxmemory", 1)
    equal([str(answer).split()[0] for answer in extend(node, ["a", "b"])[1:]], ["OOM", "OOM"],
          "why a node takes nothing")


def test_full():
    """As many names as the agent ever asks for at once, with all that may go with them."""
    node = blessed()
    names = ["n%d" % i for i in range(128)]
    values = [name.upper() for name in names]
    for text, asks in (("by all rights", node), ("without +mget", user(node, "-mget"))):
        now_us = clock_us(node)
        tokens, lasts = [now_us + i for i in range(64)], [now_us + 64 + i for i in range(64)]
        equal(acquire(asks, names[:64], tokens, lasts)[1:], lasts, "%s: 64 acquired" % text)
        equal(acquire(asks, names[64:])[1:], [0] * 64, "%s: 64 without fencing" % text)
        equal(extend(asks, names)[1:], [1] * 128, "%s: 128 extended" % text)
        equal(release(asks, names, values, ["-"] * 128), [1] * 128, "%s: and released" % text)
        equal(node.call("EXISTS", *names), 0, "%s: all of them" % text)
        node.call("DEL", *["redlockd:fence:" + name for name in names])


def test_texts():
    """Tokens are compared as texts or as numbers: however many digits they have."""
    node, fence = blessed(), "redlockd:fence:name"
    lacking, now_us = user(node, "-mget"), clock_us(node)
    for before, token, wanted in ((now_us, now_us, [0, now_us]), (now_us, now_us + 1, now_us + 1),
                                  (now_us + 9, now_us, [0, now_us + 9]), (9999, now_us, now_us),
                                  ("%d 9" % (now_us + 1), now_us, [0, now_us + 1]),
                                  (10 ** 17, now_us, [0, 10 ** 17]), ("x" * 16, now_us, now_us),
                                  (now_us, now_us + 2 * SKEW_US, [-1, now_us]),
                                  (now_us - 9, 2000, [0, now_us - 9]), (1500, 2000, [-1, 1500]),
                                  (500, 2000, [-1, 1000]), (1500, 999, [0, 1500]), (500, 999, [0, 1000])):
        for text, asks, names in (("alone", node, ["name"]), ("together", node, ["name", "other"]),
                                  ("without +mget", lacking, ["name", "other"])):
            node.call("DEL", "name", "other", "redlockd:fence:other")
            node.call("SET", fence, before)
            equal(acquire(asks, names, [token] * len(names))[1], wanted,
                  "%s behind %s, %s" % (token, before, text))


def calls(node, command):
    found = re.search(r"cmdstat_%s:calls=(\d+)" % command, node.call("INFO", "commandstats"))
    return int(found.group(1)) if found else 0


def encode(*items):
    items = [str(item).encode() for item in items]
    return b"*%d\r\n" % len(items) + b"".join(b"$%d\r\n%s\r\n" % (len(item), item) for item in items)


def ask_at_once(agent, requests):
    """All are there when the agent looks."""
    agent.stop()
    for client, data in requests:
        client.send_raw(data)
    agent.cont()


def test_shared():
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED, keepers=1)
    agent.wait_voting(3)
    clients = [agent.client(3) for _ in range(60)]
    before = [calls(node, "evalsha") for node in nodes]
    ask_at_once(agent, [(client, encode("ACQUIRE", "n%d" % i)) for i, client in enumerate(clients)])
    grants = [client.reply() for client in clients]
    equal(sum(lab.keys_on(nodes, "n%d" % i) for i in range(60)), 180,
          "60 clients have their leases on all nodes")
    took = [calls(node, "evalsha") - count for node, count in zip(nodes, before)]
    ok(all(count < 60 for count in took), "by fewer calls: %s" % took)
    ask_at_once(agent, [(client, encode("RELEASE", grant["id"])) for client, grant in zip(clients, grants)])
    equal([client.reply() for client in clients], [1] * 60, "and let them go")
    agent.terminate()


def test_key_refused():
    """The agent's user may not use all keys: who asks for such a one fails others once at most."""
    node = lab.Node("one")
    node.call("ACL", "SETUSER", "agent", "on", ">a secret", "+@all", "&*", "~redlockd:*", "~mine:*")
    agent = lab.Agent([node], lab.UNHURRIED, keepers=1, node_config='user = "agent" password = "a secret"')
    agent.wait_voting(1)
    clients = [agent.client(3) for _ in range(20)]
    names = ["yours"] + ["mine:%d" % i for i in range(1, 20)]
    for turn in range(3):
        ask_at_once(agent, [(client, encode("ACQUIRE", name)) for client, name in zip(clients, names)])
        refused, *replies = [client.reply() for client in clients]
        begins(refused, "NOQUORUM", "a name that the node refuses fails")
        grants = [reply for reply in replies if not isinstance(reply, lab.ReplyError)]
        ok(turn == 0 or len(grants) == 19, "others have theirs: %d of 19" % len(grants))
        for client, reply in zip(clients[1:], replies):
            if reply in grants:
                client.call("RELEASE", reply["id"])
    agent.terminate()


def test_order():
    """One is let go, another asked for and given up, many times at once. Whether they meet in one turn of
    the agent or not: a key that is deleted before it is set stays for its ttl."""
    count = 300
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes, lab.UNHURRIED, keepers=1)
    agent.wait_voting(3)
    holders = [agent.client(3) for _ in range(count)]
    for turn in range(3):
        ids = [client.acquire("n%d" % i, "TTL", 60000, "WAIT", 10000)["id"]
               for i, client in enumerate(holders)]
        agent.stop()
        for i, (client, id) in enumerate(zip(holders, ids)):
            client.send("RELEASE", id)
            gone = agent.client()
            gone.send("ACQUIRE", "n%d" % (i + count), "TTL", 60000)
            gone.close()
        agent.cont()
        equal([client.reply() for client in holders], [1] * count, "%d leases are let go" % count)
        for i, client in enumerate(holders):
            client.send("ACQUIRE", "n%d" % (i + count), "TTL", 60000, "WAIT", 10000)
        grants = [lab.as_map(client.reply()) for client in holders]
        equal([grant for grant in grants if isinstance(grant, lab.ReplyError)], [],
              "what was asked for and given up meanwhile is free")
        for client, grant in zip(holders, grants):
            client.call("RELEASE", grant["id"])
    lab.wait_for(lambda: not any(node.call("KEYS", "n*") for node in nodes), what="the last key's end")
    ok(True, "nothing stays behind")
    agent.terminate()


def test_order_pipelined():
    """A client asks, lets go and asks again in one breath, and guesses the ids: a request's place, and
    above it how often that was used."""
    count = 100
    node = lab.Node("one")
    agent = lab.Agent([node], "fencing = no\n" + lab.UNHURRIED, keepers=1)
    agent.wait_voting(1)
    client = agent.client(3)
    before = calls(node, "set")

    def ask(i):
        return encode("ACQUIRE", "n%d" % i, "TTL", 60000, "WAIT", 10000, "ASYNC")

    def let_go(i, use):
        return encode("RELEASE", (use << 20) + i)

    ask_at_once(agent, [(client, b"".join(ask(i) + let_go(i, 1) + ask(i) for i in range(count)))])
    replies = [client.reply() for _ in range(3 * count)]
    equal(replies[1::3], [1] * count, "%d names are asked for, let go and asked for" % count)
    wanted, granted = {(2 << 20) + i for i in range(count)}, set()
    while not wanted <= granted:
        granted.add(client.push("granted")[1])
    ask_at_once(agent, [(client, b"".join(let_go(i, 2) for i in range(count)))])
    equal([client.reply() for _ in range(count)], [1] * count, "granted, and let go")
    ok(calls(node, "set") - before <= 2 * count, "by at most one attempt each")
    equal(node.call("KEYS", "n*"), [], "nothing stays behind")
    agent.terminate()


main(test_acquire, test_tokens, test_alone, test_epoch, test_refused, test_release, test_extend, test_full,
     test_texts, test_shared, test_key_refused, test_order, test_order_pipelined)
