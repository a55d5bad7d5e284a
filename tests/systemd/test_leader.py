"""Leader election on three machines with one quorum: the led service runs on one of them at a time, through
failovers of all kinds. The service itself tells an overlap: its runs hold a lock on a file that the machines
share."""

import os
import statistics
import sys

import machine
from machine import Machine, Node, lab
from tap import equal, main, note, ok

TTL_MS = 2000
CONFIG = 'max_ttl = "5s"\ndefault_ttl = "2s"\nquarantine = no\n'

# Each run writes "begin HOST INSTANT", or "OVERLAP HOST INSTANT" when another one goes on.
LED = """#!/bin/sh
now() { cut -d' ' -f1 /proc/uptime; }
exec 9>>/nodes/led.lock
if flock --nonblock 9; then echo "begin $(hostname) $(now)" >>/nodes/record
else echo "OVERLAP $(hostname) $(now)" >>/nodes/record; fi
trap 'exit 0' TERM
while :; do sleep 3600 & wait $!; done
"""


def set_up():
    global hosts, nodes
    machine.set_up()
    nodes = [Node(name) for name in "abcde"]
    hosts = [boot(name) for name in ("one", "two", "three")]
    for host in hosts:
        host.must("systemctl", "enable", "--now", "--no-block", "redlock-leader@led.service")


def boot(name):
    host = Machine(name)
    prepare(host)
    return host


def prepare(host):
    host.must("systemd-sysusers", "/usr/local/lib/sysusers.d/redlockd.conf")
    host.configure(nodes, CONFIG)
    host.write("/usr/local/bin/led", LED, "755")
    host.write("/etc/systemd/system/led.service", "[Service]\nExecStart=/usr/local/bin/led\n")
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "redlockd.socket", "redlockd.service")


def record():
    try:
        with open(os.path.join(machine.SHARED, "record")) as file:
            return [line.split() for line in file]
    except FileNotFoundError:
        return []


def leader_after(count):
    """The host of the run that began after this many, and when it did."""
    lab.wait_for(lambda: len(record()) > count, 20, "another leader")
    _, name, began = record()[count]
    return next(host for host in hosts if host.name == name), float(began)


def status_of(host):
    return host.show("redlock-leader@led.service", "StatusText")


def runs(host):
    return host.run("systemctl", "is-active", "led.service")[1].strip() in ("active", "deactivating")


def test_one_leader():
    leader, _ = leader_after(0)
    equal([runs(host) for host in hosts].count(True), 1, "of three machines one runs the service")
    ok("lead" in status_of(leader), "its status says that it leads: %s" % status_of(leader))
    other = hosts[(hosts.index(leader) + 1) % 3]
    lab.wait_for(lambda: leader.name in status_of(other), 10, "the status of a follower")
    ok(True, "a follower's status says who leads: %s" % status_of(other))


def fail_over(what, act, times, settle):
    """Lets the leader fail so many times. The seconds until the next run began, from before the failure."""
    gaps = []
    for _ in range(times):
        count = len(record())
        leader, _ = leader_after(count - 1)
        begun = lab.now()
        act(leader)
        _, began = leader_after(count)
        gaps.append(began - begun)
        settle(leader)
    note("%s: median %.0f ms, longest %.0f ms, of %d" % (
        what, statistics.median(gaps) * 1e3, max(gaps) * 1e3, times))
    return gaps


def wait_follows(leader):
    lab.wait_for(lambda: leader.show("redlock-leader@led.service", "ActiveState") == "activating", 20,
                 "the former leader to follow")


def start_again(leader):
    leader.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    wait_follows(leader)


def test_clean_stop():
    gaps = fail_over("a clean stop", lambda leader: leader.must(
        "systemctl", "stop", "redlock-leader@led.service"), 24, start_again)
    ok(statistics.median(gaps) < 0.5, "a clean stop hands over at once")


def test_killed_holder():
    gaps = fail_over("kill -9 of the holder", lambda leader: leader.must(
        "systemctl", "kill", "--signal=KILL", "--kill-who=main", "redlock-leader@led.service"), 16,
                     wait_follows)
    ok(statistics.median(gaps) < 1, "kill -9 of the one that holds the lease hands over at once")


def test_agent_killed():
    count = len(record())
    leader, _ = leader_after(count - 1)
    for _ in range(5):
        pid = leader.show("redlockd.service", "MainPID")
        leader.must("systemctl", "kill", "--signal=KILL", "redlockd.service")
        lab.wait_for(lambda: leader.show("redlockd.service", "MainPID") not in ("0", pid) and
                     leader.show("redlockd.service", "ActiveState") == "active", 10, "another agent")
        lab.wait_for(lambda: "led" in leader.run("redlock", "leases")[1], 10, "the lease at the new agent")
    ok(runs(leader) and len(record()) == count, "kill -9 of the leader's agent changes nothing (five times)")


def test_agent_hangs():
    """Neither extended nor told: the holder sees to it itself, and stops the service before the deadline."""
    def hang(leader):
        leader.must("systemctl", "kill", "--signal=STOP", "redlockd.service")

    def wake(leader):
        leader.run("systemctl", "kill", "--signal=CONT", "redlockd.service")
        wait_follows(leader)

    gaps = fail_over("an agent that hangs", hang, 4, wake)
    ok(max(gaps) < TTL_MS / 1e3 + 1.5, "an agent that hangs: another leads when the lease has ended")


def test_power_cut():
    def cut(leader):
        leader.crash()

    def again(leader):
        hosts[hosts.index(leader)] = host = boot(leader.name.split("-")[0])
        host.must("systemctl", "enable", "--now", "--no-block", "redlock-leader@led.service")
        wait_follows(host)

    gaps = fail_over("a power cut", cut, 6, again)
    ok(max(gaps) < TTL_MS / 1e3 + 0.5, "a power cut: another leads after at most ttl + 500 ms (%.0f ms)" % (
        max(gaps) * 1e3))


def test_never_two():
    overlaps = [line for line in record() if line[0] != "begin"]
    equal(overlaps, [], "in %d runs never two at a time" % len(record()))
    for _ in range(10):  # the next one is stopped just when it begins to lead
        for host in hosts:
            host.must("systemctl", "stop", "redlock-leader@led.service")
        equal([runs(host) for host in hosts], [False] * 3, "stopped everywhere it runs nowhere")
        for host in hosts:
            host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.service")


reason = machine.why_not()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_one_leader, test_clean_stop, test_killed_holder, test_agent_killed, test_agent_hangs,
     test_power_cut, test_never_two)
