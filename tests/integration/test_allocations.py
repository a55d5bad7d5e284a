"""Once warm, the agent allocates nothing for an operation on its hot path."""

import os
import struct

import lab
from tap import main, note, ok, within

ROUNDS = 25  # at most
PAIRS = 400  # a round's
EXTENSIONS = 400
LEASES = 100
CONTENDED = 100
MOST = 0.02  # for each operation

nodes = lab.nodes(5)
counter = lab.path("allocations")
with open(counter, "wb") as file:
    file.write(bytes(8))
library = os.path.join(lab.BUILD, "tests", "integration", "liballocations.so")
agent = lab.Agent(nodes, lab.UNHURRIED, prefix=("env", "LD_PRELOAD=" + library, "ALLOCATIONS=" + counter))
agent.wait_voting(5)
other = lab.Agent(nodes, lab.UNHURRIED)


def allocations():
    with open(counter, "rb") as file:
        return struct.unpack("=Q", file.read())[0]


of_status = 0  # allocations of STATUS: its reply has more bytes than a connection keeps memory for


def status(observer):
    global of_status
    before = allocations()
    reply = observer.call("STATUS")
    of_status += allocations() - before
    return reply


def check(what, operations):
    """An operation's allocations occur in each round. Other work occurs in some rounds: a probe of the
    nodes, a new connection to a slow node, buffers that grow to their largest size."""
    rounds = []
    while len(rounds) < ROUNDS and not (rounds and rounds[-1] <= MOST):
        before = allocations() - of_status
        count = operations()
        rounds.append((allocations() - of_status - before) / count)
    note("allocations for each, by rounds: " + " ".join("%.3f" % each for each in rounds))
    within(min(rounds), 0, MOST, what)


def test_they_are_counted():
    before = allocations()
    clients = [agent.client() for _ in range(100)]
    for client in clients:
        client.call("PING")
    ok(allocations() - before >= len(clients), "connections are not free of allocations")
    for client in clients:
        client.close()


def pair(client):
    client.call("RELEASE", client.acquire("pair")["id"])


def test_pairs():
    client = agent.client()

    def pairs():
        for _ in range(PAIRS):
            pair(client)
        return 2 * PAIRS

    check("allocations for each acquire and release", pairs)
    nodes[0].stop()  # requests stay under way
    for _ in range(10):
        pair(client)
    nodes[0].cont()
    agent.wait_voting(5)
    check("nor once many calls have been under way at a time", pairs)
    client.close()


def test_hand_offs():
    """Each client requests again as soon as it has released, so two of three wait at any time."""
    queue, observer = [agent.client() for _ in range(3)], agent.client(3)
    grant = queue[0].acquire("queue")
    for number in (1, 2):
        queue[number].send("ACQUIRE", "queue", "WAIT", -1)
        lab.wait_for(lambda: observer.call("STATUS")["waiters"] == number, what="the waiter")

    def hand_offs():
        nonlocal grant
        for _ in range(PAIRS):
            holder = queue.pop(0)
            holder.call("RELEASE", grant["id"])
            holder.send("ACQUIRE", "queue", "WAIT", -1)
            queue.append(holder)
            grant = lab.as_map(queue[0].reply())
        return PAIRS

    before = observer.call("STATUS")["handoffs"]
    check("allocations for each pair in a queue", hand_offs)
    ok(observer.call("STATUS")["handoffs"] > before, "of which some were hand-offs")
    for client in (*queue, observer):
        client.close()


def test_other_hosts():
    """Each client waits while the other one holds, and is woken by its release."""
    sides = [(each.client(), each.client(3)) for each in (agent, other)]
    grant = sides[0][0].acquire("contended")

    def hand_overs():
        nonlocal grant
        for _ in range(CONTENDED):
            (holder, _), (waiter, observer) = sides
            waiter.send("ACQUIRE", "contended", "WAIT", -1)
            lab.wait_for(lambda: status(observer)["waiters"] == 1, what="the waiter")
            holder.call("RELEASE", grant["id"])
            grant = lab.as_map(waiter.reply())
            sides.reverse()
        return CONTENDED

    check("allocations for each pair behind another agent's", hand_overs)
    for client in sum(sides, ()):
        client.close()


def test_extensions():
    client = agent.client()
    for number in range(LEASES):
        client.acquire("extended-%d" % number, "TTL", 3000)
    observer = agent.client(3)  # the same client all the time: a connection costs allocations

    def extensions():
        begun = status(observer)["extensions"]
        return lab.wait_for(lambda: max(0, status(observer)["extensions"] - begun - EXTENSIONS), 60,
                            "the extensions") + EXTENSIONS

    check("allocations for each extension", extensions)
    observer.close()
    client.close()


main(test_they_are_counted, test_pairs, test_hand_offs, test_other_hosts, test_extensions)
