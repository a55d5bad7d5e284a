"""METRICS as OpenMetrics text, over HTTP, and as Debian's Prometheus sees it: the queries of the dashboard
and the alerts of units/metrics."""

import concurrent.futures
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import lab
import openmetrics
from clocknode import ClockNode
from tap import begins, equal, main, note, ok, within

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
PROGRAM = os.path.join(lab.BUILD, "client-lib", "redlock-metrics")
RULES = os.path.join(SOURCE, "units", "metrics", "redlock-alerts.yml")
# Alerts that a busy machine causes without a cause of the test's.
BUSY_MACHINE = {"Redlock" + name for name in ("LoopLag", "Paused", "NodeSlow", "ExtensionsLate",
                                              "ExtensionsFail", "ExtensionMarginLow")}
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read(path):
    with open(path) as file:
        return file.read()


def get(port, path, method="GET"):
    """(status, type, text)."""
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), method=method)
    try:
        with urllib.request.urlopen(request, timeout=20 * lab.SCALE) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as reply:
        return reply.code, reply.headers["Content-Type"], reply.read().decode()


MAX_LEASES = 40
NOBODY = 65534
# The hash of names has a secret: each keeper has some of these leases, but for one run in half a million.
HELD = 20
nodes = lab.nodes(3, kind=ClockNode)
agent = lab.Agent(nodes, "default_ttl = 1s\nmax_leases = %d\n" % MAX_LEASES + 'node_timeout = "200ms"\n')
load = agent.client(3)


# --- the text ---

def test_reader():
    """The reader of the tests rejects what scrapers reject."""
    good = "# TYPE a counter\n# HELP a b\na_total 1\n# EOF\n"
    openmetrics.parse(good)
    for wrong in (good.replace("# EOF\n", ""), good.replace("a_total", "a"),
                  good.replace("# HELP a b\n", ""), good.replace(" 1\n", " x\n"),
                  good.replace("a_total 1\n", "a_total 1\na_total 2\n"),
                  good.replace("a_total 1", 'a_total{b="\\x"} 1'), "\n" + good,
                  good.replace("# HELP", "# UNIT a seconds\n# HELP")):
        try:
            openmetrics.parse(wrong)
            ok(False, "accepted: %r" % wrong)
        except openmetrics.Wrong:
            pass
    ok(True, "wrong texts are rejected")


def lag_of(thread):
    """How often the thread served its timer, as far as reported. A keeper without leases sets none."""
    load.send("METRICS")
    return openmetrics.parse(load.reply())["redlock_loop_lag_seconds"].value(thread=thread)


def test_text():
    for number in range(HELD):  # long enough for pauses of the machine
        assert "id" in load.acquire("metrics-%d" % number, "TTL", 5000, "WAIT", 10000)
    begins(load.acquire("metrics-0"), "BUSY", "a rejection")
    lab.wait_for(lambda: agent.status()["extensions"] >= HELD, what="extensions")
    for thread in ("front", "keeper-0", "keeper-1"):
        lab.wait_for(lambda: lag_of(thread) > 0, 30, "a report of %s" % thread)
    status, text, _ = lab.redlock_run(agent, "metrics")
    families = openmetrics.parse(text)
    equal(status, 0, "redlock metrics prints OpenMetrics text (%d families, %d bytes)" %
          (len(families), len(text)))
    page = read(os.path.join(SOURCE, "protocol.md"))
    table = dict(re.findall(r"^\| `(redlock_\w+)` \| (\w+) \|", page, re.M))
    equal({name: family.kind for name, family in families.items()}, table,
          "protocol.md has each family with its type")
    equal(families["redlock_grants"].value(), HELD, "grants are counted")
    ok(families["redlock_user_used"].value(uid=str(os.getuid()), quota="max_sessions") >= 1,
       "and what each user has, for who may list it")
    equal(families["redlock_leases"].value(), HELD, "leases")
    equal(families["redlock_rejections"].value(word="BUSY"), 1, "rejections by their word")
    equal(families["redlock_acquire_seconds"].value(), HELD, "the times to a grant")
    ok(families["redlock_extension_delay_seconds"].value() >= HELD, "the delays of extensions")
    ok(families["redlock_extension_margin_ratio"].value() >= HELD, "and their margins")
    equal([families["redlock_loop_lag_seconds"].value(thread=name) > 0
           for name in ("front", "keeper-0", "keeper-1")], [True] * 3, "the lag of each thread")
    equal([families["redlock_node_state"].value(node=node.name, redlock_node_state="voting")
           for node in nodes], [1, 1, 1], "the states of nodes")
    ok(families["redlock_node_round_trip_seconds"].value(node="a") > 0, "their round trips")
    load.send("METRICS")
    equal(openmetrics.parse(load.reply()).keys(), families.keys(), "METRICS returns the same")
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=openmetrics.as_prometheus(text),
                              capture_output=True, text=True)
        equal((done.returncode, done.stdout + done.stderr), (0, ""), "promtool accepts the names")


