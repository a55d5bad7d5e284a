"""client.py KIND NUMBER SEED SOCKET...: one client of the soak, until SIGTERM. Writes what it relied on and
how it was answered as lines, each in one write, so that nothing is lost when the client is killed:

    begin KEY NAME FENCE TIME         a lease was granted, and at TIME the client relied on it
    valid KEY TIME                    it relied on it at TIME
    end KEY                           it does so no more
    asked AGENT KIND WORD TIME SECONDS BOUND    an answer: its first word, the time of the request, how long
                                      the answer took and may take
    seen NAME FENCE                   an observer's view
    wrong TEXT                        a broken promise that one client alone can see
    started                           a `redlock` runs, which gets signals by TO_PROCESS"""

import ctypes
import os
import random
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from raw_client import Client, Push, ReplyError, as_map, now  # noqa: E402

KIND, NUMBER, SEED, SOCKETS = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
BUILD = os.environ["REDLOCK_BUILD"]
REDLOCK = os.path.join(BUILD, "client-lib", "redlock")
NAMES = ["soak-%d" % i for i in range(6)]
NODE_TIMEOUT_S = 0.2  # as configured
QUERY_BOUND_S = RELEASE_BOUND_S = 1.0
NO_ANSWER_S = 60
TICK = """
import os, sys, time
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
key = "job-%d" % os.getpid()
os.write(1, b"begin %s %s %s %.6f\\n" % (key.encode(), os.environ["REDLOCK_NAME"].encode(),
    os.environ["REDLOCK_FENCE"].encode(), now()))
until = now() + float(sys.argv[1])
while now() < until:
    time.sleep(0.02)
    os.write(1, b"valid %s %.6f\\n" % (key.encode(), now()))
os.write(1, b"end %s\\n" % key.encode())
"""

choose, choose_stop = random.Random(SEED), random.Random(SEED)
stopping = False
serial = 0
process = None  # the `redlock` that runs
PR_SET_PDEATHSIG = 1
TO_PROCESS = {signal.SIGUSR1: signal.SIGKILL, signal.SIGUSR2: signal.SIGSTOP, signal.SIGALRM: signal.SIGCONT}
STOPS_S = (0.1, 1, 3)


def stop(number, frame):
    global stopping
    stopping = True


def pass_on(number, frame):
    """Popen knows whether the process is still this one; somebody else's pid may be another's by now."""
    if process:
        process.send_signal(TO_PROCESS[number])
    if number == signal.SIGUSR2:  # a signal to continue could overtake this one
        signal.setitimer(signal.ITIMER_REAL, choose_stop.choice(STOPS_S))


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_redlock(socket_path, *arguments, **options):
    global process
    process = subprocess.Popen([REDLOCK, "--socket", socket_path, *arguments], text=True,
                               preexec_fn=die_with_parent, **options)
    write("started")
    return process


def write(*words):
    os.write(1, (" ".join("%.6f" % word if isinstance(word, float) else str(word) for word in words)
                 + "\n").encode())


def new_key():
    global serial
    serial += 1
    return "%s-%d-%d" % (KIND, NUMBER, serial)


class Claim:
    """What a holder knows of its lease. `deadline` is the latest that the agent has reported."""

    def __init__(self, name, grant, asked):
        self.key, self.name, self.id = new_key(), name, grant["id"]
        self.deadline = grant["deadline"] / 1e9
        at = now()
        if at < self.deadline:
            write("begin", self.key, name, grant["fence"], at)

    def rely(self):
        """Whether the lease is valid now: the instant is noted before the deadline is compared."""
        at = now()
        if at >= self.deadline:
            return False
        write("valid", self.key, at)
        return True

    def end(self):
        write("end", self.key)


