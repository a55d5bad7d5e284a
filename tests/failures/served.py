"""Scenarios of a running agent. One agent serves all faults of a scenario: each must leave it in order."""

import os
import select
import socket
import time

import calls
import lab
from descriptor_store import KeptAgent

CONFIG = 'default_ttl = "2s"\nnode_timeout = "300ms"\nmax_sessions = 40\n'
BOUND_S = 6  # of an answer: far above protocol.md's, as more than one call may fail
WORDS = ("NOQUORUM", "TIMEOUT", "QUOTA", "ERR")  # the names of all scenarios are free, or waited for
LASTING_S = 1  # of a fault that lasts, where the scenario would wait for longer
SUBSCRIPTIONS_S = 8  # of connections that are being closed, and of subscriptions without a waiter
NEIGHBOUR_DATA = "neighbour's data"


class Refused(Exception):
    """The agent said no in order: the scenario ends here."""


class Wrong(Exception):
    """The agent did what it must never do."""


def require(good, what):
    if not good:
        raise Wrong(what)


class Session(lab.Client):
    """RESP3. Each error is a refusal, each end of the connection too."""

    def __init__(self, served, protocol=3):
        self.served = served
        self.received = b""  # in all
        served.sessions.append(self)
        super().__init__(served.agent.socket_path, timeout=BOUND_S)
        if protocol == 3:
            self.call("HELLO", 3)

    def _fill(self, until):
        while lab.now() < until and not select.select([self.socket], [], [], 0.1)[0]:
            self.served.must_run()  # with a store, a session stays open when its agent ends
        known = len(self.buffer)
        super()._fill(until)
        self.received += self.buffer[known:]

    def _value(self, until):
        value = super()._value(until)
        if isinstance(value, lab.ReplyError):
            require(str(value).split(" ")[0] in WORDS, "an unknown error: %s" % value)
            raise Refused(str(value))
        return value

    def acquire(self, name, *options):
        return self.served.granted(name, self.call("ACQUIRE", name, *options))

    def asynchronous(self, name, *options):
        """The id of a request whose outcome is a push."""
        word, number = self.call("ACQUIRE", name, *options, "ASYNC")
        require(word == "waiting", "a reply to ASYNC: %s" % word)
        return number

    def must_wait(self, number):
        """An asynchronous request is not granted as long as another has the lease."""
        self.call("PING")
        require(not any(push[0] == "granted" and push[1] == number for push in self.pushes),
                "a lease that another has")

    def outcome(self, name, number):
        """The grant of an asynchronous request."""
        while True:
            push = self.pushes.pop(0) if self.pushes else self.read()
            if push[0] in ("granted", "failed") and push[1] == number:
                if push[0] == "failed":
                    raise Refused(push[2])
                return self.served.granted(name, push[2])

    def check(self, grant):
        left = self.call("CHECK", grant["id"])
        lost = any(push[0] == "lost" for push in self.pushes)
        require(left > 0 or lost or lab.now() > grant["deadline"] / 1e9,
                "a lease that is over before its deadline, without a word")
        return left

    def release(self, grant):
        got = self.call("RELEASE", grant["id"])
        lost = [push for push in self.pushes if push[0] == "lost" and push[1] == grant["id"]]
        require(got == 1 or lost, "a lease that has gone without a word")


