"""Several names in one script call: each gets the same answer as in a call of its own, and requests for one
name keep their order."""

import itertools
import os
import re

import lab
from tap import begins, equal, main, ok

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "scripts")
EPOCH = "e" * 40 + " 30000 1000"
SKEW_US, RETENTION_MS = 60 * 1000 * 1000, 3600 * 1000
FENCES, FORMER_FENCES = "redlockd:fences", "redlockd:fences:old"


def script(name):
    with open(os.path.join(SCRIPTS, name + ".lua")) as file:
        return file.read()


def clock_us(node):
    seconds, us = node.call("TIME")
    return int(seconds) * 1000000 + int(us)


def acquire(node, names, tokens=None, lasts=None, epoch=EPOCH, ttls_ms=(50000,), retention_ms=RETENTION_MS):
    """The raw answer; each value is the name in capitals. Tokens and times to live: one for all names, or
    one for each."""
    numbers = [list(column) for column in (ttls_ms, tokens, lasts) if column]
    each = any(len(column) > 1 for column in numbers)
    if each:
        numbers = [column if len(column) > 1 else column * len(names) for column in numbers]
    keys = ["redlockd:epoch", *([FENCES, FORMER_FENCES] if tokens else []), *names]
    return node.call("EVAL", script("acquire"), len(keys), *keys, epoch, epoch.split()[2] if tokens else "",
                     SKEW_US, retention_ms, int(each), *[name.upper() for name in names],
                     *itertools.chain(*numbers))


def taken(node, names, *arguments, **options):
    """The answers for each name: 1 for each when the short answer leaves them out."""
    answers = acquire(node, names, *arguments, **options)[1:]
    return answers or [1] * len(names)


def release(node, names, *columns, channel="redlockd:free:"):
    return node.call("EVAL", script("release"), len(names), *names, *itertools.chain(*columns), channel)


def extend(node, names, values=None, ttl_ms=50000, epoch=EPOCH):
    values = values or [name.upper() for name in names]
    return node.call("EVAL", script("extend"), len(names) + 1, *names, "redlockd:epoch", *values,
                     *[ttl_ms] * len(names), epoch)


def query(node, name):
    return node.call("EVAL", script("query"), 3, name, FENCES, FORMER_FENCES)


def fences(node, names, table=FENCES):
    return node.call("HMGET", table, *names)


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
    ok(before_us <= now_us <= clock_us(node), "the answer has TIME once")
    equal((answers[0], answers[3]), (1, 1), "free keys are set, without fencing")
    kind, value, left_ms = answers[1]
    equal((kind, value, 0 < left_ms <= 40000), ("string", "somebody", True),
          "another's key is answered with value and time left")
    equal(answers[2], ["hash", "", -1], "or with its type")
    equal(answers[4], ["string", "x" * 2048, -1], "of a long value the beginning")
    equal([node.call("GET", name) for name in ("free", "theirs", "other")], ["FREE", "somebody", "OTHER"],
          "the keys match the answers")
    ok(all(0 < node.call("PTTL", name) <= 50000 for name in ("free", "other")), "and expire")
    equal(node.call("EXISTS", FENCES), 0, "no fence is kept")
    answer = acquire(node, ["one", "two"])
    ok(len(answer) == 1 and clock_us(node) >= answer[0] > now_us, "TIME alone: all were set")
    acquire(node, ["short", "long"], ttls_ms=[1000 * 1000, 2000 * 1000])
    left_ms = [node.call("PTTL", name) for name in ("short", "long")]
    ok(left_ms[0] <= 1000 * 1000 < left_ms[1], "each may have a ttl of its own")


def test_query():
    node = blessed()
    value = "x" * 2047 + "yz"
    for length in range(2047, 2050):
        node.call("SET", "long", value[:length])
        kind, answer, left_ms, fence = query(node, "long")
        equal((kind, len(answer), answer[2046:], left_ms, fence),
              ("string", min(length, 2048), value[2046:min(length, 2048)], -1, 0),
              "query answers at most 2,048 bytes of a value: of %d" % length)
    equal(query(node, "none"), ["none", "", -2, 0], "and the type of a missing key")
    node.call("HSET", "hash", "field", "1")
    equal(query(node, "hash"), ["hash", "", -1, 0], "or of one that is no string")


