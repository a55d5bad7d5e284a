"""Leader election on three machines with one quorum: the led service runs on one machine at a time, through
failovers of all kinds. The service itself detects an overlap: each run locks a file that the machines share,
and records its fencing token. The test observes the end of a run from outside."""

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
LINGER_MS = 3000  # of the unit
PATIENCE_S = 60  # for events whose time the test does not judge
# Less than the ttl, after which the next host leads in any case; half a second if the machine is not busy.
LATE_S = 0.5 if os.environ.get("REDLOCK_TEST_ALL") else 1.2
CONFIG = 'max_ttl = "10s"\ndefault_ttl = "2s"\nquarantine = no\n'
MANY = len(sys.argv) > 1  # one group of tests, 50 failovers of each kind: for the table in the manual
LEADER = "redlock-leader@led.service"
UNITS = "/usr/local/lib/systemd/system"
restarted = set()  # indexes of runs that are not the first of their lead

# Each run writes "begin HOST INSTANT TOKEN", or "OVERLAP HOST INSTANT TOKEN" while another run goes on.
LED = """#!/bin/sh
at=$(date +%s.%N)
exec 9>>/nodes/led.lock
if flock --nonblock 9; then what=begin; else what=OVERLAP; fi
text=$(systemctl show --value --property StatusText redlock-leader@led.service)
token=${text##*token }
echo "$what $(hostname) $at ${token%%,*}" >>/nodes/record
exec sleep infinity
"""
# A generator that prolongs a daemon-reload.
SLOW = """#!/bin/sh
[ -e /run/slow ] || exit 0
seconds=$(cat /run/slow)
touch /run/reloading
sleep "$seconds"
"""


def times(few):
    return 50 if MANY else few


def set_up():
    global net, hosts, nodes
    machine.set_up()
    net = network.Network()
    lab._ends.insert(0, net.remove)
    nodes = [network.Node(net, name) for name in "abcde"]
    hosts = [boot(name) for name in ("one", "two", "three")]
    for host in hosts:
        host.must("systemctl", "enable", "--now", "redlock-leader@led.target")
    leader_after(0)


def boot(name):
    host = Machine(name, net)
    prepare(host)
    return host


def prepare(host):
    host.must("systemd-sysusers", "/usr/local/lib/sysusers.d/redlockd.conf")
    host.configure(nodes, CONFIG)
    host.write("/usr/local/bin/led", LED, "755")
    # PID 1 restarts the service unless PID 1 itself has stopped it.
    host.write("/etc/systemd/system/led.service",
               "[Service]\nExecStart=/usr/local/bin/led\nRestart=always\nRestartSec=0\n")
    host.write("/etc/systemd/system-generators/slow", SLOW, "755")
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "redlockd.socket", "redlockd.service")


def record():
    try:
        with open(os.path.join(machine.SHARED, "record")) as file:
            return [line.split() for line in file]
    except FileNotFoundError:
        return []


def leader_after(count):
    """The host of the run with this index, and the instant of its start."""
    lab.wait_for(lambda: len(record()) > count, PATIENCE_S, "another leader")
    _, name, began, _ = record()[count]
    return next(host for host in hosts if host.name == name), float(began)


def status_of(host):
    return host.show("redlock-leader@led.service", "StatusText")


def runs(host):
    return host.run("systemctl", "is-active", "led.service")[1].strip() in ("active", "deactivating")


def test_one_leader():
    leader, _ = leader_after(0)
    equal([runs(host) for host in hosts].count(True), 1, "one of three machines runs the service")
    ok("lead" in status_of(leader), "the leader's status: %s" % status_of(leader))
    other = hosts[(hosts.index(leader) + 1) % 3]
    lab.wait_for(lambda: leader.name in status_of(other), PATIENCE_S, "the status of a follower")
    ok(True, "a follower's status names the leader: %s" % status_of(other))


