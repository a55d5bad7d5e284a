"""A node of three that misbehaves in every kind of answer. That costs this node its vote, and nothing else:
leases are granted, extended and released by the others, and the agent's memory stays bounded. One agent for
each kind of misbehaviour, all at once."""

import glob
import hashlib
import os
import threading

import lab
from tap import equal, main, ok

MEMORY_KIB = 16 * 1024 * (16 if lab.SCALE > 1 else 1)  # a sanitizer keeps what was freed
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "scripts", "*.lua")
SUBSCRIPTION = ("subscribe", "message")
CHUNK = b"x" * 65528
ENDLESS_BYTES = 64 << 20


def known_scripts():
    """By text and by hash: the script's name."""
    names = {}
    for script_path in glob.glob(SCRIPTS):
        with open(script_path, "rb") as file:
            text = file.read()
        name = os.path.splitext(os.path.basename(script_path))[0]
        names[text] = names[hashlib.sha1(text).hexdigest().encode()] = name
    return names


class Hostile(lab.Proxy):
    """Forwards to a real node, until an answer of the given kind is due: sends something else instead. Then
    it answers nothing more before heal(), so that the agent's reason stays; but messages are no votes."""

    scripts = known_scripts()

    def __init__(self, name, node):
        self.armed = None  # the kind of answer that is replaced, and the function that sends the other one
        self.sprung = threading.Event()
        self.closed = threading.Event()  # the agent has closed the connection
        self.healed = threading.Event()
        self.free = threading.Event()
        self.free.set()
        super().__init__(node)
        self.name = name

    def arm(self, kind, misbehave):
        self.sprung.clear()
        self.closed.clear()
        self.healed.clear()
        self.armed = (kind, misbehave)

    def heal(self):
        self.armed = None
        self.healed.set()
        self.free.set()

    def _forward(self, source, sink, swallowed):
        if swallowed == "deaf":
            try:
                self._serve(source.makefile("rb"), source, sink, sink.makefile("rb"))
            except (OSError, ValueError):
                pass
            lab.hang_up(source, sink)

    def _serve(self, requests, client, server, answers):
        """A subscription gets messages at any time, other connections one answer a request."""
        subscribed = False
        while request := read_value(requests):
            kind = self._kind(items_of(request))
            self.free.wait()
            if subscribed:
                server.sendall(request)
                continue
            if self.armed and self.armed[0] == kind:
                self._misbehave(client, server, request, answers)
                return
            server.sendall(request)
            subscribed = kind == "subscribe"
            if subscribed:
                threading.Thread(target=self._pump, args=(answers, client, server), daemon=True).start()
            else:
                client.sendall(read_value(answers))

    def _pump(self, answers, client, server):
        try:
            while message := read_value(answers):
                if self.armed and self.armed[0] == "message" and b"redlockd:free:" in message:
                    self._misbehave(client, server, b"", None)
                    break
                client.sendall(message)
        except (OSError, ValueError):
            pass
        lab.hang_up(client, server)

    def _kind(self, items):
        word = items[0].upper()
        return self.scripts.get(items[1], "") if word in (b"EVAL", b"EVALSHA") else word.decode().lower()

    def _misbehave(self, client, server, request, answers):
        misbehave = self.armed[1]
        if self.armed[0] not in SUBSCRIPTION:
            self.free.clear()
        self.armed = None
        self.sprung.set()
        server.sendall(request)
        try:
            misbehave(self, client, read_value(answers) if answers else b"")
            while client.recv(65536):
                pass
        except OSError:
            pass
        self.closed.set()


def read_value(file):
    """One value of RESP2 as it is on the wire; empty at the end."""
    line = file.readline()
    if line[:1] == b"$" and line[1:2] != b"-":
        return line + file.read(int(line[1:]) + 2)
    if line[:1] == b"*" and line[1:2] != b"-":
        return line + b"".join(read_value(file) for _ in range(int(line[1:])))
    return line