def test_tokens():
    node = blessed()
    now_us = clock_us(node)
    node.call("HSET", FENCES, "used", now_us - 5, "ahead", "%d %d" % (now_us + 64, now_us))
    names = ["fresh", "used", "ahead", "small", "far", "theirs"]
    node.call("SET", "theirs", "somebody")
    tokens = [now_us, now_us, now_us + 64, 999, now_us + 2 * SKEW_US, now_us]
    equal(acquire(node, names, tokens)[1:],
          [1, 1, [0, now_us + 64], [0, 1000], [-1, 1000], ["string", "somebody", -1]],
          "each token is compared with its own fence: accepted, too small, below the floor, too far")
    equal([node.call("GET", name) for name in names[:-1]], [name.upper() for name in names[:-1]],
          "the keys are set in any case")
    equal(fences(node, names), [str(now_us), str(now_us), "%d %d" % (now_us + 64, now_us), None, None, None],
          "only accepted tokens are remembered")
    equal(acquire(node, ["one", "two"], [now_us], [now_us + 64, now_us + 2 * SKEW_US])[1:], [1, [-1, 1000]],
          "of a block the last token counts")
    equal(fences(node, ["one"]), ["%d %d" % (now_us + 64, now_us)], "and the holder's is stored behind it")
    equal(taken(node, ["three", "four"], [now_us], [now_us + 64]), [1, 1], "one block for several names")
    equal(fences(node, ["three", "four"]), ["%d %d" % (now_us + 64, now_us)] * 2, "one block each")
    node.call("DEL", "three", "four")
    equal(taken(node, ["three", "new"], [now_us + 1]), [[0, now_us + 64], 1],
          "each token is compared with its own fence")


def without_ttl(answers):
    return [answer[:2] if isinstance(answer, list) else answer for answer in answers]


def test_alone():
    """Two nodes: one gets all names in one call, the other a call for each."""
    together, alone = blessed("together"), blessed("alone")
    now_us = clock_us(together)
    names = ["n%d" % i for i in range(64)]
    for node in (together, alone):
        for i, name in enumerate(names):
            if i % 3 == 0:
                node.call("SET", name, "somebody %d" % i)
            if i % 4 == 0:
                node.call("HSET", FENCES if i % 8 else FORMER_FENCES, name, now_us + i % 8)
    tokens = [now_us + i % 5 for i in range(64)]
    for lasts in (None, [token + i % 2 for i, token in enumerate(tokens)]):
        apart = [taken(alone, [names[i]], [tokens[i]], lasts and [lasts[i]])[0] for i in range(64)]
        equal(without_ttl(taken(together, names, tokens, lasts)), without_ttl(apart),
              "64 names in one call get the same answers as in single calls")
        equal((together.call("MGET", *names), fences(together, names)),
              (alone.call("MGET", *names), fences(alone, names)), "the same for keys and fences")
        together.call("DEL", *names[::2])
        alone.call("DEL", *names[::2])


def begun_us(node):
    return int((node.call("HGET", FENCES, "") or "0").split()[0])


def age(node, by_ms):
    """Makes the table of fences older by so much."""
    node.call("HSET", FENCES, "", begun_us(node) - by_ms * 1000)


