"""redlockd under a real systemd: activation, readiness, watchdog, credentials, sandbox."""

import json
import os
import re
import shutil
import sys

import machine
import network
import pages
from machine import Machine, Node, lab
from tap import begins, equal, main, ok, skip

RELOAD_FAILED = "59e614f3cd4e38bf08be0203f08e0dd1"
CONFIG = 'max_ttl = "10s"\ndefault_ttl = "10s"\nquarantine = no\nkeepers = 2\n'


def set_up():
    global host, nodes
    machine.set_up()
    nodes = [Node(name) for name in "abc"]
    host = Machine("units")
    host.must("systemd-sysusers", "/usr/local/lib/sysusers.d/redlockd.conf")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "start", "redlockd.socket")


def status_text():
    return host.show("redlockd.service", "StatusText")


def main_pid():
    return int(host.show("redlockd.service", "MainPID"))


def journal(*options):
    return host.must("journalctl", "--no-pager", "-u", "redlockd.service", *options)


def wait_active():
    lab.wait_for(lambda: host.show("redlockd.service", "ActiveState") == "active", 20,
                 "redlockd.service")


def test_activation():
    equal(host.show("redlockd.service", "ActiveState"), "inactive",
          "without a client the agent does not run")
    said = host.must("redlock", "run", "first", "--", "echo", "held")
    equal(said, "held\n", "the first client starts the agent, and acquires its lease")
    wait_active()
    lab.wait_for(lambda: status_text().startswith("3 of 3 nodes vote"), 10, "its status")
    ok(True, "its status counts the nodes (%s)" % status_text())
    status, owner = host.run("stat", "-c", "%U:%G:%a", "/run/redlockd/redlockd.sock")
    equal(owner.strip(), "redlockd:redlock:660", "the socket belongs to the group")
    status, said = host.run("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups",
                            "redlock", "leases")
    ok(status == 77 and "redlockd.sock" in said,
       "other users may not use the socket (%d: %s)" % (status, said.strip()))
    uid = host.must("sh", "-c", "stat -c %%U /proc/%d" % main_pid()).strip()
    equal(uid, "redlockd", "the agent is not root")
    caps = host.must("grep", "CapEff", "/proc/%d/status" % main_pid()).split()[1]
    equal(int(caps, 16), 0, "the agent has no capability")


def test_status():
    nodes[2].kill()
    lab.wait_for(lambda: status_text().startswith("2 of 3 nodes vote") and "; c: " in status_text(),
                 10, "the name of the missing node in the status")
    ok("no quorum" not in status_text(), "a minority is missing: %s" % status_text())
    nodes[1].kill()
    lab.wait_for(lambda: "1 of 3 nodes vote, no quorum" in status_text(), 10, "the end of the quorum")
    ok(True, "a majority is missing: %s" % status_text())
    for node in nodes[1:]:
        node.start()
    lab.wait_for(lambda: status_text().startswith("3 of 3"), 10, "all nodes")
    ok(True, "the status is normal again")


def test_start_without_nodes():
    host.must("systemctl", "stop", "redlockd.service")
    for node in nodes:
        node.stop()
    begun = lab.now()
    host.must("systemctl", "start", "redlockd.service")
    ok(0.9 < lab.now() - begun < 4, "without nodes the agent is ready after a short wait (%.1f s)" % (
        lab.now() - begun))
    wanted = [host.show("redlockd.service", what) for what in ("After", "Wants")]
    ok("network-online" not in " ".join(wanted),
       "the unit does not wait for network-online.target")
    ok("0 of 3 nodes vote, no quorum" in status_text(),
       "the status shows the missing quorum: %s" % status_text())
    for node in nodes:
        node.cont()
    lab.wait_for(lambda: status_text().startswith("3 of 3"), 20, "the nodes")
    equal(host.must("redlock", "run", "later", "--", "echo", "held"), "held\n",
          "with nodes the agent grants leases")


