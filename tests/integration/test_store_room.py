"""What the service manager's store has room for, and restarts with another configuration or none of the
descriptors."""

import contextlib
import fcntl
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess

import lab
import pages
from descriptor_store import HIGH, KeptAgent, is_session, name_of, page_of, quiet, session_name
from tap import begins, equal, main, ok, skip, within

TTL_CONFIG = 'default_ttl = "%(ttl)ds"\nmax_ttl = "%(ttl)ds"\nnode_timeout = "2900ms"\n'
CONFIG = 'default_ttl = "8s"\nmax_ttl = "8s"\nnode_timeout = "3s"\n'
nodes = lab.nodes(3)
agent = KeptAgent(nodes, CONFIG)


def test_not_stored():
    """A manager that stores nothing: connections end, and their leases exclude others until the deadline."""
    agent.refuse = True
    client = agent.client(3)
    grant = client.acquire("unstored", "TTL", 8000, "RESUMABLE")
    agent.replace()
    try:
        client.read()
        ok(False, "the connection has ended")
    except ConnectionError:
        ok(True, "without a store the connection ends")
    begins(agent.client().acquire("unstored"), "BUSY", "but the name is not free: its client may be alive")
    back = agent.client(3)
    resumed = lab.as_map(back.call("RESUME", "unstored", grant["secret"], "WAIT", 3000))
    equal(resumed["fence"], grant["fence"], "the client resumes its lease")
    equal([(one["name"], one["id"]) for one in map(lab.as_map, back.call("LEASES"))],
          [("unstored", resumed["id"])], "which the agent keeps once")
    equal(agent.status()["losses"], 0, "and nothing was lost")
    equal(back.call("RELEASE", resumed["id"]), 1, "and releases it")
    gone = agent.client(3)
    gone.acquire("unstored-too", "TTL", 2000)
    agent.replace()
    got = agent.client(3).acquire("unstored-too", "WAIT", 20000)
    ok(isinstance(got, dict), "a lease that is not resumed ends by its deadline")
    agent.refuse = False
    agent.replace()