def test_retention():
    node = blessed()
    first_us = clock_us(node)
    taken(node, ["kept", "used"], [first_us])
    ok(first_us <= begun_us(node) <= clock_us(node), "the table of fences has the time of its begin")
    age(node, RETENTION_MS - 10000)
    taken(node, ["other"], [first_us])
    equal(node.call("EXISTS", FORMER_FENCES), 0, "it stays for fence_retention")
    age(node, 20000)
    node.call("DEL", "used")
    equal(taken(node, ["used", "third"], [first_us + 1]), [1, 1], "then another begins,")
    equal(fences(node, ["kept", "used", "other", "third"]),
          [None, str(first_us + 1), None, str(first_us + 1)], "with the fences used from then on")
    equal(fences(node, ["kept", "used", "other"], FORMER_FENCES), [str(first_us)] * 3,
          "and the former one has the others")
    ok(first_us <= begun_us(node) <= clock_us(node), "the table is new")
    equal([node.call("PTTL", table) for table in (FENCES, FORMER_FENCES)], [-1, -1], "neither table expires")
    node.call("DEL", "kept")
    equal(taken(node, ["kept"], [first_us]), [[0, first_us]], "the former table counts while it exists")
    equal(look(node, "kept"), first_us, "query reads it")
    equal(raise_token(node, "kept", first_us)[0::2], [0, first_us], "raise reads it")
    equal(refresh(node, "kept", first_us + 1), 1, "and refreshed")
    equal(fences(node, ["kept"]), [None], "refresh does not store a token that the node has not accepted")
    equal(refresh(node, "kept", first_us - 1), 1, "but one of the block")
    equal(fences(node, ["kept"]), ["%d %d" % (first_us, first_us - 1)], "then the new table has it, too")
    age(node, RETENTION_MS + 10000)
    node.call("DEL", "other", "third")
    taken(node, ["next"], [first_us])
    equal(taken(node, ["other"], [first_us]), [1], "a name unused for longer is forgotten")
    equal(taken(node, ["third"], [first_us]), [[0, first_us + 1]], "and no other name")
    age(node, -1000 * RETENTION_MS)
    taken(node, ["late"], [first_us])
    ok(first_us <= begun_us(node) <= clock_us(node), "a table whose begin is in the future begins now")
    node.call("DEL", "third")
    equal(taken(node, ["third"], [first_us]), [[0, first_us + 1]], "the former one stays")


def test_held_for_long():
    """A lease that is held longer than the nodes keep tokens: a refresh with its own value in time."""
    node = blessed()
    first_us = clock_us(node)
    taken(node, ["held", "block", "idle"], [first_us], [first_us + 9])
    taken(node, ["one"], [first_us])
    for i in range(3):
        age(node, RETENTION_MS + 1000)
        taken(node, ["other %d" % i], [first_us])
        equal([refresh(node, name, first_us + more, former=name.upper())
               for name, more in (("held", 0), ("block", 4), ("one", 0))], [1] * 3,
              "a refresh extends a key that keeps its value")
        equal(node.call("MGET", "held", "block"), ["HELD", "BLOCK"], "and leaves it")
        equal(fences(node, ["held", "block", "one"]),
              ["%d %d" % (first_us + 9, first_us), "%d %d" % (first_us + 9, first_us + 4), str(first_us)],
              "the present table gets the largest token, and the holder's")
    equal([look(node, name) for name in ("held", "block", "one", "idle")],
          [first_us, first_us + 4, first_us, 0],
          "the holder's token stays known; without refreshes it does not")
    node.call("DEL", "held", "one")
    equal(taken(node, ["held", "one"], [first_us]), [[0, first_us + 9], [0, first_us]],
          "rule 12: and so does the largest")


def test_repaired():
    """A node that lost its data: its floor is above the holder's token, which LEADER still shows."""
    node = blessed()
    floor = int(EPOCH.split()[2])
    node.call("SET", "repaired", "REPAIRED", "PX", 50000)
    equal(refresh(node, "repaired", floor - 1, former="REPAIRED"), 1, "a refresh extends the key")
    equal((look(node, "repaired"), fences(node, ["repaired"])), (floor - 1, [str(floor - 1)]),
          "the node has the holder's token")
    node.call("DEL", "repaired")
    equal(taken(node, ["repaired"], [floor]), [[0, floor]], "rule 12: it accepts no token up to the floor")
    node.call("SET", "repaired", "REPAIRED", "PX", 50000)
    lower = EPOCH.rsplit(" ", 1)[0] + " %d" % (floor - 10)
    node.call("SET", "redlockd:epoch", lower)
    node.call("DEL", "repaired")
    answers = acquire(node, ["repaired"], [floor - 1], epoch=lower)
    equal(answers[1:], [[0, floor - 1]], "with a lower floor, as after a wrong clock, the token counts")