class Served:
    """An agent with the shim, beside agents without."""

    old_kernel = False

    def __init__(self, nodes):
        self.nodes = nodes
        self.orders = calls.Orders("redlockd", self.old_kernel)
        self.agent = self.new_agent()
        self.other = lab.Agent(nodes, CONFIG, keepers=1)
        self.sessions = []
        self.fences = {}
        self.descriptors = 0  # of an agent with the neighbour's session alone
        self.serial = 0
        self.start()

    def new_agent(self):
        return lab.Agent(self.nodes, CONFIG, keepers=1, start=False, prefix=self.orders.prefix)

    def start(self):
        self.agent.start()
        self.agent.wait_voting(len(self.nodes))
        self.start_neighbour()

    def start_neighbour(self):
        self.neighbour = lab.Client(self.agent.socket_path, 3, timeout=BOUND_S)
        self.serial += 1
        name = "%s-neighbour-%d-%d" % (type(self).__name__, os.getpid(), self.serial)
        self.secret = self.neighbour.acquire(name, "RESUMABLE", "TTL", 6000, "WAIT", 5000,
                                             "DATA", NEIGHBOUR_DATA)
        require(isinstance(self.secret, dict), "the neighbour's lease: %s" % self.secret)
        self.descriptors, self.before = self.count_descriptors(), self.descriptor_targets()

    def end(self):
        self.agent.kill()
        self.other.kill()

    def renew(self):
        """A fresh agent, which has allocated nothing for its clients yet."""
        self.agent.kill()
        self.sessions = []
        for node in self.nodes:
            for key in node.call("KEYS", self.name("*")):
                node.call("DEL", key)
        self.start()

    def learn(self, scenario):
        """How often each function is called: by a fresh agent, and by one that has served the same."""
        counts = []
        self.renew()
        for _ in range(3):
            before = self.orders.counts()
            require(self.run(scenario[0]), "a scenario without a fault")
            counts.append({name: count - before.get(name, 0) for name, count in self.orders.counts().items()
                           if count > before.get(name, 0)})
            self.verify(scenario[1])
        self.tidy()
        return counts[0], counts[2], calls.FIRST

    def session(self, protocol=3):
        return Session(self, protocol)

    def name(self, text):
        """A name of this worker's."""
        return "%s-%d" % (text, os.getpid())

    def holders(self, name):
        """How many nodes have the value that most of them have."""
        values = [node.call("GET", name) for node in self.nodes]
        return max(values.count(value) for value in values if value) if any(values) else 0

    def granted(self, name, grant):
        require(isinstance(grant, dict) and grant["name"] == name, "a grant of another lease: %s" % (grant,))
        require(grant["fence"] > self.fences.get(name, 0), "a fencing token that does not grow")
        self.fences[name] = grant["fence"]
        number = self.holders(name)
        require(number > len(self.nodes) // 2 or lab.now() > grant["deadline"] / 1e9 or
                self.orders.is_disconnect(),  # for the agent, the client has gone
                "a lease on %d nodes" % number)
        return grant

    def run(self, scenario):
        """True if it came to its end, False if it was refused."""
        try:
            scenario(self)
            return True
        except (Refused, ConnectionError, BrokenPipeError):
            return False
        finally:
            received = b"".join(session.received for session in self.sessions)
            for session in self.sessions:
                session.close()
            self.sessions = []
            require(str(self.secret["secret"]).encode() not in received, "a secret of another")
            require(NEIGHBOUR_DATA.encode() not in received or scenario in SHOW_ALL, "data of another")

    def count_descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.agent.process.pid))

    def descriptor_targets(self):
        """What they are, each with its number."""
        directory = "/proc/%d/fd" % self.agent.process.pid
        kinds = [os.readlink(os.path.join(directory, fd)).split(":")[0] for fd in os.listdir(directory)]
        return ", ".join("%d %s" % (kinds.count(kind), kind) for kind in sorted(set(kinds)))

    def verify(self, names):
        """What must hold after a fault."""
        lab.wait_for(self.all_vote, BOUND_S, "the nodes")
        session = self.session()
        for name in names:
            session.release(session.acquire(self.name(name), "WAIT", 4000))
        session.close()
        self.sessions = []
        require(self.neighbour.call("CHECK", self.secret["id"]) > 0,
                "the neighbour's lease is lost: %s" % self.neighbour.pushes)
        others = [push for push in self.neighbour.pushes if push[1] != self.secret["id"]]
        require(not others, "a push that is another's: %s" % others)
        self.neighbour.pushes.clear()
        self.settle(self.descriptors + len(self.nodes))  # a subscription at each node

    def tidy(self):
        """What must hold after all faults, or before the agent ends."""
        self.settle(self.descriptors)

    def must_run(self):
        if self.agent.process.poll() is not None:
            raise Wrong("the agent ended with %d: %s" % (
                self.agent.process.returncode, self.agent.log_text().splitlines()[-1:]))

    def all_vote(self):
        self.must_run()
        try:
            return self.agent.status()["voting"] == len(self.nodes)
        except (ConnectionError, TypeError):
            return False  # sessions that are ending, or a listener that pauses
        except TimeoutError:
            self.must_run()  # with a store, a socket stays open when its agent ends
            raise

    def settle(self, descriptors_max):
        until = lab.now() + SUBSCRIPTIONS_S * lab.SCALE
        while self.count_descriptors() > descriptors_max and lab.now() < until:
            time.sleep(0.02)
        count = self.count_descriptors()
        if count > descriptors_max:
            raise Wrong("descriptors: %d instead of %d: %s; before: %s" % (
                count, descriptors_max, self.descriptor_targets(), self.before))