class End:
    """The end of the led service's run on this host: the wall-clock time when its last process is gone."""

    def __init__(self, host):
        self.pidfds = [os.pidfd_open(pid) for pid in host.processes("led.service")]
        self.at = None
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()

    def _wait(self):
        try:  # a busy machine must not delay the measurement
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
    """The commands of the manual, on hosts that don't lead."""
    leader, _ = leader_after(len(record()) - 1)
    others = [host for host in hosts if host is not leader]
    for host in others:
        host.must("systemctl", "disable", "--now", "redlock-leader@led.target")
        equal(host.show("redlock-leader@led.service", "ActiveState"), "inactive",
              "disable --now: the host no longer takes part")
        status, said = host.run("systemctl", "enable", "--now", "redlock-leader@led.target")
        wait_follows(host)
        started, waits = (int(host.show(unit, what + "TimestampMonotonic")) for unit, what in (
            ("redlock-leader@led.target", "ActiveEnter"), (LEADER, "InactiveExit")))
        ok(status == 0 and "timed out" not in said and started <= waits,
           "enable --now on a follower does not wait: the target is active %d us before the unit waits" % (
               waits - started))
    for host in hosts:
        equal(host.run("systemctl", "is-active", "redlock-leader@led.target")[1].strip(), "active",
              "the target is active on leader and followers")
    host = others[0]
    status, said = host.run("systemctl", "start", "redlock-leader@led.service")
    ok(status != 0 and "canceled" in said, "a start of the leader unit waits two seconds for the lease")
    wait_follows(host)
    equal(host.must("systemctl", "is-system-running", "--wait").strip(), "running",
          "no other job waits for the lease")
    enabled = host.must("systemctl", "is-enabled", "redlock-leader@led.target", "redlock-leader@led.service")
    equal(enabled.split(), ["enabled", "enabled"], "target and service are enabled")


def explain(gap, end, count):
    """Of a long one: what the next leader's agent recorded about its attempts."""
    note("%.0f ms, of which the previous run took %.0f:" % (gap * 1e3, end * 1e3))
    for line in leader_after(count)[0].run("redlock", "history", "led")[1].splitlines()[-40:]:
        note(line)


def fail_over(what, act, n, settle):
    """Lets the leader fail n times. Returns the seconds from each failure to the start of the next run.
    Fails if a run starts before the previous run has ended."""
    gaps, ends, apart = [], [], []
    for _ in range(n):
        count = len(record())
        leader, _ = leader_after(count - 1)
        end = End(leader)
        begun = time.time()
        act(leader)
        _, began = leader_after(count)
        ends.append(end.wait() - begun)
        apart.append(began - end.at)
        if began - begun > max([TTL_MS / 1e3 + 0.4, *gaps]):
            explain(began - begun, ends[-1], count)
        gaps.append(began - begun)
        settle(leader)
    note("%s: the next run began after %.0f ms (median), %.0f ms (longest), of %d" % (
        what, statistics.median(gaps) * 1e3, max(gaps) * 1e3, n))
    note("%s: the previous run ended after %.0f, %.0f ms (longest); between them %.0f, %.0f ms (least)" % (
        what, statistics.median(ends) * 1e3, max(ends) * 1e3, statistics.median(apart) * 1e3,
        min(apart) * 1e3))
    ok(min(apart) > 0, "%s: each run ended before the next run began" % what)
    return gaps


def follows(host):
    return host.show(LEADER, "SubState") == "start" and status_of(host).startswith("waiting for")


def wait_follows(leader):
    """The unit waits for the lease, not for its own restart. Or the host leads again, because it returned
    before the lease ended."""
    lab.wait_for(lambda: follows(leader) or (record()[-1][1] == leader.name and runs(leader)), PATIENCE_S,
                 "the former leader to follow")


def start_again(leader):
    leader.must("systemctl", "start", "redlock-leader@led.target")
    wait_follows(leader)


def test_clean_stop():
    gaps = fail_over("a clean stop", lambda leader: leader.must(
        "systemctl", "stop", "redlock-leader@led.target"), times(4), start_again)
    ok(statistics.median(gaps) < LATE_S, "after a clean stop the next host leads at once")


def processes(leader):
    return leader.processes("system-redlock\\x2dleader.slice/" + LEADER)


def kill_holder(leader):
    os.kill(int(processes(leader)[0]), signal.SIGKILL)


def kill_all(leader):
    """The guard first: otherwise it would react to the end of the holder."""
    for pid in reversed(processes(leader)):
        os.kill(pid, signal.SIGKILL)


def test_killed_holder():
    for what, kill in (("kill -9 of the holder", kill_holder),
                       ("kill -9 of the holder and its guard", kill_all)):
        gaps = fail_over(what, kill, times(2), wait_follows)
        ok(min(gaps) > LINGER_MS / 1e3, "%s: the lease lingers (at least %.0f ms)" % (what, min(gaps) * 1e3))
        ok(statistics.median(gaps) < LINGER_MS / 1e3 + LATE_S, "then the next host leads at once")


