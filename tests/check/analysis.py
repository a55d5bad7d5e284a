"""analysis.py SOURCE BUILD quick|deep: what analyzers see in agent, library and command. quick: cppcheck
reads all of them. deep: clang-tidy (.clang-tidy has its checks) and gcc -fanalyzer read

- each file that changed, or includes a header that did: since the branch left origin/main, or, on main
  itself, since the last commit's parent. Where a limit leaves files out, a skipped line has their number;
- one in SHARE of the others. The last commit selects them, so that each commit has others read.

With REDLOCK_TEST_ALL=1 both read all files. A finding that is none is excused in its place, by the check's
name and the reason: NOLINT(check) or cppcheck-suppress. Other versions of the tools have other checks: only
Debian 12's are run."""

import functools
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, note, ok, skip  # noqa: E402

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
DEPTH = sys.argv[3]
ALL = os.environ.get("REDLOCK_TEST_ALL")
SHARE = 8
CHANGED_CPU_S, SHARE_CPU_S = 300, 60  # in a usual run; all files take about 300 s
TIDY_VERSION, GCC_VERSION, CPPCHECK_VERSION = "14.", "12.", "2.1"
PATHS = "agent/", "client-lib/"
INCLUDES = "agent", "client-lib", "client-lib/cli"  # where headers are, besides the file's directory

# gcc's analyzer follows each path: where a state machine has many, it sees states that cannot be. What it
# says without reason about a file, and so does not check there.
NOT_CHECKED = {
    "agent/core/release.c": ["-Wno-analyzer-null-dereference"],  # the entry of a list that is not empty
    "agent/core/retry.c": ["-Wno-analyzer-use-of-uninitialized-value"],  # a bit-field in a union
    "agent/local/admission.c": ["-Wno-analyzer-null-dereference"],  # as in release.c
}
# Warnings that the tree's idioms cause everywhere:
#   malloc-leak, file-leak, fd-leak: gcc 12 does not know __attribute__((cleanup))
ANALYZER_OPTIONS = ["-fanalyzer", "-Werror", "-Wno-analyzer-malloc-leak", "-Wno-analyzer-file-leak"]
CPPCHECK_OPTIONS = [
    "--enable=warning,style,performance,portability", "--inline-suppr", "--std=c11", "-q",
    "--error-exitcode=1", "--template={file}:{line}: {id}: {message}", "-D_GNU_SOURCE",
    '-DREDLOCK_VERSION="1"', "-Iagent", "-Iclient-lib", "-Iclient-lib/cli",
    "--suppress=variableScope"]  # declarations come first in their block

# Shows that a tool runs, and that its findings are read.
PLANTED = """#include <stdlib.h>

int planted(int *number);

int planted(int *number)
{
    free(number);
    return *number;
}
"""
PLANTED_FINDING = re.compile(r"planted\.c:8:.* after .*free")


def run(*command, **options):
    return subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, errors="replace", **options)


def version(tool):
    found = re.search(r"(\d+\.\d+[.\d]*)", run(tool, "--version").stdout) if shutil.which(tool) else None
    return found[1] if found else None


def is_here(tool, wanted):
    """Whether the tool is there; otherwise the test says why it is not run."""
    present = version(tool)
    if present and present.startswith(wanted):
        return True
    skip("%s of the sources" % tool, "version %s: %s is wanted, as in Debian 12" % (present, wanted)
         if present else "not installed; tests/setup installs it in Debian 12")
    return False


def commands():
    """How each source file of ours is compiled, by its path: for what is installed, as a program for tests
    has other options, and without optimization at link time, which analyzers don't know or leave to the
    linker."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        rows = json.load(file)
    by_path = {}
    for row in rows:
        path = os.path.relpath(os.path.normpath(os.path.join(row["directory"], row["file"])), SOURCE)
        if path.startswith(PATHS) and not row["output"].startswith("tests/"):
            command = re.sub(r" -flto\S*| -ffat-lto-objects", "", row["command"])
            by_path.setdefault(path, {**row, "command": command})
    return by_path


def git(*arguments):
    """Its output; empty where it fails."""
    done = run("git", *arguments)
    return done.stdout.strip() if done.returncode == 0 else ""


def base():
    """The commit since which the changes count; None: this clone has none but the last."""
    head = git("rev-parse", "HEAD")
    for commit in (git("merge-base", "HEAD", "origin/main"),
                   git("rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")):
        if commit not in ("", head):
            return commit
    return None


def with_headers(path):
    """The file, and the headers of ours that it includes, or that these include."""
    found, left = set(), [path]
    while left:
        path = left.pop()
        if path not in found and os.path.isfile(os.path.join(SOURCE, path)):
            found.add(path)
            with open(os.path.join(SOURCE, path)) as file:
                names = re.findall(r'^ *# *include "([^"]+)"', file.read(), re.M)
            left += [os.path.normpath(os.path.join(place, name))
                     for name in names for place in (os.path.dirname(path), *INCLUDES)]
    return found


def divided(paths):
    """Those that changed, these first, or include a header that did; and the others' share. Both are in an
    order that differs from commit to commit."""
    commit, since = git("rev-parse", "HEAD"), base()
    named = set(git("diff", "--name-only", since).splitlines()) if since else set()
    turns = {path: zlib.crc32((commit + path).encode()) for path in paths}
    changed = {path for path in paths if named & with_headers(path)}
    share = {path for path in paths if path not in changed and turns[path] % SHARE == 0}
    if not since:
        skip("files that changed", "this clone has the last commit only")
    return (sorted(changed, key=lambda path: (path not in named, turns[path])),
            sorted(share, key=turns.get))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def source_of(row):
    return os.path.normpath(os.path.join(row["directory"], row["file"]))


def tidy(row, directory):
    """What clang-tidy finds in this row's file; the directory is for temporary files."""
    path = source_of(row)
    with open(os.path.join(directory, "compile_commands.json"), "w") as file:
        json.dump([{**row, "file": path}], file)
    done = run("clang-tidy", "-p", directory, "--config-file=.clang-tidy", "--quiet", path)
    found = [line for line in done.stdout.splitlines() if re.search(r"(warning|error): ", line)]
    return found or (["clang-tidy fails"] + done.stderr.splitlines() if done.returncode != 0 else [])


