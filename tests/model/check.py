#!/usr/bin/env python3
"""check.py [--all] [NAME…]: the rows of rows.txt through Spin; prints TAP. Green rows must be searched to
the end without a violation, red ones must violate an assertion: each takes one part of the rule away."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import equal, main, note, ok  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 4000  # of one search; two run at a time
SECONDS = 1500


def rows():
    with open(os.path.join(HERE, "rows.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                yield [column.strip() for column in line.split("|")]


def search(row):
    """What came of it: "green", "red", or what went wrong; and how many states there were."""
    switches = row[2].split()
    with tempfile.TemporaryDirectory(prefix="redlock-model-") as directory:
        made = subprocess.run(["spin", "-a", *switches, os.path.join(HERE, "fence.pml")], cwd=directory,
                              capture_output=True, text=True)
        if made.returncode != 0 or not os.path.exists(os.path.join(directory, "pan.c")):
            return "spin: " + made.stdout + made.stderr, "0"
        built = subprocess.run(["cc", "-O2", "-w", "-DSAFETY", "-DVECTORSZ=2048", "-DMEMLIM=%d" % MEMORY_MB,
                                "-o", "pan", "pan.c"], cwd=directory, capture_output=True, text=True)
        if built.returncode != 0:
            return "cc: " + built.stderr, "0"
        try:
            done = subprocess.run(["./pan", "-m100000", "-w24"], cwd=directory, capture_output=True,
                                  text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "no end within %d s" % SECONDS, "?"
    states = re.search(r"(\S+) states, stored", done.stdout)
    errors = re.search(r"errors: (\d+)", done.stdout)
    for trouble in ("max search depth too small", "reached -DMEMLIM", "out of memory", "hash table full"):
        if trouble in done.stdout:
            return trouble, states.group(1) if states else "?"
    if not errors:
        return "pan: " + done.stdout + done.stderr, "?"
    if errors.group(1) == "0":
        return "green", states.group(1)
    return "red" if "assertion violated" in done.stdout else done.stdout, states.group(1)


def test_rows():
    names = [argument for argument in sys.argv[1:] if argument != "--all"]
    chosen = [row for row in rows() if (row[0] in names if names else
                                        row[1] != "long" or "--all" in sys.argv)]
    unknown = sorted(set(names) - {row[0] for row in chosen})
    equal(unknown, [], "the rows that were asked for are in rows.txt")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for row, (outcome, states) in zip(chosen, pool.map(search, chosen)):
            expected = "green" if row[1] == "long" else row[1]
            ok(outcome == expected, "%s is %s: %s" % (row[0], expected, row[3]))
            note("%s, %s states" % (outcome, states))


if not shutil.which("spin"):
    print("1..0 # SKIP spin is not installed")
    sys.exit(0)
main(test_rows)
