"""Half requests and unread replies are in their user's quota: another user has room, whatever one sends."""

import os
import select
import threading

import lab
from tap import begins, equal, main, ok, skip

ALICE, BOB = 65534, 65533
HALF = b"*32\r\n" + (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 31  # the rest is its 32nd item
LIMIT = 8000000

nodes = lab.nodes(3)
os.chmod(lab.directory, 0o711)
agent = lab.Agent(nodes, lab.UNHURRIED + "max_buffered_bytes = 8M")


def client_of(uid):
    os.seteuid(uid)
    try:
        return agent.client()
    finally:
        os.seteuid(0)


def use(client):
    """What the client's user has, and its limit."""
    quota = lab.as_map(lab.as_map(client.call("WHOAMI"))["quota"])
    shown = lab.as_map(quota["max_buffered_bytes"])
    return shown["use"], shown["limit"]


def has_reply(client):
    return bool(select.select([client.socket], [], [], 0)[0])


def is_rejected(client):
    """Sends half a request, and waits for one of two: the agent has all of it, or the error."""
    before = use(observer)[0]
    client.send_raw(HALF)
    lab.wait_for(lambda: use(observer)[0] >= before + len(HALF) or has_reply(client),
                 what="the agent's reading")
    return has_reply(client)


def test_half_requests():
    halves = [client_of(ALICE)]
    while not is_rejected(halves[-1]):
        halves.append(client_of(ALICE))
    begins(halves[-1].read(), "QUOTA max_buffered_bytes: user %d has " % ALICE,
           "half requests beyond a user's share get QUOTA")
    try:
        halves[-1].read()
    except ConnectionError:
        ok(True, "and the connection is closed")
    used, limit = use(observer)
    ok(LIMIT * 3 // 8 < used <= limit == LIMIT // 2, "the user has its half: %d of %d" % (used, limit))
    ok(lab.wait_for(lambda: "its user has no buffers left" in agent.log_text(), what="the log's line"),
       "the log has a line")
    for uid in (BOB, 0):
        other = client_of(uid)
        other.send_raw(HALF)
        other.send_raw(b"$1\r\nx\r\n")
        begins(other.read(), "ERR unknown command", "user %d has its own share" % uid)
        other.close()
    halves[0].send_raw(b"$1\r\nx\r\n")
    begins(halves[0].read(), "ERR unknown command", "a request that was half is served")
    for client in halves:
        client.close()
    lab.wait_for(lambda: use(observer)[0] == 0, what="the return of the bytes")
    ok(True, "with their connections, the bytes are given back")


def test_unread_replies():
    """More than a user's share is asked for, but the agent takes no requests whose replies it can't keep."""
    count, sessions = 200, [client_of(ALICE) for _ in range(100)]
    request = b"*2\r\n$4\r\nECHO\r\n$4096\r\n" + b"y" * 4096 + b"\r\n"
    senders = [threading.Thread(target=client.send_raw, args=(request * count,), daemon=True)
               for client in sessions]
    for sender in senders:
        sender.start()
    lab.wait_for(lambda: use(observer)[0] > LIMIT // 8, what="unread replies")
    other = client_of(BOB)
    equal(other.call("PING"), "PONG", "another user is served")
    ok(use(observer)[0] <= LIMIT // 2, "the replies stay within the user's share")
    replies = [client.read() for client in sessions for _ in range(count)]
    equal(len([reply for reply in replies if reply == "y" * 4096]), count * len(sessions),
          "no session is ended: each gets its replies once it reads")
    for client in (*sessions, other):
        client.close()
    lab.wait_for(lambda: use(observer)[0] == 0, what="the return of the bytes")


def test_slow_observer():
    """Of pushes that are not read the agent keeps a bounded part, then it ends the session, and no other."""
    slow, holder = client_of(ALICE), agent.client(3)
    slow.call("HELLO", 3)
    hers = slow.acquire("hers", "TTL", 60000)["id"]
    names = ["observed-%d-%s" % (i, "n" * 480) for i in range(800)]
    for name in names:
        slow.call("OBSERVE", name)
    before = use(observer)[0]
    held = [holder.acquire(name, "TTL", 60000, "DATA", "d" * 1000)["id"] for name in names]
    line = "session of process %d, user %d: ended: the client reads too slowly; its leases end" % (
        os.getpid(), ALICE)
    ok(lab.wait_for(lambda: line in agent.log_text(), what="the end of the session"),
       "a session that leaves 1.2 MB of pushes unread is ended, with a line in the log")
    equal(agent.log_text().count("reads too slowly"), 1, "no other session is")
    ok(use(observer)[0] <= before, "the bytes are given back")
    begins(str(holder.call("ACQUIRE", "hers")), "BUSY",
           "the lease (%d) of a living process is not given away" % hers)
    equal([id for id in held if holder.call("CHECK", id) == 0], [], "the others' leases are held")
    try:
        while True:
            slow.read()
    except (ConnectionError, EOFError):
        ok(True, "the client reads what the socket holds, and the end")
    slow.close()
    holder.close()


if os.geteuid() == 0:
    observer = client_of(ALICE)
    main(test_half_requests, test_unread_replies, test_slow_observer)
else:
    skip("quotas of two users", "only root can be both")
    main()
