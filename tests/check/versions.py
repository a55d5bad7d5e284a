"""The version of the project is that of its changelogs, which state the versions of protocol and keys."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from pages import read  # noqa: E402
from tap import equal, main, ok  # noqa: E402

SOURCE = sys.argv[1]


PROTOCOL = read("protocol.md")


def found(pattern, *path):
    return re.findall(pattern, read(os.path.join(SOURCE, *path)), re.M)


ENTRIES = [(version, int(protocol), int(keys)) for version, protocol, keys in
           found(r"^## (\S+)[^\n]*\n\n*Protocol (\d+), keys (\d+)\.", "units", "doc", "CHANGELOG.md")]


def test_newest():
    version, protocol, keys = ENTRIES[0]
    equal(found(r"version: '([\d.]+)'", "meson.build"), [version], "the changelog begins with this version")
    equal(found(r"^redlockd \(([\d.]+)\)", "units", "debian", "changelog")[0], version,
          "so does that of the packages")
    numbers = found(r"VERSION_\w+ = (\d+)", "agent", "base", "version.h")
    equal([int(number) for number in numbers], [protocol, keys],
          "it says which protocol and keys the agent has")
    ok("`protocol` (%d:" % protocol in PROTOCOL and "keys=%d " % keys in PROTOCOL, "as protocol.md does")


def test_numbers():
    equal(len(ENTRIES), len(found(r"^## ", "units", "doc", "CHANGELOG.md")),
          "each entry states its versions of protocol and keys")
    for newer, older in zip(ENTRIES, ENTRIES[1:]):
        ok(newer[0] != older[0] and newer[1] >= older[1] and newer[2] >= older[2],
           "%s comes after %s" % (newer[0], older[0]))


main(test_newest, test_numbers)
