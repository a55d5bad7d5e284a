"""The prefix of each public function and type is the stem of its file: a name leads to its file."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok  # noqa: E402

SOURCE = sys.argv[1]

# Headers whose names belong to more than one file, with the reason.
EXCEPTIONS = {
    "agent/core/event.h": "the vocabulary of what goes in and out of a shard",
    "client-lib/redlock.h": "the public interface: its prefix is the library's",
    "agent/core/lease-state.h": "what the files of core share of a lease: its prefix is that of lease.h",
    "agent/core/shard-state.h": "what the files of core share of a shard: its prefix is that of shard.h",
    "agent/io/client/conn-state.h": "the state of conn.c and its children",
    "agent/io/node/redis-internal.h": "what the files of redis.h share among themselves",
    "client-lib/connection-internal.h": "the same, of connection.h",
    "client-lib/cli/hold-internal.h": "the same, of hold.c",
}
# Single names, with the reason.
ALLOWED = {
    "redlock_lease": "opaque in the public interface, and the client's",
    "redlock_lease_state": "the same",
}

FUNCTION = re.compile(r"^(?!typedef|static_assert|#|\s|/|\})(?:static inline )?[\w ]+?[ *]+(\w+)\(", re.M)
TYPE = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{", re.M)


def headers():
    for top in "agent", "client-lib":
        for directory, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in sorted(names):
                if name.endswith(".h"):
                    yield os.path.relpath(os.path.join(directory, name), SOURCE)


def test_prefixes():
    count = 0
    for path in headers():
        if path in EXCEPTIONS:
            continue
        with open(os.path.join(SOURCE, path)) as file:
            text = file.read()
        stem = os.path.basename(path)[:-2].replace("-", "_")
        names = FUNCTION.findall(text) + TYPE.findall(text)
        wrong = [name for name in names
                 if name != stem and not name.startswith(stem + "_") and name not in ALLOWED]
        equal(wrong, [], "the names of %s begin with %s" % (path, stem))
        count += len(names)
    ok(count > 300, "the names were found (%d)" % count)


main(test_prefixes)
