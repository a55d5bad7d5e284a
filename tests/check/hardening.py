"""What was built is hardened: each flag that meson.build adds left its mark in the library and
the programs."""

import json
import os
import platform
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok  # noqa: E402

COMPILER, LIBRARY, *PROGRAMS = sys.argv[1:]
BUILT = *PROGRAMS, LIBRARY
BUILD = os.path.dirname(os.path.dirname(os.path.abspath(LIBRARY)))
IS_X86 = platform.machine() == "x86_64"


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def imports(path):
    return set(re.findall(r" UND (\w+)", readelf("--dyn-syms", path)))


def test_places():
    for path in PROGRAMS:
        flags = re.findall(r"\(FLAGS_1\).*Flags: (.*)", readelf("-d", path))
        ok(flags and "PIE" in flags[0].split(), "%s is position-independent" % os.path.basename(path))
    for path in BUILT:
        segments = readelf("-l", path)
        ok("GNU_RELRO" in segments and "NOW" in readelf("-d", path),
           "%s: relocations are read-only before main()" % os.path.basename(path))
        stack = re.findall(r"GNU_STACK .* (R\w*) +0x", segments)
        equal(stack, ["RW"], "its stack is not executable")
        equal(re.findall(r"LOAD .* RWE ", segments), [], "no segment is writable and executable")


def test_checks():
    for path in BUILT:
        name, imported = os.path.basename(path), imports(path)
        ok("__stack_chk_fail" in imported, "%s guards its stack frames" % name)
        ok(any(symbol.endswith("_chk") and symbol != "__stack_chk_fail" for symbol in imported),
           "%s has checked calls of the C library" % name)


def test_level():
    """The last definition counts. Debian's packages have the same level."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        commands = [row["command"] for row in json.load(file)
                    if re.search(r"/(agent|client-lib)/", row["file"]) and row["file"].endswith(".c")]
    lacking = [row for row in commands if (re.findall(r"-D_FORTIFY_SOURCE=(\d)", row) or "0")[-1] != "3"]
    ok(commands and not lacking, "%d of %d units have _FORTIFY_SOURCE=3" % (
        len(commands) - len(lacking), len(commands)))


def test_control_flow():
    """The mark of the whole file is lost where the C library's start-up code lacks it, as Debian's does."""
    for path in BUILT if IS_X86 else ():
        with open(path, "rb") as file:
            landings = file.read().count(b"\xf3\x0f\x1e\xfa")  # endbr64
        ok(landings > 50, "%s: functions say where calls and jumps may go (%d)" % (
            os.path.basename(path), landings))


def test_options():
    """What leaves no symbol: gcc notes its options beside the debugging information."""
    for path in BUILT if COMPILER == "gcc" else ():
        # One unit suffices: all have the project's options.
        producers = re.findall(r"DW_AT_producer.*: (GNU C.*)", readelf("--debug-dump=info", path))
        lacking = [line for line in producers if "-fstack-clash-protection" not in line
                   or "-fcf-protection=full" not in line or "-fstack-protector-strong" not in line]
        ok(producers and not lacking, "%s: large frames touch each page of the stack (%d of %d units)" % (
            os.path.basename(path), len(producers) - len(lacking), len(producers)))


main(test_places, test_checks, test_level, test_control_flow, test_options)
