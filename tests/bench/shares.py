"""The share of a library's worker in a name for which the clients of two busy agents contend, compared with
its share among workers of the same library."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))
from libraries import LIBRARIES, absences  # noqa: E402
from results import target  # noqa: E402
from workers import AGENT, Worker, lab  # noqa: E402
from world import World, in_turns  # noqa: E402

TRIED = ("redsync (Go)", "redlock 4.2.0 (npm)", "redlock 5.0.0-beta.2 (npm)")
TTL_MS = 5000
SECTION_MS, PAUSE_MS = 30, 20
WORKERS, OTHERS = 2, 4
WARM_UP_SECONDS = 2


class Contention:
    """Two workers of a library, and four others, for a turn on a name of its own."""

    serial = 0

    def __init__(self, library, world, resource):
        self.library, self.world, self.resource = library, world, resource

    def worker(self, name, library, places):
        return Worker(library, self.resource, name, TTL_MS, [place.socket_path for place in places])

    def turn(self, beside, seconds):
        """Its sections a second and worker, once the others have met it."""
        Contention.serial += 1
        name = "share-%d" % Contention.serial
        ours = self.worker(name, self.library, self.world.nodes)
        others = (self.worker(name, AGENT, self.world.agents) if beside == "agent" else
                  self.worker(name, self.library, self.world.nodes))
        before = self.together(ours, others, WARM_UP_SECONDS, 1)
        after = self.together(ours, others, seconds)
        for worker in (ours, others):
            worker.kill()
        return (after["sections"] - before["sections"]) / WORKERS / seconds

    def together(self, ours, others, seconds, alone_seconds=0):
        ours.begin("contend", seconds + alone_seconds, SECTION_MS, PAUSE_MS, WORKERS)
        time.sleep(alone_seconds)
        others.begin("contend", seconds, SECTION_MS, PAUSE_MS, OTHERS)
        said = [worker.answer() for worker in (ours, others)]
        if any(one["overlaps"] for one in said):
            raise RuntimeError("two holders at a time")
        return said[0]


def measure(results, settings):
    if settings.share_rounds == 0:
        return
    libraries = [library for library in LIBRARIES if library.name in TRIED]
    why = absences(libraries)
    world, resource = World(3, agents=2), lab.Node("resource")
    for library in libraries:
        row = results.row("share_" + library.kind.lower(),
                          "locks of %s beside two busy agents / its kind" % library.name,
                          "per s", base="library", bound=target(settings, 0.5), least=True)
        if why[library.name]:
            continue
        contention = Contention(library, world, resource)
        for _ in range(settings.share_rounds):
            for beside in in_turns(("agent", "library")):
                row.note(beside, contention.turn(beside, settings.share_seconds))
    resource.kill()
    world.end()
