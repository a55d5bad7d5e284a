"""Leases that linger: when the holder ends without a release, its lease is extended for a while, so that
the processes that it started can be stopped before the next holder has the name."""

import signal
import socket
import subprocess
import sys
import threading

import lab
from descriptor_store import KeptAgent
from tap import begins, equal, main, note, ok, within

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED)
other = lab.Agent(nodes, lab.UNHURRIED)
for each in agent, other:
    each.wait_voting(5)

LINGER_MS = 400
LATE_MS = 300 * lab.SCALE
LONG_MS = 60000  # a ttl: an earlier end is not by expiry
HOLDER = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'ACQUIRE ' + b' '.join(word.encode() for word in sys.argv[2:]) + b'\\r\\n')
assert s.recv(4096).startswith(b'*'), 'granted'
print('held', flush=True)
time.sleep(60)
"""


def hold(name, *options):
    process = lab.spawn([sys.executable, "-c", HOLDER, agent.socket_path, name, *map(str, options)],
                        stdout=subprocess.PIPE, text=True)
    equal(process.stdout.readline(), "held\n", "a process holds %s" % name)
    return process


def test_killed():
    for what, waiting_agent in ("of this host", agent), ("of another host", other):
        process = hold("killed", "TTL", LONG_MS, "LINGER", LINGER_MS)
        waiter = lab.wait_at(waiting_agent, "killed")
        begun = lab.now()
        process.kill()
        within(lab.granted_after(waiter, begun), LINGER_MS, LINGER_MS + LATE_MS,
               "kill -9: a waiter %s gets the name after the linger, in ms" % what)
        lab.wait_for(lambda: lab.keys_on(nodes, "killed") == 0, what="the end of the keys")


def test_meanwhile():
    client = agent.client()
    linger_ms = 5000 * lab.SCALE  # the following checks are done within that time
    client.acquire("closed", "TTL", LONG_MS, "LINGER", int(linger_ms))
    lab.wait_for(lambda: lab.keys_on(nodes, "closed") == 5, what="the key on each node")
    begun = lab.now()
    client.close()
    asker = agent.client(3)
    lab.wait_for(lambda: asker.call("LEASES")[0]["state"] == "lingering", what="the session's end")
    equal(lab.keys_on(nodes, "closed"), 5, "a closed connection: the keys stay")
    begins(asker.acquire("closed"), "BUSY held by process", "a request finds the name held")
    begins(other.client().acquire("closed"), "BUSY", "elsewhere too")
    lab.wait_for(lambda: lab.keys_on(nodes, "closed") == 0, what="the end of the keys")
    within(1000 * (lab.now() - begun), linger_ms, linger_ms + LATE_MS, "for the requested time, in ms")
    lab.wait_for(lambda: asker.call("LEASES") == [], what="the end of the lease")
    ok(True, "no lease is left")
    asker.close()


def test_released():
    client = agent.client()
    grant = client.acquire("released", "LINGER", LONG_MS)
    waiter = lab.wait_at(other, "released")
    begun = lab.now()
    equal(client.call("RELEASE", grant["id"]), 1, "a RELEASE")
    ok(lab.granted_after(waiter, begun) < 1000 * lab.SCALE, "hands the lease off at once")
    client.close()


RELEASER = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
ids = []
for name in sys.argv[2:]:
    s.sendall(b'ACQUIRE %s TTL 60000 LINGER 60000\\r\\n' % name.encode())
    reply = s.recv(4096).split(b'\\r\\n')
    ids.append(reply[reply.index(b'id') + 1][1:])
print('held', flush=True)
sys.stdin.readline()
s.sendall(b''.join(b'RELEASE %s\\r\\n' % id for id in ids))
sys.stdin.readline()
os._exit(0)
"""


def test_released_by_a_client_that_stops_sending():
    client = agent.client()
    grant = client.acquire("last word", "TTL", LONG_MS, "LINGER", LONG_MS)
    client.send("RELEASE", grant["id"])
    client.socket.shutdown(socket.SHUT_WR)
    equal(client.read(), 1, "a client that has only stopped sending gets the reply to its RELEASE")
    client.close()


