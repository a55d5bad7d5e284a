"""Sessions and leases across restarts: kill -9 and the next process, with a service manager that keeps
descriptors. The same under systemd: tests/systemd/test_units.py."""

import array
import contextlib
import fcntl
import mmap
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import lab
import pages
from descriptor_store import HIGH, KeptAgent, is_session, name_of
from tap import SCALE, begins, equal, main, note, ok, skip, within

CONFIG = 'default_ttl = "8s"\nmax_ttl = "8s"\nnode_timeout = "3s"\n'
nodes = lab.nodes(3)
agent = KeptAgent(nodes, CONFIG)


def configure(node_timeout):
    """For the next process."""
    with open(agent.config_path) as file:
        text = file.read()
    with open(agent.config_path, "w") as file:
        file.write(re.sub('node_timeout = "[^"]*"', 'node_timeout = "%s"' % node_timeout, text))


def replace(signal=None):
    """Kills the agent and starts the next process."""
    if signal is None:
        agent.kill()
    else:
        agent.terminate()
    agent.start()


def session_name(client):
    """The name of the client's connection in the store."""
    return name_of(client.call("CLIENT", "ID"))


def wait_stored(*clients):
    names = [session_name(client) for client in clients]
    lab.wait_for(lambda: set(names) <= set(agent.names()), what="connections in the store")


def cpu_ms():
    """The agent's CPU time so far."""
    with open("/proc/%d/stat" % agent.process.pid) as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) * 1000 // os.sysconf("SC_CLK_TCK")


def values(key):
    return [node.call("GET", key) for node in nodes]


def quiet(client):
    """Whether the client has got replies only, and no pushes."""
    return client.call("PING") == "PONG" and client.pushes == []


def test_lease_continues():
    client = agent.client(3)
    grant = client.acquire("goes-on", "TTL", 5000, "DATA", "mine", "MAXHOLD", 100000)
    wait_stored(client)
    for what, how in [("kill -9", None), ("kill -9 again", None), ("SIGTERM", "TERM"), ("kill -9", None)]:
        lab.wait_for(lambda: len(set(values("goes-on"))) == 1, what="the same value on each node")
        before = values("goes-on")[0]
        replace(how)
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
    ok(lab.wait_for(lambda: values("goes-on") == [None] * 3, 2), "and deletes the keys")
    again = client.acquire("goes-on")
    ok(again["id"] != grant["id"] and again["fence"] > grant["fence"], "ids and tokens don't repeat")
    client.close()
    lab.wait_for(lambda: values("goes-on") == [None] * 3, what="the end with the connection")


def test_waiting():
    """Three clients wait for one name; each acquires it once, in order."""
    holder = agent.client(3)
    grant = holder.acquire("line")
    first, second, third = agent.client(3), agent.client(), agent.client(3)
    for client, options in [(first, ["WAIT", -1]), (second, ["WAIT", 100000]),
                            (third, ["WAIT", -1, "ASYNC"])]:
        before = agent.status()["waiters"]
        client.send("ACQUIRE", "line", *options)
        lab.wait_for(lambda: agent.status()["waiters"] == before + 1, what="a waiter")
    third_id = third.reply()[1]
    impatient = agent.client()
    waited = lab.now()
    impatient.send("ACQUIRE", "line", "WAIT", 400)
    lab.wait_for(lambda: len(agent.sessions()) >= 5, what="the store")
    replace()
    begins(impatient.reply(), "TIMEOUT", "a wait ends after its time")
    within(lab.now() - waited, 0.4, 0.4 + 3 * lab.SCALE, "in seconds")
    equal(agent.status()["waiters"], 3, "the others still wait")
    equal(holder.call("RELEASE", grant["id"]), 1, "the holder releases")
    got = first.reply()
    ok(got["name"] == "line" and got["fence"] > grant["fence"], "the first waiter acquires the name")
    replace()
    equal(first.call("RELEASE", got["id"]), 1, "and releases it at the next process")
    got = lab.as_map(second.reply())
    equal(got["name"], "line", "the second waiter acquires it")
    second.close()
    push = third.push("granted")
    equal((push[1], push[2]["name"]), (third_id, "line"),
          "the third waiter gets its push, with the id of its reply")
    for client in (holder, first, third, impatient):
        client.close()