class Kept(Served):
    """An agent with --store, as its unit starts it."""

    def new_agent(self):
        return KeptAgent(self.nodes, CONFIG, keepers=1, prefix=self.orders.prefix)

    def start(self):
        if self.agent.process.poll() is not None:
            self.agent.forget()
            super().start()
        else:
            self.agent.wait_voting(len(self.nodes))
            self.start_neighbour()
        self.agent.wait_stored(self.neighbour)
        self.stored = len(self.agent.sessions())
        self.descriptors = self.count_descriptors()

    def verify(self, names):
        super().verify(names)
        lab.wait_for(lambda: len(self.agent.sessions()) <= self.stored, SUBSCRIPTIONS_S,
                     "the end of stored sessions")

    def tidy(self):
        """The next process continues the neighbour's session."""
        super().tidy()
        self.agent.wait_stored(self.neighbour)
        self.agent.replace()
        self.descriptors = self.count_descriptors()
        require(self.neighbour.call("CHECK", self.secret["id"]) > 0, "the lease of a stored session is lost")


class OldKernel(Served):
    """Without SO_PEERPIDFD (Linux 6.5)."""

    old_kernel = True


# --- the scenarios: each with the names that must be free afterwards ---


def acquire_release(served):
    session = served.session()
    grant = session.acquire(served.name("a"))
    session.check(grant)
    session.release(grant)


def acquire_extend_release(served):
    session = served.session()
    grant = session.acquire(served.name("a"), "TTL", 400, "WAIT", 3000)
    time.sleep(0.02)
    until = lab.now() + 1
    while session.check(grant) < 379 and lab.now() < until:
        time.sleep(0.02)
    session.release(grant)


def wait_and_hand_over(served):
    first, second = served.session(), served.session()
    grant = first.acquire(served.name("a"))
    number = second.asynchronous(served.name("a"), "WAIT", 3000)
    second.must_wait(number)
    first.release(grant)
    second.release(second.outcome(served.name("a"), number))


def wait_for_another_agent(served):
    name = served.name("a")
    with_lease = lab.Client(served.other.socket_path, 3, timeout=BOUND_S)
    grant = with_lease.acquire(name, "WAIT", 4000)
    require(isinstance(grant, dict), "the other agent's lease: %s" % grant)
    served.fences[name] = max(grant["fence"], served.fences.get(name, 0))
    try:
        session = served.session()
        number = session.asynchronous(name, "WAIT", 4000)
        time.sleep(0.01)
        session.must_wait(number)
    finally:
        with_lease.call("RELEASE", grant["id"])
        with_lease.close()
    session.release(session.outcome(name, number))


def disconnect_with_lease(served):
    session = served.session()
    session.acquire(served.name("a"))
    session.acquire(served.name("b"))
    session.close()


def disconnect_while_waiting(served):
    first, second = served.session(), served.session()
    first.acquire(served.name("a"))
    second.asynchronous(served.name("a"), "WAIT", -1)
    second.close()
    first.close()