class RawClient:
    """Requests of all kinds on one connection at a time."""

    def __init__(self):
        self.socket = choose.choice(SOCKETS)
        self.client = Client(self.socket, 3, timeout=NO_ANSWER_S)
        self.claims = {}  # by id
        self.pending = {}  # ASYNC requests by id: when they were asked, their bound
        self.over = {}     # why each of these ids is over
        self.withdrawn = set()  # ids of requests of which a grant counts no more

    def agent(self):
        return SOCKETS.index(self.socket)

    def ask(self, bound, *request):
        begun = now()
        value = self.client.call(*request)
        took = now() - begun
        self.answered(request[0], value, begun, took, bound)
        while self.client.pushes:
            self.push(self.client.pushes.pop(0))
        return value

    def answered(self, kind, value, begun, took, bound):
        word = str(value).split(" ")[0] if isinstance(value, ReplyError) else "ok"
        write("asked", self.agent(), kind, word, begun, took, bound)

    def push(self, push):
        kind, about = push[0], push[1] if len(push) > 1 else None
        if kind in ("granted", "failed"):
            if about not in self.pending:
                write("wrong", kind, "of a request that was not made, or was answered before:", about)
                return
            name, begun, bound = self.pending.pop(about)
            word = push[2] if kind == "failed" else ""
            self.answered("ASYNC", ReplyError(word) if word else "", begun, now() - begun, bound)
            if kind == "granted" and about not in self.withdrawn:
                self.claims[about] = Claim(name, as_map(push[2]), begun)
        elif kind == "extended" and about in self.claims:
            self.claims[about].deadline = max(self.claims[about].deadline, push[3] / 1e9)
        elif kind == "lost":
            if self.over.get(about) == "lost":
                write("wrong", "lost a second time:", about)
            if about in self.claims:
                self.forget(about, "lost")
            self.over[about] = "lost"

    def forget(self, lease, why):
        self.over[lease] = why
        self.claims.pop(lease).end()

    def read_pushes(self, seconds):
        until = now() + seconds
        while not stopping:
            ready = select.poll()
            ready.register(self.client.socket, select.POLLIN)
            if not self.client.buffer and not ready.poll(max(0, (until - now()) * 1000)):
                return
            value = self.client.read()
            if isinstance(value, Push):
                self.push(value)
            else:
                write("wrong", "a reply to nothing:", repr(value)[:60])

    def terms(self):
        terms = ["TTL", choose.choice((300, 500, 1000, 1000, 2000))]
        for option, values in (("MAXHOLD", (400, 3000)), ("LINGER", (300, 1000)), ("COOLDOWN", (300, 1000)),
                               ("DATA", ("x" * choose.randrange(1000), "\r\n*1"))):
            if choose.random() < 0.15:
                terms += [option, choose.choice(values)]
        return terms

    def hold(self, claim, beats):
        """For a while, with CHECK and BEAT now and then."""
        until = now() + choose.choice((0, 0.01, 0.05, 0.2, 1.5))
        while now() < until and not stopping and claim.id in self.claims:
            if not claim.rely():
                self.forget(claim.id, "its deadline")
                return
            self.read_pushes(choose.choice((0.005, 0.02, 0.05)))
            if claim.id in self.claims and choose.random() < 0.3:
                sent = now()
                left_ms = self.ask(QUERY_BOUND_S, "BEAT" if beats and choose.random() < 0.7 else "CHECK",
                                   claim.id)
                if left_ms == 0 and claim.id in self.claims:
                    self.forget(claim.id, "an answer of 0")
                elif isinstance(left_ms, int) and left_ms > 1:
                    claim.deadline = max(claim.deadline, sent + left_ms / 1e3)

    def let_go(self, claim):
        if claim.id not in self.claims:
            return
        if choose.random() < 0.15:  # the connection's end is the lease's
            self.close()
            return
        self.forget(claim.id, "its release")
        self.ask(RELEASE_BOUND_S, "RELEASE", claim.id)

    def close(self):
        for lease in list(self.claims):
            self.forget(lease, "the connection's end")
        self.client.close()
        self.client = None

    def acquire(self):
        name, wait, terms = choose.choice(NAMES), choose.choice((0, 0, 100, 1000, 3000)), self.terms()
        beats = choose.random() < 0.2
        resumable = choose.random() < 0.3
        begun = now()
        if beats:
            terms += ["HEARTBEAT", 500]
        if resumable:
            terms += ["RESUMABLE"]
        grant = as_map(self.ask((wait / 1e3 if wait else 2 * NODE_TIMEOUT_S) + NODE_TIMEOUT_S,
                                "ACQUIRE", name, "WAIT", wait, *terms))
        if not isinstance(grant, dict):
            return
        claim = self.claims[grant["id"]] = Claim(name, grant, begun)
        try:
            self.hold(claim, beats)
        except OSError:
            if not resumable:
                raise
            self.resume(claim, grant)
        if self.client:
            self.let_go(claim)

    def resume(self, claim, grant):
        """Its agent has gone: another one of this host continues the lease, or it ends by its deadline."""
        self.claims.clear()
        self.pending.clear()
        while claim.rely():
            try:
                again = RawClient()
                value = as_map(again.ask(NODE_TIMEOUT_S * 3, "RESUME", claim.name, grant["secret"],
                                         "WAIT", 0))
            except OSError:
                time.sleep(0.05)
                continue
            self.__dict__.update(again.__dict__)
            if isinstance(value, dict):
                claim.id, claim.deadline = value["id"], value["deadline"] / 1e9
                if value["fence"] != grant["fence"]:
                    write("wrong", "a resumed lease has another token")
                self.claims[claim.id] = claim
                self.hold(claim, False)
                return
            time.sleep(0.02)
        claim.end()

    def acquire_async(self):
        """Some at once, some of which are withdrawn. Each has one outcome."""
        for name in choose.sample(NAMES, choose.randrange(1, 4)):
            wait = choose.choice((0, 200, 1000, -1))
            begun = now()
            value = self.ask(QUERY_BOUND_S, "ACQUIRE", name, "WAIT", wait, "ASYNC", *self.terms())
            if isinstance(value, list):
                bound = NO_ANSWER_S if wait < 0 else wait / 1e3 + 3 * NODE_TIMEOUT_S
                self.pending[value[1]] = name, begun, bound
        until = now() + choose.choice((0.05, 0.5, 2))
        while now() < until and (self.pending or self.claims) and not stopping:
            self.read_pushes(0.02)
            for lease, claim in list(self.claims.items()):
                if not claim.rely():
                    self.forget(lease, "its deadline")
        for lease in list(self.pending) + list(self.claims):
            if lease in self.claims:
                self.forget(lease, "its release")
            self.withdrawn.add(lease)
            if self.ask(RELEASE_BOUND_S, "RELEASE", lease) == 1:
                self.pending.pop(lease, None)
        self.read_pushes(0)
        for lease, (name, begun, bound) in self.pending.items():
            if now() - begun > bound + NO_ANSWER_S:
                write("wrong", "no outcome of", name)

    def query(self):
        name = choose.choice(NAMES)
        request = choose.choice((
            ("LEADER", name), ("STATUS",), ("NODES",), ("LEASES",), ("INFO",), ("COMMAND",), ("PING",),
            ("OBSERVE", name), ("UNOBSERVE", name), ("CHECK", 7), ("RELEASE", 7)))
        self.ask(QUERY_BOUND_S, *request)

    def run(self):
        while not stopping and self.client:
            choose.choices((self.acquire, self.acquire_async, self.query), (5, 2, 2))[0]()
            if choose.random() < 0.05 and self.client and not self.claims:
                self.close()


