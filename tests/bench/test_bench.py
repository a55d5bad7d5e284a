"""The benchmark, with numbers that mean nothing: that its table, its results and its plots come out."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from tap import equal, main, note, ok, skip  # noqa: E402

PLOTS = ("latency.svg", "pairs.svg", "handoff.svg", "peers.svg")
ROWS = ("acquire_p50/connections/4/3", "release_p999/processes/2/1", "pairs/processes/2/3", "relay_pairs",
        "fencing", "handoff_local_p50", "handoff_remote_p50", "failover_client", "failover_agent",
        "extension_cpu", "extension_lost", "cost_20_agent", "cost_20_call", "cost_20_names", "cost_20_lost",
        "memory_idle", "wakeups", "memory_connection", "memory_lease",
        "memory_lease_fixed", "stopped_p50", "delayed_p50", "flood", "valid", "long_short_cpu",
        "long_short_lost", "peer_acquire", "peer_pairs_16", "peer_handoff", "peer_failover")


def check_results(path):
    with open(path) as file:
        results = json.load(file)
    for key in ROWS:
        row = results["measured"].get(key, {})
        values = [value for series in row.get("rounds", {}).values() for value in series]
        ok(values and all(value >= 0 for value in values) and row["text"], "%s was measured" % key)
    for key in ("agent", "redis", "hiredis", "kernel", "cpu"):
        ok(key in results["versions"], "the version of %s is told" % key)
    ok(results["noise"]["floor_spread"], "the noise is told")
    equal(sorted(results["load_average"]), ["end", "start"], "the load average is told")
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
    if not ok(done.returncode == 0, "it runs to its end"):
        for line in (done.stdout + done.stderr).splitlines():
            note(line)
        return
    with open(os.path.join(output, "table.txt")) as file:
        table = file.read()
    ok(done.stdout.startswith(table), "the table is printed as it is written")
    for text in ("acquire", "release", "hand-off remote", "wake-ups", "targets: ", "(at most 8.00)"):
        ok(text in table, "the table has: %s" % text)
    check_results(os.path.join(output, "bench.json"))
    check_plots(output)
    shutil.rmtree(output)


main(test_tiny)
