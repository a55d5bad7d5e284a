"""Measures the agent's speed; costs.py has the cost of its leases. Each function takes the results and the
settings of this run, and measures in rounds, in which the series to compare take turns."""

import functools
import os
import sys
import time

import costs
import flood as floods
from results import target
from world import (BENCH, KEEPERS, Job, Relay, World, bench, cpu_ms, in_turns, lab, load, monotonic_us,
                   on_one_core)

QUANTILES = ("p50", "p99", "p999")
NODE_TIMEOUT_US = 100000  # as by default


def note_load(results, cell, series, measured):
    for phase in ("acquire", "release"):
        for quantile in QUANTILES:
            row = results.row("%s_%s/%s" % (phase, quantile, cell), "%s %s" % (phase, quantile))
            row.note(series, measured[phase][quantile])
    results.row("refused", "requests that were refused for want of answers in time, in each turn", "",
                base="-").note(series, measured["refused"])
    results.row("pairs/" + cell, "pairs", "per s").note(series, measured["pairs_per_second"])


def note_cpu(results, series, world, turn):
    """The cost of the turn's pairs for the nodes, the agent, and the clients, which do all the work of
    the floor."""
    nodes, agent = [node.process for node in world.nodes], world.agents[0].process
    before = cpu_ms(*nodes), cpu_ms(agent)
    measured = turn()
    pairs = measured["pairs_in_all"]
    results.rows["cpu_nodes"].note(series, (cpu_ms(*nodes) - before[0]) * 1e3 / pairs)
    if series == "agent":
        results.rows["cpu_agent"].note(series, (cpu_ms(agent) - before[1]) * 1e3 / pairs)
    results.rows["cpu_clients"].note(series, measured["cpu_us"] / pairs)
    return measured


def latency(results, settings):
    """Acquire and release, by clients and nodes; 16 clients as processes too, there beside the relay."""
    worlds = {count: World(count) for count in settings.nodes}
    most = max(worlds)
    plain = worlds[most].agent("fencing = no")
    tokens = {"agent": worlds[most].agents[0], "without": plain}
    relay = Relay(worlds[most].places)
    relayed = "processes/%d/%d" % (settings.processes, most)
    cells = [("connections", clients) for clients in settings.clients] + [("processes", settings.processes)]
    many = settings.many_clients
    loaded = "connections/%d/%d" % (many, most)
    results.row("cpu_agent", "CPU of the agent, a pair, %d connections, N=%d" % (many, most))
    results.row("cpu_nodes", "the same: CPU of the nodes")
    results.row("cpu_clients", "the same: CPU of the clients' process")
    fencing = results.row("fencing", "acquire p50, with fencing tokens / without", base="without")
    for _ in range(settings.rounds):
        for count, world in worlds.items():
            for form, clients in cells:
                cell = "%s/%d/%d" % (form, clients, count)
                turn_ms = max(settings.turn_ms, clients)  # a few times for each of them
                places = {"floor": world.places, "agent": [world.socket]}
                if cell == relayed:
                    places["relay"] = [relay.socket]
                for series in in_turns(places):
                    turn = functools.partial(load, series, form, clients, turn_ms, *places[series])
                    note_load(results, cell, series,
                              note_cpu(results, series, world, turn) if cell == loaded else turn())
        for series in in_turns(tokens):
            measured = load("agent", "connections", 1, settings.turn_ms, tokens[series].socket_path)
            fencing.note(series, measured["acquire"]["p50"])
    results.again(results.rows["pairs/" + loaded], "pairs_many",
                  "pairs, %d connections, N=%d: agent / floor" % (many, most),
                  bound=target(settings, 0.5), least=True)
    for key, text, bounds in (("acquire_p50", "acquire p50", {}), ("acquire_p99", "acquire p99", {}),
                              ("pairs", "pairs", {"bound": target(settings, 0.9), "least": True})):
        results.again(results.rows["%s/%s" % (key, relayed)], "relay_" + key,
                      "%s, %d processes, N=%d: agent / relay" % (text, settings.processes, most),
                      base="relay", **bounds)
    relay.end()
    plain.kill()
    for world in worlds.values():
        world.end()


def single_rounds(results, settings, key, where, places):
    text = "acquire %%s, one client, N=%d%s: agent / floor" % (settings.most_nodes, where)
    median_row = results.row(key + "_p50", text % "p50", bound=target(settings, 1.35))
    results.again(median_row, key + "_relay", "the same: agent / relay", base="relay")
    late_row = results.row(key + "_p99", text % "p99")
    for _ in range(settings.single_rounds):
        for series in in_turns(places):
            measured = load(series, "connections", 1, settings.single_ms, *places[series])["acquire"]
            median_row.note(series, measured["p50"])
            late_row.note(series, measured["p99"])


def single(results, settings):
    """One client, in many short rounds: its time depends more on the cores of all processes than with many
    clients. So it is measured with all processes on one core, too."""
    world = World(settings.most_nodes)
    relay = Relay(world.places)
    places = {"floor": world.places, "agent": [world.socket], "relay": [relay.socket]}
    single_rounds(results, settings, "single", "", places)
    with on_one_core(*world.servers, relay.process):
        single_rounds(results, settings, "core_single", ", all on one core", places)
    relay.end()
    world.end()