def run_raw():
    while not stopping:
        client = None
        try:
            client = RawClient()
            client.run()
        except TimeoutError:
            write("asked", client.agent() if client else -1, "any", "nothing", now() - NO_ANSWER_S,
                  NO_ANSWER_S, QUERY_BOUND_S)
        except ReplyError:
            time.sleep(0.1)  # HELLO was refused: a limit
        except OSError:
            time.sleep(0.05)
        for claim in client.claims.values() if client else ():
            claim.end()


# --- libredlock ---

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in (
        "ttl_ms", "wait_ms", "heartbeat_ms", "max_hold_ms")] + [
            ("data", ctypes.c_void_p), ("data_length", ctypes.c_size_t), ("linger_ms", ctypes.c_int64),
            ("cooldown_ms", ctypes.c_int64)]


LIBRARY_WORDS = {0: "ok", -1: "BUSY", -2: "TIMEOUT", -3: "NOQUORUM", -5: "QUOTA", -8: "lost", -9: "DRAINING",
                 -10: "away", -11: "no-answer"}


def open_library():
    library = ctypes.CDLL(os.path.join(BUILD, "client-lib", "libredlock.so"))
    library.redlock_valid.restype = ctypes.c_bool
    library.redlock_fence.restype = ctypes.c_uint64
    return library


