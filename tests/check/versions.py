"""The version of the project is that of its changelogs, which state the versions of protocol and keys. These
numbers count up when one of the words of the protocol or of the keys changes."""

import glob
import hashlib
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


# Digests of the words of each number. If a word is new, changed or gone, then
#   protocol: clients of the former number must know: count up VERSION_PROTOCOL in agent/base/version.h
#   keys: agents of the former number meet the new form on the nodes: count up VERSION_KEYS
# and describe the change in units/doc/CHANGELOG.md and protocol.md. Then record the digest here under the
# new number. Under the same number it may be renewed only if no other program sees the difference, such as
# that of a word that has moved to another file.
RECORDED = {
    ("protocol", 3): "b0cf481c5dfdb592",
    ("protocol", 4): "3043c3ccae8f7f46",
    ("protocol", 5): "02efd4c8e57c81cf",
    ("protocol", 6): "bf022f429b824ddb",
    ("keys", 2): "b5509cdb04eff236",
    ("keys", 3): "2dd02b5f8fc453c2",
    ("keys", 4): "a0fcc921f9459142",
    ("keys", 5): "75e0a1edab7d6559",
}


def words(paths, pattern, comment):
    """What the pattern finds in these files, each word once a file."""
    found_words = set()
    for path in glob.glob(os.path.join(SOURCE, "agent", paths)):
        with open(path) as file:
            text = re.sub(comment, "", file.read(), flags=re.S)
        found_words.update(os.path.basename(path) + ": " + word for word in re.findall(pattern, text))
    return found_words


C_COMMENT, LUA_COMMENT = r"/\*.*?\*/|#include[^\n]*", r"--[^\n]*"
# Names of commands, options and errors, keys of replies, and words for states and reasons.
PROTOCOL_WORDS = words("local/*.c", r'(?:writer, |\{|\] = |return |[?:] |session, )"([A-Za-z][\w-]*)"',
                       C_COMMENT)
# Names and formats of keys, fields and values, and the commands and patterns that write and read them.
KEYS_WORDS = (words("io/node/key-names.h", r'"([^"\n]*)"', C_COMMENT) |
              words("io/node/epoch.c", r'"([^"\n]*)"', C_COMMENT) |
              words("core/lock-value.c", r'"([^"\n]*)"', C_COMMENT) |
              words("io/node/fleet.c", r'"([^"\n]*\w=[^"\n]*)"', C_COMMENT) |
              words("scripts/*.lua", r"'([^'\n]*)'", LUA_COMMENT) -
              words("scripts/rights.lua", r"'([^'\n]*)'", LUA_COMMENT))  # which writes nothing


def test_words():
    for kind, number, present in (("protocol", ENTRIES[0][1], PROTOCOL_WORDS),
                                  ("keys", ENTRIES[0][2], KEYS_WORDS)):
        ok(len(present) > 60, "the words of the %s are found (%d)" % (kind, len(present)))
        digest = hashlib.sha256("\n".join(sorted(present)).encode()).hexdigest()[:16]
        equal(digest, RECORDED.get((kind, number)),
              "%s %d has the words that were recorded; another one needs the next number, see RECORDED" %
              (kind, number))


def test_numbers():
    equal(len(ENTRIES), len(found(r"^## ", "units", "doc", "CHANGELOG.md")),
          "each entry states its versions of protocol and keys")
    for newer, older in zip(ENTRIES, ENTRIES[1:]):
        ok(newer[0] != older[0] and newer[1] >= older[1] and newer[2] >= older[2],
           "%s comes after %s" % (newer[0], older[0]))


main(test_newest, test_numbers, test_words)
