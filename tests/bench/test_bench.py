"""Runs the benchmark with numbers that mean nothing: it must write its table, results and plots."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tools")]
from tap import equal, main, note, ok, skip  # noqa: E402
import peers  # noqa: E402
import table  # noqa: E402
from results import Results  # noqa: E402
import world  # noqa: E402
from world import in_turns  # noqa: E402

PLOTS = ("latency.svg", "pairs.svg", "handoff.svg", "peers.svg")
ROWS = ("acquire_p50/connections/4/3", "release_p999/processes/2/1", "pairs/processes/2/3", "relay_pairs",
        "pairs_many", "single_p50", "single_relay", "single_p99", "core_single_p50", "core_single_relay",
        "fencing", "handoff_local_rate", "handoff_local_p50", "core_handoff_rate", "core_handoff_p50",
        "handoff_remote_p50", "handoff_held", "cpu_agent", "cpu_nodes", "cpu_clients",
        "failover_client", "failover_agent", "extension_cpu",
        "extension_lost", "cost_20_agent", "cost_20_call", "cost_20_names", "cost_20_lost", "memory_idle",
        "wakeups", "memory_connection", "memory_lease", "memory_lease_fixed", "stopped_p50",
        "stopped_floor", "delayed_p50", "flood",
        "flood_acquire_p99", "beside_p99 a busy process", "beside_p50 sessions",
        "busy_p50", "valid", "long_short_cpu", "long_short_latest",
        "long_short_lost", "peer_acquire", "peer_core", "peer_pairs_16", "peer_pairs_64", "peer_apart",
        "peer_handoff", "peer_failover")


def check_results(path):
    with open(path) as file:
        results = json.load(file)
    for key in ROWS:
        row = results["measured"].get(key, {})
        values = [value for series in row.get("rounds", {}).values() for value in series]
        ok(values and all(value >= 0 for value in values) and row["text"], "%s was measured" % key)
    for key in ("agent", "redis", "hiredis", "kernel", "cpu"):
        ok(key in results["versions"], "the results have the version of %s" % key)
    equal(list(results["noise"]["floor_spread"]), ["single_p50, floor"],
          "the results have the noise where it is known")
    equal(sorted(results["load_average"]), ["end", "start"], "the results have the load average")
    for key, series in (("single_p50", ["agent", "floor", "relay"]),
                        ("stopped_p50", ["agent", "all there"]),
                        ("core_single_p50", ["agent", "floor", "relay"]),
                        ("peer_acquire", ["agent", "agent, no tokens", "floor N=5"]),
                        ("peer_core", ["agent", "agent, no tokens", "floor N=5"]),
                        ("peer_apart", ["agent", "agent, no tokens"]),
                        ("peer_pairs_64", ["agent", "agent, no tokens"])):
        equal(sorted(results["measured"][key]["rounds"]), series, "%s: what was compared" % key)
    flood, later = (results["measured"][key]["rounds"] for key in ("flood", "flood_later"))
    equal(later["agent"], [ours - without for ours, without in zip(flood["agent"], flood["without"])],
          "how much later extensions are in a flood")
    delayed = results["measured"]["delayed_p50"]["medians"]
    ok(delayed["floor"] >= 1000 and delayed["agent"] >= 1000, "nothing is faster than the round trip")
    equal(results["measured"]["long_short_lost"]["medians"]["agent"], 0, "no lease was lost")


def check_plots(output):
    if not shutil.which("gnuplot"):
        skip("plots", "gnuplot is not installed; tests/setup installs it")
        return
    for name in PLOTS:
        root = xml.etree.ElementTree.parse(os.path.join(output, name)).getroot()
        ok(root.tag.endswith("svg") and len(list(root.iter())) > 20, "%s is a picture" % name)


def test_tiny():
    output = tempfile.mkdtemp(prefix="redlock-bench-")
    done = subprocess.run([sys.executable, os.path.join(HERE, "drive.py"), "--tiny", "--output", output],
                          capture_output=True, text=True)
    if not ok(done.returncode == 0, "the benchmark runs to its end"):
        for line in (done.stdout + done.stderr).splitlines():
            note(line)
        return
    with open(os.path.join(output, "table.txt")) as file:
        printed = file.read()
    ok(done.stdout.startswith(printed), "the table is printed as it is written")
    for text in ("acquire", "release", "hand-off remote", "wake-ups", "targets: ", "(at most 8.00)"):
        ok(text in printed, "the table has: %s" % text)
    ok("agent, no tokens  5 " in printed, "the agent without tokens has its line")
    check_results(os.path.join(output, "bench.json"))
    check_plots(output)
    shutil.rmtree(output)


def refused(*arguments):
    """The output for wrong arguments. Nothing must have been measured."""
    done = subprocess.run([sys.executable, os.path.join(HERE, "drive.py"), "--tiny", *arguments],
                          capture_output=True, text=True)
    equal((done.returncode, done.stdout), (2, ""), "refused: %s" % " ".join(arguments))
    return done.stderr.strip().split("\n")[-1]


def test_arguments():
    said = refused("--only", "validity,hand-off")
    ok("no such section: 'hand-off'" in said and "handoff" in said,
       "a wrong section is reported, with the right ones")
    ok("no such section: ''" in refused("--only", "validity,"), "an empty one, too")
    ok("nothing to measure" in refused("--only", "peers", "--no-peers"), "something must be left")
    ok("not allowed with" in refused("--long"), "and one form is chosen")


def test_unix():
    for place, arguments in (("over TCP", ()), ("over Unix sockets", ("--unix",))):
        output = tempfile.mkdtemp(prefix="redlock-bench-")
        command = [sys.executable, os.path.join(HERE, "drive.py"), "--tiny", "--only", "validity"]
        done = subprocess.run([*command, "--output", output, *arguments], capture_output=True, text=True)
        ok("nodes " + place in done.stdout, "the way to the nodes is printed: " + place)
        ok("noise: not known" in done.stdout, "and that the floor was not measured")
        shutil.rmtree(output)
    usual = world.node_kind
    for place, choose in ((r"127\.0\.0\.1:\d+", lambda: None), (r"/.*\.sock", world.by_unix_sockets)):
        choose()
        own = world.World(1)
        measured = world.load("floor", "connections", 1, 20, *own.places)
        ok(re.fullmatch(place, own.places[0]) and measured["pairs_per_second"] > 0,
           "requests go to " + place)
        own.end()
    world.node_kind = usual


def test_no_node():
    for place in ("nowhere", "127.0.0.1:99999", "127.0.0.1:1", "/nowhere"):
        done = subprocess.run([world.BENCH, "load", "floor", "connections", "1", "20", place],
                              capture_output=True, text=True, timeout=60)
        said = done.stderr.split("\n")[0]
        ok(done.returncode != 0 and place.split(":")[-1] in said, "it ends: " + said)


def test_turns():
    drawn = [in_turns(("floor", "agent", "relay")) for _ in range(200)]
    ok(all(sorted(turns) == ["agent", "floor", "relay"] for turns in drawn), "each has its turn")
    equal(len({tuple(turns) for turns in drawn}), 6, "in every order")


def cores_of(*servers):
    return {frozenset(os.sched_getaffinity(int(task.rpartition("/")[2])))
            for server in servers for task in world.tasks(server.pid)}


def test_one_core():
    own, all_cores = world.World(1), os.sched_getaffinity(0)
    before = cores_of(*own.servers)
    try:
        with world.on_one_core(*own.servers):
            equal(cores_of(*own.servers), {frozenset([min(all_cores)])}, "a server's threads are all on it")
            child = world.lab.spawn(["sleep", "60"])
            equal(cores_of(child), {frozenset([min(all_cores)])}, "a started process has the same core")
            raise InterruptedError
    except InterruptedError:
        world.lab.end_process(child)
    equal((cores_of(*own.servers), os.sched_getaffinity(0)), (before, all_cores),
          "afterwards, and after a failure, they are where they were")
    own.end()


def row_with(bound, least, *values):
    row = Results().row("key", bound=bound, of="value", least=least)
    for value in values:
        row.note("agent", value)
    return table.verdict(row)


def test_bounds():
    equal(row_with(10, False, 9, 10, 99), "met (at most 10.0)", "a median at the bound")
    equal(row_with(10, False, 9, 11, 11), "NOT MET (at most 10.0)", "above")
    equal(row_with(10, True, 1, 10, 10), "met (at least 10.0)", "at least that")
    equal(row_with(10, True, 9, 9, 99), "NOT MET (at least 10.0)", "below")
    equal(row_with(None, False, 1), "", "without a bound there is nothing to meet")


class Binding:
    binding = True


def ratio_of(*ratios):
    row = Results().row("bounded", "", bound=2)
    for ratio in ratios:
        row.note("agent", ratio)
        row.note("floor", 1)
    return row


def test_ratios():
    equal(table.verdict(ratio_of(1, 1, 1, 1)), "", "a ratio of few rounds gets no verdict")
    equal(table.verdict(ratio_of(1, 1, 1, 9, 9)), "met (at most 2.00 x)", "the median of five gets one")
    equal(ratio_of(3, 1, 2, 9, 5).spread(), (1, 9), "the lowest and the highest round")
    equal(ratio_of(*range(16)).spread(), (4, 11), "or the quartiles of many")
    alone = Results().row("alone", "alone", bound=10, of="value")
    for value in (7, 3, 5):
        alone.note("agent", value)
    equal(alone.spread(), (3, 7), "of values where there are no ratios")
    ok("(3.00, 7.00)" in table.row_line(alone), "which the table shows")


def compared(rounds=5, **pairs):
    """The lines of the agents beside the libraries, from pairs a second (16 workers, 64 workers)."""
    results = Results()
    for name, values in [pair for pair in pairs.items() for _ in range(rounds)]:
        name = {"agent": "agent", "plain": "agent, no tokens", "redlock": "node-redlock 4",
                "beta": "node-redlock 5",
                "redis": "redis-py Lock", "etcd": "etcd"}[name]
        results.row("peer_acquire").note(name, 1e6 / values[0])
        for workers, value in zip((16, 64), values):
            results.row("peer_pairs_%d" % workers, unit="per s").note(name, value)
    peers.compare(results, Binding)
    return {row.text: table.verdict(row) for row in results.rows.values() if row.text}


def test_peers():
    lines = compared(agent=(300, 500), plain=(400, 600), redlock=(90, 100), redis=(100, 90), etcd=(900, 900))
    equal(lines, {"acquire p50: agent / node-redlock 4": "met (at most 1.00 x)",
                  "pairs, 64 workers: agent / node-redlock 4": "met (at least 5.00 x)",
                  "pairs, 16 workers: agent / redis-py Lock": "met (at least 3.00 x)",
                  "the same: agent, no tokens / node-redlock 4": "",
                  "the same: agent, no tokens / redis-py Lock": "",
                  "the same: agent / node-redlock 4": ""}, "beside the best library, and the others")
    lines = compared(agent=(300, 500), plain=(400, 600), redlock=(100, 90), beta=(90, 110), redis=(80, 80))
    equal({text: verdict for text, verdict in lines.items() if verdict},
          {"acquire p50: agent / node-redlock 4": "met (at most 1.00 x)",
           "pairs, 64 workers: agent / node-redlock 5": "NOT MET (at least 5.00 x)",
           "pairs, 16 workers: agent / node-redlock 4": "met (at least 3.00 x)"},
          "of two versions the one that is the better in this")
    results = Results()
    for agent, redlock, beta in ((10, 1, 5), (20, 1, 8), (30, 10, 9), (40, 10, 9), (50, 10, 11)):
        for name, value in (("agent", agent), ("agent, no tokens", agent), ("node-redlock 4", redlock),
                            ("node-redlock 5", beta)):
            for key in ("peer_acquire", "peer_pairs_16", "peer_pairs_64"):
                results.row(key).note(name, value)
    peers.compare(results, Binding)
    equal([results.rows["beside_peer_pairs_%d" % workers].base for workers in (16, 64)],
          ["node-redlock 5"] * 2, "by the ratios of the rounds, as the verdict")
    lines = compared(agent=(80, 80), plain=(400, 600), redlock=(90, 100))
    equal(sorted(filter(None, lines.values())), ["NOT MET (at least 3.00 x)", "NOT MET (at least 5.00 x)",
                                                 "NOT MET (at most 1.00 x)"], "where there is no other")
    equal(compared(agent=(80, 80), plain=(400, 600), etcd=(9, 9)), {}, "and where there is none")
    lines = compared(rounds=1, agent=(80, 80), plain=(400, 600), redlock=(90, 100))
    equal(list(filter(None, lines.values())), [], "a single round gets no verdict")


def test_apart():
    results = Results()
    for name, value in (("agent", 40), ("agent, no tokens", 50), ("node-redlock 4", 10),
                        ("redis-py Lock", 30)):
        for _ in range(5):
            results.row("peer_apart", unit="per s").note(name, value)
    peers.compare(results, Binding)
    equal([(row.text, row.ratio(), table.verdict(row)) for row in results.rows.values() if row.text],
          [("pairs, 16 processes: agent / node-redlock 4", 4, "met (at least 3.00 x)"),
           ("the same: agent, no tokens / node-redlock 4", 5, ""),
           ("the same: agent / redis-py Lock", 4 / 3, "")],
          "processes are compared with libraries of as many nodes; the other one is only shown")


# A peer's programs are not installed. Only the agent and this peer are measured.
WITHOUT_PROGRAMS = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import peers
peers.KINDS = (peers.Agent, peers.NodeRedlock)
sys.argv = [sys.argv[1] + "/drive.py", "--tiny", "--only", "peers", "--output", sys.argv[2]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_absent():
    output = tempfile.mkdtemp(prefix="redlock-bench-")
    environment = dict(os.environ, PATH=output, REDLOCK_TEST_SERVER=shutil.which(world.lab.SERVER) or "none")
    done = subprocess.run([sys.executable, "-c", WITHOUT_PROGRAMS, HERE, output], env=environment,
                          capture_output=True, text=True)
    name, why = peers.NodeRedlock.name, "node and npm are not installed"
    if not ok(done.returncode == 0, "a peer that is absent does not fail the run"):
        for line in done.stderr.splitlines():
            note(line)
    ok(re.search("^%s +not measured: %s$" % (name, why), done.stdout, re.M), "the table has it, and why")
    ok(re.search(r"^agent +5 +\d", done.stdout, re.M), "the others are measured")
    with open(os.path.join(output, "bench.json")) as file:
        equal(json.load(file)["peers"][name]["absent"], why, "and so it is in the results")
    shutil.rmtree(output)


main(test_tiny, test_arguments, test_unix, test_no_node, test_turns, test_one_core, test_bounds, test_ratios,
     test_peers, test_apart, test_absent)