def test_shorter_retention():
    """Agents with different fence_retention: a fence used within the shorter time counts for both."""
    node = blessed()
    now_us = clock_us(node)
    taken(node, ["a"], [now_us])
    age(node, RETENTION_MS // 2)
    taken(node, ["b"], [now_us], retention_ms=RETENTION_MS // 4)
    taken(node, ["c"], [now_us])
    node.call("DEL", "a", "b")
    equal(taken(node, ["a", "b"], [now_us]), [[0, now_us]] * 2, "no fence is forgotten early")


def test_spoilt():
    """Foreign values under the agents' own keys count as missing."""
    node = blessed()
    now_us = clock_us(node)
    for table in (FENCES, FORMER_FENCES):
        node.call("DEL", table, "a", "b")
        node.call("RPUSH", table, "1")
        equal(taken(node, ["a", "b"], [now_us]), [1, 1], "%s of another type counts as missing" % table)
        equal(fences(node, ["a", "b"]), [str(now_us)] * 2, "accepted tokens are remembered")
        age(node, 2 * RETENTION_MS)
        equal(taken(node, ["c", "d"], [now_us]), [1, 1], "another table can begin")
        equal(node.call("TYPE", FORMER_FENCES), "hash", "and replaces it in time")
        node.call("RENAME", FENCES, "for now")
        node.call("RPUSH", FENCES, "1")
        equal(look(node, "a"), now_us, "query reads the former table beside it")
        equal(raise_token(node, "a", now_us)[0::2], [0, now_us], "raise counts it")
        node.call("RENAME", "for now", FENCES)
        node.call("DEL", "c", "d")
        node.call("HDEL", FENCES, "c", "d")
    for text in ("", "x", " 1", "-5"):
        node.call("DEL", "a", FORMER_FENCES)
        node.call("HSET", FENCES, "", text, "a", text)
        equal(taken(node, ["a"], [now_us]), [1], "%r as time and as fence counts as missing" % text)


def look(node, name):
    return query(node, name)[3]


def raise_token(node, name, token):
    return node.call("EVAL", script("raise"), 4, name, "redlockd:epoch", FENCES, FORMER_FENCES, name.upper(),
                     token, EPOCH, EPOCH.split()[2], SKEW_US)


def refresh(node, name, token, former="former"):
    return node.call("EVAL", script("refresh"), 4, name, "redlockd:epoch", FENCES, FORMER_FENCES,
                     name.upper(), 50000, EPOCH, former, token)[0]


def test_epoch():
    node = blessed()
    begins(acquire(node, ["a", "b"], epoch="f" * 40 + " 30000 1000"), "EPOCH",
           "a node with another epoch answers an error")
    equal(node.call("EXISTS", "a", "b"), 0, "and sets nothing")


def lacks(text):
    """A script's error for a missing right, in the words of servers old and new."""
    return any(word in text for word in ("NOPERM", "can't run this command", "no permissions to run"))


def test_refused():
    node = blessed()
    now_us = clock_us(node)
    for what, tokens, prepare in (
            ("without fencing", None, []), ("no fences yet", [now_us], []),
            ("fences", [now_us], ["HSET", FENCES, "", now_us]),
            ("old fences", [now_us], ["HSET", FENCES, "", 1]),
            ("fences of another type", [now_us], ["RPUSH", FENCES, "1"])):
        node.call("DEL", FENCES, FORMER_FENCES)
        if prepare:
            node.call(*prepare)
        node.call("CONFIG", "SET", "maxmemory", 1)
        answers = acquire(node, ["a", "b"], tokens)[1:] + acquire(node, ["a"], tokens)[1:]
        equal([answer.split()[0] for answer in answers], ["OOM"] * 3,
              "the reason for which a node sets nothing: " + what)
        equal(node.call("EXISTS", "a", "b"), 0, "and nothing is set: " + what)
        equal(node.call("EXISTS", FENCES, FORMER_FENCES), {"no fences yet": 0, "without fencing": 0,
              "old fences": 2}.get(what, 1), "except that it drops the expired table")
        node.call("CONFIG", "SET", "maxmemory", 0)
    node.call("DEL", FENCES, FORMER_FENCES)
    node.call("HSET", FENCES, "b", now_us + 1)
    answers = taken(user(node, "-hset"), ["a", "b"], [now_us])
    ok(lacks(answers[0]), "a token that can't be stored is not accepted: %s" % answers[0])
    equal(answers[1], [0, now_us + 1], "other names get their usual answers")
    node.call("DEL", "a", "b")
    answer = acquire(user(node, "-hmget"), ["a"], [now_us])
    ok(isinstance(answer, lab.ReplyError) and lacks(str(answer)),
       "without the right to read fences: %s" % answer)
    equal((node.call("EXISTS", "a"), node.call("TYPE", FENCES)), (0, "hash"), "nothing is set")


def test_release():
    node = blessed()
    listener = lab.Client(node.socket_path)
    for name in ("a", "c"):
        listener.call("SUBSCRIBE", "redlockd:free:" + name)
    for name, value in (("a", "A"), ("b", "B"), ("c", "other")):
        node.call("SET", name, value)
    node.call("HSET", "hash", "field", "1")
    equal(release(node, ["a", "b", "c", "gone", "hash"], ["A", "B", "C", "GONE", "HASH"]), [2, 1, 0, 0, 0],
          "our keys are deleted, and that is published")
    equal(node.call("MGET", "a", "b", "c"), [None, None, "other"], "another's key stays")
    equal(node.call("HGETALL", "hash"), ["field", "1"], "of any type")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(node, ["a", "b", "c"], ["A", "B", "C"], ["-", "-", "other"]), [2, 1, 2],
          "either value counts: all keys are deleted")
    equal(node.call("EXISTS", "a", "b", "c"), 0, "all of them")
    equal([listener.read()[1] for _ in range(3)], ["redlockd:free:" + name for name in "aac"],
          "each is published once")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(node, ["a", "b"], ["A", "B"], channel=""), [],
          "without a channel nothing is published, and the answer is short")
    node.call("SET", "b", "B")
    equal(release(node, ["b"], ["B"]), [], "also short without a subscriber")
    equal(release(node, ["b"], ["B"]), [0], "a missing key is answered as not ours")
    node.call("MSET", "a", "A", "b", "B", "c", "other")
    equal(release(user(node, "-mget"), ["a", "b", "c", "gone", "hash"], ["A", "B", "C", "GONE", "HASH"],
                  channel=""), [1, 1, 0, 0, 0], "a user without +mget gets the same answers")
    equal(node.call("EXISTS", "a", "b", "c", "hash"), 2, "and deletes the same keys")
    node.call("MSET", "a", "A", "b", "B")
    equal(release(user(node, "-publish"), ["a", "gone"], ["A", "GONE"]), [2, 0],
          "without the right to publish the answer is 2")


