"""The ids of the journal's events are the same in the log, in the catalog and in redlockd(8): programs and
administrators look for them."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok  # noqa: E402

SOURCE = sys.argv[1]


def found(pattern, *path):
    with open(os.path.join(SOURCE, *path)) as file:
        return re.findall(pattern, file.read(), re.M)


def test_ids():
    logged = dict(found(r'\{"([a-z-]+)", "([0-9a-f]{32})"\}', "agent", "io", "loop", "log.c"))
    ok(len(set(logged.values())) == len(logged) > 5, "%d events have ids" % len(logged))
    equal(dict(found(r"^\.It Cm ([a-z-]+) Pq ([0-9a-f]{32})$", "agent", "redlockd.8")), logged,
          "redlockd(8) has the words and ids of all")
    equal(sorted(found(r"^-- ([0-9a-f]{32})$", "units", "redlockd.catalog")), sorted(logged.values()),
          "the catalog explains each")


main(test_ids)
