"""What the redlock command makes of an agent's replies that are not of the protocol: it ends soon, with exit
status 69 and a text. Keys and values that it does not know, also odd ones, are ignored."""

import os
import re
import socket
import subprocess
import threading
import time

import lab
from tap import SCALE, equal, main, ok, within

LONGEST = 1.5 * SCALE
HELLO = b"%%2\r\n$5\r\nproto\r\n:3\r\n$3\r\nnow\r\n:%d\r\n"


class FakeAgent(lab.FakeServer):
    """Greets like an agent, and gives each request the reply to its word, or the next one of a list."""

    def __init__(self):
        self.replies = {}
        super().__init__()

    def _reply(self, word, items):
        if word == b"HELLO":
            return HELLO % int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e9)
        reply = self.replies.get(word, [])
        if isinstance(reply, bytes):
            return reply
        return reply.pop(0) if reply else b"-ERR no further reply\r\n"


agent = FakeAgent()


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def a_map(*items):
    return b"%%%d\r\n" % (len(items) // 2) + b"".join(
        item if item[-2:] == b"\r\n" else bulk(item) for item in items)


def call(*arguments, **replies):
    """Exit status, standard output, standard error, and the time."""
    agent.replies = {word.encode(): reply for word, reply in replies.items()}
    begun = time.monotonic()
    done = lab.redlock_run(agent, *arguments, timeout=20)
    return (*done, time.monotonic() - begun)


# A reply of each form, by the name that messages have for it; and others.
FORMS = {
    "OK": b"+OK\r\n", "a text": bulk(b"a"), "an array of maps": b"*1\r\n%0\r\n",
    "a map": a_map(b"a", b"b"), "nil, or a map with a validity,": b"_\r\n",
    "an integer": b":5\r\n", "a huge integer": b":9223372036854775807\r\n", "a boolean": b"#t\r\n",
    "a double": b",1.5\r\n", "an array with an integer": b"*2\r\n%0\r\n:1\r\n",
    "nested arrays": b"*1\r\n*1\r\n*1\r\n:1\r\n",
    "a validity that is a text": a_map(b"validity", b"5"), "an array of nil": b"*1\r\n_\r\n",
}
MAP, MAPS, HOLDER = "a map", "an array of maps", "nil, or a map with a validity,"
COMMANDS = [
    (("status",), "STATUS", MAP), (("status", "--json"), "STATUS", MAP), (("check",), "STATUS", MAP),
    (("whoami",), "WHOAMI", MAP), (("whoami", "--json", "x"), "WHOAMI", MAP), (("nodes",), "NODES", MAPS),
    (("nodes", "--json"), "NODES", MAPS), (("leases",), "LEASES", MAPS),
    (("leases", "--json"), "LEASES", MAPS), (("release", "x"), "LEASES", MAPS),
    (("history", "x"), "HISTORY", MAPS), (("history", "--json", "x"), "HISTORY", MAPS),
    (("leader", "x"), "LEADER", HOLDER), (("leader", "--json", "x"), "LEADER", HOLDER),
    (("check", "x"), "LEADER", HOLDER), (("metrics",), "METRICS", "a text"),
    (("nodes", "--bless", "a"), "BLESS", "OK"),
]


def test_forms():
    for arguments, word, form in COMMANDS:
        expected = "redlock: [^ ]+: the agent's reply violates the protocol: " \
                   "expected %s as the reply to %s\n" % (form, word)
        wrong, longest = [], 0
        for name, reply in FORMS.items():
            if name == form or (form == MAP and name == "a validity that is a text"):
                continue
            status, _, errors, took = call(*arguments, **{word: reply})
            longest = max(longest, took)
            if status != 69 or not re.fullmatch(expected, errors):
                wrong.append((name, status, errors))
        equal(wrong, [], "%s: 69, and what was expected, for a reply to %s that is not %s" % (
            " ".join(arguments), word, form))
        within(longest, 0, LONGEST, "at once")


def test_bytes():
    for arguments, word, _ in COMMANDS:
        wrong = []
        for reply in b"?\r\n", b"%1\r\n", b"*99999999\r\n", b"%1\r\n%1\r\n%1\r\n%1\r\n%1\r\n%1\r\n:1\r\n":
            agent.replies = {}
            begun = time.monotonic()
            done = run_and_hang_up(arguments, word, reply)
            if done[0] != 69 or not done[1].startswith("redlock: ") or time.monotonic() - begun > LONGEST:
                wrong.append((reply, *done))
        equal(wrong, [], "%s: 69 for bytes that are no reply, and a half reply" % " ".join(arguments))


def run_and_hang_up(arguments, word, reply):
    """With an agent that closes the connection after its reply."""
    path = lab.path("hangs-up")
    listening = lab.listener(path)

    def serve():
        client = listening.accept()[0]
        data = b""
        while b"HELLO" not in data:
            data += client.recv(4096)
        client.sendall(HELLO % int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e9))
        while word.encode() not in data:
            data += client.recv(4096)
        client.sendall(reply)
        client.shutdown(socket.SHUT_WR)
        os.unlink(path)
        listening.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    done = subprocess.run([lab.REDLOCK, "--socket", path, *arguments], capture_output=True, text=True,
                          timeout=30)
    thread.join()
    return done.returncode, done.stderr


