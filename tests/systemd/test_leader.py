"""Leader election on three machines with one quorum: the led service runs on one of them at a time, through
failovers of all kinds. The service itself tells an overlap: its runs hold a lock on a file that the machines
share, and write down their fencing tokens. When a run has ended is seen from outside."""

import json
import os
import select
import signal
import statistics
import sys
import threading
import time

import machine
import network
from machine import Machine, lab
from tap import equal, main, note, ok, skip

TTL_MS = 2000
LINGER_MS = 100  # of the unit
CONFIG = 'max_ttl = "5s"\ndefault_ttl = "2s"\nquarantine = no\n'

# Each run writes "begin HOST INSTANT TOKEN", or "OVERLAP HOST INSTANT TOKEN" when another one goes on.
LED = """#!/bin/sh
at=$(date +%s.%N)
exec 9>>/nodes/led.lock
if flock --nonblock 9; then what=begin; else what=OVERLAP; fi
text=$(systemctl show --value --property StatusText redlock-leader@led.service)
token=${text##*token }
echo "$what $(hostname) $at ${token%%,*}" >>/nodes/record
exec sleep infinity
"""


def set_up():
    global net, hosts, nodes
    machine.set_up()
    net = network.Network()
    lab._ends.insert(0, net.remove)
    nodes = [network.Node(net, name) for name in "abcde"]
    hosts = [boot(name) for name in ("one", "two", "three")]
    for host in hosts:
        host.must("systemctl", "enable", "--now", "redlock-leader@led.target")


def boot(name):
    host = Machine(name, net)
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
    _, name, began, _ = record()[count]
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


class End:
    """Of the led service's run on this host: when the last of its processes is gone, by the wall clock."""

    def __init__(self, host):
        self.pidfds = [os.pidfd_open(pid) for pid in host.processes("led.service")]
        self.at = None
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()

    def _wait(self):
        try:  # the instant is to be that of the end, not that when a busy machine lets us look
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            pass
        for pidfd in self.pidfds:
            ended = select.poll()
            ended.register(pidfd, select.POLLIN)
            ended.poll(60000)
            os.close(pidfd)
        self.at = time.time()

    def wait(self):
        self.thread.join()
        return self.at


def test_followers_start():
    """As the manual says, on hosts that don't lead."""
    leader, _ = leader_after(len(record()) - 1)
    others = [host for host in hosts if host is not leader]
    for host in others:
        host.must("systemctl", "disable", "--now", "redlock-leader@led.target")
        equal(host.show("redlock-leader@led.service", "ActiveState"), "inactive",
              "disable --now: a host takes no part any more")
        begun = time.time()
        status, said = host.run("systemctl", "enable", "--now", "redlock-leader@led.target")
        ok(status == 0 and "timed out" not in said and time.time() - begun < 1.5,
           "enable --now on a follower: done, without waiting (%.0f ms)" % ((time.time() - begun) * 1e3))
        wait_follows(host)
    for host in hosts:
        equal(host.run("systemctl", "is-active", "redlock-leader@led.target")[1].strip(), "active",
              "whoever leads, the target is active")
    host = others[0]
    status, said = host.run("systemctl", "start", "redlock-leader@led.service")
    ok(status != 0 and "timed out" in said, "who starts the service itself waits two seconds for the lease")
    wait_follows(host)
    equal(host.must("systemctl", "is-system-running", "--wait").strip(), "running",
          "and nothing else waits for it")
    enabled = host.must("systemctl", "is-enabled", "redlock-leader@led.target", "redlock-leader@led.service")
    equal(enabled.split(), ["enabled", "enabled"], "what is enabled is both")


def fail_over(what, act, times, settle):
    """Lets the leader fail so many times. The seconds until the next run began, from before the failure.
    Between that and the end of the run before it lies some time."""
    gaps, ends, apart = [], [], []
    for _ in range(times):
        count = len(record())
        leader, _ = leader_after(count - 1)
        end = End(leader)
        begun = time.time()
        act(leader)
        _, began = leader_after(count)
        gaps.append(began - begun)
        ends.append(end.wait() - begun)
        apart.append(began - end.at)
        settle(leader)
    note("%s: the next run began after %.0f ms (median), %.0f ms (longest), of %d" % (
        what, statistics.median(gaps) * 1e3, max(gaps) * 1e3, times))
    note("%s: the last one ended after %.0f ms, %.0f ms (longest); between them %.0f ms, %.0f ms (least)" % (
        what, statistics.median(ends) * 1e3, max(ends) * 1e3, statistics.median(apart) * 1e3,
        min(apart) * 1e3))
    ok(min(apart) > 0, "%s: each run ended before the next one began" % what)
    return gaps


def wait_follows(leader):
    """It waits for the lease, and not for its restart."""
    lab.wait_for(lambda: leader.show("redlock-leader@led.service", "SubState") == "start", 20,
                 "the former leader to follow")


def start_again(leader):
    leader.must("systemctl", "start", "redlock-leader@led.target")
    wait_follows(leader)


def test_clean_stop():
    gaps = fail_over("a clean stop", lambda leader: leader.must(
        "systemctl", "stop", "redlock-leader@led.target"), 24, start_again)
    ok(statistics.median(gaps) < 0.5, "a clean stop hands over at once")


