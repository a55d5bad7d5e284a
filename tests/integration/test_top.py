"""redlock top: blocks of text, and a screen on a terminal, which it leaves as it was."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading

import lab
from tap import SCALE, equal, main, ok

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)
agent.wait_voting(3)
TOP = [lab.REDLOCK, "--socket", agent.socket_path, "top"]
ALICE = 20001
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Load:
    """Acquires and releases, and is rejected, all the time."""

    def __enter__(self):
        self.ends, self.client = threading.Event(), agent.client(3)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends.is_set():
            grant = self.client.acquire("busy")
            self.client.call("ACQUIRE", "busy")
            self.client.call("RELEASE", grant["id"])

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        self.client.close()


def number(text, what):
    """The rate in the line that begins with this."""
    return float(re.search(r"(?m)^ *%s +([\d.]+) +\d+" % what, text).group(1))


def test_blocks():
    held = agent.client(3)
    held.acquire("held/1")
    with Load():
        done = subprocess.run([*TOP, "--count", "2"], capture_output=True, text=True)
        blocks = done.stdout.split("\n\nredlockd ")
        equal((done.returncode, len(blocks), done.stderr), (0, 2, ""), "two blocks")
        text = blocks[1]
        for what in "grants", "releases", "rejections":
            ok(number(text, what) > 0, "%s a second: %g" % (what, number(text, what)))
        equal(number(text, "losses"), 0, "no losses")
        ok(re.search(r"(?m)^grants .* p50 [\d.]+ ms, p99 [\d.]+ ms where the name was free$", text),
           "how long acquisitions take")
        ok(re.search(r"BUSY [\d.]+/s", text), "rejections by their word")
        ok(re.search(r"(?m)^loop lag p99 +front [\d.]+ ms, keeper-0 ", text), "the lag of the threads")
        equal(sorted(re.findall(r"(?m)^([abc]) +voting ", text)), ["a", "b", "c"], "the nodes")
        ok(re.search(r"(?m)^%d +\d+ +\d+ +[1-9]\d* +0 +\d+ K$" % os.getuid(), text),
           "the users' use, with the extensions that their leases need")
        rows = re.findall(r"(?m)^\S+ m?s +(\w+) +(\d+) +\d+ +\d+  (\S+)$", text)
        equal([row for row in rows if row[2] == "held/1"], [("held", str(os.getpid()), "held/1")],
              "a lease that is held")
        equal(rows[0][2], "busy", "first the latest grant, one for each name: %s" % rows)
    nodes[2].kill()
    lab.wait_for(lambda: agent.status()["voting"] == 2, what="the loss of a node")
    status, text, _ = lab.redlock_run(agent, "top", "--once")
    equal(status, 0, "one block")
    equal(re.findall(r"(?m)^([abc]) ", text)[0], "c", "a node that does not vote is the first")
    ok("2 of 3 nodes vote" in text, "and the head says so")
    nodes[2].start()
    agent.wait_voting(3)
    held.close()


def test_arguments():
    equal(lab.redlock_run(agent, "top", "x")[0], 64, "an argument is wrong usage")
    equal(lab.redlock_run(agent, "top", "--count", "0"),
          (64, "", "redlock: --count 0: expected a number above 0\n"), "no block, too")
    status, _, errors = lab.redlock_run(agent, "top", "--help")
    equal((status, errors), (0, ""), "--help")
    none = subprocess.run([lab.REDLOCK, "--socket", lab.path("none"), "top", "--once"], capture_output=True,
                          text=True)
    ok(none.returncode == 69 and "no agent there" in none.stderr, "without an agent: 69")
    reader = subprocess.Popen(TOP, stdout=subprocess.PIPE, text=True)
    ok(reader.stdout.readline().startswith("redlockd "), "without --count blocks follow each other")
    reader.stdout.close()
    equal(reader.wait(10 * SCALE), 0, "until the reader ends")


def test_other_user():
    """A user without the right `list` sees counts, and of others no lease and no use."""
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of the leases of before")
    client = agent.client(3)
    client.acquire("secret")

    def become():
        os.setgid(ALICE)
        os.setuid(ALICE)
    if os.getuid() != 0:
        return
    os.chmod(lab.directory, 0o711)
    program = lab.path("redlock")  # where she may execute it
    subprocess.run(["cp", lab.REDLOCK, program], check=True)
    done = subprocess.run([program, *TOP[1:], "--once"], capture_output=True, text=True, preexec_fn=become)
    ok(done.returncode == 0 and "leases: 1" in done.stdout, "another user gets the counts: %s" % done.stderr)
    ok("secret" not in done.stdout and not re.search(r"(?m)^0 ", done.stdout), "but no name and no user")
    client.close()


class OlderAgent:
    """Passes all requests on, but METRICS and LEASES LATEST, which it does not know."""

    REFUSED = {b"METRICS": b"-ERR unknown command 'METRICS'; COMMAND lists those there are\r\n",
               b"LATEST": b"-BADARG LEASES takes no argument\r\n"}

    def __init__(self):
        self.path = lab.path("older")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        client, agents = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
        agents.connect(agent.socket_path)
        while True:
            for ready in select.select([client, agents], [], [])[0]:
                data = ready.recv(65536)
                refusal = [reply for word, reply in self.REFUSED.items() if word in data]
                if not data:
                    return client.close()
                if ready is agents:
                    client.sendall(data)
                elif refusal:
                    client.sendall(refusal[0])
                else:
                    agents.sendall(data)


def test_older_agent():
    older = OlderAgent()
    done = subprocess.run([*TOP[:2], older.path, "top", "--once"], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""), "an older agent, without METRICS and LEASES LATEST")
    equal(sorted(re.findall(r"(?m)^([abc]) +voting .* +(\S+)$", done.stdout)),
          [("a", "-"), ("b", "-"), ("c", "-")], "what the nodes have not answered is unknown then")


# --- on a terminal ---

class Screen:
    def __init__(self, rows=24, columns=80, has_shell=False):
        """What a terminal of this size shows, as far as `top` uses it. `has_shell`: top is a job there."""
        self.text, self.read = "", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if has_shell:
                self._be_shell()
            for number_of in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGHUP):
                signal.signal(number_of, signal.SIG_DFL)
            lab.die_with_parent()
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(TOP[0], TOP)
        self.before = None

    @staticmethod
    def _be_shell():
        """Returns in a child process, which has the terminal; the parent waits for its end."""
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            lab.wait_for(lambda: os.tcgetpgrp(0) == os.getpgrp(), what="the terminal")
            return
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        lab.wait_for(lambda: os.getpgid(pid) == pid, what="the job's process group")
        os.tcsetpgrp(0, pid)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def job(self):
        """The pid and the state of the shell's child."""
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as file:
            pid = file.read().split()[0]
        with open("/proc/%s/stat" % pid) as file:
            return int(pid), file.read().rsplit(")", 1)[1].split()[0]

    def expect(self, text):
        until = lab.now() + 15 * SCALE
        while text not in self.text[self.read:]:
            left = until - lab.now()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise TimeoutError("%r did not appear: %r" % (text, self.text[self.read:]))
            self.text += os.read(self.fd, 65536).decode(errors="replace")
        self.read = self.text.index(text, self.read) + len(text)

    def drawing(self):
        """The lines of a whole drawing from now on."""
        self.read = len(self.text)
        self.expect("\033[H")
        begin = self.read
        self.expect("\033[H")
        return [re.sub(r"\033\[[0-9?]*[a-zA-Z]", "", line).rstrip("\r")
                for line in self.text[begin:self.read - 3].split("\n")]

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def status(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def end(self):
        """Restored: the first screen, the cursor, line breaks, echo and lines."""
        self.expect("\033[?7h\033[?25h\033[?1049l")
        lab.wait_for(lambda: self.modes() == termios.ICANON | termios.ECHO, what="the terminal's modes")
        status = self.status()
        os.close(self.fd)
        return status


def test_screen():
    screen = Screen()
    screen.expect("\033[?1049h\033[?25l")
    lines = screen.drawing()
    ok(lines[0].startswith("redlockd ") and "grants" in "".join(lines), "a screen: %s" % lines[0])
    ok(len(lines) <= 24 and max(map(len, lines)) <= 80, "that fits")
    equal(screen.modes(), 0, "keys come without echo, one by one")
    screen.resize(10, 30)
    lab.wait_for(lambda: len(screen.drawing()) == 10, what="ten lines")
    lines = screen.drawing()
    ok(max(map(len, lines)) <= 30, "smaller: %d lines of at most %d" % (len(lines), max(map(len, lines))))
    screen.resize(40, 120)
    lab.wait_for(lambda: len(screen.drawing()) > 10, what="more lines")
    ok(True, "larger")
    os.write(screen.fd, b"x")
    os.write(screen.fd, b"q")
    equal(screen.end(), 0, "'q' ends, another key does not")


def test_interrupt():
    for what, end in (("Ctrl-C", lambda screen: os.write(screen.fd, CTRL_C)),
                      ("SIGTERM", lambda screen: os.kill(screen.pid, signal.SIGTERM))):
        screen = Screen()
        screen.expect("grants")
        end(screen)
        equal(screen.end(), 0, "%s ends and restores the terminal" % what)


def test_stop():
    screen = Screen()
    screen.expect("grants")
    os.write(screen.fd, CTRL_Z)
    screen.expect("\033[?1049l")
    screen.expect("\033[?1049h")
    os.write(screen.fd, b"q")
    equal(screen.end(), 0, "Ctrl-Z without a shell, which could continue it: it goes on")
    screen = Screen(has_shell=True)
    screen.expect("grants")
    os.write(screen.fd, CTRL_Z)
    screen.expect("\033[?1049l")
    lab.wait_for(lambda: screen.job()[1] == "T", what="the stop")
    equal(screen.modes(), termios.ICANON | termios.ECHO, "Ctrl-Z stops it, with the terminal restored")
    os.kill(screen.job()[0], signal.SIGCONT)
    screen.expect("\033[?1049h")
    screen.expect("grants")
    os.write(screen.fd, b"q")
    equal(screen.end(), 0, "and it goes on")


def test_stuck_agent():
    screen = Screen()
    screen.expect("grants")
    agent.stop()
    screen.expect("no agent answers")
    os.write(screen.fd, b"xq")
    equal(screen.end(), 0, "'q' ends while the agent is stuck")
    agent.cont()


def test_agent_restarts():
    screen = Screen()
    screen.expect("grants")
    agent.kill()
    screen.expect("no agent answers")
    agent.start()
    agent.wait_voting(3)
    screen.expect("nodes vote")
    ok(True, "without an agent it says so, and goes on with the next one")
    os.write(screen.fd, CTRL_C)
    equal(screen.end(), 0, "the end")


main(test_blocks, test_arguments, test_other_user, test_older_agent, test_screen, test_interrupt,
     test_stop, test_stuck_agent, test_agent_restarts)