def analyzer(row, directory):
    """The same for gcc -fanalyzer."""
    words = re.sub(r" -(MF|MQ|o) \S+| -MD\b| -fdiagnostics-color=always", "", row["command"])
    options = ANALYZER_OPTIONS + NOT_CHECKED.get(os.path.relpath(source_of(row), SOURCE), [])
    command = "%s %s -o %s" % (words, " ".join(options), os.path.join(directory, "object.o"))
    done = subprocess.run(command, shell=True, cwd=row["directory"], capture_output=True, text=True,
                          errors="replace", env=dict(os.environ, CCACHE_DISABLE="1"))
    found = [line for line in done.stderr.splitlines() if re.search(r"(warning|error): ", line)]
    return found or (["gcc fails"] + done.stderr.splitlines() if done.returncode != 0 else [])


@functools.cache
def tools_here():
    return [(name, findings_of) for name, tool, wanted, findings_of in (
        ("clang-tidy", "clang-tidy", TIDY_VERSION, tidy), ("gcc -fanalyzer", "gcc", GCC_VERSION, analyzer))
        if is_here(tool, wanted)]


def check_files(what, paths, cpu_s, tools, directory):
    rows, began, done = commands(), cpu_seconds(), 0
    for path in paths:
        if cpu_seconds() - began > cpu_s:
            break
        for name, findings_of in tools:
            findings = findings_of(rows[path], directory)
            if findings:
                equal(findings, [], "%s has nothing against %s" % (name, path))
        done += 1
    text = "%s: %d of %d have been read, in %.0f s of CPU" % (what, done, len(paths), cpu_seconds() - began)
    if 0 < done < len(rows):
        note(" ".join(paths[:done]))
    if done < len(paths):
        skip(text, "%d are left out: the limit is %d s; REDLOCK_TEST_ALL=1 has all read" % (
            len(paths) - done, cpu_s))
    else:
        ok(True, text)


def test_cppcheck():
    if is_here("cppcheck", CPPCHECK_VERSION):
        done = run("cppcheck", *CPPCHECK_OPTIONS, "-I" + os.path.join(BUILD, "agent", "scripts"), "agent",
                   "client-lib")
        equal((done.returncode, (done.stdout + done.stderr).splitlines()), (0, []),
              "cppcheck has nothing against agent and client-lib")


def test_planted():
    """Each tool runs, and sees a mistake that is there."""
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "planted.c"), "w") as file:
            file.write(PLANTED)
        row = {"directory": directory, "file": "planted.c", "command": "gcc -O2 -c planted.c"}
        for name, findings_of in tools_here():
            found = [line for line in findings_of(row, directory) if PLANTED_FINDING.search(line)]
            ok(found, "%s finds a use after free" % name)


def test_files():
    paths, tools = sorted(commands()), tools_here()
    with tempfile.TemporaryDirectory() as directory:
        if ALL:
            check_files("all files", paths, math.inf, tools, directory)
        elif tools:
            changed, share = divided(paths)
            check_files("files that changed", changed, CHANGED_CPU_S, tools, directory)
            check_files("others of this commit's share", share, SHARE_CPU_S, tools, directory)


def test_excuses():
    """Each names its check, and its reason."""
    bad = []
    found = run("git", "grep", "-nE", r"NOLINT|cppcheck-suppress", "--", "agent", "client-lib").stdout
    for line in found.splitlines():
        text = line.split(":", 2)[2]
        if "NOLINTEND" in text:
            continue
        if not re.search(r"NOLINT\w*\([\w.,-]+\): .*\w .*\w|cppcheck-suppress \w+ ; .*\w .*\w", text):
            bad.append(line)
    equal(bad, [], "each excuse names the check and a reason")


main(*{"quick": (test_cppcheck, test_excuses), "deep": (test_planted, test_files)}[DEPTH])
