#!/usr/bin/python3
"""tests/bench/run [--quick|--long] [--unix] [--output DIRECTORY] [--only SECTION,...] [--no-peers]

Measures the agent beside the bare floor (hiredis, nothing in between, all nodes at once, majority), prints a
table, and writes it with every number (bench.json) and plots (*.svg) into a directory, by default
build-bench/results. --quick takes about four minutes, the whole under twenty-five, --long a quarter of an
hour more. Nodes are reached over TCP, as in a fleet; with --unix over Unix sockets, which cost less.
REDLOCK_BUILD is the build to measure; tests/bench/run makes one."""

import argparse
import json
import os
import platform
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("REDLOCK_BUILD", os.path.join(HERE, "..", "..", "build-bench"))

import costs  # noqa: E402
import measures  # noqa: E402
import neighbour  # noqa: E402
import peers  # noqa: E402
import plots  # noqa: E402
import shares  # noqa: E402
import table  # noqa: E402
import world  # noqa: E402
from results import Results  # noqa: E402

NOISE = ("acquire_p50", "pairs", "single_p50", "handoff_remote_p50", "delayed_p50", "stopped_floor",
         "busy_p50", "peer_acquire")
SECTIONS = {**measures.SECTIONS, "peers": peers.measure, "shares": shares.measure,
            "beside": neighbour.neighbour, "endurance": costs.endurance}


class Settings:
    """The whole; the other forms leave parts out."""
    binding = True  # bounds apply only to numbers measured in the full form
    rounds = 5
    turn_ms = 400
    clients = (1, 8, 64, 512)
    many_clients = 64
    processes = 16
    nodes = (1, 3, 5)
    most_nodes = 5
    single_rounds = 60
    single_ms = 120
    handoff_rounds = 25
    handoffs = 4000
    remote_handoffs = 40
    failover_ttl_ms = 1000
    extension_leases = 1000
    extension_ttl_ms = 10000
    extension_periods = 2
    cost_leases = (1000, 10000, 100000)
    cost_rounds = 5
    memory_rounds = 5
    memory_leases = 10000
    memory_leases_more = 50000
    idle_connections = 1000
    idle_seconds = 20
    stopped_ms = 1500
    delayed_ms = 1500
    flood_ttl_ms = 2000
    flood_ms = 4000
    beside_kinds = len(neighbour.KINDS)
    beside_rounds = 10
    beside_ttl_ms = 2000
    beside_ms = 1000
    peer_kinds = 6
    peer_rounds = 5
    peer_ms = 600
    peer_handoffs = 15
    peer_ttl_ms = 2000
    peer_kills = 3
    share_rounds = 5
    share_seconds = 8
    endurance = ()


class Long(Settings):
    endurance = (("long_short", 10000, 1000, 300), ("long_many", 100000, 10000, 600))


class Quick(Settings):
    rounds = 5
    turn_ms = 100
    single_rounds = 15
    single_ms = 100
    handoff_rounds = 15
    handoffs = 1000
    remote_handoffs = 10
    failover_ttl_ms = 400
    extension_periods = 1
    cost_leases = (1000, 10000)
    cost_rounds = 1
    memory_rounds = 1
    idle_seconds = 10
    stopped_ms = 400
    delayed_ms = 300
    flood_ttl_ms = 500
    flood_ms = 900
    beside_rounds = 1
    beside_ms = 700
    peer_rounds = 1
    peer_ms = 300
    peer_handoffs = 7
    peer_ttl_ms = 2000
    peer_kills = 1
    share_rounds = 1


class Tiny(Settings):
    """To test the benchmark: the numbers mean nothing. No lease ends because the machine is busy."""
    binding = False
    share_rounds = 0
    rounds = 1
    turn_ms = 100
    clients = (1, 4)
    many_clients = 4
    processes = 2
    nodes = (1, 3)
    most_nodes = 3
    single_rounds = 2
    single_ms = 100
    handoff_rounds = 1
    handoffs = 20
    remote_handoffs = 1
    failover_ttl_ms = 1000
    extension_leases = 20
    extension_ttl_ms = 1200
    extension_periods = 1
    cost_leases = (20,)
    cost_rounds = 1
    memory_rounds = 1
    memory_leases = 100
    memory_leases_more = 300
    idle_connections = 10
    idle_seconds = 0.2
    stopped_ms = 200
    delayed_ms = 100
    flood_ttl_ms = 3000
    flood_ms = 200
    beside_kinds = 2
    beside_rounds = 1
    beside_ttl_ms = 3000
    beside_ms = 100
    peer_kinds = 2
    peer_rounds = 1
    peer_ms = 50
    peer_handoffs = 3
    peer_ttl_ms = 1000
    peer_kills = 1
    endurance = (("long_short", 20, 3000, 1.5),)