@contextlib.contextmanager
def user(uid):
    """The agent takes the user of a connection from the kernel."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_not_stored_within_limit():
    """The lease that the agent keeps for its client counts under its rule, but not against its RESUME."""
    if os.getuid() != 0:
        skip("the limit of another user", "only root can become other users")
        return
    os.chmod(lab.directory, 0o711)
    os.chmod(agent.socket_path, 0o666)
    agent.write_config(CONFIG + 'rule "limited*" { max_leases = 1 }\n')
    agent.replace()
    agent.refuse = True
    with user(20001):
        client = agent.client(3)
    grant = client.acquire("limited", "RESUMABLE")
    agent.replace()
    with user(20001):
        back = agent.client(3)
    begins(back.acquire("limited too"), "QUOTA rule", "a lease that may be resumed counts")
    resumed = lab.as_map(back.call("RESUME", "limited", grant["secret"], "WAIT", 3000))
    equal(isinstance(resumed, dict) and resumed["fence"], grant["fence"], "its client resumes it")
    with user(20002):
        other = agent.client(3)
    other.acquire("limited too")
    begins(other.call("RESUME", "limited", grant["secret"], "WAIT", 0), "QUOTA rule", "another user may not")
    for each in client, back, other:
        each.close()
    agent.refuse = False
    agent.write_config(CONFIG)
    agent.replace()


def test_not_stored_beyond_max_leases():
    """The leases that the agent keeps for their clients count for max_leases, but not against RESUME."""
    agent.refuse = True
    client = agent.client(3)
    grants = {name: client.acquire(name, "RESUMABLE") for name in ("one", "two")}
    agent.write_config(CONFIG + "max_leases = 1\n")
    agent.replace()
    back = agent.client(3)
    begins(back.acquire("three"), "QUOTA", "another lease is one too many")
    for name, grant in grants.items():
        resumed = lab.as_map(back.call("RESUME", name, grant["secret"], "WAIT", 3000))
        equal(isinstance(resumed, dict) and resumed["fence"], grant["fence"], "a former lease is resumed")
    for each in client, back:
        each.close()
    agent.refuse = False
    agent.write_config(CONFIG)
    agent.replace()


def test_other_version():
    client = agent.client(3)
    client.acquire("versioned", "TTL", 2000)
    agent.wait_stored(client)
    with agent.lock:
        ledger = [fd for name, fd in agent.store if name.startswith("ledger-")][0]
        with mmap.mmap(ledger, 4096) as memory:
            memory[8:12] = struct.pack("<I", 99)
    agent.replace()
    ok("ledger of the former process: not of this version" in agent.log_text(),
       "a ledger of another version is not read")
    try:
        client.read()
        ok(False, "its connections are closed")
    except ConnectionError:
        ok(True, "its connections are closed")
    equal([name.split("-")[0] for name in agent.names()], ["ledger"], "and leave the store")
    ok(isinstance(agent.client(3).acquire("versioned", "WAIT", 20000), dict),
       "its leases end by their ttl")


def test_host_changed():
    """The keys name the host: under another name the leases would be lost."""
    client = agent.client(3)
    grant = client.acquire("hosted", "TTL", 8000)
    host = client.call("LEADER", "hosted")["host"]
    agent.wait_stored(client)
    agent.write_config(CONFIG + 'host = "renamed"\n')
    agent.replace()
    ok("goes on as %s" % host in agent.log_text() and "renamed takes effect when" in agent.log_text(),
       "another host name waits until the agent is stopped")
    ok(client.call("CHECK", grant["id"]) > 0 and quiet(client), "and the lease continues")
    equal(client.call("LEADER", "hosted")["host"], host, "under the former name")
    client.call("RELEASE", grant["id"])
    client.call("QUIT")
    other = agent.client(3)
    lab.wait_for(lambda: other.call("STATUS")["leases"] == 0, what="no lease")
    agent.wait_stored(other)
    agent.replace()
    grant = other.acquire("hosted")
    equal(other.call("LEADER", "hosted")["host"], "renamed", "without leases a restart is enough")
    other.call("RELEASE", grant["id"])
    other.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_store_is_tidy():
    client = agent.client(3)
    client.acquire("tidy")
    agent.wait_stored(client)
    name = session_name(client)
    client.call("QUIT")
    lab.wait_for(lambda: name not in agent.names(), what="the end in the store")
    ok(True, "a session that quits leaves the store")
    garbler = agent.client(3)
    garbler.acquire("garbled")
    agent.wait_stored(garbler)
    name = session_name(garbler)
    garbler.send_raw(b"*1\r\n?\r\n")
    begins(garbler.reply(), "ERR protocol", "a session with a malformed request")
    lab.wait_for(lambda: name not in agent.names(), what="the end in the store")
    try:
        while True:
            garbler.read()
    except ConnectionError:
        ok(True, "is closed, even though the manager had a copy")
    before, names = len(agent.said), {True: set(), False: set()}
    for _ in range(50):
        begun, short = lab.now(), agent.client()
        name = session_name(short)
        short.close()
        names[lab.now() < begun + 0.9].add(name)  # a connection that lasts for a second is stored
    short_names = names[True] - names[False]
    agent.read_all()
    stored = {said["FDNAME"] for said in agent.said[before:] if "FDSTORE" in said}
    ok(short_names and not short_names & stored, "short connections without a lease are not stored")
    idle = agent.client()
    idle.call("PING")
    agent.wait_stored(idle)
    ok(True, "a connection that lasts is stored")
    agent.replace()
    equal(idle.call("PING"), "PONG", "and continues")


def test_full_store():
    """systemd passes all names in one string, and Linux executes no process with one of 131,072 bytes."""
    clients = [agent.client(3) for _ in range(20)]
    for client in clients:
        page_of(client).close()
    agent.wait_stored(*clients)
    names = [session_name(client) for client in clients]
    lab.wait_for(lambda: sum(agent.names().count(name) for name in names) == 2 * len(names),
                 what="the pages in the store")
    unit = pages.read("units/redlockd.service.in")
    most = int(re.search(r"^FileDescriptorStoreMax=(\d+)$", unit, re.M).group(1))
    others = ["redlockd.socket"] + 4 * agent.ledgers()
    bytes_of = [len(name) + 1 for name in others + (most * names)[:most]]
    within(len("LISTEN_FDNAMES=") + sum(bytes_of), 0, 131071, "the names of a full store, in bytes")
    for client in clients:
        client.close()


def test_long_names():
    """A former version stored sessions under longer names: these go on, and leave the store as any other."""
    clients = [agent.client(3) for _ in range(2)]
    page = page_of(clients[0])
    grants = [client.acquire("long-name-%d" % i, "TTL", 8000) for i, client in enumerate(clients)]
    agent.wait_stored(*clients)
    lab.wait_for(lambda: agent.names().count(session_name(clients[0])) == 2, what="the page in the store")
    long_names = {session_name(client): "session-%016x" % client.call("CLIENT", "ID") for client in clients}
    with agent.lock:
        agent.store = [(long_names.get(name, name), fd) for name, fd in agent.store]
    names = list(long_names.values())
    for what in "the next process", "and the one after it":
        agent.replace()
        ok(all(client.call("CHECK", grant["id"]) > 0 and quiet(client)
               for client, grant in zip(clients, grants)), "%s continues sessions with long names" % what)
    lab.wait_for(lambda: struct.unpack_from("<Qq", page, 64 + 16 * grants[0]["slot"])[1] >
                 grants[0]["deadline"] + 10**9, what="the new deadline in the page")
    page_of(clients[1]).close()
    lab.wait_for(lambda: [agent.names().count(name) for name in names] == [2, 2], what="the second page")
    ok(True, "a page gets the name of its session")
    agent.replace()
    ok(all(client.call("CHECK", grant["id"]) > 0 for client, grant in zip(clients, grants)),
       "session and page continue")
    for client in clients:
        client.close()
    lab.wait_for(lambda: not set(names) & set(agent.names()), what="the end in the store")
    page.close()


def test_no_room():
    """Room for one more name: what is stored is as much as the next process can be executed with."""
    first = agent.client(3)
    grant = first.acquire("with-room", "TTL", 8000)
    agent.wait_stored(first)
    name, long_name = session_name(first), "session-%016x" % first.call("CLIENT", "ID")
    with agent.lock:
        fd = [fd for other, fd in agent.store if other == name][0]
        agent.store = [(long_name if other == name else other, fd) for other, fd in agent.store]
        while sum(len(other) + 1 for other, fd in agent.store if is_session(other)) <= 126976 - 25 - 5:
            agent.store.append((long_name, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)))
    agent.replace()
    clients = [agent.client(3) for _ in range(12)]
    for i, client in enumerate(clients):
        client.acquire("without-room-%d" % i)
    line = "can't store it: the store is full; it ends with this agent"
    ok(lab.wait_for(lambda: line in agent.log_text(), what="the log's line"), "the log has it")
    names = {session_name(client) for client in clients}
    lab.wait_for(lambda: names & set(agent.names()), what="a session for which there is room")
    within(len(names & set(agent.names())), 1, 11, "sessions for whose names there is room are stored")
    agent.replace()
    ok(first.call("CHECK", grant["id"]) > 0, "the next process can be executed, and continues the first")
    for client in clients:
        client.close()
    late = agent.client(3)
    late.acquire("late")
    first.close()
    agent.wait_stored(late)
    ok(True, "a session that had no room is stored when there is some")
    late.close()


def test_socket_name():
    """FileDescriptorName= of the socket may look like a session's name."""
    agent.listener_name = "main"
    agent.replace()
    equal(agent.client().call("PING"), "PONG", "an agent whose socket has a name of four letters serves")
    agent.listener_name = "redlockd.socket"
    agent.replace()


