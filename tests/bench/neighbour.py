"""What each kind of flood by one user costs another user, who acquires and releases meanwhile, and holds
leases. Floods are those of tests/integration/flood.py."""

import os
import sys

import flood as floods
from results import target
from world import Job, World, in_turns, lab, load

USER = 65533  # not root, which has no limits
KINDS = [form for form in floods.FORMS if form not in ("pipelined", "everywhere")] + [floods.CONNECTING]
WITHOUT = "without"
# Of another user, with nothing to do with the agent. A flood keeps more than one busy: the nodes work, too.
BUSY = {"a busy process": 1, "a busy process a core": os.cpu_count() or 1}


def start(world, kind, ms):
    """The other user's processes."""
    if kind == WITHOUT:
        return []
    if kind in BUSY:
        return [lab.spawn([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY[kind])]
    return [lab.spawn([sys.executable, floods.__file__, world.socket, kind, str(ms / 1e3 + 60)])]


def rows_of(results, settings, kind):
    text = "acquire %s beside " + ("" if kind in BUSY else "a flood of ") + kind + " / without"
    bound = None if kind in BUSY else target(settings, 2)
    rows = {"p50": results.row("beside_p50 " + kind, text % "p50", base=WITHOUT),
            "p99": results.row("beside_p99 " + kind, text % "p99", base=WITHOUT, bound=bound),
            "later": results.row("beside_later " + kind, "the same: extensions, later than without",
                                 "% of ttl", base="-", of="value")}
    return rows


def turn(world, settings, kind, number):
    """Percentiles of acquisitions, and the least validity that a lease had."""
    holder = Job("hold", world.socket, "held-%s-%s" % (number, kind.replace(" ", "-")), 100, 4,
                 settings.beside_ttl_ms, 5)
    others = start(world, kind, settings.beside_ms)
    measured = load("agent", "connections", 1, settings.beside_ms, world.socket, user=USER)["acquire"]
    result = holder.end()
    for other in others:
        lab.end_process(other)
    lab.wait_for(lambda: world.agents[0].status()["leases"] == 0, what="the end of the flood's leases")
    if result["lost"]:
        raise RuntimeError("%d leases were lost beside %s" % (result["lost"], kind))
    return measured, result["least_validity_percent"]


def neighbour(results, settings):
    """In each round, all kinds in a new order; ratios are to the mean of the turns without before and after,
    since a machine with other tenants changes from second to second."""
    world = World(settings.most_nodes, config="max_sessions = 3000")
    os.chmod(lab.directory, 0o711)
    kinds = (*BUSY, *KINDS[:settings.beside_kinds])
    rows = {kind: rows_of(results, settings, kind) for kind in kinds}
    for number in range(settings.beside_rounds):
        before, least_before = turn(world, settings, WITHOUT, "%d-0" % number)
        for place, kind in enumerate(in_turns(kinds), 1):
            measured, least = turn(world, settings, kind, number)
            after, least_after = turn(world, settings, WITHOUT, "%d-%d" % (number, place))
            for quantile in ("p50", "p99"):
                rows[kind][quantile].note("agent", measured[quantile])
                rows[kind][quantile].note(WITHOUT, (before[quantile] + after[quantile]) / 2)
            rows[kind]["later"].note("agent", (least_before + least_after) / 2 - least)
            before, least_before = after, least_after
    world.end()
