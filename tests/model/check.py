#!/usr/bin/env python3
"""check.py [--all] [NAME…]: the rows of rows.txt through Spin, with REDLOCK_TEST_ALL the slow ones, too, and
with --all each; prints TAP. Green rows must be searched to the end without a violation. A red one has the
switches of a green one, and one more that takes one part of the rule away: it must violate what it says."""

import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, note, ok  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 4000  # of one search; two run at a time
SECONDS = 1500

# See the head of fence.pml.
BREAKS = ("INCREMENT", "NO_RAISE", "ANYBODY", "NO_DEADLINE", "EQUAL", "ANY_RAISE", "NO_QUARANTINE",
          "NO_FLOOR", "NO_RESERVE")
PROBES = ("REACH", "REACH_FAR")
ASSERTIONS = {"EXCLUSION": "holders<=", "GROWING": ">largest)", "GROWING_SINCE": ">largest_before[",
              "DISTINCT": "granted_", "REACH": "raises[a]<", "REACH_FAR": "was_far["}

Row = collections.namedtuple("Row", "name outcome of switches shows")


def rows():
    with open(os.path.join(HERE, "rows.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                yield Row(*(column.strip() for column in line.split("|")))


def is_green(row):
    return row.outcome in ("green", "slow", "long")


def is_usual(row):
    return row.outcome != "long" and (row.outcome != "slow" or "REDLOCK_TEST_ALL" in os.environ)


def search(row):
    """What came of it: "green", what was violated, or what went wrong; how many states there were; and how
    long the search took, in seconds."""
    with tempfile.TemporaryDirectory(prefix="redlock-model-") as directory:
        made = subprocess.run(["spin", "-a", *row.switches.split(), os.path.join(HERE, "fence.pml")],
                              cwd=directory, capture_output=True, text=True)
        if made.returncode != 0 or not os.path.exists(os.path.join(directory, "pan.c")):
            return "spin: " + made.stdout + made.stderr, "0", 0
        built = subprocess.run(["cc", "-O2", "-w", "-DSAFETY", "-DVECTORSZ=2048", "-DMEMLIM=%d" % MEMORY_MB,
                                "-o", "pan", "pan.c"], cwd=directory, capture_output=True, text=True)
        if built.returncode != 0:
            return "cc: " + built.stderr, "0", 0
        began = time.monotonic()
        try:
            done = subprocess.run(["./pan", "-m100000", "-w24"], cwd=directory, capture_output=True,
                                  text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "no end within %d s" % SECONDS, "?", SECONDS
        return *result(done.stdout, done.stderr), time.monotonic() - began


def result(output, errors):
    states = re.search(r"(\S+) states, stored", output)
    states = states.group(1) if states else "?"
    count = re.search(r"errors: (\d+)", output)
    for trouble in ("max search depth too small", "reached -DMEMLIM", "out of memory", "hash table full"):
        if trouble in output:
            return trouble, states
    if not count:
        return "pan: " + output + errors, states
    if count.group(1) == "0":
        return "green", states
    violated = re.search(r"assertion violated (.*) \(at depth", output)
    for check, text in ASSERTIONS.items():
        if violated and text in violated.group(1):
            return check, states
    return output, states


def trouble(row, every):
    """Why the row does not show what it says; None when it does. A red one has one reason only."""
    switches = row.switches.split()
    if len(set(switches)) != len(switches):
        return "a switch is there twice"
    extra = {switch[2:] for switch in switches} & set(BREAKS + PROBES)
    if is_green(row):
        return "it takes something away" if extra or row.of else None
    if row.of not in every or not is_green(every[row.of]):
        return "%r is not a green row" % row.of
    if set(switches) ^ set(every[row.of].switches.split()) != {"-D" + switch for switch in extra} or \
            len(extra) != 1:
        return "it is not %s and one switch that breaks it" % row.of
    if "-D" + row.outcome not in switches or not (row.outcome in PROBES or extra & set(BREAKS)):
        return "it does not check %s" % row.outcome
    return None


def test_switches():
    every = {row.name: row for row in rows()}
    equal(len(every), len(list(rows())), "each row has a name of its own")
    for row in every.values():
        equal(trouble(row, every), None, "%s is %s" % (row.name, "green" if is_green(row) else
                                                      "%s with one switch more" % row.of))
    used = {switch[2:] for row in every.values() for switch in row.switches.split()}
    equal(set(BREAKS + PROBES) - used, set(), "everything that breaks the rule has its row")
    greens = {row.name for row in every.values() if is_green(row)}
    probed = {row.of for row in every.values() if row.outcome in PROBES}
    equal(greens - probed, set(), "each green row has its probe")


def test_rows():
    names = [argument for argument in sys.argv[1:] if argument != "--all"]
    chosen = [row for row in rows() if (row.name in names if names else
                                        is_usual(row) or "--all" in sys.argv)]
    unknown = sorted(set(names) - {row.name for row in chosen})
    equal(unknown, [], "the rows that were asked for are in rows.txt")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for row, (outcome, states, seconds) in zip(chosen, pool.map(search, chosen)):
            if is_green(row):
                ok(outcome == "green", "%s is green: %s" % (row.name, row.shows))
            else:
                ok(outcome == row.outcome, "%s violates %s: %s" % (row.name, row.outcome, row.shows))
            note("%s, %s states, %.1f s" % (outcome, states, seconds))


if not shutil.which("spin"):
    print("1..0 # SKIP spin is not installed")
    sys.exit(0)
main(test_switches, test_rows)
