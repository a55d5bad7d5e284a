"""Clients in another time namespace than the agent, whose clocks differ by a constant."""

import subprocess
import time

import lab
from tap import equal, main, note, skip, within

TTL = 4
PROGRAM = """
import sys, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write("%.3f\\n" % time.clock_gettime(time.CLOCK_REALTIME))
    time.sleep(0.01)
"""


def uptime():
    with open("/proc/uptime") as file:
        return int(float(file.read().split()[0]))


def shifted(seconds):
    return ["unshare", "--time", "--boottime", str(seconds), "--fork", "--kill-child"]


def has_namespaces():
    return subprocess.run([*shifted(1), "true"], capture_output=True).returncode == 0


def last_output(path):
    with open(path) as file:
        return float(file.read().split()[-1])


def test_run():
    """`redlock run` stops the command before the lease expires, in any time namespace."""
    if not has_namespaces():
        skip("redlock run in time namespaces", "time namespaces are not available")
        return
    agent = lab.Agent(lab.nodes(3), lab.UNHURRIED)
    offsets = {"ahead": 5000, "a little ahead": 3 * TTL, "behind": -(uptime() // 2), "a little behind": -TTL}
    paths = {name: lab.path("life") for name in offsets}
    begun = lab.now()
    runs = {name: lab.spawn([*shifted(seconds), lab.REDLOCK, "--socket", agent.socket_path,
                             "run", "-t", "%ds" % TTL, name, "--",
                             "/usr/bin/python3", "-c", PROGRAM, paths[name]],
                            stderr=subprocess.DEVNULL)
            for name, seconds in offsets.items()}
    lab.wait_for(lambda: agent.status()["leases"] == len(runs) or any(r.poll() for r in runs.values()),
                 seconds=20, what="all leases")
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 4 * len(runs) or
                 any(r.poll() for r in runs.values()), seconds=30, what="extensions")
    for name, process in runs.items():
        equal(process.poll(), None, "the client whose clock is %s keeps its lease" % name)
    note("after %.1f s" % (lab.now() - begun))
    agent.stop()
    stopped = time.time()
    for name, process in runs.items():
        try:
            status = process.wait(10 * TTL * lab.SCALE)
            equal(status, 125, "%s: exit status 125 after the loss of the lease" % name)
        except subprocess.TimeoutExpired:
            equal("goes on", "ends", "%s: the command" % name)
            continue
        within(last_output(paths[name]) - stopped, -TTL, TTL + 0.1,
               "%s: the command ended before the lease" % name)
    agent.cont()
    agent.terminate()


main(test_run)
