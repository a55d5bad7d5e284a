"""The Debian packages: built, checked by lintian, installed in a machine, configured with three lines,
upgraded under load, removed and purged."""

import glob
import os
import re
import shutil
import subprocess
import sys

import machine
from machine import Machine, Node, lab
from tap import equal, main, note, ok

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NAMES = ["libredlock-dev", "libredlock0", "redlock-metrics", "redlock", "redlockd"]
UNITS = ["redlockd.socket", "redlockd.service"]


def why_not():
    for command in ("dpkg-buildpackage", "dh", "lintian"):
        if not shutil.which(command):
            return "the command %s is not installed" % command
    missing = subprocess.run(["dpkg-checkbuilddeps", os.path.join(SOURCE, "units/debian/control")],
                             stderr=subprocess.PIPE, text=True)
    return missing.stderr.strip() or None


def set_up():
    """A machine without any file of this project but the packages in /nodes."""
    global host, nodes
    machine.set_up_empty()
    os.mkdir(os.path.join(machine.SHARED, "1"))
    begun = lab.now()
    # Debugging symbols and full optimization would take most of the time.
    quick = dict(os.environ, DEB_CFLAGS_APPEND="-O1 -g0", DEB_BUILD_OPTIONS="noautodbgsym")
    built = subprocess.run([os.path.join(SOURCE, "units/debian/build"), os.path.join(machine.SHARED, "1")],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quick)
    equal(built.returncode, 0, "the packages are built (%.0f s)" % (lab.now() - begun))
    for line in built.stdout.splitlines()[-20:] if built.returncode else ():
        note(line)
    nodes = [Node(name) for name in "abc"]
    host = Machine("packages")
    # This file, common in images, keeps packages from starting their services.
    host.must("rm", "-f", "/usr/sbin/policy-rc.d")


def debs(version):
    return sorted(path for path in glob.glob(os.path.join(machine.SHARED, str(version), "*.deb"))
                  if "-dbgsym" not in path)


def inside(paths):
    return ["/nodes/" + os.path.relpath(path, machine.SHARED) for path in paths]


def make_newer():
    """The same packages with a later version."""
    os.mkdir(os.path.join(machine.SHARED, "2"))
    for path in debs(1):
        tree = lab.path("tree")
        subprocess.run(["dpkg-deb", "--raw-extract", path, tree], check=True)
        control = os.path.join(tree, "DEBIAN", "control")
        with open(control) as file:
            text = file.read()
        with open(control, "w") as file:
            file.write(re.sub(r"0\.4\.0\b", "0.4.0+1", text))
        into = os.path.join(machine.SHARED, "2")
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, into], check=True,
                       stdout=subprocess.DEVNULL)


def install(version, *options):
    return host.must("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "-o=Dpkg::Use-Pty=0",
                     "install", *options, *inside(debs(version)), timeout=120)


def states(what):
    return [host.show(unit, what) for unit in UNITS]


def test_lintian():
    equal([os.path.basename(path).split("_")[0] for path in debs(1)], NAMES, "there are five packages")
    changes = glob.glob(os.path.join(machine.SHARED, "1", "*.changes"))
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *changes], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    equal((done.returncode, done.stdout), (0, ""), "lintian accepts the packages and their source")


def test_install():
    host.must("rm", "-f", "/var/lib/man-db/auto-update")  # no index of pages after each installation
    install(1)
    equal(states("ActiveState"), ["inactive"] * 2,
          "after the installation no unit runs without a configuration")
    equal(states("UnitFileState"), ["enabled"] * 2, "both units are enabled")
    equal(host.must("systemctl", "is-system-running").strip(), "running", "no unit has failed")
    equal(host.must("id", "-nu", "redlockd").strip(), "redlockd", "the agent's user exists")
    conffiles = host.must("dpkg-query", "-W", "-f=${Conffiles}", "redlockd")
    ok("/etc/redlockd.conf" in conffiles, "the configuration is a conffile")
    equal(host.run("redlock", "run", "-n", "x", "--", "true")[0], 69,
          "a client reports that no agent runs")


