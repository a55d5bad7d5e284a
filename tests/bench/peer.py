#!/usr/bin/python3
"""peer.py redis|etcd MODE ARGUMENT... PLACE...: other lock services of Debian, measured as the agent is.
Prints JSON.

redis: redis-py's Lock, on the one server at PLACE. etcd: its lock service over HTTP, the members at PLACE...
acquire MS; pairs WORKERS MS MOMENT; handoff COUNT; hold NAME TTL-MS; await NAME TTL-MS."""

import base64
import http.client
import json
import os
import sys
import threading
import time

TTL_MS = 10000


def us():
    return time.monotonic() * 1e6


class Redis:
    def __init__(self, places, number=0):
        import redis
        if places[0].startswith("/"):
            self.client = redis.Redis(unix_socket_path=places[0])
            return
        host, port = places[0].rsplit(":", 1)
        self.client = redis.Redis(host=host, port=int(port))

    def acquire(self, name, ttl_ms):
        self.lock = self.client.lock(name, timeout=ttl_ms / 1000, thread_local=False)
        self.lock.acquire()

    def release(self):
        self.lock.release()


class Etcd:
    """One lease for each worker."""

    def __init__(self, places, number=0):
        port = int(places[number % len(places)])
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.connection.connect()
        self.lease = None

    def call(self, path, **request):
        self.connection.request("POST", "/v3/" + path, json.dumps(request))
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError("etcd: %s: %s" % (path, text))
        return json.loads(text)

    def acquire(self, name, ttl_ms):
        if not self.lease:
            self.lease = self.call("lease/grant", TTL=max(1, ttl_ms // 1000))["ID"]
        encoded = base64.b64encode(name.encode()).decode()
        self.key = self.call("lock/lock", name=encoded, lease=self.lease)["key"]

    def release(self):
        self.call("lock/unlock", key=self.key)


def p50(samples):
    return sorted(samples)[len(samples) // 2]


def acquire(peer, places, ms):
    worker, samples = peer(places), []
    name = "peer-%d" % os.getpid()
    worker.acquire(name, TTL_MS)
    worker.release()
    until = us() + float(ms) * 1e3
    while us() < until:
        begun = us()
        worker.acquire(name, TTL_MS)
        samples.append(us() - begun)
        worker.release()
    return {"p50": p50(samples)}


def pairs(peer, places, workers, ms, moment):
    """From that instant of the monotonic clock, for processes that begin together; 0: as soon as all have
    connected."""
    counts = [0] * int(workers)
    gate = threading.Barrier(int(workers) + 1)

    def work(number):
        worker, name = peer(places, number), "peer-%d-%d" % (os.getpid(), number)
        worker.acquire(name, TTL_MS)
        worker.release()
        gate.wait()
        time.sleep(max(0, float(moment) - us()) / 1e6)
        until = us() + float(ms) * 1e3
        while us() < until:
            worker.acquire(name, TTL_MS)
            worker.release()
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    gate.wait()
    if 0 < float(moment) < us():
        raise RuntimeError("began too late")
    begun = max(float(moment), us())
    for thread in threads:
        thread.join()
    return {"pairs_per_second": sum(counts) * 1e6 / (us() - begun)}


def handoff(peer, places, count):
    """The waiter is a thread that comes 60 ms or more before the release."""
    holder, waiter, samples = peer(places), peer(places, 1), []
    name, pause = "peer-%d" % os.getpid(), 0.06
    for number in range(int(count)):
        holder.acquire(name, TTL_MS)
        thread = threading.Thread(target=waiter.acquire, args=(name, TTL_MS))
        thread.start()
        time.sleep(pause + 0.013 * (number % 7))  # not in step with clients that poll
        begun = us()
        holder.release()
        thread.join()
        samples.append(us() - begun)
        waiter.release()
    return {"p50": p50(samples)}


def hold(peer, places, name, ttl_ms):
    peer(places).acquire(name, int(ttl_ms))
    print('{"holding": true}', flush=True)
    sys.stdin.read()
    return {}


def wait(peer, places, name, ttl_ms):
    worker = peer(places, 1)
    threading.Timer(0.05, print, ['{"waiting": true}'], {"flush": True}).start()
    worker.acquire(name, int(ttl_ms))
    result = {"at_us": us()}
    worker.release()
    return result


MODES = {"acquire": (acquire, 1), "pairs": (pairs, 3), "handoff": (handoff, 1), "hold": (hold, 2),
         "await": (wait, 2)}


def main():
    peer, (mode, wanted) = {"redis": Redis, "etcd": Etcd}[sys.argv[1]], MODES[sys.argv[2]]
    given = sys.argv[3:]
    print(json.dumps(mode(peer, given[wanted:], *given[:wanted])), flush=True)


main()
