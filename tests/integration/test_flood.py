"""Floods by another user: no other client loses a lease, and others get new leases meanwhile."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys

import flood
import lab
from tap import begins, equal, main, note, ok, skip

TTL_MS = 2000
LEASES = 100

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
nodes = lab.nodes(3)
agent = lab.Agent(nodes, "max_sessions = 3000")
agent.wait_voting(3)
os.chmod(lab.directory, 0o711)


def meanwhile(form, seconds, what):
    holder, taker = agent.client(3), agent.client(3)
    lab.wait_for(lambda: isinstance(holder.acquire("room for " + what), dict), 20, "the last flood's end")
    held = [holder.acquire("%s-%d" % (what, i), "TTL", TTL_MS, "WAIT", 5000)["id"] for i in range(LEASES)]
    took = []
    process = lab.spawn([sys.executable, flood.__file__, agent.socket_path, form, str(seconds)])
    while process.poll() is None:
        begun = lab.now()
        grant = taker.acquire("taken", "TTL", TTL_MS)
        if isinstance(grant, dict):
            took.append(lab.now() - begun)
            taker.call("RELEASE", grant["id"])
    lost = [id for id in held if holder.call("CHECK", id) == 0]
    if lost:
        print("#", holder.pushes[-5:], agent.status())
    equal(process.returncode, 0, "%s were sent" % what)
    equal(lost, [], "%s: no lease is lost" % what)
    ok(len(took) > 10 and lab.median(took) < 0.1 * lab.SCALE, "others get leases meanwhile")
    print("# %d, p50 %.1f ms, p99 %.1f ms" % (
        len(took), 1e3 * lab.median(took), 1e3 * sorted(took)[len(took) * 99 // 100]))
    holder.close()
    taker.close()


def test_pipelined():
    meanwhile("pipelined", 5, "130,000 requests in a row")


def test_connections():
    meanwhile("everywhere", 4, "a thousand connections")


def test_resumptions():
    meanwhile("valid RESUME", 4, "requests to resume")


def calls_until_end(client, other, process):
    """How long each PING takes beside those of another user, until the process ends."""
    times = []
    while process.poll() is None:
        other.call("PING")
        begun = lab.now()
        client.call("PING")
        times.append(lab.now() - begun)
    return times


def sessions_of(client):
    return lab.as_map(client.call("STATUS"))["sessions"]


def nobody_at(beside):
    """A session of the user nobody."""
    os.seteuid(flood.NOBODY)
    session = beside.client()
    os.seteuid(0)
    return session


def test_connecting():
    """Programs that connect all the time fill the socket's backlog: others wait for their turn."""
    if os.geteuid() != 0:
        skip("programs that connect all the time", "two users need root")
        return
    beside = lab.Agent(nodes)
    beside.wait_voting(3)
    holder = beside.client(3)
    held = [holder.acquire("connecting-%d" % i, "TTL", TTL_MS)["id"] for i in range(LEASES)]
    user = nobody_at(beside)
    floods = [lab.spawn([sys.executable, flood.__file__, beside.socket_path, flood.CONNECTING,
                         str(10 * lab.SCALE)]) for _ in range(3)]
    sessions = []

    def is_logged():
        sessions.append(sessions_of(holder))
        return "connections a second" in beside.log_text()

    lab.wait_for(is_logged, 6, "the line in the log")
    results, times = [], []
    while all(process.poll() is None for process in floods) and len(results) < 20:
        begun = lab.now()
        sessions.append(sessions_of(holder))
        results.append(lab.redlock_run(beside, "run", "-n", "r%d" % len(results), "--", "true"))
        times.append(lab.now() - begun)
    ok(len(results) > 5, "%d times redlock(1) connects meanwhile" % len(results))
    equal(set(results), {(0, "", "")}, "and each time it gets a lease")
    ok(max(times) < lab.SCALE, "each within a second (median %.0f ms, at most %.0f)" %
       (1e3 * lab.median(times), 1e3 * max(times)))
    equal([id for id in held if holder.call("CHECK", id) == 0], [], "no lease is lost")
    ok(max(sessions) < 1000, "sessions whose client has closed them end at once (at most %d sessions)" %
       max(sessions))
    times = calls_until_end(user, holder, floods[0])
    ok(len(times) > 5 and lab.median(times) < 0.2 * lab.SCALE,
       "the user's other session is served (%d times, median %.1f ms)" %
       (len(times), 1e3 * lab.median(times)))
    for process in floods:
        equal(process.wait(), 0, "a flood's connections wait, too")
    lines = [line for line in beside.log_text().splitlines() if "connections a second" in line]
    equal(len(lines), 1, "the flood is logged once")
    ok(any("by process %d of user" % process.pid in lines[0] for process in floods), lines[0])
    holder.close()
    user.close()
    beside.terminate()


