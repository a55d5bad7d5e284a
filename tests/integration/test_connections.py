"""Client connections: complete replies or none, whatever the kernel rejects."""

import array
import errno
import fcntl
import os
import select
import shutil
import socket
import struct
import sys
import termios

import lab
from descriptor_store import KeptAgent, is_session
from tap import begins, equal, main, ok, skip

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "failures"))
import calls  # noqa: E402

SO_PASSRIGHTS = 83  # Linux 6.16
LINES = 10  # of one kind in the log within WINDOW_S; further ones are counted
WINDOW_S = 10
DESCRIPTORS = 256  # of the agent; as many may be in flight

nodes = lab.nodes(1)
# With CAP_SYS_RESOURCE or CAP_SYS_ADMIN, descriptors in flight have no limit.
BOUNDED = ["prlimit", "--nofile=%d" % DESCRIPTORS]
if os.getuid() == 0:
    BOUNDED += ["setpriv", "--no-new-privs", "--bounding-set=-sys_resource,-sys_admin"]


class InFlight:
    """Descriptors sent and not received: the kernel limits their number by user."""

    def __init__(self, count):
        self.pairs = []
        file = os.open("/dev/null", os.O_RDONLY)
        while count > 0:
            some = min(count, 250)  # a message takes no more than 253
            pair = socket.socketpair()
            socket.send_fds(pair[0], [b"x"], [file] * some)
            self.pairs.append(pair)
            count -= some
        os.close(file)

    def land(self):
        for pair in self.pairs:
            for end in pair:
                end.close()


def receive(client, wanted):
    """All bytes that the agent sends, and the number of descriptors with them."""
    data, fds = b"", []
    client.socket.settimeout(10 * lab.SCALE)
    while len(data) < wanted:
        more, ancillary, _, _ = client.socket.recvmsg(65536, 1024)
        if not more:
            break
        data += more
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += array.array("i", content)
    client.socket.settimeout(0.1)
    try:
        data += client.socket.recv(65536)
    except socket.timeout:
        pass
    for fd in fds:
        os.close(fd)
    return data, len(fds)


PAGE_REPLY = b"*6\r\n$7\r\nversion\r\n:1\r\n$5\r\nbytes\r\n:65536\r\n$5\r\nslots\r\n:4092\r\n"


def test_page_that_cannot_be_passed():
    if not shutil.which("prlimit") or not shutil.which("setpriv"):
        skip("a page that can't be passed", "no prlimit or setpriv here")
        return
    agent = lab.Agent(nodes, prefix=BOUNDED)
    other = agent.client()
    secret = other.acquire("other's", "RESUMABLE", "WAIT", 10000)["secret"].encode()
    in_flight = InFlight(DESCRIPTORS + 1)
    clients = [agent.client() for _ in range(LINES + 2)]
    before, behind = b"before" * 300, b"behind" * 300
    expected = (b"$%d\r\n%s\r\n" % (len(before), before)) + PAGE_REPLY + \
        (b"$%d\r\n%s\r\n" % (len(behind), behind))
    for client in clients:
        client.send_raw(b"ECHO " + before + b"\r\nPAGE\r\nECHO " + behind + b"\r\n")
    for client in clients:
        data, fds = receive(client, len(expected))
        ok(secret not in data, "no bytes of another client")
        equal((data, fds), (expected, 0), "exactly the composed bytes, without the page's descriptor")
        client.send_raw(b"PING\r\n")
        equal(receive(client, 7)[0], b"+PONG\r\n", "the session continues")
    in_flight.land()
    late = agent.client()
    late.send_raw(b"PAGE\r\n")
    equal(receive(late, len(PAGE_REPLY)), (PAGE_REPLY, 1), "with fewer in flight, pages are passed again")
    equal(agent.log_text().count("can't pass"), LINES, "the log has the failure, limited in lines")
    agent.kill()


def page_of(client):
    """The page's descriptor, and how many bytes of its memory are in use."""
    client.send("PAGE")
    data, fds, _, _ = socket.recv_fds(client.socket, 4096, 1)
    equal((data, len(fds)), (PAGE_REPLY, 1), "a session gets its page")
    return fds[0], lambda: 512 * os.fstat(fds[0]).st_blocks


def deadline_in(page, slot):
    return struct.unpack("q", os.pread(page, 8, 64 + 16 * slot + 8))[0]


