"""Everything at once: clients of all kinds on three agents with unlike settings over five nodes, while
clients, agents, nodes and links fail at random. What each client relied on and was answered is checked at
the end, and whether the agents are as small and as quiet as before.

    REDLOCK_SOAK_SECONDS=3600 REDLOCK_BUILD=$PWD/build-gcc-none python3 tests/soak/test_soak.py

REDLOCK_SOAK_SEED repeats the choices of a former run: when what fails, and each client's requests. Which of
two processes is first is not repeated."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import lab  # noqa: E402
from descriptor_store import KeptAgent  # noqa: E402
from faults import Faults, Link, Stops  # noqa: E402
from record import Record  # noqa: E402
from tap import equal, main, note, ok  # noqa: E402

SECONDS = float(os.environ.get("REDLOCK_SOAK_SECONDS") or
                (120 if os.environ.get("REDLOCK_TEST_ALL") else 15))
SEED = os.environ.get("REDLOCK_SOAK_SEED") or str(random.SystemRandom().randrange(10 ** 9))
CLIENTS = {"raw": 6, "library": 4, "command": 2, "watch": 1, "garbage": 1}
NODE_TIMEOUT = 'node_timeout = "200ms"\n'
# Of the agents: the first one keeps its connections when it is replaced.
SETTINGS = [
    'max_ttl = "3s"\ndefault_ttl = "1s"\nmax_leases = 3000\n',
    'max_ttl = "2s"\ndefault_ttl = "2s"\nmax_leases = 500\nmax_hold = "2s"\n',
    'max_ttl = "4s"\ndefault_ttl = "500ms"\nmax_leases = 2000\nmax_sessions = 500\n']
MAX_TTL_S = 4
STRAY_S = 2 * MAX_TTL_S + 2  # until keys of unfinished releases have expired
METRONOME_S = 0.02
CPU_S = 0.06


class Client:
    """A process of client.py that is started again when it was killed."""

    def __init__(self, world, kind, number):
        self.world, self.kind, self.name = world, kind, "%s-%d" % (kind, number)
        self.number, self.starts, self.has_command, self.process = number, 0, False, None
        self.start()

    def start(self):
        """A client that runs goes on."""
        if self.process and self.process.poll() is None:
            return
        self.starts += 1
        self.has_command = False
        number = str(1000 * self.starts + self.number)
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "client.py"), self.kind, number,
             "%s %s %s" % (SEED, self.name, number), *[agent.socket_path for agent in self.world.agents]],
            stdout=subprocess.PIPE, text=True, env=dict(os.environ, REDLOCK_BUILD=lab.BUILD),
            preexec_fn=lab.die_with_parent)
        threading.Thread(target=self.read, args=(self.process,), daemon=True).start()

    def read(self, process):
        for line in process.stdout:
            with self.world.lock:
                self.world.record.take(self, line.rstrip("\n"))

    def kill(self):
        lab.end_process(self.process)


class World:
    def __init__(self):
        self.stops, self.lock, self.wrong, self.floods = Stops(), threading.Lock(), [], []
        self.quarantine_s = 2 * MAX_TTL_S
        self.record = Record(self.stops, lab.SCALE)
        self.nodes = lab.nodes(5)
        self.links = [Link(node) for node in self.nodes]
        settings = ["quarantine = yes\n" + NODE_TIMEOUT + words for words in SETTINGS]
        self.agents = [KeptAgent(self.links, settings[0], keepers=2),
                       lab.Agent(self.links, settings[1], keepers=1),
                       lab.Agent(self.links, settings[2], keepers=3)]
        self.agents[0].bless_all()
        for agent in self.agents:
            agent.wait_voting(len(self.nodes), 20)
        self.clients = []

    def start_clients(self):
        self.clients = [Client(self, kind, i) for kind in CLIENTS for i in range(CLIENTS[kind])]
        threading.Thread(target=self.notice_stalls, daemon=True).start()

    def notice_stalls(self):
        """When this machine does not even run a thread that sleeps, answers may be late too."""
        before = lab.now()
        while True:
            time.sleep(METRONOME_S)
            after = lab.now()
            if after - before > 3 * METRONOME_S:
                self.stops.rows.append(("machine", before, after))
            before = after

    def stop_clients(self):
        for client in self.clients:
            client.start()
            client.process.send_signal(signal.SIGTERM)
        for client in self.clients:
            try:
                client.process.wait(20 * lab.SCALE)
            except subprocess.TimeoutExpired:
                self.wrong.append("%s does not end" % client.name)
                client.kill()


def figures(agent):
    """Descriptors, memory in bytes, and CPU seconds of an agent."""
    pid = agent.process.pid
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return (len(os.listdir("/proc/%d/fd" % pid)), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            ticks / os.sysconf("SC_CLK_TCK"))


def settle(world):
    """All that is left of the load and its faults ends."""
    for agent in world.agents:
        agent.wait_voting(len(world.nodes), 2 * world.quarantine_s)
    lab.wait_for(lambda: all(idle(agent) for agent in world.agents), STRAY_S, "the end of all leases")


def idle(agent):
    status = agent.status()
    return status["leases"] == status["waiters"] == status["cooling"] == 0


def set_up():
    global world, before
    world = World()
    before = [figures(agent) for agent in world.agents]


def test_load():
    note("seed %s, %g s; REDLOCK_SOAK_SEED=%s repeats its choices" % (SEED, SECONDS, SEED))
    choose = random.Random(SEED)
    faults = Faults(world, choose)
    world.start_clients()
    until, following = lab.now() + SECONDS, lab.now() + 1
    while lab.now() < until:
        time.sleep(0.01)
        faults.end_due()
        if lab.now() >= following:
            faults.step()
            following = lab.now() + choose.uniform(0.05, 0.5)
    faults.end_all()
    world.stop_clients()
    note("faults: %d: %s" % (sum(faults.counts.values()), ", ".join(
        "%s %d" % row for row in sorted(faults.counts.items()))))
    for agent in world.agents:
        equal(agent.process.poll(), None, "agent %d runs" % world.agents.index(agent))


def test_record():
    record = world.record
    for kind, words in record.counts().items():
        note("%s: %s" % (kind, ", ".join("%d %s" % (n, word) for word, n in words.items())))
    names = {claim.name for claim in record.claims.values()}
    ok(len(record.claims) > 2 * SECONDS and len(names) > 3,
       "%d leases of %d names were relied on, %.1f s in all" % (
           len(record.claims), len(names),
           sum(each.last - each.begin for each in record.claims.values())))
    troubles = world.wrong + record.troubles(world.agents, world.floods)
    equal(troubles[:20], [], "of %d answers each is allowed and in time, no two hold a name, tokens grow "
          "(%d troubles)" % (len(record.answers), len(troubles)))
    for line in record.explain():
        note(line)
    for agent in world.agents:
        bad = [line for line in agent.log_text().splitlines() if "ssertion" in line or "anitizer" in line]
        equal(bad, [], "no assertion of agent %d failed" % world.agents.index(agent))


def test_names_are_free():
    settle(world)
    for agent in world.agents:
        client = agent.client()
        for name in ("soak-0", "soak-3"):
            grant = client.acquire(name, "WAIT", 1000 * STRAY_S)
            ok(isinstance(grant, dict), "agent %d acquires %s (%s)" % (
                world.agents.index(agent), name, grant if isinstance(grant, Exception) else "token"))
            if isinstance(grant, dict):
                client.call("RELEASE", grant["id"])
        client.close()


def stray_keys():
    return sorted({key for node in world.nodes for key in node.call("KEYS", "*")
                   if not key.startswith("redlockd:")})


def idle_cpu():
    """CPU seconds of each agent in two seconds without requests. One such time may contain other work, such
    as the end of connections."""
    least = [float("inf")] * len(world.agents)
    for _ in range(4):
        begun = [figures(agent)[2] for agent in world.agents]
        time.sleep(2)  # to measure, not to wait
        least = [min(used, figures(agent)[2] - cpu) for used, agent, cpu in zip(least, world.agents, begun)]
        if max(least) <= CPU_S * lab.SCALE:
            break
    return least


def test_leftovers():
    try:
        lab.wait_for(lambda: not stray_keys(), STRAY_S, "the end of all keys")
    except TimeoutError:
        pass
    equal(stray_keys()[:10], [], "the nodes have no key of a lease that has ended")
    used = idle_cpu()
    for i, agent in enumerate(world.agents):
        fds, memory, _ = figures(agent)
        note("agent %d: %d descriptors (%d at the start), %.1f MB (%.1f), %.1f %% CPU when idle" % (
            i, fds, before[i][0], memory / 1e6, before[i][1] / 1e6, used[i] * 50))
        subscriptions = agent.keepers * len(world.nodes)  # from each first waiter on
        ok(fds <= before[i][0] + subscriptions + 2, "agent %d has no more descriptors than at its start" % i)
        ok(memory <= before[i][1] + 32e6,
           "its memory is at most 32 MB above that at its start: what a thousand sessions of a flood leave")
        ok(used[i] <= CPU_S * lab.SCALE, "an agent without requests uses little CPU")


main(set_up, test_load, test_record, test_names_are_free, test_leftovers)
