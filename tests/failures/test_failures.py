"""Each call of the C library made to fail, in scenarios of the agent, the library and the command: the n-th,
for every n until a scenario passes without a fault.

    python3 tests/failures/test_failures.py [SCENARIO [FUNCTION [ERRNO]]]

A sample that the last commit selects, in 15 s, in REDLOCK_FAILURES_SECONDS, or in ten minutes with
REDLOCK_TEST_ALL. All faults with REDLOCK_FAILURES_SECONDS=all, which takes an hour, or with a SCENARIO
(a part of its description) unless a time is given. The program and all its processes must refuse in order,
retry, or end with a message; leases, other sessions and descriptors must be in order afterwards."""

import collections
import multiprocessing
import os
import random
import re
import subprocess
import sys
import traceback
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import calls  # noqa: E402
import commands  # noqa: E402
import lab  # noqa: E402
import served  # noqa: E402
import starts  # noqa: E402
from tap import main, note, ok  # noqa: E402

ONLY = sys.argv[1:]
GIVEN_S = os.environ.get("REDLOCK_FAILURES_SECONDS")
ALL = GIVEN_S == "all" or (bool(ONLY) and not GIVEN_S)
BUDGET_S = 0 if ALL else float(GIVEN_S or (600 if os.environ.get("REDLOCK_TEST_ALL") else 15))
CALLS_MAX = {"epoll_wait": 10, "recv": 60}  # the agent polls before it sleeps
REPEATS_MAX = 20  # calls after the last that a scenario without a fault makes
# libconfuse and the C library's name service do not check for NULL from malloc(3), and hiredis 0.14 ends the
# process then.
BEYOND = re.compile("cfg_|hi_([mc]alloc|realloc|strdup)|abort [^<]*< libhiredis|global_state_allocate|"
                    "nss_database_(reload|check_reload)")
# glibc's resolver remembers that this list once had no memory, and keeps its lock if its table had none: the
# process resolves no name again.
UNRESOLVED = re.compile("resolv_conf_array_add|get_locked_global")
# An agent that has no memory for as long as this ends, as redlockd(8) says: on a busy machine a scenario may
# take so long.
STARVED, STARVED_S = re.compile(r"the agent ended with 71: .*no memory for \d+ bytes within 1000 ms"), 1.0
# While these last, an agent answers in order that it can't serve.
UNSERVED = {("accept4", None), ("pidfd_open", None), ("pipe2", "start with host names")}
WORKERS = (os.cpu_count() or 1) * (4 if ALL else 2)  # they mostly wait
TROUBLES_MAX = 8  # of a scenario; then it ends
FAULTS_MIN = 3  # of a scenario, however long they take


def points_of(first, later, left_out):
    """All faults: function, errno, whether it lasts, the number of the first call that fails, whether only a
    fresh agent calls so often."""
    for function in sorted({*first, *later}):
        if len(ONLY) > 1 and ONLY[1] != function:
            continue
        for error in calls.ERRORS[function]:
            if (len(ONLY) > 2 and ONLY[2] != error) or (function, error) in left_out:
                continue
            often = later.get(function, 0)
            last = 1 if (function, error) in calls.FIRST else CALLS_MAX.get(function, often)
            for number in range(1, min(often, last) + 1):
                yield function, error, False, number, False
            if first.get(function, 0) > often and function not in CALLS_MAX:
                for number in range(1, 2 if (function, error) in calls.FIRST else first[function] + 1):
                    yield function, error, False, number, True
            if error in calls.LASTING and function in calls.TAKING:
                for power in range(often.bit_length() or 1):
                    yield function, error, True, 1 << power, False


def chosen(name, counts):
    points = list(points_of(*counts))
    if not ALL:
        source = os.path.dirname(os.path.abspath(__file__))
        commit = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True,
                                text=True).stdout
        random.Random(zlib.crc32((commit + name).encode())).shuffle(points)
    return points


class Result:
    def __init__(self, name):
        self.name = name
        self.faults = self.possible = 0
        self.beyond = 0  # processes that a library ended, or left without names, see BEYOND
        self.starved = 0  # agents that ended without memory, see STARVED
        self.functions = set()
        self.troubles = {}

    def add_trouble(self, text, where, exception):
        """One for each place in the program."""
        if not isinstance(exception, (served.Wrong, TimeoutError, ConnectionError)):
            text += "\n" + "".join(traceback.format_exception(exception))
        self.troubles.setdefault(text.split(":")[0] + where, "%s\n   %s" % (text, where))