# --- HTTP ---

def start_program(path):
    port = lab.free_port()
    process = lab.spawn([PROGRAM, "--socket", path, "--listen", "127.0.0.1:%d" % port])

    def answers():
        try:
            return get(port, "/")[0] == 200
        except OSError:
            return False
    lab.wait_for(answers, what="redlock-metrics")
    return port, process


def test_http():
    status, kind, text = get(port, "/metrics")
    equal((status, kind), (200, OPENMETRICS), "GET /metrics")
    openmetrics.parse(text)
    equal(get(port, "/metrics", "HEAD")[::2], (200, ""), "HEAD")
    ok('href="/metrics"' in get(port, "/")[2], "the page at / leads there")
    equal(get(port, "/other")[0], 404, "another path")
    equal(get(port, "/metrics", "POST")[0], 405, "another method")
    lone, process = start_program(lab.path("nothing.sock"))
    status, _, text = get(lone, "/metrics")
    ok(status == 503 and "no agent there" in text, "without an agent 503, and why: %s" % text.strip())
    process.terminate()
    equal(process.wait(10), 0, "SIGTERM ends it")


def refused(answer):
    """The text with which a scrape fails that gets this answer to METRICS."""
    refusing, process = start_program(lab.Between(agent, b"METRICS", lambda: answer).socket_path)
    status, _, text = get(refusing, "/metrics")
    equal(status, 503, "503: " + text.strip())
    lab.end_process(process)
    return text


def test_http_refused():
    needs = "needs redlockd 0.4.0 or later"
    ok(needs in refused(b"-ERR unknown command 'METRICS'; COMMAND lists those there are\r\n"),
       "with an agent without METRICS the text says which has it")
    text = refused(b"-DENIED no rule allows 'metrics' to user 7\r\n")
    ok(text.endswith("no rule allows 'metrics' to user 7\n"), "a denial stands for itself")


def test_http_stopped_agent():
    """Prometheus' usual time-out is 10 s, and two of them are usual, too."""
    stuck = lab.Agent(nodes)
    its_port, process = start_program(stuck.socket_path)
    stuck.stop()
    begun = lab.now()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        scrapes = [pool.submit(get, its_port, "/metrics") for _ in range(3)]
        for scrape in scrapes:
            status, _, text = scrape.result()
            equal((status, text.partition(": ")[2]),
                  (503, "the agent does not answer; is redlockd stopped, or stuck?\n"),
                  "a scrape of a stopped agent")
        within(lab.now() - begun, 2, 6 * lab.SCALE, "seconds until the last of three has its answer")
    stuck.cont()
    lab.wait_for(lambda: get(its_port, "/metrics")[0] == 200, what="a scrape")
    lab.end_process(process)
    stuck.terminate()