def test_numbers():
    """The library's own requests: no number passes for one of its errors."""
    status, out, errors, took = call("watch", "x", OBSERVE=b":-5\r\n")
    equal((status, out, errors), (69, "", "redlock: x: the agent's reply violates the protocol: "
                                          "expected a number from 0 as the reply\n"), "watch: 69 for -5")
    within(took, 0, LONGEST, "at once")
    agent.replies = {b"OBSERVE": b":4294967291\r\n" + b">3\r\n" + bulk(b"leader") + bulk(b"x") + a_map(
        b"state", b"held", b"holder", b"h\x1b[2J\0", b"host", b":1\r\n",
        b"since", b":9223372036854775807\r\n")}
    process = lab.redlock(agent, "watch", "x")
    line = process.stdout.readline()
    ok(line.startswith("x  h?[2J") and "since 1970-" in line, "nor does a huge one; the push is read")
    process.kill()
    process.wait()


def test_top():
    for word in "STATUS", "NODES", "METRICS", "LEASES":
        replies = {"STATUS": a_map(b"agent", b"1"), "NODES": b"*0\r\n", "METRICS": bulk(b""),
                   "LEASES": b"*0\r\n"}
        replies[word] = b":5\r\n"
        status, _, errors, took = call("top", "--once", **replies)
        equal((status, errors), (69, "redlock: top: the agent's reply violates the protocol\n"),
              "top: the same for %s" % word)
        within(took, 0, LONGEST, "at once")


def test_values():
    """Values of another type count as missing, keys that are not known as well."""
    many = b"*16000\r\n" + b":1\r\n" * 16000
    for command, word in ("status", "STATUS"), ("whoami", "WHOAMI"):
        equal(call(command, **{word: a_map(b"q", a_map(b"x", many), b"state", b"ready")})[:3],
              (0, "state              ready\n", ""), "%s: an array where a quota's map should be" % command)
        odd = a_map(b"users", b"*2\r\n%0\r\n" + many, b"a\x1b[2J\0", b"b\x1b\0\x9b")
        equal(call(command, **{word: odd})[1], "user               \na?[2J?             b???\n",
              "%s: a user that is no map; control characters" % command)
    more = a_map(b"more", a_map(b"name", b"z"), b"name", b"a", b"state", b"*1\r\n:5\r\n",
                 b"reason", b":5\r\n")
    status, out, errors, _ = call("nodes", NODES=b"*2\r\n" + more + a_map(b"name", b"b", b"name", b"c"))
    equal((status, errors, re.findall(r"(?m)^\w+", out)), (0, "", ["NODE", "a", "b"]),
          "nodes: a map within a node is not a node; the first of two keys counts")
    status, out, errors, _ = call("nodes", NODES=b"*1\r\n" + a_map(b"name", b"a" * 200000))
    ok(status == 0 and len(out) < 10000, "nodes: a very long name")
    huge = b":9223372036854775807\r\n"
    status, out, errors, _ = call("history", "x", HISTORY=b"*1\r\n" + a_map(
        b"event", b"lost", b"ago", huge, b"after", huge, b"left", huge, b"nodes", a_map(b"a", b"b")))
    equal((status, errors, "1970" in out and " lost " in out), (0, "", True), "history: huge numbers")
    status, out, errors, _ = call("leader", "--json", "x", LEADER=a_map(
        b"validity", b":-1\r\n", b"holder", b":1\r\n", b"since", huge, b"fence", b":-1\r\n",
        b"data", b"*0\r\n"))
    equal((status, errors, '"since":"1970-' in out, '"holder":""' in out), (0, "", True, True),
          "leader: the same")


def test_pages():
    """`LEASES AFTER id` that never ends."""
    page = lambda *ids: b"*%d\r\n" % len(ids) + b"".join(a_map(b"id", b":%d\r\n" % id) for id in ids)
    for what, pages in ("one page again and again", [page(5)]), ("three", [page(5, 6), page(7), page(2)]), (
            "leases without an id", [b"*1\r\n%0\r\n"]):
        status, _, errors, took = call("leases", LEASES=pages * 50)
        equal((status, errors), (69, "redlock: LEASES: the agent's reply violates the protocol: "
                                     "the pages of LEASES have no end, or no ids\n"), "69 for %s" % what)
        within(took, 0, LONGEST, "at once")
    status, out, errors, _ = call("leases", LEASES=[page(9, 5), page(3), page(7), page(1), b"*0\r\n"])
    equal((status, errors, re.findall(r"(?m)^\d+", out)), (0, "", list("95371")),
          "pages in any order have an end")


main(test_forms, test_bytes, test_numbers, test_top, test_values, test_pages)