def test_under_way():
    """Requests that are unanswered when the agent is killed: each gets its reply."""
    clients = [agent.client(3) for _ in range(6)]
    held = [client.acquire("way-%d" % i) for i, client in enumerate(clients)]
    wait_stored(*clients)
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
    wait_stored(client)  # a slow manager gets the connection after the reply

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
    wait_stored(client, other)
    for node in nodes[1:]:
        node.stop()
    agent.kill()
    agent.begin()
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
    replace()
    client = agent.client(3)
    grant = client.acquire("unsearched", "TTL", 8000)
    wait_stored(client)
    for node in nodes[1:]:
        node.stop()
    agent.kill()
    begun = lab.now()
    agent.begin()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "after a restart without a quorum: at-risk")
    within(lab.now() - begun, 0, 3 * lab.SCALE, "soon, in seconds")
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
    ok("lease unsearched: lost: no-quorum; its fencing token was %d" % grant["fence"] in agent.log_text(),
       "the log has the loss, though no keeper had the lease")
    for node in nodes[1:]:
        node.cont()
    configure("3s")
    replace()
    client.close()


def test_slow_majority():
    """Nodes that answer slower than the node time-out: the next process awaits their late answers."""
    slow = [lab.Proxy(node) for node in lab.nodes(3)]
    other = KeptAgent(slow)
    client = other.client(3)
    grant = client.acquire("slow", "TTL", 15000)
    lab.wait_for(lambda: session_name(client) in other.names(), what="the connection in the store")
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


def ledgers():
    return [name for name in agent.names() if name.startswith("ledger-")]


def test_killed_twice():
    """Keys of an attempt that was under way two processes ago: nobody has the lease, so they keep no one."""
    client = agent.client(3)
    client.acquire("twice-other")
    wait_stored(client)
    calls_before = [script_calls(node) for node in nodes[1:]]
    for node in nodes[1:]:
        node.stop()
    begun = lab.now()
    client.send("ACQUIRE", "twice", "WAIT", 60000)
    lab.wait_for(lambda: nodes[0].call("GET", "twice") is not None, what="the key at the first node")
    agent.kill()
    before = ledgers()
    agent.begin()
    lab.wait_for(lambda: ledgers() and ledgers() != before, what="the second process's ledger")
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
    within(lab.now() - begun, 0, 5 * lab.SCALE, "before the keys of the first process expire, in seconds")
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
        replace()
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
        replace()
        if problems:
            break
    ends.set()
    for thread in threads:
        thread.join(60 * lab.SCALE)
    note("%d grants, at least %d of them by hand-off" % (seen["grants"], handed))
    equal(problems, [], "20 times kill -9 during hand-offs between 8 clients: one holder, growing tokens")
    ok(handed > 100, "most grants are hand-offs")


def page_of(client):
    """Maps the session's deadline page."""
    client.send("PAGE")
    data, ancillary, _, _ = client.socket.recvmsg(4096, 64)
    client.buffer += data
    client.reply()
    fds = array.array("i")
    fds.frombytes(ancillary[0][2][:4])
    memory = mmap.mmap(fds[0], 65536, mmap.MAP_SHARED, mmap.PROT_READ)
    os.close(fds[0])
    return memory


def test_page():
    client = agent.client(3)
    page = page_of(client)
    grant = client.acquire("paged", "TTL", 5000)
    other = client.acquire("paged-too", "TTL", 5000)
    wait_stored(client)
    lab.wait_for(lambda: agent.names().count(session_name(client)) == 2, what="the page in the store")

    def slot(lease):
        return struct.unpack_from("<Qq", page, 64 + 16 * lease["slot"])

    equal(slot(grant)[0], grant["id"], "the page shows the lease")
    replace()
    lab.wait_for(lambda: slot(grant)[1] > grant["deadline"] + 10**9, what="the new deadline")
    equal(slot(grant)[0], grant["id"], "the next process updates the deadlines in the page")
    equal(client.call("RELEASE", other["id"]), 1, "RELEASE of another lease")
    equal(slot(other)[1], 0, "clears its slot")
    third = client.acquire("paged-three")
    ok(third["slot"] != grant["slot"] and slot(third)[0] == third["id"], "and the next lease has a slot")
    name = session_name(client)
    client.close()
    lab.wait_for(lambda: name not in agent.names(), what="the page to leave the store")


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
    before = cpu_ms()
    time.sleep(0.3)
    ok(cpu_ms() - before < 100, "and the agent is idle")
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


