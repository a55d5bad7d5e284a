"""Malformed and excessive input, and the limits. Meanwhile another client keeps its lease."""

import os
import random
import re
import socket
import threading

import lab
from tap import begins, equal, main, ok, skip

nodes = lab.nodes(3)
agent = lab.Agent(nodes, "max_sessions = 200\nmax_leases = 5000\nmax_ttl = \"30s\"\n" + lab.UNHURRIED)
witness = agent.client(3)
witnessed = witness.acquire("witness", "TTL", 5000)


def witness_is_fine(what):
    ok(witness.call("CHECK", witnessed["id"]) > 0, "%s: another client keeps its lease" % what)


def ended(client):
    """Whether the agent closes the connection."""
    try:
        while True:
            client.read()
    except ConnectionError:
        return True
    except OSError:
        return True
    except TimeoutError:
        return False


def answer_to(raw):
    client = agent.client()
    try:
        client.send_raw(raw)
    except OSError:
        pass
    answer = client.read()
    return answer, client


def test_protocol_errors():
    for raw, what in ((b"*1000000\r\n", "a request of a million items"),
                      (b"*2\r\n$7\r\nACQUIRE\r\n$1073741824\r\n", "an item of a gigabyte"),
                      (b"*1\r\n$-5\r\n", "a negative length"),
                      (b"*-1\r\n", "a negative count"),
                      (b"*1\r\n:5\r\n", "an item that is not a string"),
                      (b"*x\r\n", "a count that is not a number"),
                      (b"*99999999999999999999999\r\n", "a count beyond 64 bits"),
                      (b"\x00\x01\x02\xff\xfe" * 100, "binary noise"),
                      (b"\x16\x03\x01\x02\x00", "a TLS greeting"),
                      (b"P" * 5000 + b"\x01\r\n", "a line of 5,000 bytes that is not text"),
                      (b"P" * (1 << 20) + b"P" * 5000, "a line of more than a megabyte"),
                      (b"*2\r\n$5000\r\n" + b"x" * 5000 + b"xx$1\r\nx\r\n", "a large item without its end"),
                      (b"*40\r\n" + b"$1\r\nx\r\n" * 33 + b":1\r\n", "33 items and a number"),
                      (b"*2\r\n$1048000\r\n" + b"x" * 1048000 + b"\r\n$600\r\n" + b"x" * 600,
                       "more than a megabyte in all")):
        answer, client = answer_to(raw)
        begins(answer, "ERR protocol: ", "%s is a protocol error" % what)
        ok(ended(client), "and ends the session")
    witness_is_fine("after them")


def test_too_large_requests():
    client = agent.client(3)
    grant = client.acquire("goes-on")
    for raw, what in ((b"*3\r\n$7\r\nACQUIRE\r\n$1\r\nx\r\n$4097\r\n" + b"x" * 4097 + b"\r\n",
                       "an item of 4,097 bytes"),
                      (b"*4\r\n$4\r\nPING\r\n$0\r\n\r\n$1000000\r\n" + b"x" * 1000000 + b"\r\n$1\r\nx\r\n",
                       "an item of a megabyte"),
                      (b"*33\r\n" + b"$1\r\nx\r\n" * 33, "33 items"),
                      (b"P" * 5000 + b"\r\n", "a line of 5,000 bytes")):
        threading.Thread(target=client.send_raw, args=(raw + b"PING\r\n",)).start()
        begins(client.reply(), "BADARG a request has at most 32 items", "%s gets BADARG" % what)
        equal(client.reply(), "PONG", "and is skipped: the next request gets its reply")
    for byte in b"*2\r\n$4\r\nPING\r\n$4097\r\n" + b"x" * 4097 + b"\r\n":
        client.send_raw(bytes([byte]))
    begins(client.reply(), "BADARG", "the same byte by byte")
    ok(client.call("CHECK", grant["id"]) > 0 and client.pushes == [], "the session keeps its lease")
    client.close()


def losses_closed(client):
    return int(re.search(r'^redlock_losses_total{reason="closed"} (\d+)$', client.call("METRICS"), re.M)[1])


def test_lost_before_the_end():
    other = agent.client()
    before = losses_closed(other)
    client = agent.client(3)
    grant = client.acquire("expelled", "TTL", 6000)
    lab.wait_for(lambda: lab.keys_on(nodes, "expelled") == 3, what="the key on all nodes")
    client.send_raw(b"*1\r\n:1\r\n")
    begins(client.reply(), "ERR protocol", "a malformed request")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "closed"], "the session gets lost, with the reason")
    ok(ended(client), "before the connection is closed")
    equal(losses_closed(other), before + 1, "and METRICS counts it at once")
    equal(lab.keys_on(nodes, "expelled"), 3, "the keys stay while the client's process lives")
    begins(other.acquire("expelled"), "BUSY", "so other clients get BUSY")
    ok("id" in other.acquire("expelled", "WAIT", 20000), "the keys expire by their ttl")
    equal(losses_closed(other), before + 1, "the loss is counted once")
    other.close()