def user(node, *rights):
    """Another connection to the node, of a user without these rights."""
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
        before_us, begun = clock_us(node), lab.now()
        answers = []
        for i in range(0, 6, count):
            now_us, *some = extend(asks, names[i:i + count])
            some = some or [1]
            ok(before_us <= now_us <= clock_us(node), "%s: the answer has TIME once" % text)
            answers += some
        equal(answers, [1, 0, 2, ["somebody"], 0, 1],
              "%s: extended, another's value or type, or set again" % text)
        equal(node.call("MGET", "held", "gone", "theirs", "too"), ["HELD", "GONE", "somebody", "TOO"],
              "%s: another's key stays" % text)
        equal((node.call("LRANGE", "list", 0, -1), node.call("HGETALL", "hash")), (["1"], ["field", "1"]),
              "%s: of any type" % text)
        equal([node.call("PTTL", name) for name in ("list", "theirs", "hash")], [-1] * 3,
              "%s: and gets no ttl" % text)
        left_ms = [node.call("PTTL", name) for name in ("held", "gone", "too")]
        ok(49900 - 1000 * (lab.now() - begun) < min(left_ms) <= max(left_ms) <= 50000,
           "%s: our keys expire" % text)
        begins(extend(asks, names[:count], epoch="f" * 40 + " 30000 1000"), "EPOCH",
               "%s: a node with another epoch answers an error" % text)
        node.call("DEL", *names)
    node.call("CONFIG", "SET", "maxmemory", 1)
    equal([str(answer).split()[0] for answer in extend(node, ["a", "b"])[1:]], ["OOM", "OOM"],
          "the reason for which a node sets nothing")