def guards(host):
    found = []
    try:
        for pid in processes(host):
            with open("/proc/%d/comm" % pid) as file:
                if file.read() == "redlock-guard\n":
                    found.append(pid)
    except OSError:  # the unit, or a process of it, has just ended, or ends
        pass
    return found


def killed_guard(leader):
    for pid in guards(leader):
        os.kill(pid, signal.SIGKILL)


def test_killed_guard():
    """A holder without its guard can't stop the service in time, so the holder gives up the lead."""
    fail_over("kill -9 of the guard", killed_guard, times(1), wait_follows)


def test_killed_guard_of_follower():
    """A host without a guard must not lead: its unit begins anew, with another guard."""
    leader, _ = leader_after(len(record()) - 1)
    follower = next(host for host in hosts if host != leader)
    wait_follows(follower)
    before = guards(follower)
    killed_guard(follower)
    lab.wait_for(lambda: guards(follower) not in ([], before), PATIENCE_S, "another guard")
    wait_follows(follower)
    ok("was killed" in follower.must("journalctl", "--no-pager", "--output=cat", "--unit=" + LEADER),
       "kill -9 of a follower's guard: the unit begins anew, and says why")
    equal(leader_after(len(record()) - 1)[0], leader, "and the leader leads on")


def keep_busy(host, seconds):
    """PID 1 starts a daemon-reload of this length, and does nothing else meanwhile."""
    host.must("sh", "-c", "rm -f /run/reloading; echo %g >/run/slow" % seconds)
    reload = lab.spawn(host.command("systemctl", "daemon-reload"))
    lab.wait_for(lambda: host.run("test", "-e", "/run/reloading")[0] == 0, PATIENCE_S, "the reload")
    host.must("rm", "/run/slow")
    return reload


def test_killed_in_reload():
    """PID 1 stops the service too late, after the daemon-reload: the guard kills it before."""
    def kill(leader):
        keep_busy(leader, 4.5)
        kill_holder(leader)

    def kill_with_guard(leader):
        keep_busy(leader, 2)
        kill_all(leader)

    fail_over("kill -9 of the holder in a reload of 4.5 s", kill, times(1), wait_follows)
    fail_over("kill -9 of holder and guard in a reload of 2 s", kill_with_guard, times(1), wait_follows)


def test_cut_in_reload():
    """The lease ends during the daemon-reload."""
    def hang(leader):
        keep_busy(leader, 5)
        for pid in leader.processes("redlockd.service"):
            os.kill(pid, signal.SIGSTOP)

    def cut(leader):
        keep_busy(leader, 5)
        net.cut(leader.port)

    def mend(leader):
        net.heal()
        wait_follows(leader)

    fail_over("an agent that hangs, in a reload of 5 s", hang, times(1), wait_follows)
    fail_over("a link that is down, in a reload of 5 s", cut, times(1), mend)


def test_definition_gone():
    """The definition of the leader unit is gone, and with it PropagatesStopTo=: the drop-in of the service
    remains."""
    def mask(leader):
        leader.must("systemctl", "mask", LEADER)
        leader.must("systemctl", "stop", LEADER)

    def unmask(leader):
        leader.must("systemctl", "unmask", LEADER)
        leader.must("systemctl", "restart", "redlock-leader@led.target")
        start_again(leader)

    def mask_and_kill(leader):
        leader.must("systemctl", "mask", LEADER)
        kill_all(leader)

    def remove(leader):
        leader.must("systemctl", "disable", "redlock-leader@led.target")
        leader.must("sh", "-c", "mkdir /root/units && mv %s/redlock-leader* /root/units" % UNITS)
        leader.must("systemctl", "daemon-reload")
        leader.must("systemctl", "stop", LEADER)

    def put_back(leader):
        leader.must("sh", "-c", "mv /root/units/* %s && rmdir /root/units" % UNITS)
        leader.must("systemctl", "daemon-reload")
        leader.must("systemctl", "enable", "redlock-leader@led.target")
        leader.must("systemctl", "restart", "redlock-leader@led.target")
        start_again(leader)

    fail_over("a masked unit that is stopped", mask, times(1), unmask)
    fail_over("a masked unit that is killed", mask_and_kill, times(1), unmask)
    fail_over("deleted units that are stopped", remove, times(1), put_back)