def test_configure():
    lines = "".join('node "%s" { address = "%s" }\n' % (node.name, node.address) for node in nodes)
    host.must("sh", "-c", "cat >>/etc/redlockd.conf", input=lines)
    host.must("systemctl", "start", *UNITS)
    for node in nodes:
        host.must("redlock", "nodes", "--bless", node.name)
    lab.wait_for(lambda: host.run("redlock", "check")[0] == 0, 20, "a quorum")
    ok(True, "three lines of configuration give a quorum")
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:19739/metrics').read().decode())"
    ok("\nredlock_voting_nodes 3\n" in host.must("python3", "-c", read),
       "the metrics are served without any configuration")
    equal(host.show("redlock-metrics.service", "ActiveState"), "active",
          "by a service that the request starts")
    host.write("/etc/systemd/system/backup.service", "[Service]\nExecStart=sleep infinity\n")
    host.must("systemctl", "enable", "--now", "redlock-leader@backup.target")
    lab.wait_for(lambda: host.show("backup.service", "ActiveState") == "active", 20, "the led service")
    ok(host.run("redlock", "leader", "backup")[0] == 0, "a service is led")
    drop_in = "/run/systemd/system/backup.service.d"
    modes = host.must("stat", "-c", "%a", drop_in, drop_in + "/50-redlock-leader.conf").split()
    equal(modes, ["755", "644"],
          "all users can read its drop-in: systemd warns of others at each reload")


def test_upgrade():
    make_newer()
    shutil.copy(os.path.join(lab.BUILD, "tests/systemd/holders"), machine.SHARED)
    load = lab.spawn(host.command("/nodes/holders"), text=True, stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE)
    equal(load.stdout.readline(), "held\n", "a load: held leases, and leases that change hands")
    before = [host.show(unit, "InvocationID") for unit in UNITS + ["backup.service"]]
    install(2)
    equal(host.must("dpkg-query", "-W", "-f=${Version}", "redlockd"), "0.4.0+1",
          "the later version is installed")
    after = [host.show(unit, "InvocationID") for unit in UNITS + ["backup.service"]]
    equal([one == other for one, other in zip(before, after)], [True, False, True],
          "an upgrade restarts the agent, but neither the socket nor the led service")
    equal(states("ActiveState"), ["active"] * 2, "agent and socket run")
    lab.wait_for(lambda: host.run("redlock", "check")[0] == 0, 20, "a quorum")
    begun = lab.now()
    lab.wait_for(lambda: lab.now() > begun + 10.5, 15, "the end of leases that were not extended")
    said = load.communicate("", timeout=20)[0]
    ok(said.startswith("not-granted=0 lost=0 failed=0 invalid=0 other=0 "),
       "no lease is lost (%s)" % said.strip())
    ok("/nodes/" in host.must("cat", "/etc/redlockd.conf"), "the configuration is kept")


def test_upgrade_with_a_mistake():
    """What the former version accepted may be a mistake for the next one."""
    configuration, before = host.must("cat", "/etc/redlockd.conf"), host.show(UNITS[1], "InvocationID")
    host.write("/etc/redlockd.conf", configuration + "nonsense = 1\n")
    said = install(2, "--reinstall")
    ok("not restarted" in said, "an upgrade reports a mistake in the configuration")
    equal(host.show(UNITS[1], "InvocationID"), before, "and lets the former agent run on")
    host.write("/etc/redlockd.conf", configuration)


def test_remove():
    pid = host.show("backup.service", "MainPID")
    host.must("dpkg", "--remove", "redlockd", "redlock-metrics")
    ok(host.run("test", "-e", "/proc/" + pid)[0] != 0 and
       host.show("backup.service", "ActiveState") != "active",
       "removed: the led service does not run without its lease")
    lab.wait_for(lambda: lab.keys_on(nodes, "backup") == 0, 4, "the release")  # sooner than by its expiry
    ok(True, "the lease is released")
    equal(states("ActiveState"), ["inactive"] * 2, "no unit runs")
    install(2)
    equal(states("ActiveState"), ["active"] * 2, "installed again, agent and socket run")
    host.must("dpkg", "--remove", "redlockd", "redlock-metrics")
    equal(states("ActiveState"), ["inactive"] * 2, "until they are removed")
    host.must("dpkg", "--purge", *NAMES)
    left = host.run("find", "/etc", "/usr", "/run", "/var/lib", "-name", "*redlock*")[1].split()
    equal(left, [], "purged: no file is left")


reason = machine.why_not() or why_not()
if reason:
    print("1..0 # SKIP " + reason)
    sys.exit(0)
main(set_up, test_lintian, test_install, test_configure, test_upgrade,
     test_upgrade_with_a_mistake, test_remove)
