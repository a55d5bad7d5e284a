"""The guard of redlock run: no process of the command outlives the lease, whatever happens to redlock."""

import os
import select
import shutil
import signal
import subprocess

import lab
from tap import equal, main, ok, skip

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)
# A worker in the shell, one in a session of its own, and one whose parents have ended.
WORKERS = ("sleep 1000 & echo $!; setsid sleep 1000 & echo $!; "
           "(setsid sh -c 'sleep 1000 & echo $!') & wait $!; echo $$; exec sleep 1000")
CAN_CHANGE_USER = os.getuid() == 0 and shutil.which("setpriv")


def start(name, text, *options, prefix=(), count=4):
    """A command of so many processes under a lease: the Popen, and the pids."""
    process = begin(agent, "run", *options, name, "-c", text, prefix=prefix)
    pids = [int(process.stdout.readline()) for _ in range(count)]
    return process, pids


def begin(served_by, *arguments, prefix=()):
    return lab.spawn([*prefix, lab.REDLOCK, "--socket", served_by.socket_path, *arguments], text=True,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def program(pid):
    with open("/proc/%d/comm" % pid) as file:
        return file.read().strip()


def guard_of(process):
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
        for pid in map(int, file.read().split()):
            if program(pid) == "redlock-guard":
                return pid
    raise LookupError("no guard")


def wait_for_changed_user(pid):
    """Until setpriv has changed the user and has become the command."""
    lab.wait_for(lambda: os.stat("/proc/%d" % pid).st_uid == 65534 and program(pid) == "sleep",
                 what="the change of the user, and the command after it")


def overlaps(*commands):
    """Acquires each command's name, (name, pids); returns which of its processes still run then."""
    running, waiting = [], {}
    for name, pids in commands:
        client = agent.client()
        client.send("ACQUIRE", name, "WAIT", -1)
        waiting[client.socket] = client, pids
    while waiting:
        granted, _, _ = select.select(list(waiting), [], [], 60 * lab.SCALE)
        assert granted, "no lease"
        for socket in granted:
            client, pids = waiting.pop(socket)
            running += [pid for pid in pids if lab.alive(pid)]
            assert "id" in lab.as_map(client.reply())
            client.close()
    return running


def test_killed_a_hundred_times():
    """The next holder waits for the name already."""
    running, text = [], WORKERS
    if CAN_CHANGE_USER:
        text = "setsid setpriv --reuid=65534 --clear-groups sleep 1000 & echo $!; " + WORKERS
    for turn in range(100):
        name = "killed %d" % (turn % 4)
        process, pids = start(name, text, count=5 if CAN_CHANGE_USER else 4)
        waiter = agent.client()
        waiter.send("ACQUIRE", name, "WAIT", 20000)
        process.kill()
        waiter.reply()
        running += [pid for pid in pids if lab.alive(pid)]
        waiter.close()
        process.wait()
    equal(running, [], "kill -9 of redlock run, 100 times: no worker of any user runs when the next one has "
          "the lease")


def test_guard_killed():
    """The lease lingers until the other process of redlock has ended the tree."""
    running, statuses = [], set()
    for _ in range(4):
        turns = [("guard %d" % i, *start("guard %d" % i, WORKERS, "--linger", "2s")) for i in range(5)]
        for _, process, _ in turns:
            os.kill(guard_of(process), signal.SIGKILL)
        running += overlaps(*[(name, pids) for name, _, pids in turns])
        for _, process, _ in turns:
            statuses.add(process.wait())
            errors = process.stderr.read()
    equal(running, [], "kill -9 of its guard, 20 times: no worker runs when the next one holds the lease")
    equal(statuses, {125}, "exit status 125")
    ok("the guard process was killed: the command is stopped" in errors, errors.strip())


def test_group_killed():
    process, pids = start("group", "trap '' TERM; " + WORKERS, prefix=["setsid"])
    os.killpg(process.pid, signal.SIGKILL)
    equal(overlaps(("group", pids)), [],
          "kill -9 of the whole job: no worker runs when the next one holds the lease")


def full_pipe():
    """Both ends of a pipe that has no room."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


def test_lost():
    """Messages must not keep the guard from ending the command. The longer the ttl, the earlier the end."""
    own = lab.Agent(nodes, lab.UNHURRIED)
    reader, writer = full_pipe()
    commands = []
    for name, errors in ("loss", subprocess.PIPE), ("stuck", writer):
        process = lab.spawn([lab.REDLOCK, "--socket", own.socket_path, "run", "-t", "10s", name, "-c",
                             "trap '' TERM; " + WORKERS], text=True, stdout=subprocess.PIPE, stderr=errors)
        commands.append((name, process, [int(process.stdout.readline()) for _ in range(4)]))
    os.close(writer)
    own.stop()
    running = overlaps(*[(name, pids) for name, _, pids in commands])
    whats = "a lost lease", "the same, and nobody reads standard error"
    for what, (_, process, pids) in zip(whats, commands):
        equal([pid for pid in running if pid in pids], [],
              what + ": no worker runs when the next one holds the lease")
        equal(process.wait(), 125, "exit status 125")
    os.close(reader)
    own.cont()
    own.terminate()


def test_extended_after_all():
    """What SIGTERM has not ended gets SIGKILL, though the agent returns in time."""
    own = lab.Agent(nodes, lab.UNHURRIED)
    process = begin(own, "run", "-t", "10s", "--grace", "5s", "--linger", "50s", "late", "-c",
                    "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    worker = int(process.stdout.readline())
    own.stop()
    line = process.stderr.readline()
    ok(line.endswith("stopping the command\n"), line.strip())
    own.cont()
    lab.wait_for(lambda: min(node.call("PTTL", "late") for node in nodes) > 6000, what="an extension")
    ok(lab.alive(worker), "the lease is extended after SIGTERM, which the command ignores")
    equal(process.wait(20 * lab.SCALE), 125, "it ends all the same: 125")
    errors = process.stderr.read()
    ok(not lab.alive(worker) and "late: the lease was given up: " in errors, "by SIGKILL: " + errors.strip())
    lab.wait_gone(nodes, "late")
    ok(True, "and the lease is released")
    own.terminate()


def guard_is_there(process):
    try:
        return guard_of(process)
    except LookupError:
        return None


def test_ended_at_a_stuck_agent():
    """Ctrl-C while the agent does not answer: the guard keeps no pipe open, and prints nothing later."""
    stuck = lab.Agent(nodes, lab.UNHURRIED)
    stuck.stop()
    process = begin(stuck, "run", "-n", "stuck", "true")
    lab.wait_for(lambda: guard_is_there(process), what="the guard")
    ended = lab.now()
    process.send_signal(signal.SIGINT)
    equal((*process.communicate(timeout=60 * lab.SCALE), process.returncode), ("", "", -signal.SIGINT),
          "SIGINT while the agent is stopped ends redlock, without a message")
    ok(lab.now() - ended < 5, "and its guard, before the agent's time to answer is over")
    stuck.cont()
    stuck.terminate()


def test_no_grace():
    """SIGKILL comes before the end of the lease, also without a SIGTERM before."""
    own = lab.Agent(nodes, lab.UNHURRIED)
    process = lab.redlock(own, "run", "-t", "10s", "--grace", "0", "graceless", "-c",
                          "echo $$; exec sleep 1000")
    worker = int(process.stdout.readline())
    begun = lab.now()
    own.stop()
    deadline = lab.keys_end(nodes, "graceless") - 0.102  # the drift
    runs, _ = lab.when(lambda: not lab.alive(worker), begun, what="the end of the command")
    left = deadline - runs
    ok(left > 0.015, "--grace 0: the command is killed before the lease ends (%d ms)" % (left * 1000))
    equal(process.wait(), 125, "exit status 125")
    own.cont()
    own.terminate()


def test_guard_killed_without_reader():
    for what, make in (("nobody reads standard error", full_pipe), ("its reader has ended", os.pipe)):
        reader, writer = make()
        process = lab.spawn([lab.REDLOCK, "--socket", agent.socket_path, "run", "--linger", "2s", "mute",
                             "-c", WORKERS], text=True, stdout=subprocess.PIPE, stderr=writer)
        os.close(writer)
        if make is os.pipe:
            os.close(reader)
        pids = [int(process.stdout.readline()) for _ in range(4)]
        os.kill(guard_of(process), signal.SIGKILL)
        equal(overlaps(("mute", pids)), [], "kill -9 of the guard, and %s: no worker runs on" % what)
        equal(process.wait(), 125, "exit status 125")
        if make is full_pipe:
            os.close(reader)


def test_rest():
    """As under flock(1), which has the lock on a descriptor that they inherit."""
    process, pids = start("rest", "setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3", count=1)
    out, _ = process.communicate()
    equal((process.returncode, out), (3, ""), "processes that the command leaves do not delay redlock's end")
    client = agent.client()
    ok(isinstance(client.acquire("rest"), lab.ReplyError), "but the lease is held as long as they run")
    os.kill(pids[0], signal.SIGKILL)
    ok("id" in client.acquire("rest", "WAIT", 20000), "and released at their end")
    process, pids = start("close", "setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3", "-o", count=1)
    equal(process.wait(), 3, "with -o")
    ok("id" in client.acquire("close", "WAIT", 20000) and lab.alive(pids[0]),
       "-o: the lease is released at the command's end")
    os.kill(pids[0], signal.SIGKILL)
    client.close()


def test_changed_user():
    if not CAN_CHANGE_USER:
        skip("a command that changes its user", "only root can")
        return
    change = "setpriv --reuid=65534 --clear-groups "
    running = []
    for _ in range(10):
        process, pids = start("user", change + "sleep 1000 & echo $!; exec setsid " + change + "sleep 1000",
                              count=1)
        process.kill()
        running += overlaps(("user", pids))
    equal(running, [], "kill -9 of a redlock that runs as root: workers of other users end too")


def test_cannot_be_ended():
    """Without the right to signal processes of other users, as for a user with sudo in the command."""
    if not CAN_CHANGE_USER:
        skip("a command that can't be ended", "only root can change users")
        return
    prefix = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill"]
    text = "setpriv --reuid=65534 --clear-groups sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1000"
    process, pids = start("sudo", text, prefix=prefix, count=1)
    wait_for_changed_user(pids[0])
    process.kill()
    errors = process.stderr.readline()
    ok("process %d (sleep) can't be ended: Operation not permitted; " % pids[0] in errors and
       "the lease is held until it ends" in errors and "sudo redlock run" in errors, errors.strip())
    client = agent.client()
    ok(isinstance(client.acquire("sudo"), lab.ReplyError), "a process that can't be ended keeps the lease")
    os.kill(pids[0], signal.SIGKILL)
    ok("id" in client.acquire("sudo", "WAIT", 20000), "until its end")
    client.close()

    own = lab.Agent(nodes, lab.UNHURRIED)
    process = begin(own, "run", "-t", "4s", "sudo loss", "-c", text, prefix=prefix)
    pid = int(process.stdout.readline())
    wait_for_changed_user(pid)
    own.kill()
    _, errors = process.communicate(timeout=20 * lab.SCALE)
    equal(process.returncode, 125, "with a lost lease redlock exits nevertheless: 125")
    ok("process %d (sleep) can't be ended: Operation not permitted; it goes on without the lease" % pid
       in errors, errors.strip())
    os.kill(pid, signal.SIGKILL)


def test_other_children():
    """Those of the shell that has become redlock by exec."""
    process = lab.spawn(["sh", "-c", "(sleep 1000 & echo $!; wait) & exec %s --socket %s run others -- "
                         "sh -c 'echo $$; exec sleep 1000'" % (lab.REDLOCK, agent.socket_path)], text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sidecar, worker = [int(process.stdout.readline()) for _ in range(2)]
    os.kill(guard_of(process), signal.SIGKILL)
    equal(process.wait(20 * lab.SCALE), 125, "kill -9 of the guard, with another child of the shell: 125")
    ok(not lab.alive(worker) and lab.alive(sidecar), "only the command is stopped")
    os.kill(sidecar, signal.SIGKILL)


def test_without_proc():
    """Then the guard knows no process but the command."""
    hidden = ["unshare", "-m", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
    if not CAN_CHANGE_USER or not shutil.which("unshare") or subprocess.run(
            [*hidden, lab.REDLOCK, "--version"], capture_output=True).returncode != 0:
        skip("redlock run without /proc", "/proc can't be unmounted here, or this build needs it")
        return
    own = lab.Agent(nodes, lab.UNHURRIED)
    commands = []
    for name in "procless", "procless, killed":
        process = begin(own, "run", "-t", "4s", name, "-c", "echo $$; exec sleep 1000", prefix=hidden)
        commands.append((process, int(process.stdout.readline())))
    (first, worker), (second, other) = commands
    second.kill()
    lab.wait_for(lambda: not lab.alive(other), what="the end of the command")
    ok("id" in agent.client().acquire("procless, killed", "WAIT", 20000),
       "kill -9 of redlock run without /proc: the command is ended, and the lease released")
    begun = lab.now()
    own.stop()
    deadline = lab.keys_end(nodes, "procless")
    runs, _ = lab.when(lambda: not lab.alive(worker), begun, what="the end of the command")
    left = deadline - runs
    ok(left > 0, "a lost lease: the command is ended before the keys end (%d ms)" % (left * 1000))
    errors = first.communicate()[1]
    equal(first.returncode, 125, "exit status 125")
    ok("procless: /proc does not show the processes of this PID namespace: only the command itself" in
       errors, errors.split("\n")[0])
    own.cont()
    own.terminate()


main(test_killed_a_hundred_times, test_guard_killed, test_group_killed, test_lost,
     test_extended_after_all, test_ended_at_a_stuck_agent, test_no_grace,
     test_guard_killed_without_reader, test_rest, test_changed_user, test_cannot_be_ended,
     test_other_children, test_without_proc)