def hold_with_library(library, connection, agent):
    name, lease = choose.choice(NAMES), ctypes.c_void_p()
    options = Options(size=ctypes.sizeof(Options), ttl_ms=choose.choice((500, 1000, 2000)),
                      wait_ms=choose.choice((0, 200, 2000)), linger_ms=choose.choice((0, 0, 500)))
    begun = now()
    error = library.redlock_acquire(connection, name.encode(), ctypes.byref(options), ctypes.byref(lease))
    write("asked", agent, "libredlock", LIBRARY_WORDS.get(error, "error%d" % error), begun, now() - begun,
          (options.wait_ms / 1e3 or 2 * NODE_TIMEOUT_S) + NODE_TIMEOUT_S)
    if error != 0:
        return error
    key, at = new_key(), now()
    if library.redlock_valid(lease):
        write("begin", key, name, library.redlock_fence(lease), at)
    until = now() + choose.choice((0, 0.02, 0.2, 2))
    while now() < until and not stopping:
        at = now()
        if not library.redlock_valid(lease):
            break
        write("valid", key, at)
        library.redlock_dispatch(connection)
        time.sleep(choose.choice((0.005, 0.02)))
    write("end", key)
    library.redlock_release(lease)
    return 0


def run_library():
    library = open_library()
    while not stopping:
        path, connection = choose.choice(SOCKETS), ctypes.c_void_p()
        if library.redlock_connect(path.encode(), ctypes.byref(connection)) != 0:
            time.sleep(0.05)
            continue
        for _ in range(choose.randrange(1, 30)):
            if stopping or hold_with_library(library, connection, SOCKETS.index(path)) in (-9, -10, -12):
                break
        library.redlock_close(connection)


# --- redlock ---

# Exit codes of `redlock` and its job; the number of the signal that killed them.
STATUSES = (0, 1, 69, 75, 124, 125, 128 + signal.SIGTERM, 128 + signal.SIGKILL, -signal.SIGKILL,
            -signal.SIGTERM)


NOBODY_WAITS = 71  # of `redlock acquire`: the process that wanted the lease has ended meanwhile


def run_redlock(*arguments):
    """The exit status, and the end of standard error."""
    # Of `run` it is the job that writes.
    start_redlock(choose.choice(SOCKETS), *arguments, stderr=subprocess.PIPE,
                  stdout=None if arguments[0] == "run" else subprocess.DEVNULL)
    said = process.communicate()[1]
    return process.returncode, said.strip()[-100:]


def check_status(command, status, said):
    if status not in STATUSES:
        write("wrong", "redlock", command, "exits with", status, said)


def run_command():
    while not stopping:
        name = choose.choice(NAMES)
        waiting = choose.choice((["-n"], ["-w", "300ms"], ["-w", "2s"]))
        if choose.random() < 0.8:
            check_status("run", *run_redlock(
                "run", "-q", "-t", choose.choice(("500ms", "1s", "2s")), *waiting, name, "--",
                sys.executable, "-SEc", TICK, str(choose.choice((0, 0.05, 0.5, 2)))))
        else:
            sleeper = subprocess.Popen(["sleep", "0.3"])
            status, said = run_redlock("acquire", "-q", "--for", str(sleeper.pid), *waiting, name)
            if status != NOBODY_WAITS or sleeper.poll() is None:
                check_status("acquire", status, said)
            sleeper.wait()


def run_watch():
    while not stopping:
        start_redlock(choose.choice(SOCKETS), "watch", "--json", *NAMES, stdout=subprocess.PIPE,
                      stderr=subprocess.DEVNULL)
        for line in process.stdout:
            write("watched", serial, line.strip())
            if stopping:
                break
        process.kill()
        process.wait()
        new_key()
        time.sleep(0.2)


# --- malicious clients ---

def send_garbage():
    """Half of it at first like requests; some ask for much and never read."""
    connection = Client(choose.choice(SOCKETS), timeout=5)
    kind = choose.randrange(4)
    if kind == 0:
        connection.send_raw(choose.randbytes(choose.randrange(30000)))
    elif kind == 1:
        connection.send_raw(b"*3\r\n$7\r\nACQUIRE\r\n$4\r\nx" + choose.randbytes(2000))
    elif kind == 2:
        connection.socket.settimeout(0.5)
        connection.send_raw(b"COMMAND\r\nLEASES\r\nINFO\r\n" * 3000)
        time.sleep(choose.random())
    else:
        for i in range(40):
            connection.send("ACQUIRE", "garbage-%d-%d" % (NUMBER, i), "ASYNC", "WAIT", -1)
    if choose.random() < 0.5:
        time.sleep(choose.random() / 2)
    connection.close()


def run_garbage():
    while not stopping:
        try:
            send_garbage()
        except (OSError, TimeoutError):
            pass
        time.sleep(0.02)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    for forwarded in TO_PROCESS:
        signal.signal(forwarded, pass_on)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    {"raw": run_raw, "library": run_library, "command": run_command, "watch": run_watch,
     "garbage": run_garbage}[KIND]()
