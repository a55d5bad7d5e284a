"""The examples of the manual pages and of the README that need a systemd, word for word."""

import sys

import machine
from machine import Machine, Node, lab
from pages import find
from tap import equal, main, note, ok

CONFIG = 'max_ttl = "60s"\nquarantine = no\n'


def set_up():
    global host, nodes
    machine.set_up()
    nodes = [Node(name) for name in "abc"]
    host = Machine("examples")
    host.configure(nodes, CONFIG)


def run(page, mark, want=0, **words):
    """Runs the example in the machine; `words` replace placeholders in capitals."""
    text = find(page, mark)
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    status, said = host.run("sh", "-e", "-c", text)
    equal(status, want, "%s: %s" % (page, text.split("\n")[0]))
    for line in said.splitlines():
        note(line)
    return text


def is_active(unit):
    return host.run("systemctl", "is-active", unit)[1].strip() == "active"


def test_installation():
    run("README.md", "systemctl enable --now redlockd.socket")
    for unit in ("redlockd.socket", "redlockd.service"):
        equal(host.run("systemctl", "is-enabled", unit)[1], "enabled\n", "%s is enabled" % unit)
        ok(is_active(unit), "%s runs" % unit)
    lab.wait_for(lambda: host.run("redlock", "check")[0] == 0, 20, "the agent to vote with its nodes")
    run("README.md", "nodes --bless a b c", USER="nobody")
    status, said = host.run("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--init-groups",
                            "redlock", "check")
    equal(status, 0, "the user may acquire leases: %s" % said.strip())
    run("redlockd.8", "systemd-sysusers")
    run("redlockd.8", "systemctl enable --now redlockd.socket")


def test_socket():
    place = "/etc/systemd/system/redlockd.socket.d/other.conf"
    host.write(place, find("redlockd.conf.5", "ListenStream=/run/redlockd/other.sock"))
    for command in ("daemon-reload", "stop redlockd.service", "restart redlockd.socket",
                    "start redlockd.service"):
        host.must("systemctl", *command.split())
    equal(host.run("redlock", "check")[0], 69, "the former path has no socket")
    host.must("sh", "-c", "REDLOCK_SOCKET=/run/redlockd/other.sock redlock check")
    host.must("rm", place)
    for command in ("daemon-reload", "stop redlockd.service", "restart redlockd.socket",
                    "start redlockd.service"):
        host.must("systemctl", *command.split())


def test_reload():
    text = "redlockd --check-config && systemctl"
    host.configure(nodes, CONFIG + 'max_hold = "300ms"\n')
    run("redlockd.8", text)
    equal(host.run("redlock", "run", "short", "--", "sleep", "20")[0], 125, "the new setting applies")
    host.configure(nodes, CONFIG + 'max_hold = "for ever"\n')
    run("redlockd.8", text, want=78)
    equal(host.run("redlock", "run", "short", "--", "sleep", "20")[0], 125,
          "a wrong configuration changes nothing")
    host.configure(nodes, CONFIG)
    run("redlockd.8", text)


def test_journal():
    host.must("journalctl", "--update-catalog")
    client = host.lose_lease("nightly")
    lab.wait_for(lambda: "lease nightly" in host.run(
        "sh", "-c", find("redlockd.8", "REDLOCK_EVENT=lease-lost"))[1], 10, "the entry of the lost lease")
    client.communicate(timeout=20)
    text = run("redlockd.8", "REDLOCK_EVENT=lease-lost")
    said = host.must("sh", "-c", text.splitlines()[1])
    ok("The lease nightly was lost (max-hold)" in said, "its second command explains the loss")


def test_leader():
    host.write("/etc/systemd/system/backup.service",
               "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
    host.must("systemctl", "enable", "--now", "backup.service")
    commands = run("redlock-leader@.service.8", "systemctl disable --now backup")
    lab.wait_for(lambda: is_active("backup.service"), 20, "the led service")
    equal(host.run("systemctl", "is-enabled", "backup.service")[1], "disabled\n",
          "the service itself is no longer enabled")
    equal(host.run("redlock", "check", "backup")[0], 0, "the service runs under the lease")
    lab.wait_for(lambda: "this host leads, token" in host.run(
        "sh", "-c", find("redlock-leader@.service.8", "REDLOCK_EVENT=lead-begun"))[1], 10,
                 "the entry of the lead")
    ok(True, "journalctl finds the lead")
    ok(find("README.md", "redlock-leader@backup") in commands, "the README has the same command")
    verified = host.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                        "redlock-leader@backup.service")
    equal(verified, (0, ""), "systemd-analyze verify reports nothing")


def test_settings():
    settings = find("redlock-leader@.service.8", "REDLOCK_TTL=")
    host.write("/etc/redlock/leader/backup.conf", settings)
    host.must("systemctl", "restart", "redlock-leader@backup")
    lab.wait_for(lambda: is_active("backup.service"), 20, "the led service")
    ttl_ms = max(node.call("PTTL", "backup") for node in nodes)
    ok(0 < ttl_ms <= 5000, "the lease has the ttl of the file (%d ms of it left)" % ttl_ms)
    environment = host.must("cat", "/proc/%s/environ" % host.show("redlock-leader@backup", "MainPID"))
    missing = set(settings.splitlines()) - set(environment.split("\0"))
    equal(sorted(missing), [], "the leader unit has all settings")


reason = machine.why_not()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_installation, test_socket, test_reload, test_journal, test_leader, test_settings)
