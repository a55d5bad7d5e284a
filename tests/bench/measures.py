"""What is measured of the agent. Each function takes the results and the settings of this run, and measures
in rounds: what is compared takes turns."""

import os
import re
import time

from world import BENCH, KEEPERS, Job, World, bench, cpu_ms, lab, load, monotonic_us, rss_bytes, switches

QUANTILES = ("p50", "p99", "p999")


def note_load(results, cell, series, measured):
    for phase in ("acquire", "release"):
        for quantile in QUANTILES:
            row = results.row("%s_%s/%s" % (phase, quantile, cell), "%s %s" % (phase, quantile))
            row.note(series, measured[phase][quantile])
    results.row("refused", "requests that were refused for want of answers in time, in each turn", "",
                base="-").note(series, measured["refused"])
    results.row("pairs/" + cell, "pairs", "per s").note(series, measured["pairs_per_second"])


def latency(results, settings):
    """Acquire and release, by clients and nodes; 16 clients as processes too, there beside the relay."""
    worlds = {count: World(count) for count in settings.nodes}
    plain = worlds[max(worlds)].agent("fencing = no")
    relay_path = lab.path("relay.sock")
    relay = lab.spawn([BENCH, "relay", relay_path, *worlds[max(worlds)].places])
    lab.wait_for(lambda: os.path.exists(relay_path), what="the relay")
    cells = [("connections", clients) for clients in settings.clients] + [("processes", settings.processes)]
    fencing = results.row("fencing", "acquire p50, with fencing tokens / without", base="without")
    for _ in range(settings.rounds):
        for count, world in worlds.items():
            for form, clients in cells:
                cell = "%s/%d/%d" % (form, clients, count)
                turn_ms = max(settings.turn_ms, clients)  # a few times for each of them
                for series, places in (("floor", world.places), ("agent", [world.socket])):
                    note_load(results, cell, series, load(series, form, clients, turn_ms, *places))
        note_load(results, cell, "relay", load("relay", form, clients, settings.turn_ms, relay_path))
        for series, agent in (("agent", worlds[count].agents[0]), ("without", plain)):
            measured = load("agent", "connections", 1, settings.turn_ms, agent.socket_path)
            fencing.note(series, measured["acquire"]["p50"])
    for key, text, unit in (("acquire_p50", "acquire p50", "us"), ("acquire_p99", "acquire p99", "us"),
                            ("pairs", "pairs", "per s")):
        measured = results.rows["%s/%s" % (key, cell)]
        text += ", %d processes, N=%d: agent / relay" % (clients, count)
        row = results.row("relay_" + key, text, unit, base="relay")
        for series in ("agent", "relay", "floor"):
            row.series[series] = measured.series[series]
    lab.end_process(relay)
    plain.kill()
    for world in worlds.values():
        world.end()




def handoff(results, settings):
    """From the release to the next one's grant: on one host, and between two."""
    world = World(settings.most_nodes, agents=2)
    local = results.row("handoff_local_p50", "hand-off local p50, 8 processes / a Unix socket's round trip",
                        base="echo")
    beside = results.row("handoff_local_floor", "the same / floor by publish/subscribe")
    late = results.row("handoff_local_p99", "hand-off local p99")
    rate = results.row("handoff_local_rate", "hand-offs local", "per s")
    remote = results.row("handoff_remote_p50",
                         "hand-off remote p50, two agents / floor by publish/subscribe")
    remote_late = results.row("handoff_remote_p99", "hand-off remote p99")
    for _ in range(settings.rounds):
        measured = bench("handoff", world.socket, 8, settings.handoffs)
        local.note("agent", measured["handoff"]["p50"])
        local.note("echo", measured["echo"]["p50"])
        late.note("agent", measured["handoff"]["p99"])
        beside.note("agent", measured["handoff"]["p50"])
        rate.note("agent", measured["per_second"])
        for series, places in (("floor", world.places), ("agent", [a.socket_path for a in world.agents])):
            measured = bench("remote", "floor" if series == "floor" else "agents", settings.remote_handoffs,
                             *places)
            remote.note(series, measured["handoff"]["p50"])
            if series == "floor":
                beside.note(series, measured["handoff"]["p50"])
            remote_late.note(series, measured["handoff"]["p99"])
    world.end()


