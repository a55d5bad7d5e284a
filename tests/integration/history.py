"""Histories: clients that acquire and hold names record when they considered each lease valid; checks of
these records."""

import random
import threading

import lab


class History:
    """Intervals in which a client considered its lease valid: from the grant's reading to the earliest of
    the release, the report of the loss, and the deadline."""

    def __init__(self):
        self.lock = threading.Lock()
        self.intervals = []
        self.refusals = {}

    def add(self, name, begin, end, fence):
        with self.lock:
            self.intervals.append((name, begin, end, fence))

    def refused(self, word):
        with self.lock:
            self.refusals[word] = self.refusals.get(word, 0) + 1

    def troubles(self):
        """Violations, as sentences: overlaps, and tokens that don't grow."""
        found = []
        for name in sorted({interval[0] for interval in self.intervals}):
            mine = sorted(interval[1:] for interval in self.intervals if interval[0] == name)
            for (_, end, fence), (begin, _, next_fence) in zip(mine, mine[1:]):
                if begin < end:
                    found.append("two holders of %s for %.3f ms" % (name, (end - begin) * 1e3))
                if next_fence <= fence:
                    found.append("%s: token %d after %d" % (name, next_fence, fence))
        return found


class Holder(threading.Thread):
    """Acquires one of the names, holds it for a while, releases, and so on, until `stopped`. Survives
    its agent."""

    def __init__(self, history, agent, names, ttl_ms):
        super().__init__(daemon=True)
        self.history, self.agent, self.names, self.ttl_ms = history, agent, names, ttl_ms
        self.random = random.Random(repr((agent.socket_path, len(history.intervals), id(self))))
        self.stopped = threading.Event()
        self.start()

    def run(self):
        client = None
        while not self.stopped.is_set():
            try:
                client = client or self.agent.client(3, timeout=30)
                self._once(client)
            except (OSError, EOFError, TimeoutError):
                client = None
                self.stopped.wait(0.05)

    def _once(self, client):
        name = self.random.choice(self.names)
        asked = lab.now()
        grant = client.acquire(name, "TTL", self.ttl_ms, "WAIT", 1000)
        if not isinstance(grant, dict):
            self.history.refused(str(grant).split(" ")[0])
            return
        begin, deadline = lab.now(), grant["deadline"] / 1e9
        assert asked <= begin
        if begin >= deadline:  # the grant was read too late to rely on it
            client.call("RELEASE", grant["id"])
            return
        until = begin + self.random.choice((0, 0.005, 0.02, 0.05, 0.2, 1.5)) * lab.SCALE
        try:
            while lab.now() < min(until, deadline) and not self.stopped.is_set():
                self.stopped.wait(min(0.05, max(until - lab.now(), 0)))
                sent = lab.now()
                validity_ms = client.call("CHECK", grant["id"])
                if validity_ms == 0:
                    deadline = min(deadline, sent)  # the lease may have ended before the reply
                    break
                deadline = max(deadline, sent + validity_ms / 1e3)
        finally:
            self.history.add(name, begin, max(begin, min(lab.now(), deadline)), grant["fence"])
        client.call("RELEASE", grant["id"])


def holders(history, agents, names, count, ttl_ms=1000):
    return [Holder(history, agents[i % len(agents)], names, ttl_ms) for i in range(count)]


def stop(threads):
    for thread in threads:
        thread.stopped.set()
    for thread in threads:
        thread.join(40 * lab.SCALE)