def pauses():
    client = agent.client(3)
    text = client.call("METRICS")
    client.close()
    return int(re.search(r"^redlock_user_pauses_total (\d+)$", text, re.M).group(1))


def test_listings():
    """A user with 500 connections has one user's share of the agent's work, not 500."""
    before = pauses()
    meanwhile("LEASES", 4, "LEASES, on 500 connections")
    between = pauses()
    ok(between > before, "METRICS counts that the user had to wait (%d times)" % (between - before))
    meanwhile("waiters", 3, "waiters for one name")
    ok(pauses() > between, "so it does for waiters")


def test_leader():
    """LEADER is answered by the nodes: the queries of a user wait behind few of another's."""
    meanwhile("LEADER", 3, "LEADER, on 64 connections")
    asker = agent.client(3)
    held = asker.acquire("led", "TTL", TTL_MS)
    process = lab.spawn([sys.executable, flood.__file__, agent.socket_path, "LEADER", "3"])
    times = []
    while process.poll() is None:
        begun = lab.now()
        state = lab.as_map(asker.call("LEADER", "led"))
        times.append(lab.now() - begun)
        if state["fence"] != held["fence"]:
            break
    ok(process.poll() == 0, "another user's LEADER names the holder meanwhile")
    ok(len(times) > 10 and lab.median(times) < 0.1 * lab.SCALE,
       "and is answered soon (%d times, median %.1f ms)" % (len(times), 1e3 * lab.median(times)))
    asker.close()


def test_first_queries():
    """A LEADER on each of many sessions at once, beside a holder that asks nothing: most of them wait in
    their sockets, also those of clients that send no more."""
    holder = agent.client(3)
    held = [holder.acquire("silent-%d" % i, "TTL", TTL_MS)["id"] for i in range(LEASES)]
    sessions = [agent.client() for _ in range(1000)]
    replies = []
    for last in False, False, True:
        for i, session in enumerate(sessions):
            session.send("LEADER", "nobody's-%d" % i)
            session.send("ECHO", i)
            if last:
                session.socket.shutdown(socket.SHUT_WR)
        replies += [[session.reply(), session.reply()] for session in sessions]
    equal(replies, 3 * [[None, str(i)] for i in range(len(sessions))], "all are answered, in order")
    equal([id for id in held if holder.call("CHECK", id) == 0], [], "the silent holder loses nothing")
    for client in sessions + [holder]:
        client.close()


def slow_agent():
    """Where a user has 1000 units a second beside another."""
    return lab.Agent(lab.nodes(1), "max_work = 1000")


def test_max_work():
    """Beside another user, a user has so many units a second; alone it has no limit."""
    if os.geteuid() != 0:
        skip("max_work", "two users need root")
        return
    work = slow_agent()
    user, other = nobody_at(work), work.client()

    def seconds(beside=None):
        """Of 300 requests. The other user asks meanwhile, never a second later than before."""
        begun = lab.now()
        for i in range(300):
            if beside and i % 20 == 0:
                beside.call("PING")
            user.call("PING")
        return lab.now() - begun

    lab.wait_for(lambda: seconds() < 0.2 * lab.SCALE, 10, "the end of the other user's second")
    ok(True, "a user has no limit when no other has asked for a second")
    ok(seconds(other) >= 0.26, "beside another user it has max_work, and 32 units at once")
    work.write_config("max_work = 1000000000")
    work.signal(signal.SIGHUP)
    lab.wait_for(lambda: "applied" in work.log_text(), 10, "the reload")
    ok(min(seconds(other) for _ in range(3)) < 0.2 * lab.SCALE, "a reload changes max_work")
    work.kill()


