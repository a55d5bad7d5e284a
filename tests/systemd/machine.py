"""Machines with a real systemd: containers over the files of this system, with redlockd installed. The nodes
are Redis servers outside the containers, on Unix sockets in a directory that all machines share or on a
network that connects the machines."""

import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import lab  # noqa: E402
import leftovers  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STAGE = lab.path("stage")
SHARED = lab.path("shared")


def why_not():
    """Why this system can't run the tests; None if it can."""
    if os.geteuid() != 0:
        return "containers need root"
    for command in ("systemd-nspawn", "unshare", "nsenter", "systemd-analyze"):
        if not shutil.which(command):
            return "the command %s is not installed" % command
    if not os.path.exists("/usr/lib/systemd/systemd") and not os.path.exists("/lib/systemd/systemd"):
        return "systemd is not installed"
    return None


def end_well(number, frame):
    sys.exit(128 + number)  # runs the ends of the machines too


def set_up_empty():
    """Machines without any file of this project."""
    signal.signal(signal.SIGTERM, end_well)
    os.chmod(lab.directory, 0o755)
    os.mkdir(SHARED)
    os.mkdir(STAGE)


def set_up():
    """Machines with the build installed."""
    set_up_empty()
    subprocess.run(["meson", "install", "-C", lab.BUILD, "--no-rebuild", "--destdir", STAGE], check=True,
                   capture_output=True)
    os.makedirs(os.path.join(STAGE, "etc"), exist_ok=True)


class Node(lab.Node):
    """A Redis server that the machines reach."""

    def __init__(self, name, *options):
        super().__init__(name, "--unixsocketperm", "777", *options)

    @property
    def address(self):
        return "unix:/nodes/" + os.path.basename(self.socket_path)

    @property
    def socket_path(self):
        return self._socket_path

    @socket_path.setter
    def socket_path(self, path):
        self._socket_path = os.path.join(SHARED, os.path.basename(path))


class Machine:
    def __init__(self, name, network=None):
        self.port = name
        self.name = "%s-%d" % (name, os.getpid())
        self.state = lab.path(name)
        os.mkdir(self.state)
        self.console = open(os.path.join(self.state, "console"), "wb")
        self.process = subprocess.Popen(
            [os.path.join(HERE, "boot"), self.name, self.state, STAGE, SHARED], stdin=subprocess.DEVNULL,
            stdout=self.console, stderr=subprocess.STDOUT, preexec_fn=lab.die_with_parent,
            start_new_session=True)
        lab._ends.insert(0, self.crash)
        lab.on_failure(self.journal)
        self.pid = lab.wait_for(self._first_process, 120, "the container's first process")
        if network:
            network.plug(self.port, self.pid, self.command())
        lab.wait_for(self._is_up, 120, "the end of its boot")

    def _first_process(self):
        try:
            with open(os.path.join(self.state, "cgroup")) as file:
                self.cgroup = file.read().strip()
            with open(os.path.join(self.cgroup, "payload/init.scope/cgroup.procs")) as file:
                return file.readline().strip() or None
        except OSError:
            if self.process.poll() is not None:
                raise RuntimeError("the container ended: " + self.console_text())
            return None

    def _is_up(self):
        return self.run("systemctl", "is-system-running")[1].strip() in ("running", "degraded")

    def console_text(self):
        with open(os.path.join(self.state, "console"), errors="replace") as file:
            return file.read()

    def command(self, *arguments):
        """The command that runs these arguments in the machine."""
        return ["nsenter", "--target", self.pid, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
                "--root", "--wd", "--", *arguments]

    def run(self, *arguments, input=None, timeout=60):
        """Returns the exit status and the output."""
        done = subprocess.run(self.command(*arguments), input=input, timeout=timeout, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=None if input is not None else subprocess.DEVNULL)
        return done.returncode, done.stdout

    def lose_lease(self, name):
        """A client of the machine acquires the lease, and keeps the connection past the lease's max-hold."""
        client = lab.spawn(self.command("redis-cli", "-s", "/run/redlockd/redlockd.sock"),
                           stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        client.stdin.write(b"ACQUIRE %s MAXHOLD 1000 WAIT 10000\n" % name.encode())
        client.stdin.flush()
        return client

    def must(self, *arguments, input=None, timeout=60):
        status, said = self.run(*arguments, input=input, timeout=timeout)
        if status != 0:
            raise RuntimeError("%s: %d: %s" % (" ".join(arguments), status, said))
        return said

    def write(self, path, text, mode="644"):
        self.must("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat >"$0" && chmod "$1" "$0"', path, mode,
                  input=text)

    def configure(self, nodes, more="", node_more=""):
        """Writes /etc/redlockd.conf."""
        self.write("/etc/redlockd.conf", "".join(
            'node "%s" { address = "%s" %s }\n' % (node.name, node.address, node_more)
            for node in nodes) + more)

    def show(self, unit, what):
        return self.must("systemctl", "show", "--value", "--property", what, unit).strip()

    def processes(self, service):
        """The process ids in this service's cgroup, as seen from outside."""
        with open(os.path.join(self.cgroup, "payload/system.slice", service, "cgroup.procs")) as file:
            return [int(line) for line in file]

    def journal(self):
        if self.process.poll() is not None:
            return ""
        return self.run("journalctl", "--no-pager", "--lines=60", "--output=short-monotonic")[1]

    def crash(self):
        """Ends the machine as a power cut would."""
        if self.process.poll() is not None:
            return
        if hasattr(self, "cgroup"):
            with open(os.path.join(self.cgroup, "cgroup.kill"), "w") as file:
                file.write("1")
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if hasattr(self, "cgroup"):
            leftovers.remove_group(self.cgroup)
