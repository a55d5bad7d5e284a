"""Lock values, resume tokens and passwords: in no core dump, log, listing or list of processes."""

import os
import re
import resource
import signal
import struct
import subprocess

import lab
from tap import equal, main, note, ok, skip

PASSWORD, OTHER_PASSWORD = "correct horse 9f3k battery", "another horse, 77x staples"
PT_LOAD = 1  # elf(5)
KINDS = {"private": 0, "shared": 1}  # of anonymous memory: bits of coredump_filter, core(5)


class SecretNode(lab.Node):
    """A node with a password, which the test knows too."""

    def __init__(self, name):
        super().__init__(name)
        self.password = ""
        self.require(PASSWORD)

    def require(self, password):
        self.call("CONFIG", "SET", "requirepass", password)
        self.password = password

    def call(self, *items):
        client = lab.Client(self.socket_path)
        try:
            if getattr(self, "password", ""):
                client.call("AUTH", self.password)
            return client.call(*items)
        finally:
            client.close()


def mappings(pid):
    """Of each one: first and last address, permissions, VmFlags."""
    found = []
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            mapping = re.match(r"(\w+)-(\w+) (\S{4}) \S+ \S+ \S+\s*(.*)$", line)
            if mapping:
                found.append([int(mapping[1], 16), int(mapping[2], 16), mapping[3], mapping[4], []])
            elif line.startswith("VmFlags:"):
                found[-1][4] = line.split()[1:]
    return found


def dump(process, filtered=True):
    """The memory that a core dump would have: without what is excluded, and, if wanted, without the kinds of
    mappings that the process's filter has not."""
    with open("/proc/%d/coredump_filter" % process.pid) as file:
        kinds = int(file.read(), 16)
    chunks = []
    with open("/proc/%d/mem" % process.pid, "rb", 0) as memory:
        for begin, end, rights, name, flags in mappings(process.pid):
            kind = KINDS["shared" if rights[3] == "s" else "private"]
            left_out = "dd" in flags or (filtered and not kinds >> kind & 1)
            if left_out or "w" not in rights or end - begin > 1 << 30:  # a sanitizer's
                continue
            memory.seek(begin)
            chunks.append(memory.read(end - begin))
    return b"".join(chunks)


def limits(process):
    with open("/proc/%d/limits" % process.pid) as file:
        return re.search(r"Max core file size +(\S+) +(\S+)", file.read()).groups()


def crash(agent):
    """Whether the kernel has written, or passed on, a core dump."""
    os.kill(agent.process.pid, signal.SIGSEGV)
    _, status = os.waitpid(agent.process.pid, 0)
    agent.process.returncode = -os.WTERMSIG(status)
    return os.WCOREDUMP(status)


def allow_dumps():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    os.chdir(lab.directory)
    return hard


def test_core_dumps():
    unlimited = allow_dumps()
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes)
    with open("/proc/%d/coredump_filter" % agent.process.pid) as file:
        equal(int(file.read(), 16), 0, "no kind of memory is in a core dump")
    equal(limits(agent.process), ("1", "1"), "and the kernel makes none, for a handler neither")
    equal(dump(agent.process), b"", "so a debugger's dump of the running agent has no memory")
    equal(crash(agent), False, "a crash dumps no core")
    agent.start("--core-dumps")
    with open("/proc/self/coredump_filter") as file:
        mine = int(file.read(), 16)
    with open("/proc/%d/coredump_filter" % agent.process.pid) as file:
        equal(int(file.read(), 16), mine, "--core-dumps leaves the filter")
    ok(limits(agent.process)[0] != "1", "and the limit")
    ok(len(dump(agent.process)) > 0, "a debugger's dump has memory then")
    dumped = crash(agent)
    if unlimited and os.path.exists("/proc/sys/kernel/core_pattern"):
        note("after a crash with --core-dumps a core was dumped: %s" % dumped)