def extended_three_times():
    """For longer than a client has for reading its grant."""
    before = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= before + 3, 20, "three extensions")


def test_wait_behind_wait():
    """A wait counts from when the request is taken, after the session's former one."""
    holder, client = agent.client(), agent.client()
    first, second = holder.acquire("front"), holder.acquire("behind")
    ok(first["id"] != second["id"], "two names are held")
    client.send("ACQUIRE", "front", "WAIT", -1)
    client.send("ACQUIRE", "behind", "WAIT", 2500)
    asked = lab.now()
    wait_stored(holder)
    lab.wait_for(lambda: lab.now() > asked + 2.6, what="the time of the second wait, before it begins")
    taken = lab.now()
    holder.call("RELEASE", first["id"])
    ok("id" in lab.as_map(client.reply()), "the first request is granted")
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the second request")
    replace()
    begins(client.reply(), "TIMEOUT", "the second request is answered after a restart")
    within(lab.now() - taken, 2.5, 2.5 + 3 * lab.SCALE, "after its own wait, in seconds")
    client.close()
    holder.close()


def test_unread_output():
    """A client with a page reads its deadline there, and may leave what the agent sends unread."""
    client = agent.client(3)
    grant = client.acquire("paged", "TTL", 3000)
    wait_stored(client)
    extended_three_times()
    client.send("PING")
    equal(agent.client().call("PING"), "PONG", "a reply that the client does not read")
    replace()
    extended_three_times()
    client.reply()
    ok(client.call("CHECK", grant["id"]) > 0, "a lease whose grant was read goes on after a restart")
    equal(client.pushes, [], "its client gets no pushes")
    client.close()


def test_full_nodes():
    """A full node extends leases, so it lets the next process continue them."""
    client = agent.client(3)
    grant = client.acquire("full", "TTL", 3000, "WAIT", 5000)
    wait_stored(client)
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", 1)
    replace()
    extended_three_times()
    ok(client.call("CHECK", grant["id"]) > 0, "a lease goes on after a restart while all nodes are full")
    equal(client.pushes, [], "its client gets no pushes")
    for node in nodes:
        node.call("CONFIG", "SET", "maxmemory", 0)
    equal(client.call("RELEASE", grant["id"]), 1, "until it is released")
    agent.wait_voting(3)
    client.close()


def test_observers():
    watcher, holder = agent.client(3), agent.client(3)
    watcher.call("OBSERVE", "watched")
    equal(watcher.push("leader")[2]["state"], "free", "an observer gets the state")
    wait_stored(watcher, holder)
    replace()
    grant = holder.acquire("watched")
    push = watcher.push("leader")
    while push[2]["state"] != "held":
        push = watcher.push("leader")
    equal(push[2]["fence"], grant["fence"], "and pushes from the next process")
    equal(watcher.call("UNOBSERVE", "watched"), 1, "UNOBSERVE works there")
    replace()
    equal(watcher.call("UNOBSERVE", "watched"), 0, "and persists across restarts")
    watcher.close()
    holder.close()


def test_greetings():
    client = agent.client(2)
    client.call("CLIENT", "SETNAME", "the-name")
    number = client.call("CLIENT", "ID")
    wait_stored(client)
    replace()
    equal((client.call("CLIENT", "GETNAME"), client.call("CLIENT", "ID")), ("the-name", number),
          "a session keeps its name and id")
    equal(client.call("STATUS")[0], "version", "and its protocol version")
    newer = agent.client(2)
    ok(newer.call("CLIENT", "ID") != number, "the id is not given to another session")
    client.close()
    newer.close()


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
    wait_stored(client)
    other = lab.Agent(nodes, CONFIG)
    agent.kill()
    mover = other.client(3)
    resumed = mover.call("RESUME", "moved", grant["secret"])
    ok(isinstance(resumed, dict), "a client resumes its lease at another agent while its own is down")
    before = values("moved")
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
    ok(lab.wait_for(lambda: values("moved") == [None] * 3, 2), "which deletes the keys")
    mover.close()
    other.kill()


