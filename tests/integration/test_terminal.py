"""redlock run on a terminal, beside flock(1): the same line by line, but for what redlock(1) explains."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios

import lab
from tap import SCALE, equal, main, ok, skip

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)
ROWS, COLUMNS = 24, 80
CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"


class Kind:
    """A program `lock`, which runs its arguments under a lock of the given kind."""

    def __init__(self, name, command, probe):
        self.name = name
        self.probe = probe
        self.directory = lab.path(name)
        os.mkdir(self.directory)
        program = os.path.join(self.directory, "lock")
        with open(program, "w") as file:
            file.write('#!/bin/sh\nexec %s "$@"\n' % command)
        os.chmod(program, 0o755)

    def is_free(self):
        return subprocess.run(self.probe, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0


def kinds(name):
    file = lab.path("lockfile")
    redlock = [lab.REDLOCK, "--socket", agent.socket_path, "run"]
    return (Kind("flock", "flock " + file, ["flock", "-n", file, "true"]),
            Kind("redlock", " ".join(redlock) + " " + name, [*redlock, "-n", name, "--", "true"]))


class Terminal:
    """An interactive bash on a terminal of its own."""

    def __init__(self, kind):
        self.text = ""
        self.read = 0
        environment = dict(os.environ, PATH=kind.directory + ":" + os.environ["PATH"], PS1="$ ",
                           TERM="xterm", LESS="", HISTFILE="", LC_ALL="C.UTF-8")
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(kind.directory)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "--noediting", "-i"], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.pid = pid
        lab._ends.append(self.close)
        self.prompt()

    def _read(self, is_there, what):
        until = lab.now() + 15 * SCALE
        while not is_there():
            left = until - lab.now()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise TimeoutError("%r did not appear; the output is %r" % (what, self.text[self.read:]))
            self.text += os.read(self.fd, 65536).decode(errors="replace")

    def expect(self, text):
        """Reads until this text appears behind the text expected before."""
        self._read(lambda: text in self.text[self.read:], text)
        self.read = self.text.index(text, self.read) + len(text)

    def prompt(self):
        """Reads until the shell waits for a line."""
        self._read(lambda: plain(self.text[self.read:]).endswith("$ "), "$ ")
        self.read = len(self.text)

    def send(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.send(text + "\n")
        self.expect(text + "\r\n")

    def kill_shell(self):
        os.kill(self.pid, signal.SIGKILL)

    def close(self):
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        lab.wait_for(lambda: os.waitpid(self.pid, os.WNOHANG)[0] != 0, what="the end of the shell")

    def lines(self):
        text = re.sub(r"\[(\d)\] \d+", r"[\1] PID", self.text)  # of a job in the background
        return plain(text).split("\n")


def plain(text):
    """The text without the terminal's control sequences."""
    return re.sub(r"\x1b\[[0-9;?>]*[a-zA-Z]|\x1b[=>]|\r", "", text)


def beside(what, play, name, sort=False):
    """Plays the session under both kinds: the lines are the same, and the lock is free in the end. With
    `sort` the order of several processes' lines does not count, nor whether bash reports that it killed
    a job."""
    both = []
    for kind in kinds(name):
        terminal = Terminal(kind)
        play(terminal)
        if terminal.fd >= 0:
            terminal.close()
        lines = terminal.lines()
        if sort:
            # A prompt may come first, and bash ends the line of ^C only if its prompt comes after it.
            lines = "\n".join(lines).replace("^C", "^C\n").split("\n")
            lines = [re.sub(r"^(\$ )+", "", line) for line in lines]
            lines = sorted(line for line in set(lines) - {""} if "Terminated" not in line)
        both.append(lines)
        lab.wait_for(kind.is_free, what="the end of the lock of %s: %s" % (kind.name, what))
    equal(both[1], both[0], what)