def test_killed_holder():
    def kill(leader):
        for pid in leader.processes("system-redlock\\x2dleader.slice/redlock-leader@led.service"):
            os.kill(pid, signal.SIGKILL)

    gaps = fail_over("kill -9 of the holder", kill, 24, wait_follows)
    ok(min(gaps) > LINGER_MS / 1e3, "kill -9 of the holder: the lease lingers (at least %.0f ms)" %
       (min(gaps) * 1e3))
    ok(statistics.median(gaps) < LINGER_MS / 1e3 + 0.4, "then it is handed over at once")


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
        host.must("systemctl", "enable", "--now", "redlock-leader@led.target")
        wait_follows(host)

    gaps = fail_over("a power cut", cut, 6, again)
    ok(max(gaps) < TTL_MS / 1e3 + 0.5, "a power cut: another leads after at most ttl + 500 ms (%.0f ms)" % (
        max(gaps) * 1e3))


def ask(host, what):
    return json.loads(host.must("redlock", what, "--json"))


def deadline_seen(host):
    """The lease's deadline (CLOCK_BOOTTIME, seconds), as its agent says to the last; waits until it is
    over."""
    deadline = 0
    while True:
        asked = lab.now()
        held = [lease for lease in ask(host, "leases") if lease["state"] in ("held", "at-risk")]
        if not held:
            return deadline
        deadline = max(deadline, asked + held[0]["validity"] / 1e3)


def lose_network(what, lose, times, most_ms=TTL_MS):
    """The leader's host loses its network: its run ends before its lease does."""
    spare = []

    def act(leader):
        end = End(leader)
        lose(leader)
        deadline = deadline_seen(leader)
        spare.append(deadline - (lab.now() - time.time() + end.wait()))

    def mend(leader):
        net.heal()
        lab.wait_for(lambda: ask(leader, "status")["voting"] == len(nodes), 20, "the nodes")
        wait_follows(leader)

    gaps = fail_over(what, act, times, mend)
    note("%s: stopped %.0f ms (median), %.0f ms (least) before the lease's end" % (
        what, statistics.median(spare) * 1e3, min(spare) * 1e3))
    ok(min(spare) > 0, "%s: the service has stopped before the lease ends" % what)
    ok(max(gaps) < most_ms / 1e3 + 0.5, "%s: another leads after at most %.0f + 500 ms (%.0f ms)" % (
        what, most_ms, max(gaps) * 1e3))


def test_network_lost():
    lose_network("a link that is down", lambda leader: net.cut(leader.port), 8)


def test_network_lost_one_way():
    if net.why_lossless:
        skip("a network that loses one way", net.why_lossless)
        return
    lose_network("a host that is not heard", lambda leader: net.lose(network.unheard(leader.port)), 4)
    # The nodes do what it asks for as long as it does not give its connections up: it has the lease no more,
    # but they have its keys.
    lose_network("a host that hears nothing", lambda leader: net.lose(network.to(leader.port)), 4,
                 2 * TTL_MS)


def test_job_given_up():
    """The lease is granted just before the two seconds that the job of a start has: here the time between,
    usually some milliseconds, is three seconds long."""
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.service")
    host, count = hosts[0], len(record())
    drop_in = "/etc/systemd/system/redlock-leader@led.service.d/slow.conf"
    host.write(drop_in, "[Service]\nExecStartPost=sleep 3\n")
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    equal(leader_after(count)[0], host,
          "a lease that is granted while the job is given up: the service runs all the same")
    host.must("rm", drop_in)
    host.must("systemctl", "daemon-reload")
    for host in hosts[1:]:
        host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")


def test_service_missing():
    """One host cannot start the service: it does not keep others from leading."""
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.service")
    lacking, count = hosts[0], len(record())
    lacking.must("mv", "/etc/systemd/system/led.service", "/root/")
    lacking.must("systemctl", "daemon-reload")
    lacking.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    first = lacking.show("redlock-leader@led.service", "InvocationID")
    lab.wait_for(lambda: lacking.show("redlock-leader@led.service", "InvocationID") != first, 10,
                 "its restart")
    for host in hosts[1:]:
        host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    ok(leader_after(count)[0] in hosts[1:], "where the service can't be started, the lease is let go of")
    lacking.must("mv", "/root/led.service", "/etc/systemd/system/")
    lacking.must("systemctl", "daemon-reload")


def test_never_two():
    overlaps = [line for line in record() if line[0] != "begin"]
    equal(overlaps, [], "in %d runs never two at a time" % len(record()))
    tokens = [int(line[3]) for line in record()]
    ok(all(one < next for one, next in zip(tokens, tokens[1:])), "and each has a larger fencing token")
    for _ in range(10):  # the next one is stopped just when it begins to lead
        for host in hosts:
            host.must("systemctl", "stop", "redlock-leader@led.target")
        equal([runs(host) for host in hosts], [False] * 3, "stopped everywhere it runs nowhere")
        for host in hosts:
            host.must("systemctl", "start", "redlock-leader@led.target")
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.target")


reason = machine.why_not() or network.why_none()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_one_leader, test_followers_start, test_clean_stop, test_killed_holder, test_agent_killed,
     test_agent_hangs, test_power_cut, test_network_lost, test_network_lost_one_way, test_job_given_up,
     test_service_missing, test_never_two)
