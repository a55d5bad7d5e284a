"""Scenarios of the command and of programs with libredlock, beside an agent without the shim."""

import os
import re
import select
import subprocess

import calls
import lab
from served import CONFIG, Refused, Wrong, require

PROGRAM = os.path.join(lab.BUILD, "tests", "failures", "calls-program")
BOUND_S = 12
# What a command may end with when a call fails (redlock(1)): no agent, the system refuses, try again later,
# denied, the wait is over, the lease is lost, the command can't be executed or is not found.
ENDS = (69, 71, 75, 77, 124, 125, 126, 127)


class Commands:
    """An agent, and a command a run. A scenario is a function of this object."""

    program = "redlock"

    def __init__(self, nodes):
        self.nodes = nodes
        self.orders = calls.Orders(self.program)
        self.agent = lab.Agent(nodes, CONFIG, keepers=1)
        self.touched = lab.path("touched")
        self.sessions = 0
        self.said = {}  # what a scenario says without a fault

    def end(self):
        self.agent.kill()

    def renew(self):
        pass

    def tidy(self):
        pass  # each process has ended

    def name(self, text="a"):
        return "%s-%s-%d" % (self.program, text, os.getpid())

    def begin(self, *arguments):
        return lab.spawn([*self.orders.prefix, *arguments], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def finish(self, process, kind, good=(0,), ends=ENDS):
        """Standard output of a command that did its work: always the same of a kind."""
        try:
            out, err = process.communicate(timeout=BOUND_S * lab.SCALE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TimeoutError("the command does not end")
        lab._ends.pop()
        self.ended = process.returncode
        if process.returncode not in good:
            require(process.returncode in ends, "the command ended with %d: %s" % (process.returncode, err))
            require(err.strip() or self.orders.is_disconnect(),
                    "the command failed with %d without a word" % process.returncode)
            raise Refused(err)
        # Of JSON, which has no spaces, not the state of a node; a node's first trouble is a line more; `top`
        # has the slowest node first.
        lines = sorted(line.split()[0][:20] for line in re.sub(r"[0-9]+(\.[0-9]+)?", "0", out).splitlines()
                       if line.split() and not line.startswith("redlock_node_trouble"))
        require(not kind or lines == self.said.setdefault(kind, lines), "another output: %s" % out)
        return out

    def redlock(self, *arguments, good=(0,), ends=ENDS):
        return self.finish(self.begin(lab.REDLOCK, "--socket", self.agent.socket_path, *arguments),
                           " ".join(arguments[:2]), good, ends)

    def run(self, scenario):
        try:
            scenario(self)
            return True
        except Refused:
            return False

    def learn(self, scenario):
        self.said.clear()
        for _ in range(2):
            before = self.orders.counts()
            require(self.run(scenario[0]), "a scenario without a fault")
            counts = {name: count - before.get(name, 0) for name, count in self.orders.counts().items()
                      if count > before.get(name, 0)}
            self.verify(scenario[1])
        return counts, counts, set()

    def verify(self, names):
        """Leases and sessions of the command have gone."""
        session = self.agent.client(3, timeout=6)
        for name in names:
            grant = session.acquire(self.name(name), "WAIT", 4000)
            require(isinstance(grant, dict), "the name is not free afterwards: %s" % grant)
            session.call("RELEASE", grant["id"])
        lab.wait_for(lambda: session.call("STATUS")["sessions"] == 1, 10, "the ends of other sessions")
        session.close()


def run(commands):
    if os.path.exists(commands.touched):
        os.unlink(commands.touched)
    try:
        commands.redlock("run", commands.name(), "--", "touch", commands.touched)
    except Refused:
        require(not os.path.exists(commands.touched) or commands.ended == 125, "a run that is no failure")
        raise
    require(os.path.exists(commands.touched), "a run that did not run")


def run_failing(commands):
    commands.redlock("run", commands.name(), "--", "false", good=(1,))


def run_waiting(commands):
    session = commands.agent.client(3)
    grant = session.acquire(commands.name())
    process = commands.begin(lab.REDLOCK, "--socket", commands.agent.socket_path, "run", commands.name(),
                             "--", "true")
    try:
        lab.wait_for(lambda: session.call("STATUS")["waiters"] == 1 or process.poll() is not None, 10,
                     "the waiter")
    finally:
        session.call("RELEASE", grant["id"])
        session.close()
        commands.finish(process, "run waiting")


def acquire_and_release(commands):
    owner = lab.spawn(["sleep", "60"])  # its end is the end of the lease, whatever fails
    missed = (64,) if commands.orders.given == "pidfd_open" else ()  # with ESRCH: no process of --for
    try:
        commands.redlock("acquire", "--for", str(owner.pid), commands.name(), ends=ENDS + missed)
        released = (0, 1) if commands.orders.is_disconnect() else (0,)  # or ended with its connection
        commands.redlock("release", commands.name(), good=released)
    finally:
        lab._ends.pop()
        lab.end_process(owner)


def listings(commands):
    session = commands.agent.client(3)
    session.acquire(commands.name())
    try:
        for command in "status", "leases", "nodes":
            commands.redlock(command)
            commands.redlock(command, "--json")
        commands.redlock("leader", commands.name())
    finally:
        session.close()


def held(commands, name=None):
    """A session that has acquired the name."""
    session = commands.agent.client(3)
    session.acquire(name or commands.name())
    return session


def leader(commands):
    """The holder, and a name that is free."""
    session = held(commands)
    try:
        out = commands.redlock("leader", commands.name())
        require(commands.name() in out, "the holder: %s" % out)
        commands.redlock("leader", "--json", commands.name())
    finally:
        session.close()
    commands.redlock("leader", "free", good=(1,))


def history(commands):
    name = commands.name("history-%s" % os.urandom(4).hex())  # without former events
    held(commands, name).close()
    require("granted" in commands.redlock("history", name), "the event of the grant")
    commands.redlock("history", "--json", "--count", "1", name)


def metrics(commands):
    out = commands.redlock("metrics")
    require(out.endswith("# EOF\n"), "all of the text: %s" % out[-80:])


def check(commands):
    """Of the agent, and of a name that is held or free."""
    commands.redlock("check", "--lease", commands.name("check"))
    session = held(commands)
    try:
        commands.redlock("check", commands.name())
    finally:
        session.close()
    commands.redlock("check", "--json", "free", good=(1,))


def watch(commands):
    """The free name, its holder, and its end."""
    process = commands.begin(lab.REDLOCK, "--socket", commands.agent.socket_path, "watch", commands.name())
    try:
        if select.select([process.stdout], [], [], 2)[0]:  # the first line, or the end
            held(commands).close()
    finally:
        process.terminate()
        out = commands.finish(process, None, good=(0, 143, -15))
    require(all(line.startswith(commands.name() + " ") for line in out.splitlines()),
            "other lines: %s" % out)


def whoami(commands):
    commands.redlock("whoami")
    commands.redlock("whoami", "--json", commands.name())


def top(commands):
    commands.redlock("top", "--once")


def bless(commands):
    commands.redlock("nodes", "--bless", "a")


def hold(commands):
    process = commands.begin(lab.REDLOCK, "--socket", commands.agent.socket_path, "hold", commands.name())
    session = commands.agent.client(3)
    try:
        lab.wait_for(lambda: session.call("LEADER", commands.name()) or process.poll() is not None, 5,
                     "the lease")
    except TimeoutError:
        raise Refused("a service that waits for memory")
    finally:
        session.close()
        process.terminate()
        commands.finish(process, "hold", good=(0, 143, -15))


def usage(commands):
    commands.redlock("--help")
    commands.redlock("run", "--tt", good=(64,))


A = ["a"]
COMMANDS = {
    "redlock run": (run, A),
    "redlock run, whose command fails": (run_failing, A),
    "redlock run, waiting": (run_waiting, A),
    "redlock acquire and release": (acquire_and_release, A),
    "redlock status, leases, nodes, leader": (listings, A),
    "redlock nodes --bless": (bless, []),
    "redlock leader": (leader, A),
    "redlock history": (history, []),
    "redlock metrics": (metrics, []),
    "redlock check": (check, ["a", "check"]),
    "redlock watch": (watch, A),
    "redlock whoami": (whoami, []),
    "redlock top": (top, []),
    "redlock hold": (hold, A),
    "redlock --help, and a mistake": (usage, []),
}


class Programs(Commands):
    program = "calls-program"

    def library(self, scenario):
        process = self.begin(PROGRAM, self.agent.socket_path, scenario, self.name())
        try:
            out, err = process.communicate(timeout=BOUND_S * lab.SCALE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TimeoutError("the program does not end")
        lab._ends.pop()
        if process.returncode == 1:
            require(": \n" not in out, "an error without a text: %s" % out)
            raise Refused(out)
        if process.returncode != 0:
            raise Wrong("the program ended with %d: %s%s" % (process.returncode, out, err))


def library(scenario):
    return lambda programs: programs.library(scenario)


PROGRAMS = {"libredlock: " + text: (library(scenario), A) for text, scenario in (
    ("acquire, check, release", "blocking"), ("heartbeat, release without waiting", "heartbeat"),
    ("acquire in an event loop", "asynchronous"), ("observe", "observing"), ("leader", "leader"),
    ("the connection breaks", "broken"), ("20 leases", "many"))}
PROGRAMS["libredlock: 20 leases"] = (library("many"), ["a-%d" % i for i in range(20)])