def test_page_after_the_end():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()
    page, used = page_of(client)
    slots = [client.acquire("shown %d" % i)["slot"] for i in range(300)]
    ok(all(deadline_in(page, slot) > 0 for slot in slots) and used() >= 8192, "which shows its leases")
    client.close()
    lab.wait_for(lambda: used() == 0, what="the end of the page's memory")
    equal(os.pread(page, 65536, 0), bytes(65536), "the session has ended: the page is zeros, without memory")
    os.close(page)

    client = agent.client()
    page, used = page_of(client)
    grant = client.acquire("expelled", "TTL", 4000, "WAIT", 10000)
    client.send_raw(b"*1\r\n:1\r\n")
    wait_answer(client)
    ok(deadline_in(page, grant["slot"]) >= grant["deadline"],
       "the agent has ended the session: the page shows the lease until its deadline")
    lab.wait_for(lambda: used() == 0, what="the end of the page's memory")
    ok(1e9 * lab.now() >= grant["deadline"], "and its memory is freed after that")
    os.close(page)

    for end, what in (agent.terminate, "stopped"), (agent.kill, "killed"):
        client = agent.client()
        page, used = page_of(client)
        grant = client.acquire("shown, " + what)
        end()
        ok(deadline_in(page, grant["slot"]) >= grant["deadline"] and used() > 0,
           "the agent was %s: the page stays" % what)
        os.close(page)
        agent.start()
    agent.kill()


def can_refuse_descriptors():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        try:
            own.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
            return True
        except OSError:
            return False


def lingering_connection():
    """A TCP connection whose peer does not read: the process that closes it last waits for hours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = socket.create_connection(server.getsockname())
        peer = server.accept()[0]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 65535))
    connection.setblocking(False)
    try:
        while True:
            connection.send(b"x" * 65536)
    except BlockingIOError:
        return connection, peer


def is_refused(client):
    connection, peer = lingering_connection()
    outcome = None
    try:
        socket.send_fds(client.socket, [b"PING\r\n"], [connection.fileno()])
    except OSError as error:
        outcome = error.errno
    if outcome is None:
        connection.close()  # the agent closes it last
        client.reply()
    peer.close()  # with data unread: the connection ends
    connection.close()
    return outcome == errno.EPERM


def test_passed_descriptors():
    if not can_refuse_descriptors():
        skip("passed descriptors", "a kernel before Linux 6.16")
        return
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client, other = agent.client(), agent.client()
    ok(is_refused(client), "a client can't pass the agent a descriptor that takes hours to close")
    equal((client.call("PING"), other.call("PING")), ("PONG", "PONG"), "its session goes on, as others")
    agent.kill()
    kept = KeptAgent(nodes)
    client = kept.client()
    ok(is_refused(client), "nor by a socket of the service manager")
    held = client.acquire("beside a descriptor", "TTL", 20000)["id"]
    kept.wait_stored(client)
    with kept.lock:
        stored = [fd for name, fd in kept.store if is_session(name)]
    kept.kill()
    for fd in stored:
        with socket.socket(fileno=os.dup(fd)) as accepted:
            accepted.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)  # as an older agent leaves it
    kept.start()
    ok(client.call("CHECK", held) > 0, "the next agent continues the session")
    ok(is_refused(client), "and takes no descriptors from it, whatever the former agent did")
    kept.kill()


def test_out_of_band():
    """The kernel ends what is received before such a byte."""
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()
    equal(client.call("PING"), "PONG", "a client is served")
    agent.stop()
    client.send_raw(b"*1\r\n$4\r\nPI")
    try:
        client.socket.send(b"!", socket.MSG_OOB)
    except OSError:
        skip("a byte out of band", "this kernel has none on Unix sockets")
        return
    client.send_raw(b"NG\r\n")
    agent.cont()
    equal(client.reply(), "PONG", "with a byte out of band within a request, the rest is received, too")
    agent.kill()


def switches(agent):
    """The number of sleeps of the agent's threads."""
    total = 0
    for task in os.listdir("/proc/%d/task" % agent.process.pid):
        with open("/proc/%d/task/%s/status" % (agent.process.pid, task)) as file:
            total += [int(line.split()[1]) for line in file if line.startswith("voluntary")][0]
    return total


