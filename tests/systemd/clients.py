"""clients.py SOCKET CLIENTS LEASES TTL_MS: CLIENTS connections of one process, with LEASES leases each.
Prints "ready". Then each connection repeatedly checks one of its leases, and acquires and releases another
lease. At the end of standard input, prints the results as JSON."""

import json
import select
import socket
import sys
import threading
import time

path, n_clients, n_leases, ttl_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
seen = {"answers": 0, "longest_ms": 0.0, "longest": "", "problems": []}
ends = threading.Event()


class Connection:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def value(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("the agent closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.value() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        raise ValueError(line)

    def call(self, *words):
        begun = time.monotonic()
        self.socket.sendall((" ".join(map(str, words)) + "\r\n").encode())
        value = self.value()
        elapsed_ms = (time.monotonic() - begun) * 1000
        if elapsed_ms > seen["longest_ms"]:
            seen["longest_ms"], seen["longest"] = elapsed_ms, words[0]
        seen["answers"] += 1
        return value


def live(number, started):
    try:
        connection = Connection()
        ids = [connection.call("ACQUIRE", "held-%d-%d" % (number, i), "TTL", ttl_ms, "WAIT", 30000)[1]
               for i in range(n_leases)]
        started.release()
        turn = 0
        while not ends.wait(0.02):
            if connection.call("CHECK", ids[turn % n_leases]) <= 0:
                raise ValueError("lease %d is lost" % (turn % n_leases))
            grant = connection.call("ACQUIRE", "short-%d" % number, "WAIT", 30000)
            if connection.call("RELEASE", grant[1]) != 1:
                raise ValueError("a short lease was lost")
            turn += 1
        for lease in ids:
            if connection.call("CHECK", lease) <= 0:
                raise ValueError("a lease is lost at the end")
        if select.select([connection.socket], [], [], 0)[0]:
            raise ValueError("an unexpected reply")
    except Exception as problem:
        seen["problems"].append("client %d: %r" % (number, problem))
        started.release()


started = threading.Semaphore(0)
threads = [threading.Thread(target=live, args=(i, started), daemon=True) for i in range(n_clients)]
for thread in threads:
    thread.start()
for thread in threads:
    started.acquire()
seen["longest_ms"] = 0.0
print("ready", flush=True)
sys.stdin.read()
ends.set()
for thread in threads:
    thread.join(60)
seen["problems"] += ["a client hangs" for thread in threads if thread.is_alive()]
print(json.dumps(seen), flush=True)
