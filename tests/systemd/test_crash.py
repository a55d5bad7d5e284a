"""Connections and leases outlive the agent's process under systemd: kill -9, watchdog, restart, and new
limits."""

import json
import os
import subprocess
import sys

import machine
from machine import Machine, Node, lab
from tap import equal, main, note, ok, within

CONFIG = 'max_ttl = "10s"\ndefault_ttl = "10s"\nquarantine = no\n'
SOCKET = "/run/redlockd/redlockd.sock"
CLIENTS, LEASES = 50, 20


def set_up():
    global host, nodes
    machine.set_up()
    nodes = [Node(name) for name in "abc"]
    host = Machine("crash")
    host.must("systemd-sysusers", "/usr/local/lib/sysusers.d/redlockd.conf")
    host.configure(nodes, CONFIG)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.py")) as file:
        host.write("/run/clients.py", file.read())
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "redlockd.service")


def main_pid():
    return int(host.show("redlockd.service", "MainPID"))


def wait_replaced(pid):
    lab.wait_for(lambda: main_pid() not in (0, pid) and
                 host.show("redlockd.service", "ActiveState") == "active", 30, "another agent")


class Clients:
    """50 connections with 20 long leases each, and a series of short leases."""

    def __init__(self):
        self.process = lab.spawn(
            host.command("python3", "/run/clients.py", SOCKET, str(CLIENTS), str(LEASES), "10000"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        out = self.process.communicate("", timeout=120 * lab.SCALE)[0]
        return json.loads(out)


def stored():
    return int(host.show("redlockd.service", "NFileDescriptorStore"))


def test_kills():
    clients = Clients()
    lab.wait_for(lambda: stored() >= CLIENTS + 1, 10, "the connections in the store")
    loaded = lab.now()
    gaps = []
    for _ in range(20):
        pid = main_pid()
        begun = lab.now()
        host.must("kill", "-KILL", str(pid))
        wait_replaced(pid)
        gaps.append(lab.now() - begun)
    lab.wait_for(lambda: lab.now() > loaded + 10.5, 15, "the end of leases that were not extended")
    seen = clients.end()
    equal(seen["problems"], [],
          "20 times kill -9 with %d leases on %d connections: no lease is lost, no connection is closed" % (
              CLIENTS * LEASES, CLIENTS))
    ok(seen["answers"] > 1000, "under load (%d answers)" % seen["answers"])
    note("the longest wait for an answer: %.0f ms, for %s" % (seen["longest_ms"], seen["longest"]))
    note("from kill to active %.0f ms (median), %.0f at most" % (sorted(gaps)[10] * 1000, max(gaps) * 1000))
    within(seen["longest_ms"], 0, 8000 * lab.SCALE, "the longest wait for an answer, in ms")
    said = host.must("journalctl", "--no-pager", "-u", "redlockd.service")
    equal(said.count("%d connections with " % CLIENTS) >= 19, True,
          "each agent logs the adopted connections")
    equal(said.count("Assertion"), 0, "no agent crashed by itself")


def test_other_ends():
    """Restarts by the watchdog and by an administrator."""
    clients = Clients()
    lab.wait_for(lambda: stored() >= CLIENTS + 1, 10, "the connections in the store")
    pid = main_pid()
    host.must("systemctl", "restart", "redlockd.service")
    wait_replaced(pid)
    host.configure(nodes, CONFIG + 'node_timeout = "50ms"\nmax_sessions = "2000"\n')
    pid = main_pid()
    host.must("systemctl", "restart", "redlockd.service")
    wait_replaced(pid)
    seen = clients.end()
    equal(seen["problems"], [], "restarts, with another configuration too: no lease is lost")
    note("the longest wait for an answer: %.0f ms" % seen["longest_ms"])
    host.configure(nodes, CONFIG.replace("10s", "15s"))
    host.must("systemctl", "restart", "redlockd.service")
    begun = lab.spawn(host.command("redlock", "run", "-t", "15s", "hung", "--", "cat"),
                      stdin=subprocess.PIPE)
    lab.wait_for(lambda: "hung" in host.run("redlock", "leases")[1], 10, "the lease")
    pid = main_pid()
    host.must("kill", "-STOP", str(pid))
    wait_replaced(pid)
    ok(True, "the watchdog replaces an agent that hangs")
    lab.wait_for(lambda: "hung" in host.run("redlock", "leases")[1], 10, "the lease at the next one")
    begun.communicate(b"", timeout=40 * lab.SCALE)
    equal(begun.returncode, 0, "its leases go on")


def test_stop():
    """A stop empties the descriptor store, and ends each lease."""
    holder = lab.spawn(host.command("redlock", "run", "stopped", "--", "sleep", "1000"),
                       stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: "stopped" in host.run("redlock", "leases")[1], 10, "the lease")
    host.must("systemctl", "stop", "redlockd.socket", "redlockd.service")
    equal(stored(), 0, "systemctl stop empties the store")
    ok(holder.wait(40 * lab.SCALE) != 0, "the holder's command ends with its lease")


reason = machine.why_not()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_kills, test_other_ends, test_stop)
