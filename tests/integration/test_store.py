"""Sessions and leases across restarts: kill -9 and the next process, with a service manager that keeps
descriptors. The same under systemd: tests/systemd/test_units.py."""

import os
import random
import re
import socket
import struct
import subprocess
import threading
import time

import lab
from descriptor_store import KeptAgent, page_of, quiet, session_name
from tap import SCALE, begins, equal, main, note, ok, within

CONFIG = 'default_ttl = "8s"\nmax_ttl = "8s"\nnode_timeout = "3s"\n'
nodes = lab.nodes(3)
agent = KeptAgent(nodes, CONFIG)


def configure(node_timeout):
    """For the next process."""
    with open(agent.config_path) as file:
        text = file.read()
    with open(agent.config_path, "w") as file:
        file.write(re.sub('node_timeout = "[^"]*"', 'node_timeout = "%s"' % node_timeout, text))


def cpu_ms():
    """The agent's CPU time so far."""
    with open("/proc/%d/stat" % agent.process.pid) as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) * 1000 // os.sysconf("SC_CLK_TCK")


def values(key):
    return [node.call("GET", key) for node in nodes]


def test_lease_continues():
    client = agent.client(3)
    grant = client.acquire("goes-on", "TTL", 8000, "DATA", "mine", "MAXHOLD", 100000)
    agent.wait_stored(client)
    for what, how in [("kill -9", None), ("kill -9 again", None), ("SIGTERM", "TERM"), ("kill -9", None)]:
        lab.wait_for(lambda: len(set(values("goes-on"))) == 1, what="the same value on each node")
        before = values("goes-on")[0]
        agent.replace(how)
        ok(client.call("CHECK", grant["id"]) > 0, "%s: connection and lease continue" % what)
        lab.wait_for(lambda: len(set(values("goes-on"))) == 1 and values("goes-on")[0] != before,
                     what="the lease in the new agent's name")
        ok(quiet(client), "the client gets no pushes")
    leader = client.call("LEADER", "goes-on")
    equal((leader["fence"], leader["data"]), (grant["fence"], "mine"), "token and data are unchanged")
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] > extensions, what="an extension")
    equal(agent.client().acquire("goes-on").args[0].split()[0], "BUSY", "another client gets BUSY meanwhile")
    equal(client.call("RELEASE", grant["id"]), 1, "RELEASE works with the same id")
    ok(lab.wait_for(lambda: values("goes-on") == [None] * 3, 4), "and deletes the keys")
    again = client.acquire("goes-on")
    ok(again["id"] != grant["id"] and again["fence"] > grant["fence"], "ids and tokens don't repeat")
    client.close()
    lab.wait_for(lambda: values("goes-on") == [None] * 3, what="the end with the connection")


def test_waiting():
    """Three clients wait for one name; each acquires it once, in order."""
    holder = agent.client(3)
    grant = holder.acquire("line")
    first, second, third, impatient = agent.client(3), agent.client(), agent.client(3), agent.client()
    names = {session_name(client) for client in (holder, first, second, third, impatient)}
    for client, options in [(first, ["WAIT", -1]), (second, ["WAIT", 100000]),
                            (third, ["WAIT", -1, "ASYNC"])]:
        before = agent.status()["waiters"]
        client.send("ACQUIRE", "line", *options)
        lab.wait_for(lambda: agent.status()["waiters"] == before + 1, what="a waiter")
    third_id = third.reply()[1]
    waited = lab.now()
    impatient.send("ACQUIRE", "line", "WAIT", 400)
    lab.wait_for(lambda: names <= set(agent.names()), what="the store")
    agent.replace()
    begins(impatient.reply(), "TIMEOUT", "a wait ends after its time")
    within(lab.now() - waited, 0.4, 0.4 + 3 * lab.SCALE, "in seconds")
    equal(agent.status()["waiters"], 3, "the others still wait")
    equal(holder.call("RELEASE", grant["id"]), 1, "the holder releases")
    got = first.reply()
    ok(got["name"] == "line" and got["fence"] > grant["fence"], "the first waiter acquires the name")
    agent.replace()
    equal(first.call("RELEASE", got["id"]), 1, "and releases it at the next process")
    got = lab.as_map(second.reply())
    equal(got["name"], "line", "the second waiter acquires it")
    second.close()
    push = third.push("granted")
    equal((push[1], push[2]["name"]), (third_id, "line"),
          "the third waiter gets its push, with the id of its reply")
    for client in (holder, first, third, impatient):
        client.close()