def test_released_at_the_end():
    """What the client sent just before its end is executed: a lease that it released does not linger."""
    names = ["last-%d" % i for i in range(3)]
    client = agent.client()
    ids = [client.acquire(name, "TTL", LONG_MS, "LINGER", LONG_MS)["id"] for name in names]
    begun = lab.now()
    client.send_raw(b"".join(b"RELEASE %d\r\n" % one for one in ids))
    client.close()
    for name in names:
        gone, _ = lab.when(lambda: lab.keys_on(nodes, name) == 0, begun, what="the end of the keys")
        ok(gone - begun < lab.SCALE, "%s, released before the connection is closed: %.3f s" % (
            name, gone - begun))
    for what in "before the process ends", "of which the agent has taken one, when the process ends":
        process = lab.spawn([sys.executable, "-c", RELEASER, agent.socket_path, *names],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(process.stdout.readline(), "held\n", "a process holds the names")
        stopped = [agent] if "before" in what else nodes[:3]
        for each in stopped:
            each.process.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        if agent not in stopped:
            asker = agent.client(3)
            lab.wait_for(lambda: names[0] not in [lease["name"] for lease in asker.call("LEASES")],
                         what="the first release")
            asker.close()
        process.communicate("\n")
        begun = lab.now()
        for each in stopped:
            each.process.send_signal(signal.SIGCONT)
        for name in names:
            gone, _ = lab.when(lambda: lab.keys_on(nodes, name) == 0, begun, what="the end of the keys")
            ok(gone - begun < 1.5 * lab.SCALE, "%s, released %s: %.3f s" % (name, what, gone - begun))


def test_release_command():
    """Its pid is nobody's, or may be another process's by now."""
    process = hold("left", "LINGER", LONG_MS)
    process.kill()
    process.wait()
    asker = agent.client(3)
    lab.wait_for(lambda: "lingering" in [lease["state"] for lease in asker.call("LEASES")],
                 what="the session's end")
    status, _, said = lab.redlock_run(agent, "release", "left")
    equal(status, 75, "redlock release of a lease that lingers: 75")
    ok("process %d held the lease, and has ended or disconnected" % process.pid in said,
       said.strip())
    asker.close()


def test_released_while_no_agent_runs():
    """The next agent executes what a process had sent before it ended, or closed the connection."""
    kept = KeptAgent(nodes, lab.UNHURRIED)
    kept.wait_voting(5)
    names = ["meanwhile-%d" % i for i in range(3)]
    for what in "is gone", "has ended, and its parent has not seen it":
        process = lab.spawn([sys.executable, "-c", RELEASER, kept.socket_path, *names],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(process.stdout.readline(), "held\n", "a process holds the names")
        closing = kept.client()
        closed = closing.acquire("closed", "TTL", LONG_MS, "LINGER", LONG_MS)
        lab.wait_for(lambda: len(kept.sessions()) == 2, what="the sessions in the store")
        kept.kill()
        closing.send("RELEASE", closed["id"])
        closing.close()
        process.stdin.write("\n\n")
        process.stdin.flush()
        process.stdout.read()  # it has ended
        if "gone" in what:
            process.wait()
        kept.start()
        client, begun = kept.client(), lab.now()
        for name in names + ["closed"]:
            grant = client.acquire(name, "WAIT", 20000)
            ok(isinstance(grant, dict) and lab.now() - begun < lab.SCALE,
               "%s, released while no agent runs, after which the process %s: %.3f s" % (
                   name, what, lab.now() - begun))
            client.call("RELEASE", grant["id"])
        client.close()
        process.wait()
        lab.wait_for(lambda: not kept.sessions(), what="the end of the sessions in the store")
    kept.terminate()


def test_longer_than_the_ttl():
    linger_ms, ttl_ms = 6000 * lab.SCALE, int(4000 * lab.SCALE)
    whats, waiting = ("long", "long-without-heartbeats"), []
    for name, options in zip(whats, ([], ["HEARTBEAT", ttl_ms])):
        process = hold(name, "TTL", ttl_ms, "LINGER", int(linger_ms), *options)
        waiter = lab.wait_at(other, name, len(waiting) + 1)
        waiting.append((waiter, lab.now()))
        process.kill()
    for name, passed_ms in zip(whats, lab.at_once(lambda each: lab.granted_after(*each), waiting)):
        within(passed_ms, linger_ms, linger_ms + ttl_ms / 2,
               "%s: the lease is extended as long as it lingers, in ms" % name)


def test_resumed():
    client = agent.client()
    grant = client.acquire("resumed", "LINGER", LINGER_MS, "RESUMABLE")
    agent.kill()
    agent.start()
    agent.wait_voting(5)
    client = agent.client()
    again = lab.as_map(client.call("RESUME", "resumed", grant["secret"]))
    equal(again["fence"], grant["fence"], "the agent is killed; the next one resumes the lease")
    waiter = lab.wait_at(other, "resumed")
    begun = lab.now()
    client.close()
    ok(lab.granted_after(waiter, begun) >= LINGER_MS, "which lingers there as before")


def test_agent_dies():
    ttl_ms = int(4000 * lab.SCALE)
    process = hold("orphan", "TTL", ttl_ms, "LINGER", LONG_MS)
    process.kill()
    asker = agent.client(3)
    lab.wait_for(lambda: asker.call("LEASES")[0]["state"] == "lingering", what="the session's end")
    waiter = lab.wait_at(other, "orphan")
    begun = lab.now()
    agent.kill()
    passed_ms = lab.granted_after(waiter, begun)
    ok(passed_ms < ttl_ms + LATE_MS, "if the agent dies then, the lease ends by its ttl (%.0f ms)" %
       passed_ms)
    agent.start()
    agent.wait_voting(5)


def leads():
    """Whether the leader has the lease, and no former one."""
    return lab.keys_on(nodes, "led") == 5 and agent.status()["leases"] == 1


def test_hold():
    times = []
    for _ in range(10):
        leader = lab.redlock(agent, "hold", "--linger", "%dms" % LINGER_MS, "led")
        lab.wait_for(leads, what="the leader")
        waiter = lab.wait_at(other, "led")
        begun = lab.now()
        leader.send_signal(signal.SIGKILL)
        times.append(lab.granted_after(waiter, begun))
        lab.wait_for(lambda: lab.keys_on(nodes, "led") == agent.status()["leases"] == 0, what="its end")
    note("kill -9 of redlock hold --linger %dms to the next grant: median %.0f ms, longest %.0f ms" % (
        LINGER_MS, lab.median(times), max(times)))
    ok(min(times) >= LINGER_MS,
       "redlock hold --linger that is killed: the name stays taken as long (%.0f ms)" %
       min(times))
    ok(min(times) < LINGER_MS + 300 * lab.SCALE, "and no longer")
    leader = lab.redlock(agent, "hold", "--linger", "60s", "led")
    lab.wait_for(leads, what="the leader")
    waiter = lab.wait_at(other, "led")
    begun = lab.now()
    leader.terminate()
    ok(lab.granted_after(waiter, begun) < 1000 * lab.SCALE, "after SIGTERM redlock hold releases at once")
    status, _, said = lab.redlock_run(agent, "hold", "--linger", "soon", "led")
    ok(status == 64 and "--linger soon" in said, "an invalid linger is refused: %s" % said.strip())


def end_as_a_grant_comes(word, *command):
    """Just before the agent gets this word, it grants the lease. The exit status; then the name is free."""
    holder, asker = agent.client(3), agent.client(3)
    identity = holder.acquire("late")["id"]
    granted = threading.Event()

    def states():
        return sorted(lease["state"] for lease in asker.call("LEASES") if lease["name"] == "late")

    def act():
        lab.wait_for(lambda: "waiting" in states(), what="the request")
        holder.call("RELEASE", identity)
        lab.wait_for(lambda: states() == ["held"], what="the grant")
        if word == b"OBSERVE":
            process.send_signal(signal.SIGTERM)
        granted.set()
    process = lab.redlock(lab.Between(agent, word, act), *command)
    if word != b"OBSERVE":
        lab.wait_for(lambda: "waiting" in states(), what="the request")
        process.send_signal(signal.SIGTERM)
    process.wait(20 * lab.SCALE)
    ok(granted.wait(10 * lab.SCALE), "the name is granted just before %s" % word.decode())
    grant = asker.acquire("late", "WAIT", 5000)
    for client in holder, asker:
        client.close()
    return process.returncode, "id" in grant


def test_ended_as_a_grant_comes():
    """A lease that nobody uses does not linger."""
    hold = ("hold", "--linger", "60s", "late")
    equal(end_as_a_grant_comes(b"RELEASE", *hold), (0, True),
          "redlock hold, ended while a grant comes, leaves no lease that lingers")
    equal(end_as_a_grant_comes(b"OBSERVE", *hold), (0, True), "nor while it begins to observe the leader")
    equal(end_as_a_grant_comes(b"RELEASE", "run", *hold[1:], "true"), (-signal.SIGTERM, True),
          "nor redlock run")


def test_hold_without_ready():
    manager = lab.Manager()
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        while sender.sendto(b"x", manager.address):
            pass
    except BlockingIOError:
        pass
    process = lab.redlock(agent, "hold", "--linger", "60s", "unready", env=manager.environment)
    equal(process.wait(20 * lab.SCALE), 71, "redlock hold whose service manager does not read READY=1: 71")
    client = agent.client()
    ok("id" in client.acquire("unready", "WAIT", 5000), "the lease does not linger")
    client.close()
    sender.close()
    manager.close()


main(test_killed, test_meanwhile, test_released, test_released_by_a_client_that_stops_sending,
     test_released_at_the_end, test_released_while_no_agent_runs, test_longer_than_the_ttl, test_resumed,
     test_agent_dies, test_hold, test_ended_as_a_grant_comes, test_hold_without_ready, test_release_command)