def test_store_that_cannot_be_reached():
    if not shutil.which("prlimit") or not shutil.which("setpriv"):
        skip("a descriptor store that can't be reached", "no prlimit or setpriv here")
        return
    agent = KeptAgent(nodes, prefix=BOUNDED)
    in_flight = InFlight(DESCRIPTORS + 1)
    client = agent.client()
    grant = client.acquire("kept")
    lab.wait_for(lambda: "can't store" in agent.log_text(), what="the store to be tried")
    begun, before = lab.now(), switches(agent)
    lab.wait_for(lambda: lab.now() - begun > 1.2, what="a second to pass")
    ok((switches(agent) - before) / (lab.now() - begun) < 40 * lab.SCALE,
       "a descriptor that the kernel rejects is sent again after a pause")
    ok(client.call("CHECK", grant["id"]) > 0, "and the lease is valid meanwhile")
    in_flight.land()
    agent.wait_stored(client)
    agent.kill()
    agent.start()
    ok(client.call("CHECK", grant["id"]) > 0, "later it is stored, and the next process continues it")
    agent.kill()


def descriptors(agent):
    return len(os.listdir("/proc/%d/fd" % agent.process.pid))


def unread(client):
    count = array.array("i", [0])
    fcntl.ioctl(client.socket, termios.FIONREAD, count)
    return count[0]


def write_on(client, since, data):
    """Writes to a connection that the agent has ended, or rejected: it takes the data for a second."""
    try:
        client.send_raw(data)
    except BrokenPipeError:
        if lab.now() - since < 1:
            raise


def wait_answer(client):
    """Waits for a reply without reading it."""
    ok(select.select([client.socket], [], [], 10 * lab.SCALE)[0], "the agent has replied")


def test_half_closed():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()

    def takes_a_reply():
        """One by one: each reply takes room in the socket."""
        before = unread(client)
        client.send_raw(b"PING\r\n")
        until = lab.now() + lab.SCALE
        while unread(client) == before and lab.now() < until:
            pass
        return unread(client) > before

    count = 1
    while takes_a_reply() and count < 1000:
        count += 1
    ok(count < 1000, "the socket is full (after %d replies)" % count)
    client.send_raw(b"PING\r\n" * 40)
    client.send_raw(b"STATUS\r\nECHO last\r\n")
    client.socket.shutdown(socket.SHUT_WR)
    lab.wait_for(lambda: agent.status()["sessions"] == 1, what="the end of the session")
    data = receive(client, 1 << 30)[0]
    ok(data.startswith(b"+PONG\r\n" * (count + 40) + b"*") and data.endswith(b"$4\r\nlast\r\n"),
       "a client that closes its sending side gets every reply, even if the socket was full")
    agent.kill()


def test_rejected():
    agent = lab.Agent(nodes, "max_sessions = 3\n")
    first = agent.client()
    lab.wait_for(lambda: lab.as_map(first.call("STATUS"))["sessions"] == 1, what="the end of others")
    second, third = agent.client(), agent.client()
    equal([first.call("PING"), second.call("PING")], ["PONG", "PONG"], "two sessions")
    equal(third.call("PING"), "PONG", "the last session")
    before = descriptors(agent)
    begun = lab.now()
    rejected = agent.client()
    wait_answer(rejected)
    for _ in range(3):
        write_on(rejected, begun, b"*1\r\n$4\r\nPING\r\n")
    begins(rejected.read(), "QUOTA", "a rejected client that writes before it reads gets the reason")
    ok("connection rejected: the agent has max_sessions connections: 3" in agent.log_text(),
       "the log has the line")
    equal(rejected.socket.recv(100), b"", "and the end of the stream")
    has_it, _ = lab.when(lambda: descriptors(agent) == before, begun, what="the end of its connection")
    ok(has_it - begun < 0.9, "its connection is closed after it has read (%.1f s)" % (has_it - begun))
    silent = [agent.client() for _ in range(300)]
    lab.wait_for(lambda: descriptors(agent) <= before + 256, 0.5, "the limit of rejected clients")
    lab.wait_for(lambda: descriptors(agent) == before, 3, "their end")
    for client in silent:
        client.close()
    equal(third.call("PING"), "PONG", "sessions that exist continue")
    for client, name in (first, "a"), (second, "b"):
        client.acquire(name, "TTL", 20000)
        client.send_raw(b"*1\r\n+PING\r\n")
        begins(client.read(), "ERR protocol", "a session that sends no request is ended")
        equal(client.socket.recv(100), b"", "and its connection")
    begins(agent.client().read(), "QUOTA", "while their leases last, they count")
    agent.kill()


def watched(agent):
    """How many processes of clients the agent watches."""
    directory = "/proc/%d/fd" % agent.process.pid
    try:
        return sum("pidfd" in os.readlink(os.path.join(directory, fd)) for fd in os.listdir(directory))
    except FileNotFoundError:  # one was closed meanwhile
        return watched(agent)