def test_agent_killed():
    """After test_watchdog_first, with its ttl of 10 s: the next agent is in time on a busy machine, too."""
    count = len(record())
    leader, _ = leader_after(count - 1)
    for _ in range(5):
        pid = leader.show("redlockd.service", "MainPID")
        leader.must("systemctl", "kill", "--signal=KILL", "redlockd.service")
        lab.wait_for(lambda: leader.show("redlockd.service", "MainPID") not in ("0", pid) and
                     leader.show("redlockd.service", "ActiveState") == "active", PATIENCE_S,
                     "another agent")
        lab.wait_for(lambda: "led" in leader.run("redlock", "leases")[1], PATIENCE_S,
                     "the lease at the new agent")
    ok(runs(leader) and len(record()) == count,
       "kill -9 of the leader's agent does not move the lead (five times)")


def test_agent_hangs():
    """The lease is neither extended nor reported as lost: the holder itself stops the service in time."""
    def hang(leader):
        leader.must("systemctl", "kill", "--signal=STOP", "redlockd.service")

    def wake(leader):
        leader.run("systemctl", "kill", "--signal=CONT", "redlockd.service")
        wait_follows(leader)

    gaps = fail_over("an agent that hangs", hang, times(1), wake)
    ok(max(gaps) < TTL_MS / 1e3 + 1 + LATE_S, "an agent that hangs: another host leads after the lease")


def test_power_cut():
    def cut(leader):
        leader.crash()

    def again(leader):
        hosts[hosts.index(leader)] = host = boot(leader.name.split("-")[0])
        host.must("systemctl", "enable", "--now", "redlock-leader@led.target")
        wait_follows(host)

    gaps = fail_over("a power cut", cut, times(2), again)
    ok(max(gaps) < TTL_MS / 1e3 + LATE_S,
       "a power cut: another host leads just after the ttl (%.0f ms)" % (max(gaps) * 1e3))


def ask(host, what):
    return json.loads(host.must("redlock", what, "--json"))


def deadline_seen(host):
    """The lease's last deadline (CLOCK_BOOTTIME, seconds) in the agent's listing. Waits until the lease has
    ended."""
    deadline = 0
    while True:
        asked = lab.now()
        held = [lease for lease in ask(host, "leases") if lease["state"] in ("held", "at-risk")]
        if not held:
            return deadline
        deadline = max(deadline, asked + held[0]["validity"] / 1e3)


def lose_network(what, lose, n, most_ms=TTL_MS):
    """The leader's host loses its network: the service stops before the lease ends."""
    spare = []

    def act(leader):
        end = End(leader)
        lose(leader)
        deadline = deadline_seen(leader)
        spare.append(deadline - (lab.now() - time.time() + end.wait()))

    def mend(leader):
        net.heal()
        lab.wait_for(lambda: ask(leader, "status")["voting"] == len(nodes), PATIENCE_S, "the nodes")
        wait_follows(leader)

    gaps = fail_over(what, act, n, mend)
    note("%s: stopped %.0f ms (median), %.0f ms (least) before the lease's end" % (
        what, statistics.median(spare) * 1e3, min(spare) * 1e3))
    ok(min(spare) > 0, "%s: the service has stopped before the lease ends" % what)
    ok(max(gaps) < most_ms / 1e3 + LATE_S, "%s: another host leads just after %.0f ms at most (%.0f ms)" % (
        what, most_ms, max(gaps) * 1e3))


def test_network_lost():
    lose_network("a link that is down", lambda leader: net.cut(leader.port), times(2))


def test_network_lost_one_way():
    if net.why_lossless:
        skip("a network that loses one direction", net.why_lossless)
        return
    lose_network("lost requests", lambda leader: net.lose(network.from_hosts(leader.port)), times(1))
    # The nodes execute the host's requests until the host closes its connections: the host no longer holds
    # the lease, but the nodes still have its keys.
    lose_network("lost replies", lambda leader: net.lose(network.to(leader.port)), times(1), 2 * TTL_MS)


def test_canceled_job():
    """The lease is granted just before the job of a start is canceled after two seconds. ExecStartPost=
    prolongs the time between grant and READY, some milliseconds, to three seconds."""
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.service")
    host, count = hosts[0], len(record())
    drop_in = "/etc/systemd/system/redlock-leader@led.service.d/slow.conf"
    host.write(drop_in, "[Service]\nExecStartPost=sleep 3\n")
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")
    equal(leader_after(count)[0], host,
          "a lease that is granted while the job is canceled: the service runs all the same")
    host.must("rm", drop_in)
    host.must("systemctl", "daemon-reload")
    for host in hosts[1:]:
        host.must("systemctl", "start", "--no-block", "redlock-leader@led.service")


