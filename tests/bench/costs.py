"""The cost of held leases: CPU, memory, and whether extensions are in time."""

import re
import time

from results import target
from world import KEEPERS, Job, World, cpu_ms, lab, new_nodes, rss_bytes, switches

INTERVAL = 0.95 * 3 / 8  # of the ttl: between two extensions, on average


def extension(results, settings):
    """The agent's leases and the floor's are held at the same time, on nodes of their own."""
    ours, base = World(5), World(5)
    base.agents.pop().kill()  # the agent has blessed them
    count, ttl_ms = settings.extension_leases, settings.extension_ttl_ms
    window = settings.extension_periods * ttl_ms / 1e3 * INTERVAL
    agent_row = results.row("extension_cpu", "CPU of the agent to extend %d leases, ttl %g s" %
                            (count, ttl_ms / 1e3), "ms/min",
                            bound=target(settings, 50), of="value")
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
    time.sleep(window)  # leases that were acquired together get out of step
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
    """The CPU time so far, of all nodes."""
    stats = "".join(str(node.call("INFO", "commandstats")) for node in nodes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)", stats))


def idle_ms(nodes, window):
    """The CPU time that they take in such a time when idle."""
    before = cpu_ms(*nodes)
    time.sleep(window)
    return cpu_ms(*nodes) - before


def cost(results, settings):
    """The cost of an extension, and the names in a call, by the number of leases."""
    ttl_ms = settings.extension_ttl_ms
    window = settings.extension_periods * ttl_ms / 1e3 * INTERVAL
    for count in settings.cost_leases:
        text = "an extension, %d leases: " % count
        world = World(5)
        agent, nodes = world.agents[0], [node.process for node in world.nodes]
        idle = idle_ms(nodes, window)
        holder = Job("hold", world.socket, "cost", count, max(1, count // 4000), ttl_ms, 0)
        time.sleep(1.5 * ttl_ms / 1e3)  # leases that were acquired together get out of step
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
        floor_cost(results.rows[key + "_agent"], results.rows[key + "_nodes"], count, settings)


def floor_cost(client_row, nodes_row, count, settings):
    """The same for a bare client, which extends all of them at once, 64 in a call."""
    ttl_ms = settings.extension_ttl_ms
    window = settings.extension_periods * ttl_ms / 1e3 * INTERVAL
    world = World(5)
    world.agents.pop().kill()  # the agent has blessed the nodes
    nodes = [node.process for node in world.nodes]
    idle = idle_ms(nodes, window)
    renewer = Job("renew", count, ttl_ms, *world.places)
    time.sleep(window)
    for _ in range(settings.cost_rounds):
        before = (cpu_ms(renewer.process), cpu_ms(*nodes))
        time.sleep(window)
        names = count * settings.extension_periods
        client_row.note("floor", (cpu_ms(renewer.process) - before[0]) * 1e3 / names)
        nodes_row.note("floor", (cpu_ms(*nodes) - before[1] - idle) * 1e3 / names)
    renewer.end()
    world.end()


def hold_at_rest(agent, name, count):
    """Held, and nothing is under way. Few requests at once, so that all nodes keep up: memory for requests
    that wait for a slow node belongs to the burst, not to the leases."""
    job = Job("hold", agent.socket_path, name, count, 4, 60000, 0, 16)
    time.sleep(0.5)
    return job


def memory(results, settings):
    """The memory of a lease is that of further leases in an agent that has some already: all buffers
    have their full size, shared pages have been touched, and only the leases are new. All pages of the
    process count, including those that it shares with its clients."""
    nodes = new_nodes(settings.most_nodes)

    def fresh():
        agent = lab.Agent(nodes, keepers=KEEPERS)
        agent.wait_voting(len(nodes))
        return agent

    idle_row = results.row("memory_idle", "memory of an idle agent", "MiB", bound=8, of="value")
    wakeups = results.row("wakeups", "wake-ups of an idle agent, all threads", "per s", bound=1, of="value")
    connection = results.row("memory_connection", "memory of an idle connection, in the agent", "bytes",
                             bound=target(settings, 4096), of="value")
    pageless = results.row("memory_pageless", "the same without libredlock's page: any Redis client's",
                           "bytes")
    lease = results.row("memory_lease", "memory of a held lease, in the agent, in all: %d more of them" %
                        (settings.memory_leases_more - settings.memory_leases), "bytes",
                        bound=target(settings, 600), of="value")
    fixed = results.row("memory_lease_fixed", "the same: what the first %d want beyond that" %
                        settings.memory_leases, "MiB")
    for number in range(settings.memory_rounds):
        agent = fresh()
        empty = rss_bytes(agent.process)
        idle_row.note("agent", empty / 2**20)
        if number == 0:
            time.sleep(settings.idle_seconds / 10)
            before, begun = switches(agent.process), time.monotonic()
            time.sleep(settings.idle_seconds)  # in one piece: the agent probes its nodes every ten seconds
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
                        bound=target(settings, 5 if key == "long_many" else None), of="value").note(
                            "agent", share)
        status = agent.status()
        result = holder.end()
        results.row(key + "_latest", text + "latest extension, of the ttl", "%",
                    bound=target(settings, 50), of="value").note(
                        "agent", 100 - result["least_validity_percent"])
        results.row(key + "_margin", text + "left at the closest, says the agent", "%").note(
            "agent", status["extension_margin"])
        results.row(key + "_lost", text + "lost", "", bound=0, of="value").note(
            "agent", max(result["lost"], status["losses"]))
        world.end()
