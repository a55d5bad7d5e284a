"""The work of tests/run: builds the legs, runs their tests, shows progress, and sums up."""

import argparse
import concurrent.futures
import contextlib
import ctypes
import difflib
import fcntl
import glob
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time

import summary

# CONTRIBUTING.md has the purpose of each leg. `minutes`: about the time of the leg's usual tests on two
# cores; with --all, `all_minutes`. `rest`: what is built if other tests than the usual ones may run.
LEGS = {
    "gcc": {"compiler": "gcc", "sanitize": "none", "minutes": 8, "all_minutes": 12},
    "clang": {"compiler": "clang", "sanitize": "none", "minutes": 0.5, "all_minutes": 10},
    "address": {"compiler": "gcc", "sanitize": "address", "minutes": 5, "all_minutes": 15},
    "thread": {"compiler": "gcc", "sanitize": "thread", "minutes": 4, "all_minutes": 15,
               "rest": ["all", "unit-programs"]},
    "fuzz": {"compiler": "clang", "sanitize": "fuzz", "minutes": 1, "all_minutes": 4,
             "build": ["fuzz-programs"]},
}
SYSTEMD_MINUTES = 5
LONG_MINUTES = 20  # the tests of the suite `long` that wait
LONG_AT_A_TIME = 3     # tests that load the machine for minutes;
WAITING_AT_A_TIME = 6  # tests that mostly wait run beside each other,
JOINT_LEGS = "clang", "address", "thread"  # and so do these legs, with one place more for each further leg
IDLE, NICE = 19, 10    # for tests that only compute, and builds beside tests; for other legs beside gcc's
DURATIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "durations.txt")
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
UNKNOWN_SECONDS = 3.0

HELP = """tests/run [--all] [--leg LEG]... [NAME...]
    Install what is missing, build, and run the tests. Without arguments: the usual tests of all legs, as CI
    does.
    NAME...      only these tests (nodes, test-resp; or their files), with gcc unless --leg says
                 otherwise
    --leg LEG    only this leg: gcc, clang, address, thread or fuzz
    --quick      the same as --leg gcc
    --all        also what takes long: every test in every leg, a million schedules, all mutations,
                 Debian 13
    --list       the names of the tests
    --record     write how long each test took to tests/tools/durations.txt, for estimates
tests/run --debian13 [NAME...]
    The last commit's tests with gcc in a Debian 13, which is made and kept for this purpose."""

started = time.monotonic()
running = []


def say(text):
    print(text, flush=True)