def ids_after(client):
    """The ids of this session and of 20 more in turn, while the manager reads nothing."""
    with agent.busy_manager():
        ids = []
        for _ in range(20):
            ids.append(client.call("CLIENT", "ID"))
            client.call("QUIT")
            client.close()
            client = agent.client()
        client.close()
    return ids


def test_name_in_use():
    """While the manager has not removed a session, its name is no other session's: the next process would
    mistake one for the other."""
    client = agent.client(3)
    client.acquire("named")
    agent.wait_stored(client)
    ids = ids_after(client)
    equal(len({one % 2**20 for one in ids}), 1, "sessions in turn have one slot")
    ok(name_of(ids[0]) not in map(name_of, ids[1:]), "but not the name of the one to be removed")
    lab.wait_for(lambda: name_of(ids[0]) not in agent.names(), what="the removal")


def test_busy_manager():
    """While the manager stands still, as in a daemon-reload, the agent serves, and reports later."""
    os.environ["WATCHDOG_USEC"] = str(int(8e5 * lab.SCALE))  # a WATCHDOG=1 each 200 ms
    agent.replace()
    del os.environ["WATCHDOG_USEC"]
    client = agent.client(3)
    ttl = 1.2 * lab.SCALE
    grant = client.acquire("stalled", "TTL", int(1000 * ttl))
    agent.wait_stored(client)
    reloads = agent.log_text().count("reload: %s applied" % agent.config_path)
    said = len(agent.said)
    with agent.busy_manager():
        begun, longest = lab.now(), 0
        agent.process.send_signal(signal.SIGHUP)
        while lab.now() < begun + 1.1 * ttl:
            asked = lab.now()
            client.call("PING")
            longest = max(longest, lab.now() - asked)
        ok(longest < lab.SCALE, "a PING is answered while the manager reads nothing: %.3f s" % longest)
        ok(client.call("CHECK", grant["id"]) > 0 and quiet(client), "and a lease is held beyond its ttl")
        lab.wait_for(lambda: agent.log_text().count("reload: %s applied" % agent.config_path) > reloads,
                     what="the reload")
    lab.wait_for(lambda: any("WATCHDOG" in one for one in agent.said[said:]), what="the watchdog's message")
    states = [word for one in agent.said[said:] for word in ("RELOADING", "READY") if word in one]
    equal(states, ["RELOADING", "READY"], "then the manager gets what it must know, in order")
    ok(all("MONOTONIC_USEC" in one for one in agent.said[said:] if "RELOADING" in one), "with the time")
    client.close()
    agent.replace()