def killed(holder, waiter, victim):
    """Microseconds from the kill until the waiter has it."""
    time.sleep(0.05)  # for both to be at rest
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


def extension(results, settings):
    """The agent's leases and the floor's are held at the same time, on nodes of their own."""
    ours, base = World(5), World(5)
    base.agents.pop().kill()  # it has blessed them
    count, ttl_ms = settings.extension_leases, settings.extension_ttl_ms
    window = settings.extension_periods * ttl_ms / 1e3 * 0.95 / 3
    agent_row = results.row("extension_cpu", "CPU of the agent to extend %d leases, ttl %g s" %
                            (count, ttl_ms / 1e3), "ms/min",
                            bound=50 if settings.binding else None, of="value")
    nodes_row = results.row("extension_cpu_nodes", "the same: CPU of the five nodes, beyond that when idle",
                            "ms/min")
    processes = {"agent": [ours.agents[0].process], "floor": []}
    nodes = {"agent": [node.process for node in ours.nodes], "floor": [node.process for node in base.nodes]}
    idle = {series: cpu_ms(*nodes[series]) for series in nodes}
    time.sleep(window)
    idle = {series: cpu_ms(*nodes[series]) - idle[series] for series in nodes}
    holder = Job("hold", ours.socket, "extension", count, 1, ttl_ms, 1000)
    renewer = Job("renew", count, ttl_ms, *base.places)
    processes["floor"].append(renewer.process)
    time.sleep(window)  # the leases that were taken together get out of step
    for _ in range(settings.rounds):
        before = {series: (cpu_ms(*processes[series]), cpu_ms(*nodes[series])) for series in nodes}
        begun = time.monotonic()
        time.sleep(window)
        minutes = (time.monotonic() - begun) / 60
        for series in nodes:
            agent_row.note(series, (cpu_ms(*processes[series]) - before[series][0]) / minutes)
            nodes_row.note(series, (cpu_ms(*nodes[series]) - before[series][1] - idle[series]) / minutes)
    lost = holder.end()["lost"]
    results.row("extension_lost", "leases lost meanwhile", "", bound=0, of="value").note("agent", lost)
    renewer.end()
    ours.end()
    base.end()


def script_calls(nodes):
    """So far, of all nodes."""
    stats = "".join(str(node.call("INFO", "commandstats")) for node in nodes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)", stats))