def test_reload():
    host.configure(nodes, CONFIG + 'rule "short*" { max_hold = "1s" }\n')
    pid = main_pid()
    host.must("systemctl", "reload", "redlockd.service")
    equal(main_pid(), pid, "a reload does not restart the agent")
    wait_active()
    status, said = host.run("redlock", "run", "short", "--", "sleep", "20")
    equal(status, 125, "the new configuration applies: %s" % said.strip().splitlines()[-1])
    host.configure(nodes, CONFIG + 'max_ttl = "for ever"\n')
    status, said = host.run("systemctl", "reload", "redlockd.service")
    ok(status != 0, "a reload with a mistake fails: %s" % said.strip().splitlines()[0])
    lab.wait_for(lambda: "redlockd.conf:" in journal("-n9"), 10, "the mistake in the journal")
    ok(True, "the journal shows the mistake")
    equal((main_pid(), host.show("redlockd.service", "ActiveState")), (pid, "active"),
          "the agent runs on")
    equal(host.run("redlock", "run", "short", "--", "sleep", "20")[0], 125, "with its former configuration")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "reload", "redlockd.service")


def entries(*matches):
    return [json.loads(line) for line in host.must(
        "journalctl", "--no-pager", "--output=json", "--unit=redlockd.service", *matches).splitlines()]


def test_journal():
    host.must("journalctl", "--update-catalog")
    client = host.lose_lease("lost")
    found = lab.wait_for(lambda: entries("REDLOCK_EVENT=lease-lost", "REDLOCK_NAME=lost"), 10,
                         "the entry of a lost lease")
    client.communicate(timeout=20)
    equal([found[0].get(key) for key in ("REDLOCK_REASON", "PRIORITY", "SYSLOG_IDENTIFIER")],
          ["max-hold", "4", "redlockd"], "a lost lease has an entry with fields")
    ok(int(found[0].get("REDLOCK_FENCE", 0)) > 1e15, "and its fencing token")
    equal(found[0]["MESSAGE"], "lease lost: lost: max-hold; its fencing token was %s" %
          found[0].get("REDLOCK_FENCE"), "its line")
    said = host.must("journalctl", "--no-pager", "--catalog", "MESSAGE_ID=" + found[0]["MESSAGE_ID"])
    ok("Subject: The lease lost was lost (max-hold)" in said, "the catalog explains it")
    for event in ("serving", "reloaded", "node-state"):
        found = entries("REDLOCK_EVENT=" + event)
        ok(found, "%s has entries" % event)
        ok(host.run("journalctl", "--dump-catalog", found[0]["MESSAGE_ID"])[0] == 0, "and is in the catalog")
    equal({entry["REDLOCK_NODE"] for entry in found}, {"a", "b", "c"}, "the state of each node has its name")


def journal_lines():
    host.must("journalctl", "--sync")
    return len(host.must("journalctl", "--no-pager", "--quiet", "--boot").splitlines())


def rejected_at_once(what):
    """A client of an agent that can't start fails at once."""
    for _ in range(2):
        begun = lab.now()
        status, said = host.run("redlock", "run", "-n", "x", "--", "true")
        ok(status == 69 and lab.now() - begun < 1, "%s: a client fails at once (%.2f s, %d): %s" % (
            what, lab.now() - begun, status, said.strip()))
    before = journal_lines()
    lab.wait_for(lambda: lab.now() - begun > 2.5, 10, "some time to pass")
    ok(journal_lines() - before <= 2, "%s: the journal does not fill (%d lines)" % (
        what, journal_lines() - before))


def closed():
    """The socket's state, when it listens no more, and the search for nodes that closed it has ended: until
    then systemd does not open the socket again."""
    state = host.show("redlockd.socket", "ActiveState")
    searching = host.show("redlockd.service", "ActiveState") == "activating"
    return state if state in ("inactive", "failed") and not searching else None