def test_input():
    """What is no request, or half of one, counts as work, too."""
    if os.geteuid() != 0:
        skip("input that is no request", "two users need root")
        return
    work = slow_agent()
    user, beside, other = nobody_at(work), nobody_at(work), work.client()

    def seconds(parts):
        """Until the user's parts and their PINGs, which come by another session, have been served."""
        begun = lab.now()
        other.call("PING")
        for part in parts:
            user.send_raw(part)
            beside.call("PING")
        return lab.now() - begun

    begun = lab.now()
    other.call("PING")
    user.send_raw(b"\r\n" * 150 + b"*0\r\n" * 150)
    user.call("PING")
    ok(lab.now() - begun >= 0.26, "empty requests take a unit each")
    user.send_raw(b"*2\r\n$4\r\nECHO\r\n$900000\r\n")
    ok(seconds([b"x" * 1023] * 100) >= 0.16, "a KiB takes a unit in several parts, too")
    user.close()
    user = nobody_at(work)
    user.send_raw(b"*2\r\n$4\r\nECHO\r\n$200\r\n")
    ok(seconds([b"x"] * 100) >= 0.16, "a part of a request takes a unit, however short it is")
    user.close()
    user = nobody_at(work)
    user.send_raw(flood.HALF)
    ok(seconds([b"x"] * 25) >= 0.4, "each byte to half a request takes the units of that half again")
    beside.send_raw(b"PING\r\n")
    equal(beside.reply(), "PONG", "and the user is served")
    work.kill()


LAST_WORDS = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
sessions = []
for session in b'one', b'two':
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    s.sendall(b''.join(b'ACQUIRE %s-%d TTL 60000 LINGER 60000\\r\\n' % (session, i) for i in range(40)))
    replies = s.makefile('rb')
    ids = []
    while len(ids) < 40:
        if replies.readline() == b'$2\\r\\n' and replies.readline() == b'id\\r\\n':
            ids.append(replies.readline()[1:])
    sessions.append((s, ids))
print('held', flush=True)
sys.stdin.readline()
for s, ids in sessions:
    s.sendall(b''.join(b'RELEASE ' + id for id in ids))
"""


def test_last_requests():
    """What a process sent before its end is little work if its user is above its share."""
    if os.geteuid() != 0:
        skip("requests before the end of a process", "two users need root")
        return
    work = slow_agent()
    work.wait_voting(1)
    process = lab.spawn([sys.executable, "-c", LAST_WORDS, work.socket_path, str(flood.NOBODY)],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    equal(process.stdout.readline(), "held\n", "two sessions of a process hold 80 leases with a linger")
    work.stop()
    process.communicate("\n")
    other = socket.socket(socket.AF_UNIX)
    other.connect(work.socket_path)  # by then the agent knows that another user asks
    work.cont()
    lab.wait_for(lambda: work.status()["sessions"] == 2, what="the end of the sessions")
    leases = [lease["state"] for lease in work.client(3).call("LEASES")]
    ok(leases.count("lingering") >= 24, "16 releases are executed, if it is above its share")
    note("%d leases linger" % leases.count("lingering"))
    other.close()
    work.kill()


MANY = """
import os, signal, socket, sys
os.setuid(int(sys.argv[2]))
sessions = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[3]))]
for s in sessions:
    s.connect(sys.argv[1])
    s.sendall(b'PING\\r\\n')
for s in sessions:
    s.recv(100)
print('connected', flush=True)
requests = int(sys.stdin.readline())
for s in sessions:
    s.sendall(b'PING\\r\\n' * requests) if requests else s.close()
if requests:
    os.kill(os.getpid(), signal.SIGKILL)