def test_repeated_resume():
    """A RESUME without a reply, which the next process repeats, takes no lease back that the client has
    resumed elsewhere meanwhile."""
    granting, other = lab.Agent(nodes, CONFIG), lab.Agent(nodes, CONFIG)
    holder = granting.client(3)
    grant = holder.acquire("twice", "TTL", 8000, "RESUMABLE", "WAIT", 5000)
    granting.kill()
    holder.close()
    proxies = [lab.Proxy(node) for node in nodes]
    cut_off = KeptAgent(proxies, CONFIG)
    cut_off.wait_voting(3)
    first, second = cut_off.client(3, timeout=20), other.client(3)
    name = session_name(first)
    for proxy in proxies:
        proxy.deaf = True
    first.send("RESUME", "twice", grant["secret"], "WAIT", 8000)
    lab.wait_for(lambda: name in cut_off.names(), what="the connection in the store")
    resumed = second.call("RESUME", "twice", grant["secret"], "WAIT", 5000)
    ok(isinstance(resumed, dict), "RESUME has no reply, and the client resumes its lease at another agent")
    cut_off.kill()
    before = values("twice")
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
    holder = granting.client(3)
    grant = holder.acquire("continued", "TTL", 8000, "RESUMABLE", "WAIT", 5000)
    granting.stop()
    proxies = [lab.Proxy(node) for node in nodes]
    cut_off = KeptAgent(proxies, CONFIG)
    cut_off.wait_voting(3)
    mover = cut_off.client(3, timeout=20)
    name = session_name(mover)
    for proxy in proxies:
        proxy.deaf = True
    mover.send("RESUME", "continued", grant["secret"], "WAIT", 8000)
    lab.wait_for(lambda: name in cut_off.names(), what="the connection in the store")
    cut_off.kill()
    granted = values("continued")
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
                 4 / SCALE, "the release at the last node")
    ok(True, "the former agent, stopped meanwhile, sets no key again")
    granting.kill()
    cut_off.kill()


