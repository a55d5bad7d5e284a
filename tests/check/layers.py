"""The layers by their includes: base < resp < core, local < io < main.
Each may include only the files listed here."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok  # noqa: E402

SOURCE = sys.argv[1]

# What a pure layer may have from the C library: no clock, descriptor, thread, allocation or log.
PURE_SYSTEM = {"assert.h", "inttypes.h", "limits.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h",
               "stdint.h", "stdio.h", "string.h"}
LIBRARY = ("resp.h", "agent-clock.h", "client.h", "redlock.h", "connect.h", "connection.h",
           "connection-internal.h",
           "deadline-view.h", "lease.h", "lease-events.h", "observe.h", "request.h", "sized.h",
           "spin-budget.h", "spin-wait.h", "value.h")
COMMAND = tuple(name for name in os.listdir(os.path.join(SOURCE, "client-lib", "cli"))
                if name.endswith(".h"))

# Directory: (project headers by prefix, system headers; None: any)
LAYERS = {
    "agent/base": (("base/",), PURE_SYSTEM),
    "agent/core": (("base/", "core/"), PURE_SYSTEM),
    "agent/local": (("base/", "local/", "resp.h", "core/event.h", "core/lease-terms.h", "core/limits.h",
                     "core/shard.h", "core/lock-value.h"), PURE_SYSTEM),
    "agent/io": (("base/", "core/", "local/", "io/", "resp.h", "spin-budget.h", "config/config.h",
                  "config/config-node.h"), None),
    "agent/config": (("base/", "core/limits.h", "local/policy.h", "io/loop/account-id.h",
                      "io/loop/credential.h", "io/loop/host-name.h", "io/loop/regular-file.h",
                      "io/loop/secret-memory.h",
                      "io/node/key-format.h", "io/node/node-address.h", "io/node/tls.h", "config/"), None),
    "agent/dev": (("base/", "config/config.h", "io/loop/clock.h", "io/loop/log.h", "dev/"), None),
    "agent": (("base/", "io/", "config/config.h", "dev/dev.h"), None),
    "client-lib": (LIBRARY, None),
    "client-lib/cli": (LIBRARY + COMMAND, None),
    "client-lib/metrics": (("connect.h", "connection.h", "http-client.h"), None),
}

# Where more care is due than a directory shows.
FILES = {
    "client-lib/resp.c": (("resp.h",), PURE_SYSTEM),
    "client-lib/resp.h": ((), PURE_SYSTEM),
    "client-lib/spin-wait.c": (("spin-wait.h",), PURE_SYSTEM),
    "client-lib/spin-wait.h": (("spin-budget.h",), PURE_SYSTEM),
    "client-lib/spin-budget.h": ((), PURE_SYSTEM),
    "client-lib/agent-clock.c": (("agent-clock.h",), PURE_SYSTEM),
    "client-lib/agent-clock.h": ((), PURE_SYSTEM),
    # A file of the client may include those below it, and client.h: no circle but an owner's with its child.
    "client-lib/client.c": (("client.h", "lease.h", "lease-events.h", "observe.h", "request.h", "value.h"),
                            PURE_SYSTEM | {"stdlib.h"}),
    "client-lib/observe.c": (("observe.h", "value.h"), PURE_SYSTEM | {"stdlib.h"}),
    "client-lib/lease-events.c": (("lease-events.h", "lease.h", "value.h"), PURE_SYSTEM | {"stdlib.h"}),
    "client-lib/lease.c": (("lease.h", "deadline-view.h"), PURE_SYSTEM | {"stdatomic.h", "stdlib.h"}),
    "client-lib/request.c": (("request.h", "sized.h"), PURE_SYSTEM),
    "client-lib/request.h": (("redlock.h", "resp.h"), PURE_SYSTEM),
    "client-lib/connection.c": (("connection.h", "connection-internal.h", "client.h", "deadline-view.h"),
                                None),
    "client-lib/sized.c": (("sized.h",), PURE_SYSTEM),
    "client-lib/sized.h": ((), PURE_SYSTEM),
    "client-lib/redlock.h": ((), {"stdbool.h", "stddef.h", "stdint.h"}),
    "agent/base/cleanup.h": ((), None),
    "agent/local/registry.h": (("base/", "core/event.h", "core/limits.h", "local/admission.h",
                                "local/handoff.h", "local/name-table.h", "local/keeper-handle.h",
                                "local/latest-grants.h", "local/deadline-page.h", "local/quota.h",
                                "local/request.h"),
                               PURE_SYSTEM | {"sys/types.h"}),
    "agent/local/request.h": (("base/", "core/event.h", "core/limits.h", "local/"),
                              PURE_SYSTEM | {"sys/types.h"}),
    "agent/local/policy.h": ((), PURE_SYSTEM | {"sys/types.h"}),
    "agent/local/quota.h": (("core/limits.h",), PURE_SYSTEM | {"sys/types.h"}),
    "agent/local/deadline-page.c": (("local/deadline-page.h",), PURE_SYSTEM | {"stdatomic.h"}),
}

# Libraries that may be met in few places only.
LIBRARIES = {
    "hiredis/": ("agent/io/node/",),
    "openssl/": ("agent/io/node/tls.",),
    "confuse.h": ("agent/config/config.c",),
    "systemd/": ("agent/io/", "agent/main.c", "client-lib/metrics/"),
    "microhttpd.h": ("client-lib/metrics/",),
    "pthread.h": ("agent/io/", "client-lib/connection.c"),
}


def sources():
    for directory in LAYERS:
        nested = [other for other in LAYERS if other.startswith(directory + "/")]
        for place, below, names in os.walk(os.path.join(SOURCE, directory)):
            place = os.path.relpath(place, SOURCE)
            below[:] = sorted(name for name in below if os.path.join(place, name) not in nested)
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield directory, os.path.join(place, name)


def includes(path):
    with open(os.path.join(SOURCE, path)) as file:
        return re.findall(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', file.read(), re.M)


def test_layers():
    count = 0
    for directory, path in sources():
        project, system = FILES.get(path, LAYERS[directory])
        wrong = [header for mark, header in includes(path)
                 if (mark == '"' and not header.startswith(project)) or
                 (mark == "<" and system is not None and header not in system)]
        equal(wrong, [], "%s includes what its layer may" % path)
        count += 1
    ok(count > 50, "the sources were found (%d)" % count)


def test_libraries():
    for library, places in LIBRARIES.items():
        users = {path for _, path in sources() if any(header.startswith(library)
                                             for _, header in includes(path))}
        strangers = {path for path in users if not any(path.startswith(place) for place in places)}
        ok(users, "%s is used" % library)
        equal(sorted(strangers), [], "%s is used only where it belongs" % library)


def test_arming():
    """poller.c prepares sd-event only after calls that loop.c records: a source armed elsewhere would
    never fire."""
    for _, path in sources():
        if path != "agent/io/loop/loop.c":
            with open(os.path.join(SOURCE, path)) as file:
                found = re.findall(r"sd_event_(?:add_time|add_defer|add_post|source_set_time|exit)\w*\(",
                                   file.read())
            ok(not found, "%s arms nothing beside loop.c" % path)


def test_top_level():
    """Fixed: nothing may be added."""
    allowed = {"agent", "client-lib", "units", "tests", "protocol.md", "meson.build", "README.md", "LICENSE",
               "CONTRIBUTING.md", "meson_options.txt"}
    there = {name for name in os.listdir(SOURCE) if not name.startswith((".", "build"))}
    equal(sorted(there - allowed), [], "the top level has only what belongs there")


main(test_layers, test_libraries, test_arming, test_top_level)