def test_many():
    """Many connections and leases; then the next process has a smaller limit."""
    clients = [agent.client(3) for _ in range(60)]
    held = [[client.acquire("many-%d-%d" % (i, j)) for j in range(5)] for i, client in enumerate(clients)]
    agent.wait_stored(*clients)
    agent.replace()
    ok(all(client.call("CHECK", grant["id"]) > 0 for client, grants in zip(clients, held)
           for grant in grants), "60 clients with 5 leases each continue")
    lab.wait_for(lambda: agent.status()["extensions"] >= 0 and all(
        node.call("GET", "many-59-4") is not None for node in nodes), what="the leases")
    agent.write_config(CONFIG + "max_sessions = 40\n")
    agent.replace()
    ok(all(client.call("CHECK", grants[0]["id"]) > 0 and quiet(client)
           for client, grants in zip(clients, held)), "with a limit of 40 all 60 continue")
    ok(lab.wait_for(lambda: "restart: continues agent" in agent.log_text(), what="the log's line"),
       "and the log has the numbers")
    begins(agent.client().read(), "QUOTA the agent has max_sessions connections: 40",
           "but no further one is accepted")
    for client in clients:
        client.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_high_slots():
    """A session keeps its slot, whatever few sessions are allowed now."""
    clients = [agent.client(3) for _ in range(12)]
    high = max(clients, key=lambda client: client.call("CLIENT", "ID") % 2**20)
    grant = high.acquire("high-slot")
    agent.wait_stored(high)
    for client in clients:
        if client is not high:
            client.close()
    agent.write_config(CONFIG + "max_sessions = 2\n")
    agent.replace()
    ok(high.call("CHECK", grant["id"]) > 0 and quiet(high), "one session in a high slot goes on")
    second = agent.client()
    equal(second.call("PING"), "PONG", "beside as many as are allowed")
    begins(agent.client().read(), "QUOTA the agent has max_sessions connections: 2", "but no more")
    second.close()
    agent.replace()
    ok(high.call("CHECK", grant["id"]) > 0 and quiet(high), "the next restart ends none either")
    high.close()
    agent.write_config(CONFIG)
    agent.replace()


def continues(client, grant):
    try:
        return client.call("CHECK", grant["id"]) > 0
    except OSError:
        return False