def test_queries_that_wait():
    """More LEADER than a user may have under way: each gets its reply, from the next process too, which
    knows what the first one has answered."""
    clients = [agent.client(3) for _ in range(50)]
    agent.wait_stored(*clients)
    for killed in False, True:
        for node in nodes:
            node.stop()
        for i, client in enumerate(clients):
            client.send("LEADER", "nobody's-%d" % i)
            client.send("ECHO", i)
        lab.wait_for(lambda: agent.client().call("PING") == "PONG", what="the agent's turn")
        if killed:
            agent.kill()
        for node in nodes:
            node.cont()
        if killed:
            agent.start()
        equal([[client.reply(), client.reply()] for client in clients], [[None, str(i)] for i in range(50)],
              "LEADER that waited are answered, in order, %s" % ("from the next process" if killed else
                                                                 "from the first"))
    for client in clients:
        client.close()


def test_under_way():
    """Requests that are unanswered when the agent is killed: each gets its reply."""
    clients = [agent.client(3) for _ in range(6)]
    held = [client.acquire("way-%d" % i) for i, client in enumerate(clients)]
    agent.wait_stored(*clients)
    for node in nodes:
        node.stop()
    clients[0].send("RELEASE", held[0]["id"])
    clients[1].send("ACQUIRE", "way-more", "WAIT", 60000)
    clients[2].send("LEADER", "way-2")
    clients[3].send("STATUS")
    clients[4].send("PING", "one")
    clients[4].send("ACQUIRE", "way-4-more", "WAIT", 60000)
    clients[4].send("PING", "two")
    for _ in range(3):
        clients[4].send("CHECK", held[4]["id"])
    clients[5].send_raw(b"*2\r\n$4\r\nPING\r\n$5\r\nhal")
    lab.wait_for(lambda: agent.client().call("PING") == "PONG", what="the agent's turn")
    agent.kill()
    for node in nodes:
        node.cont()
    agent.start()
    equal(clients[0].reply(), 1, "RELEASE gets its reply")
    equal(clients[1].reply()["name"], "way-more", "and ACQUIRE")
    equal(clients[2].reply()["fence"], held[2]["fence"], "and LEADER")
    ok("leases" in clients[3].reply(), "and STATUS")
    replies = [clients[4].reply() for _ in range(6)]
    ok(replies[0] == "one" and replies[1]["name"] == "way-4-more" and replies[2] == "two" and
       all(value > 0 for value in replies[3:]), "pipelined requests get replies in order")
    clients[5].send_raw(b"f!\r\n")
    equal(clients[5].reply(), "half!", "half a request continues with its other half")
    ok(all(quiet(client) for client in clients), "each gets exactly one reply")
    for client in clients:
        client.close()


def stress(number, ends, problems, counts):
    """A client whose every request must get its one reply."""
    chance = random.Random(number)
    client = agent.client(3, timeout=60)
    held = client.acquire("keep-%d" % number)
    agent.wait_stored(client)  # a slow manager gets the connection after the reply

    def expect(good, *what):
        if not good:
            raise AssertionError(what)

    def echo(n):
        words = ["%d-%d-%d" % (number, n, i) for i in range(chance.choice([1, 1, 20]))]
        for word in words:
            client.send("ECHO", word)
        replies = [client.reply() for _ in words]
        expect(replies == words, words, replies)

    def acquire(n):
        name = "work-%d-%d" % (number, n % 5)
        got = client.acquire(name, "WAIT", 60000)
        expect(isinstance(got, dict) and got["name"] == name, name, got)
        expect(client.call("RELEASE", got["id"]) == 1, "release", got)

    def acquire_later(n):
        said = client.call("ACQUIRE", "later-%d-%d" % (number, n), "ASYNC", "WAIT", -1)
        expect(said[0] == "waiting", said)
        push = client.push("granted", timeout=60)
        expect(push[1] == said[1], said, push)
        expect(client.call("RELEASE", said[1]) == 1, "release later", said)

    def look(n):
        leader = client.call("LEADER", "keep-%d" % number)
        expect(isinstance(leader, dict) and leader["fence"] == held["fence"], leader)
        expect(client.call("CHECK", held["id"]) > 0, "check")

    try:
        while not ends.is_set():
            chance.choice([echo, acquire, acquire_later, look])(counts[number])
            expect(client.pushes == [], client.pushes)
            counts[number] += 1
    except Exception as problem:  # of any kind: it is reported
        problems.append("client %d, turn %d: %r" % (number, counts[number], problem))
    client.close()