def test_not_configured():
    units = ("redlockd.socket", "redlockd.service")
    host.must("systemctl", "stop", *units)
    host.must("rm", "/etc/redlockd.conf")
    host.must("systemctl", "start", *units)
    equal([host.show(unit, "ActiveState") for unit in units], ["inactive"] * 2,
          "without a configuration no unit starts, and no unit has failed")
    rejected_at_once("no configuration")
    host.write("/etc/redlockd.conf", "# node \"a\" {}\n// node \"b\" {}\nnode_timeout = \"50ms\"\n")
    host.must("systemctl", "start", *units)
    equal(host.show("redlockd.service", "ActiveState"), "inactive", "nor with a configuration without nodes")
    rejected_at_once("no nodes")
    equal(host.show("redlockd.socket", "ActiveState"), "inactive",
          "the socket is closed, and has not failed")
    host.must("systemctl", "start", "redlockd.socket")
    equal(host.run("redlock", "run", "-n", "x", "--", "true")[0], 69,
          "a socket that the boot opens: a client fails")
    state = lab.wait_for(closed, 10, "a closed socket")
    equal(state, "inactive", "the socket is closed then, and has not failed")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "start", "redlockd.service")
    equal(host.must("redlock", "run", "x", "--", "echo", "held"), "held\n", "with nodes the agent starts")
    host.must("systemctl", "stop", "redlockd.service")
    host.must("rm", "/etc/redlockd.conf")
    rejected_at_once("a deleted configuration")
    host.configure(nodes, CONFIG + 'max_ttl = "for ever"\n')
    status, said = host.run("systemctl", "start", "redlockd.service")
    ok(status != 0 and host.show("redlockd.service", "ActiveState") == "failed",
       "with a mistake in the configuration the start fails")
    rejected_at_once("a wrong configuration")
    ok(host.show("redlockd.service", "NRestarts") == "0", "the agent is not restarted")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "restart", "redlockd.service")
    equal(host.must("redlock", "run", "x", "--", "echo", "held"), "held\n",
          "with a correct configuration the agent starts")
    host.configure(nodes, CONFIG, 'password = "x"')
    advice = host.run("redlockd", "--check-config")[1].strip().rsplit(": ", 1)[1]
    host.must("sh", "-c", "; ".join(command + " /etc/redlockd.conf" for command in advice.split("; ")))
    equal(host.must("stat", "-c", "%U:%G:%a", "/etc/redlockd.conf"), "root:redlockd:640\n",
          "the advice protects the file: " + advice)
    host.must("systemctl", "reload", "redlockd.service")
    ok(True, "the agent can still read the file")
    host.must("rm", "/etc/redlockd.conf")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "restart", "redlockd.service")


def test_watchdog():
    pid = main_pid()
    threads = host.must("ls", "/proc/%d/task" % pid).split()
    ok(len(threads) >= 3, "front and keepers are threads (%s)" % threads)
    begun = lab.now()
    host.must("kill", "-STOP", str(pid))
    lab.wait_for(lambda: main_pid() not in (0, pid), 30, "another agent")
    ok(1.5 < lab.now() - begun < 6, "an agent that hangs is replaced (after %.1f s)" % (
        lab.now() - begun))
    lab.wait_for(lambda: "watchdog" in journal().lower(), 10, "the watchdog in the journal")
    ok(True, "by the watchdog")
    wait_active()


def test_keeper_hangs():
    """A debugger stops one keeper thread. The other threads run, but the watchdog acts."""
    if host.run("sh", "-c", "command -v gdb")[0] != 0:
        ok(True, "one hanging keeper # SKIP gdb is not installed")
        return
    pid = main_pid()
    thread = max(int(task) for task in host.must("ls", "/proc/%d/task" % pid).split())
    holder = lab.spawn(host.command("gdb", "-q", "-batch", "-p", str(thread), "-ex",
                                    "set scheduler-locking on", "-ex", "shell sleep 15"),
                       stdout=lab.subprocess.DEVNULL, stderr=lab.subprocess.DEVNULL)
    lab.wait_for(lambda: main_pid() not in (0, pid), 30, "another agent")
    ok(True, "an agent with one hanging thread is replaced")
    lab.end_process(holder)
    wait_active()


def test_restart_keeps_leases():
    begun = lab.spawn(host.command("redlock", "run", "kept", "--", "cat"), stdin=lab.subprocess.PIPE)
    lab.wait_for(lambda: "kept" in host.run("redlock", "leases")[1], 10, "the lease")
    pid = main_pid()
    host.must("systemctl", "kill", "--signal=KILL", "redlockd.service")
    lab.wait_for(lambda: main_pid() not in (0, pid), 10, "another agent")
    wait_active()
    lab.wait_for(lambda: "kept" in host.run("redlock", "leases")[1], 10, "the lease at the new agent")
    lab.wait_for(lambda: ask("status")["extensions"] > 0, 20, "its extension")
    begun.communicate(b"", timeout=30)
    equal(begun.returncode, 0, "a lease of redlock run outlives kill -9 of the agent")
    ok("kept" not in host.run("redlock", "leases")[1], "the lease ends with its command")