def clock(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


def fail_usage(text):
    print("tests/run: %s\n%s" % (text, HELP), file=sys.stderr)
    sys.exit(64)


def build_directory(leg):
    return "build-%s-%s" % (LEGS[leg]["compiler"], LEGS[leg]["sanitize"])


def ninja(leg, is_usual, *options):
    targets = LEGS[leg].get("build", []) if is_usual else LEGS[leg].get("rest", LEGS[leg].get("build", []))
    return ["ninja", "-C", build_directory(leg), *options, *targets]


def read_durations():
    """The recorded time of each program of each leg."""
    with open(DURATIONS) as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    return {(leg, name): float(seconds) for leg, name, seconds in rows}


def meson_test(leg):
    return ["meson", "test", "-C", build_directory(leg), "--no-rebuild"]


class Progress:
    """A line a test program, with the time so far and an estimate of the rest."""

    def __init__(self, minutes):
        self.minutes = dict(minutes)  # of each part, as planned
        self.done = dict.fromkeys(self.minutes, 0.0)  # the share that is done
        self.usual_seconds = read_durations()
        self.seconds = {}  # of each program of each leg, now

    def left_seconds(self):
        planned = sum(self.minutes.values())
        done = sum(self.minutes[part] * self.done[part] for part in self.minutes)
        elapsed = time.monotonic() - started
        pace = max(0.2, min(5.0, elapsed / (done * 60))) if done > planned / 10 else 1.0
        return (planned - done) * 60 * pace

    def expected(self, leg, names):
        return sum(self.usual_seconds.get((leg, name), UNKNOWN_SECONDS) for name in names)

    def line(self, part, share, text):
        self.done[part] = share
        say("%-8s %s · %s so far, about %d min left" % (
            part, text, clock(time.monotonic() - started), -(-self.left_seconds() // 60)))

    def record(self):
        kept = {key: seconds for key, seconds in self.usual_seconds.items()
                if key[0] not in {leg for leg, _ in self.seconds}}
        with open(DURATIONS, "w") as file:
            file.write("# leg, test, seconds: written by tests/run --record, read for estimates only\n")
            for (leg, name), seconds in sorted({**kept, **self.seconds}.items()):
                file.write("%s %s %.1f\n" % (leg, name, seconds))


def listed(leg, *selection):
    """The names of the tests that this selection runs."""
    done = subprocess.run([*meson_test(leg), "--list", *selection], text=True, capture_output=True)
    return [line.rsplit(" ", 1)[-1].rsplit(":", 1)[-1] for line in done.stdout.splitlines() if " / " in line]


def become_idle():
    """For a build: little of the time that others want, see tests/tools/yielding; and ends with this
    program."""
    os.setsid()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
        file.write(str(IDLE))
    os.nice(IDLE)


def yielding(nice):
    """Options of `meson test`: little of the time that others want."""
    return ["--wrapper", "%s %d" % (os.path.abspath("tests/tools/yielding"), nice)]


def run_meson(leg, part, arguments, logbase, progress, nice=0, every=False, at_a_time=WAITING_AT_A_TIME):
    """One `meson test`; its lines as progress."""
    environment = dict(os.environ)
    if every:
        environment["REDLOCK_TEST_ALL"] = "1"
    left = set(listed(leg, *arguments))
    planned = max(progress.expected(leg, left), 0.1)
    process = subprocess.Popen(
        [*meson_test(leg), "--logbase", logbase, "--num-processes",
         str(at_a_time), *(yielding(nice) if nice else []), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    running.append(process)
    other = []
    for line in process.stdout:
        found = re.match(r" *(\d+)/(\d+) \S*?:?(\S+) / (\S+) +([A-Z]+) +([\d.]+)s", line)
        if not found:
            other.append(line)
            continue
        number, count, _, name, result, seconds = found.groups()
        left.discard(name)
        progress.seconds[leg, name] = float(seconds)
        word = result.lower() if result in ("OK", "SKIP") else result
        progress.line(part, 1 - progress.expected(leg, left) / planned, "%3d/%-3s %-34s %-4s %6.1f s" % (
            int(number), count, name, word, float(seconds)))
    process.wait()
    running.remove(process)
    progress.done[part] = 1.0
    for path in glob.glob(log_path(leg, logbase + "-yielding")[:-len("json")] + "*"):
        os.replace(path, path.replace("-yielding.", "."))  # meson adds the wrapper's name
    if not os.path.exists(log_path(leg, logbase)):
        say("".join(other))


def log_path(leg, logbase):
    return os.path.join(build_directory(leg), "meson-logs", logbase + ".json")


class Leg:
    """A build, locked: two runs in one tree share it while there is nothing to build."""

    def __init__(self, name, is_usual):
        self.name = name
        self.is_usual = is_usual  # only the usual tests run
        self.directory = build_directory(name)
        self.built = False
        self.ready = threading.Event()  # the build has ended
        self.lock = open(self.directory + ".lock", "w")

    def take(self, how):
        try:
            fcntl.flock(self.lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            say("%s: another tests/run uses %s: waiting for it" % (self.name, self.directory))
            fcntl.flock(self.lock, how)

    def is_fresh(self):
        if not os.path.exists(os.path.join(self.directory, "build.ninja")):
            return False
        dry = subprocess.run(ninja(self.name, self.is_usual, "-n"), capture_output=True, text=True)
        return dry.returncode == 0 and "no work to do" in dry.stdout

    def build(self, before=None):
        """`before`: called in each process of the build."""
        self.take(fcntl.LOCK_SH)
        self.built = self.is_fresh()
        if not self.built:
            self.take(fcntl.LOCK_EX)
            self.built = self._build(before)
            self.take(fcntl.LOCK_SH)
        say("%-8s %s in %s · %s so far" % (self.name, "built" if self.built else "NOT BUILT", self.directory,
                                           clock(time.monotonic() - started)))
        self.ready.set()

    def _build(self, before):
        if not os.path.exists(os.path.join(self.directory, "build.ninja")):
            sanitizer = LEGS[self.name]["sanitize"]
            # With a sanitizer gcc needs a third less time for -O1.
            options = ["-Dsanitize=" + sanitizer, "-Dwerror=true",
                       "-Doptimization=" + ("2" if sanitizer == "none" else "1")]
            done = subprocess.run(["meson", "setup", self.directory, *options], text=True,
                                  capture_output=True, env=dict(os.environ, CC=LEGS[self.name]["compiler"]),
                                  preexec_fn=before)
            if done.returncode != 0:
                say(done.stdout + done.stderr)
                return False
        done = subprocess.run(ninja(self.name, self.is_usual), text=True, capture_output=True,
                              preexec_fn=before)
        if done.returncode != 0:
            say(done.stdout + done.stderr)
        return done.returncode == 0


def arguments():
    parser = argparse.ArgumentParser(add_help=False)
    parser.error = fail_usage
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--leg", action="append", default=[])
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.help:
        say(HELP)
        sys.exit(0)
    for leg in given.leg:
        if leg not in LEGS:
            fail_usage("no leg is called %s" % leg)
    given.leg = given.leg or (["gcc"] if given.quick or given.names or given.list else list(LEGS))
    return given


def resolved(name, known):
    """The test's name, for one that is given as a file or without `test-` as well; None: unknown."""
    stem = os.path.splitext(os.path.basename(name))[0]
    for candidate in name, stem, stem.removeprefix("test_"), "test-" + stem:
        if candidate in known:
            return candidate
    return None


def known_names(names, legs):
    """The names of these tests; ends the program when there is an unknown one."""
    built = [leg.name for leg in legs if leg.built]
    if not built:
        return names
    known = set().union(*(listed(leg) for leg in built))
    unknown = [name for name in names if not resolved(name, known)]
    for name in unknown:
        near = sorted({test for test in known if name in test}
                      | set(difflib.get_close_matches(name, known, 3)))
        print("tests/run: no test is called %s%s; tests/run --list has all names" % (
            name, ": did you mean %s?" % " or ".join(near[:5]) if near else ""), file=sys.stderr)
    if unknown:
        sys.exit(64)
    return [resolved(name, known) for name in names]


def places_of(expected):
    """How many tests of each leg run at a time, where these legs run beside each other."""
    if len(expected) == 1:
        return dict.fromkeys(expected, WAITING_AT_A_TIME)
    places, whole = WAITING_AT_A_TIME + len(expected) - 1, max(sum(expected.values()), 0.1)
    return {leg: min(max(2, round(places * seconds / whole)), places - 2)
            for leg, seconds in expected.items()}


def run_debian13():
    process = subprocess.Popen(["tests/debian13"])
    running.append(process)
    return process.wait()


def run_legs(legs, given, logbase):
    """The tests of all legs: gcc's, then those of the other compiler and the sanitizers beside each other.
    Parts of gcc's leg run beside them: tests that only compute, on idle cores, from the beginning on; and
    after its other tests those with systemd, which wait for minutes, and those that take long. The last
    tests that measure times leave a core idle, for the fuzzers. With --all Debian 13 comes last. Returns the
    logs with their legs, and the exit statuses of what has no logs."""
    divided = [leg for leg in legs if leg.name == "gcc" and leg.built and not given.names]
    minutes = {leg.name: LEGS[leg.name]["all_minutes" if given.all else "minutes"] for leg in legs}
    logs, beside, debian13 = [(leg.name, logbase) for leg in legs], [], []
    if divided:
        minutes.update({"compute": 1, "systemd": SYSTEMD_MINUTES, "long": LONG_MINUTES if given.all else 0})
    progress = Progress(minutes)

    def log_of(leg, part):
        base = "%s-%s" % (logbase, part)
        logs.append((leg, base))
        return base

    def run_part(part, selection, nice=0, at_a_time=LONG_AT_A_TIME):
        run_meson("gcc", part, selection, log_of("gcc", part), progress, nice, given.all, at_a_time)

    def run_systemd():
        run_part("systemd", ["--suite", "systemd", "--no-suite", "long"])
        if given.all:
            run_part("long", ["--suite", "long", "--no-suite", "compute"])

    def selection(leg):
        chosen = [] if given.all else ["--suite", "usual"]
        for elsewhere in ("compute", "long", "systemd") if leg in divided else ():
            chosen += ["--no-suite", elsewhere]
        return chosen

    def run_leg(leg, names, at_a_time, base=logbase, nice=NICE):
        run_meson(leg.name, leg.name, names, base, progress,
                  nice if divided and leg not in divided else 0, given.all, at_a_time)

    def run_fuzzers():
        for leg in legs:
            if leg.name == "fuzz" and leg.ready.wait() and leg.built:
                run_leg(leg, given.names or selection(leg), 2, nice=IDLE)

    def run_together(together, is_last):
        """What measures times runs after the rest, one test after the other."""
        names = {leg: given.names or selection(leg) + ["--no-suite", "measuring"] * (len(together) > 1)
                 for leg in together}
        places = places_of({leg.name: progress.expected(leg.name, listed(leg.name, *names[leg]))
                            for leg in together})
        for part in [pool.submit(run_leg, leg, names[leg], places[leg.name]) for leg in together]:
            part.result()
        if is_last:
            beside.append(pool.submit(run_fuzzers))
        measuring = ["--suite", "measuring" if given.all else "usual-measuring"]
        for leg in together if len(together) > 1 and not given.names else []:
            if listed(leg.name, *measuring):
                run_leg(leg, measuring, 1, log_of(leg.name, "measuring"))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        if divided:
            computing = ["--suite", "compute"] + ([] if given.all else ["--no-suite", "long"])
            beside.append(pool.submit(run_part, "compute", computing, IDLE, 2 if given.all else 1))
        groups = [list(group) for _, group in itertools.groupby(
            [leg for leg in legs if leg.name != "fuzz"], key=lambda leg: leg.name in JOINT_LEGS or leg.name)]
        for group in groups:
            built = [leg for leg in group if leg.ready.wait() and leg.built]
            run_together(built, is_last=group is groups[-1])
            if divided and built == divided:
                beside.append(pool.submit(run_systemd))
        if not groups:
            run_fuzzers()
        if given.all and divided and len(legs) == len(LEGS):
            debian13.append(pool.submit(run_debian13))
        for part in beside:
            part.result()
    if given.record:
        progress.record()
    return logs, [part.result() for part in debian13]


def stop(number, _):
    for process in running:
        process.terminate()
    say("tests/run: stopped by signal %d" % number)
    os._exit(128 + number)


def main():
    given = arguments()
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, stop)
    legs = [Leg(name, not given.all and not given.names) for name in given.leg]
    # gcc's tests mostly wait: the other legs are built meanwhile, on idle cores.
    first = 1 if legs[0].name == "gcc" and not given.names and not given.list else len(legs)
    for leg in legs[:first]:
        leg.build()
    threading.Thread(target=lambda: [leg.build(become_idle) for leg in legs[first:]], daemon=True).start()
    if given.list:
        say("\n".join(sorted(set().union(*(listed(leg.name) for leg in legs if leg.built)))))
        sys.exit(0)
    given.names = known_names(given.names, legs)
    logbase = "run-%d" % os.getpid()
    logs, debian13 = run_legs(legs, given, logbase)
    sums = summary.Summary()
    for leg, base in logs:
        sums.add_log(leg, log_path(leg, base))
    for leg, base in logs:
        for ending in ".json", ".txt", ".junit.xml":
            path = log_path(leg, base)[:-len(".json")] + ending
            if os.path.exists(path):
                os.replace(path, os.path.join(os.path.dirname(path), "testlog%s%s" % (
                    base[len(logbase):], ending)))
    for status in debian13:
        sums.add_status("debian13", status)
    say("%s in all" % clock(time.monotonic() - started))
    sys.exit(sums.show())


main()