def test_release_without_quorum():
    """A release at the next process, which can't search for the lease: answered within a node time-out."""
    client, other = agent.client(3), agent.client(3)
    grant = client.acquire("unfound", "TTL", 8000)
    agent.wait_stored(client, other)
    for node in nodes[1:]:
        node.stop()
    agent.kill()
    agent.begin()
    agent.ready.wait(20 * lab.SCALE)
    begun = lab.now()
    equal(client.call("RELEASE", grant["id"]), 1, "RELEASE is answered though no majority of nodes is there")
    within(lab.now() - begun, 0, 4 * lab.SCALE, "within a node time-out, in seconds")
    for node in nodes[1:]:
        node.cont()
    lab.wait_for(lambda: values("unfound") == [None] * 3, what="the deletion of the keys")
    after = other.acquire("unfound", "WAIT", 20000)
    ok(isinstance(after, dict) and after["fence"] > grant["fence"], "another client gets the name")
    for one in client, other:
        one.close()


def test_risk_without_quorum():
    """The next process finds no majority of nodes: the holder gets a warning, as if an extension failed."""
    configure("300ms")
    agent.replace()
    client = agent.client(3)
    grant = client.acquire("unsearched", "TTL", 8000, "WAIT", 5000)
    agent.wait_stored(client)
    for node in nodes[1:]:
        node.stop()
    agent.kill()
    begun = lab.now()
    agent.begin()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "after a restart without a quorum: at-risk")
    within(lab.now() - begun, 0, 6 * lab.SCALE, "before the deadline, in seconds")
    for node in nodes[1:]:
        node.cont()
    equal(client.push("extended")[1], grant["id"], "found later, the client gets extended")
    ok(client.call("CHECK", grant["id"]) > 0, "and has its lease")
    for node in nodes[1:]:
        node.stop()
    agent.kill()
    agent.begin()
    equal(client.push("at-risk")[3], "no-quorum", "again a restart without a quorum: at-risk")
    equal(client.push("lost")[1:3], [grant["id"], "no-quorum"], "never found: lost for this reason")
    line = "lease unsearched: lost: no-quorum; its fencing token was %d" % grant["fence"]
    ok(lab.wait_for(lambda: line in agent.log_text(), what="the log's line"),
       "the log has the loss, though no keeper had the lease")
    for node in nodes[1:]:
        node.cont()
    configure("3s")
    agent.replace()
    client.close()


def test_slow_majority():
    """Nodes that answer slower than the node time-out: the next process awaits their late answers."""
    slow = [lab.Proxy(node) for node in lab.nodes(3)]
    other = KeptAgent(slow)
    client = other.client(3)
    grant = client.acquire("slow", "TTL", 15000, "WAIT", 5000)
    other.wait_stored(client)
    slow[2].node.kill()
    for proxy in slow:
        proxy.delay = 0.2  # each way: four node time-outs
    other.kill()
    other.begin()
    equal(client.push("at-risk")[1:4:2], [grant["id"], "no-quorum"], "slow nodes after a restart: at-risk")
    equal(client.push("extended")[1], grant["id"], "but the lease goes on")
    ok(client.call("CHECK", grant["id"]) > 0 and quiet(client), "and is not lost")
    client.close()
    other.kill()


def script_calls(node):
    return int(re.search(r"cmdstat_evalsha:calls=(\d+)", node.call("INFO", "commandstats")).group(1))