def test_search_without_programs():
    """The condition can start no other program: a killed agent is replaced all the same."""
    drop_in = "/run/systemd/system/redlockd.service.d/path.conf"
    host.write(drop_in, '[Service]\nEnvironment="PATH=/nonexistent"\n')
    host.must("systemctl", "daemon-reload")
    pid = main_pid()
    host.must("systemctl", "kill", "--signal=KILL", "redlockd.service")
    lab.wait_for(lambda: main_pid() not in (0, pid), 10, "another agent")
    wait_active()
    ok(True, "the search for nodes needs no other program")
    host.must("rm", drop_in)
    host.must("systemctl", "daemon-reload")


def restart(config):
    """Restarts the agent with another configuration."""
    host.configure(nodes, config)
    pid, begun = main_pid(), lab.now()
    host.must("systemctl", "restart", "redlockd.service")
    ok(main_pid() not in (0, pid), "a restart with a changed configuration (%s), %.0f ms" % (
        config.split("\n")[-2], (lab.now() - begun) * 1e3))
    lab.wait_for(lambda: ask("status")["voting"] == len(nodes), 20, "the nodes")


def ask(what):
    return json.loads(host.must("redlock", what, "--json"))


def test_restart_under_load():
    """The agent is restarted with other configurations while clients hold and acquire leases."""
    shutil.copy(os.path.join(lab.BUILD, "tests/systemd/holders"), machine.SHARED)
    load = lab.spawn(host.command("/nodes/holders"), text=True, stdin=lab.subprocess.PIPE,
                     stdout=lab.subprocess.PIPE)
    run = lab.spawn(host.command("redlock", "run", "kept", "--", "cat"), stdin=lab.subprocess.PIPE)
    equal(load.stdout.readline(), "held\n", "a load: held leases, and leases that change hands")
    lab.wait_for(lambda: ("kept", "held") in [(each["name"], each["state"]) for each in ask("leases")], 10,
                 "the lease of a command")
    restart(CONFIG + 'max_sessions = "30"\n')
    _, said = host.run("sh", "-c", "for i in $(seq 40); do timeout 5 redlock watch x & done; wait")
    ok("a limit of the agent" in said, "the new limit of sessions applies")
    restart(CONFIG.replace("keepers = 2", "keepers = 3"))
    equal(ask("status")["keepers"], 3, "the new number of keepers applies")
    restart(CONFIG + 'node_timeout = "60ms"\n')
    restart(CONFIG + 'rule "short*" { max_hold = "1s" }\n')
    status, said = host.run("redlock", "run", "short", "--", "sleep", "20")
    equal(status, 125, "the new rules apply: %s" % said.strip().splitlines()[-1])
    begun = lab.now()
    lab.wait_for(lambda: lab.now() > begun + 10.5, 15, "the end of leases that were not extended")
    said = load.communicate("", timeout=20)[0]
    match = re.fullmatch("not-granted=0 lost=0 failed=0 invalid=0 other=0 churned=(\\d+)\n", said)
    ok(match and int(match.group(1)) > 100, "four restarts under load: no lease is lost (%s)" % said.strip())
    run.communicate(b"", timeout=20)
    equal(run.returncode, 0, "the lease of a command is kept too")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "restart", "redlockd.service")