def test_half_a_request():
    silent = [agent.client() for _ in range(50)]
    for i, client in enumerate(silent):
        client.send_raw(b"*2\r\n$7\r\nACQUIRE\r\n$5\r\nhalf"[:i + 1])
    times = []
    busy = agent.client()
    for i in range(100):
        begun = lab.now()
        grant = busy.acquire("beside")
        busy.call("RELEASE", grant["id"])
        times.append(lab.now() - begun)
    ok(lab.median(times) < 0.05 * lab.SCALE,
       "fifty clients that stall within a request don't delay others")
    for client in silent:
        client.close()
    busy.close()
    witness_is_fine("beside them")


def test_byte_by_byte():
    client = agent.client()
    for byte in b"*2\r\n$7\r\nACQUIRE\r\n$4\r\ndrip\r\n":
        client.send_raw(bytes([byte]))
    ok("id" in lab.as_map(client.reply()), "a request sent byte by byte gets its reply")
    client.close()


def test_noise():
    generator = random.Random(7)
    commands = [b"ACQUIRE", b"RELEASE", b"CHECK", b"LEADER", b"HELLO", b"ASYNC", b"TTL", b"-1", b"100", b"x",
                b"*2\r\n", b"$3\r\n"]
    for _ in range(300):
        client = agent.client()
        if generator.random() < 0.5:
            data = bytes(generator.randrange(256) for _ in range(generator.randrange(1, 300)))
        else:
            data = b" ".join(generator.choice(commands) for _ in range(generator.randrange(1, 20))) + b"\r\n"
        try:
            client.send_raw(data)
        except OSError:
            pass
        client.close()
    ok(agent.process.poll() is None, "300 connections with noise don't stop the agent")
    witness_is_fine("after the noise")


def test_ranges():
    client = agent.client()
    begins(client.acquire("x", "TTL", 99), "BADARG", "a ttl below 100 ms")
    begins(client.acquire("x", "TTL", 30001), "BADARG TTL wants milliseconds from 100 to 30000",
           "above max_ttl")
    begins(client.acquire(b"x" * 513), "BADNAME", "a name of 513 bytes")
    begins(client.acquire(b""), "BADNAME", "an empty name")
    begins(client.acquire(b"a\xffb"), "BADNAME", "a name that is not UTF-8")
    begins(client.acquire(b"a\nb"), "BADNAME", "a name with a line break")
    ok("id" in client.acquire(b"x" * 512, "DATA", b"\xff" * 1024),
       "the longest name with the longest data is granted")
    begins(client.call("FLUSHALL"), "ERR unknown command", "an unknown command")
    equal(client.call("PING"), "PONG", "errors don't end the session")
    client.close()


def test_too_many_connections():
    lab.wait_for(lambda: agent.status()["sessions"] == 2, what="the end of former sessions")
    clients = [agent.client() for _ in range(199)]  # beside the witness
    for client in clients:
        assert client.call("PING") == "PONG"
    over = agent.client()
    begins(over.read(), "QUOTA the agent has max_sessions connections",
           "a connection over max_sessions gets QUOTA")
    ok(ended(over), "and closed")
    witness_is_fine("at the limit")
    for client in clients:
        client.close()
    lab.wait_for(lambda: agent.status()["sessions"] < 100, what="the end of the sessions")
    ok(agent.client().call("PING") == "PONG", "afterwards new clients are accepted")


def test_too_many_leases():
    client = agent.client()

    def ask():
        for i in range(5200):
            client.send("ACQUIRE", "many %d" % i, "WAIT", -1, "ASYNC")  # also on slow machines
    threading.Thread(target=ask, daemon=True).start()  # the agent stops reading when its replies are unread
    rejected = 0
    answered = 0
    while answered < 5200:
        value = client.read()
        if isinstance(value, Exception):
            rejected += 1
        elif value[0] != "waiting":
            continue  # a push
        answered += 1
    ok(200 <= rejected <= 202, "requests over max_leases get QUOTA (%d of 5200)" % rejected)
    client.close()
    lab.wait_for(lambda: agent.status()["leases"] == 1, 30, "the releases")
    witness_is_fine("after them")


def test_slow_reader():
    client = agent.client(3)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.setblocking(False)
    sent = 0
    request = b"ECHO " + b"x" * 4000 + b"\r\n"
    try:
        while sent < 20000:
            client.socket.send(request)
            sent += 1
    except OSError:
        pass
    ok(sent < 20000, "the agent stops reading from a client that doesn't read (after %d requests)" % sent)
    with open("/proc/%d/status" % agent.process.pid) as file:
        rss = [int(line.split()[1]) for line in file if line.startswith("VmRSS")][0]
    ok(rss < 200 * 1024 * lab.SCALE, "and the agent's memory stays limited (%d KiB)" % rss)
    client.close()
    witness_is_fine("beside a slow reader")


def test_descriptors():
    client = agent.client()
    left, right = socket.socketpair()
    try:
        socket.send_fds(client.socket, [b"PING\r\n"], [left.fileno(), right.fileno()])
    except PermissionError:
        skip("descriptors that a client sends", "the kernel refuses them (Linux 6.16): test_connections")
        return
    equal(client.reply(), "PONG", "descriptors that a client sends are ignored")
    left.close()
    ok(right.recv(1) == b"", "and closed")
    client.close()


main(test_protocol_errors, test_too_large_requests, test_lost_before_the_end, test_half_a_request,
     test_byte_by_byte, test_noise,
     test_ranges,
     test_too_many_connections, test_too_many_leases, test_slow_reader, test_descriptors)