def test_killed_twice():
    """Keys of an attempt that was under way two processes ago: nobody has the lease, so they keep no one."""
    client = agent.client(3)
    client.acquire("twice-other")
    agent.wait_stored(client)
    lab.wait_for(lambda: lab.keys_on(nodes, "twice-other") == 3, what="the key on all nodes")
    calls_before = [script_calls(node) for node in nodes[1:]]
    for node in nodes[1:]:
        node.stop()
    begun = lab.now()
    client.send("ACQUIRE", "twice", "WAIT", 60000)
    lab.wait_for(lambda: nodes[0].call("GET", "twice") is not None, what="the key at the first node")
    agent.kill()
    before = agent.ledgers()
    agent.begin()
    lab.wait_for(lambda: agent.ledgers() and agent.ledgers() != before, what="the second process's ledger")
    agent.kill()
    calls = []
    for node in nodes[1:]:
        node.cont()
        for _ in range(2):  # before the second answer, the node executes what it got while it was stopped
            node.call("PING")
        calls.append(script_calls(node))
    ok(all(after > first for after, first in zip(calls, calls_before)),
       "the other nodes execute the first process's request when both processes have ended")
    agent.start()
    equal(client.reply()["name"], "twice", "ACQUIRE is answered two processes later")
    within(lab.now() - begun, 0, 7.5 * lab.SCALE, "before the keys of the first process expire, in seconds")
    client.close()