def test_pagers_and_pipes():
    def pager(terminal):
        terminal.line("seq 500 | lock less; echo status $?")
        terminal.expect("23\r\n")
        terminal.expect(":")
        terminal.send("q")
        terminal.prompt()

    def pager_behind(terminal):
        terminal.line("lock -c 'seq 500' | less; echo status $?")
        terminal.expect("23\r\n")
        terminal.expect(":")
        terminal.send("q")
        terminal.prompt()

    def closed_pipe(terminal):
        terminal.line("lock yes | head -n 2; echo ${PIPESTATUS[*]}")
        terminal.prompt()

    def input_pipe(terminal):
        terminal.line("echo in | lock sh -c 'read x; echo got $x; exit 3'; echo status $?")
        terminal.prompt()

    beside("a pager reads from a pipe", pager, "p1")
    beside("a pager reads its output", pager_behind, "p2")
    beside("the reader of its output has ended", closed_pipe, "p3")
    beside("standard input is a pipe", input_pipe, "p4")


def test_interrupt():
    def loop(terminal):
        terminal.line("for i in 1 2 3; do echo round $i; lock sh -c 'echo runs; exec sleep 60'; done; "
                      "echo after")
        terminal.expect("runs\r\n")
        terminal.send(CTRL_C)
        terminal.prompt()
        terminal.line("echo status $?")
        terminal.prompt()

    def script(terminal):
        terminal.line("bash -c 'trap \"echo trapped; exit 4\" INT; "
                      "lock sh -c \"echo runs; exec sleep 60\"; echo no'")
        terminal.expect("runs\r\n")
        terminal.send(CTRL_C)
        terminal.prompt()
        terminal.line("echo status $?")
        terminal.prompt()

    def quit_it(terminal):
        terminal.line("ulimit -c 0; lock sh -c 'echo runs; exec sleep 60'; echo status $?")
        terminal.expect("runs\r\n")
        terminal.send(CTRL_BACKSLASH)
        terminal.prompt()

    def waits(terminal):
        terminal.line("lock sh -c 'echo runs; exec sleep 60' &")
        terminal.expect("runs\r\n")
        terminal.line("for i in 1 2; do lock echo no; done")
        lab.wait_for(lambda: foreground_is(terminal, "flock", "redlock"), what="the waiting one")
        terminal.send(CTRL_C)
        terminal.prompt()
        terminal.line("kill %1; wait %1; echo over $?")
        terminal.expect("over 143\r\n")
        terminal.prompt()

    beside("Ctrl-C ends a loop", loop, "i1")
    beside("Ctrl-C comes to a script's trap", script, "i2")
    beside("Ctrl-\\ ends it", quit_it, "i3")
    beside("Ctrl-C while it waits", waits, "i4", sort=True)


def contents(*path):
    try:
        with open(os.path.join(*path)) as file:
            return file.read()
    except OSError:
        return ""


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return file.read().split()


