"""What libredlock.so shows to the programs that link it. An addition belongs into this list,
redlock.h and libredlock.3."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import equal, main  # noqa: E402

CALLS = """redlock_acquire redlock_acquire_async redlock_beat redlock_check redlock_close
    redlock_connect redlock_dispatch redlock_error_text redlock_events redlock_fd redlock_fence
    redlock_leader redlock_lease_id redlock_lease_name redlock_observe redlock_release
    redlock_release_async redlock_remaining_ns redlock_set_answer_timeout redlock_set_callbacks
    redlock_strerror redlock_unobserve redlock_valid""".split()
LIBRARY = sys.argv[1]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def dynamic(tag):
    return [
    line.split("[")[1].rstrip("]") for line in run(
        "readelf",
        "-d",
        LIBRARY).splitlines() if "(%s)" %
         tag in line]


def test_exported():
    rows = [line.split() for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    names = sorted(row[2].split("@")[0] for row in rows if row[1]
                   in "TWBDRVi" and not row[2].startswith("LIBREDLOCK"))
    equal([name for name in names if not name.startswith(("__asan", "__ubsan", "__tsan", "__odr"))], CALLS,
          "exactly the public calls are exported")
    equal({row[2].split("@@")[1] for row in rows if row[1] == "T"},
          {"LIBREDLOCK_0"}, "each with its version")


def test_dependencies():
    equal(dynamic("SONAME"), ["libredlock.so.0"], "the soname has a version")
    needed = [name for name in dynamic("NEEDED") if not name.startswith(("libasan", "libubsan", "libtsan"))]
    equal([name for name in needed if not name.startswith(
        ("libc.so", "ld-linux"))], [], "it depends on libc alone")


def test_documented():
    with open(os.path.join(SOURCE, "client-lib", "redlock.h")) as file:
        header = file.read()
    with open(os.path.join(SOURCE, "client-lib", "libredlock.3")) as file:
        page = file.read()
    equal([name for name in CALLS if name + "(" not in header], [], "each call is declared in redlock.h")
    equal([name for name in CALLS if name not in page], [], "each call is described in libredlock(3)")


main(test_exported, test_dependencies, test_documented)