def test_exactly_once():
    """kill -9 at any instant, under load."""
    ends, problems, counts, gaps = threading.Event(), [], [0] * 12, []
    threads = [threading.Thread(target=stress, args=(i, ends, problems, counts), daemon=True)
               for i in range(len(counts))]
    for thread in threads:
        thread.start()
    chance = random.Random(7)
    for _ in range(25):
        done = list(counts)
        lab.wait_for(lambda: problems or min(now - before for now, before in zip(counts, done)) >
                     chance.randrange(2, 8), 60, "some turns of each client")
        begun = lab.now()
        agent.replace()
        gaps.append(lab.now() - begun)
        if problems:
            break
    ends.set()
    for thread in threads:
        thread.join(60 * lab.SCALE)
    note("%d turns of %d clients; from kill to service %.0f ms (median), %.0f ms at most" % (
        sum(counts), len(counts), sorted(gaps)[len(gaps) // 2] * 1000, max(gaps) * 1000))
    equal(problems, [], "25 times kill -9 at any instant: each request gets one reply, no lease is lost")
    ok("aborted" not in agent.log_text() and "Assertion" not in agent.log_text(), "and no agent aborted")


def contend(number, ends, problems, seen, lock):
    """A client that contends for one name with others: one holder at a time, and growing tokens."""
    client = agent.client(3, timeout=60)
    kept = client.acquire("kept-%d" % number)
    with lock:
        seen["sessions"].append(session_name(client))
    try:
        while not ends.is_set():
            grant = client.acquire("contended", "WAIT", 60000)
            if not isinstance(grant, dict):
                raise AssertionError(grant)
            with lock:
                if seen["holder"] is not None or grant["fence"] <= seen["fence"]:
                    raise AssertionError((number, grant, dict(seen)))
                seen.update(holder=number, fence=grant["fence"], grants=seen["grants"] + 1)
            if number % 2 and client.call("CHECK", grant["id"]) <= 0:
                raise AssertionError("lost")
            with lock:
                seen["holder"] = None
            if client.call("RELEASE", grant["id"]) != 1:
                raise AssertionError("released by another client")
            if client.pushes or client.call("CHECK", kept["id"]) <= 0:
                raise AssertionError(client.pushes)
    except Exception as problem:  # of any kind: it is reported
        problems.append("client %d: %r" % (number, problem))
    client.close()


def test_hand_offs():
    """kill -9 while a lease is handed off between local clients."""
    ends, problems, lock = threading.Event(), [], threading.Lock()
    seen = {"holder": None, "fence": 0, "grants": 0, "sessions": []}
    threads = [threading.Thread(target=contend, args=(i, ends, problems, seen, lock), daemon=True)
               for i in range(8)]
    for thread in threads:
        thread.start()
    lab.wait_for(lambda: problems or len(set(seen["sessions"]) & set(agent.names())) == len(threads),
                 what="each client's connection in the store")
    handed, chance = 0, random.Random(11)
    for _ in range(20):
        grants = seen["grants"]
        lab.wait_for(lambda: problems or seen["grants"] > grants + chance.randrange(20, 200), 60, "grants")
        handed += agent.status()["handoffs"]
        agent.replace()
        if problems:
            break
    ends.set()
    for thread in threads:
        thread.join(60 * lab.SCALE)
    note("%d grants, at least %d of them by hand-off" % (seen["grants"], handed))
    equal(problems, [], "20 times kill -9 during hand-offs between 8 clients: one holder, growing tokens")
    ok(handed > 100, "most grants are hand-offs")


def test_page():
    client = agent.client(3)
    page = page_of(client)
    grant = client.acquire("paged", "TTL", 8000)
    other = client.acquire("paged-too", "TTL", 8000)
    agent.wait_stored(client)
    lab.wait_for(lambda: agent.names().count(session_name(client)) == 2, what="the page in the store")

    def slot(lease):
        return struct.unpack_from("<Qq", page, 64 + 16 * lease["slot"])

    equal(slot(grant)[0], grant["id"], "the page shows the lease")
    agent.replace()
    lab.wait_for(lambda: slot(grant)[1] > grant["deadline"] + 10**9, what="the new deadline")
    equal(slot(grant)[0], grant["id"], "the next process updates the deadlines in the page")
    equal(client.call("RELEASE", other["id"]), 1, "RELEASE of another lease")
    equal(slot(other)[1], 0, "clears its slot")
    third = client.acquire("paged-three")
    ok(third["slot"] != grant["slot"] and slot(third)[0] == third["id"], "and the next lease has a slot")
    name = session_name(client)
    client.close()
    lab.wait_for(lambda: name not in agent.names(), what="the page to leave the store")


def idle_second():
    """Whether the agent uses less than 200 ms of CPU time in a second."""
    before = cpu_ms()
    time.sleep(1)
    return cpu_ms() - before < 200


def test_unread_answers():
    """A client that doesn't read its replies delays no other client."""
    client, count = agent.client(), 0
    client.socket.setblocking(False)
    try:
        while True:
            count += client.socket.send(b"PING\r\n" * 1000)
    except BlockingIOError:
        pass
    other = agent.client()
    equal(other.call("PING"), "PONG", "while one client reads nothing, others get replies")
    ok(lab.wait_for(idle_second, what="the end of the replies for which there is room"),
       "and the agent is idle")
    client.socket.setblocking(True)
    client.socket.settimeout(20 * lab.SCALE)
    if count % 6 != 0:
        client.socket.sendall(b"PING\r\n"[count % 6:])
    wanted, got = (count + 5) // 6 * 7, 0
    while got < wanted:
        got += len(client.socket.recv(65536))
    equal(got, wanted, "the client gets all replies when it reads")
    other.close()
    client.close()


def extended_twice():
    """For longer than a client has for reading its grant."""
    before, begun = agent.status()["extensions"], lab.now()
    lab.wait_for(lambda: agent.status()["extensions"] >= before + 2 and lab.now() > begun + 2.5, 20,
                 "two extensions")


def test_wait_behind_wait():
    """A wait counts from when the request is taken, after the session's former one."""
    holder, client = agent.client(), agent.client()
    names = {session_name(each) for each in (holder, client)}
    first, second = holder.acquire("front"), holder.acquire("behind")
    ok(first["id"] != second["id"], "two names are held")
    client.send("ACQUIRE", "front", "WAIT", -1)
    client.send("ACQUIRE", "behind", "WAIT", 2500)
    asked = lab.now()
    lab.wait_for(lambda: names <= set(agent.names()), what="the store")
    lab.wait_for(lambda: lab.now() > asked + 2.6, what="the time of the second wait, before it begins")
    taken = lab.now()
    holder.call("RELEASE", first["id"])
    ok("id" in lab.as_map(client.reply()), "the first request is granted")
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the second request")
    agent.replace()
    begins(client.reply(), "TIMEOUT", "the second request is answered after a restart")
    within(lab.now() - taken, 2.5, 2.5 + 3 * lab.SCALE, "after its own wait, in seconds")
    client.close()
    holder.close()


def test_unread_output():
    """A client with a page reads its deadline there, and may leave what the agent sends unread."""
    client = agent.client(3)
    grant = client.acquire("paged", "TTL", 6000)
    agent.wait_stored(client)
    extended_twice()
    client.send("PING")
    equal(agent.client().call("PING"), "PONG", "a reply that the client does not read")
    agent.replace()
    extended_twice()
    client.reply()
    ok(client.call("CHECK", grant["id"]) > 0, "a lease whose grant was read goes on after a restart")
    equal(client.pushes, [], "its client gets no pushes")
    client.close()


def test_full_nodes():
    """A full node extends leases, so it lets the next process continue them."""
    client = agent.client(3)
    grant = client.acquire("full", "TTL", 6000, "WAIT", 5000)
    agent.wait_stored(client)
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", 1)
    agent.replace()
    extended_twice()
    ok(client.call("CHECK", grant["id"]) > 0, "a lease goes on after a restart while all nodes are full")
    equal(client.pushes, [], "its client gets no pushes")
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", 0)
    equal(client.call("RELEASE", grant["id"]), 1, "until it is released")
    agent.wait_voting(3, seconds=20)
    client.close()


def test_observers():
    watcher, holder = agent.client(3), agent.client(3)
    watcher.call("OBSERVE", "watched")
    equal(watcher.push("leader")[2]["state"], "free", "an observer gets the state")
    agent.wait_stored(watcher, holder)
    agent.replace()
    grant = holder.acquire("watched")
    push = watcher.push("leader")
    while push[2]["state"] != "held":
        push = watcher.push("leader")
    equal(push[2]["fence"], grant["fence"], "and pushes from the next process")
    equal(watcher.call("UNOBSERVE", "watched"), 1, "UNOBSERVE works there")
    agent.replace()
    equal(watcher.call("UNOBSERVE", "watched"), 0, "and persists across restarts")
    watcher.close()
    holder.close()


def test_greetings():
    client = agent.client(2)
    client.call("CLIENT", "SETNAME", "the-name")
    number = client.call("CLIENT", "ID")
    agent.wait_stored(client)
    agent.status()  # an agent that is killed within the system call that sends a reply ends that connection
    agent.replace()
    equal((client.call("CLIENT", "GETNAME"), client.call("CLIENT", "ID")), ("the-name", number),
          "a session keeps its name and id")
    equal(client.call("STATUS")[0], "version", "and its protocol version")
    newer = agent.client(2)
    ok(newer.call("CLIENT", "ID") != number, "the id is not given to another session")
    client.close()
    newer.close()


def values_when_equal(key):
    """A majority is enough for an answer: the last node may have the value later."""
    def equal_values():
        found = values(key)
        return found if len(set(found)) == 1 else None
    return lab.wait_for(equal_values, what="the same value on each node")


def granted_after(client, name, asked):
    """Milliseconds from then until the next client has the name."""
    grant = lab.as_map(client.acquire(name, "TTL", 1000, "WAIT", 20000))
    assert isinstance(grant, dict), grant
    client.call("RELEASE", grant["id"])
    return 1000 * (lab.now() - asked)


def test_resumed_elsewhere():
    """A restart takes no lease back from another agent of the host."""
    client = agent.client(3)
    grant = client.acquire("moved", "TTL", 8000, "RESUMABLE")
    agent.wait_stored(client)
    other = lab.Agent(nodes, CONFIG)
    agent.kill()
    mover = other.client(3)
    resumed = mover.call("RESUME", "moved", grant["secret"])
    ok(isinstance(resumed, dict), "a client resumes its lease at another agent while its own is down")
    before = values_when_equal("moved")
    agent.start()
    push = client.push("lost")
    equal((push[1], push[2]), (grant["id"], "no-quorum"), "its former connection continues, and gets `lost`")
    equal(values("moved"), before, "no key changes")
    begins(agent.client().acquire("moved"), "BUSY", "the name is taken for clients of the restarted agent")
    client.close()
    extensions = other.status()["extensions"]
    lab.wait_for(lambda: other.status()["extensions"] > extensions, what="an extension at the other agent")
    equal(values("moved"), before, "nor does the end of that connection change one")
    ok(mover.call("CHECK", resumed["id"]) > 0, "the lease is held at the other agent")
    equal(mover.call("RELEASE", resumed["id"]), 1, "until it is released there")
    ok(lab.wait_for(lambda: values("moved") == [None] * 3, 4), "which deletes the keys")
    mover.close()
    other.kill()


def test_repeated_resume():
    """A RESUME without a reply, which the next process repeats, takes no lease back that the client has
    resumed elsewhere meanwhile."""
    granting, other = lab.Agent(nodes, CONFIG), lab.Agent(nodes, CONFIG)
    proxies = [lab.Proxy(node) for node in nodes]
    cut_off = KeptAgent(proxies, CONFIG)
    cut_off.wait_voting(3)
    first, second = cut_off.client(3, timeout=20), other.client(3)
    name = session_name(first)
    holder = granting.client(3)
    grant = holder.acquire("twice", "TTL", 8000, "RESUMABLE", "WAIT", 5000)
    granting.kill()
    holder.close()
    for proxy in proxies:
        proxy.deaf = True
    first.send("RESUME", "twice", grant["secret"], "WAIT", 8000)
    lab.wait_for(lambda: name in cut_off.names(), what="the connection in the store")
    resumed = second.call("RESUME", "twice", grant["secret"], "WAIT", 5000)
    ok(isinstance(resumed, dict), "RESUME has no reply, and the client resumes its lease at another agent")
    cut_off.kill()
    before = values_when_equal("twice")
    for proxy in proxies:
        proxy.deaf = False
        proxy.cut()
    cut_off.start()
    begins(first.reply(), "NOTHELD", "the next process repeats the first RESUME, which fails")
    equal(values("twice"), before, "and changes no key")
    first.close()
    extensions = other.status()["extensions"]
    lab.wait_for(lambda: other.status()["extensions"] > extensions, what="an extension at the other agent")
    ok(quiet(second) and second.call("CHECK", resumed["id"]) > 0, "the lease is held at the other agent")
    equal(second.call("RELEASE", resumed["id"]), 1, "until it is released there")
    second.close()
    other.kill()
    cut_off.kill()


def test_continued_resume():
    """The next process repeats a RESUME: as after any RESUME, the former agent sets no key again."""
    granting = lab.Agent(nodes, CONFIG)
    proxies = [lab.Proxy(node) for node in nodes]
    cut_off = KeptAgent(proxies, CONFIG)
    cut_off.wait_voting(3)
    mover = cut_off.client(3, timeout=20)
    name = session_name(mover)
    holder = granting.client(3)
    grant = holder.acquire("continued", "TTL", 8000, "RESUMABLE", "WAIT", 5000)
    granting.stop()
    granted = values_when_equal("continued")
    for proxy in proxies:
        proxy.deaf = True
    mover.send("RESUME", "continued", grant["secret"], "WAIT", 8000)
    lab.wait_for(lambda: name in cut_off.names(), what="the connection in the store")
    cut_off.kill()
    for proxy in proxies:
        proxy.deaf = False
        proxy.cut()
    cut_off.start()
    resumed = lab.as_map(mover.reply())
    ok(isinstance(resumed, dict), "the next process repeats a RESUME without a reply")
    # At a node whose connection is not up again, the key stays as the former agent set it, until its ttl.
    moved = [node for node, value in zip(nodes, granted) if node.call("GET", "continued") != value]
    ok(len(moved) >= 2, "a majority has the lease as resumed")
    equal(mover.call("RELEASE", resumed["id"]), 1, "the lease is released")
    granting.cont()
    lab.wait_for(lambda: granting.status()["leases"] == 0, what="the end at the former agent")
    # RELEASE returns with a majority. A key that the former agent set again would last for 8 seconds.
    lab.wait_for(lambda: [node.call("GET", "continued") for node in moved] == [None] * len(moved),
                 6 / SCALE, "the release at the last node")
    ok(True, "the former agent, stopped meanwhile, sets no key again")
    granting.kill()
    cut_off.kill()


def test_cooldown():
    for what, cooldown_ms in ("released", 6000), ("held", 6000), ("left", 2500):
        late_ms = cooldown_ms + 4000 * lab.SCALE  # a new agent connects, and its retries are seldom
        client = agent.client(3)
        asked = lab.now()
        grant = client.acquire("cools", "TTL", cooldown_ms * 4 // 5, "COOLDOWN", cooldown_ms)
        agent.wait_stored(client)
        agent.kill()
        if what == "left":
            client.close()  # while no agent can see it
        agent.start()
        if what == "released":
            equal(client.call("RELEASE", grant["id"]), 1, "the next agent releases a lease with a cooldown")
            agent.replace()
        next_client = agent.client(3)
        if what == "held":
            ok(client.call("CHECK", grant["id"]) > 0, "a held lease goes on")
            client.close()
        within(granted_after(next_client, "cools", asked), cooldown_ms - 1, late_ms,
               "%s, beside a restart: its name stays taken as long, in ms" % what)
        client.close()
        next_client.close()


def test_client_dies_meanwhile():
    """A client ends while no agent runs."""
    program = ("import socket, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
               "s.sendall(b'ACQUIRE orphaned\\r\\n')\nprint(s.recv(4096)[:1], flush=True)\n"
               "time.sleep(1000)\n")
    before = set(agent.sessions())
    process = lab.spawn(["python3", "-c", program, agent.socket_path], stdout=subprocess.PIPE)
    process.stdout.readline()
    lab.wait_for(lambda: agent.status()["leases"] == 1, what="its lease")
    lab.wait_for(lambda: set(agent.sessions()) - before, what="the connection in the store")
    agent.kill()
    lab.end_process(process)
    agent.start()
    begun = lab.now()
    client = agent.client(3)
    ok(isinstance(client.acquire("orphaned", "WAIT", 20000), dict), "its lease is released")
    ok(lab.now() - begun < 4 * lab.SCALE, "before its ttl has passed (%.2f s)" % (lab.now() - begun))
    client.close()


def test_child_has_connection():
    """The holder dies while no agent runs; its child still has the connection."""
    parent, other = socket.socketpair()
    before = set(agent.sessions())
    pid = os.fork()
    if pid == 0:
        client = agent.client(3)
        client.acquire("parents")
        if os.fork() == 0:
            other.recv(1)
            os._exit(0)
        other.send(b"!")
        other.recv(1)
        os._exit(0)
    parent.recv(1)
    lab.wait_for(lambda: set(agent.sessions()) - before, what="the connection in the store")
    agent.kill()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    agent.start()
    begun = lab.now()
    agent.client().acquire("parents", "WAIT", 20000)
    ok(lab.now() - begun < 4, "its lease is released at once, before the child ends and the ttl passes")
    parent.send(b"!!")


def test_page_without_owner():
    """Killed after the page is stored, before its reply is sent: the next process makes another."""
    client = agent.client(3)
    grant = client.acquire("unpaged")
    agent.wait_stored(client)
    name = session_name(client)
    with agent.lock:
        agent.store.append((name, os.memfd_create("page")))
    agent.replace()
    lab.wait_for(lambda: agent.names().count(name) == 1, what="the connection alone in the store")
    agent.replace()
    ok(client.call("CHECK", grant["id"]) > 0, "the page is dropped, and the connection continues")
    client.close()


def test_token_late():
    """kill -9 after a hand-off, before the nodes have the new token."""
    for i in range(50):
        client, name = agent.client(3), "late%d" % i
        client.send_raw(b"ACQUIRE %s WAIT -1 RESUMABLE ASYNC\r\n" % name.encode() * 3)
        ids = [client.reply()[1] for _ in range(3)]
        agent.wait_stored(client)
        fences = []
        for one in ids:
            fences.append(client.push("granted")[2]["fence"])
            if one != ids[-1]:
                client.call("RELEASE", one)
        agent.replace()
        if fences[2] == fences[1] + 1:  # by a hand-off
            lab.wait_for(lambda: (client.call("LEADER", name) or {}).get("fence") == fences[2],
                         what="the holder's token")
            ok(True, "LEADER returns the holder's token")
            client.close()
            return
        client.close()
    ok(False, "no hand-off in 50 tries")


main(test_lease_continues, test_waiting, test_queries_that_wait, test_under_way, test_killed_twice,
     test_release_without_quorum, test_risk_without_quorum, test_slow_majority, test_page,
     test_unread_answers, test_wait_behind_wait, test_unread_output, test_full_nodes, test_observers,
     test_greetings, test_client_dies_meanwhile, test_child_has_connection, test_page_without_owner,
     test_resumed_elsewhere, test_repeated_resume, test_continued_resume, test_cooldown,
     test_exactly_once, test_hand_offs, test_token_late)