def test_rejected_without_descriptors():
    """A session takes two: the last one may be enough to accept a client, and not to watch its process."""
    if not shutil.which("prlimit"):
        skip("an agent without descriptors", "no prlimit here")
        return
    for limit in 64, 65:
        agent = lab.Agent(nodes, prefix=["prlimit", "--nofile=%d" % limit])
        clients = [agent.client() for _ in range(8)]
        equal([client.call("PING") for client in clients], ["PONG"] * 8, "clients are served")

        def first_rejected():
            """Other threads of the agent may take a descriptor that is free for a moment."""
            begun = lab.now()
            clients.append(agent.client())
            clients[-1].since = begun
            readable = select.select([client.socket for client in clients], [], [], 0.02)[0]
            return next((client for client in clients if client.socket in readable), None)

        rejected = lab.wait_for(first_rejected, what="the rejection of a client, without descriptors")
        write_on(rejected, rejected.since, b"PING\r\n")
        begins(rejected.read(), "QUOTA the agent has no descriptor",
               "a client that writes before it reads gets the reason")
        lab.wait_for(lambda: watched(agent) == lab.as_map(clients[0].call("STATUS"))["sessions"],
                     what="a watched process for each session")
        ok(True, "the process of each session is watched")
        agent.kill()


def test_descriptor_limit():
    """The soft limit of a shell is 1,024, the hard one much higher."""
    if not shutil.which("prlimit"):
        skip("an agent with a low limit of descriptors", "no prlimit here")
        return
    text = "max_sessions = %d: the agent has descriptors for "
    for max_sessions in 500, 690:
        agent = lab.Agent(nodes, "max_sessions = %d" % max_sessions, prefix=["prlimit", "--nofile=64:2048"])
        clients = [agent.client() for _ in range(100)]
        equal([client.call("PING") for client in clients], ["PONG"] * 100, "the soft limit is no limit")
        equal(text % max_sessions in agent.log_text(), max_sessions == 690,
              "%d sessions: a line in the log if the hard one is too low" % max_sessions)
        for client in clients:
            client.close()
        agent.terminate()