def linger(served):
    session = served.session()
    session.acquire(served.name("a"), "TTL", 200, "LINGER", 100, "WAIT", 3000)
    session.close()


def observe(served):
    watcher, session = served.session(), served.session()
    require(watcher.call("OBSERVE", served.name("a")) == 1, "a new observation")
    watcher.push("leader")
    grant = session.acquire(served.name("a"), "DATA", "observed")
    while watcher.push("leader")[2]["state"] != "held":
        pass
    leader = session.call("LEADER", served.name("a"))
    require(leader and leader["data"] == "observed", "the leader of a held lease: %s" % leader)
    session.release(grant)
    watcher.call("UNOBSERVE", served.name("a"))


def listings(served):
    session = served.session()
    grant = session.acquire(served.name("a"))
    require(served.name("a") in str(session.call("LEASES")), "the lease in the list")
    require(len(session.call("NODES")) == len(served.nodes), "all nodes in the list")
    require(session.call("STATUS")["leases"] >= 2, "the number of leases")
    session.call("COMMAND")
    session.release(grant)


def numbers(served):
    """What the agent knows about a name and about itself, in long answers."""
    session = served.session()
    grant = session.acquire(served.name("a"))
    require("granted" in str(session.call("HISTORY", served.name("a"))), "the event of the grant")
    require(session.call("METRICS").endswith("# EOF\n"), "all of the text")
    session.call("WHOAMI", served.name("a"))
    session.release(grant)


def page(served):
    session = served.session()
    session.send("PAGE")
    bytes_, fds, _, _ = socket.recv_fds(session.socket, 4096, 4)
    try:
        session.buffer += bytes_
        session.received += bytes_
        session.reply()
        grant = session.acquire(served.name("a"))
        require(grant["slot"] >= 0, "a slot of the page")
        session.release(grant)
    finally:
        for fd in fds:
            os.close(fd)


def many_at_once(served):
    session = served.session()
    names = [served.name("many-%d" % i) for i in range(40)]
    for name in names:
        session.send("ACQUIRE", name)
    grants = [served.granted(name, session.reply()) for name in names]
    for grant in grants:
        session.send("RELEASE", grant["id"])
    for grant in grants:
        require(session.reply() == 1, "a release of one of many")


def in_pieces(served):
    session = served.session()
    data = os.urandom(500).hex().encode()
    request = b"*4\r\n$7\r\nACQUIRE\r\n$%d\r\n%s\r\n$4\r\nDATA\r\n$%d\r\n%s\r\n" % (
        len(served.name("a")), served.name("a").encode(), len(data), data)
    for start in range(0, len(request), 300):
        session.send_raw(request[start:start + 300])
        time.sleep(0.001)
    grant = served.granted(served.name("a"), session.reply())
    require(session.call("LEADER", served.name("a"))["data"].encode() == data, "the data as it was sent")
    session.release(grant)


def slow_reader(served):
    session = served.session()
    grant = session.acquire(served.name("a"))
    session.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    echo = b"x" * 4000
    try:
        session.socket.settimeout(0.05)
        for _ in range(100):
            session.send("ECHO", echo)
    except TimeoutError:
        session.buffer = b""
        session.socket.settimeout(BOUND_S)
        return  # the agent reads no more while its client does not
    session.socket.settimeout(BOUND_S)
    for _ in range(100):
        require(session.reply() == echo.decode(), "the bytes as they were sent")
    session.release(grant)


def too_many_sessions(served):
    with_session = [served.session(protocol=2) for _ in range(45)]
    refused = 0
    for session in with_session:
        try:
            session.send("PING")
        except ConnectionError:
            pass  # refused, and closed since: reply() says that
    for session in with_session:
        try:
            require(session.reply() == "PONG", "an answer to PING")
        except (Refused, ConnectionError):
            refused += 1
    require(refused >= 5, "the limit of sessions")


