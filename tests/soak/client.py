"""client.py KIND NUMBER SEED SOCKET...: one client of the soak, until SIGTERM. Writes what it relied on and
how it was answered as lines, each in one write, so that nothing is lost when the client is killed:

    begin KEY NAME FENCE TIME         a lease was granted, and at TIME the client relied on it
    valid KEY TIME                    it relied on it at TIME
    end KEY                           it does so no more
    asking REQUEST AGENT KIND TIME BOUND    a request, and how long its answer may take
    asked REQUEST WORD TIME           its answer's first word, and when it came
    withdrawn REQUEST                 it gets no answer
    closed TIME                       its connection has ended, so no request gets an answer any more
    did KIND                          something else that was done
    watched SERIAL JSON               an observer's view
    wrong TEXT                        a broken promise that one client alone can see
    started                           a `redlock` runs, which gets signals by TO_PROCESS

It exits with 0 after SIGTERM. Any other end is a failure, with the reason on standard error."""

import ctypes
import faulthandler
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
    if KIND == "watch" and process:  # its next line may never come
        process.terminate()


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


class Request:
    """One that the agent must answer within the bound."""

    def __init__(self, agent, kind, bound):
        self.key, self.begun = new_key(), now()
        write("asking", self.key, agent, kind, self.begun, bound)

    def answered(self, word):
        write("asked", self.key, word, now())

    def withdrawn(self):
        write("withdrawn", self.key)


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


def first_word(value):
    return str(value).split(" ")[0] if isinstance(value, ReplyError) else "ok"


def outcome(push):
    """Of `granted` and `failed`, as a reply without ASYNC has it."""
    return push[2] if push[0] == "granted" else ReplyError(push[2])