def test_unread_grant():
    """A stopped process does not read, but may read what was sent at any later moment."""
    agent = lab.Agent(nodes, lab.UNHURRIED)
    holder, stopped, next_one = agent.client(), agent.client(3), agent.client(3)
    pushed = agent.client(3)
    grant = holder.acquire("name", "TTL", 2000)
    stopped.send("ACQUIRE", "name", "TTL", 2000, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the stopped client")
    pushed.send("ACQUIRE", "name", "TTL", 2000, "WAIT", -1, "ASYNC")
    equal(pushed.reply()[0], "waiting", "another client uses ASYNC, and reads no further")
    next_one.send("ACQUIRE", "name", "TTL", 10000, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 3, what="all waiters")
    holder.call("RELEASE", grant["id"])
    begun = lab.now()
    got = next_one.reply(timeout=30)
    ok("id" in got, "a waiter behind two that don't read acquires the lease")
    passed = got["deadline"] / 1e9 - 9.898 - begun  # when its attempt began
    ok(passed < 8 + lab.SCALE, "after twice the ttl of each (%.1f s)" % passed)
    unread = stopped.reply()
    ok(unread["deadline"] < begun * 1e9 + 3.5e9 * lab.SCALE,
       "a client that reads the grant then gets an old deadline")
    equal([push[3] if push[0] == "at-risk" else push[2] for push in (stopped.read(), stopped.read())],
          ["unread", "unread"], "and the loss, with the reason")
    equal(stopped.call("CHECK", unread["id"]), 0, "and does not hold the lease")
    equal(pushed.push("lost")[2], "unread", "the same for a grant by push")
    until = lab.now() + 2.5
    while lab.now() < until:
        assert next_one.call("CHECK", got["id"]) > 0
    ok(next_one.pushes == [], "a client that reads keeps its lease")
    equal(agent.log_text().count("lease name: lost: unread"), 2, "the log has both losses, with the reason")
    agent.kill()


def test_unread_grant_at_the_next_process():
    agent = KeptAgent(nodes, lab.UNHURRIED)
    holder, stopped, next_one = agent.client(), agent.client(3), agent.client(3)
    agent.wait_stored(holder, stopped, next_one)
    grant = holder.acquire("kept", "TTL", 1000, "WAIT", 10000)
    stopped.send("ACQUIRE", "kept", "TTL", 1000, "WAIT", -1)
    next_one.send("ACQUIRE", "kept", "TTL", 1000, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 2, what="the waiters")
    holder.call("RELEASE", grant["id"])
    lab.wait_for(lambda: agent.status()["leases"] == 1, what="the grant that is unread")
    agent.kill()
    agent.start()
    ok("id" in next_one.reply(timeout=20), "the next process withdraws an unread grant too")
    agent.kill()


def test_busy_reader():
    """Some output is always unread, but never the grant."""
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    grant = client.acquire("busy", "TTL", 10000)
    ahead, until = 100, lab.now() + 3  # a grant has to be read within two seconds
    for _ in range(ahead):
        client.send_raw(b"ECHO " + b"x" * 1000 + b"\r\n")
    while lab.now() < until:
        client.send_raw(b"ECHO " + b"x" * 1000 + b"\r\n")
        assert client.reply() == "x" * 1000
    for _ in range(ahead):
        client.reply()
    equal(client.pushes, [], "a client that always has unread replies has read its grant")
    ok(client.call("CHECK", grant["id"]) > 0, "and keeps the lease")
    agent.kill()


def test_malformed():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client(3)
    grant = client.acquire("mine")
    begun = lab.now()
    client.send_raw(b"*1\r\n:1\r\n")
    wait_answer(client)
    write_on(client, begun, b"PING\r\n" * 100)
    begins(client.reply(), "ERR protocol", "a client that continues to write gets the error")
    equal(client.push("lost")[1:3], [grant["id"], "closed"], "and lost for its lease")
    equal(client.socket.recv(100), b"", "before the end")
    agent.kill()


def test_reading_side_closed():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    client = agent.client()
    held = client.acquire("held", "WAIT", 10000)["id"]
    client.socket.shutdown(socket.SHUT_RD)
    client.send_raw(b"RELEASE %d\r\nACQUIRE unread TTL 60000\r\n" % held)
    other = agent.client()
    ok("id" in other.acquire("held", "WAIT", 20000),
       "a client that stops reading: requests sent before are served")
    lab.wait_for(lambda: agent.status()["sessions"] == 2, what="the end of its session")
    ok("id" in other.acquire("unread", "WAIT", 20000), "and its session ends, with its leases")
    agent.kill()


def test_log_flood():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    begun = lab.now()
    for i in range(300):
        client = agent.client()
        client.acquire("noisy %d" % i, "TTL", 100)
        client.send_raw(b"*1\r\n:1\r\n")
        client.close()
    lab.wait_for(lambda: agent.status()["sessions"] == 1, what="the end of the sessions")
    windows = 1 + int((lab.now() - begun) / WINDOW_S)
    ok(LINES <= agent.log_text().count("malformed") <= LINES * windows,
       "of 300 sessions that end by a malformed request, the first are logged")
    agent.kill()


def test_no_memory_for_a_reply():
    """The kernel's shortage passes: the reply is late, and the session goes on."""
    if not os.path.exists(calls.LIBRARY):
        skip("a reply that the kernel has no memory for", "no failing calls in this build")
        return
    orders = calls.Orders("redlockd")
    failing = lab.Agent(nodes, prefix=orders.prefix)
    client = failing.client(3)
    grant = client.acquire("short of memory", "WAIT", 10000)
    for error in "ENOBUFS", "ENOMEM":
        orders.give("send", 1, error)
        equal(client.call("CHECK", grant["id"]) > 0, True, "%s: the reply comes, with validity" % error)
        equal(orders.end()[1], 1, "after one send(2) that failed")
        orders.give("send", 1, error, lasting=True)
        client.send("CHECK", grant["id"])
        lab.wait_for(lambda: struct.unpack_from("=I", orders.memory, 20)[0] > 3, what="attempts")
        orders.end()
        equal(client.reply() > 0, True, "after several, too")
    equal("session of process" in failing.log_text(), False, "no session was ended")
    client.close()
    failing.kill()


main(test_half_closed, test_rejected, test_rejected_without_descriptors, test_descriptor_limit,
     test_malformed, test_unread_grant, test_unread_grant_at_the_next_process, test_busy_reader,
     test_reading_side_closed, test_log_flood, test_passed_descriptors, test_out_of_band,
     test_page_that_cannot_be_passed, test_page_after_the_end, test_store_that_cannot_be_reached,
     test_no_memory_for_a_reply)
