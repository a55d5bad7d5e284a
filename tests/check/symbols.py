"""What libredlock.so shows to the programs that link it. An addition belongs into this list,
redlock.h and a page of the manual."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from pages import manual_pages, named, read, section  # noqa: E402
from tap import equal, main  # noqa: E402

CALLS = """redlock_acquire redlock_acquire_async redlock_beat redlock_check redlock_close
    redlock_connect redlock_dispatch redlock_error_text redlock_events redlock_fd redlock_fence
    redlock_leader redlock_lease_id redlock_lease_name redlock_observe redlock_release
    redlock_release_async redlock_remaining_ns redlock_set_answer_timeout redlock_set_callbacks
    redlock_strerror redlock_unobserve redlock_valid""".split()
LIBRARY = sys.argv[1]
HEADER = read("client-lib/redlock.h")
PAGES = [path for name, path in manual_pages().items() if name.endswith(".3")]


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def dynamic(tag):
    return [line.split("[")[1].rstrip("]") for line in run("readelf", "-d", LIBRARY).splitlines()
            if "(%s)" % tag in line]


def test_exported():
    rows = [line.split() for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    names = sorted(row[2].split("@")[0] for row in rows if row[1]
                   in "TWBDRVi" and not row[2].startswith("LIBREDLOCK"))
    equal([name for name in names if not name.startswith(("__asan", "__ubsan", "__tsan", "__odr"))], CALLS,
          "exactly the public calls are exported")
    equal({row[2].split("@@")[1] for row in rows if row[1] == "T"},
          {"LIBREDLOCK_0"}, "each with its version")


def test_packaged():
    """dpkg-gensymbols reports a lost symbol only if the package lists each of them."""
    lines = read("units/debian/libredlock0.symbols").splitlines()
    equal([line.split("@")[0][1:] for line in lines if line.startswith(" redlock_")], CALLS,
          "the Debian package lists the same symbols")


def test_dependencies():
    equal(dynamic("SONAME"), ["libredlock.so.0"], "the soname has a version")
    needed = [name for name in dynamic("NEEDED") if not name.startswith(("libasan", "libubsan", "libtsan"))]
    equal([name for name in needed if not name.startswith(
        ("libc.so", "ld-linux"))], [], "it depends on libc alone")


def synopses(pattern):
    return sorted(name for path in PAGES for name in re.findall(pattern, section(path, "SYNOPSIS"), re.M))


def test_calls_documented():
    equal([name for name in CALLS if name + "(" not in HEADER], [], "each call is declared in redlock.h")
    equal(synopses(r"^\.F[no] (\w+)"), CALLS, "each call is on one page of the manual")
    equal(sorted(name for path in PAGES for name in named(path)), sorted(CALLS + ["libredlock"]),
          "which is found by the call's name")
    overview = read("client-lib/libredlock.3")
    equal([name for name in CALLS if not re.search(r"^\.Fn %s\b" % name, overview, re.M)], [],
          "libredlock(3) lists each")


def test_null_tested():
    table = read("tests/unit/test-library-arguments.c")
    equal([name for name in CALLS if name not in ("redlock_strerror",) and name + "(NULL" not in table and
           not re.search(name + r"\([^)]*, NULL", table)], [], "each call is tried with NULL")


def test_types_documented():
    types = re.findall(r"^((?:struct|enum) \w+)(?:;| \{)", HEADER, re.M)
    equal(synopses(r"^\.Vt (\w+ \w+) ;"), sorted(types), "each type is on one page of the manual")
    for name, body in re.findall(r"^((?:struct|enum) \w+) \{\n(.*?)^\}", HEADER, re.M | re.S):
        page = next(path for path in PAGES if ".Vt %s ;\n" % name in section(path, "SYNOPSIS"))
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        members = re.findall(r"(\w+)(?:\[\w+\])?;|\(\*(\w+)\)|^ *(REDLOCK_\w+)", body, re.M)
        missing = [word for word in map("".join, members) if not re.search(r"\b%s\b" % word, read(page))]
        equal((len(members) > 2, missing), (True, []), "%s has all of %s" % (page, name))


main(test_exported, test_packaged, test_dependencies, test_calls_documented, test_null_tested,
     test_types_documented)