def test_cooldown():
    cooldown_ms = int(min(2500 * lab.SCALE, 8000))  # the agent's max_ttl
    late_ms = cooldown_ms + 4000 * lab.SCALE  # a new agent connects, and its retries are seldom
    for what in "released", "held", "left":
        client = agent.client(3)
        asked = lab.now()
        grant = client.acquire("cools", "TTL", cooldown_ms * 3 // 5, "COOLDOWN", cooldown_ms)
        wait_stored(client)
        agent.kill()
        if what == "left":
            client.close()  # while no agent can see it
        agent.start()
        if what == "released":
            equal(client.call("RELEASE", grant["id"]), 1, "the next agent releases a lease with a cooldown")
            replace()
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
    process = lab.spawn(["python3", "-c", program, agent.socket_path], stdout=subprocess.PIPE)
    process.stdout.readline()
    lab.wait_for(lambda: agent.status()["leases"] == 1, what="its lease")
    lab.wait_for(lambda: agent.names(), what="the store")
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
    lab.wait_for(agent.sessions, what="the connection")
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
    wait_stored(client)
    name = session_name(client)
    with agent.lock:
        agent.store.append((name, os.memfd_create("page")))
    replace()
    lab.wait_for(lambda: agent.names().count(name) == 1, what="the connection alone in the store")
    replace()
    ok(client.call("CHECK", grant["id"]) > 0, "the page is dropped, and the connection continues")
    client.close()


def test_not_stored():
    """A manager that stores nothing: connections end, and their leases exclude others until the deadline."""
    agent.refuse = True
    client = agent.client(3)
    grant = client.acquire("unstored", "TTL", 8000, "RESUMABLE")
    replace()
    try:
        client.read()
        ok(False, "the connection has ended")
    except ConnectionError:
        ok(True, "without a store the connection ends")
    begins(agent.client().acquire("unstored"), "BUSY", "but the name is not free: its client may be alive")
    back = agent.client(3)
    resumed = lab.as_map(back.call("RESUME", "unstored", grant["secret"], "WAIT", 3000))
    equal(resumed["fence"], grant["fence"], "the client resumes its lease")
    equal(back.call("RELEASE", resumed["id"]), 1, "and releases it")
    gone = agent.client(3)
    gone.acquire("unstored-too", "TTL", 2000)
    replace()
    got = agent.client(3).acquire("unstored-too", "WAIT", 20000)
    ok(isinstance(got, dict), "a lease that is not resumed ends by its deadline")
    agent.refuse = False
    replace()


@contextlib.contextmanager
def user(uid):
    """The agent takes the user of a connection from the kernel."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_not_stored_within_limit():
    """The lease that the agent keeps for its client counts under its rule, but not against its RESUME."""
    if os.getuid() != 0:
        skip("the limit of another user", "only root can become other users")
        return
    os.chmod(lab.directory, 0o711)
    os.chmod(agent.socket_path, 0o666)
    agent.write_config(CONFIG + 'rule "limited*" { max_leases = 1 }\n')
    replace()
    agent.refuse = True
    with user(20001):
        client = agent.client(3)
    grant = client.acquire("limited", "RESUMABLE")
    replace()
    with user(20001):
        back = agent.client(3)
    begins(back.acquire("limited too"), "QUOTA rule", "a lease that may be resumed counts")
    resumed = lab.as_map(back.call("RESUME", "limited", grant["secret"], "WAIT", 3000))
    equal(isinstance(resumed, dict) and resumed["fence"], grant["fence"], "its client resumes it")
    with user(20002):
        other = agent.client(3)
    other.acquire("limited too")
    begins(other.call("RESUME", "limited", grant["secret"], "WAIT", 0), "QUOTA rule", "another user may not")
    for each in client, back, other:
        each.close()
    agent.refuse = False
    agent.write_config(CONFIG)
    replace()


def test_other_version():
    client = agent.client(3)
    client.acquire("versioned", "TTL", 2000)
    wait_stored(client)
    with agent.lock:
        ledger = [fd for name, fd in agent.store if name.startswith("ledger-")][0]
        with mmap.mmap(ledger, 4096) as memory:
            memory[8:12] = struct.pack("<I", 99)
    replace()
    ok("ledger of the former process: not of this version" in agent.log_text(),
       "a ledger of another version is not read")
    try:
        client.read()
        ok(False, "its connections are closed")
    except ConnectionError:
        ok(True, "its connections are closed")
    equal([name.split("-")[0] for name in agent.names()], ["ledger"], "and leave the store")
    ok(isinstance(agent.client(3).acquire("versioned", "WAIT", 20000), dict),
       "its leases end by their ttl")


def test_host_changed():
    """The keys name the host: under another name the leases would be lost."""
    client = agent.client(3)
    grant = client.acquire("hosted", "TTL", 2000)
    host = client.call("LEADER", "hosted")["host"]
    wait_stored(client)
    agent.write_config(CONFIG + 'host = "renamed"\n')
    replace()
    ok("goes on as %s" % host in agent.log_text() and "renamed takes effect when" in agent.log_text(),
       "another host name waits until the agent is stopped")
    ok(client.call("CHECK", grant["id"]) > 0 and quiet(client), "and the lease continues")
    equal(client.call("LEADER", "hosted")["host"], host, "under the former name")
    client.call("RELEASE", grant["id"])
    client.call("QUIT")
    other = agent.client(3)
    lab.wait_for(lambda: other.call("STATUS")["leases"] == 0, what="no lease")
    wait_stored(other)
    replace()
    grant = other.acquire("hosted")
    equal(other.call("LEADER", "hosted")["host"], "renamed", "without leases a restart is enough")
    other.call("RELEASE", grant["id"])
    other.close()
    agent.write_config(CONFIG)
    replace()


def test_store_is_tidy():
    client = agent.client(3)
    client.acquire("tidy")
    wait_stored(client)
    name = session_name(client)
    client.call("QUIT")
    lab.wait_for(lambda: name not in agent.names(), what="the end in the store")
    ok(True, "a session that quits leaves the store")
    garbler = agent.client(3)
    garbler.acquire("garbled")
    wait_stored(garbler)
    name = session_name(garbler)
    garbler.send_raw(b"*1\r\n?\r\n")
    begins(garbler.reply(), "ERR protocol", "a session with a malformed request")
    lab.wait_for(lambda: name not in agent.names(), what="the end in the store")
    try:
        while True:
            garbler.read()
    except ConnectionError:
        ok(True, "is closed, even though the manager had a copy")
    before = len(agent.said)
    for _ in range(50):
        short = agent.client()
        short.call("PING")
        short.close()
    ok(not any("FDSTORE" in said for said in agent.said[before:]),
       "short connections without a lease are not stored")
    idle = agent.client()
    idle.call("PING")
    wait_stored(idle)
    ok(True, "a connection that lasts is stored")
    replace()
    equal(idle.call("PING"), "PONG", "and continues")


def test_full_store():
    """systemd passes all names in one string, and Linux executes no process with one of 131,072 bytes."""
    clients = [agent.client(3) for _ in range(20)]
    for client in clients:
        page_of(client).close()
    wait_stored(*clients)
    names = [session_name(client) for client in clients]
    lab.wait_for(lambda: sum(agent.names().count(name) for name in names) == 2 * len(names),
                 what="the pages in the store")
    unit = pages.read("units/redlockd.service.in")
    most = int(re.search(r"^FileDescriptorStoreMax=(\d+)$", unit, re.M).group(1))
    others = ["redlockd.socket"] + 4 * ledgers()
    bytes_of = [len(name) + 1 for name in others + (most * names)[:most]]
    within(len("LISTEN_FDNAMES=") + sum(bytes_of), 0, 131071, "the names of a full store, in bytes")
    for client in clients:
        client.close()


def test_long_names():
    """A former version stored sessions under longer names: these go on, and leave the store as any other."""
    clients = [agent.client(3) for _ in range(2)]
    page = page_of(clients[0])
    grants = [client.acquire("long-name-%d" % i, "TTL", 5000) for i, client in enumerate(clients)]
    wait_stored(*clients)
    lab.wait_for(lambda: agent.names().count(session_name(clients[0])) == 2, what="the page in the store")
    long_names = {session_name(client): "session-%016x" % client.call("CLIENT", "ID") for client in clients}
    with agent.lock:
        agent.store = [(long_names.get(name, name), fd) for name, fd in agent.store]
    names = list(long_names.values())
    for what in "the next process", "and the one after it":
        replace()
        ok(all(client.call("CHECK", grant["id"]) > 0 and quiet(client)
               for client, grant in zip(clients, grants)), "%s continues sessions with long names" % what)
    lab.wait_for(lambda: struct.unpack_from("<Qq", page, 64 + 16 * grants[0]["slot"])[1] >
                 grants[0]["deadline"] + 10**9, what="the new deadline in the page")
    page_of(clients[1]).close()
    lab.wait_for(lambda: [agent.names().count(name) for name in names] == [2, 2], what="the second page")
    ok(True, "a page gets the name of its session")
    replace()
    ok(all(client.call("CHECK", grant["id"]) > 0 for client, grant in zip(clients, grants)),
       "session and page continue")
    for client in clients:
        client.close()
    lab.wait_for(lambda: not set(names) & set(agent.names()), what="the end in the store")
    page.close()


def test_no_room():
    """Room for one more name: what is stored is as much as the next process can be executed with."""
    first = agent.client(3)
    grant = first.acquire("with-room", "TTL", 5000)
    wait_stored(first)
    name, long_name = session_name(first), "session-%016x" % first.call("CLIENT", "ID")
    with agent.lock:
        fd = [fd for other, fd in agent.store if other == name][0]
        agent.store = [(long_name if other == name else other, fd) for other, fd in agent.store]
        while sum(len(other) + 1 for other, fd in agent.store if is_session(other)) <= 126976 - 25 - 5:
            agent.store.append((long_name, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)))
    replace()
    clients = [agent.client(3) for _ in range(12)]
    for i, client in enumerate(clients):
        client.acquire("without-room-%d" % i)
    ok("can't store it: the store is full; it ends with this agent" in agent.log_text(), "the log has it")
    stored = sum(session_name(client) in agent.names() for client in clients)
    within(stored, 1, 11, "sessions for whose names there is room are stored")
    replace()
    ok(first.call("CHECK", grant["id"]) > 0, "the next process can be executed, and continues the first")
    for client in clients:
        client.close()
    late = agent.client(3)
    late.acquire("late")
    first.close()
    wait_stored(late)
    ok(True, "a session that had no room is stored when there is some")
    late.close()


def test_socket_name():
    """FileDescriptorName= of the socket may look like a session's name."""
    agent.listener_name = "main"
    replace()
    equal(agent.client().call("PING"), "PONG", "an agent whose socket has a name of four letters serves")
    agent.listener_name = "redlockd.socket"
    replace()


def ids_after(client):
    """The ids of this session and of 20 more in turn, while the manager reads nothing. None if the agent
    waits for the manager with its status, which it sends every ten seconds."""
    with agent.busy_manager():
        ids = []
        try:
            for _ in range(20):
                ids.append(client.call("CLIENT", "ID"))
                client.call("QUIT")
                client.close()
                client = agent.client(timeout=2)
        except TimeoutError:
            return None
        client.close()
    return ids


def test_name_in_use():
    """While the manager has not removed a session, its name is no other session's: the next process would
    mistake one for the other."""
    for _ in range(3):
        client = agent.client(3, timeout=2)
        client.acquire("named")
        wait_stored(client)
        ids = ids_after(client)
        if ids:
            break
    equal(len({one % 2**20 for one in ids}), 1, "sessions in turn have one slot")
    ok(name_of(ids[0]) not in map(name_of, ids[1:]), "but not the name of the one to be removed")
    lab.wait_for(lambda: name_of(ids[0]) not in agent.names(), what="the removal")


def test_many():
    """Many connections and leases; then the next process has a smaller limit."""
    clients = [agent.client(3) for _ in range(60)]
    held = [[client.acquire("many-%d-%d" % (i, j)) for j in range(5)] for i, client in enumerate(clients)]
    wait_stored(*clients)
    replace()
    ok(all(client.call("CHECK", grant["id"]) > 0 for client, grants in zip(clients, held)
           for grant in grants), "60 clients with 5 leases each continue")
    lab.wait_for(lambda: agent.status()["extensions"] >= 0 and all(
        node.call("GET", "many-59-4") is not None for node in nodes), what="the leases")
    agent.write_config(CONFIG + "max_sessions = 40\n")
    replace()
    ok(all(client.call("CHECK", grants[0]["id"]) > 0 and quiet(client)
           for client, grants in zip(clients, held)), "with a limit of 40 all 60 continue")
    ok("restart: continues agent" in agent.log_text(), "and the log has the numbers")
    begins(agent.client().read(), "QUOTA the agent has max_sessions connections: 40",
           "but no further one is accepted")
    for client in clients:
        client.close()
    agent.write_config(CONFIG)
    replace()


def test_high_slots():
    """A session keeps its slot, whatever few sessions are allowed now."""
    clients = [agent.client(3) for _ in range(12)]
    high = max(clients, key=lambda client: client.call("CLIENT", "ID") % 2**20)
    grant = high.acquire("high-slot")
    wait_stored(high)
    for client in clients:
        if client is not high:
            client.close()
    agent.write_config(CONFIG + "max_sessions = 2\n")
    replace()
    ok(high.call("CHECK", grant["id"]) > 0 and quiet(high), "one session in a high slot goes on")
    second = agent.client()
    equal(second.call("PING"), "PONG", "beside as many as are allowed")
    begins(agent.client().read(), "QUOTA the agent has max_sessions connections: 2", "but no more")
    second.close()
    replace()
    ok(high.call("CHECK", grant["id"]) > 0 and quiet(high), "the next restart ends none either")
    high.close()
    agent.write_config(CONFIG)
    replace()


def continues(client, grant):
    try:
        return client.call("CHECK", grant["id"]) > 0
    except OSError:
        return False


def test_few_descriptors():
    """A session needs a descriptor to go on, and one more by which its process is watched. The agent keeps
    those for the nodes, without which all leases would end."""
    if not shutil.which("prlimit"):
        skip("a restart without descriptors", "no prlimit here")
        return
    count = 40
    for limit in range(64 + 12 * agent.keepers, 142, 4):
        clients = [agent.client(3) for _ in range(count)]
        grants = [client.acquire("few-%d-%d" % (limit, i)) for i, client in enumerate(clients)]
        wait_stored(*clients)
        agent.prefix = ["prlimit", "--nofile=%d" % limit]
        replace()
        went_on = sum(continues(client, grant) for client, grant in zip(clients, grants))
        equal(went_on, count, "with a limit of %d all %d sessions go on" % (limit, count))
        agent.wait_voting(3)
        ok(True, "all nodes vote")
        agent.prefix = ()
        for client in clients:
            client.close()
        replace()


def test_fewer_leases():
    """The next process allows fewer leases than there are, and needs more slots than that: all go on with
    their ids, and no more are granted."""
    count = 4200  # the smallest registry has 4,096 slots
    agent.write_config(CONFIG + "max_leases = 8192\n")
    replace()
    client = agent.client(3)
    for begin in range(0, count, 300):
        client.send_raw(b"".join(b"ACQUIRE few-%d ASYNC\r\n" % i for i in range(begin, begin + 300)))
        replies = [client.reply() for _ in range(300)]
        ids = [client.push("granted")[1] for _ in range(300)]
        assert sorted(ids) == sorted(reply[1] for reply in replies)
    wait_stored(client)
    agent.write_config(CONFIG + "max_leases = 1000\n")
    replace()
    ok(all(client.call("CHECK", one) > 0 for one in ids), "a smaller max_leases: the last 300 leases go on")
    equal(agent.status()["leases"], count, "all of them")
    ok(quiet(client), "and no client gets a push")
    begins(client.call("ACQUIRE", "one-more"), "QUOTA", "but no more are granted")
    client.close()
    agent.write_config(CONFIG)
    replace()


def test_shorter_max_ttl():
    """The next process does not allow the lease's ttl, so does not extend it: a warning at once."""
    client, second = agent.client(3), agent.client(3)
    grant = client.acquire("long", "TTL", 8000)
    kept = second.acquire("kept", "TTL", 4000)
    wait_stored(client, second)
    agent.write_config('default_ttl = "4s"\nmax_ttl = "4s"\nnode_timeout = "1900ms"\n')
    replace()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "a smaller max_ttl: at-risk after the restart")
    ok("1 leases have a ttl above max_ttl (4000 ms)" in agent.log_text(), "the log has their number")
    ok(second.call("CHECK", kept["id"]) > 0 and quiet(second), "another lease goes on")
    push = client.push("lost", 12)
    equal(push[1:3], [grant["id"], "no-quorum"], "it ends at its deadline: lost, for the same reason")
    ok("max_ttl is shorter" in push[3], "and the text has the cause")
    ok('redlock_losses_total{reason="no-quorum"} 1\n' in lab.redlock_run(agent, "metrics")[1],
       "the loss counts as one that the holder did not want")
    for one in client, second:
        one.close()
    agent.write_config(CONFIG)
    replace()