def run_points(result, bench, scenario, seconds):
    """Faults until the time is over, but at least FAULTS_MIN: a slow machine may need the time for one."""
    counts = bench.learn(scenario)
    points = collections.deque(chosen(result.name, counts))
    last = {}
    for function, error, lasting, number, fresh in points:
        if not lasting and not fresh:
            last[function, error] = max(number, last.get((function, error), 0))
    most = {point: number if point in calls.FIRST or point[0] in CALLS_MAX else number + REPEATS_MAX
            for point, number in last.items()}
    result.possible = len(points)
    until = lab.now() + seconds
    while points:
        function, error, lasting, number, fresh = points.popleft()
        is_over = lab.now() > until and result.faults >= FAULTS_MIN and not ALL
        if is_over or len(result.troubles) >= TROUBLES_MAX:
            break
        if fresh:
            tidy(result, bench)
            bench.renew()
        bench.orders.give(function, number, error, lasting)
        begun, trouble = lab.now(), None
        try:
            bench.run(scenario[0])
        except Exception as exception:  # a hang is a TimeoutError
            is_unserved = lasting and UNSERVED & {(function, None), (function, result.name)}
            if not is_unserved or isinstance(exception, served.Wrong):
                trouble = exception
        lasted_s = lab.now() - begun
        seen, injected = bench.orders.end()
        if not trouble:
            try:
                bench.verify(scenario[1])
            except Exception as exception:
                trouble = exception
        if injected:
            result.faults += injected
            result.functions.add(function)
        # After a fault, a scenario may call more often than without: go on until it does not call so often.
        is_last = not lasting and not fresh and number == last[function, error]
        if injected and is_last and number < most[function, error]:
            last[function, error] = number + 1
            points.appendleft((function, error, False, number + 1, False))
            result.possible += 1
        if lasting and lasted_s > STARVED_S and STARVED.search(str(trouble)):
            result.starved += 1
            bench.renew()
        elif (trouble and "the agent ended with " in str(trouble) and BEYOND.search(bench.orders.where())
                or "can't find the address" in str(trouble) and UNRESOLVED.search(bench.orders.where())):
            result.beyond += 1
            bench.renew()
        elif trouble:
            result.add_trouble("%s: %s%s at call %d%s: %r" % (
                function, error, " from then on" if lasting else "", number,
                "" if injected else ", not reached", trouble), bench.orders.where(), trouble)
            bench.renew()
    tidy(result, bench)


def tidy(result, bench):
    try:
        bench.tidy()
    except Exception as exception:
        result.add_trouble("after several faults: %r" % exception, "", exception)


KINDS = {name: (kind, scenario) for kind, scenarios in (
    (served.Served, served.SCENARIOS), (served.Kept, served.KEPT), (served.OldKernel, served.OLD_KERNEL),
    (starts.Starts, starts.STARTS),
    (commands.Commands, commands.COMMANDS), (commands.Programs, commands.PROGRAMS))
    for name, scenario in scenarios.items()}


class PathNode:
    """A node by its Unix socket."""

    def __init__(self, node):
        self.node, self.name, self.port = node, node.name, node.port
        self.address = "unix:" + node.socket_path

    def call(self, *items):
        return self.node.call(*items)


def work(nodes, tasks, results, seconds):
    lab.directory = os.path.join(lab.directory, "worker-%d" % os.getpid())  # each process numbers its paths
    os.mkdir(lab.directory)
    benches = {}
    for name in iter(tasks.get, None):
        result = Result(name)
        kind, scenario = KINDS[name]
        try:
            if kind not in benches:
                benches[kind] = kind(nodes)
            run_points(result, benches[kind], scenario, seconds)
        except Exception:
            result.troubles["test"] = traceback.format_exc()
            if kind in benches:
                benches.pop(kind).end()
        results.put(result)
    for bench in benches.values():
        bench.end()


def test_failures():
    names = [name for name in KINDS if not ONLY or ONLY[0] in name]
    tasks, results = multiprocessing.Queue(), multiprocessing.Queue()
    for name in names + [None] * WORKERS:
        tasks.put(name)
    seconds = BUDGET_S * WORKERS / len(names) / 1.25
    # Each has nodes of its own: some scenarios cut the nodes' connections.
    workers = [multiprocessing.Process(target=work, args=(
        [PathNode(node) for node in lab.nodes(3, kind=lab.TcpNode)], tasks, results, seconds))
               for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    faults = possible = beyond = starved = 0
    for _ in names:
        result = results.get()
        faults += result.faults
        possible += result.possible
        beyond += result.beyond
        starved += result.starved
        ok(not result.troubles and result.faults > 0, "%s: %d faults in %d functions, of %d" % (
            result.name, result.faults, len(result.functions), result.possible))
        for trouble in result.troubles.values():
            for line in trouble.splitlines():
                note(line)
    for worker in workers:
        worker.join()
    note("%d faults were injected, of %d; %d ended a process within a library, and %d an agent that had no "
         "memory for a second" % (faults, possible, beyond, starved))


main(test_failures)