def items_of(request):
    """The bulk strings of a request."""
    items, at = [], request.index(b"\r\n") + 2
    while at < len(request):
        end = request.index(b"\r\n", at)
        length = int(request[at + 1:end])
        items.append(request[end + 2:end + 2 + length])
        at = end + 2 + length + 2
    return items


def sends(data, rest=b""):
    def misbehave(hostile, client, answer):
        client.sendall(data)
        for _ in range(ENDLESS_BYTES // len(rest) if rest else 0):
            client.sendall(rest)
    return misbehave


def adds(data):
    def misbehave(hostile, client, answer):
        client.sendall(answer + data)
    return misbehave


def drips(hostile, client, answer):
    client.sendall(b"$1000\r\n")
    while not hostile.healed.wait(0.05):
        client.sendall(b"x")
    lab.hang_up(client)


# What the node sends, and the reasons that NODES shows.
SILENCE = ("has not answered", "does not answer", "stopped answering", "being examined")
WRONG_TYPE = ("sent an answer of a wrong type", "is no Redis server")
MISBEHAVIOURS = {
    "a string of 4 GB": (sends(b"$4000000000\r\n", CHUNK), ("more than 1048576 bytes",)),
    "an endless array of long strings": (sends(b"*1000\r\n", b"$%d\r\n%s\r\n" % (len(CHUNK), CHUNK)),
                                         ("more than 1048576 bytes",)),
    "an array of a million elements": (sends(b"*1000000\r\n"), ("more than 1024 elements",)),
    "many arrays in one": (sends(b"*3\r\n" + (b"*600\r\n" + b":1\r\n" * 600) * 3),
                           ("more than 1024 elements",)),
    "a thousand nested arrays": (sends(b"*1\r\n" * 1000), ("nested more than 5 deep",)),
    "a number": (sends(b":7\r\n"), WRONG_TYPE),
    "a status": (sends(b"+OK\r\n"), WRONG_TYPE),
    "nothing": (sends(b"$-1\r\n"), WRONG_TYPE),
    "an array of nothing": (sends(b"*2\r\n$-1\r\n*-1\r\n"), WRONG_TYPE),
    "another protocol": (sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ("Protocol error",)),
    "two answers": (adds(b":1\r\n"), ("answered without a request", *WRONG_TYPE)),
    "a byte now and then": (drips, SILENCE),
}
CALLS = ("acquire", "extend", "release", "query", "info", "probe")


class Beside:
    """An agent beside the misbehaving node, and a lease that must survive."""

    def __init__(self, good, node, database):
        self.nodes = [*good, node]
        self.database = database
        self.hostile = Hostile("hostile", node)
        self.agent = lab.Agent(good + [self.hostile], node_config="db = %d" % database, keepers=1,
                               config=lab.UNHURRIED)
        self.agent.wait_voting(3)
        self.client = self.agent.client(3)
        self.kept = self.client.acquire("kept", "TTL", 6000)
        self.serial = 0

    def pair(self):
        """Acquires and releases another name."""
        self.serial += 1
        client = self.agent.client(3)
        grant = client.acquire("name %d" % self.serial, "TTL", 10000)
        released = isinstance(grant, dict) and client.call("RELEASE", grant["id"])
        client.close()
        return released == 1

    def cause(self, call):
        """Makes the agent do this call."""
        if call in ("acquire", "release"):
            return self.pair()
        if call == "query":
            return isinstance(self.client.call("LEADER", "kept"), dict)
        if call in ("info", "probe"):
            self.hostile.cut()
        return True

    def at_nodes(self, *items):
        for node in self.nodes:
            client = lab.Client(node.socket_path)
            client.call("SELECT", self.database)
            client.call(*items)
            client.close()

    def survives(self):
        return self.client.call("CHECK", self.kept["id"]) > 0 and \
            not any(push[0] == "lost" for push in self.client.pushes)


def shown(agent, reasons):
    node = agent.node_states()["hostile"]
    return node if node["state"] != "voting" and any(text in node["reason"] for text in reasons) else None


def one_call(beside, call, what, misbehave, reasons):
    beside.hostile.arm(call, misbehave)
    served = beside.cause(call)
    equal(beside.hostile.sprung.wait(10 * lab.SCALE), True, "%s instead of the answer to %s" % (what, call))
    lab.wait_for(lambda: shown(beside.agent, reasons), what="a reason like " + reasons[0])
    served = served and beside.pair()
    if reasons is not SILENCE:
        served = beside.hostile.closed.wait(10 * lab.SCALE) and served
    ok(served and beside.survives(), "the node does not vote, and NODES says why; the others do")
    beside.hostile.heal()
    beside.agent.wait_voting(3)


def subscriptions(beside, what, misbehave):
    name = "foreign %d" % beside.database
    channel = "redlockd:free:" + name
    beside.at_nodes("SET", name, "a foreign value", "PX", 60000)
    beside.hostile.arm("subscribe", misbehave)
    waiter = beside.agent.client(3)
    waiter.send("ACQUIRE", name, "WAIT", 60000)
    equal(beside.hostile.closed.wait(20 * lab.SCALE), True, "%s instead of a subscription: closed" % what)
    node = beside.nodes[-1]
    lab.wait_for(lambda: node.call("PUBSUB", "NUMSUB", channel)[1] == 1, what="the next subscription")
    beside.hostile.arm("message", misbehave)
    node.call("PUBLISH", channel, "")
    if misbehave is drips and beside.hostile.sprung.wait(10 * lab.SCALE):
        beside.hostile.heal()  # the agent closes it after a ping without an answer, in five to ten seconds
    equal(beside.hostile.closed.wait(20 * lab.SCALE), True, "%s instead of a message: closed" % what)
    beside.at_nodes("DEL", name)
    ok("id" in lab.as_map(waiter.reply()) and beside.survives(), "the others, or polling, wake the waiter")
    equal(beside.agent.node_states()["hostile"]["state"], "voting", "the node votes on its other connection")


def guarded(good, node, database, what):
    try:
        each_call(good, node, database, what)
    except Exception as error:
        ok(False, "%s: %s" % (what, error))


def each_call(good, node, database, what):
    misbehave, reasons = MISBEHAVIOURS[what]
    beside = Beside(good, node, database)
    before = peak_kib(beside.agent.process)
    for call in CALLS:
        one_call(beside, call, what, misbehave, reasons)
    subscriptions(beside, what, misbehave)
    ok(peak_kib(beside.agent.process) - before < MEMORY_KIB, "%s: the agent keeps little of it" % what)
    equal(beside.agent.terminate(), 0, "it ends in order")


def peak_kib(process):
    with open("/proc/%d/status" % process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


def test_error_texts():
    """Clients get the text of a server's error, and some show it on a terminal."""
    fakes = [lab.FakeNode(name, error="-ERR a\x1b[31m b\x07 c\x7f d\u00e9\u009b") for name in "bc"]
    agent = lab.Agent(lab.nodes(1) + fakes, keepers=1)
    agent.wait_voting(3)
    client = agent.client()
    for words in ("ACQUIRE", "name"), ("LEADER", "name"), ("HISTORY", "name"):
        text = str(client.call(*words))
        ok("ERR a?[31m b? c? d\u00e9?" in text, "%s: without control characters: %s" % (
            words[0], text[:200]))
    agent.kill()
    refusing = lab.FakeNode("refusing")
    reply = refusing._reply
    refusing._reply = lambda word, items: b"-ERR e\x1b[2J\r\n" if word == b"SELECT" else reply(word, items)
    agent = lab.Agent(lab.nodes(2) + [refusing], keepers=1, node_config="db = 1")
    agent.wait_node("refusing", reason="ERR e?[2J")
    ok(True, "nor is that of a refused greeting")
    agent.kill()


def test_all():
    *good, node = lab.nodes(3)
    threads = [threading.Thread(target=guarded, args=(good, node, database, what))
               for database, what in enumerate(MISBEHAVIOURS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main(test_error_texts, test_all)
