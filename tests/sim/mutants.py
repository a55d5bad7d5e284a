"""mutants.py [--runs N] [--sample N] [--seed N] [--only PATH] [--directory PATH]: makes mutants of the pure
layers (schemata.py), runs the simulator on each and the unit tests on those that it misses, and prints both
scores and the survivors.

All mutants are in one build; --directory keeps it for the next time. What --runs schedules do not reach
without a mutant, or never at the bound that it moves, is not run with it. tests/sim/mutations.py has bugs
that people chose; this script finds gaps that neither covers. equivalents.py has the mutants that change
nothing that anybody could see; survivors.txt those that survived, with the reason."""

import argparse
import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

from equivalents import EQUIVALENTS, is_equivalent, matches
from schemata import schema_of

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MUTATED = ("agent/core/", "agent/local/")
CPU_SECONDS_PER_RUN = 0.01  # several times the usual: a longer run hangs
UNIT_CPU_SECONDS = 5
FAST_CPU_SECONDS = 0.3  # of a unit test: with --gaps faster ones run before the simulator

SURVIVORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "survivors.txt")

Outcome = collections.namedtuple("Outcome", "killer text")  # "simulator", "unit tests" or None


class Build:
    """A copy of the sources, with all mutants in it."""

    def __init__(self, directory):
        self.directory, self.build = directory, os.path.join(directory, "build")
        self.mutants = []
        self.unit_tests, self.units_of = [], collections.defaultdict(list)
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout.split("\n")
        files = sorted(path for path in listed if os.path.isfile(os.path.join(SOURCE, path)))
        mutated = [path for path in files if path.startswith(MUTATED) and path.endswith((".c", ".h"))]
        for path in files:
            self.copy(path, 1 + mutated.index(path) if path in mutated else None)
        self.compile()

    def copy(self, path, number):
        """Unless the copy is the same, so that ninja compiles what has changed."""
        with open(os.path.join(SOURCE, path), "rb") as file:
            content = file.read()
        if number:
            text, mutants = schema_of(path, content.decode(), number)
            self.mutants += mutants
            content = text.encode()
        if path == "agent/base/hash.c":  # in every program
            content += b'\n#include "mutant-choice.c"\n'
        target = os.path.join(self.directory, "source", path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    return
        with open(target, "wb") as file:
            file.write(content)

    def compile(self):
        source = os.path.join(self.directory, "source")
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            header = os.path.join(source, "tests", "sim", "mutant.h")
            subprocess.run(["meson", "setup", self.build, source, "-Dwarning_level=0", "-Ddebug=false",
                            "-Doptimization=2",
                            "-Dc_args=-w -I%s -include %s" % (os.path.dirname(header), header)],
                           check=True, stdout=sys.stderr)
        subprocess.run(["ninja", "-C", self.build, "build.ninja"], check=True, stdout=sys.stderr)
        tests = json.loads(subprocess.run(["meson", "introspect", self.build, "--tests"], check=True,
                                          capture_output=True).stdout)
        self.unit_tests = [test for test in tests if any(suite.endswith(":unit") for suite in test["suite"])]
        programs = [os.path.relpath(test["cmd"][0], self.build) for test in self.unit_tests]
        subprocess.run(["ninja", "-C", self.build, "tests/sim/redlock-sim", *programs], check=True,
                       stdout=sys.stderr)

    def run(self, command, number, cpu_seconds, reached=None, variables=None):
        environment = dict(os.environ, REDLOCK_MUTANT=str(number), **(variables or {}))
        if reached:
            environment["REDLOCK_MUTANT_REACHED"] = reached
        try:
            return subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=environment,
                cwd=self.directory, timeout=20 * cpu_seconds, preexec_fn=lambda: limit(cpu_seconds))
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -9, "", "")

    def reached_by(self, command, cpu_seconds, variables=None):
        """The mutants that this command reaches; None: it fails without any."""
        with tempfile.NamedTemporaryFile() as file:
            if self.run(command, 0, cpu_seconds, file.name, variables).returncode != 0:
                return None
            return {int(line) for line in file.read().split()}

    def simulate(self, number, runs):
        """How the simulator kills this mutant; None: not."""
        done = self.run([os.path.join(self.build, "tests/sim/redlock-sim"), "--runs", str(runs),
                         "--expect-violation"], number, int(5 + runs * CPU_SECONDS_PER_RUN))
        if done.returncode == 1:
            return None
        return "after %s schedules" % done.stdout.strip() if done.returncode == 0 else \
            "by signal %d" % -done.returncode

    def reach_by_units(self):
        for test in self.unit_tests:
            before_s = os.times().children_user
            reached = self.reached_by(test["cmd"], UNIT_CPU_SECONDS, test["env"])
            assert reached is not None, "%s fails without mutants" % test["name"]
            for number in reached:
                self.units_of[number].append(test)
            test["cpu_s"] = os.times().children_user - before_s

    def test(self, mutant, kills, least_cpu_s=0, most_cpu_s=UNIT_CPU_SECONDS):
        """A unit test that fails with this mutant; None: none does. Those that killed others of this file
        run first, then the fast ones."""
        for test in sorted(self.units_of[mutant.number], key=lambda test: (
                -kills[mutant.path, test["name"]] / (0.01 + test["cpu_s"]), test["cpu_s"])):
            if not least_cpu_s <= test["cpu_s"] < most_cpu_s:
                continue
            if self.run(test["cmd"], mutant.number, UNIT_CPU_SECONDS, variables=test["env"]).returncode != 0:
                kills[mutant.path, test["name"]] += 1
                return test["name"]
        return None