def test_few_descriptors():
    """A session needs a descriptor to go on, and one more by which its process is watched. The agent keeps
    those for the nodes, without which all leases would end."""
    if not shutil.which("prlimit"):
        skip("a restart without descriptors", "no prlimit here")
        return
    count = 40
    for limit in range(64 + 12 * agent.keepers, 142, 4):
        clients = [agent.client(3) for _ in range(count)]
        grants = [client.acquire("few-%d-%d" % (limit, i)) for i, client in enumerate(clients)]
        agent.wait_stored(*clients)
        agent.prefix = ["prlimit", "--nofile=%d" % limit]
        agent.replace()
        went_on = sum(continues(client, grant) for client, grant in zip(clients, grants))
        equal(went_on, count, "with a limit of %d all %d sessions go on" % (limit, count))
        agent.wait_voting(3)
        ok(True, "all nodes vote")
        agent.prefix = ()
        for client in clients:
            client.close()
        agent.replace()


def test_fewer_leases():
    """The next process allows fewer leases than there are, and needs more slots than that: all go on with
    their ids, and no more are granted."""
    count = 4200  # the smallest registry has 4,096 slots
    agent.write_config(CONFIG + "max_leases = 8192\n")
    agent.replace()
    client = agent.client(3)
    for begin in range(0, count, 300):
        client.send_raw(b"".join(b"ACQUIRE few-%d ASYNC\r\n" % i for i in range(begin, begin + 300)))
        replies = [client.reply() for _ in range(300)]
        ids = [client.push("granted")[1] for _ in range(300)]
        assert sorted(ids) == sorted(reply[1] for reply in replies)
    agent.wait_stored(client)
    agent.write_config(CONFIG + "max_leases = 1000\n")
    agent.replace()
    ok(all(client.call("CHECK", one) > 0 for one in ids), "a smaller max_leases: the last 300 leases go on")
    equal(agent.status()["leases"], count, "all of them")
    ok(quiet(client), "and no client gets a push")
    begins(client.call("ACQUIRE", "one-more"), "QUOTA", "but no more are granted")
    client.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_shorter_max_ttl():
    """The next process does not allow the lease's ttl, so does not extend it: a warning at once."""
    former, present = int(8 * lab.SCALE), int(6 * lab.SCALE)  # longer than a restart beside other tests
    agent.write_config(TTL_CONFIG % {"ttl": former})
    agent.replace()
    client, second = agent.client(3), agent.client(3)
    grant = client.acquire("long", "TTL", former * 1000)
    kept = second.acquire("kept", "TTL", present * 1000)
    agent.wait_stored(client, second)
    agent.write_config(TTL_CONFIG % {"ttl": present})
    agent.replace()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "a smaller max_ttl: at-risk after the restart")
    line = "1 leases have a ttl above max_ttl (%d ms)" % (present * 1000)
    ok(lab.wait_for(lambda: line in agent.log_text(), what="the log's line"), "the log has their number")
    ok(second.call("CHECK", kept["id"]) > 0 and quiet(second), "another lease goes on")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "no-quorum"], "it ends at its deadline: lost, for the same reason")
    ok("max_ttl is shorter" in push[3], "and the text has the cause")
    line = 'redlock_losses_total{reason="no-quorum"} 1\n'
    ok(lab.wait_for(lambda: line in lab.redlock_run(agent, "metrics")[1], what="the count of the loss"),
       "the loss counts as one that the holder did not want")
    for one in client, second:
        one.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_left_out():
    """A RESUME that waits for a majority, and that the next process may not go on with."""
    agent.write_config(TTL_CONFIG % {"ttl": int(8 * lab.SCALE)})  # as in test_shorter_max_ttl
    agent.replace()
    client = agent.client(3)
    grant = client.acquire("resumed", "RESUMABLE")
    equal(client.call("RELEASE", grant["id"]), 1, "the lease is released")
    # A RESUME fails at once while the release is under way to any node.
    lab.wait_for(lambda: not any(node.call("EXISTS", "resumed") for node in nodes),
                 what="the release at all nodes")
    for _ in range(2):
        agent.status()  # surveys the keepers, which have the nodes' answers by then
    for node in nodes[:2]:
        node.stop()
    waits = client.call("RESUME", "resumed", grant["secret"], "ASYNC")
    agent.wait_stored(client)
    agent.write_config(TTL_CONFIG % {"ttl": 6})
    agent.replace()
    push = client.push("failed")
    equal(push[1:], [waits[1], "NOQUORUM the restarted agent does not continue the request"],
          "it fails at the restart")
    agent.wait_stored(client)
    agent.replace()
    ok(quiet(client), "and only once")
    for node in nodes[:2]:
        node.cont()
    client.close()
    agent.write_config(CONFIG)
    agent.replace()
    agent.wait_voting(3)


