"""Real redis-servers and agents, libredlock and raw clients, in a directory of their own. Everything ends
with the test."""

import atexit
import concurrent.futures
import ctypes
import hashlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import leftovers  # noqa: E402
from raw_client import Client, Push, ReplyError, as_map, now  # noqa: E402, F401
from tap import SCALE, on_failure  # noqa: E402

BUILD = os.environ.get("REDLOCK_BUILD", os.path.join(os.path.dirname(__file__), "..", "..",
                                                       "build-gcc-none"))
REDLOCKD = os.path.join(BUILD, "agent", "redlockd")
REDLOCK = os.path.join(BUILD, "client-lib", "redlock")
SERVER = os.environ.get("REDLOCK_TEST_SERVER", "redis-server")  # or "valkey-server"
PR_SET_PDEATHSIG = 1
SO_TIMESTAMPNS = 35  # socket(7)

directory = tempfile.mkdtemp(prefix="redlock-test-")
leftovers.watch(directory)
_libc = ctypes.CDLL(None)
_ends = []
_serial = 0


@atexit.register
def _end():
    for end in reversed(_ends):
        end()
    shutil.rmtree(directory, ignore_errors=True)


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def path(name):
    """A path that was never used before."""
    global _serial
    _serial += 1
    return os.path.join(directory, "%d-%s" % (_serial, name))


def pause_after(passed, longest=0.02):
    """Between two looks at a condition, in most tests a request to the agent: the longer the wait so far,
    the longer the pause."""
    return min(max(0.002, passed / 100), longest)


def wait_for(condition, seconds=10, what="a condition", longest_pause=0.02):
    """Polls until the condition holds; returns its value."""
    begun = now()
    until = begun + seconds * SCALE
    while True:
        value = condition()
        if value:
            return value
        if now() > until:
            raise TimeoutError("%s: not within %g s" % (what, seconds * SCALE))
        time.sleep(pause_after(now() - begun, longest_pause))


def when(condition, since, seconds=20, what="a condition"):
    """Waits until the condition holds, which it did not at the instant `since`. Returns when it was last
    seen not to hold, and first seen to: that began in between, however late this process looks."""
    before = since

    def holds():
        nonlocal before
        at = now()
        if condition():
            return True
        before = at
        return False
    wait_for(holds, seconds, what, longest_pause=0.002)
    return before, now()


def spawn(arguments, **options):
    process = subprocess.Popen(arguments, preexec_fn=die_with_parent, **options)
    _ends.append(lambda: end_process(process))
    return process


def end_process(process):
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()


def state(stat_path):
    """The letter of proc(5)."""
    with open(stat_path) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def wait_stopped(process):
    """Until none of its threads runs: the kernel stops them after SIGSTOP has been sent."""
    tasks = "/proc/%d/task" % process.pid

    def stopped():
        try:
            return all(state("%s/%s/stat" % (tasks, task)) in "TZ" for task in os.listdir(tasks))
        except OSError:  # a thread that ends meanwhile, or the process has ended
            return process.poll() is not None

    wait_for(stopped, what="the stop of a process")


def alive(pid):
    """Whether a process lives, which may be another's child; a zombie does not."""
    try:
        return state("/proc/%d/stat" % pid) != "Z"
    except OSError:
        return False


def listener(socket_path):
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(socket_path)
    listening.listen(64)
    return listening


def hang_up(*connections):
    """Shuts down both directions, also while another thread reads."""
    for connection in connections:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Node:
    """A redis-server on a Unix socket."""

    def __init__(self, name, *options, prefix=(), environment=None):
        self.name = name
        self.socket_path = path(name + ".sock")
        self.options = options
        self.prefix = prefix
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None
        self.start()

    def start(self):
        self.process = spawn(
            [*self.prefix, SERVER, "--port", "0", "--unixsocket", self.socket_path, "--save", "",
             "--appendonly", "no", "--dir", directory, "--dbfilename",
             os.path.basename(self.socket_path) + ".rdb",
             "--logfile", self.socket_path + ".log", *self.options], env=self.environment)
        wait_for(self._answers, what="node " + self.name)

    def _answers(self):
        try:
            return self.call("PING") == "PONG"
        except (OSError, TimeoutError):
            return False

    def call(self, *items):
        client = Client(self.socket_path)
        try:
            return client.call(*items)
        finally:
            client.close()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_stopped(self.process)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        end_process(self.process)

    @property
    def address(self):
        return "unix:" + self.socket_path


