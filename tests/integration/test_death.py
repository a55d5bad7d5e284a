"""Holders and waiters that die, disconnect, or leave a child process."""

import os
import signal
import socket
import subprocess
import sys
import time

import lab
from tap import begins, equal, main, note, ok

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED)
other = lab.Agent(nodes, lab.UNHURRIED)

HOLDER = """
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'ACQUIRE ' + sys.argv[2].encode() + b' TTL 10000 WAIT -1\\r\\n')
assert s.recv(4096).startswith(b'*'), 'granted'
if sys.argv[3] == 'fork':
    s.set_inheritable(True)
    child = os.fork()
    if child == 0:
        time.sleep(60); os._exit(0)
    print(child, flush=True)
else:
    print('held', flush=True)
time.sleep(60)
"""


def holder(name, how="plain"):
    process = lab.spawn([sys.executable, "-c", HOLDER, agent.socket_path, name, how], stdout=subprocess.PIPE,
                        text=True)
    return process, process.stdout.readline().strip()


def kill_to_grant(waiting_agent, rounds):
    times = []
    for i in range(rounds):
        name = "killed %d" % i
        name = name.replace(" ", "-")
        process, _ = holder(name)
        waiter = waiting_agent.client()
        waiter.send("ACQUIRE", name, "WAIT", -1)
        lab.wait_for(lambda: waiting_agent.status()["waiters"] == 1, what="the waiter")
        begun = lab.now()
        process.kill()
        grant = lab.as_map(waiter.reply())
        times.append(1000 * (lab.now() - begun))
        assert isinstance(grant, dict), grant
        process.wait()
        waiter.close()
    return times


def test_next_local_waiter():
    times = kill_to_grant(agent, 20)
    note("kill -9 to grant, local waiter: median %.1f ms, longest %.1f ms" % (lab.median(times), max(times)))
    ok(lab.median(times) < 20 * lab.SCALE,
       "kill -9 of a holder: the next local waiter has the lease within 20 ms (median of 20)")


def test_next_remote_waiter():
    times = kill_to_grant(other, 20)
    note("kill -9 to grant, waiter on another agent: median %.1f ms, longest %.1f ms" %
         (lab.median(times), max(times)))
    ok(lab.median(times) < 100 * lab.SCALE,
       "kill -9 of a holder: a waiter on another agent has the lease within 100 ms (median of 20)")


def test_forked_child():
    process, child = holder("inherited", "fork")
    waiter = agent.client()
    waiter.send("ACQUIRE", "inherited", "WAIT", -1)
    begun = lab.now()
    process.kill()
    process.wait()
    grant = lab.as_map(waiter.reply())
    ok(isinstance(grant, dict) and lab.now() - begun < 1 * lab.SCALE,
       "a forked child with the descriptor does not keep its dead parent's lease")
    os.kill(int(child), signal.SIGKILL)
    waiter.close()


def test_dead_before_accepted():
    """The agent finds the connection when the process that opened it has ended, but not that one's child."""
    agent.stop()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        own = socket.socket(socket.AF_UNIX)
        own.connect(agent.socket_path)
        own.sendall(b"ACQUIRE early WAIT -1\r\n")
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)  # until the test ends
        os._exit(0)
    os.close(reader)
    os.waitpid(pid, 0)
    agent.cont()
    client = agent.client()
    begun = lab.now()
    ok("id" in lab.as_map(client.acquire("early", "WAIT", 20000)) and lab.now() - begun < 5 * lab.SCALE,
       "a process that ended before its connection was accepted holds no lease")
    client.close()
    os.close(writer)


def test_half_close():
    client = agent.client()
    client.acquire("half closed")
    client.socket.shutdown(socket.SHUT_WR)
    lab.wait_for(lambda: lab.keys_on(nodes, "half closed") == 0, what="the release")
    ok(True, "closing the sending side releases the lease")
    asker = agent.client()
    asker.send_raw(b"STATUS\r\n")
    asker.socket.shutdown(socket.SHUT_WR)
    ok(isinstance(asker.reply(), list), "but a request sent before gets its reply")
    waiter_blocked = agent.client()
    holding = agent.client()
    holding.acquire("half waiting")
    waiter_blocked.send("ACQUIRE", "half waiting", "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    waiter_blocked.socket.shutdown(socket.SHUT_WR)
    lab.wait_for(lambda: agent.status()["waiters"] == 0, what="the end of the waiter")
    ok(True, "a waiter that closes its sending side is withdrawn")
    holding.close()


def test_waiters_leave_nothing():
    holding = other.client()
    holding.acquire("left")
    gone, late = agent.client(), agent.client()
    gone.send("ACQUIRE", "left", "WAIT", -1)
    begins(late.acquire("left", "WAIT", 300), "TIMEOUT", "a waiter behind another one times out on its own")
    gone.close()
    lab.wait_for(lambda: agent.status()["waiters"] == 0, what="the end of the waiters")
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of former leases")
    equal(lab.as_map(late.call("LEASES")), {}, "LEASES doesn't list them")
    holding.close()
    lab.wait_for(lambda: lab.keys_on(nodes, "left") == 0, what="the end of the keys")
    ok(True, "no key is left on any node")
    late.close()


def cpu_ticks():
    with open("/proc/%d/stat" % agent.process.pid) as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))


def test_abrupt_closes():
    before = agent.status()["sessions"]
    for _ in range(1000):
        client = agent.client()
        client.send("ACQUIRE", "abrupt", "WAIT", -1)
        client.close()
    lab.wait_for(lambda: agent.status()["sessions"] <= before, what="the end of the sessions")
    lab.wait_for(lambda: lab.keys_on(nodes, "abrupt") == 0, what="the end of the keys")

    def idle_second():
        first = cpu_ticks()
        time.sleep(1)
        return cpu_ticks() - first <= 10

    ok(lab.wait_for(idle_second, what="an idle second"), "after a thousand abrupt closes the agent is idle")
    most = 60 + agent.keepers * len(nodes)  # subscriptions are closed a little later
    lab.wait_for(lambda: len(os.listdir("/proc/%d/fd" % agent.process.pid)) < most, what="few descriptors")
    ok(True, "and has closed their descriptors")


main(test_next_local_waiter, test_next_remote_waiter, test_forked_child, test_dead_before_accepted,
     test_half_close,
     test_waiters_leave_nothing,
     test_abrupt_closes)
