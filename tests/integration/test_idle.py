"""The cost of an idle agent: wake-ups, CPU time, memory."""

import os
import time

import lab
from tap import main, note, skip, within

SECONDS = 9  # at least as long as the pause between two probes of the nodes
WINDOWS = 4  # at most: one of them may contain other work, such as the end of the start
SESSIONS = 5
CPU_PERCENT = 2  # an agent that never sleeps has no wake-ups either
MEMORY_MIB = 8
CONNECTIONS = 500
CONNECTION_KIB = 4

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED, keepers=1)  # the default: each keeper probes the nodes
agent.wait_voting(5)
clients = [agent.client() for _ in range(SESSIONS)]
for each in clients:
    each.call("PING")


def has_sanitizer(*inits):
    """Whether the agent is built with a sanitizer, by its initialiser."""
    with open(lab.REDLOCKD, "rb") as file:
        program = file.read()
    return any(init in program for init in inits)


def of_threads(name, number):
    """The sum of a number in /proc over the agent's threads."""
    directory, total = "/proc/%d/task" % agent.process.pid, 0
    for task in os.listdir(directory):
        with open(os.path.join(directory, task, name)) as file:
            total += number(file.read())
    return total


def wakeups():
    """Voluntary switches only: other programs of the machine cause the rest."""
    return of_threads("status", lambda text: int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0]))


def cpu_seconds():
    return of_threads("schedstat", lambda text: int(text.split()[0])) / 1e9


def test_sleeps():
    """A keeper probes its nodes every 9 to 10 s: one wake-up to send, and up to one for each reply."""
    what = "at most one wake-up a second"
    if has_sanitizer(b"__tsan_init"):
        skip(what, "the thread sanitizer of this build has a thread that wakes ten times a second")
        return
    woken, percent = [], []
    while len(woken) < WINDOWS and not (woken and min(woken) <= SECONDS and min(percent) <= CPU_PERCENT):
        begun, before, cpu = lab.now(), wakeups(), cpu_seconds()
        time.sleep(SECONDS)
        took = lab.now() - begun
        woken.append((wakeups() - before) * SECONDS / took)
        percent.append(100 * (cpu_seconds() - cpu) / took)
        note("%.1f wake-ups in %d s, %.3f %% of a core" % (woken[-1], SECONDS, percent[-1]))
    within(min(woken), 0, SECONDS, what)
    within(min(percent), 0, CPU_PERCENT, "percent of a core")


def memory_kib():
    with open("/proc/%d/status" % agent.process.pid) as file:
        return int(file.read().split("\nVmRSS:")[1].split()[0])


def test_memory():
    what = "MiB of memory (shared included), and KiB for a connection"
    if has_sanitizer(b"__asan_init", b"__tsan_init"):
        skip(what, "the sanitizer of this build has memory of its own")
        return
    before_kib = memory_kib()
    within(before_kib / 1024, 0, MEMORY_MIB, "MiB of memory (shared included)")
    idle = [agent.client() for _ in range(CONNECTIONS)]
    for each in idle:
        each.call("PING")
    each_kib = (memory_kib() - before_kib) / CONNECTIONS
    within(each_kib, 0, CONNECTION_KIB, "KiB for a connection without a lease")
    for each in idle:
        each.close()


main(test_sleeps, test_memory)
