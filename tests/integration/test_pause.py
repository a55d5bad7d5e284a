"""Processes that are stopped and continued: clients, and the agent itself, for longer than the ttl."""

import os
import signal
import subprocess
import sys

import lab
from tap import begins, equal, main, ok

nodes = lab.nodes(3)


def test_stopped_client():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    code = ("import socket, sys, time\ns = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "s.sendall(b'ACQUIRE paused TTL 5000\\r\\n'); assert s.recv(4096)[:1] == b'*'\n"
            "print('held', flush=True)\n"
             "time.sleep(60)\n")
    process = lab.spawn([sys.executable, "-c", code, agent.socket_path], stdout=subprocess.PIPE, text=True)
    equal(process.stdout.readline(), "held\n", "a process holds a lease")
    process.send_signal(signal.SIGSTOP)
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 3, seconds=30, what="extensions")
    client = agent.client()
    begins(client.acquire("paused"), "BUSY", "a stopped client without a heartbeat keeps its lease")
    process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()
    ok("id" in client.acquire("paused", "WAIT", 10000), "until the client dies")
    agent.terminate()


def test_stopped_agent():
    def values():
        return {node.call("GET", "agent paused") for node in nodes}

    first, second = (lab.Agent(nodes, lab.UNHURRIED) for _ in range(2))
    holder, contender = first.client(3), second.client()
    grant = holder.acquire("agent paused", "TTL", 2000)
    first.stop()
    other = contender.acquire("agent paused", "WAIT", 10000)
    ok(isinstance(other, dict),
       "when the agent is stopped for longer than the ttl, another agent acquires the name")
    ok(lab.now() * 1e9 >= grant["deadline"], "after the first holder's deadline")
    # The first value may remain on one node until an extension writes the second one.
    lab.wait_for(lambda: len(values()) == 1 and None not in values(), what="one value on all nodes")
    before = values()
    first.cont()
    push = holder.push("lost")
    equal(push[1:3], [grant["id"], "paused"],
          "the first holder gets lost, with the reason, when its agent continues")
    equal(holder.call("CHECK", grant["id"]), 0, "CHECK returns 0")
    ok(isinstance(holder.call("LEADER", "agent paused"), dict),
       "LEADER asks the nodes, after everything sent before, and finds a holder")
    ok(contender.call("CHECK", other["id"]) > 0, "the second holder's lease is valid")
    equal(values(), before, "the first agent has not changed its keys")
    first.terminate()
    second.terminate()


def test_stopped_for_a_moment():
    agent = lab.Agent(nodes)
    client = agent.client(3)
    grant = client.acquire("moment", "TTL", 8000, "WAIT", 10000)
    agent.stop()
    lab.wait_for(lambda: lab.now() * 1e9 > grant["deadline"] - 4e9, what="half of the ttl")
    agent.cont()
    lab.wait_for(lambda: client.call("CHECK", grant["id"]) > 6000 or None, what="an extension")
    ok(True, "an agent stopped for less than the ttl extends the lease and keeps it")
    agent.terminate()


main(test_stopped_client, test_stopped_agent, test_stopped_for_a_moment)