def test_full_node():
    """A node without memory for new keys extends leases, whatever changes their values or the epoch."""
    node = blessed()
    former, mine, last = ("%040x:web1:%08x:7:1000:" % (5 << 16, agent) for agent in range(3))
    node.call("SET", "held", former, "PX", 5000)
    node.call("CONFIG", "SET", "maxmemory", 1)
    equal(node.call("EVAL", script("adopt"), 2, "held", "redlockd:epoch", mine, 50000, EPOCH)[1:], [1],
          "adopt: the next process continues the lease")
    equal((node.call("GET", "held"), node.call("PTTL", "held") > 45000), (mine, True), "by its own value")
    equal(node.call("EVAL", script("refresh"), 2, "held", "redlockd:epoch", last, 60000, EPOCH, mine)[0], 1,
          "refresh: the next holder gets the lease")
    equal((node.call("GET", "held"), node.call("PTTL", "held") > 55000), (last, True), "by its own value")
    other = EPOCH.replace(" 30000 ", " 20000 ")
    ok(other != EPOCH, "another epoch of the same process")
    equal(node.call("EVAL", script("amend"), 1, "redlockd:epoch", EPOCH, other)[::2], [1, other],
          "amend: the epoch is changed")
    node.call("CONFIG", "SET", "maxmemory", 0)
    former_process, fleet = "f" * 40, "0" * 8
    node.call("SET", "redlockd:epoch", former_process + " 30000 1000 " + fleet + " rested 1")
    node.call("CONFIG", "SET", "maxmemory", 1)
    run_id = re.search(r"run_id:(\w+)", node.call("INFO", "server"))[1]
    answer = node.call("EVAL", script("bless"), 3, "redlockd:epoch", "redlockd:marks", "redlockd:marks:old",
                       "field", 1, 30000, SKEW_US, former_process, 30000, fleet, "rested")
    fresh = run_id + " 30000 1000 " + fleet + " rested 2"
    equal((answer[::2], node.call("GET", "redlockd:epoch")), ([1, fresh], fresh),
          "bless: a durable node votes after its restart")
    node.call("CONFIG", "SET", "maxmemory", 0)


def test_full():
    """The largest calls, with all optional arguments."""
    node = blessed()
    names = ["n%d" % i for i in range(128)]
    values = [name.upper() for name in names]
    for text, asks in (("by all rights", node), ("without +mget", user(node, "-mget"))):
        now_us = clock_us(node)
        tokens, lasts = [now_us + i for i in range(64)], [now_us + 64 + i for i in range(64)]
        equal(len(acquire(asks, names[:64], tokens, lasts)), 1, "%s: 64 acquired" % text)
        equal(fences(node, names[:64]), ["%d %d" % pair for pair in zip(lasts, tokens)],
              "%s: with tokens" % text)
        equal(len(acquire(asks, names[64:])), 1, "%s: 64 without fencing" % text)
        equal(len(extend(asks, names)), 1, "%s: 128 extended" % text)
        equal(release(asks, names, values, ["-"] * 128), [], "%s: 128 released" % text)
        equal(node.call("EXISTS", *names), 0, "%s: all of them" % text)
        node.call("DEL", FENCES)


def test_texts():
    """Tokens are compared as texts or as numbers, with any number of digits."""
    node = blessed()
    now_us = clock_us(node)
    for before, token, wanted in ((now_us, now_us, [0, now_us]), (now_us, now_us + 1, 1),
                                  (now_us + 9, now_us, [0, now_us + 9]), (9999, now_us, 1),
                                  ("%d 9" % (now_us + 1), now_us, [0, now_us + 1]),
                                  (10 ** 17, now_us, [0, 10 ** 17]), ("x" * 16, now_us, 1),
                                  (now_us, now_us + 2 * SKEW_US, [-1, now_us]),
                                  (now_us - 9, 2000, [0, now_us - 9]), (1500, 2000, [-1, 1500]),
                                  (500, 2000, [-1, 1000]), (1500, 999, [0, 1500]), (500, 999, [0, 1000])):
        for names in (["name"], ["name", "other"]):
            for table in (FENCES, FORMER_FENCES):
                node.call("DEL", "name", "other", FENCES, FORMER_FENCES)
                node.call("HSET", table, "name", before)
                equal(taken(node, names, [token])[0], wanted,
                      "%s behind %s in %s, one of %d" % (token, before, table, len(names)))


def calls(node, command):
    found = re.search(r"cmdstat_%s:calls=(\d+)" % command, node.call("INFO", "commandstats"))
    return int(found.group(1)) if found else 0


def encode(*items):
    items = [str(item).encode() for item in items]
    return b"*%d\r\n" % len(items) + b"".join(b"$%d\r\n%s\r\n" % (len(item), item) for item in items)