def free_port():
    """None of those that the kernel chooses: one of them may become another socket's until it is used, also
    that of a connection to the port itself."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class TcpNode(Node):
    """The agent uses the port; the Unix socket is the test's."""

    def __init__(self, name, *options, port_option="--port"):
        self.port = free_port()
        super().__init__(name, "--bind", "127.0.0.1", port_option, str(self.port), *options)

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port


def nodes(count, *options, kind=Node):
    return [kind(chr(ord("a") + i), *options) for i in range(count)]


class Manager:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, abstract=False):
        self.address = "@" + path("manager") if abstract else path("manager.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address.replace("@", "\0", 1))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.environment = dict(os.environ, NOTIFY_SOCKET=self.address)
        self.seen = []
        self.sent = None  # when the last message was sent, however late it is read

    def next(self, seconds=20):
        """The next message as its lines."""
        self.socket.settimeout(seconds * SCALE)
        message, ancillary, _, _ = self.socket.recvmsg(4096, 256)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                s, ns = struct.unpack("@ll", data)
                self.sent = now() - (time.time() - s - ns / 1e9)
        self.seen.append(message.decode().split("\n"))
        return self.seen[-1]

    def until(self, text):
        """The next message that contains the text; earlier ones are kept in `seen`."""
        while True:
            message = self.next()
            if any(text in line for line in message):
                return message

    def close(self):
        self.socket.close()


# For agents of tests without silent nodes: a pause of the machine of up to a second is no silence. The
# default is ttl/20, at most 100 ms; the option must be less than half of default_ttl.
UNHURRIED = 'node_timeout = "4s"\n'


class Agent:
    """A redlockd over these nodes (anything with a name and an address)."""

    def __init__(self, nodes, config="", keepers=None, start=True, node_config="", prefix=()):
        self.socket_path = path("agent.sock")
        self.config_path = path("redlockd.conf")
        self.nodes = nodes
        self.log_path = path("agent.log")
        self.keepers = keepers or int(os.environ.get("REDLOCK_TEST_KEEPERS", "2"))
        self.node_config = node_config
        self.prefix = prefix
        self.write_config(config)
        on_failure(lambda: self.log_text() if os.path.exists(self.log_path) else "")
        if start:
            self.start()

    def write_config(self, config):
        with open(self.config_path, "w") as file:
            for node in self.nodes:
                file.write('node "%s" { address = "%s" %s }\n' % (node.name, node.address, self.node_config))
            if "quarantine" not in config:
                file.write("quarantine = no\n")  # fresh nodes vote at once; but see test_trust.py
            if "socket {" not in config:
                file.write('socket { path = "%s"  mode = "0666" }\n' % self.socket_path)
            file.write("keepers = %d\n%s\n" % (self.keepers, config))

    def start(self, *options, manager=None):
        """Waits until the agent serves; READY follows with a quorum. Passes messages on to a given
        manager."""
        watched = manager or Manager()
        self.log = open(self.log_path, "a")
        self.process = spawn([*self.prefix, REDLOCKD, "--config", self.config_path, *options],
                             stderr=self.log,
                             env=watched.environment)
        until = now() + 20 * SCALE
        while True:
            try:
                if any("STATUS=" in line for line in watched.next(0.1)):
                    break
            except socket.timeout:
                pass
            if self.process.poll() is not None or now() > until:
                raise RuntimeError("the agent did not start: " + self.log_text())
        if not manager:
            watched.close()
            self._let_nodes_vote()

    def _let_nodes_vote(self):
        """The agent serves before it has reached its nodes: most tests begin when all nodes that can
        vote do. A node that has had no trouble yet will vote soon; others get a second."""
        begun = now()
        try:
            while self.status()["voting"] < len(self.nodes):
                passed = now() - begun
                if passed > 10 * SCALE or (passed > SCALE and not self._awaits_nodes()):
                    break
                time.sleep(pause_after(passed))
        except (OSError, TimeoutError, TypeError):
            pass  # a test of its own

    def _awaits_nodes(self):
        return any(node["state"] in ("connecting", "probing") and
                   node["reason"] in ("", "connected, being examined")
                   for node in self.node_states().values())

    def log_text(self):
        with open(self.log_path) as file:
            return file.read()

    def client(self, protocol=2, **options):
        return Client(self.socket_path, protocol, **options)

    def last_client(self):
        """Of an agent that has room for one more: the sessions of start() may not have ended yet."""
        def session():
            client = self.client()
            try:
                if client.call("PING") == "PONG":
                    return client
            except OSError:  # it was rejected, and closed after a second
                pass
            return client.close()

        return wait_for(session, what="a session of an agent that has one left")

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Stops the agent until cont()."""
        self.signal(signal.SIGSTOP)
        wait_stopped(self.process)

    def cont(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        end_process(self.process)

    def terminate(self):
        self.signal(signal.SIGTERM)
        return self.process.wait(20 * SCALE)

    def status(self):
        client = self.client(3)
        try:
            return client.call("STATUS")
        finally:
            client.close()

    def node_states(self):
        client = self.client(3)
        try:
            return {node["name"]: node for node in client.call("NODES")}
        finally:
            client.close()

    def wait_node(self, name, state="", reason="", seconds=10):
        """Waits until NODES shows the state; returns that row. One NODES a time, as the next may differ."""
        def shown():
            node = self.node_states()[name]
            return node if state in ("", node["state"]) and reason in node["reason"] else None
        return wait_for(shown, seconds, "node %s %s %s" % (name, state, reason))

    def bless(self):
        """Blesses all nodes, as an operator blesses the first ones of a fleet."""
        client = self.client()
        for node in self.nodes:
            client.call("BLESS", node.name)
        client.close()

    def bless_all(self):
        """The same as soon as each node is examined, until all vote."""
        def vote():
            self.bless()
            return self.status()["voting"] == len(self.nodes)
        wait_for(vote, what="blessed nodes")

    def wait_voting(self, count, seconds=10):
        wait_for(lambda: self.status()["voting"] == count, seconds, "%d voting nodes" % count)


def redlock(agent, *arguments, **options):
    """Starts a `redlock` command: a Popen."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return spawn([REDLOCK, "--socket", agent.socket_path, *arguments], text=True, **options)


def redlock_run(agent, *arguments, timeout=60):
    """Runs it to its end: exit status, standard output, standard error."""
    process = redlock(agent, *arguments)
    out, err = process.communicate(timeout=timeout * SCALE)
    return process.returncode, out, err


def acquire_and_release(client, name):
    grant = client.acquire(name)
    if not isinstance(grant, dict):
        return grant
    client.call("RELEASE", grant["id"])
    return "granted"


class Proxy:
    """A proxy between an agent and a node: forwards after a delay, may drop one direction, or hang."""

    def __init__(self, node):
        self.name = node.name
        self.node = node
        self.socket_path = path("proxy.sock")
        self.address = "unix:" + self.socket_path
        self.delay = 0.0        # seconds, each way
        self.deaf = False       # nothing gets through to the node
        self.mute = False       # nothing comes back from it
        self.connections = []
        self.listener = listener(self.socket_path)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self.node.socket_path)
            except OSError:
                client.close()
                continue
            self.connections.append((client, server))
            for source, sink, swallowed in ((client, server, "deaf"), (server, client, "mute")):
                threading.Thread(target=self._forward, args=(source, sink, swallowed), daemon=True).start()

    def _forward(self, source, sink, swallowed):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if self.delay:
                    time.sleep(self.delay)
                if not getattr(self, swallowed):
                    sink.sendall(data)
        except OSError:
            pass
        hang_up(source, sink)

    def cut(self):
        """Breaks all connections."""
        for pair in self.connections:
            hang_up(*pair)
        self.connections = []