class LocalHandoffs:
    """Among eight processes of one host."""

    def __init__(self, results, settings, key, where, also=""):
        self.count = settings.handoffs
        self.p50 = results.row(key + "_p50",
                               "hand-off local p50, %s / a Unix socket's round trip" % where,
                               base="echo", bound=target(settings, 4))
        self.p99 = results.row(key + "_p99", "hand-off local p99" + also)
        self.rate = results.row(key + "_rate", "hand-offs local" + also, "per s",
                                bound=target(settings, 40000), of="value", least=True)

    def measure(self, socket):
        """The median."""
        measured = bench("handoff", socket, 8, self.count)
        self.p50.note("agent", measured["handoff"]["p50"])
        self.p50.note("echo", measured["echo"]["p50"])
        self.p99.note("agent", measured["handoff"]["p99"])
        self.rate.note("agent", measured["per_second"])
        return measured["handoff"]["p50"]


def handoff(results, settings):
    """From the release to the next holder's grant: on one host, and between two."""
    world = World(settings.most_nodes, agents=2)
    local = LocalHandoffs(results, settings, "handoff_local", "8 processes")
    beside = results.row("handoff_local_floor", "hand-off local p50 / floor by publish/subscribe")
    on_core = LocalHandoffs(results, settings, "core_handoff", "all on one core", ", all on one core")
    remote = results.row("handoff_remote_p50",
                         "hand-off remote p50, two agents / floor by publish/subscribe",
                         bound=target(settings, 1.5))
    remote_late = results.row("handoff_remote_p99", "hand-off remote p99")
    held = results.row("handoff_held", "hand-off local p50, from who has held for 60 to 138 ms")
    places = {"floor": world.places, "agent": [agent.socket_path for agent in world.agents]}
    for _ in range(settings.handoff_rounds):
        beside.note("agent", local.measure(world.socket))
        with on_one_core(*world.servers):
            on_core.measure(world.socket)
        for series in in_turns(places):
            measured = bench("remote", "floor" if series == "floor" else "agents", settings.remote_handoffs,
                             *places[series])
            remote.note(series, measured["handoff"]["p50"])
            if series == "floor":
                beside.note(series, measured["handoff"]["p50"])
            remote_late.note(series, measured["handoff"]["p99"])
    for _ in range(settings.rounds):
        held.note("agent", bench("held", world.socket, settings.peer_handoffs)["handoff"]["p50"])
    world.end()


def killed(holder, waiter, victim):
    """Microseconds from the kill until the waiter has it."""
    time.sleep(0.05)  # for both to become idle
    begun_us = monotonic_us()
    victim.kill()
    took_us = waiter.line()["at_us"] - begun_us
    waiter.end()
    holder.kill()
    return took_us


def failover(results, settings):
    world = World(settings.most_nodes, agents=2)
    client = results.row("failover_client", "waiter in after kill -9 of the holder", "ms")
    agent = results.row("failover_agent", "waiter in after kill -9 of the holder's agent: of the ttl",
                        "%", bound=100, of="value")
    ttl_ms = settings.failover_ttl_ms
    for number in range(settings.rounds):
        name = "failover-%d" % number
        holder = Job("hold", world.socket, name, 1, 1, 10000, 0)
        waiter = Job("await", world.socket, name + "-0", 10000)
        client.note("agent", killed(holder, waiter, holder) / 1e3)
        holder = Job("hold", world.socket, name, 1, 1, ttl_ms, 0)
        waiter = Job("await", world.agents[1].socket_path, name + "-0", ttl_ms)
        agent.note("agent", killed(holder, waiter, world.agents[0]) / 10 / ttl_ms)
        world.agents[0] = world.agent()
    world.end()


def stopped(results, settings):
    """One of the nodes is stopped soon after the turn's begin, which the higher percentiles show."""
    world = World(5)
    node = world.nodes[0]
    text = "acquire %s, one of five nodes stopped / all there"
    rows = {"p50": results.row("stopped_p50", text % "p50", base="all there", bound=target(settings, 1.2)),
            "p99": results.row("stopped_p99", text % "p99", base="all there", bound=NODE_TIMEOUT_US,
                               of="value")}
    base_row = results.row("stopped_floor", "the same for the floor, p50", ours="floor",
                           base="floor, all there")
    places = {"floor": world.places, "agent": [world.socket]}
    for _ in range(settings.rounds):
        for series in in_turns(("floor", "floor, all there", "agent", "all there")):
            through = "floor" if series.startswith("floor") else "agent"
            turn = Job("load", through, "connections", 1, settings.stopped_ms, *places[through])
            if series == through:
                time.sleep(settings.stopped_ms / 8e3)
                node.stop()
            measured = turn.end()["acquire"]
            node.cont()
            lab.wait_for(lambda: world.agents[0].status()["voting"] == 5, 30, what="the fifth node")
            if through == "floor":
                base_row.note(series, measured["p50"])
                continue
            for quantile, row in rows.items():
                row.note(series, measured[quantile])
    world.end()