class RawClient:
    """Requests of all kinds on one connection at a time."""

    def __init__(self):
        write("closed", now())  # the connection before this one, if there was one
        self.socket = choose.choice(SOCKETS)
        self.client = Client(self.socket, 3, timeout=NO_ANSWER_S)
        self.claims = {}  # by id
        self.pending = {}  # ASYNC requests by id: the name, the request
        self.over = {}     # why each of these ids is over
        self.withdrawn = set()  # ids of requests of which a grant counts no more

    def agent(self):
        return SOCKETS.index(self.socket)

    def ask(self, bound, *words):
        request = Request(self.agent(), words[0], bound)
        value = self.client.call(*words)
        request.answered(first_word(value))
        self.take_pushes()
        return value

    def take_pushes(self):
        """Those that came before a reply."""
        while self.client.pushes:
            self.push(self.client.pushes.pop(0))

    def push(self, push):
        kind, about = push[0], push[1] if len(push) > 1 else None
        if kind in ("granted", "failed"):
            if about not in self.pending:
                write("wrong", kind, "of a request that was not made, or was answered before:", about)
                return
            name, request = self.pending.pop(about)
            request.answered(first_word(outcome(push)))
            if kind == "granted" and about not in self.withdrawn:
                self.claims[about] = Claim(name, push[2], request.begun)
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
        write("closed", now())
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
                value = again.ask_to_resume(claim.name, grant["secret"])
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

    def ask_to_resume(self, name, secret):
        """By the connection's first request; the only one with a push then."""
        words, bound = ("RESUME", name, secret, "WAIT", 0), 3 * NODE_TIMEOUT_S
        if choose.random() < 0.5:
            return self.ask(bound, *words)
        request = Request(self.agent(), "RESUME", bound)
        value = self.client.call(*words, "ASYNC")
        if isinstance(value, list):  # `waiting` and an id
            pushes = self.client.pushes
            self.client.pushes = []
            while not any(push[0] in ("granted", "failed") for push in pushes):
                pushes.append(self.client.read())
            value = outcome(next(push for push in pushes if push[0] in ("granted", "failed")))
        request.answered(first_word(value))
        return value

    def acquire_async(self):
        """Some at once, some of which are withdrawn. Each has one outcome."""
        for name in choose.sample(NAMES, choose.randrange(1, 4)):
            wait = choose.choice((0, 200, 1000, -1))
            bound = NO_ANSWER_S if wait < 0 else wait / 1e3 + 3 * NODE_TIMEOUT_S
            request = Request(self.agent(), "ASYNC", bound)
            value = self.client.call("ACQUIRE", name, "WAIT", wait, "ASYNC", *self.terms())
            if isinstance(value, list):
                self.pending[value[1]] = name, request
            else:
                request.answered(first_word(value))
            self.take_pushes()
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
            if self.ask(RELEASE_BOUND_S, "RELEASE", lease) == 1 and lease in self.pending:
                self.pending.pop(lease)[1].withdrawn()
        self.read_pushes(0)

    def query(self):
        name = choose.choice(NAMES)
        request = choose.choice((
            ("LEADER", name), ("STATUS",), ("NODES",), ("INFO",), ("COMMAND",), ("PING",), ("METRICS",),
            ("LEASES",), ("LEASES", "AFTER", choose.randrange(1, 99)),
            ("LEASES", "LATEST", choose.randrange(1, 65)), ("HISTORY", name), ("HISTORY", name, "COUNT", 3),
            ("WHOAMI",), ("WHOAMI", name), ("PAGE",), ("ECHO", "x" * choose.randrange(4096)),
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
            write("wrong", "no answer within", NO_ANSWER_S, "s")
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
OVER = (-9, -10, -12)  # the connection


class Leader(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("holder", ctypes.c_char * 256), ("data", ctypes.c_char * 1025),
                ("data_length", ctypes.c_size_t), ("validity_ms", ctypes.c_int64),
                ("fence", ctypes.c_uint64), ("type", ctypes.c_char * 32), ("since_ms", ctypes.c_int64),
                ("cooling_ms", ctypes.c_int64)]


GRANTED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
FAILED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Callbacks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("granted", GRANTED), ("failed", FAILED)] + [
        (name, ctypes.c_void_p) for name in (
            "at_risk", "extended", "lost", "draining", "disconnected", "leader")]


def open_library():
    library = ctypes.CDLL(os.path.join(BUILD, "client-lib", "libredlock.so"))
    library.redlock_valid.restype = ctypes.c_bool
    library.redlock_fence.restype = ctypes.c_uint64
    library.redlock_check.restype = ctypes.c_int64
    return library


class LibraryClient:
    """One connection of libredlock."""

    def __init__(self, library, connection, agent):
        self.library, self.connection, self.agent = library, connection, agent
        self.outcomes = {}  # of asynchronous requests: an error by handle
        self.callbacks = Callbacks(ctypes.sizeof(Callbacks), GRANTED(self.granted), FAILED(self.failed))
        library.redlock_set_callbacks(connection, ctypes.byref(self.callbacks), None)

    def granted(self, lease, userdata):
        self.outcomes[lease] = 0

    def failed(self, lease, error, text, userdata):
        self.outcomes[lease] = error

    def ask(self, kind, bound, function, *arguments):
        """The result of a call; a positive one is as good as 0."""
        request = Request(self.agent, kind, bound)
        result = function(*arguments)
        request.answered(library_word(result))
        return result

    def acquire(self, name, options, lease):
        bound = (options.wait_ms / 1e3 or 2 * NODE_TIMEOUT_S) + NODE_TIMEOUT_S
        arguments = self.connection, name.encode(), ctypes.byref(options), ctypes.byref(lease)
        if choose.random() < 0.7:
            return self.ask("libredlock", bound, self.library.redlock_acquire, *arguments)
        request = Request(self.agent, "libredlock-async", bound)
        error = self.library.redlock_acquire_async(*arguments)
        if error == 0:
            error = self.await_outcome(lease, bound)
        request.answered(library_word(error))
        return error

    def await_outcome(self, lease, bound):
        """An error; that the library's own end of the waiting does not come is one, too."""
        self.outcomes.pop(lease.value, None)
        until = now() + bound + NO_ANSWER_S
        while lease.value not in self.outcomes:
            error = self.library.redlock_dispatch(self.connection)
            if lease.value not in self.outcomes and (error != 0 or now() > until):
                return error or NO_OUTCOME
            time.sleep(0.002)
        return self.outcomes.pop(lease.value)

    def query(self, name, lease):
        """About a lease that is held: whether it may still be."""
        kind = choose.choice(("check", "beat", "leader"))
        if kind == "leader":
            leader = Leader(size=ctypes.sizeof(Leader))
            self.ask("libredlock-leader", QUERY_BOUND_S, self.library.redlock_leader, self.connection,
                     name.encode(), ctypes.byref(leader))
        else:
            self.ask("libredlock-" + kind, QUERY_BOUND_S, getattr(self.library, "redlock_" + kind), lease)

    def hold(self):
        """An error, if there was no lease."""
        name, lease = choose.choice(NAMES), ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), ttl_ms=choose.choice((500, 1000, 2000)),
                          wait_ms=choose.choice((0, 200, 2000)), linger_ms=choose.choice((0, 0, 500)),
                          heartbeat_ms=choose.choice((0, 0, 0, 500)))
        error = self.acquire(name, options, lease)
        if error != 0:
            return error
        key, at = new_key(), now()
        if self.library.redlock_valid(lease):
            write("begin", key, name, self.library.redlock_fence(lease), at)
        until = now() + choose.choice((0, 0.02, 0.2, 2))
        while now() < until and not stopping:
            at = now()
            if not self.library.redlock_valid(lease):
                break
            write("valid", key, at)
            self.library.redlock_dispatch(self.connection)
            if choose.random() < 0.1:
                self.query(name, lease)
            time.sleep(choose.choice((0.005, 0.02)))
        write("end", key)
        self.ask("libredlock-release", RELEASE_BOUND_S, self.library.redlock_release, lease)
        return 0


NO_OUTCOME = -99


def library_word(result):
    return LIBRARY_WORDS.get(min(result, 0), "error%d" % result)


