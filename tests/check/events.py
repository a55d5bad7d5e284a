"""The ids of the journal's events are the same in the log, in the catalog and in the pages: programs and
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
    ids = []
    for page, source in ((("agent", "redlockd.8"), ("agent", "io", "loop", "log.c")),
                         (("units", "redlock-leader@.service.8"), ("client-lib", "cli", "journal.c"))):
        logged = dict(found(r'\{"([a-z-]+)", "([0-9a-f]{32})"\}', *source))
        equal(dict(found(r"^\.It Cm ([a-z-]+) Pq ([0-9a-f]{32})$", *page)), logged,
              "%s has the words and ids of %s" % (page[-1], source[-1]))
        ids += logged.values()
    ok(len(set(ids)) == len(ids) > 10, "%d events have ids" % len(ids))
    equal(sorted(found(r"^-- ([0-9a-f]{32})$", "units", "redlockd.catalog")), sorted(ids),
          "the catalog explains each")


main(test_ids)