def cost(results, settings):
    """What it costs to extend a lease, and a call's names, by the number of leases."""
    ttl_ms = settings.extension_ttl_ms
    window = settings.extension_periods * ttl_ms / 1e3 * 0.95 / 3
    for count in settings.cost_leases:
        text = "an extension, %d leases: " % count
        world = World(5)
        agent, nodes = world.agents[0], [node.process for node in world.nodes]
        idle = cpu_ms(*nodes)
        time.sleep(window)
        idle = cpu_ms(*nodes) - idle
        holder = Job("hold", world.socket, "cost", count, max(1, count // 4000), ttl_ms, 0)
        time.sleep(1.5 * ttl_ms / 1e3)  # those that were taken together get out of step
        for _ in range(settings.cost_rounds):
            before = (agent.status()["extensions"], script_calls(world.nodes), cpu_ms(agent.process),
                      cpu_ms(*nodes))
            time.sleep(window)
            names = agent.status()["extensions"] - before[0]
            calls = (script_calls(world.nodes) - before[1]) / len(nodes)
            agent_us = (cpu_ms(agent.process) - before[2]) * 1e3
            nodes_us = (cpu_ms(*nodes) - before[3] - idle) * 1e3
            key = "cost_%d" % count
            results.row(key + "_agent", text + "CPU of the agent").note("agent", agent_us / names)
            results.row(key + "_call", text + "the same for a call to each node").note(
                "agent", agent_us / calls)
            results.row(key + "_names", text + "names in such a call", "").note("agent", names / calls)
            results.row(key + "_nodes", text + "CPU of the five nodes").note("agent", nodes_us / names)
        results.row(key + "_lost", text + "leases lost", "", bound=0, of="value").note(
            "agent", holder.end()["lost"])
        world.end()


def hold_at_rest(agent, name, count):
    """Held, and nothing is under way. Few are asked for at once, so that all nodes keep up: what waits for a
    slow one is of the burst, not of the lease."""
    job = Job("hold", agent.socket_path, name, count, 4, 60000, 0, 16)
    time.sleep(0.5)
    return job


def memory(results, settings):
    """Memory of a lease is what more of them want in an agent that has some already: there all buffers are
    as large as they get, whatever is shared has been touched, and nothing but the leases is new. Counted are
    all pages of the process, those that it shares with its clients too."""
    nodes = lab.nodes(settings.most_nodes)

    def fresh():
        agent = lab.Agent(nodes, keepers=KEEPERS)
        agent.wait_voting(len(nodes))
        return agent

    idle_row = results.row("memory_idle", "memory of an idle agent", "MiB", bound=8, of="value")
    wakeups = results.row("wakeups", "wake-ups of an idle agent, all threads", "per s", bound=1, of="value")
    connection = results.row("memory_connection", "memory of an idle connection, in the agent", "bytes",
                             bound=4096 if settings.binding else None, of="value")
    pageless = results.row("memory_pageless", "the same without libredlock's page: any Redis client's",
                           "bytes")
    lease = results.row("memory_lease", "memory of a held lease, in the agent, in all: %d more of them" %
                        (settings.memory_leases_more - settings.memory_leases), "bytes",
                        bound=600 if settings.binding else None, of="value")
    fixed = results.row("memory_lease_fixed", "the same: what the first %d want beyond that" %
                        settings.memory_leases, "MiB")
    for number in range(settings.memory_rounds):
        agent = fresh()
        empty = rss_bytes(agent.process)
        idle_row.note("agent", empty / 2**20)
        if number == 0:
            time.sleep(settings.idle_seconds / 10)
            before, begun = switches(agent.process), time.monotonic()
            time.sleep(settings.idle_seconds)  # in one piece: it looks after its nodes every ten seconds
            wakeups.note("agent", (switches(agent.process) - before) / (time.monotonic() - begun))
            empty = rss_bytes(agent.process)
        job = Job("idle", agent.socket_path, settings.idle_connections)
        connection.note("agent", (rss_bytes(agent.process) - empty) / settings.idle_connections)
        job.end()
        agent.kill()
        agent = fresh()
        empty = rss_bytes(agent.process)
        clients = [agent.client() for _ in range(settings.idle_connections)]
        for client in clients:
            client.call("PING")
        pageless.note("agent", (rss_bytes(agent.process) - empty) / settings.idle_connections)
        for client in clients:
            client.close()
        agent.kill()
        agent = fresh()
        first, more = settings.memory_leases, settings.memory_leases_more - settings.memory_leases
        empty = rss_bytes(agent.process)
        held = [hold_at_rest(agent, "memory-%d" % number, first)]
        some = rss_bytes(agent.process)
        held.append(hold_at_rest(agent, "memory-%d-more" % number, more))
        each = (rss_bytes(agent.process) - some) / more
        lease.note("agent", each)
        fixed.note("agent", max(0, some - empty - first * each) / 2**20)
        for job in held:
            job.kill()
        agent.kill()
    for node in nodes:
        node.kill()


def stopped(results, settings):
    """One of the nodes is stopped soon after the turn's begin: the higher percentiles show when."""
    world = World(5)
    node = world.nodes[0]
    rows = {quantile: results.row("stopped_" + quantile,
                                  "acquire %s, one of five nodes stopped / all there" % quantile,
                                  base="all there",
                                  bound=1.2 if quantile == "p50" and settings.binding else None)
            for quantile in ("p50", "p99")}
    base_row = results.row("stopped_floor", "the same for the floor, p50", ours="floor",
                           base="floor, all there")
    for _ in range(settings.rounds):
        for through, places in (("floor", world.places), ("agent", [world.socket])):
            all_there = load(through, "connections", 1, settings.stopped_ms, *places)["acquire"]
            turn = Job("load", through, "connections", 1, settings.stopped_ms, *places)
            time.sleep(settings.stopped_ms / 8e3)
            node.stop()
            one_stopped = turn.end()["acquire"]
            node.cont()
            lab.wait_for(lambda: world.agents[0].status()["voting"] == 5, 30, what="the fifth node")
            if through == "floor":
                base_row.note("floor, all there", all_there["p50"])
                base_row.note("floor", one_stopped["p50"])
                continue
            for quantile, row in rows.items():
                row.note("all there", all_there[quantile])
                row.note("agent", one_stopped[quantile])
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
    rows = {quantile: results.row("delayed_" + quantile, "acquire %s, nodes 1 ms away" % quantile,
                                  bound=1.1 if quantile == "p50" and settings.binding else None)
            for quantile in ("p50", "p99")}
    for _ in range(settings.rounds):
        for series in ("floor", "agent"):
            places = [node.socket_path for node in far] if series == "floor" else [agent.socket_path]
            measured = load(series, "connections", 1, settings.delayed_ms, *places)["acquire"]
            for quantile, row in rows.items():
                row.note(series, measured[quantile])
    agent.kill()
    lab.end_process(proxy)
    for node in nodes:
        node.kill()


def flood(results, settings):
    world = World(5)
    row = results.row("flood", "latest extension in a flood of 32 connections / without: of the ttl", "%",
                      base="without")
    sent = results.row("flood_late", "sent after it was due, at the latest, in all of these rounds", "ms")
    pairs = results.row("flood_pairs", "the flood's pairs", "per s")
    ttl_ms = settings.flood_ttl_ms
    for number in range(settings.rounds):
        for series in ("without", "agent"):
            name = "flood-%d-%s" % (number, series)
            holder = Job("hold", world.socket, name, 200, 4, ttl_ms, 5)
            if series == "agent":
                pairs.note("agent", load("agent", "connections", 32, settings.flood_ms,
                                         world.socket)["pairs_per_second"])
            else:
                time.sleep(settings.flood_ms / 1e3)
            told = holder.end()
            if told["lost"]:
                raise RuntimeError("%d leases were lost in the flood" % told["lost"])
            row.note(series, 100 - told["least_validity_percent"])
    sent.note("agent", world.agents[0].status()["extension_late"])
    world.end()


def validity(results, settings):
    world = World(settings.most_nodes)
    row = results.row("valid", "redlock_valid() / clock_gettime(CLOCK_BOOTTIME)", "ns", base="the clock")
    for _ in range(settings.rounds):
        measured = bench("valid", world.socket)
        row.note("agent", measured["valid_ns"])
        row.note("the clock", measured["clock_ns"])
    world.end()


def endurance(results, settings):
    """--long: 10,000 leases with a ttl of 1 s for five minutes, 100,000 with 10 s for ten."""
    for key, count, ttl_ms, seconds in settings.endurance:
        world = World(5)
        text = "%d leases, ttl %g s, %g s: " % (count, ttl_ms / 1e3, seconds)
        holder = Job("hold", world.socket, key, count, max(4, count // 4000), ttl_ms, ttl_ms // 20)
        agent = world.agents[0]
        for _ in range(5):
            before, begun = cpu_ms(agent.process), time.monotonic()
            time.sleep(seconds / 5)
            share = (cpu_ms(agent.process) - before) / 10 / (time.monotonic() - begun)
            results.row(key + "_cpu", text + "CPU of the agent", "% of a core",
                        bound=5 if settings.binding and key == "long_many" else None, of="value").note(
                            "agent", share)
        status = agent.status()
        told = holder.end()
        results.row(key + "_latest", text + "latest extension, of the ttl", "%").note(
            "agent", 100 - told["least_validity_percent"])
        results.row(key + "_margin", text + "left at the closest, says the agent", "%").note(
            "agent", status["extension_margin"])
        results.row(key + "_lost", text + "lost", "", bound=0, of="value").note(
            "agent", max(told["lost"], status["losses"]))
        world.end()


SECTIONS = {"latency": latency, "handoff": handoff, "failover": failover, "extension": extension,
            "cost": cost, "memory": memory, "stopped": stopped, "delayed": delayed, "flood": flood,
            "validity": validity}
