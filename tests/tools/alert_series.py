"""alert_series.py RULES DIRECTORY: promtool evaluates the alerts over made-up series. Each is silent
in healthy ones and beside what it leaves out, and on with each of its causes."""

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
    "redlock_extension_delay_seconds_count": "0+100x60",
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
    'redlock_quota_used{quota="max_extensions"}': "100x60",
    "redlock_extensions_max": "10000x60",
    'redlock_user_quota_ratio{quota="max_leases"}': "0.2x60",
    'redlock_user_quota_ratio{quota="requests"}': "1x60",  # they wait
    'redlock_node_clock_offset_seconds{node="a"}': "0.01x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.065536"}': "0+10x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.131072"}': "0+100x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="0.262144"}': "0+100x60",
    'redlock_node_round_trip_seconds_bucket{node="a",le="+Inf"}': "0+100x60",
    'redlock_node_round_trip_seconds_count{node="a"}': "0+100x60",
}

EXTENSION_DELAY = "redlock_extension_delay_seconds", "", 0.524288
LOOP_LAG = "redlock_loop_lag_seconds", 'thread="front"', 0.131072
ROUND_TRIP = "redlock_node_round_trip_seconds", 'node="a"', 0.131072
QUIET = 16  # events a minute in an agent with little to do


def late(histogram, *minutes):
    """The histogram (name, labels, bound) of a quiet agent. Of each of the minutes (minute, n), n events are
    later than the bound, by up to twice as much."""
    name, labels, bound = histogram
    numbers, n_late = dict(minutes), 0
    total, below = [], []
    for minute in range(61):
        n_late += numbers.get(minute, 0)
        total.append(QUIET * minute)
        below.append(QUIET * minute - n_late)

    def row(suffix, own, values):
        own = ",".join(filter(None, (labels, own)))
        return name + suffix + ("{%s}" % own if own else ""), " ".join(map(str, values))

    rows = [row("_bucket", 'le="%s"' % le, below if le <= bound else total)
            for le in (bound / 2, bound, bound * 2)]
    rows += [row("_bucket", 'le="%s"' % le, total) for le in ("2.097152", "+Inf")]
    return dict(rows + [row("_count", "", total)])


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

EACH_MINUTE = [(minute, 1) for minute in range(1, 61)]
MORE_CAUSES = (
    ("RedlockSessionsNearLimit", {"redlock_leases": "5000x60", "redlock_waiters": "4000x60"}),
    ("RedlockSessionsNearLimit", {'redlock_quota_used{quota="max_extensions"}': "9000x60"}),
    # What lasts, in a quiet agent.
    ("RedlockExtensionsLate", late(EXTENSION_DELAY, *EACH_MINUTE)),
    ("RedlockLoopLag", late(LOOP_LAG, *EACH_MINUTE)),
    ("RedlockNodeSlow", late(ROUND_TRIP, *EACH_MINUTE)),
)

# What causes no alert.
EVERY_FOUR_MINUTES = [(minute, 1) for minute in range(4, 61, 4)]
SILENT = (
    {},
    late(EXTENSION_DELAY, *EVERY_FOUR_MINUTES),
    late(EXTENSION_DELAY, (30, QUIET)),  # a pause in which all of a minute's extensions were due
    late(LOOP_LAG, (30, 1)),  # one pause
    late(LOOP_LAG, *EVERY_FOUR_MINUTES),
    late(ROUND_TRIP, *EVERY_FOUR_MINUTES),
    late(ROUND_TRIP, (30, QUIET)),
)


def series(changes):
    for name, values in {**HEALTHY, **changes}.items():
        labels = 'instance="web1"'
        name = name.replace("{", "{" + labels + ",") if "{" in name else "%s{%s}" % (name, labels)
        yield {"series": name, "values": values}


def test(expression, minute, changes, alerts):
    return {"interval": "1m", "input_series": list(series(changes)),
            "promql_expr_test": [{"expr": "count by (alertname) (%s)" % expression,
                                  "eval_time": "%dm" % minute,
                                  "exp_samples": [{"labels": '{alertname="%s"}' % alert, "value": 1}
                                                  for alert in alerts]}]}


def on(alert, changes):
    """This alert, and no other, is on after 55 minutes, by the samples of ALERTS."""
    return test('ALERTS{alertstate="firing"}', 55, changes, [alert])


def silent(changes):
    """No alert was on in any minute of the hour."""
    return test('count_over_time(ALERTS{alertstate="firing"}[1h])', 60, changes, [])


def main():
    rules, directory = sys.argv[1:]
    alerts = re.findall(r"(?m)^ +- alert: (\w+)$", open(rules).read())
    if sorted(alerts) != sorted(CAUSES):
        sys.exit("alerts without a cause here, or causes without an alert: %s" % (set(alerts) ^ set(CAUSES)))
    tests = [on(*cause) for cause in (*CAUSES.items(), *MORE_CAUSES)]
    tests += [silent(changes) for changes in SILENT]
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
