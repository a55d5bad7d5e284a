"""A client that speaks the protocol itself, over the agent's or a node's Unix socket."""

import os
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import SCALE  # noqa: E402


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ReplyError(Exception):
    pass


class Push(list):
    pass


class Client:
    """A raw RESP connection: replies as they come over the wire."""

    def __init__(self, socket_path, protocol=2, timeout=20):
        self.buffer = b""
        self.pushes = []
        self.timeout = timeout * SCALE
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(socket_path)
        if protocol == 3:
            self.call("HELLO", 3)

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, *items):
        items = [item if isinstance(item, bytes) else str(item).encode() for item in items]
        bulks = [b"$%d\r\n%s\r\n" % (len(item), item) for item in items]
        self.send_raw(b"*%d\r\n" % len(items) + b"".join(bulks))

    def _fill(self, until):
        left = until - now()
        input_ready = select.poll()  # select() knows no descriptors over 1,023
        input_ready.register(self.socket, select.POLLIN)
        if left <= 0 or not input_ready.poll(left * 1000):
            raise TimeoutError("no reply")
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the agent closed the connection")
        self.buffer += data

    def _line(self, until):
        while b"\r\n" not in self.buffer:
            self._fill(until)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _value(self, until):
        line = self._line(until)
        kind, rest = line[:1], line[1:]
        if kind in b"+,":
            return rest.decode()
        if kind == b"-":
            return ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_" or (kind in b"$*" and rest == b"-1"):
            return None
        if kind == b"$":
            length = int(rest)
            while len(self.buffer) < length + 2:
                self._fill(until)
            text, self.buffer = self.buffer[:length], self.buffer[length + 2:]
            return text.decode("utf-8", "surrogateescape")
        if kind == b"%":
            return {self._value(until): self._value(until) for _ in range(int(rest))}
        values = [self._value(until) for _ in range(int(rest))]
        return Push(values) if kind == b">" else values

    def read(self, timeout=None):
        """The next value, a reply or a push."""
        return self._value(now() + (self.timeout if timeout is None else timeout * SCALE))

    def reply(self, timeout=None):
        """The next reply; earlier RESP3 pushes are kept."""
        while True:
            value = self.read(timeout)
            if not isinstance(value, Push):
                return value
            self.pushes.append(value)

    def call(self, *items, timeout=None):
        self.send(*items)
        return self.reply(timeout)

    def push(self, word, timeout=None):
        """The next push of this kind (RESP3); earlier ones of other kinds are dropped."""
        until = now() + (self.timeout if timeout is None else timeout * SCALE)
        dropped = []
        while True:
            try:
                value = self.pushes.pop(0) if self.pushes else self._value(until)
            except TimeoutError as error:
                raise TimeoutError("no push '%s', but %s" % (word, dropped or "none")) from error
            if isinstance(value, Push) and value[0] == word:
                return value
            dropped.append(value)

    def acquire(self, name, *options, timeout=None):
        """The grant as a dict, or the ReplyError."""
        return as_map(self.call("ACQUIRE", name, *options, timeout=timeout))

    def close(self):
        self.socket.close()


def as_map(value):
    """A map of RESP2, which comes as a flat array."""
    if isinstance(value, list) and not isinstance(value, Push):
        return dict(zip(value[::2], value[1::2]))
    return value