class DelayedNode:
    def __init__(self, node):
        self.name, self.node, self.socket_path = node.name, node, lab.path("delayed.sock")
        self.address = "unix:" + self.socket_path


def delayed(results, settings):
    """A round trip of 1 ms to each node, for both."""
    nodes = lab.nodes(5)
    far = [DelayedNode(node) for node in nodes]
    routes = [place for node in far for place in (node.socket_path, node.node.socket_path)]
    proxy = lab.spawn([BENCH, "delay", "1000", *routes])
    lab.wait_for(lambda: all(os.path.exists(node.socket_path) for node in far), what="the proxies")
    agent = lab.Agent(far, keepers=KEEPERS)
    agent.wait_voting(5)
    text = "acquire %s, nodes 1 ms away, over Unix sockets"
    rows = {quantile: results.row("delayed_" + quantile, text % quantile,
                                  bound=target(settings, 1.1 if quantile == "p50" else None))
            for quantile in ("p50", "p99")}
    places = {"floor": [node.socket_path for node in far], "agent": [agent.socket_path]}
    for _ in range(settings.rounds):
        for series in in_turns(places):
            measured = load(series, "connections", 1, settings.delayed_ms, *places[series])["acquire"]
            for quantile, row in rows.items():
                row.note(series, measured[quantile])
    agent.kill()
    lab.end_process(proxy)
    for node in nodes:
        node.kill()


def flood(results, settings):
    """Another user requests 130,000 names in a row, on one connection. Meanwhile leases are held, and one
    client acquires and releases."""
    world = World(5, config="max_sessions = 3000")
    os.chmod(lab.directory, 0o711)
    row = results.row("flood", "latest extension in a flood of 130,000 requests / without: of the ttl", "%",
                      base="without")
    later = results.row("flood_later", "the same, later than without: points of the ttl", "points",
                        bound=target(settings, 10), of="value")
    sent = results.row("flood_late", "sent after it was due, at the latest, in all of these rounds", "ms")
    rows = {quantile: results.row("flood_acquire_" + quantile,
                                  "acquire %s of another user, in the flood / without" % quantile,
                                  base="without") for quantile in ("p50", "p99")}
    ttl_ms = settings.flood_ttl_ms
    for number in range(settings.rounds):
        for series in in_turns(("without", "agent")):
            name = "flood-%d-%s" % (number, series)
            holder = Job("hold", world.socket, name, 200, 4, ttl_ms, 5)
            others = lab.spawn([sys.executable, floods.__file__, world.socket, "pipelined",
                                str(settings.flood_ms / 1e3)]) if series == "agent" else None
            measured = load("agent", "connections", 1, settings.flood_ms, world.socket)
            for quantile, acquire in rows.items():
                acquire.note(series, measured["acquire"][quantile])
            if others:
                others.wait()
            result = holder.end()
            if result["lost"]:
                raise RuntimeError("%d leases were lost in the flood" % result["lost"])
            row.note(series, 100 - result["least_validity_percent"])
        later.note("agent", row.series["agent"][-1] - row.series["without"][-1])
    sent.note("agent", world.agents[0].status()["extension_late"])
    world.end()


BUSY_MS_MIN = 500  # a pair takes many milliseconds when the machine has more to do besides


def busy(results, settings):
    """One client, beside processes that never sleep, one a core: a process that yields its core waits
    for long."""
    world = World(settings.most_nodes)
    places = {"floor": world.places, "agent": [world.socket]}
    hogs = [lab.spawn([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    median_row = results.row("busy_p50", "acquire p50, beside a busy process a core: agent / floor")
    pairs_row = results.row("busy_pairs", "pairs, the same", "per s")
    for _ in range(settings.rounds):
        for series in in_turns(places):
            measured = load(series, "connections", 1, max(settings.turn_ms, BUSY_MS_MIN), *places[series])
            median_row.note(series, measured["acquire"]["p50"])
            pairs_row.note(series, measured["pairs_per_second"])
    for hog in hogs:
        lab.end_process(hog)
    world.end()


def validity(results, settings):
    world = World(settings.most_nodes)
    row = results.row("valid", "redlock_valid() / clock_gettime(CLOCK_BOOTTIME)", "ns", base="the clock",
                      bound=target(settings, 1.3))
    parts = {"agent": "valid", "the clock": "clock"}
    for _ in range(settings.rounds):
        turns = in_turns(parts)
        measured = bench("valid", world.socket, *(parts[series] for series in turns))
        for series in turns:
            row.note(series, measured[parts[series] + "_ns"])
    world.end()


SECTIONS = {"latency": latency, "single": single, "handoff": handoff, "failover": failover,
            "extension": costs.extension, "cost": costs.cost, "memory": costs.memory, "stopped": stopped,
            "delayed": delayed, "flood": flood, "busy": busy, "validity": validity}