def test_credentials():
    host.configure(nodes, CONFIG + "max_hold = 1h\n", 'password = credential("redis")')
    equal(host.run("systemctl", "reload", "redlockd.service")[0], 0,
          "a reload succeeds with a credential that the service lacks")
    lab.wait_for(lambda: "the agent keeps its configuration" in journal("MESSAGE_ID=" + RELOAD_FAILED), 10,
                 "the log")
    equal(json.loads(host.must("redlock", "whoami", "x", "--json"))["max_hold"], 0,
          "and the agent keeps its configuration")
    for node in nodes:
        node.call("CONFIG", "SET", "requirepass", "let me in")
    host.write("/etc/redlockd/redis.password", "let me in\n", "600")
    host.write("/etc/systemd/system/redlockd.service.d/password.conf",
               "[Service]\nLoadCredential=redis:/etc/redlockd/redis.password\n")
    host.configure(nodes, CONFIG, 'password = credential("redis")')
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "restart", "redlockd.service")
    wait_active()
    lab.wait_for(lambda: status_text().startswith("3 of 3"), 20, "the nodes")
    ok(True,
       "the agent reads a password as a credential, from a file that only root can read")
    status, said = host.run("redlockd", "--check-config")
    ok(status == 0 and "not checked" in said,
       "--check-config does not check a credential outside the unit (%s)" % said.strip()[:90])
    host.configure(nodes, CONFIG + 'rule "short*" { max_hold = "1s" }\n', 'password = credential("redis")')
    equal(host.run("systemctl", "reload", "redlockd.service")[0], 0, "a reload works with a credential")
    status, said = host.run("redlock", "run", "short", "--", "sleep", "20")
    equal(status, 125, "and applies: %s" % said.strip().splitlines()[-1])
    for client in [lab.Client(node.socket_path) for node in nodes]:
        client.call("AUTH", "let me in")
        client.call("CONFIG", "SET", "requirepass", "")
    host.run("rm", "-r", "/etc/systemd/system/redlockd.service.d")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "daemon-reload")
    host.must("systemctl", "restart", "redlockd.service")


RULES = """
rule "of-unit" { units = {"nightly@*.service"} }
rule "of-unit" { may = {} }
rule "of-group" { groups = {operator} }
rule "of-group" { may = {} }
"""
# A process that may make groups of its own: they have names of units, but are none of systemd's.
DISGUISE = """
own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/nightly@x.service
mkdir "$own" && echo 0 >"$own/cgroup.procs" && exec redlock run -n of-unit -- echo held
"""


def test_rules():
    """Who may what, by the unit and the supplementary groups of the process."""
    host.configure(nodes, CONFIG + 'node_timeout = "2s"\n' + RULES)
    host.must("systemctl", "restart", "redlockd.service")
    wait_active()

    def attempt(unit, name, *options, groups="redlock", command=()):
        return host.run("systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--unit=" + unit,
                        "--property=User=nobody", "--property=SupplementaryGroups=" + groups, *options, "--",
                        *(command or ("redlock", "run", "-n", name, "--", "echo", "held")))

    equal(attempt("nightly@a", "of-unit"), (0, "held\n"), "a process of the rule's unit")
    status, said = attempt("daily@a", "of-unit")
    ok(status == 77 and 'rule "of-unit"' in said, "of another unit: %s" % said.strip())
    status, said = attempt("daily@b", "", "--property=Delegate=yes", command=("sh", "-e", "-c", DISGUISE))
    ok(status == 77 and 'rule "of-unit"' in said, "of a group below it with the unit's name: %s" %
       said.strip())
    equal(attempt("daily@c", "of-group", groups="redlock operator"), (0, "held\n"),
          "a process with the rule's group as a supplementary one")
    status, said = attempt("daily@d", "of-group")
    ok(status == 77 and 'rule "of-group"' in said, "without: %s" % said.strip())
    host.configure(nodes, CONFIG)
    host.must("systemctl", "restart", "redlockd.service")


def test_metrics_elsewhere():
    """At a boot the socket is opened before the network gives the host its address."""
    if not os.path.exists(os.path.join(lab.BUILD, "client-lib", "redlock-metrics")):
        skip("metrics at another address", "built without libmicrohttpd")
        return
    text = pages.find("redlock-metrics.service.8", "ListenStream=")
    address = re.findall(r"ListenStream=([\d.]+):19739", text)[-1]
    host.write("/etc/systemd/system/redlock-metrics.socket.d/override.conf", text)
    host.must("systemctl", "daemon-reload")
    host.run("systemctl", "start", "redlock-metrics.socket")
    equal(host.show("redlock-metrics.socket", "ActiveState"), "active",
          "the socket listens at an address that the host does not have yet")
    host.must("ip", "address", "add", address + "/32", "dev", "lo")
    read = "import urllib.request as r; print(r.urlopen('http://%s:19739/metrics').read().decode())"
    text = host.must("python3", "-c", read % address)
    ok("\nredlock_voting_nodes " in text, "and once it has, the metrics are there")
    ok("\nredlock_user_used{" not in text, "without the use by each user")
    host.configure(nodes, CONFIG + pages.find("redlock-metrics.service.8", "may = {metrics, list}"))
    host.must("systemctl", "restart", "redlockd.service")
    text = host.must("python3", "-c", read % address)
    ok('\nredlock_user_used{uid="' in text, "which the service gets where a rule gives its unit the right")
    host.configure(nodes, CONFIG)
    host.must("systemctl", "restart", "redlockd.service")


