"""analysis.py SOURCE BUILD quick|deep: what analyzers see in agent, library and command. Quick:
cppcheck reads all of them. deep: clang-tidy (.clang-tidy has its checks) and gcc -fanalyzer read those that
the last commit changed and, while there is time, others, which that commit selects; with
REDLOCK_TEST_ALL=1 all.

A finding that is none is excused in its place, by the check's name and the reason: NOLINT(check) or
cppcheck-suppress. Other versions of the tools have other checks: only Debian 12's are run."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, note, ok, skip  # noqa: E402

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
DEPTH = sys.argv[3]
ALL = os.environ.get("REDLOCK_TEST_ALL")
TIDY_CPU_S, ANALYZER_CPU_S = 35, 25  # in a usual run
WALL_S = 240  # the usual run waits no longer: this runs on idle cores
TIDY_VERSION, GCC_VERSION, CPPCHECK_VERSION = "14.", "12.", "2.1"
PATHS = "agent/", "client-lib/"

# gcc's analyzer follows each path: where a state machine has many, it sees states that cannot be. The reason
# stands beside each file that it does not read.
NOT_ANALYZED = {
    "agent/core/release.c": "takes the entry of a list that is not empty for NULL",
    "agent/core/retry.c": "takes a bit-field in a union for uninitialized",
    "agent/local/admission.c": "takes one for NULL, too",
    "agent/main.c": "does not know that strtoul() sets its second argument",
}
# Warnings that the tree's idioms cause everywhere:
#   malloc-leak, file-leak, fd-leak: gcc 12 does not know __attribute__((cleanup))
ANALYZER_OPTIONS = ["-fanalyzer", "-Werror", "-Wno-analyzer-malloc-leak", "-Wno-analyzer-file-leak"]
CPPCHECK_OPTIONS = [
    "--enable=warning,performance,portability" + (",style" if DEPTH == "deep" else ""),
    "--inline-suppr", "--std=c11", "-q",
    "--error-exitcode=1", "--template={file}:{line}: {id}: {message}", "-D_GNU_SOURCE",
    '-DREDLOCK_VERSION="1"', "-Iagent", "-Iclient-lib", "-Iclient-lib/cli",
    "--suppress=variableScope"]  # declarations come first in their block


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


def changed(paths):
    """Those that differ from the last commit's parent, or include a header that does."""
    named = set(run("git", "diff", "--name-only", "HEAD~1").stdout.split())
    headers = {re.sub(r"^(agent|client-lib/cli|client-lib|tests/\w+)/", "", path)
               for path in named if path.endswith(".h")}
    found = []
    for path in paths:
        with open(os.path.join(SOURCE, path)) as file:
            included = set(re.findall(r'#include "([^"]+)"', file.read()))
        if path in named or included & headers:
            found.append(path)
    return found


def in_turn(paths):
    """What changed, then the others as the last commit selects them."""
    commit = run("git", "rev-parse", "HEAD").stdout
    first = changed(paths)
    return first + sorted(set(paths) - set(first), key=lambda path: zlib.crc32((commit + path).encode()))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_files(tool, paths, cpu_s, findings_of):
    began, clock, done = cpu_seconds(), time.monotonic(), 0
    for path in paths:
        late = cpu_seconds() - began > cpu_s or time.monotonic() - clock > WALL_S / 2
        if not ALL and done > 0 and late:
            break
        findings = findings_of(path)
        done += 1
        if findings:
            equal(findings, [], "%s has nothing against %s" % (tool, path))
    note("%s: %d of %d files in %.0f s of CPU; REDLOCK_TEST_ALL=1 reads all" % (
        tool, done, len(paths), cpu_seconds() - began))
    ok(done > 0, "%s has read %d files" % (tool, done))


def test_cppcheck():
    if is_here("cppcheck", CPPCHECK_VERSION):
        done = run("cppcheck", *CPPCHECK_OPTIONS, "-I" + os.path.join(BUILD, "agent", "scripts"), "agent",
                   "client-lib")
        equal((done.returncode, (done.stdout + done.stderr).splitlines()), (0, []),
              "cppcheck has nothing against agent and client-lib")


def test_clang_tidy():
    rows = commands()

    def findings(path):
        done = run("clang-tidy", "-p", directory, "--quiet", path)
        found = [line for line in done.stdout.splitlines() if re.search(r"(warning|error): ", line)]
        return found or (done.stderr.splitlines() if done.returncode != 0 else [])

    if is_here("clang-tidy", TIDY_VERSION):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "compile_commands.json"), "w") as file:
                json.dump(list(rows.values()), file)
            check_files("clang-tidy", in_turn(list(rows)), TIDY_CPU_S, findings)


def test_gcc_analyzer():
    rows = commands()

    def findings(path):
        row = rows[path]
        words = re.sub(r" -(MF|MQ|o) \S+| -MD\b| -fdiagnostics-color=always", "", row["command"])
        command = "%s %s -o %s" % (words, " ".join(ANALYZER_OPTIONS), os.path.join(directory, "object.o"))
        done = subprocess.run(command, shell=True, cwd=row["directory"], capture_output=True, text=True,
                              env=dict(os.environ, CCACHE_DISABLE="1"))
        return [line for line in done.stderr.splitlines() if re.search(r"(warning|error): ", line)]

    if is_here("gcc", GCC_VERSION):
        paths = [path for path in in_turn(list(rows)) if path not in NOT_ANALYZED]
        with tempfile.TemporaryDirectory() as directory:
            check_files("gcc -fanalyzer", paths, ANALYZER_CPU_S, findings)


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


main(*{"quick": (test_cppcheck, test_excuses),
       "deep": (test_cppcheck, test_clang_tidy, test_gcc_analyzer)}[DEPTH])