def test_service_missing():
    """A host that can't start the service does not keep other hosts from leading."""
    for host in hosts:
        host.must("systemctl", "stop", LEADER)
    lacking, count = hosts[0], len(record())
    lacking.must("mv", "/etc/systemd/system/led.service", "/root/")
    lacking.must("systemctl", "daemon-reload")
    lacking.must("systemctl", "start", "--no-block", LEADER)
    lab.wait_for(lambda: "has failed here" in status_of(lacking), PATIENCE_S, "its pause")
    ok(True, "a host that can't start the service releases the lease: %s" % status_of(lacking))
    for host in hosts[1:]:
        host.must("systemctl", "start", "--no-block", LEADER)
    ok(leader_after(count)[0] in hosts[1:], "another host leads")
    lacking.must("mv", "/root/led.service", "/etc/systemd/system/")
    lacking.must("systemctl", "daemon-reload")
    lacking.must("systemctl", "restart", "--no-block", LEADER)
    wait_follows(lacking)


def let_fail(leader):
    """The service fails, and is not restarted."""
    leader.must("systemctl", "kill", "--signal=KILL", "led.service")


def test_service_fails():
    """Another host leads, and the pause of the failed host grows with each failure."""
    drop_in = "/etc/systemd/system/led.service.d/once.conf"
    for host in hosts:
        host.write(drop_in, "[Service]\nRestart=no\n")
        host.must("systemctl", "daemon-reload")

    def pauses(leader):
        lab.wait_for(lambda: "has failed here" in status_of(leader), PATIENCE_S, "its pause")

    def again(leader):
        pauses(leader)
        if MANY:
            leader.must("systemctl", "restart", "--no-block", LEADER)
            wait_follows(leader)

    first, _ = leader_after(len(record()) - 1)
    gaps = fail_over("a service that fails", let_fail, times(1), again)
    ok(statistics.median(gaps) < 2, "a service that fails: another host leads")
    if not MANY:
        ok("led.service has failed here 1 times" in status_of(first),
           "the status shows the failure: %s" % status_of(first))
        lab.wait_for(lambda: follows(first), 12, "the end of the pause")
        ok(True, "after the pause the host waits for the lease again")
    stay(leader_after(len(record()) - 1)[0])
    for host in hosts:
        host.must("rm", drop_in)
        host.must("systemctl", "daemon-reload")
        host.run("systemctl", "start", "--no-block", "redlock-leader@led.target")


def stay(leader):
    """The lead stays with the host of a stopped service; after a failure only with the setting for it."""
    count = len(record())
    leader.must("systemctl", "stop", "led.service")
    lab.wait_for(lambda: "led.service does not run" in status_of(leader), PATIENCE_S, "the status")
    ok(len(record()) == count and "leader since" in status_of(leader),
       "a stopped service: the lead stays, and the status shows it: %s" % status_of(leader))
    leader.must("systemctl", "start", "led.service")
    lab.wait_for(lambda: "does not run" not in status_of(leader), PATIENCE_S, "the status")
    equal(leader_after(count)[0], leader, "the service can be started again")
    restarted.add(count)
    leader.write("/etc/redlock/leader/led.conf", "REDLOCK_ON_FAILURE=stay\n")
    let_fail(leader)
    lab.wait_for(lambda: "led.service does not run" in status_of(leader), PATIENCE_S, "the status")
    equal(len(record()), count + 1, "with REDLOCK_ON_FAILURE=stay the lead stays after a failure too")
    leader.must("rm", "/etc/redlock/leader/led.conf")
    leader.must("systemctl", "restart", "--no-block", LEADER)
    leader_after(count + 1)