class Between(Proxy):
    """A proxy between a command and the agent: before a request with this word is forwarded, calls `act`.
    What that returns is the answer; nothing: the request is forwarded."""

    def __init__(self, agent, word, act):
        self.word, self.act = word, act
        super().__init__(types.SimpleNamespace(name="agent", socket_path=agent.socket_path))

    def _forward(self, source, sink, swallowed):
        try:
            while data := source.recv(65536):
                answer = self.act() if swallowed == "deaf" and self.word in data else None
                if answer:
                    source.sendall(answer)
                else:
                    sink.sendall(data)
        except OSError:
            pass
        hang_up(source, sink)


class FakeServer:
    """Reads requests, and gives each the reply of _reply(), if it is not None."""

    def __init__(self):
        self.socket_path = path("fake.sock")
        self.listener = listener(self.socket_path)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        file = client.makefile("rwb")
        try:
            while True:
                line = file.readline()
                if not line:
                    return
                items = []
                for _ in range(int(line[1:])):
                    length = int(file.readline()[1:])
                    items.append(file.read(length + 2)[:-2])
                reply = self._reply(items[0].upper(), items)
                if reply is not None:
                    file.write(reply)
                    file.flush()
        except (OSError, ValueError):
            pass


class FakeNode(FakeServer):
    """Greets like a Redis master, then answers each script call with the given error; None: never."""

    INFO = ("# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:%s\r\n"
            "role:%s\r\nloading:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n")

    def __init__(self, name, error="-ERR no", role="master", silent_from_start=False,
                 hashes=True):
        self.name = name
        self.error = error
        self.role = role
        self.silent = silent_from_start
        self.hashes = hashes  # of scripts are right
        self.calls = 0
        self.run_id = os.urandom(20).hex().encode()
        super().__init__()
        self.address = "unix:" + self.socket_path

    def _reply(self, word, items):
        if self.silent:
            return None
        if word == b"EVAL" and items[3] == b"redlockd:rights":
            return b"+OK\r\n"
        if word == b"EVAL":  # probe and bless arrive whole, and are answered as a trusted node answers
            epoch = b"%s 86400000 0 %s rested 0" % (self.run_id, items[13] if len(items) > 16 else b"0")
            return b"*3\r\n:1\r\n:%d\r\n$%d\r\n%s\r\n" % (time.time() * 1e6, len(epoch), epoch)
        if word == b"INFO":
            text = (self.INFO % (self.run_id.decode(), self.role)).encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if word == b"SCRIPT":
            digest = hashlib.sha1(items[2] if self.hashes else b"another").hexdigest()
            return b"$40\r\n" + digest.encode() + b"\r\n"
        if word == b"EVALSHA":
            self.calls += 1
            return None if self.error is None else self.error.encode() + b"\r\n"
        return b"+OK\r\n"