def is_over(client):
    """Whether the other end has closed the connection: with data that it has not read, by a reset."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_http_slow_clients():
    """Clients that keep connections, with a byte now and then."""
    begun = lab.now()
    first = socket.create_connection(("127.0.0.1", port))
    first.sendall(b"G")
    others = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for client in others:
        client.sendall(b"GET /metrics HT")
    equal(get(port, "/metrics")[0], 200, "another client gets a place, and its answer")
    ok(is_over(first), "the oldest had to go")
    within(lab.now() - begun, 0, 9 * lab.SCALE, "before its time")

    def ended():
        try:
            others[-1].sendall(b"E")
        except OSError:
            return True
        return select.select([others[-1]], [], [], 0.2)[0] and is_over(others[-1])
    lab.wait_for(ended, 20, "the end of one that sends a byte now and then")
    within(lab.now() - begun, 9, 15 * lab.SCALE, "seconds until it has to go, too")
    equal(get(port, "/metrics")[0], 200, "and others are served")
    for client in (first, *others):
        client.close()


# --- Prometheus ---

class Prometheus:
    def __init__(self, target):
        """Scrapes each second, with the rules of units/metrics, but for their delays."""
        directory = lab.path("prometheus")
        os.mkdir(directory)
        rules = re.sub(r"(?m)^        for: .*$", "        for: 0s", read(RULES))
        with open(os.path.join(directory, "rules.yml"), "w") as file:
            file.write(rules)
        with open(os.path.join(directory, "prometheus.yml"), "w") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s",
                                  "scrape_timeout": "1s"},
                       "rule_files": ["rules.yml"],
                       "scrape_configs": [{"job_name": "redlock", "static_configs": [
                           {"targets": ["127.0.0.1:%d" % target]}]}]}, file)
        self.port = lab.free_port()
        self.log = os.path.join(directory, "log")
        self.process = lab.spawn(
            ["prometheus", "--config.file", os.path.join(directory, "prometheus.yml"), "--storage.tsdb.path",
             os.path.join(directory, "data"), "--web.listen-address", "127.0.0.1:%d" % self.port],
            stdout=open(self.log, "w"), stderr=subprocess.STDOUT)

    def api(self, path, **query):
        try:
            _, _, text = get(self.port, "/api/v1/%s?%s" % (path, urllib.parse.urlencode(query)))
            reply = json.loads(text)
        except (OSError, ValueError):
            return None
        if reply["status"] != "success":
            raise AssertionError("%s: %s" % (query, reply))
        return reply["data"]

    def query(self, expression):
        data = self.api("query", query=expression)
        return data["result"] if data else []

    def firing(self):
        data = self.api("alerts")
        return {alert["labels"]["alertname"] for alert in data["alerts"]
                if alert["state"] == "firing"} if data else set()


def dashboard_queries():
    dashboard = json.loads(read(os.path.join(SOURCE, "units", "metrics", "redlock-dashboard.json")))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


def test_prometheus():
    global prometheus
    prometheus = Prometheus(port)
    lab.wait_for(lambda: [one for one in prometheus.query("redlock_extensions_total[1m]")
                          if len(one["values"]) >= 3], 20, "three scrapes")
    # A scrape that took more than a second, on a busy machine, leaves no data for a second.
    lab.wait_for(lambda: [one["value"][1] for one in prometheus.query("up")] == ["1"], what="a scrape")
    ok(True, "Prometheus scrapes it")
    for title, query in dashboard_queries():
        lab.wait_for(lambda: prometheus.query(query), what="data of the panel '%s': %s" % (title, query))
    ok(True, "each query of the dashboard returns data")
    names = {name for expr in re.findall(r"(?m)^        expr: .*(?:\n          .*)*", read(RULES))
             for name in re.findall(r"\bredlock_\w+|\bup\b", re.sub(r'\{[^}]*\}', "", expr))}
    for name in sorted(names):
        lab.wait_for(lambda: prometheus.query(name), what="data of " + name)
    ok(len(names) > 10, "each metric of the alerts has data (%d metrics)" % len(names))
    firing = prometheus.firing() - BUSY_MACHINE
    if prometheus.query("min_over_time(up[5m]) == 0"):
        firing -= {"RedlockAgentDown"}  # for a scrape that took too long
    equal(firing, set(), "no alert is on in a healthy fleet")


class Alerts:
    """Which alerts were on."""

    def __init__(self):
        self.seen = set()

    def on(self, *alerts, cause=lambda: None):
        """Repeats the cause until these are on."""
        def firing():
            cause()
            now = prometheus.firing()
            self.seen |= now & set(alerts)
            return set(alerts) <= now
        lab.wait_for(firing, 90, "the alerts %s" % " ".join(alerts))
        ok(True, "on: %s" % ", ".join(alerts))


def for_a_time(seconds, work=lambda: None):
    until = lab.now() + seconds
    lab.wait_for(lambda: work() or lab.now() > until, 10 + seconds, "the end of a time")


def granted(name, *options):
    """The grant, after as many tries as a busy machine needs."""
    return lab.wait_for(lambda: isinstance(grant := load.acquire(name, *options), dict) and grant,
                        what="a grant of " + name)


def user_share(quota):
    load.send("METRICS")
    return openmetrics.parse(load.reply())["redlock_user_quota_ratio"].value(quota=quota)


def cause_alerts_of_holders(alerts):
    granted("held too long", "MAXHOLD", 300)
    load.push("lost")
    alerts.on("RedlockHoldersFail")
    for _ in range(15):
        load.call("ACQUIRE", "metrics-0", "WAIT", 50, "ASYNC")
    for _ in range(15):
        load.push("failed")
    alerts.on("RedlockWaitersStarve")
    if os.geteuid() == 0:
        os.chmod(lab.directory, 0o711)
        os.seteuid(NOBODY)
        user = agent.client(3)
        os.seteuid(0)
        taken = 0
        while user_share("max_leases") < 0.85:
            taken += isinstance(user.acquire("nobodys-%d" % taken, "TTL", 10000, "WAIT", 5000), dict)
        alerts.on("RedlockUserNearLimit")
        user.close()
    else:
        note("RedlockUserNearLimit needs a second user, and so root")
        alerts.seen.add("RedlockUserNearLimit")
    replies = [load.call("ACQUIRE", "many-%d" % number, "TTL", 10000) for number in range(MAX_LEASES)]
    begins(replies[-1], "QUOTA", "a lease too many")
    alerts.on("RedlockQuotaReached", "RedlockSessionsNearLimit")
    for grant in [reply for reply in replies if isinstance(reply, dict)][-6:]:
        load.call("RELEASE", grant["id"])


def cause_alerts_of_load(alerts):
    """Nodes and an agent that stand still for a moment, again and again."""
    def slow_node():
        nodes[2].stop()
        for_a_time(0.15, lambda: load.call("RELEASE", granted("slow")["id"]) != 1)
        nodes[2].cont()

    def late_majority():
        grant = granted("margin", "TTL", 2000)
        nodes[0].stop()
        nodes[1].stop()
        lab.wait_for(lambda: load.call("CHECK", grant["id"]) < 500, what="a small rest of the ttl")
        nodes[0].cont()
        nodes[1].cont()
        lab.wait_for(lambda: not 0 < load.call("CHECK", grant["id"]) < 500, what="an extension, or the end")
        load.call("RELEASE", grant["id"])

    def paused_agent(seconds):
        agent.stop()
        for_a_time(seconds)
        agent.cont()

    def late_extensions():
        for number in range(5):  # the nodes' pauses may have ended all other leases
            load.call("ACQUIRE", "late-%d" % number, "TTL", 3000)
        load.call("ACQUIRE", "due soon", "TTL", 1000)  # so a timer is late by more than two seconds
        paused_agent(2.6)

    alerts.on("RedlockNodeSlow", cause=slow_node)
    alerts.on("RedlockExtensionsFail", "RedlockExtensionMarginLow", cause=late_majority)
    alerts.on("RedlockExtensionsLate", "RedlockPaused", cause=late_extensions)
    alerts.on("RedlockLoopLag", cause=lambda: paused_agent(0.3))
    nodes[2].set_clock(2)
    alerts.on("RedlockNodeClock")
    nodes[2].kill()
    lab.wait_for(lambda: "RedlockNodeClock" not in prometheus.firing(), 60, "the end of RedlockNodeClock")
    ok(True, "the clock of a node that is gone raises no alarm")
    nodes[2].start()
    nodes[2].set_clock(0)
    agent.wait_voting(3)


def cause_alerts_of_failures(alerts):
    granted("lost")
    nodes[0].kill()
    alerts.on("RedlockNodeNotVoting", "RedlockQuorumAtRisk")
    nodes[1].kill()
    alerts.on("RedlockNoQuorum", "RedlockLeasesLost")
    agent.kill()
    alerts.on("RedlockAgentDown")
    nodes[0].start()
    nodes[1].start()
    agent.start()
    alerts.on("RedlockAgentRestarted")
    lab.wait_for(lambda: not prometheus.firing() & {"RedlockAgentDown", "RedlockNoQuorum",
                                                    "RedlockQuorumAtRisk"}, 60, "the end of the alerts")
    ok(True, "they end with their cause")


def test_alerts():
    """Real causes, and each alert once."""
    alerts = Alerts()
    cause_alerts_of_holders(alerts)
    cause_alerts_of_load(alerts)
    cause_alerts_of_failures(alerts)
    equal(alerts.seen, set(re.findall(r"- alert: (\w+)", read(RULES))), "each alert was on")


def test_rules():
    """With made-up series: each alert comes once, and none in healthy ones."""
    page = read(os.path.join(SOURCE, "units", "redlock-operations.7"))
    equal(set(re.findall(r"(?m)^\.It Ic (Redlock\w+)", page)),
          set(re.findall(r"- alert: (\w+)", read(RULES))),
          "redlock-operations(7) explains each alert")
    done = subprocess.run([sys.executable, os.path.join(HERE, "..", "tools", "alert_series.py"), RULES,
                           lab.path("alerts")], capture_output=True, text=True)
    equal(done.returncode, 0, "promtool test rules: each alert is silent, then on: %s" %
          (done.stdout + done.stderr).strip()[-1500:])


tests = [test_reader, test_text]
if os.path.exists(PROGRAM):
    port, program = start_program(agent.socket_path)
    tests += [test_http, test_http_refused, test_http_stopped_agent, test_http_slow_clients]
    if shutil.which("prometheus"):
        tests += [test_rules, test_prometheus, test_alerts]
    else:
        note("without Prometheus")
else:
    note("built without libmicrohttpd: no HTTP")
main(*tests)
