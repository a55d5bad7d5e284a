"""alert_series.py RULES DIRECTORY: promtool evaluates the alerts over made-up series. Each is silent
in healthy ones, and on with its cause."""

import json
import os
import re
import subprocess
import sys

# Of a healthy agent, by minutes: promtool's notation, start+step x times. Most durations are in the last
# bucket below the alert's threshold.
HEALTHY = {
    'up{job="redlock"}': "1x60",
    "redlock_uptime_seconds": "0+60x60",
    "redlock_voting_nodes": "3x60",
    "redlock_quorum": "2x60",
    "redlock_nodes": "3x60",
    'redlock_node_state{node="a",redlock_node_state="voting"}': "1x60",
    'redlock_losses_total{reason="no-quorum"}': "0x60",
    'redlock_losses_total{reason="max-hold"}': "0x60",
    'redlock_extension_margin_ratio_bucket{le="0.3"}': "0x60",
    'redlock_extension_margin_ratio_bucket{le="+Inf"}': "0+100x60",
    "redlock_extension_failures_total": "0+1x60",
    'redlock_extension_delay_seconds_bucket{le="0.262144"}': "0+10x60",
    'redlock_extension_delay_seconds_bucket{le="0.524288"}': "0+100x60",
    'redlock_extension_delay_seconds_bucket{le="1.048576"}': "0+100x60",
    'redlock_extension_delay_seconds_bucket{le="+Inf"}': "0+100x60",
    'redlock_loop_lag_seconds_bucket{thread="front",le="0.065536"}': "0+10x60",
    'redlock_loop_lag_seconds_bucket{thread="front",le="0.131072"}': "0+100x60",
    'redlock_loop_lag_seconds_bucket{thread="front",le="0.262144"}': "0+100x60",
    'redlock_loop_lag_seconds_bucket{thread="front",le="2.097152"}': "0+100x60",
    'redlock_loop_lag_seconds_bucket{thread="front",le="+Inf"}': "0+100x60",
    'redlock_loop_lag_seconds_count{thread="front"}': "0+100x60",
    'redlock_rejections_total{word="TIMEOUT"}': "0+3x60",
    'redlock_rejections_total{word="QUOTA"}': "7x60",
    "redlock_wait_seconds_count": "0+60x60",
    "redlock_sessions": "100x60",
    "redlock_sessions_max": "10000x60",
    "redlock_leases": "100x60",
    "redlock_waiters": "100x60",
    "redlock_leases_max": "10000x60",
    'redlock_user_quota_ratio{quota="max_leases"}': "0.2x60",
    'redlock_node_clock_offset_seconds{node="a"}': "0.01x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.065536"}': "0+10x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.131072"}': "0+100x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.262144"}': "0+100x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="+Inf"}': "0+100x60",
}

# What is different when the alert is on.
CAUSES = {
    "RedlockAgentDown": {'up{job="redlock"}': "0x60"},
    "RedlockAgentRestarted": {"redlock_uptime_seconds": "0+60x50 0+60x10"},
    "RedlockNoQuorum": {"redlock_voting_nodes": "1x60"},
    "RedlockQuorumAtRisk": {"redlock_voting_nodes": "2x60"},
    "RedlockNodeNotVoting": {'redlock_node_state{node="a",redlock_node_state="voting"}': "0x60"},
    "RedlockLeasesLost": {'redlock_losses_total{reason="no-quorum"}': "0+1x60"},
    "RedlockHoldersFail": {'redlock_losses_total{reason="max-hold"}': "0+1x60"},
    "RedlockExtensionMarginLow": {'redlock_extension_margin_ratio_bucket{le="0.3"}': "0+1x60"},
    "RedlockExtensionsFail": {"redlock_extension_failures_total": "0+60x60"},
    "RedlockExtensionsLate": {'redlock_extension_delay_seconds_bucket{le="0.524288"}': "0+98x60"},
    "RedlockLoopLag": {'redlock_loop_lag_seconds_bucket{thread="front",le="0.131072"}': "0+98x60"},
    # One pause: one timer that is late.
    "RedlockPaused": {'redlock_loop_lag_seconds_bucket{thread="front",le="+Inf"}': "0+100x50 5101+100x9",
                      'redlock_loop_lag_seconds_count{thread="front"}': "0+100x50 5101+100x9"},
    "RedlockWaitersStarve": {"redlock_wait_seconds_count": "0x60"},
    "RedlockQuotaReached": {'redlock_rejections_total{word="QUOTA"}': "0+1x60"},
    "RedlockSessionsNearLimit": {"redlock_sessions": "9000x60"},
    "RedlockUserNearLimit": {'redlock_user_quota_ratio{quota="max_leases"}': "0.9x60"},
    "RedlockNodeClock": {'redlock_node_clock_offset_seconds{node="a"}': "-2x60"},
    "RedlockNodeSlow": {'redlock_node_round_trip_seconds_bucket{node="a",le="0.131072"}': "0+98x60"},
}


def series(changes):
    for name, values in {**HEALTHY, **changes}.items():
        labels = 'instance="web1"'
        name = name.replace("{", "{" + labels + ",") if "{" in name else "%s{%s}" % (name, labels)
        yield {"series": name, "values": values}


def firing(expressions, changes):
    """One test: which alerts are on after 55 minutes, by the samples of ALERTS."""
    return {"interval": "1m", "input_series": list(series(changes)),
            "promql_expr_test": [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                                  "eval_time": "55m",
                                  "exp_samples": [{"labels": '{alertname="%s"}' % alert, "value": 1}
                                                  for alert in expressions]}]}


def main():
    rules, directory = sys.argv[1:]
    alerts = re.findall(r"(?m)^ +- alert: (\w+)$", open(rules).read())
    if sorted(alerts) != sorted(CAUSES):
        sys.exit("alerts without a cause here, or causes without an alert: %s" % (set(alerts) ^ set(CAUSES)))
    tests = [firing([], {})] + [firing([alert], CAUSES[alert]) for alert in alerts]
    os.mkdir(directory)
    path = os.path.join(directory, "test.yml")
    with open(path, "w") as file:
        json.dump({"rule_files": [os.path.realpath(rules)], "evaluation_interval": "1m", "tests": tests},
                  file)
    for command in (["promtool", "check", "rules", rules], ["promtool", "test", "rules", path]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)


main()
