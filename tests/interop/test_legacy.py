"""legacy_setnx: values that clients of the SETNX and GETSET pattern read as a future time, and their ended
locks."""

import time

from workers import lab  # first: it makes the path of the others
from tap import begins, equal, main, ok

TIME = "8589936739483647:"
node = lab.Node("a")
RULES = 'rule "old*" { legacy_setnx = yes }\n'
agent = lab.Agent([node], lab.UNHURRIED + RULES)
other = lab.Agent([node], lab.UNHURRIED + RULES)


def value(name="old"):
    return node.call("GET", name) or ""


def test_value():
    client = agent.client(3)
    grant = client.acquire("old", "TTL", int(6000 * lab.SCALE), "DATA", "d", "RESUMABLE")
    begins(value(), TIME, "the value begins with a future time")
    ok(int(TIME[:-1]) > 1e6 * time.time() + 1e14, "in microseconds, too")
    leader = client.call("LEADER", "old")
    equal((leader["host"], leader["data"]), (leader["holder"].split(":")[0], "d"),
          "LEADER reads the value behind it")
    ok(leader.get("since", 0) > 0, "and knows that this agent granted the lease")
    begins(other.client().acquire("old"), "BUSY", "other agents see a holder")
    before = value()
    lab.wait_for(lambda: agent.status()["extensions"] >= 2, what="two extensions")
    equal((client.call("CHECK", grant["id"]) > 0, value()), (True, before), "an extension keeps the value")
    agent.kill()
    agent.start()
    client = agent.client(3)
    resumed = client.call("RESUME", "old", grant["secret"])
    begins(value(), TIME, "and so does a resumed lease: %r" % resumed)
    equal(client.call("RELEASE", resumed["id"]), 1, "which is released")
    equal(value(), "", "and its key deleted")
    client.acquire("new")
    ok(not value("new").startswith(TIME), "other names have no such time")
    client.close()


def test_hand_off():
    first, second = agent.client(3), agent.client(3)
    grant = first.acquire("old", "TTL", int(6000 * lab.SCALE))
    second.send("ACQUIRE", "old", "TTL", int(6000 * lab.SCALE), "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    first.call("RELEASE", grant["id"])
    grant = second.reply()
    lab.wait_for(lambda: value().startswith(TIME), what="the next holder's value")
    ok(second.call("CHECK", grant["id"]) > 0, "a lease that is handed off keeps the time")
    second.call("RELEASE", grant["id"])
    equal(value(), "", "and is released")


def taken(text, *options, name="old"):
    """Whether an agent deletes this lock of another program."""
    node.call("SET", name, text, *options)
    client = agent.client(3)
    grant = client.acquire(name, "TTL", int(6000 * lab.SCALE))
    client.close()
    got = isinstance(grant, dict)
    lab.wait_for(lambda: value(name) == ("" if got else text), what="the end of the lease")
    node.call("DEL", name)
    return got


def test_ended_locks():
    now = time.time()
    for unit, name in ((1, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds")):
        ok(taken("%d" % (unit * (now - 5))), "a lock that ended, by a time in %s, is deleted" % name)
        ok(not taken("%d" % (unit * (now + 60))), "a lock that ends later is not")
    ok(taken("%.2f:host" % (now - 5)), "text behind the digits does not matter")
    ok(not taken("%d" % (now - 5), "PX", 60000), "a key with an expiry is not deleted")
    ok(not taken("4711"), "a number that is no time of this century is no lock")
    ok(not taken("x%d" % (now - 5)), "nor is a text")
    ok(not taken("%d" % (now - 5), name="new"), "and without the option nothing is deleted")
    node.call("HSET", "old", "field", "1")
    begins(agent.client().acquire("old"), "BUSY its Redis key is of type hash", "a hash stays")
    node.call("DEL", "old")


main(test_value, test_hand_off, test_ended_locks)
