"""A hundred processes contend for one name; waiters of one agent are served in order; two agents never grant
the name twice."""

import os
import subprocess
import threading

import lab
from tap import equal, main, note, ok

nodes = lab.nodes(5)

# The critical section: reads the number in the file, writes it back plus one, and marks its presence.
# A second process inside is detected.
SECTION = """
cd "$1"
mkdir inside || echo "$$" >> overlap
n=$(cat count); echo $((n + 1)) > count
rmdir inside
"""


def contend(agents, count):
    place = lab.path("section")
    os.mkdir(place)
    with open(os.path.join(place, "count"), "w") as file:
        file.write("0\n")
    commands = [lab.redlock(agents[i % len(agents)], "run", "-t", "5s", "section", "--", "sh", "-c", SECTION,
                            "sh", place)
                for i in range(count)]
    statuses = [command.wait(120 * lab.SCALE) for command in commands]
    equal(sorted(set(statuses)), [0], "%d processes on %d agents all held the lease" % (count, len(agents)))
    with open(os.path.join(place, "count")) as file:
        equal(int(file.read()), count, "no update was lost in the critical section")
    ok(not os.path.exists(os.path.join(place, "overlap")), "and no two processes were in it at once")


def test_one_agent():
    for keepers in (1, 2, 4):
        agent = lab.Agent(nodes, lab.UNHURRIED, keepers=keepers)
        contend([agent], 100 if keepers == 2 else 20)
        agent.terminate()


def test_three_agents():
    agents = [lab.Agent(nodes, lab.UNHURRIED) for _ in range(3)]
    contend(agents, 45)
    for agent in agents:
        agent.terminate()


def test_fifo():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    holder = agent.client()
    grant = holder.acquire("line")
    clients = []
    for i in range(50):
        client = agent.client()
        client.send("ACQUIRE", "line", "WAIT", -1)
        clients.append(client)
        lab.wait_for(lambda: agent.status()["waiters"] == i + 1, what="the waiter")
    holder.call("RELEASE", grant["id"])
    order = []
    for client in clients:
        grant = lab.as_map(client.reply())
        order.append(grant["id"])
        client.call("RELEASE", grant["id"])
    equal(order, sorted(order), "fifty waiters of one agent are served in the order of their requests")
    agent.terminate()


def test_no_waiter_delays_another_name():
    agent = lab.Agent(nodes, "max_leases = 20000\n" + lab.UNHURRIED)
    holder, crowd = agent.client(), agent.client()
    holder.acquire("crowded")
    for i in range(20):  # the agent takes no more requests of a client that leaves many replies unread
        for j in range(250):
            crowd.send("ACQUIRE", "crowded", "WAIT", -1, "ASYNC")
        for j in range(250):
            crowd.reply()
    quick = agent.client()
    times = []
    for i in range(50):
        begun = lab.now()
        quick.acquire("free %d" % i)
        times.append(lab.now() - begun)
    note("median %.2f ms with 5,000 waiters for another name" % (1000 * lab.median(times)))
    ok(lab.median(times) < 0.02 * lab.SCALE,
       "a free name is granted at the usual speed while thousands wait for another")
    crowd.close()
    lab.wait_for(lambda: agent.status()["waiters"] == 0, what="the end of the waiters")
    ok(True, "waiters that disconnect leave nothing behind")
    agent.terminate()


def test_split_between_agents():
    """Single attempts at the same instant on three agents: one gets the lease, they don't cancel each
    other out."""
    agents = [lab.Agent(nodes, lab.UNHURRIED) for _ in range(3)]
    clients = [agent.client() for agent in agents]
    nobody = 0
    for i in range(30):
        barrier = threading.Barrier(len(clients))
        results = [None] * len(clients)

        def attempt(k):
            barrier.wait()
            results[k] = clients[k].acquire("split %d" % i, "TTL", 2000)

        threads = [threading.Thread(target=attempt, args=(k,)) for k in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = sum(isinstance(result, dict) for result in results)
        nobody += winners == 0
        if winners > 1:
            ok(False, "round %d has one winner at most" % i)
    equal(nobody, 0, "in thirty rounds of single attempts by three agents each round has a winner")
    for agent in agents:
        agent.terminate()


main(test_one_agent, test_three_agents, test_fifo, test_no_waiter_delays_another_name,
     test_split_between_agents)