def limit(cpu_seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judge(build, chosen, runs, gaps):
    """Each mutant with its outcome."""
    simulator = [os.path.join(build.build, "tests/sim/redlock-sim"), "--runs", str(runs)]
    reached = build.reached_by(simulator, int(5 + runs * CPU_SECONDS_PER_RUN))
    kills = collections.Counter()
    assert reached, "the simulator fails without mutants"
    build.reach_by_units()
    for mutant in chosen:
        if gaps and mutant.number not in reached and not build.units_of[mutant.number]:
            yield mutant, Outcome(None, "survived the simulator and the unit tests: none reaches it")
            continue
        if gaps and build.test(mutant, kills, most_cpu_s=FAST_CPU_SECONDS):
            yield mutant, Outcome("unit tests", "killed by a unit test")
            continue
        how = build.simulate(mutant.number, runs) if mutant.number in reached else None
        if how:
            yield mutant, Outcome("simulator", "killed " + how)
            continue
        seen = "" if mutant.number in reached else ", which does not reach it"
        name = build.test(mutant, kills, least_cpu_s=FAST_CPU_SECONDS if gaps else 0)
        if name:
            yield mutant, Outcome("unit tests", "survived the simulator%s; killed by %s" % (seen, name))
        else:
            untested = "" if build.units_of[mutant.number] else "; no unit test reaches it"
            yield mutant, Outcome(None, "survived the simulator" + seen + untested)


def survivors_in(path, mutants):
    """By their text: lines and numbers may have changed since."""
    with open(path) as file:
        lines = [line for line in file if "survived" in line and "killed" not in line]
    return [mutant for mutant in mutants
            if any(line.startswith(mutant.path + ":") and ": %s: %s: " % (mutant.kind, mutant.text) in line
                   for line in lines)]


def known_survivors():
    """The reason of each, by its file, its kind, and the beginning of its text."""
    with open(SURVIVORS) as file:
        rows = [line.rstrip("\n").split(" | ", 3) for line in file if not line.startswith("#")]
    return {(path, kind, text): reason for reason, path, kind, text in rows}


def print_survivors(results):
    """How many survived for each reason, and those that have none yet."""
    known, reasons = known_survivors(), collections.Counter()
    for mutant, outcome in results:
        if outcome.killer:
            continue
        reason = next((known[key] for key in known if key[:2] == (mutant.path, mutant.kind)
                       and mutant.text.startswith(key[2])), None)
        reasons[reason or "not in survivors.txt"] += 1
        if not reason:
            print("not in survivors.txt: %s:%d: %s: %s" % (mutant.path, mutant.line, mutant.kind,
                                                           mutant.text))
    for reason, count in reasons.most_common():
        print("%4d %s" % (count, reason))


def print_scores(results):
    """By file and by kind."""
    print("\n%-44s simulator  with unit tests  of" % "")
    groups = collections.defaultdict(list)
    for mutant, outcome in results:
        groups[mutant.path].append(outcome.killer)
        groups["(%s)" % mutant.kind].append(outcome.killer)
        groups["all"].append(outcome.killer)
        groups["all of " + "/".join(mutant.path.split("/")[:2])].append(outcome.killer)
    for name, killers in sorted(groups.items(), key=lambda group: ("/" not in group[0], group[0])):
        simulator, count = killers.count("simulator"), len(killers)
        both = simulator + killers.count("unit tests")
        print("%-44s %4d %3d %%  %6d %3d %% %7d" % (name, simulator, 100 * simulator // count, both,
                                                    100 * both // count, count))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000, help="schedules for each mutant")
    parser.add_argument("--sample", type=int, help="so many mutants, at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="", help="files whose path has this")
    parser.add_argument("--directory", help="of the build")
    parser.add_argument("--gaps", action="store_true",
                        help="run the fast unit tests first, which is faster, and measures both together")
    parser.add_argument("--again", metavar="LOG", help="only those that survived in this output")
    parser.add_argument("--number", type=int, help="this mutant alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="redlock-mutants-") as temporary:
        build = Build(os.path.abspath(options.directory or temporary))
        for entry in EQUIVALENTS:
            assert any(matches(entry, mutant) for mutant in build.mutants), "no such mutant: %s" % (entry,)
        mutants = [mutant for mutant in build.mutants if options.only in mutant.path and
                   not is_equivalent(mutant) and options.number in (None, mutant.number)]
        if options.again:
            mutants = survivors_in(options.again, mutants)
        if options.sample and options.sample < len(mutants):
            mutants = random.Random(options.seed).sample(mutants, options.sample)
        results = []
        for mutant, outcome in judge(build, mutants, options.runs, options.gaps):
            print("%s:%d: %d: %s: %s: %s" % (mutant.path, mutant.line, mutant.number, mutant.kind,
                                             mutant.text, outcome.text))
            sys.stdout.flush()
            results.append((mutant, outcome))
    print_scores(results)
    print_survivors(results)


main()