def run_library():
    library = open_library()
    while not stopping:
        path, connection = choose.choice(SOCKETS), ctypes.c_void_p()
        if library.redlock_connect(path.encode(), ctypes.byref(connection)) != 0:
            time.sleep(0.05)
            continue
        client = LibraryClient(library, connection, SOCKETS.index(path))
        for _ in range(choose.randrange(1, 30)):
            if stopping or client.hold() in OVER:
                break
        library.redlock_close(connection)


# --- redlock ---

KILLED = -signal.SIGKILL  # by the soak
NO_AGENT, NOBODY_WAITS, TRY_AGAIN, TIMED_OUT, LOST = 69, 71, 75, 124, 125
# The exit statuses of `redlock`, beside KILLED. Those of `run` are the job's, too: it may end by a signal.
STATUSES = {
    "run": (0, 1, NO_AGENT, TRY_AGAIN, TIMED_OUT, LOST, 128 + signal.SIGTERM, 128 + signal.SIGKILL,
            -signal.SIGTERM),
    "acquire": (0, 1, NO_AGENT, TRY_AGAIN, TIMED_OUT, LOST),
    "hold": (0, LOST, -signal.SIGTERM),  # the last one: before the handler was installed
    "watch": (0, NO_AGENT, TRY_AGAIN, -signal.SIGTERM),
    "leader": (0, 1, NO_AGENT, TRY_AGAIN),
    "check": (0, 1, NO_AGENT, TRY_AGAIN, LOST),
}
LISTINGS = ("leader", "check", "status", "nodes", "leases", "history", "whoami", "metrics")
OF_LISTINGS = (0, NO_AGENT, TRY_AGAIN)


def run_redlock(*arguments):
    """The exit status, and the end of standard error."""
    # Of `run` it is the job that writes.
    start_redlock(choose.choice(SOCKETS), *arguments, stderr=subprocess.PIPE,
                  stdout=None if arguments[0] == "run" else subprocess.DEVNULL)
    said = process.communicate()[1]
    return process.returncode, said.strip()[-100:]


def check_status(command, status, said):
    write("did", command)
    if status != KILLED and status not in STATUSES.get(command, OF_LISTINGS):
        write("wrong", "redlock", command, "exits with", status, said)


def run_job(name, waiting):
    check_status("run", *run_redlock(
        "run", "-q", "-t", choose.choice(("500ms", "1s", "2s")), *waiting, name, "--",
        sys.executable, "-SEc", TICK, str(choose.choice((0, 0.05, 0.5, 2)))))


def acquire_for_sleeper(name, waiting):
    """The process that wants the lease may end before it has it."""
    sleeper = subprocess.Popen(["sleep", "0.3"])
    status, said = run_redlock("acquire", "-q", "--for", str(sleeper.pid), *waiting, name)
    if status != NOBODY_WAITS or sleeper.poll() is None:
        check_status("acquire", status, said)
    sleeper.wait()


def hold_for_a_while(name, waiting):
    start_redlock(choose.choice(SOCKETS), "hold", "-t", "1s", name, stdout=subprocess.DEVNULL,
                  stderr=subprocess.PIPE)
    try:
        said = process.communicate(timeout=choose.choice((0.1, 0.5, 1.5)))[1]
    except subprocess.TimeoutExpired:
        process.terminate()
        said = process.communicate()[1]
    check_status("hold", process.returncode, said.strip()[-100:])


def list_something(name, waiting):
    """Of some commands, the name is an option."""
    command = choose.choice(LISTINGS)
    names = {"leader": [name], "history": [name], "whoami": choose.choice(([], [name])),
             "check": choose.choice(([], [name]))}.get(command, [])
    form = choose.choice(([], ["--json"])) if command != "metrics" else []
    check_status(command, *run_redlock(command, *form, *names))


def run_command():
    while not stopping:
        waiting = choose.choice((["-n"], ["-w", "300ms"], ["-w", "2s"]))
        runs = run_job, acquire_for_sleeper, hold_for_a_while, list_something
        choose.choices(runs, (5, 1, 1, 2))[0](choose.choice(NAMES), waiting)


def run_watch():
    while not stopping:
        start_redlock(choose.choice(SOCKETS), "watch", "--json", *NAMES, stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE)
        for line in process.stdout:
            write("watched", serial, line.strip())
            if stopping:
                process.terminate()
        said = process.communicate()[1]
        check_status("watch", process.returncode, said.strip()[-100:])
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
    write("did", "garbage")


def run_garbage():
    while not stopping:
        try:
            send_garbage()
        except OSError:
            pass
        time.sleep(0.02)


if __name__ == "__main__":
    faulthandler.enable()
    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # blocked by the soak until now
    for forwarded in TO_PROCESS:
        signal.signal(forwarded, pass_on)
    if KIND == "library":  # which must not raise it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    {"raw": run_raw, "library": run_library, "command": run_command, "watch": run_watch,
     "garbage": run_garbage}[KIND]()