def state(pid):
    with open("/proc/%s/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def in_group(group):
    """The states of all processes of this group but redlock's own, which don't read from the terminal."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        program, _, rest = contents("/proc", pid, "stat").rpartition(")")
        fields = rest.split()
        if fields and int(fields[2]) == group and "(redlock" not in program:
            yield fields[0]


def runs(group, name):
    """Whether a process of this group runs this program."""
    return any(contents("/proc", pid, "comm") == name + "\n" and
               contents("/proc", pid, "stat").rpartition(")")[2].split()[2:3] == [str(group)]
               for pid in filter(str.isdigit, os.listdir("/proc")))


def stop_job(terminal):
    """With Ctrl-Z. The shell prompts when its child has stopped; a process of the job that reads from the
    terminal and has not stopped yet takes a byte of what is typed then."""
    group = os.tcgetpgrp(terminal.fd)
    terminal.send(CTRL_Z)
    terminal.prompt()
    lab.wait_for(lambda: set(in_group(group)) <= {"T", "Z"}, what="the stop of the whole job")


def foreground_is(terminal, *names):
    try:
        with open("/proc/%d/comm" % os.tcgetpgrp(terminal.fd)) as file:
            return file.read().strip() in names
    except OSError:
        return False


def wait_for_job(terminal):
    """The shell prints a job's command before it gives the job the terminal and continues it. Text that
        is typed in between can be lost."""
    def runs():
        group = os.tcgetpgrp(terminal.fd)
        return group != terminal.pid and state(group) != "T"
    lab.wait_for(runs, what="the job in the foreground")


def test_a_command_that_handles_signals():
    """The difference in redlock(1): these signals kill flock, and the command runs on without it."""
    handles = "bash -c 'trap \"echo caught\" INT TERM; echo ready; read x; read x; echo got $x; exit 3'"

    def ends(terminal):
        terminal.expect("caught\r\n")
        terminal.line("first")
        terminal.line("second")
        terminal.expect("got second\r\n")

    terminal = Terminal(kinds("handled")[1])
    ways = (("a command that handles Ctrl-C gets it once, and runs on", lambda group: terminal.send(CTRL_C)),
            ("the same for a signal that was sent to the group",
             lambda group: os.killpg(group, signal.SIGTERM)),
            ("a signal that only redlock got is passed on", lambda group: os.kill(group, signal.SIGTERM)))
    for count, (what, interrupt) in enumerate(ways, 1):
        terminal.line("lock %s; echo status $?" % handles)
        terminal.expect("ready\r\n")
        interrupt(os.tcgetpgrp(terminal.fd))
        ends(terminal)
        terminal.expect("status 3\r\n")
        terminal.prompt()
        equal(terminal.text.count("caught\r\n"), count, what)
    terminal.close()


def test_a_command_that_leaves_the_group():
    """timeout(1) makes a process group of its own, which is not the terminal's."""
    terminal = Terminal(kinds("left")[1])
    for what, interrupt in (("Ctrl-C", lambda group: terminal.send(CTRL_C)),
                            ("a signal to the job", lambda group: os.killpg(group, signal.SIGTERM)),
                            ("a signal to redlock", lambda group: os.kill(group, signal.SIGTERM))):
        terminal.line("lock timeout 60 bash -c 'trap \"echo caught; exit 5\" INT TERM; echo ready; "
                      "while :; do sleep .1; done'; echo status $?")
        terminal.expect("ready\r\n")
        interrupt(os.tcgetpgrp(terminal.fd))
        terminal.expect("caught\r\n")
        terminal.expect("status 5\r\n")
        ok(True, "a command that left the job's group: it gets %s" % what)
        terminal.prompt()
    terminal.close()


def test_job_control():
    def stop_and_go(terminal):
        terminal.line("lock sh -c 'echo ready; read line; echo got $line'")
        terminal.expect("ready\r\n")
        stop_job(terminal)
        terminal.line("fg")
        terminal.expect("echo got $line'\r\n")
        wait_for_job(terminal)
        terminal.line("hello")
        terminal.prompt()

    def background(terminal):
        terminal.line("lock cat &")
        terminal.prompt()
        lab.wait_for(lambda: all(state(pid) == "T" for pid in children(terminal.pid)), what="its stop")
        terminal.line("")
        terminal.prompt()
        terminal.line("fg")
        terminal.expect("lock cat\r\n")
        wait_for_job(terminal)
        terminal.line("hello")
        terminal.expect("hello\r\n")
        terminal.send(CTRL_D)
        terminal.prompt()

    def kill_job(terminal):
        terminal.line("lock sh -c 'echo ready; exec sleep 60' &")
        terminal.expect("ready\r\n")
        terminal.line("kill %1; wait %1; echo over $?")
        terminal.expect("over 143\r\n")
        terminal.prompt()

    def shell(terminal):
        terminal.line("lock bash --norc --noediting -i")
        terminal.prompt()
        terminal.line("sleep 60")
        lab.wait_for(lambda: foreground_is(terminal, "sleep"), what="the sleep")
        terminal.send(CTRL_C)
        terminal.prompt()
        terminal.line("sleep 60")
        lab.wait_for(lambda: foreground_is(terminal, "sleep"), what="the sleep")
        terminal.send(CTRL_Z)
        terminal.prompt()
        terminal.line("kill -9 %1; disown %1 2>/dev/null; exit 7")
        terminal.prompt()
        terminal.line("echo status $?")
        terminal.prompt()

    beside("Ctrl-Z and fg", stop_and_go, "j1")
    beside("in the background it stops when it reads from the terminal", background, "j2")
    beside("kill %1", kill_job, "j3", sort=True)
    beside("an interactive shell, with jobs of its own", shell, "j4", sort=True)


def test_programs():
    def editor(terminal):
        terminal.line("lock vim -u NONE -i NONE -n file; echo status $?; cat file")
        terminal.expect("New File")
        terminal.expect("~")
        terminal.send("ihello\x1b:wq\n")
        terminal.expect("status 0\r\nhello")
        terminal.prompt()

    def script(terminal):
        terminal.line("script -qec \"lock sh -c 'echo in; tty >/dev/null && echo on a tty; exit 5'\" "
                      "/dev/null; echo status $?")
        terminal.prompt()

    def timeout(terminal):
        terminal.line("timeout 60 lock bash -c 'trap \"echo term\" TERM; sleep 61 & wait; echo end'; "
                      "echo status $?")
        lab.wait_for(lambda: runs(os.tcgetpgrp(terminal.fd), "sleep"), what="the command")
        os.kill(os.tcgetpgrp(terminal.fd), signal.SIGALRM)  # the time has passed
        terminal.expect("end\r\n")
        if "status 124" not in terminal.text:
            terminal.expect("status 124")

    def timeout_kill(terminal):
        terminal.line("timeout -s KILL 0.3 lock sleep 60; echo status $?")
        terminal.prompt()

    def nohup(terminal):
        directory = os.readlink("/proc/%d/cwd" % terminal.pid)
        terminal.line("nohup lock sh -c 'echo started; while [ ! -e go ]; do sleep 0.01; done; "
                      "echo ended >>out2' >out 2>&1 &")
        terminal.prompt()
        lab.wait_for(lambda: "started" in contents(directory, "out"), what="the command")
        terminal.close()
        with open(os.path.join(directory, "go"), "w"):
            pass
        lab.wait_for(lambda: "ended" in contents(directory, "out2"), what="the end of the command")

    if shutil.which("vim"):
        beside("an editor", editor, "e1", sort=True)
    else:
        skip("an editor", "there is no vim")
    beside("script(1)", script, "e2")
    beside("timeout(1)", timeout, "e3", sort=True)
    beside("timeout -s KILL", timeout_kill, "e4")
    beside("nohup(1), after the terminal was closed", nohup, "e5")


def test_terminal_closes():
    def foreground(terminal):
        terminal.line("lock sh -c 'echo ready; exec sleep 1000'")
        terminal.expect("ready\r\n")
        terminal.close()

    def stopped(terminal):
        terminal.line("seq 500 | lock less")
        terminal.expect("23\r\n")
        terminal.expect(":")
        terminal.send(CTRL_Z)
        terminal.expect("$ ")  # the pager may restore the screen after it
        terminal.close()

    def shell_killed(terminal):
        terminal.line("lock sh -c 'echo ready; read x'")
        terminal.expect("ready\r\n")
        terminal.send(CTRL_Z)
        terminal.prompt()
        terminal.kill_shell()
        terminal.close()

    def leader(terminal):
        terminal.line("exec lock sh -c 'echo ready; exec sleep 1000'")
        terminal.expect("ready\r\n")
        terminal.close()

    beside("the terminal is closed while it runs", foreground, "c1")
    beside("the terminal is closed while it is stopped", stopped, "c2")
    beside("the shell is killed while it is stopped", shell_killed, "c3")
    beside("it leads the terminal's session", leader, "c4")


main(test_pagers_and_pipes, test_interrupt, test_a_command_that_handles_signals,
     test_a_command_that_leaves_the_group, test_job_control, test_programs, test_terminal_closes)