def malformed(served):
    session = served.session()
    session.acquire(served.name("a"), "TTL", 200, "WAIT", 3000)
    session.send_raw(b"*1\r\n!garbage\r\n")
    try:
        while True:
            session.reply()
    except Refused:
        session.close()


def reload(served):
    before = served.agent.log_text().count("reload:")
    served.agent.signal(lab.signal.SIGHUP)
    try:
        lab.wait_for(lambda: served.agent.log_text().count("reload:") > before or
                     served.agent.process.poll() is not None, BOUND_S, "the reload")
    except TimeoutError:
        require(served.orders.given == "write", "a line of the log about the reload")
    acquire_release(served)


def bless(served):
    session = served.session()
    for node in served.nodes:
        require(session.call("BLESS", node.name) == "OK", "a blessed node")
    acquire_release(served)


def node_cut(served):
    """All its connections, while a lease is held. A fault that lasts, lasts for a second: connections that
    break meanwhile do not return, and the neighbour's lease must outlive this."""
    begun, session = lab.now(), served.session()
    grant = session.acquire(served.name("a"))
    served.nodes[0].call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    session.check(grant)
    session.release(grant)
    session = served.session()
    until = lab.now() + BOUND_S
    while session.call("STATUS")["voting"] < len(served.nodes) and lab.now() < until:
        if served.orders.lasting and lab.now() > begun + LASTING_S:
            served.orders.relent()
        time.sleep(0.02)


def foreign_key(served):
    served.nodes[0].call("SET", served.name("a"), "another program's", "PX", 60)
    served.nodes[1].call("SET", served.name("a"), "another program's", "PX", 60)
    session = served.session()
    session.release(session.acquire(served.name("a"), "WAIT", 3000))


def cooldown(served):
    session = served.session()
    grant = session.acquire(served.name("cool"), "WAIT", 3000, "TTL", 100, "COOLDOWN", 150)
    session.release(grant)


def resume(served):
    """A secret of another agent that was killed: the lease is known by its nodes alone."""
    name = served.name("a")
    holder = lab.Client(served.other.socket_path, 3, timeout=BOUND_S)
    grant = holder.acquire(name, "RESUMABLE", "WAIT", 4000)
    require(isinstance(grant, dict), "the other agent's lease: %s" % grant)
    served.fences[name] = grant["fence"]
    session = served.session()
    resumed = session.call("RESUME", name, grant["secret"])
    require(resumed["fence"] == grant["fence"], "the token of a resumed lease")
    session.release(resumed)
    holder.close()


A = ["a"]
SCENARIOS = {
    "acquire and release": (acquire_release, A),
    "acquire, extend, release": (acquire_extend_release, A),
    "wait and hand over": (wait_and_hand_over, A),
    "wait for another agent's release": (wait_for_another_agent, A),
    "disconnect with leases": (disconnect_with_lease, ["a", "b"]),
    "disconnect while waiting": (disconnect_while_waiting, A),
    "linger": (linger, A),
    "observe": (observe, A),
    "listings": (listings, A),
    "history, metrics, whoami": (numbers, A),
    "deadline page": (page, A),
    "40 requests at once": (many_at_once, ["many-%d" % i for i in range(40)]),
    "a request in pieces": (in_pieces, A),
    "a slow reader": (slow_reader, A),
    "too many sessions": (too_many_sessions, A),
    "a malformed request": (malformed, A),
    "reload": (reload, A),
    "bless": (bless, A),
    "a node's connections are cut": (node_cut, A),
    "another program's keys": (foreign_key, A),
    "cooldown": (cooldown, ["cool"]),
    "resume": (resume, A),
}
SHOW_ALL = {listings}  # to root, whom these sessions belong to
KEPT = {name + ", with --store": scenario for name, scenario in SCENARIOS.items()}
OLD_KERNEL = {name + ", without SO_PEERPIDFD": SCENARIOS[name] for name in (
    "acquire and release", "disconnect with leases", "history, metrics, whoami")}
