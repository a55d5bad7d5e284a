"""The agent allocates nothing for an operation on its hot path, once it is warm."""

import os
import struct

import lab
from tap import main, note, ok, within

ROUNDS = 25  # at most
PAIRS = 400  # a round's
EXTENSIONS = 400
LEASES = 100
MOST = 0.02  # for each operation

nodes = lab.nodes(5)
counter = lab.path("allocations")
with open(counter, "wb") as file:
    file.write(bytes(8))
library = os.path.join(lab.BUILD, "tests", "integration", "liballocations.so")
agent = lab.Agent(nodes, lab.UNHURRIED, prefix=("env", "LD_PRELOAD=" + library, "ALLOCATIONS=" + counter))
agent.wait_voting(5)


def allocations():
    with open(counter, "rb") as file:
        return struct.unpack("=Q", file.read())[0]


def check(what, operations):
    """What an operation allocates, it allocates in each round. What else the agent does comes in some: a
    look at its nodes, a new connection to one that was too slow, what grows to its largest size."""
    rounds = []
    while len(rounds) < ROUNDS and not (rounds and rounds[-1] <= MOST):
        before = allocations()
        count = operations()
        rounds.append((allocations() - before) / count)
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
    nodes[0].stop()  # what it is asked stays under way
    for _ in range(10):
        pair(client)
    nodes[0].cont()
    agent.wait_voting(5)
    check("nor once many calls have been under way at a time", pairs)
    client.close()


def test_extensions():
    client = agent.client()
    for number in range(LEASES):
        client.acquire("extended-%d" % number, "TTL", 1000)
    observer = agent.client(3)  # the same all the time: a connection is not for nothing

    def extensions():
        begun = observer.call("STATUS")["extensions"]
        return lab.wait_for(lambda: max(0, observer.call("STATUS")["extensions"] - begun - EXTENSIONS), 60,
                            "the extensions") + EXTENSIONS

    check("allocations for each extension", extensions)
    observer.close()
    client.close()


main(test_they_are_counted, test_pairs, test_extensions)
