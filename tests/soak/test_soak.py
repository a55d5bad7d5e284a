"""Everything at once: clients of all kinds on three agents with unlike settings over five nodes, while
clients, agents, nodes and links fail at random. What each client relied on and was answered is checked at
the end, and whether the agents are as small and as quiet as before. One agent is never ended: it shows what
leaks.

    REDLOCK_SOAK_SECONDS=3600 REDLOCK_BUILD=$PWD/build-gcc-none python3 tests/soak/test_soak.py

REDLOCK_SOAK_SEED repeats the choices of a former run: when what fails, and each client's requests. Which of
two processes is first is not repeated."""

import os
import random
import re
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
from record import LEAST_PER_S, Record  # noqa: E402
from tap import equal, main, note, ok  # noqa: E402

SECONDS = float(os.environ.get("REDLOCK_SOAK_SECONDS") or
                (120 if os.environ.get("REDLOCK_TEST_ALL") else 60))
SEED = os.environ.get("REDLOCK_SOAK_SEED") or str(random.SystemRandom().randrange(10 ** 9))
os.chmod(lab.directory, 0o711)  # for floods by another user
NEEDED = subprocess.run(["ldd", os.path.join(lab.BUILD, "client-lib", "libredlock.so")], text=True,
                        capture_output=True).stdout
CLIENTS = {"raw": 6, "library": 4, "command": 2, "watch": 1, "garbage": 1}
NODE_TIMEOUT = 'node_timeout = "200ms"\n'
# Of the agents: the first one keeps its connections when it is replaced, the last one is never ended.
SETTINGS = [
    'max_ttl = "3s"\ndefault_ttl = "1s"\nmax_leases = 3000\n',
    'max_ttl = "2s"\ndefault_ttl = "2s"\nmax_leases = 500\nmax_hold = "2s"\n',
    'max_ttl = "4s"\ndefault_ttl = "500ms"\nmax_leases = 2000\nmax_sessions = 500\n']
MAX_TTL_S = 4
LASTING = 2
# After this part of the load, and a flood of each form, the lasting agent has its usual size. In a short run
# there is no warm-up, and a thousand sessions of a flood may leave the larger growth.
WARM_UP_S = min(SECONDS / 3, 600) if SECONDS >= 60 else 0
MAX_GROWTH_BYTES = 6e6 if WARM_UP_S > 0 else 32e6
STRAY_S = 2 * MAX_TTL_S + 2  # until keys of unfinished releases have expired
SUBSCRIPTION_S = 20  # until an agent without waiters has no connections for messages of releases
METRONOME_S = 0.02
RELEASED = 32  # names
EXPIRED = "__keyevent@0__:expired"  # Redis' channel of expired keys
END_OF_KEYS = "end"
TTLS_MS = (3000, 2000, 4000)  # of the agents: the longest
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
        self.errors_path = lab.path("client.err")
        with open(self.errors_path, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "client.py"), self.kind, number,
                 "%s %s %s" % (SEED, self.name, number),
                 *[agent.socket_path for agent in self.world.agents]],
                stdout=subprocess.PIPE, stderr=errors, text=True,
                env=environment_of(self.kind), preexec_fn=prepare_client)
        self.process.killed_at = None
        self.reader = threading.Thread(target=self.read, args=(self.process,), daemon=True)
        self.reader.start()

    def read(self, process):
        open_requests = {}
        for line in process.stdout:
            with self.world.lock:
                self.world.record.take(self, open_requests, line.rstrip("\n"))
        with self.world.lock:
            self.world.record.close(open_requests, process.killed_at or lab.now())

    def kill(self):
        self.process.killed_at = lab.now()
        lab.end_process(self.process)
        self.check_end(-signal.SIGKILL)

    def end(self):
        """In order; it has got SIGTERM."""
        try:
            self.process.wait(20 * lab.SCALE)
            self.check_end(0)
        except subprocess.TimeoutExpired:
            self.world.wrong.append("%s does not end" % self.name)
            self.kill()
        self.reader.join(5)

    def look(self):
        """If it has ended by itself, it is started again."""
        if self.process.poll() is not None and not self.process.killed_at:
            self.check_end(None)
            self.start()

    def check_end(self, wanted):
        if self.process.returncode != wanted:
            self.world.wrong.append("%s ends with %d: %s" % (
                self.name, self.process.returncode, last_lines(self.errors_path)))