def test_token_late():
    """kill -9 after a hand-off, before the nodes have the new token."""
    for i in range(50):
        client, name = agent.client(3), "late%d" % i
        client.send_raw(b"ACQUIRE %s WAIT -1 RESUMABLE ASYNC\r\n" % name.encode() * 3)
        ids = [client.reply()[1] for _ in range(3)]
        wait_stored(client)
        fences = []
        for one in ids:
            fences.append(client.push("granted")[2]["fence"])
            if one != ids[-1]:
                client.call("RELEASE", one)
        replace()
        if fences[2] == fences[1] + 1:  # by a hand-off
            lab.wait_for(lambda: (client.call("LEADER", name) or {}).get("fence") == fences[2],
                         what="the holder's token")
            ok(True, "LEADER returns the holder's token")
            client.close()
            return
        client.close()
    ok(False, "no hand-off in 50 tries")


def test_without_manager():
    alone = lab.Agent(nodes, CONFIG, start=False)
    process = lab.subprocess.run(
        [lab.REDLOCKD, "--config", alone.config_path, "--store", "--check-config"], capture_output=True,
        text=True)
    equal(process.returncode, 0, "--store is a known option")
    environment = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    log = open(alone.log_path, "a")
    alone.process = lab.spawn([lab.REDLOCKD, "--config", alone.config_path, "--store"], stderr=log,
                              env=environment)
    lab.wait_for(lambda: "serving" in alone.log_text(), what="its start")
    ok("--store: no service manager" in alone.log_text(), "without a service manager the log has a warning")
    client = alone.client(3)
    ok(isinstance(client.acquire("alone"), dict), "and the agent serves")
    client.close()
    alone.terminate()


main(test_lease_continues, test_waiting, test_under_way, test_killed_twice, test_release_without_quorum,
     test_risk_without_quorum, test_slow_majority, test_page, test_unread_answers,
     test_wait_behind_wait, test_unread_output, test_full_nodes, test_observers, test_greetings,
     test_client_dies_meanwhile, test_child_has_connection, test_page_without_owner, test_not_stored,
     test_not_stored_within_limit, test_resumed_elsewhere, test_repeated_resume, test_continued_resume,
     test_cooldown, test_other_version, test_host_changed, test_store_is_tidy, test_full_store,
     test_long_names, test_no_room, test_socket_name, test_name_in_use, test_many, test_high_slots,
     test_few_descriptors, test_fewer_leases, test_shorter_max_ttl, test_without_manager,
     test_exactly_once, test_hand_offs, test_token_late)