print('closed', flush=True)
sys.stdin.readline()
"""


def test_many_end():
    """Thousands of sessions of a user that end at once have this user's turns."""
    if os.geteuid() != 0:
        skip("many sessions that end at once", "two users need root")
        return
    sessions = 1500
    beside = lab.Agent(lab.nodes(1), "max_work = 1000000")
    for requests, what in ((16, "a process ends"), (0, "a process closes them")):
        process = lab.spawn([sys.executable, "-c", MANY, beside.socket_path, str(flood.NOBODY),
                             str(sessions)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(process.stdout.readline(), "connected\n", "%d sessions of one process" % sessions)
        other = beside.client(3)
        beside.stop()
        os.waitid(os.P_PID, beside.process.pid, os.WSTOPPED)  # so that it sees all the ends at once
        process.stdin.write("%d\n" % requests)
        process.stdin.flush()
        if requests:
            process.wait()
        process.stdout.readline()
        other.send("STATUS")
        beside.cont()
        left = lab.as_map(other.reply())["sessions"]
        ok(left > 1, "%s: a later request of another user is answered meanwhile (%d left)" %
           (what, left))
        lab.wait_for(lambda: sessions_of(other) == 1, what="the end of the sessions")
        lab.end_process(process)
        other.close()
    beside.kill()


def test_expelled():
    """Sessions that the agent has ended are kept until their leases end, and no longer."""
    beside = lab.Agent(lab.nodes(1), lab.UNHURRIED)
    beside.wait_voting(1)
    ended = [beside.client() for _ in range(500)]
    for i, one in enumerate(ended):
        one.send_raw(b"ACQUIRE expelled-%d TTL 6000\r\n*1\r\n:1\r\n" % i)
    for one in ended:
        while one.socket.recv(4096):
            pass
        one.close()
    client = beside.client()
    begins(client.acquire("expelled-499"), "BUSY", "the lease of a session that the agent ended is held")
    lab.wait_for(lambda: beside.status()["leases"] == 0, 7, what="the end of all such leases")
    lab.wait_for(lambda: beside.status()["sessions"] <= 2, what="the end of the sessions")
    ok(isinstance(client.acquire("expelled-499"), dict), "until its deadline: then the name is free")
    beside.kill()


class Torrent(lab.FakeNode):
    """Answers script calls without an end."""

    def __init__(self, name, head, rest):
        super().__init__(name)
        self.answer = head + rest * (64 << 20 >> 16)

    def _reply(self, word, items):
        return self.answer if word == b"EVALSHA" else super()._reply(word, items)


def resident_kib(process):
    with open("/proc/%d/status" % process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def test_answers():
    long = b"x" * 65528
    for head, rest, what in ((b"$4000000000\r\n", long, "a string of 4 GB"),
                             (b"*1000\r\n", b"$%d\r\n%s\r\n" % (len(long), long), "a thousand elements")):
        beside = lab.Agent(lab.nodes(2) + [Torrent("torrent", head, rest)])
        beside.wait_voting(3)
        before = resident_kib(beside.process)
        client = beside.client(3)
        grant = client.acquire("beside " + what, "WAIT", 5000)
        ok("id" in grant, "%s as a node's answer: the others grant a lease" % what)
        beside.wait_node("torrent", reason="an answer has more than 1048576 bytes")
        ok(resident_kib(beside.process) - before < 16384, "the agent keeps little of it, and NODES shows it")
        ok(client.call("CHECK", grant["id"]) > 0, "the lease is extended")
        client.close()
        beside.kill()


class Hijacked(lab.Proxy):
    """Forwards everything, until a connection has sent SUBSCRIBE so often: that connection gets a
    torrent."""

    def __init__(self, node, relayed, head, rest):
        super().__init__(node)
        self.relayed, self.head, self.rest = relayed, head, rest
        self.ended = []  # bytes that each torrent took until the agent closed its connection
        self.stopped = False

    def _forward(self, source, sink, swallowed):
        subscribes = 0
        try:
            while data := source.recv(65536):
                subscribes += swallowed == "deaf" and b"\r\nSUBSCRIBE\r\n" in data
                if subscribes > self.relayed and not self.stopped:
                    self._flood(source)
                    break
                sink.sendall(data)
        except OSError:
            pass
        lab.hang_up(source, sink)

    def _flood(self, sink):
        sent = 0
        try:
            sink.sendall(self.head)
            while sent < 64 << 20:
                sink.sendall(self.rest)
                sent += len(self.rest)
            sink.recv(65536)
        except OSError:
            pass
        self.ended.append(sent)


def subscription_torrent(relayed, head, what):
    holder_agent = lab.Agent(plain := lab.nodes(3))
    rest = b"$65528\r\n" + b"x" * 65528 + b"\r\n"
    torrent = Hijacked(plain[2], relayed, head, rest)
    beside = lab.Agent(plain[:2] + [torrent])
    for one in (holder_agent, beside):
        one.wait_voting(3)
    holder, waiter = holder_agent.client(3), beside.client(3)
    before = resident_kib(beside.process)
    own = waiter.acquire("own", "TTL", TTL_MS)
    held = holder.acquire("subscribed")
    waiter.send("ACQUIRE", "subscribed", "WAIT", 60000)
    lab.wait_for(lambda: torrent.ended, what="the end of the connection that sends " + what)
    ok(max(torrent.ended) < 4 << 20, "%s to a subscription: the agent closes the connection" % what)
    ok(resident_kib(beside.process) - before < 16384, "and keeps little of it")
    equal(beside.node_states()["c"]["state"], "voting", "the node votes: its other connection is in order")
    begun = lab.now()
    holder.call("RELEASE", held["id"])
    ok("id" in lab.as_map(waiter.reply()), "the others' messages, or polling, wake the waiter")
    ok(lab.now() - begun < 2 * lab.SCALE, "within two seconds")
    ok(waiter.call("CHECK", own["id"]) > 0 and waiter.pushes == [], "a lease of 2 s was never at risk")
    torrent.stopped = True
    lab.wait_for(lambda: plain[2].call("PUBSUB", "NUMSUB", "redlockd:alive")[1] >= 1, 20,
                 "the next subscription")
    ok(True, "the connection is made again")
    for one in (holder_agent, beside):
        one.kill()


def test_subscription():
    subscription_torrent(0, b"$4000000000\r\n", "4 GB as its first answer")
    subscription_torrent(1, b"$4000000000\r\n", "4 GB after its greeting")
    subscription_torrent(1, b"*1000000\r\n", "a million elements")


def test_state_slow():
    """A node that answers steadily, each request later than NODE_SLOW_MS. The delay grows while it answers:
    after a second of silence the node would count as silent, not as slow."""
    far = lab.Proxy(lab.Node("c"))
    beside = lab.Agent(lab.nodes(2) + [far])
    beside.wait_voting(3)
    client = beside.client(3)
    held = client.acquire("held beside a slow node", "TTL", 2000)
    number = 0

    def shown(expected):
        nonlocal number
        number += 1
        grant = client.acquire("steady-%d" % number, "WAIT", 0)
        assert isinstance(grant, dict), grant
        client.call("RELEASE", grant["id"])
        state = beside.node_states()["c"]
        return state if expected in state["reason"] and (expected or not state["reason"]) else None

    for far.delay in (0.3, 0.5):
        until = lab.now() + 1.5
        while lab.now() < until:
            shown("slow")
    far.delay = 0.7
    state = lab.wait_for(lambda: shown("slow: a request has waited"), what="the state slow")
    equal(state["state"], "voting", "a slow node votes: NODES shows '%s'" % state["reason"])
    ok("slow: a request has waited" in lab.redlock_run(beside, "nodes")[1], "redlock nodes shows the same")
    lab.wait_for(lambda: (shown("slow"), "slow" in beside.log_text())[1], what="the slowness in the log")
    ok(True, "and the log")
    begun = lab.now()
    shown("")
    ok(lab.now() - begun < 0.25 * lab.SCALE, "new leases don't use the node")
    far.delay = 0
    lab.wait_for(lambda: shown(""), what="the end of the slowness")
    ok(client.call("CHECK", held["id"]) > 0 and client.pushes == [], "a lease of 2 s was never at risk")
    client.close()
    beside.kill()


def test_slow_node():
    """The node answers all the time, but requests arrive faster."""
    far = lab.Proxy(lab.Node("c"))
    beside = lab.Agent(lab.nodes(2) + [far], "max_leases = 8")
    beside.wait_voting(3)
    far.delay = 0.1
    client = beside.client(3)
    refused = []
    for i in range(300):
        grant = client.acquire("slow-%d" % i, "WAIT", 0)
        if isinstance(grant, dict):
            client.call("RELEASE", grant["id"])
        else:
            refused.append(grant)
    equal([str(error) for error in refused], [], "300 acquisitions beside a slow node of three are granted")
    client.close()
    beside.kill()


def is_sanitized(process):
    with open("/proc/%d/maps" % process.pid) as file:
        libraries = file.read()
    return any(name in libraries for name in ("libasan", "libtsan"))


def test_memory():
    """Each connection sends as much of a request as the agent may have to keep."""
    if is_sanitized(agent.process):
        skip("the memory's return", "a sanitizer keeps what is freed")
        return
    before = resident_kib(agent.process)
    half = b"*32\r\n" + (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 31
    clients = [agent.client() for _ in range(1000)]
    for client in clients:
        client.send_raw(half)
    later = agent.client()  # the latest allocation stays
    later.call("ECHO", "x" * 4096)
    lab.wait_for(lambda: resident_kib(agent.process) > before + 64 * 1024, what="the agent's reading")
    for client in clients:
        client.close()
    lab.wait_for(lambda: resident_kib(agent.process) < before + 16 * 1024, what="the memory's return")
    later.close()
    ok(True, "the memory of a thousand half requests is freed with them")


main(test_memory, test_pipelined, test_connections, test_resumptions, test_connecting, test_listings,
     test_leader, test_first_queries, test_max_work, test_input, test_last_requests, test_many_end,
     test_expelled, test_answers, test_subscription, test_slow_node, test_state_slow)