def test_other_key_format():
    """Under another key_format the nodes show no key of a lease, which its client may consider valid."""
    configuration = TTL_CONFIG % {"ttl": int(8 * lab.SCALE)}  # as in test_shorter_max_ttl
    agent.write_config(configuration)
    agent.replace()
    client, other = agent.client(3), agent.client(3)
    grant = client.acquire("moved")
    agent.wait_stored(client, other)
    agent.write_config(configuration + 'key_format = "x:{name}"\n')
    agent.replace()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "another key_format: at-risk after the restart")
    line = "1 leases have keys of the former key_format"
    ok(lab.wait_for(lambda: line in agent.log_text(), what="the log's line"), "the log has their number")
    agent.wait_voting(3)
    begins(other.call("ACQUIRE", "moved"), "BUSY held by process", "the name has its holder")
    equal([node.call("EXISTS", "moved") for node in nodes], [1, 1, 1], "and its keys")
    equal(client.call("RELEASE", grant["id"]), 1, "until its holder releases it")
    ok(isinstance(other.acquire("moved"), dict), "then another client gets it")
    equal([node.call("EXISTS", "x:moved") for node in nodes], [1, 1, 1], "with other keys")
    for one in client, other:
        one.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_waits_under_smaller_limits():
    """Requests that wait, without a reply so far, are neither rejected by a smaller max_ttl nor by a smaller
    max_leases. They count before a request that came earlier, but only in part."""
    holder, waiter, half = agent.client(3), agent.client(3), agent.client(3)
    held = holder.acquire("waited for", "TTL", 7000)
    stored = session_name(waiter)
    half.call("OBSERVE", "waited for")  # so that its connection is stored
    agent.wait_stored(half)
    half.send_raw(b"*2\r\n$7\r\nACQUIRE\r\n$4\r\nha")
    agent.status()  # the agent's turn
    waiter.send("ACQUIRE", "waited for", "TTL", 8000, "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    agent.wait_stored(holder)
    lab.wait_for(lambda: stored in agent.names(), what="the waiter in the store")
    agent.write_config('default_ttl = "7s"\nmax_ttl = "7s"\nmax_leases = 2\nnode_timeout = "2s"\n')
    agent.kill()
    half.send_raw(b"lf\r\n")
    agent.start()
    rejected = "QUOTA the agent has 2 leases and waiters"
    begins(half.reply(), rejected, "a request that was not whole before is rejected")
    late = agent.client(3)
    begins(late.acquire("another"), rejected, "as a new request is")
    holder.call("RELEASE", held["id"])
    grant = lab.as_map(waiter.reply())
    ok(isinstance(grant, dict) and waiter.call("CHECK", grant["id"]) <= 7000,
       "one that waits gets its lease, with the smaller ttl: %s" % grant)
    for one in holder, waiter, half, late:
        one.close()
    agent.write_config(CONFIG)
    agent.replace()


def test_without_manager():
    alone = lab.Agent(nodes, CONFIG, start=False)
    process = subprocess.run(
        [lab.REDLOCKD, "--config", alone.config_path, "--store", "--check-config"], capture_output=True,
        text=True)
    equal(process.returncode, 0, "--store is a known option")
    environment = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    log = open(alone.log_path, "a")
    alone.process = lab.spawn([lab.REDLOCKD, "--config", alone.config_path, "--store"], stderr=log,
                              env=environment)
    lab.wait_for(lambda: "serving" in alone.log_text(), what="its start")
    ok("--store: no service manager" in alone.log_text(), "without a service manager the log has a warning")
    client = alone.client(3)
    ok(isinstance(client.acquire("alone"), dict), "and the agent serves")
    client.close()
    alone.terminate()


main(test_not_stored, test_not_stored_within_limit, test_not_stored_beyond_max_leases,
     test_other_version, test_host_changed,
     test_store_is_tidy, test_full_store, test_long_names, test_no_room, test_socket_name,
     test_name_in_use, test_busy_manager, test_many, test_high_slots, test_few_descriptors,
     test_fewer_leases, test_shorter_max_ttl, test_waits_under_smaller_limits,
     test_left_out, test_other_key_format, test_without_manager)