def wait_at(agent, name, among=1):
    """A client that waits for the name, the agent's only waiter or the last of so many."""
    waiter = agent.client()
    waiter.send("ACQUIRE", name, "WAIT", -1)
    wait_for(lambda: agent.status()["waiters"] == among, what="the waiter")
    return waiter


def granted_after(waiter, since):
    """Milliseconds from then to the grant of a client that waits."""
    grant = as_map(waiter.reply())
    assert isinstance(grant, dict), grant
    passed_ms = 1000 * (now() - since)
    waiter.close()
    return passed_ms


def at_once(function, arguments):
    """Calls the function with each of the arguments, each in a thread of its own; returns the results. A
    process that it spawns would end with the thread."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(arguments)) as pool:
        return list(pool.map(function, arguments))


def keys_on(all_nodes, name):
    """The number of nodes that have the key."""
    return sum(node.call("EXISTS", name) for node in all_nodes)


def wait_gone(all_nodes, name):
    """After a release: the reply comes when a majority of the nodes has confirmed it."""
    wait_for(lambda: keys_on(all_nodes, name) == 0, what="the end of the keys of " + name)


def keys_end(all_nodes, name):
    """The instant at which the last key ends that nobody extends any more: the earliest of several readings,
    since each one may have come late."""
    def read(node):
        left_ms = node.call("PTTL", name)
        return now() + left_ms / 1000

    return max(min(read(node) for _ in range(5)) for node in all_nodes)


def median(values):
    return sorted(values)[len(values) // 2]