def ask_at_once(agent, requests):
    """All requests have arrived when the agent reads."""
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
    lab.wait_for(lambda: sum(lab.keys_on(nodes, "n%d" % i) for i in range(60)) == 180, what="the last node")
    ok(True, "60 clients have their leases on all nodes")
    took = [calls(node, "evalsha") - count for node, count in zip(nodes, before)]
    ok(all(count < 60 for count in took), "by fewer calls: %s" % took)
    tokens = {grant["fence"] for grant in grants}
    ok(len(tokens) <= max(took) + 1, "names of one call usually share a token: %d" % len(tokens))
    ask_at_once(agent, [(client, encode("RELEASE", grant["id"])) for client, grant in zip(clients, grants)])
    equal([client.reply() for client in clients], [1] * 60, "and release them")
    agent.terminate()


def test_key_refused():
    """The agent's user may not use all keys: a request for such a key fails others at most once."""
    node = lab.Node("one")
    node.call("ACL", "SETUSER", "agent", "on", ">a secret", "+@all", "&*", "~redlockd:*", "~mine:*")
    agent = lab.Agent([node], lab.UNHURRIED, keepers=1, node_config='user = "agent" password = "a secret"')
    agent.wait_voting(1)
    clients = [agent.client(3) for _ in range(20)]
    names = ["yours"] + ["mine:%d" % i for i in range(1, 20)]
    granted = []
    for _ in range(4):
        ask_at_once(agent, [(client, encode("ACQUIRE", name)) for client, name in zip(clients, names)])
        refused, *replies = [client.reply() for client in clients]
        begins(refused, "NOQUORUM", "a name that the node rejects fails")
        grants = [reply for reply in replies if not isinstance(reply, lab.ReplyError)]
        granted.append(len(grants))
        for client, reply in zip(clients[1:], replies):
            if reply in grants:
                client.call("RELEASE", reply["id"])
    ok(sum(count < 19 for count in granted) <= 1, "others are granted, but for one time: %s of 19" % granted)
    agent.terminate()


def test_order():
    """One name is released, another requested and withdrawn, many times at once. Whether or not they meet in
    one turn of the agent: a key that is deleted before it is set stays for its ttl."""
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
        equal([client.reply() for client in holders], [1] * count, "%d leases are released" % count)
        for i, client in enumerate(holders):
            client.send("ACQUIRE", "n%d" % (i + count), "TTL", 60000, "WAIT", 10000)
        grants = [lab.as_map(client.reply()) for client in holders]
        equal([grant for grant in grants if isinstance(grant, lab.ReplyError)], [],
              "the names withdrawn meanwhile are free")
        for client, grant in zip(holders, grants):
            client.call("RELEASE", grant["id"])
    lab.wait_for(lambda: not any(node.call("KEYS", "n*") for node in nodes), what="the end of the last key")
    ok(True, "no key remains")
    agent.terminate()


def test_order_pipelined():
    """A client requests, releases and requests again in one write."""
    count = 100
    node = lab.Node("one")
    agent = lab.Agent([node], "fencing = no\n" + lab.UNHURRIED, keepers=1)
    agent.wait_voting(1)
    client = agent.client(3)
    before = calls(node, "set")

    def ask(i):
        return encode("ACQUIRE", "n%d" % i, "TTL", 60000, "WAIT", 10000, "ASYNC")

    ask_at_once(agent, [(client, b"".join(ask(i) for i in range(count)))])
    first = [client.reply()[1] for _ in range(count)]
    ask_at_once(agent, [(client, b"".join(encode("RELEASE", id) + ask(i) for i, id in enumerate(first)))])
    replies = [client.reply() for _ in range(2 * count)]
    equal(replies[::2], [1] * count, "%d names are requested, released and requested" % count)
    wanted, granted = {reply[1] for reply in replies[1::2]}, set()
    while not wanted <= granted:
        granted.add(client.push("granted")[1])
    ask_at_once(agent, [(client, b"".join(encode("RELEASE", id) for id in sorted(wanted)))])
    equal([client.reply() for _ in range(count)], [1] * count, "granted, and released")
    ok(calls(node, "set") - before <= 2 * count, "by at most one attempt each")
    equal(node.call("KEYS", "n*"), [], "no key remains")
    agent.terminate()


main(test_acquire, test_query, test_tokens, test_alone, test_retention, test_held_for_long, test_repaired,
     test_shorter_retention, test_spoilt,
     test_epoch, test_refused, test_release, test_extend, test_full_node, test_full, test_texts, test_shared,
     test_key_refused, test_order, test_order_pipelined)