def exposure():
    said = host.run("systemd-analyze", "security", "--no-pager", "redlockd.service")[1]
    return float(re.search(r"Overall exposure level for redlockd.service: ([\d.]+)", said).group(1))


def test_sandbox():
    level = exposure()
    ok(level <= 1.4, "systemd-analyze security: %s, at most 1.4" % level)
    host.write("/etc/systemd/system/redlockd.service.d/addresses.conf",
               pages.find("redlockd.8", "IPAddressDeny="))
    host.must("systemctl", "daemon-reload")
    level = exposure()
    ok(level <= 1.3, "with the addresses of the nodes listed: %s, at most 1.3" % level)
    host.must("systemctl", "restart", "redlockd.service")
    begins(host.must("redlock", "run", "addresses", "--", "echo", "held"), "held",
           "the agent reaches nodes at listed addresses")
    has_man = host.run("sh", "-c", "command -v man")[0] == 0  # to check pages too
    status, said = host.run("systemd-analyze", "verify", "--recursive-errors=no", "--man=%d" % has_man,
                            "/usr/local/lib/systemd/system/redlockd.service",
                            "/usr/local/lib/systemd/system/redlockd.socket", "redlock-leader@x.service",
                            "redlock-leader@x.target")
    equal((status, said), (0, ""), "systemd-analyze verify reports nothing")
    host.write("/etc/systemd/system/redlockd.service.d/users.conf", "[Service]\nPrivateUsers=yes\n")
    host.must("systemctl", "daemon-reload")
    host.run("systemctl", "stop", "redlockd.service", "redlockd.socket")
    status, said = host.run("systemctl", "start", "redlockd.service")
    host.must("journalctl", "--sync")
    ok(status != 0 and "PrivateUsers" in journal(),
       "with PrivateUsers= the agent refuses to start, and logs the reason")
    host.run("rm", "-r", "/etc/systemd/system/redlockd.service.d")
    host.must("systemctl", "daemon-reload")
    host.run("systemctl", "stop", "redlockd.service")
    host.run("systemctl", "reset-failed")
    host.must("systemctl", "start", "redlockd.socket")
    host.must("journalctl", "--sync")
    said = host.must("journalctl", "--no-pager", "--boot")
    ok("SECCOMP" not in said and "bad system call" not in said.lower(),
       "the sandbox rejected no system call")
    begins(host.must("redlock", "run", "end", "--", "echo", "held"), "held",
           "without PrivateUsers= the agent starts")


KILLED = """
import machine
import network
import pages
machine.set_up()
net = network.Network()
node = machine.Node("a")
print(machine.lab.directory, machine.Machine("left", net).cgroup, network.PREFIX + "hub", flush=True)
input()
"""


def test_killed_test():
    """kill -9 of a test program that has a node, a network and a machine."""
    why = network.why_none()
    if why:
        skip("a killed test leaves nothing", why)
        return
    killed = lab.spawn([sys.executable, "-c", KILLED], text=True, stdin=lab.subprocess.PIPE,
                       stdout=lab.subprocess.PIPE,
                       env=dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__))))
    directory, group, namespace = killed.stdout.readline().split()
    left = [directory, group, "/run/netns/" + namespace]
    equal([os.path.exists(path) for path in left], [True] * 3,
          "a test has a directory, a machine and a network")
    killed.kill()
    lab.wait_for(lambda: not any(os.path.exists(path) for path in left), 20, "their end")
    ok(True, "after kill -9 they are removed")


reason = machine.why_not()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_activation, test_status, test_start_without_nodes, test_reload, test_journal,
     test_not_configured, test_watchdog, test_keeper_hangs, test_restart_keeps_leases,
     test_search_without_programs, test_restart_under_load, test_credentials, test_rules,
     test_metrics_elsewhere, test_sandbox, test_killed_test)
