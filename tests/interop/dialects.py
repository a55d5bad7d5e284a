"""Clients of our own that imitate other lock clients on the nodes: the same commands, keys, values, quorum
and delays. Each is a class with acquire(), one round of attempts as in the client's own call, and
release()."""

import os
import random
import re
import socket
import time
import uuid

DELETE_IF_OURS = ('if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) '
                  'else return 0 end')


class ServerError(Exception):
    pass


class Connection:
    """A connection to one node: connects again after an error."""

    def __init__(self, path, timeout=2.0):
        self.path = path
        self.timeout = timeout
        self.file = None

    def _connect(self):
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(self.timeout)
        connected.connect(self.path)
        self.file = connected.makefile("rwb")

    def _read(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ServerError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        return rest.decode()

    def call(self, *items):
        items = [str(item).encode() for item in items]
        try:
            if not self.file:
                self._connect()
            bulks = [b"$%d\r\n%s\r\n" % (len(item), item) for item in items]
            self.file.write(b"*%d\r\n" % len(items) + b"".join(bulks))
            self.file.flush()
            reply = self._read()
        except OSError:
            self.file = None
            raise
        if isinstance(reply, ServerError):
            raise reply
        return reply


class Dialect:
    """Redlock as most libraries have it: SET NX PX on each node, compare and delete."""

    key = "%s"
    tries = 3
    delay_ms = (200, 250)

    def __init__(self, places, name, ttl_ms):
        self.nodes = [Connection(place) for place in places]
        self.key = self.key % name
        self.ttl_ms = ttl_ms
        self.quorum = len(self.nodes) // 2 + 1
        self.value = None
        self.errors = 0  # calls to nodes that failed

    def new_value(self):
        return os.urandom(20).hex()

    def set(self, node):
        return node.call("SET", self.key, self.value, "NX", "PX", self.ttl_ms) == "OK"

    def unset(self, node):
        node.call("EVAL", DELETE_IF_OURS, 1, self.key, self.value)

    def on_all(self, do):
        done = 0
        for node in self.nodes:
            try:
                done += bool(do(node))
            except (OSError, ServerError):
                self.errors += 1
        return done

    def attempt(self):
        self.value = self.new_value()
        began = time.monotonic()
        locked = self.on_all(self.set)
        drift_ms = self.ttl_ms / 100 + 2
        if locked >= self.quorum and (time.monotonic() - began) * 1000 < self.ttl_ms - drift_ms:
            return True
        self.on_all(self.unset)
        return False

    def pause(self):
        time.sleep(random.uniform(*self.delay_ms) / 1000)

    def acquire(self, patient):
        for number in range(self.tries if patient else 1):
            if number > 0:
                self.pause()
            if self.attempt():
                return True
        return False

    def release(self):
        self.on_all(self.unset)


class Redsync(Dialect):
    """Go; 32 tries."""

    tries = 32
    delay_ms = (50, 250)


class RedlockRb(Dialect):
    """leandromoreira/redlock-rb: a script that sets its own key again."""

    LOCK = ('if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes") or '
            'redis.call("get", KEYS[1]) == ARGV[1] then '
            'return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) end')

    def set(self, node):
        return node.call("EVAL", self.LOCK, 1, self.key, self.value, self.ttl_ms, "yes") == "OK"


class RedlockPy(Dialect):
    """SPSCommerce/redlock-py: raises when a node failed, and leaves the keys of a majority behind."""

    delay_ms = (200, 200)

    def attempt(self):
        self.value = self.new_value()
        errors = self.errors
        locked = self.on_all(self.set)
        if locked >= self.quorum:
            if self.errors > errors:
                raise ServerError("a node failed")
            return True
        self.on_all(self.unset)
        return False


class RedlockPhp(Dialect):
    """ronnylt/redlock-php: half of the nodes plus one, not rounded: it needs three of three."""

    delay_ms = (100, 200)

    def __init__(self, *given):
        super().__init__(*given)
        self.quorum = min(len(self.nodes), len(self.nodes) / 2 + 1)


class RedLockNet(Dialect):
    """samcook/RedLock.net: its own prefix."""

    key = "redlock:%s"
    delay_ms = (0, 400)

    def new_value(self):
        return str(uuid.uuid4())


class LockTake(Dialect):
    """StackExchange.Redis, LockTake and LockRelease: one node, and a transaction instead of a script."""

    tries = 20
    delay_ms = (20, 100)  # the caller's: the library has no loop

    def unset(self, node):
        node.call("WATCH", self.key)
        if node.call("GET", self.key) != self.value:
            node.call("UNWATCH")
            return
        node.call("MULTI")
        node.call("DEL", self.key)
        node.call("EXEC")


class Redisson(Dialect):
    """RedissonRedLock of plain RLocks: a hash with the thread's field, and a count of re-entries."""

    tries = 20
    delay_ms = (50, 150)
    LOCK = ("if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) "
            "then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); "
            "return nil; end; return redis.call('pttl', KEYS[1]);")
    UNLOCK = ("if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; "
              "local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); "
              "if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; "
              "else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end;")

    def new_value(self):
        return "%s:1" % uuid.uuid4()

    def set(self, node):
        return node.call("EVAL", self.LOCK, 1, self.key, self.ttl_ms, self.value) is None

    def unset(self, node):
        channel = "redisson_lock__channel:{%s}" % self.key
        node.call("EVAL", self.UNLOCK, 2, self.key, channel, 0, self.ttl_ms, self.value)


class LegacySetnx(Dialect):
    """One node, SETNX and GETSET: the value is the time at which the lock ends, in seconds, and the key does
    not expire. Reads the first digits of a value, as atoi() and to_i do."""

    tries = 20
    delay_ms = (50, 150)

    def is_over(self, value):
        found = re.match(r"\s*(\d+)", value or "")
        return int(found.group(1) if found else 0) < time.time()

    def set(self, node):
        self.value = int(time.time() + self.ttl_ms / 1000) + 1
        if node.call("SETNX", self.key, self.value) == 1:
            return True
        return self.is_over(node.call("GET", self.key)) and self.is_over(
            node.call("GETSET", self.key, self.value))

    def unset(self, node):
        pass  # the client has no value of its own to compare

    def release(self):
        if time.time() < self.value:
            self.nodes[0].call("DEL", self.key)


class RedisPyLock:
    """The Lock of redis-py as Debian has it (python3-redis); one node."""

    def __init__(self, places, name, ttl_ms):
        import redis
        self.lock = redis.Redis(unix_socket_path=places[0]).lock(name, timeout=ttl_ms / 1000)
        self.errors = 0

    def acquire(self, patient):
        return self.lock.acquire(blocking=patient, blocking_timeout=2 if patient else None)

    def release(self):
        self.lock.release()


class Agent:
    """The other side: a client of an agent."""

    def __init__(self, places, name, ttl_ms):
        self.connection = Connection(places[0], timeout=30)
        self.name = name
        self.ttl_ms = ttl_ms
        self.id = None
        self.errors = 0

    def acquire(self, patient):
        try:
            grant = self.connection.call("ACQUIRE", self.name, "TTL", self.ttl_ms, "WAIT",
                                         5000 if patient else 0)
        except ServerError as error:
            if str(error).split()[0] not in ("BUSY", "TIMEOUT"):
                self.errors += 1
            return False
        self.id = dict(zip(grant[::2], grant[1::2]))["id"]
        return True

    def release(self):
        self.connection.call("RELEASE", self.id)


KINDS = {kind.__name__: kind for kind in (Redsync, RedlockRb, RedlockPy, RedlockPhp, RedLockNet, LockTake,
                                          Redisson, LegacySetnx, RedisPyLock, Agent)}