def test_other_processes():
    """Of the agent's own user."""
    if not lab.shutil.which("setpriv") or os.getuid() != 0:
        skip("processes of the agent's user", "no setpriv here, or not root")
        return
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups"]
    config = lab.path("nodes.conf")
    directory = lab.path("nobody")
    os.mkdir(directory)
    os.chown(directory, 65534, -1)
    os.chmod(lab.directory, 0o755)
    with open(config, "w") as file:
        file.write('quarantine = no\nnode "a" { address = "127.0.0.1:1" }\nsocket { path = "%s/a.sock" }\n'
                   % directory)
    for options, good in ((), False), (("--core-dumps",), True):
        agent = lab.spawn([*nobody, lab.REDLOCKD, "--config", config, *options], stderr=subprocess.PIPE)
        while b"serving clients" not in agent.stderr.readline():
            pass
        read = subprocess.run([*nobody, "head", "-c", "1", "/proc/%d/environ" % agent.pid],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        equal(read.returncode == 0, good, "a process of the same user %s the agent's memory%s" %
              ("reads" if good else "can't read", " with --core-dumps" if good else ""))
        client = lab.Client(directory + "/a.sock", 3)
        ok(client.call("STATUS")["agent"], "and the agent serves")
        client.close()
        lab.end_process(agent)


def test_command():
    """redlock has the secret of its lease: its memory is closed to its user, and that of its job is not."""
    if not lab.shutil.which("setpriv") or os.getuid() != 0:
        skip("the redlock command's memory", "no setpriv here, or not root")
        return
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups"]
    os.chmod(lab.directory, 0o755)
    agent = lab.Agent(lab.nodes(1))
    runs = lab.spawn([*nobody, lab.REDLOCK, "--socket", agent.socket_path, "run", "held", "--", "sh", "-c",
                      "echo $$; exec sleep 60"], stdout=subprocess.PIPE)
    job = int(runs.stdout.readline())
    for pid, good in (runs.pid, False), (job, True):
        read = subprocess.run([*nobody, "head", "-c", "1", "/proc/%d/environ" % pid],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        equal(read.returncode == 0, good, "a process of the same user %s the memory of %s" % (
            ("reads", "the job") if good else ("can't read", "redlock run")))
    allow_dumps()
    os.kill(runs.pid, signal.SIGSEGV)
    equal(os.WCOREDUMP(os.waitpid(runs.pid, 0)[1]), False, "a crash of redlock dumps no core")
    runs.returncode = -signal.SIGSEGV
    lab.wait_for(lambda: not os.path.exists("/proc/%d" % job), what="the end of the job")
    agent.stop()


def forms(value):
    """Of a lock value or resume token: its random part as bytes, and both halves of the digits."""
    digits = re.search("[0-9a-f]{40}", value).group()
    return [bytes.fromhex(digits)[:10], digits[:20].encode(), digits[20:].encode()]


class Credential:
    """A password that the service manager passes."""

    def __init__(self, text):
        self.directory = lab.path("credentials")
        os.mkdir(self.directory)
        os.environ["CREDENTIALS_DIRECTORY"] = self.directory
        self.write(text)

    def write(self, text):
        with open(os.path.join(self.directory, "redis"), "w") as file:
            file.write(text)


def wrong_tokens(good):
    """Resume tokens that RESUME rejects, each at another point, with the options that it gets."""
    version, digits, rest = good.split("-", 2)
    fields = rest.split("-")
    return [(good[:-1] + ("0" if good[-1] != "0" else "1"), ()), (good, ("WAIT", "never")), (good, ("NO",)),
            (good[:-20], ()), ("-".join([version, digits[::-1], rest]), ()), (digits, ()),
            ("-".join([version, digits, "ffffffff", *fields[1:]]), ())]


def key_on(node, name):
    """The lock value. The grant comes with a majority: this node may have it later."""
    return lab.wait_for(lambda: node.call("GET", name), what="the key " + name)


def use(agent, nodes):
    """Leases and all ways of RESUME; returns what must not be seen, and the clients that hold leases."""
    client, waiter, other = (agent.client(3) for _ in range(3))
    needles = []
    kept = client.acquire("kept", "TTL", 60000, "RESUMABLE", "DATA", "public", "WAIT", 10000)
    gone = client.acquire("gone", "TTL", 60000, "RESUMABLE", "WAIT", 10000)
    for name in ("kept", "gone"):
        needles += forms(key_on(nodes[0], name))
    needles += [grant["secret"][-16:].encode() for grant in (kept, gone)]
    waiter.send("ACQUIRE", "gone", "TTL", 60000, "WAIT", -1)
    client.call("RELEASE", gone["id"])
    lab.wait_for(lambda: waiter.reply(), what="the hand-off")
    needles += forms(key_on(nodes[0], "gone"))
    for token, options in wrong_tokens(kept["secret"]):
        answer = other.call("RESUME", "kept", token, *options)
        ok(isinstance(answer, lab.ReplyError), "RESUME fails: %.60s" % answer)
    needles += forms(kept["secret"].split("-")[1][::-1])
    for name, token in (("gone", gone["secret"]), ("kept", kept["secret"])):
        ok(isinstance(other.call("RESUME", name, token, "WAIT", 0), lab.ReplyError),
           "RESUME fails for a lease that is %s" % name)
    await_answers(agent)
    unfinished = b"*3\r\n$6\r\nRESUME\r\n$4\r\nkept\r\n$%d\r\n%s" % (len(kept["secret"]),
                                                                  kept["secret"].encode())
    return needles, [client, waiter, other], unfinished


def await_answers(agent):
    """What the agent sends at a moment may be in a dump: redlockd(8) says so."""
    lab.wait_for(lambda: set(re.findall(r'^redlock_node_outstanding_requests{.*} (\d+)$',
                                        agent.client().call("METRICS"), re.M)) == {"0"},
                 what="the nodes' answers to all requests")


def seen(text, needles):
    return [needle for needle in needles if needle in text]


def shown(agent):
    """What the agent shows to people, programs and other processes."""
    client = agent.client(3)
    texts = [repr(client.call(*words)).encode() for words in
             (["STATUS"], ["NODES"], ["LEASES"], ["METRICS"], ["INFO"], ["HISTORY", "kept"],
              ["HISTORY", "gone"], ["LEADER", "kept"], ["ACQUIRE", "kept"], ["WHOAMI", "kept"])]
    client.close()
    for name in "cmdline", "environ":
        with open("/proc/%d/%s" % (agent.process.pid, name), "rb") as file:
            texts.append(file.read())
    return b"\n".join([*texts, agent.log_text().encode()])


def cored(process, *settings):
    """The memory that a debugger's core dump has (registers have the last bytes copied)."""
    path = lab.path("core")
    options = [word for setting in settings for word in ("-ex", setting)]
    subprocess.run(["gdb", "-nx", "-batch", "-p", str(process.pid), *options, "-ex", "gcore " + path],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    with open(path, "rb") as file:
        core = file.read()
    headers, size, count = struct.unpack_from("<32xQ14xHH", core)
    segments = [struct.unpack_from("<IIQQQQ", core, headers + i * size) for i in range(count)]
    return b"".join(core[offset:offset + length] for kind, _, offset, _, _, length in segments
                    if kind == PT_LOAD)


def test_secrets():
    credential = Credential(PASSWORD)
    nodes = [SecretNode(name) for name in "abc"]
    agent = lab.Agent(nodes, node_config='password = credential("redis")', start=False)
    agent.start("--core-dumps")
    needles, clients, unfinished = use(agent, nodes)
    needles.append(PASSWORD.encode())
    equal(seen(shown(agent), needles), [], "no log, listing or list of processes has a secret")
    equal(seen(dump(agent.process), needles), [], "no core dump has one, even with --core-dumps")
    credential.write(OTHER_PASSWORD)
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: "need a restart: node" in agent.log_text(), what="the reload")
    needles.append(OTHER_PASSWORD.encode())
    equal(seen(shown(agent), needles) + seen(dump(agent.process), needles), [],
          "neither after a reload with another password")
    clients[0].send_raw(unfinished)
    for client in clients:
        client.close()
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of the leases")
    await_answers(agent)
    equal(seen(dump(agent.process, filtered=False), needles), [], "nor after the leases")
    agent.kill()


def test_debugger():
    if not lab.shutil.which("gdb"):
        skip("a debugger's core dumps", "no gdb here; tests/setup installs it")
        return
    nodes = [SecretNode(name) for name in "abc"]
    agent = lab.Agent(nodes, node_config='password = "%s"' % PASSWORD)
    needles, clients, unfinished = use(agent, nodes)
    needles.append(PASSWORD.encode())
    core = cored(agent.process, "set use-coredump-filter off")
    ok(b"redlockd" in core, "without its filter a debugger dumps memory")
    equal(seen(core, needles[:-1]), [], "but no lock value or resume token")
    clients[0].send_raw(unfinished)
    core = cored(agent.process)
    equal(seen(core, needles), [],
          "with it no secret either, nor the configuration's password, nor an unfinished request")
    for client in clients:
        client.close()


class RepeatingNode(lab.FakeNode):
    """A server that does not know AUTH, and repeats its arguments."""

    def __init__(self, name, form):
        self.form = form
        super().__init__(name)

    def _reply(self, word, items):
        if word != b"AUTH":
            return super()._reply(word, items)
        return self.form % b" ".join(b"'%s'" % item for item in items[1:]) + b"\r\n"


def test_repeated_password():
    login = 'user = "redlockd" password = "%s"' % PASSWORD
    nodes = [lab.Node("a", "--rename-command", "AUTH", ""),
             RepeatingNode("b", b"-ERR unknown command 'AUTH', with args beginning with: %s"),
             RepeatingNode("c", b"-ERR I don't know %s")]
    agent = lab.Agent(nodes, node_config=login)
    reasons = [agent.wait_node(node.name, reason="refused the greeting")["reason"] for node in nodes]
    equal(reasons, ["refused the greeting: ERR unknown command 'AUTH'"] * 2 +
          ["refused the greeting: ERR I don't know 'redlockd' '"], "a refused AUTH is shown")
    status, out, _ = lab.redlock_run(agent, "nodes")
    equal(seen(shown(agent) + out.encode(), [PASSWORD.encode(), b"horse"]), [], "without the password")
    agent.kill()


def test_repeated_on_connection_for_messages():
    node = SecretNode("a")
    error = "-ERR unknown command 'AUTH', with args beginning with: '%s'\r\n" % PASSWORD
    answers = [None]  # the first AUTH, on the connection for commands, reaches the node
    between = lab.Between(node, b"AUTH", lambda: answers.pop() if answers else error.encode())
    agent = lab.Agent([between], keepers=1, node_config='password = "%s"' % PASSWORD)
    agent.wait_voting(1)
    node.call("SET", "waits", "another's", "PX", 60000)
    client = agent.client()
    client.send("ACQUIRE", "waits", "WAIT", -1)
    line = "no subscription to releases, so waiters poll it: "
    lab.wait_for(lambda: line in agent.log_text(), what="the connection for messages")
    ok(line + "ERR unknown command 'AUTH'\n" in agent.log_text() and PASSWORD not in agent.log_text(),
       "nor does the connection for messages show the password")
    agent.kill()


LEASES = 40
CLIENT = """
import ctypes, select, sys
library = ctypes.CDLL(sys.argv[1])
library.redlock_fence.restype = ctypes.c_uint64
connection, leases = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(int(sys.argv[3]))]
assert library.redlock_connect(sys.argv[2].encode(), ctypes.byref(connection)) == 0
for i, lease in enumerate(leases):
    assert library.redlock_acquire_async(connection, b"library-%d" % i, None, ctypes.byref(lease)) == 0
while not all(library.redlock_fence(lease) for lease in leases):
    select.select([library.redlock_fd(connection)], [], [])
    assert library.redlock_dispatch(connection) == 0
print("held", flush=True)
sys.stdin.readline()
library.redlock_close(connection)
print("closed", flush=True)
sys.stdin.readline()
"""


def test_library():
    """Its buffers grow while all grants arrive at once."""
    nodes = lab.nodes(3)
    agent = lab.Agent(nodes)
    library = os.path.join(lab.BUILD, "client-lib", "libredlock.so.0")
    client = lab.spawn(["python3", "-c", CLIENT, library, agent.socket_path, str(LEASES)],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    equal(client.stdout.readline(), "held\n", "a program of libredlock has %d leases" % LEASES)
    needles = [half for i in range(LEASES) for half in forms(key_on(nodes[0], "library-%d" % i))[1:]]
    equal(len(seen(dump(client), needles)), 2 * LEASES, "and their resume tokens in memory")
    client.stdin.write("\n")
    client.stdin.flush()
    equal(client.stdout.readline(), "closed\n", "it closes the connection")
    equal(seen(dump(client), needles), [], "and nothing is left")


main(test_core_dumps, test_other_processes, test_command, test_secrets, test_debugger,
     test_repeated_password, test_repeated_on_connection_for_messages, test_library)
