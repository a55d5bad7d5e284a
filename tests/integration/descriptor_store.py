"""A service manager for tests: keeps the descriptors that an agent stores, and passes them to the next
agent, as systemd does (sd_notify(3), FDSTORE=1)."""

import array
import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct
import sys
import termios
import threading

import lab

HIGH = 500  # above the descriptors that a child gets

# Gives the descriptors their numbers in the new process: in this one other threads use these numbers.
ARRANGE = """
import os, sys
for i, fd in enumerate(map(int, sys.argv[1].split(","))):
    os.dup2(fd, 3 + i)
    os.close(fd)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""
END_OF_MESSAGES = b"END"  # from this process to itself
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"  # of names, for 6 bits each


def name_of(session):
    """The name of the session with this id in the store."""
    return "".join(LETTERS[session >> shift & 63] for shift in (18, 12, 6, 0))


def is_session(name):
    return len(name) == 4 or name.startswith("session-")  # as former versions stored it


def session_name(client):
    """The name of the client's connection in the store."""
    return name_of(client.call("CLIENT", "ID"))


def quiet(client):
    """Whether the client has got replies only, and no pushes."""
    return client.call("PING") == "PONG" and client.pushes == []


def page_of(client):
    """Maps the session's deadline page."""
    client.send("PAGE")
    data, ancillary, _, _ = client.socket.recvmsg(4096, 64)
    client.buffer += data
    client.reply()
    fds = array.array("i")
    fds.frombytes(ancillary[0][2][:4])
    memory = mmap.mmap(fds[0], 65536, mmap.MAP_SHARED, mmap.PROT_READ)
    os.close(fds[0])
    return memory


class KeptAgent(lab.Agent):
    """An agent with a manager. start() starts the next process, with all descriptors of the store."""

    def __init__(self, nodes, config="", **options):
        self.store = []  # (name, descriptor)
        self.unpolled = set()  # names
        self.refuse = False
        self.listener_name = "redlockd.socket"
        self.said = []
        self.lock = threading.Lock()
        self.notify_path = lab.path("manager.sock")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.notify_path)
        self.ready = threading.Event()
        self.all_read = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        super().__init__(nodes, config, start=False, **options)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.socket_path)
        self.listener.listen(512)
        self.start()

    def _listen(self):
        while True:
            message, ancillary, _, _ = self.notify.recvmsg(4096, 4096)
            fds = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
            if message == END_OF_MESSAGES:
                self.all_read.set()
                continue
            fields = dict(line.split("=", 1) for line in message.decode().split("\n") if "=" in line)
            with self.lock:
                self._drop_hung_up()
                self.said.append(fields)
                if "FDSTORE" in fields and not self.refuse:
                    for fd in fds:
                        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
                        self.store.append((fields["FDNAME"], high))
                    if fields.get("FDPOLL") == "0":
                        self.unpolled.add(fields["FDNAME"])
                if "FDSTOREREMOVE" in fields:
                    for name, fd in self.store:
                        if name == fields["FDNAME"]:
                            os.close(fd)
                    self.store = [entry for entry in self.store if entry[0] != fields["FDNAME"]]
            for fd in fds:
                os.close(fd)
            if "STATUS" in fields:
                self.ready.set()

    def _drop_hung_up(self):
        """The manager drops a socket whose other end is closed, unless it was asked not to poll."""
        poll = select.poll()
        for name, fd in self.store:
            if is_session(name) and name not in self.unpolled:
                poll.register(fd, 0)
        gone = {fd for fd, events in poll.poll(0) if events & (select.POLLHUP | select.POLLERR)}
        for fd in gone:
            os.close(fd)
        self.store = [entry for entry in self.store if entry[1] not in gone]

    def forget(self):
        """The manager closes all that it has, as systemd does for a unit that is stopped."""
        with self.lock:
            for _, fd in self.store:
                os.close(fd)
            self.store = []

    def names(self):
        with self.lock:
            self._drop_hung_up()
            return sorted(name for name, fd in self.store)

    def sessions(self):
        """The names of the sessions' sockets and pages."""
        return [name for name in self.names() if is_session(name)]

    def ledgers(self):
        return [name for name in self.names() if name.startswith("ledger-")]

    def wait_stored(self, *clients):
        """An ended session may have had the same short name: its removal, sent before, is read first."""
        names = [session_name(client) for client in clients]
        self.read_all()
        lab.wait_for(lambda: set(names) <= set(self.names()), what="connections in the store")

    def read_all(self):
        """The manager reads all that the agent has sent, also before it starts the next process, as systemd
        does: a descriptor in an unread message is not in the store yet."""
        self.all_read.clear()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(END_OF_MESSAGES, self.notify_path)
        if not self.all_read.wait(20 * lab.SCALE):
            raise TimeoutError("the manager's thread does not read its messages")

    @contextlib.contextmanager
    def busy_manager(self):
        """Meanwhile the manager reads nothing, and its queue takes no more."""
        with self.lock, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"FILLER=1", self.notify_path)
            lab.wait_for(lambda: self._unread_bytes() == 0, what="the manager's thread, which waits then")
            sender.setblocking(False)
            try:
                while True:
                    sender.sendto(b"FILLER=1", self.notify_path)
            except BlockingIOError:
                pass
            yield

    def _unread_bytes(self):
        return struct.unpack("i", fcntl.ioctl(self.notify, termios.FIONREAD, bytes(4)))[0]

    def begin(self, *options):
        """Starts the agent without waiting until it is ready."""
        self.read_all()
        with self.lock:
            self._drop_hung_up()
            passed = [(self.listener_name, self.listener.fileno())] + self.store
            high = [(name, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH + 5000)) for name, fd in passed]
        environment = dict(os.environ, NOTIFY_SOCKET=self.notify_path, LISTEN_FDS=str(len(high)),
                           LISTEN_FDNAMES=":".join(name for name, fd in high))
        self.ready.clear()
        self.log = open(self.log_path, "a")

        fds = [fd for name, fd in high]
        self.process = process = lab.subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", ARRANGE, ",".join(map(str, fds)), *self.prefix, lab.REDLOCKD,
             "--config", self.config_path, "--store", *options], stderr=self.log, env=environment,
            preexec_fn=lab.die_with_parent, pass_fds=fds)
        lab._ends.append(lambda: lab.end_process(process))
        for fd in fds:
            os.close(fd)

    def start(self, *options):
        self.begin(*options)
        if not self.ready.wait(20 * lab.SCALE):
            raise RuntimeError("the agent did not start: " + self.log_text())
        self._let_nodes_vote()

    def replace(self, signal=None):
        """Kills the agent, or with a signal terminates it, and starts the next process."""
        if signal is None:
            self.kill()
        else:
            self.terminate()
        self.start()