def test_watchdog_first():
    """With a ttl of 10 s the next agent starts before the holder gives up the lead."""
    for host in hosts:
        host.write("/etc/redlock/leader/led.conf", "REDLOCK_TTL=10s\n")
        host.must("systemctl", "restart", "--no-block", LEADER)
    lab.wait_for(lambda: [runs(host) for host in hosts].count(True) == 1 and
                 [follows(host) for host in hosts].count(True) == 2, PATIENCE_S, "a leader")
    count = len(record())
    leader, _ = leader_after(count - 1)
    for _ in range(times(2)):
        pid = leader.show("redlockd.service", "MainPID")
        leader.must("systemctl", "kill", "--signal=STOP", "redlockd.service")
        lab.wait_for(lambda: leader.show("redlockd.service", "MainPID") not in ("0", pid) and
                     leader.show("redlockd.service", "ActiveState") == "active", PATIENCE_S,
                     "another agent")
    lab.wait_for(lambda: "at risk" not in status_of(leader), PATIENCE_S, "the lease")
    ok(runs(leader) and len(record()) == count,
       "an agent that hangs, ttl 10 s: the lead stays (%d times)" % times(2))
    for host in hosts:
        host.must("rm", "/etc/redlock/leader/led.conf")


def since(host, cursor, *options):
    """The journal's lines after this cursor."""
    return host.must("journalctl", "--no-pager", "--quiet", "--output=cat", "--after-cursor=" + cursor,
                     *options)


def test_journal():
    """Followers log each change of the leader, and no errors."""
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.target")
    cursors = {}
    for host in hosts:
        said = host.must("journalctl", "--no-pager", "--show-cursor", "-n0")
        cursors[host] = said.strip().split("cursor: ")[-1]
    count = len(record())
    hosts[0].must("systemctl", "start", "redlock-leader@led.target")
    leader_after(count)
    for host in hosts[1:]:
        host.must("systemctl", "start", "redlock-leader@led.target")
        wait_follows(host)
    lab.wait_for(lambda: not any(host.show(LEADER, "Job") for host in hosts), PATIENCE_S,
                 "the end of their jobs")
    hosts[0].must("systemctl", "stop", "redlock-leader@led.target")
    leader_after(count + 1)
    tokens = [line[3] for line in record()[count:]]
    for host in hosts[1:]:
        lab.wait_for(lambda: "token " + tokens[1] in since(host, cursors[host]), PATIENCE_S,
                     "the second leader")
        changes = [line for line in since(host, cursors[host]).splitlines() if "token" in line]
        equal([line.rsplit(" ", 1)[1] for line in changes], tokens,
              "one line at each change of the leader: %s" % changes)
        entries = [json.loads(line) for line in since(host, cursors[host], "--output=json").splitlines()]
        equal([entry.get("REDLOCK_FENCE") for entry in entries if entry.get("REDLOCK_NAME") == "led" and
               entry["REDLOCK_EVENT"] in ("lead-begun", "leader-changed")],
              tokens, "with the token as a field")
        equal(since(host, cursors[host], "--priority=warning"), "", "no error")
    start_again(hosts[0])


def test_no_overlap():
    overlaps = [line for line in record() if line[0] != "begin"]
    equal(overlaps, [], "%d runs without an overlap" % len(record()))
    tokens = [int(line[3]) for at, line in enumerate(record()) if at not in restarted]
    ok(all(one < next for one, next in zip(tokens, tokens[1:])), "each run has a larger fencing token")
    for _ in range(10):  # the next host is stopped when it begins to lead
        for host in hosts:
            host.must("systemctl", "stop", "redlock-leader@led.target")
        equal([runs(host) for host in hosts], [False] * 3,
              "stopped on all hosts, the service runs on no host")
        for host in hosts:
            host.must("systemctl", "start", "redlock-leader@led.target")
    for host in hosts:
        host.must("systemctl", "stop", "redlock-leader@led.target")


reason = machine.why_not() or network.why_none()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
GROUPS = {
    "killed": [test_clean_stop, test_killed_holder, test_killed_guard, test_killed_guard_of_follower],
    "reload-killed": [test_killed_in_reload],
    "reload-cut": [test_cut_in_reload],
    "gone": [test_definition_gone],
    "lost": [test_agent_hangs, test_power_cut, test_network_lost, test_network_lost_one_way],
    "fails": [test_service_fails, test_watchdog_first],
}
if MANY:
    main(set_up, *GROUPS[sys.argv[1]], test_no_overlap)
main(set_up, test_one_leader, test_followers_start, *GROUPS["killed"], *GROUPS["reload-killed"],
     *GROUPS["reload-cut"], *GROUPS["gone"], *GROUPS["lost"], test_canceled_job,
     test_service_missing, *GROUPS["fails"], test_agent_killed, test_journal, test_no_overlap)