def environment_of(kind):
    """Python must load a sanitizer's library before a libredlock that needs it. It leaks itself."""
    environment = dict(os.environ, REDLOCK_BUILD=lab.BUILD)
    sanitizer = re.search(r"/\S*lib[at]san\S*", NEEDED) if kind == "library" else None
    if sanitizer:
        options = environment.get("ASAN_OPTIONS", "")
        environment.update(LD_PRELOAD=sanitizer[0], ASAN_OPTIONS=options + ":detect_leaks=0")
    return environment


def prepare_client():
    """A signal to end waits until the client has its handler."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    lab.die_with_parent()


def last_lines(path):
    with open(path, errors="replace") as file:
        return " | ".join(file.read().splitlines()[-12:])


class World:
    def __init__(self):
        self.stops, self.lock, self.wrong, self.floods = Stops(), threading.Lock(), [], []
        self.quarantine_s = 2 * MAX_TTL_S
        self.record = Record(self.stops, lab.SCALE, LASTING)
        self.nodes = lab.nodes(5)
        self.links = [Link(node) for node in self.nodes]
        settings = ["quarantine = yes\n" + NODE_TIMEOUT + words for words in SETTINGS]
        self.agents = [KeptAgent(self.links, settings[0], keepers=2),
                       lab.Agent(self.links, settings[1], keepers=1),
                       lab.Agent(self.links, settings[2], keepers=3)]
        os.chmod(self.agents[0].socket_path, 0o666)  # for floods by another user
        self.lasting, self.lasting_process = self.agents[LASTING], self.agents[LASTING].process
        self.agents[0].bless_all()
        for agent in self.agents:
            agent.wait_voting(len(self.nodes), 20)
        self.clients = []
        threading.Thread(target=self.notice_stalls, daemon=True).start()

    def start_clients(self):
        self.clients = [Client(self, kind, i) for kind in CLIENTS for i in range(CLIENTS[kind])]

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
        """All run: those that were killed have been started again."""
        self.look()
        for client in self.clients:
            client.process.send_signal(signal.SIGTERM)
        for client in self.clients:
            client.end()

    def look(self):
        """Clients and agents end only when this test ends them."""
        for client in self.clients:
            client.look()
        for agent in self.agents:
            if agent not in self.stops.open and agent.process.poll() is not None:
                self.check_end(agent, None)
                agent.start()

    def check_end(self, agent, wanted):
        if agent.process.returncode != wanted:
            self.wrong.append("agent %d ends with %d: %s" % (
                self.agents.index(agent), agent.process.returncode, last_lines(agent.log_path)))


def figures(agent):
    """Descriptors, memory in bytes, and CPU seconds of an agent."""
    pid = agent.process.pid
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return (len(os.listdir("/proc/%d/fd" % pid)), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            ticks / os.sysconf("SC_CLK_TCK"))


def quiet_figures(agent, most_descriptors=None):
    """With a single session, that of this call: the numbers of descriptors can be compared."""
    client = agent.client(3)
    lab.wait_for(lambda: client.call("STATUS")["sessions"] == 1, what="the end of all other sessions")
    try:
        lab.wait_for(lambda: not most_descriptors or figures(agent)[0] <= most_descriptors, SUBSCRIPTION_S)
    except TimeoutError:
        pass  # a check reports it
    result = figures(agent)
    client.close()
    return result


def settle(world):
    """All that is left of the load and its faults ends."""
    for agent in world.agents:
        agent.wait_voting(len(world.nodes), 2 * world.quarantine_s)
    lab.wait_for(lambda: all(idle(agent) for agent in world.agents), STRAY_S, "the end of all leases")


def idle(agent):
    status = agent.status()
    return status["leases"] == status["waiters"] == status["cooling"] == 0


def set_up():
    global world, before, warm
    world = World()
    before = [quiet_figures(agent) for agent in world.agents]
    warm = before[LASTING]


def load(faults, seconds):
    world.start_clients()
    until, following = lab.now() + seconds, lab.now() + 1
    while lab.now() < until:
        time.sleep(0.01)
        faults.end_due()
        world.look()
        if lab.now() >= following:
            faults.step()
            following = lab.now() + faults.choose.uniform(0.05, 0.5)
    faults.end_all()
    world.stop_clients()


def test_load():
    global warm
    note("seed %s, %g s; REDLOCK_SOAK_SEED=%s repeats its choices" % (SEED, SECONDS, SEED))
    faults = Faults(world, random.Random(SEED))
    if WARM_UP_S > 0:
        load(faults, WARM_UP_S)
        settle(world)
        faults.flood_in_turn(world.lasting)
        warm = quiet_figures(world.lasting, before[LASTING][0])
    load(faults, SECONDS - WARM_UP_S)
    note("faults: %d: %s" % (sum(faults.counts.values()), ", ".join(
        "%s %d" % row for row in sorted(faults.counts.items()))))
    for agent in world.agents:
        equal(agent.process.poll(), None, "agent %d runs" % world.agents.index(agent))


def test_record():
    record = world.record
    for kind, words in record.counts().items():
        note("%s: %s" % (kind, ", ".join("%d %s" % (n, word) for word, n in words.items())))
    for kind, least in LEAST_PER_S.items():
        what = ", ".join("%d %s" % (n, done) for (by, done), n in sorted(record.done.items()) if by == kind)
        ok(record.done_by(kind) >= least * SECONDS / lab.SCALE, "clients of the kind %s have worked: %s" % (
            kind, what or "not at all"))
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


def hold_and_end(agent, names, ttl_ms):
    """Two sessions of an agent want the same names. The leases, some of which are handed off, end in order:
    by requests, or with their session. Returns the names of those that were lost before."""
    first, second = agent.client(3), agent.client(3)
    held = {first.acquire(name, "TTL", ttl_ms, "WAIT", 1000 * STRAY_S)["id"]: name for name in names}
    waiting = {second.call("ACQUIRE", name, "TTL", ttl_ms, "WAIT", -1, "ASYNC")[1]: name for name in names}
    lost = {name for lease, name in held.items() if first.call("RELEASE", lease) != 1}
    lost |= {name for lease, name in list(waiting.items())[::2] if second.call("RELEASE", lease) != 1}
    lost |= {waiting[push[1]] for push in second.pushes if push[0] == "lost"}
    first.close()
    second.close()
    return lost


def expired_keys(subscription, node):
    """Those that have expired since."""
    node.call("PUBLISH", EXPIRED, END_OF_KEYS)
    keys = []
    while (message := subscription.reply())[2] != END_OF_KEYS:
        keys.append(message[2])
    return keys


def test_releases():
    """Keys that are deleted do not expire: however slow this machine is, an expired one was not released."""
    subscriptions = [lab.Client(node.socket_path) for node in world.nodes]
    lost, names = set(), []
    for node, subscription in zip(world.nodes, subscriptions):
        node.call("CONFIG", "SET", "notify-keyspace-events", "Ex")
        subscription.call("SUBSCRIBE", EXPIRED)
    for i, agent in enumerate(world.agents):
        mine = ["release-%d-%d" % (i, n) for n in range(RELEASED)]
        lost |= hold_and_end(agent, mine, TTLS_MS[i])
        names += mine
    note("%d leases, %d of which were lost" % (len(names), len(lost)))
    lab.wait_for(lambda: not set(stray_keys()) & set(names), STRAY_S, "the end of the keys")
    expired = set()
    for node, subscription in zip(world.nodes, subscriptions):
        node.call("EXISTS", *names)  # an expired key counts as such now at the latest
        expired |= set(expired_keys(subscription, node))
        subscription.close()
    equal(sorted((expired & set(names)) - lost), [], "the keys of released leases are deleted, none expires")
    ok(len(lost) < len(names) / 2, "most leases were held until then")


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
        fds, memory, _ = quiet_figures(agent, before[i][0])
        note("agent %d: %d descriptors (%d at the start), %.1f MB (%.1f), %.1f %% CPU when idle" % (
            i, fds, before[i][0], memory / 1e6, before[i][1] / 1e6, used[i] * 50))
        ok(fds <= before[i][0], "agent %d has no more descriptors than at its start" % i)
        ok(memory <= before[i][1] + 32e6,
           "its memory is at most 32 MB above that at its start: what a thousand sessions of a flood leave")
        ok(used[i] <= CPU_S * lab.SCALE, "an agent without requests uses little CPU")


def test_lasting_agent():
    """What leaks in the whole run shows here."""
    equal(world.lasting.process, world.lasting_process, "the lasting agent is the process that began")
    fds, memory, _ = quiet_figures(world.lasting, warm[0])
    start = before[LASTING]
    note("at the start, after a warm-up of %g s, and at the end: %d, %d and %d descriptors, %.2f, %.2f and "
         "%.2f MB" % (WARM_UP_S, start[0], warm[0], fds, start[1] / 1e6, warm[1] / 1e6, memory / 1e6))
    ok(fds <= warm[0], "it has no more descriptors than after its warm-up")
    ok(memory <= warm[1] + MAX_GROWTH_BYTES,
       "its memory has grown by at most %g MB" % (MAX_GROWTH_BYTES / 1e6))


main(set_up, test_load, test_record, test_names_are_free, test_releases, test_leftovers, test_lasting_agent)