def sections_of(text):
    """The sections of --only. A mistyped section is refused: a table without it would look like success."""
    names = text.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError("no such section: %s; there are %s" % (
            ", ".join(map(repr, unknown)), ", ".join(SECTIONS)))
    return names


def arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/run", usage=__doc__.split("\n")[0])
    form = parser.add_mutually_exclusive_group()
    for name in ("quick", "long", "tiny"):
        form.add_argument("--" + name, action="store_true")
    parser.add_argument("--output", default=os.path.join(os.environ["REDLOCK_BUILD"], "results"))
    parser.add_argument("--only", type=sections_of, default=list(SECTIONS))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--unix", action="store_true")
    given = parser.parse_args()
    if given.no_peers:
        given.only = [name for name in given.only if name != "peers"]
    if not given.only:
        parser.error("--only peers --no-peers leaves nothing to measure")
    return given


def said(*command):
    """The first line that a command prints; "" without one."""
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""
    except OSError:
        return ""


def versions():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    sources = ("--", "../../agent", "../../client-lib")
    changed = said("git", "status", "--porcelain", "--untracked-files=no", *sources)
    return {"agent": said("git", "log", "-1", "--format=%h", *sources) + (" and changes" if changed else ""),
            "redis": said("redis-server", "--version").split("v=")[-1].split(" ")[0],
            "hiredis": said("pkg-config", "--modversion", "hiredis"),
            "kernel": platform.release(), "cpu": "%d x %s" % (os.cpu_count(), models[0] if models else "?")}


def noise(results):
    """How far the floor itself varies from round to round: no ratio is more precise. Higher percentiles vary
    more."""
    spread = {}
    for key, row in results.rows.items():
        for series, values in row.series.items():
            if key.split("/")[0] in NOISE and series.startswith("floor") and len(values) > 1:
                spread["%s, %s" % (key, series)] = (max(values) - min(values)) / row.value(series)
    return {"floor_spread": spread, "floor_spread_median": table.median(spread.values()) if spread else None}


def measured(name, measure, results, settings):
    """False when the section failed: its measurements until then count, and the other sections go on."""
    print("measuring: " + name, file=sys.stderr, flush=True)
    try:
        measure(results, settings)
    except Exception:
        traceback.print_exc()
        return False
    return True


def main():
    given = arguments()
    settings = Tiny if given.tiny else Quick if given.quick else Long if given.long else Settings
    results = Results()
    if given.unix:
        world.by_unix_sockets()
    numbers = {name: getattr(settings, name) for name in dir(settings) if not name.startswith("_")}
    form = "whole" if settings is Settings else settings.__name__.lower()
    results.about = {"form": form, "settings": numbers, "versions": versions(),
                     "nodes": world.how_asked(),
                     "load_average": {"start": os.getloadavg()[0]}}
    os.makedirs(given.output, exist_ok=True)
    results.about["failed"] = [name for name in SECTIONS if name in given.only and
                               not measured(name, SECTIONS[name], results, settings)]
    results.about["load_average"]["end"] = os.getloadavg()[0]
    results.about["noise"] = noise(results)
    with open(os.path.join(given.output, "bench.json"), "w") as file:
        json.dump(results.as_json(), file, indent=1)
    text = table.text(results)
    print(text)
    with open(os.path.join(given.output, "table.txt"), "w") as file:
        file.write(text + "\n")
    drawn = plots.draw(results, given.output)
    print("written to %s: table.txt bench.json %s" % (given.output, " ".join(drawn)))
    return 1 if results.about["failed"] else 0


sys.exit(main())
