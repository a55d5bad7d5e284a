"""The redlock command: exit statuses, signals, and that the command never outlives the lease."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time

import lab
from tap import begins, equal, main, ok, skip, within

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)


def test_exit_statuses():
    run = lambda *arguments: lab.redlock_run(agent, "run", *arguments)
    equal(run("x", "--", "true")[0], 0, "0: done")
    equal(run("x", "--", "sh", "-c", "exit 7")[0], 7, "the command's own")
    equal(run("x", "--", "sh", "-c", "kill -TERM $$")[0], 128 + 15, "128 + n for a signal")
    equal(run("x", "-c", "exit 3")[0], 3, "-c runs a shell text")
    equal(run("x", "--", "/nonexistent/command")[0], 127, "127: not found")
    equal(run("x", "--", "/etc/passwd")[0], 126, "126: not executable")
    equal(run("x")[0], 64, "64: no command")
    equal(run("-t", "1x", "x", "--", "true")[0], 64, "64: an invalid time")
    equal(run("-t", "1h", "x", "--", "true")[0], 64, "64: a ttl above max_ttl")
    equal(run("--grace", "9s", "x", "--", "true")[0], 64, "64: a grace beyond half of the ttl")
    status, _, errors = run("-t", "10s", "--grace", "5001ms", "x", "--", "true")
    equal((status, errors), (64, "redlock: a grace of 5001 ms: expected at most half of the ttl, 5000 ms\n"),
          "64: the same with --ttl")
    equal(run("-t", "10s", "--grace", "5s", "x", "--", "true")[0], 0, "just half is allowed")
    equal(run("--grace", "5s", "x", "--", "true"), (0, "", ""), "also half of the agent's default ttl, 10 s")
    equal(run("-t", "0", "--grace", "5s", "x", "--", "true")[0], 0, "which -t 0 means, too")
    equal(run("--grace", "5001ms", "x", "--", "echo", "run"),
          (64, "", "redlock: a grace of 5001 ms: expected at most half of the ttl, 5000 ms\n"),
          "64: a ms more than half, and the command is not run")
    equal(run("--grace", "4.5s", "--max-hold", "9s", "x", "--", "true")[0], 0, "--max-hold is not the ttl")
    holder = agent.client()
    assert "id" in holder.acquire("x", "WAIT", 10000)
    equal(run("--grace", "9s", "x", "--", "true")[0], 64, "64: too long a grace, before the wait")
    equal(run("-n", "x", "--", "true")[0], 1, "1: held, with -n")
    equal(run("-n", "-E", "33", "x", "--", "true")[0], 33, "-E changes that")
    for wait in ["-n"], ["-w", ".1"]:
        status, out, errors = run(*wait, "-E", "0", "x", "--", "echo", "run")
        equal((status, out, errors.count("\n"), "held by process" in errors), (0, "", 1, True),
              "also to 0: the command is not run, " + " ".join(wait))
    equal(run("-q", "-n", "-E", "0", "x", "--", "echo", "run"), (0, "", ""), "nor with -q")
    script = lab.spawn(["sleep", "100"])
    equal(lab.redlock_run(agent, "acquire", "-qn", "-E", "0", "--for", str(script.pid), "x"), (0, "", ""),
          "acquire has nothing to print then")
    script.kill()
    status, _, errors = run("-w", "0.2", "x", "--", "true")
    equal(status, 124, "124: waited too long")
    ok("held by process" in errors, "with the holder")
    holder.close()
    status, _, errors = lab.redlock_run(agent, "--socket", "/nonexistent", "run", "x", "--", "true")
    equal(status, 69, "69: no agent")
    ok("is redlockd running?" in errors, "with a hint")
    lonely = lab.Agent([lab.FakeNode("f", "-OOM full")])
    equal(lab.redlock_run(lonely, "run", "-n", "x", "--", "true")[0], 75, "75: no quorum")
    lonely.terminate()
    status, _, _ = lab.redlock_run(agent, "nonsense")
    equal(status, 64, "64: an unknown command")
    status, _, errors = lab.redlock_run(agent, "--socket")
    equal(status, 64, "64: an option without its value")
    ok("expected PATH" in errors, "with a hint")
    for command in ("run", "acquire", "release", "hold", "status", "nodes", "leases", "leader", "watch",
                    "history", "check"):
        ok("redlock " + command in lab.redlock_run(agent, command, "--help")[1], "%s --help" % command)
        status, out, errors = lab.redlock_run(agent, command, "--nonsense", "x")
        equal((status, out), (64, ""), "64: an unknown option of %s" % command)
        equal(errors, "redlock: %s: unknown option '--nonsense'; 'redlock %s --help' lists the options\n" %
              (command, command), "with the option's name and the way to the help")
    status, _, errors = lab.redlock_run(agent, "nodes", "--bless")
    ok(status == 64 and "--bless wants NODE" in errors, "64: --bless without a node")
    for words, what in ((["-ny"], "unknown option '-y'"), (["-t"], "a value is missing after '-t'"),
                        (["--ttl"], "a value is missing after '--ttl'"),
                        (["--ttl=5s", "-yn"], "unknown option '-y'"),
                        (["--nonblock=1"], "unexpected value in '--nonblock=1'"),
                        (["--c"], "ambiguous option '--c'"),
                        (["--non\x1b[2J"], "unknown option '--non?[2J'")):
        status, _, errors = lab.redlock_run(agent, "run", *words)
        equal((status, errors), (64, "redlock: run: %s; 'redlock run --help' lists the options\n" % what),
              "64: %s" % what)


def test_arguments():
    """Arguments are checked before a connection is made: here is no agent."""
    run = lambda *words: lab.redlock_run(agent, "--socket", "/nonexistent", *words)
    times = "expected a time such as 500ms, 10s or 2m, at most 24d"
    for words, what in (
            (["check", "--timeout", "x"], "--timeout x: " + times),
            (["check", "-w", "x"], "-w x: " + times),
            (["check", "-w", "24.1d"], "-w 24.1d: " + times),
            (["check", "--fence", "0", "a"], "--fence 0: expected a token; 0 is none, for a name without "
             "fencing (fencing = no)"),
            (["release", "--fence", "x"], "--fence x: expected a number as 'redlock acquire' prints it"),
            (["run", "--nb", "--tim", "25d", "a", "true"], "--timeout 25d: " + times),
            (["run", "-E", "x", "a", "true"], "-E x: expected an exit status from 0 to 255"),
            (["leader"], "leader: expected NAME; see 'redlock leader --help'"),
            (["watch"], "watch: expected NAME...; see 'redlock watch --help'"),
            (["hold"], "hold: expected NAME; see 'redlock hold --help'"),
            (["release"], "release: expected --id ID, --fence TOKEN or NAME; see 'redlock release --help'"),
            (["acquire", "--for", "1"],
             "acquire: expected --for PID and NAME; see 'redlock acquire --help'"),
            (["run", "a"], "run: expected NAME and a command; see 'redlock run --help'"),
            (["check", "--id", "3"], "check: --id and --fence want NAME; see 'redlock check --help'"),
            (["check", "--lease", "b", "a"],
             "check: expected either NAME or --lease NAME; see 'redlock check --help'"),
            (["run", "a", "-c"],
             "run: a value is missing after '-c'; 'redlock run --help' lists the options"),
            (["run", "a", "-n", "true"],
             "run: unexpected '-n' behind NAME: options stand in front of NAME; see 'redlock run --help'"),
            (["run", "a", "-c", "true", "b"], "run: unexpected argument 'b'; see 'redlock run --help'"),
            (["nodes", "--bless"], "nodes: --bless wants NODE...; see 'redlock nodes --help'")):
        equal(run(*words), (64, "", "redlock: %s\n" % what), "64: " + " ".join(words))
    for words in (["status"], ["nodes"], ["leases"], ["leader", "a"], ["hold", "a"], ["release", "a"],
                  ["check", "a"], ["acquire", "--for", "1", "a"]):
        equal(run(*words, "b\u00e4\x1b", "c"),
              (64, "", "redlock: %s: unexpected argument 'b\u00e4?'; see 'redlock %s --help'\n" %
               (words[0], words[0])), "64: a surplus argument of %s, which is named" % words[0])
    equal(run("run", "a", "--", "-n"), (127, "", "redlock: -n: No such file or directory\n"),
          "behind -- the command may begin with a dash")
    for words, what in ((["run", "--max-hold", "0", "a", "true"], "--max-hold 0: expected 100 ms or more"),
                        (["run", "--grace", "1.5s", "--max-hold", "2s", "a", "true"],
                         "a grace of 1500 ms: expected at most half of --max-hold, 1000 ms"),
                        (["nodes", "--bless", "--json", "a"],
                         "nodes: expected either --bless or --json; see 'redlock nodes --help'"),
                        (["top", "--count", "60", "--once"],
                         "top: expected either --once or --count; see 'redlock top --help'"),
                        (["top", "--count", "x"], "--count x: expected a number above 0"),
                        (["--socket", "", "status"], "--socket: expected PATH; see 'redlock --help'"),
                        (["--socket=", "status"], "--socket: expected PATH; see 'redlock --help'")):
        equal(run(*words), (64, "", "redlock: %s\n" % what), "64: " + " ".join(words))
    for words in (["--bless", "a"], ["a", "--bless"]):
        equal(lab.redlock_run(agent, "nodes", *words), (0, "", ""), "nodes " + " ".join(words))
    status, _, errors = lab.redlock_run(agent, "nodes", "--bless", "x", "a", "y")
    equal((status, errors.splitlines()),
          (64, ["redlock: %s: not blessed: no node has this name; 'redlock nodes' lists them" % node
                for node in "xy"]), "nodes --bless takes several nodes, and names each unknown one")
    equal(run("run", "-w", "24d", "a", "true")[0], 69, "24d is a time")
    for option, least in (("--ttl", "100ms"), ("--linger", "0s")):
        for command in (["run", option, "9h", "a", "true"], ["hold", option, "9h", "a"]):
            equal(lab.redlock_run(agent, *command)[::2],
                  (64, "redlock: a: %s: expected a time from %s to 1m\n" % (option, least)),
                  "%s %s: the option is named" % (command[0], option))
    equal(lab.redlock_run(agent, "run", "--max-hold", "99ms", "a", "true")[::2],
          (64, "redlock: a: --max-hold: expected a time from 100ms to 24d\n"), "a time that is too short")
    process = lab.redlock(agent, "hold", "a", env=dict(os.environ, REDLOCK_TTL="2m"))
    equal(process.communicate(timeout=20 * lab.SCALE)[1],
          "redlock: a: REDLOCK_TTL: expected a time from 100ms to 1m\n", "a variable is named instead")
    equal(lab.redlock_run(agent, "check", "--lease", "")[:2], (64, ""), "check --lease with no name")


def test_not_names():
    run = lambda name: lab.redlock_run(agent, "run", name, "--", "true")
    for name, shown in (("", "''"), ("n" * 513, "'" + "n" * 60 + "...'"),
                        ("two\nlines\x1b[2J\u009b2J", "'two?lines?[2J?2J'"),
                        ("n" * 59 + "\u00e4" * 300, "'" + "n" * 59 + "...'")):
        status, _, errors = run(name)
        equal(status, 64, "64: an invalid name")
        begins(errors, "redlock: %s: not a name: a name has " % shown, "which is named on one short line")
        ok(errors.count("\n") == 1, errors.strip())
        status, _, errors = lab.redlock_run(agent, "release", name)
        ok(status == 64 and errors.startswith("redlock: %s: not a name: " % shown), "by release, too")
    equal(run("n" * 512)[0], 0, "the longest name")


def fill_backlog(socket_path):
    """With connections that are closed again: they keep their places until the agent accepts them."""
    for _ in range(10000):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)
            try:
                connection.connect(socket_path)
            except BlockingIOError:
                return
    raise RuntimeError("the backlog has no end")


def state_of(process):
    with open("/proc/%d/stat" % process.pid) as file:
        return file.read().rpartition(")")[2].split()[0]


def test_stopped_agent():
    stuck = lab.Agent(nodes, lab.UNHURRIED)
    stuck.stop()
    status, _, errors = lab.redlock_run(stuck, "run", "-n", "x", "--", "true")
    equal(status, 69, "69: an agent that is stopped")
    ok("the agent does not answer; is it stopped, or stuck?" in errors, errors.strip())
    fill_backlog(stuck.socket_path)
    process = lab.redlock(stuck, "run", "-n", "x", "--", "true")
    lab.wait_for(lambda: state_of(process) in "SZ", 5, "redlock to sleep")
    stuck.cont()
    equal((*process.communicate(), process.returncode), ("", "", 0),
          "an agent with a full backlog: redlock waits for its turn")
    stuck.terminate()


def test_stopped_while_waiting():
    """A lease that comes while the command is stopped (Ctrl-Z) goes to others; fg waits again."""
    holder, next_one = agent.client(), agent.client()
    waiters = lambda count: lab.wait_for(lambda: agent.status()["waiters"] == count,
                                         what="%d waiters" % count)
    for number in signal.SIGTERM, signal.SIGINT:
        grant = holder.acquire("stopped", "WAIT", 20000)
        process = lab.redlock(agent, "run", "stopped", "--", "true")
        waiters(1)
        process.send_signal(signal.SIGSTOP)
        holder.call("RELEASE", grant["id"])
        got = next_one.acquire("stopped", "WAIT", 20000)
        ok("id" in got, "the lease of a stopped command is given back")
        process.send_signal(signal.SIGCONT)
        waiters(1)
        process.send_signal(number)
        equal(process.wait(20 * lab.SCALE), -number, "a signal ends the command, which waits again")
        waiters(0)
        next_one.call("RELEASE", got["id"])
    grant = holder.acquire("stopped", "WAIT", 20000)
    process = lab.redlock(agent, "run", "stopped", "--", "echo", "run")
    waiters(1)
    process.send_signal(signal.SIGSTOP)
    holder.call("RELEASE", grant["id"])
    got = next_one.acquire("stopped", "WAIT", 20000)
    process.send_signal(signal.SIGCONT)
    waiters(1)
    next_one.call("RELEASE", got["id"])
    equal((*process.communicate(timeout=20 * lab.SCALE), process.returncode), ("run\n", "", 0),
          "without a signal the command runs when its turn comes")
    grant = holder.acquire("stopped", "WAIT", 20000)
    process = lab.redlock(agent, "run", "--linger", "8s", "stopped", "--", "true")
    waiters(1)
    process.send_signal(signal.SIGSTOP)
    holder.call("RELEASE", grant["id"])
    waiters(0)
    process.kill()
    begun = lab.now()
    ok("id" in next_one.acquire("stopped", "WAIT", 20000), "the command is killed just after the grant")
    within(lab.now() - begun, 0, 5, "no lease lingers for it, in seconds")
    process.wait()
    for client in holder, next_one:
        client.close()


def test_time_passes_while_stopped():
    """The time of --wait goes on: fg waits for the rest of it only."""
    holder, next_one = agent.client(), agent.client()
    wait = 4 * lab.SCALE
    grant = holder.acquire("stopped", "WAIT", 20000)
    process = lab.redlock(agent, "run", "-w", "%gs" % wait, "stopped", "--", "echo", "run")
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    asked = lab.now()
    process.send_signal(signal.SIGSTOP)
    holder.call("RELEASE", grant["id"])
    assert "id" in next_one.acquire("stopped", "WAIT", 20000)
    lab.wait_for(lambda: lab.now() > asked + wait, what="the end of the time")
    continued = lab.now()
    process.send_signal(signal.SIGCONT)
    out, errors = process.communicate(timeout=20 * lab.SCALE)
    equal((process.returncode, out), (124, ""), "the time passes while the command is stopped: 124")
    ok(errors.endswith("redlock: stopped: timed out waiting for the lease\n"), "with a message")
    ok(lab.now() - continued < wait / 2, "at once (%.1f s)" % (lab.now() - continued))
    for client in holder, next_one:
        client.close()


def test_rule_with_a_short_ttl():
    """The default linger is 2 s."""
    short = lab.Agent(nodes, lab.UNHURRIED + 'rule "*" { max_ttl = "1900ms" }')
    equal(lab.redlock_run(short, "run", "x", "--", "true")[0], 0,
          "run works under a rule's max_ttl of less")
    status, _, errors = lab.redlock_run(short, "run", "-n", "--linger", "2s", "x", "--", "true")
    equal(status, 77, "as an option, such a linger is denied")
    ok("allows LINGER at most 1900 ms" in errors, errors.strip())
    equal(lab.redlock_run(short, "run", "--grace", "950ms", "x", "--", "true")[0], 0,
          "a grace of half of that ttl")
    status, _, errors = lab.redlock_run(short, "run", "-n", "--grace", "951ms", "x", "--", "true")
    equal((status, errors), (64, "redlock: a grace of 951 ms: expected at most half of the ttl, 950 ms\n"),
          "a ms more is an error")
    short.terminate()


def test_full_agent():
    full = lab.Agent(nodes, "max_sessions = 1")
    client = full.last_client()
    status, _, errors = lab.redlock_run(full, "run", "-n", "x", "--", "true")
    equal(status, 75, "75: the agent has no room for a connection")
    ok("a limit of the agent" in errors, errors.strip())
    client.close()
    full.terminate()


def test_environment_and_group():
    out = lab.redlock_run(agent, "run", "env name", "--", "sh", "-c",
                          'echo "$REDLOCK_NAME|$REDLOCK_ID|$REDLOCK_FENCE|'
                          '$(ps -o pgid= -p $$ | tr -d " ")"')[1]
    name, identity, fence, group = out.strip().split("|")
    equal(name, "env name", "REDLOCK_NAME")
    ok(int(identity) > 0, "REDLOCK_ID")
    ok(abs(int(fence) - time.time() * 1e6) < 120e6, "REDLOCK_FENCE")
    equal(int(group), os.getpgrp(), "the command is in redlock's process group")


def test_signals_are_passed_on():
    process = lab.redlock(agent, "run", "signals", "--", "sh", "-c",
                          'trap "echo got; exit 9" USR1; echo ready; while :; do sleep 0.05; done')
    equal(process.stdout.readline(), "ready\n", "a running command")
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=20 * lab.SCALE)
    equal((out, process.returncode), ("got\n", 9), "gets the group's signals")


def test_waits_before_release():
    process = lab.redlock(agent, "run", "slow end", "--", "sh", "-c",
                          'trap "" TERM; echo ready; sleep 1; echo end')
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    waiter = agent.client()
    grant = waiter.acquire("slow end", "WAIT", 10000)
    equal(process.stdout.readline(), "end\n", "the lease is released only when the command has ended")
    ok("id" in grant, "and then at once")
    process.wait()
    waiter.close()


ENDS = (("killed", lab.Agent.kill), ("stopped", lab.Agent.stop), ("terminated", lab.Agent.terminate))


def dead_before_the_keys_end(ttl, ends):
    """Seconds before, of a command's whole group, for each of these ends of its agent."""
    left_s = {}
    doomed = []
    for what, end in ends:
        victim = lab.Agent(nodes, lab.UNHURRIED)
        process = lab.redlock(victim, "run", "-t", ttl, "doomed " + what, "--", "sh", "-c",
                              'trap "" TERM; sleep 100 & echo "$$ $!"; wait; sleep 100')
        pids = [int(pid) for pid in process.stdout.readline().split()]
        doomed.append((what, end, victim, process, pids))
    key_ends, seen_alive = {}, {}
    for what, end, victim, *_ in doomed:
        seen_alive[what] = lab.now()
        end(victim)
        key_ends[what] = lab.keys_end(nodes, "doomed " + what)

    def all_dead():
        """However late this process looks: it counts when they were alive."""
        for what, _, _, _, pids in doomed:
            at = lab.now()
            if any(lab.alive(pid) for pid in pids):
                seen_alive[what] = at
            elif what not in left_s:
                left_s[what] = key_ends[what] - seen_alive[what]
        return len(left_s) == len(ends)

    lab.wait_for(all_dead, seconds=20, what="the end of the commands")
    for what, _, victim, process, _ in doomed:
        ok(left_s[what] > 0, "agent %s: the whole group is dead before the keys end (%.0f ms before)"
           % (what, 1000 * left_s[what]))
        equal(process.wait(20 * lab.SCALE), 125, "exit status 125")
        ok("lease" in process.stderr.read(), "with a message")
        victim.kill()
    return left_s.values()


def test_never_outlives_a_short_lease():
    for end in ENDS:
        dead_before_the_keys_end("1500ms", [end])


def test_never_outlives_the_lease():
    """The kill comes 1 % of the ttl before the deadline, and the deadline as much before the keys end."""
    ok(lab.median(dead_before_the_keys_end("10s", ENDS)) > 0.1, "before the deadline, that is")


def test_quorum_lost():
    own = lab.nodes(3)
    victim = lab.Agent(own)
    process = lab.redlock(victim, "run", "-t", "8s", "--grace", "4s", "no quorum", "--", "sh", "-c",
                          'trap "echo term" TERM; echo ready; while :; do sleep 0.05; done')
    process.stdout.readline()
    for node in own:
        node.kill()
    equal(process.stdout.readline(), "term\n", "SIGTERM comes first")
    first = lab.now()
    runs, over = lab.when(lambda: process.poll() is not None, first, what="the end of the command")
    equal(process.returncode, 125, "then the end: 125")
    ok(over - first > 2.0 and runs - first < 4.0 + 0.2 * lab.SCALE,
       "after the grace, of 4 s (%.1f to %.1f s)" % (runs - first, over - first))
    ok("no quorum" in process.stderr.read().replace("-", " "), "with the reason")
    lab.wait_for(lambda: victim.status()["losses"] == 1, what="the loss in the counters")
    lab.wait_for(lambda: "lease no\\x20quorum: lost: no-quorum" in victim.log_text(), what="the log's line")
    ok(True, "a command that is stopped for a lost lease counts as a loss, and is logged")
    waiting = lab.redlock(victim, "run", "no quorum", "--", "true")
    begins(waiting.stderr.readline(), "redlock: no quorum: waiting: no quorum",
           "the next command prints why it waits")
    waiting.terminate()
    waiting.wait(20 * lab.SCALE)
    victim.terminate()


def test_max_hold():
    bounded = lab.Agent(nodes, 'max_hold = "5s"\ndefault_ttl = "4s"\nnode_timeout = "1900ms"\n')
    bounded_run = lab.redlock(bounded, "run", "bounded", "--", "sleep", "100")
    status, _, errors = lab.redlock_run(agent, "run", "--max-hold", "5s", "-t", "4s", "--grace", ".3",
                                        "longest", "--", "sleep", "100")
    equal(status, 125, "--max-hold ends the command: 125")
    equal(errors, "redlock: longest: held for 5000 ms, as long as --max-hold allows: stopping the command\n",
          "with the option that ended the command, once")
    status, _, errors = lab.redlock_run(agent, "run", "--max-hold", "1s", "shortest", "--", "sleep", "100")
    equal((status, errors),
          (125, "redlock: shortest: held for 1000 ms, as long as --max-hold allows: stopping the command\n"),
          "also when that is shorter than the ttl")
    _, errors = bounded_run.communicate(timeout=20 * lab.SCALE)
    equal(bounded_run.returncode, 125, "the agent's max_hold: 125")
    ok("held for as long as the agent's max_hold allows" in errors, errors.strip())
    bounded.terminate()


def test_parent_death():
    process = lab.redlock(agent, "run", "orphan", "--", "sh", "-c", "echo $$; exec sleep 100")
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    lab.wait_for(lambda: not lab.alive(pid), what="the end of the command")
    ok(True, "the command dies with redlock, even by kill -9")
    lab.wait_for(lambda: lab.keys_on(nodes, "orphan") == 0, what="the release")
    ok(True, "and the lease is released")


def waiter_pid():
    leases = json.loads(lab.redlock_run(agent, "leases", "--json")[1])
    return next(lease["pid"] for lease in leases if lease["state"] == "waiting")


def test_acquire_stopped():
    """A grant that its process reads when the lease has expired is no success."""
    holder, next_one = agent.client(), agent.client()
    grant = holder.acquire("expired")
    script = lab.spawn(["sleep", "100"])
    process = lab.redlock(agent, "acquire", "--for", str(script.pid), "-t", "500ms", "expired")
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    background = waiter_pid()
    os.kill(background, signal.SIGSTOP)
    holder.call("RELEASE", grant["id"])
    ok("id" in next_one.acquire("expired", "WAIT", 20000), "a process that is stopped loses its lease")
    os.kill(background, signal.SIGCONT)
    out, errors = process.communicate(timeout=20 * lab.SCALE)
    equal((process.returncode, out), (125, ""), "redlock acquire exits with 125: %s" % errors.strip())
    script.kill()
    for client in holder, next_one:
        client.close()


def test_acquire_gives_up():
    """A waiting `redlock acquire` ends with either of the processes that want the lease."""
    holder = agent.client()
    holder.acquire("wanted")
    waiters = lambda count: lab.wait_for(lambda: agent.status()["waiters"] == count,
                                         what="%d waiters" % count)
    for what in "the script", "the command", "the background process":
        script = lab.spawn(["sleep", "100"])
        process = lab.redlock(agent, "acquire", "--for", str(script.pid), "wanted")
        waiters(1)
        if what == "the background process":
            os.kill(waiter_pid(), signal.SIGTERM)
        else:
            (script if what == "the script" else process).kill()
        waiters(0)
        ok(True, "%s ends: nobody waits any more" % what)
        process.communicate(timeout=20 * lab.SCALE)
        script.kill()
        script.wait()
    holder.close()


def test_acquire_for():
    script = lab.spawn(["sleep", "100"])
    status, out, _ = lab.redlock_run(agent, "acquire", "--for", str(script.pid), "script")
    equal(status, 0, "redlock acquire --for PID returns when the lease is held")
    identity, fence, pid = (int(word) for word in out.split())
    ok(identity > 0 and fence > 0 and lab.alive(pid),
       "and prints its id, its fencing token and the holder's pid")
    equal(lab.redlock_run(agent, "check", "script")[0], 0, "check NAME: held")
    equal(lab.redlock_run(agent, "acquire", "--for", str(script.pid), "-n", "script")[0], 1,
          "-n when it is held")
    script.kill()
    script.wait()
    lab.wait_for(lambda: lab.redlock_run(agent, "check", "script")[0] == 1, what="the release")
    ok(True, "the lease ends with the process")
    equal(lab.redlock_run(agent, "acquire", "script")[0], 64, "without --for: 64")
    own = lab.nodes(1)
    victim = lab.Agent(own)
    script = lab.spawn(["sleep", "100"])
    lab.redlock_run(victim, "acquire", "--for", str(script.pid), "-t", "4s", "--signal", "USR1",
                    "lost one")
    victim.kill()
    equal(script.wait(20 * lab.SCALE), -signal.SIGUSR1,
          "--signal: the process gets the signal when the lease is lost")


def test_acquire_in_a_service():
    """A service manager sends SIGTERM to all processes of a service: the script may work on."""
    script = lab.spawn(["sleep", "100"])
    _, out, _ = lab.redlock_run(agent, "acquire", "--for", str(script.pid), "serving")
    holder = int(out.split()[2])
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
        os.kill(holder, number)
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] > extensions, 10, what="an extension")
    equal(lab.redlock_run(agent, "check", "serving")[0], 0, "the lease outlives signals to its holder,")
    script.kill()
    script.wait()
    lab.wait_for(lambda: lab.redlock_run(agent, "check", "serving")[0] == 1, what="the release")
    lab.wait_for(lambda: not lab.alive(holder), what="the end of its holder")
    ok(True, "and ends with the script")
    script = lab.spawn(["sleep", "100"])
    _, out, _ = lab.redlock_run(agent, "acquire", "--for", str(script.pid), "serving")
    os.kill(int(out.split()[2]), signal.SIGTERM)
    equal(lab.redlock_run(agent, "release", "serving")[0], 0, "redlock release ends it all the same")
    if os.getuid() == 0:
        process = subprocess.run([lab.REDLOCK, "acquire", "--for", str(script.pid), "--signal", "TERM", "x"],
                                 user=65534, capture_output=True, text=True)
        ok(process.returncode == 77 and "belongs to another user" in process.stderr,
           "77: --signal to a process of another user: " + process.stderr.strip())
    script.kill()


def test_empty_socket():
    process = subprocess.run([lab.REDLOCK, "status"], env=dict(os.environ, REDLOCK_SOCKET=""),
                             capture_output=True, text=True)
    ok(process.returncode == 69 and "/redlockd.sock: no agent there" in process.stderr,
       "an empty REDLOCK_SOCKET counts as unset: " + process.stderr.strip())


def test_missing_command():
    """Found missing before the request: the name does not cool for nothing."""
    equal(lab.redlock_run(agent, "run", "-n", "--min-hold", "30s", "nightly", "--", "no-such-command"),
          (127, "", "redlock: no-such-command: No such file or directory\n"), "127: no such command")
    plain, other = (os.path.join(lab.directory, name) for name in ("plain", "other"))
    for directory, mode in (plain, 0o644), (other, 0o755):
        os.mkdir(directory)
        with open(os.path.join(directory, "job"), "w") as file:
            file.write("#!/bin/sh\necho run\n")
        os.chmod(file.name, mode)
    words = [lab.REDLOCK, "--socket", agent.socket_path, "run", "-n"]
    run = lambda path, *command: subprocess.run([*words, *command], env=dict(os.environ, PATH=path),
                                                capture_output=True, text=True)
    for path, command in ("", os.path.join(plain, "job")), ("", plain), (plain + ":/nonexistent", "job"):
        done = run(path, "--min-hold", "30s", "nightly", "--", command)
        equal((done.returncode, done.stderr), (126, "redlock: %s: Permission denied\n" % command),
              "126: not executable")
    equal(lab.redlock_run(agent, "run", "-n", "nightly", "--", "true")[0], 0, "and the name is free")
    done = run(plain + ":" + other, "nightly", "--", "job")
    equal((done.returncode, done.stdout), (0, "run\n"), "an executable one in a later directory is run")


def test_acquire_detached():
    """The background process keeps no descriptor of its caller's, and finds the next agent by a relative
    path."""
    victim = lab.Agent(lab.nodes(1))
    script = lab.spawn(["sleep", "100"])
    reader, writer = os.pipe()
    directory, socket_name = os.path.split(victim.socket_path)
    process = lab.spawn([lab.REDLOCK, "--socket", socket_name, "acquire", "--for", str(script.pid),
                         "-t", "20s", "detached"], cwd=directory, pass_fds=[writer], stdout=subprocess.PIPE)
    os.close(writer)
    equal(process.wait(20 * lab.SCALE), 0, "redlock acquire with a relative path of the socket")
    ok(select.select([reader], [], [], 15 * lab.SCALE)[0] and os.read(reader, 1) == b"",
       "a pipe's reader gets the end of its file while the lease is held")
    victim.kill()
    victim.start()
    ok(lab.wait_for(lambda: victim.status()["leases"] == 1, 15), "the next agent resumes the lease")
    script.kill()
    os.close(reader)
    victim.kill()


def test_acquire_without_null_device():
    """The caller's pipes are closed all the same: their reader does not wait for the lease's end."""
    if os.getuid() != 0 or not shutil.which("unshare"):
        skip("acquire without /dev/null", "not root, or no unshare here")
        return
    script = 'mount -t tmpfs none /dev && exec "$0" --socket "$1" acquire --for "$2" "no device"'
    holder = lab.spawn(["sleep", "60"])
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, lab.REDLOCK, agent.socket_path,
                           str(holder.pid)], stdout=subprocess.PIPE, text=True, timeout=20 * lab.SCALE)
    equal(done.returncode, 0, "acquire prints the lease and ends: %s" % done.stdout)
    equal(lab.redlock_run(agent, "run", "-n", "no device", "true")[0], 1, "the lease is held")
    lab.end_process(holder)
    lab.wait_for(lambda: lab.redlock_run(agent, "run", "-n", "no device", "true")[0] == 0, what="its end")


def test_listings():
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of the leases of before")
    client = agent.client()
    client.acquire('quote " and ü')
    for command in (["status"], ["nodes"], ["leases"], ["leader", 'quote " and ü'], ["check"]):
        status, out, errors = lab.redlock_run(agent, *command, "--json")
        json.loads(out)
        equal(status, 0, "%s --json prints JSON" % command[0])
        ok(len(lab.redlock_run(agent, *command)[1]) > 10, "and text without --json")
    leases = json.loads(lab.redlock_run(agent, "leases", "--json")[1])
    equal([lease["name"] for lease in leases], ['quote " and ü'], "with the name")
    equal(lab.redlock_run(agent, "leader", "nobody")[0], 1, "leader of a free name: 1")
    for node in nodes:
        node.call("SADD", "no lock", "member")
    equal(lab.redlock_run(agent, "leader", "no lock")[:2],
          (0, "no lock  no lock: its Redis key is of type set  without an expiry\n"),
          "a key that is no lock is shown with its type")
    equal(json.loads(lab.redlock_run(agent, "leader", "--json", "no lock")[1])["type"], "set", "in JSON too")
    for i in range(600):
        client.acquire("page %d" % i)
    leases = json.loads(lab.redlock_run(agent, "leases", "--json")[1])
    equal(len(leases), 601, "leases reads all pages")
    client.close()


def test_columns():
    """Long names of nodes, and a narrow terminal."""
    own = lab.nodes(2)
    own[0].name = "a-node-whose-name-is-long"
    wide = lab.Agent([*own, lab.FakeNode("third", role="slave")])
    wide.wait_voting(2)
    wide.wait_node("third", "failed")
    text = lab.redlock_run(wide, "nodes")[1].splitlines()
    states = [line.split().index("voting") for line in text if "voting" in line]
    columns = {line.index("voting") for line in text if "voting" in line} | {text[0].index("STATE")}
    equal((len(states), len(columns)), (2, 1), "names of any length leave the columns straight")
    out = lab.redlock(wide, "nodes", env=dict(os.environ, COLUMNS="40")).communicate()[0].splitlines()
    reasons = [line for line in out if line.startswith("  ")]
    ok(len(reasons) > 1 and all(len(line) <= 40 for line in reasons), "reasons are broken at $COLUMNS")
    wide.terminate()
    word = "\u00e4" * 50
    wordy = lab.Agent([lab.FakeNode("f", "-OOM " + "\u00fc\u00f6 " * 24 + word + " end")], lab.UNHURRIED)
    lab.redlock_run(wordy, "run", "-n", "x", "--", "true")
    wordy.wait_node("f", reason="OOM")
    ok(lab.redlock_run(wordy, "check")[1].endswith(" of 1 nodes vote, 1 is needed\n"), "check with one node")
    out = lab.redlock(wordy, "nodes", env=dict(os.environ, COLUMNS="40")).communicate()[0].splitlines()
    reasons = [line[2:] for line in out if line.startswith("  ")]
    ok(word in reasons, "a reason is not cut inside a word, be the word longer than a line")
    ok(max(len(line) for line in reasons if line != word) > 33, "a line is filled by characters, not bytes")
    wordy.terminate()


def test_release():
    script = lab.spawn(["sleep", "100"])
    acquire = lambda name: [int(word) for word in lab.redlock_run(
        agent, "acquire", "-n", "--for", str(script.pid), name)[1].split()]
    run = lambda *arguments: lab.redlock_run(agent, *arguments)[0]
    identity, fence, pid = acquire("to release")
    equal(run("check", "--id", str(identity), "to release"), 0, "check --id: held by this lease")
    equal(lab.redlock_run(agent, "check", "--id", str(identity + 1), "to release")[::2],
          (1, "redlock: to release: held by another lease, or lease %d is another user's\n" % (
              identity + 1)),
          "and not by another one")
    equal(run("check", "--fence", str(fence), "to release"), 0, "check --fence: held with this token")
    equal(lab.redlock_run(agent, "check", "--fence", str(fence + 1), "to release")[::2],
          (1, "redlock: to release: held by the lease with token %d, not %d\n" % (fence, fence + 1)),
          "and not with another one")
    status, _, errors = lab.redlock_run(agent, "release", "--id", str(identity + 1))
    ok(status == 1 and "nothing was released" in errors,
       "release of another id: 1, and why: " + errors.strip())
    equal(run("release", "--id", str(identity)), 0, "release by id")
    equal((run("check", "to release"), lab.alive(pid)), (1, False), "ends the holder and the lease")
    equal(run("release", "--id", str(identity)), 1, "once")
    equal(run("release", "--fence", str(acquire("to release")[1])), 0, "release by token")
    acquire("to release")
    equal(run("release", "to release"), 0, "release by name")
    lab.wait_gone(nodes, "to release")
    ok(True, "each time the lease is released")
    client = agent.client()
    assert "id" in client.acquire("to release", "WAIT", 10000)
    status, _, errors = lab.redlock_run(agent, "release", "to release")
    ok(status == 64 and "but does not belong to 'redlock acquire'" in errors,
       "a lease of another program: " + errors.strip())
    client.close()
    process = lab.redlock(agent, "run", "to release", "--", "sh", "-c", "echo ready; sleep 100")
    process.stdout.readline()
    status, _, errors = lab.redlock_run(agent, "release", "to release")
    equal((status, errors), (64, "redlock: process %d ('redlock run') holds the lease: end that process "
                                 "instead\n" % process.pid),
          "a lease of redlock run: the process to end is named, not its guard")
    process.terminate()
    process.wait(20 * lab.SCALE)
    lab.wait_for(lambda: keys("to release") == 0, what="the release at all nodes")
    ok(True, "whose end releases the lease")
    equal(run("release"), 64, "release without anything: 64")
    script.kill()


def test_release_across_namespaces():
    """The holder is not seen from the namespace of redlock release, but holds the lease."""
    if os.getuid() != 0 or not shutil.which("unshare"):
        skip("release from another PID namespace", "not root, or no unshare here")
        return
    script = lab.spawn(["sleep", "100"])
    _, out, _ = lab.redlock_run(agent, "acquire", "--for", str(script.pid), "elsewhere")
    holder = int(out.split()[2])
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", lab.REDLOCK, "--socket",
                           agent.socket_path, "release", "elsewhere"], capture_output=True, text=True,
                          timeout=30 * lab.SCALE)
    equal(done.returncode, 71, "release from another PID namespace: 71")
    ok("process %d in the agent's PID namespace holds the lease" % holder in done.stderr and
       "kill -USR1" in done.stderr, done.stderr.strip())
    equal(lab.redlock_run(agent, "release", "elsewhere")[0], 0, "in the agent's own it is released")
    os.kill(script.pid, signal.SIGKILL)
    acquire = "%s --socket %s acquire --for $$ inside; read line; " % (lab.REDLOCK, agent.socket_path)
    container = lab.spawn(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                           acquire + "kill -USR1 $line; " + acquire],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    container.stdin.write(container.stdout.readline().split()[2] + "\n")
    container.stdin.flush()
    equal(len(container.stdout.readline().split()), 3,
          "a holder in another namespace is ended there by kill -USR1: the next one acquires the lease")
    equal(lab.redlock_run(agent, "release", "inside")[0], 0, "or by release in the agent's namespace")
    container.communicate()


def test_check_token():
    """The agent knows the token of its own lease, whatever token the nodes show; others ask the nodes."""
    elsewhere = lab.Agent(nodes, lab.UNHURRIED)
    check = lambda at, *words: lab.redlock_run(at, "check", *words)[::2]
    client = agent.client()
    former = client.acquire("token")
    assert client.call("RELEASE", former["id"]) == 1
    grant = client.acquire("token", "WAIT", 10000)
    wanted = ("--fence", str(grant["fence"]), "token")
    equal([check(at, *wanted) for at in (agent, elsewhere)], [(0, "")] * 2,
          "check --fence: held, on any host")
    for node in nodes:
        node.call("HSET", "redlockd:fences", "token", former["fence"])
    equal(check(agent, *wanted), (0, ""), "the nodes show the former token, as just after a hand-off: held")
    equal(check(agent, "--id", str(grant["id"]), *wanted), (0, ""), "also with --id")
    equal(check(agent, "--fence", str(former["fence"]), "token"),
          (1, "redlock: token: held by the lease with token %d, not %d\n" % (grant["fence"],
                                                                             former["fence"])),
          "the former token itself no longer counts")
    for node in nodes:
        node.call("HDEL", "redlockd:fences", "token")
    equal(check(agent, *wanted), (0, ""), "the nodes show no token: held")
    equal(check(elsewhere, *wanted), (75, "redlock: token: held, but no majority of the nodes shows its "
                                          "token\n"), "another host can't know: 75")
    client.close()
    for node in nodes:
        node.call("SET", "foreign", "another program's", "PX", 60000)
    equal(check(agent, "--fence", "1", "foreign"),
          (1, "redlock: foreign: held by a lock of another program, which has no token\n"),
          "a lock of another program: 1")
    _, fence, _ = lab.redlock_run(elsewhere, "run", "--min-hold", "30s", "cold", "-c", "echo $REDLOCK_FENCE")
    equal(check(elsewhere, "cold")[0], 0, "a name that cools is held")
    status, errors = check(elsewhere, "--fence", fence.strip(), "cold")
    ok(status == 1 and "not held: the last lease has ended" in errors,
       "but not by the lease that has ended: " + errors.strip())
    elsewhere.terminate()


def keys(name):
    return lab.keys_on(nodes, name)


def test_aliases():
    run = lambda *arguments: lab.redlock_run(agent, "run", *arguments)
    equal(run("-x", "-e", "--exclusive", "-w", ".5", "alias", "true")[0], 0, "flock's -x and -e, and .5")
    holder = agent.client()
    assert "id" in holder.acquire("alias", "WAIT", 10000)
    equal(run("--nb", "alias", "true")[0], 1, "flock's --nb")
    equal(run("--timeout", ".1", "alias", "true")[0], 124, "flock's --timeout")
    equal(run("--timeout", ".1", "-E", "7", "alias", "true")[0], 7, "-E counts for a time-out too")
    equal(run("-q", "-n", "alias", "true"), (1, "", ""), "-q: the exit status alone")
    process = lab.redlock(agent, "run", "alias", "true")
    line = process.stderr.readline()
    ok(line.startswith("redlock: alias: waiting: held by ") and "ms left" in line,
       "a waiting command prints the reason: " + line.strip())
    process.kill()
    holder.close()
    ok("acquired after" in run("--verbose", "alias", "true")[2], "--verbose")
    script = lab.spawn(["sleep", "100"])
    equal(lab.redlock_run(agent, "acquire", "--nb", "-q", "--for", str(script.pid), "alias")[0], 0,
          "acquire --nb -q")
    status, out, errors = lab.redlock_run(agent, "acquire", "--timeout", ".1", "-E", "8", "-q", "--for",
                                          str(script.pid), "alias")
    equal((status, out, errors), (8, "", ""), "acquire has them too")
    script.kill()
    ok("Runs commands under leases" in lab.redlock_run(agent, "-h")[1], "-h")
    ok(lab.redlock_run(agent, "-V")[1].startswith("redlock "), "-V")
    equal(lab.redlock_run(agent, "help")[1], lab.redlock_run(agent, "--help")[1], "help")
    equal(lab.redlock_run(agent, "help", "help"), lab.redlock_run(agent, "--help"), "help help")
    equal(lab.redlock_run(agent, "help", "run")[1], lab.redlock_run(agent, "run", "-h")[1], "help run")
    equal(lab.redlock_run(agent, "help", "nonsense")[0], 64, "help on nothing: 64")


def test_wait_for_a_name_that_cools():
    own = lab.Agent(nodes, lab.UNHURRIED)
    lab.redlock_run(own, "run", "--min-hold", "30s", "cooling", "true")
    for node in nodes:
        node.call("SET", "empty", "", "PX", 60000)
    waiting = [(lab.redlock(own, "run", name, "true"), name, why) for name, why in (
        ("cooling", "the last holder has ended; the name is kept for "),
        ("empty", "held by a key with an empty value, "))]
    for process, name, why in waiting:
        line = process.stderr.readline()
        begins(line, "redlock: %s: waiting: %s" % (name, why), line.strip())
        process.terminate()
        process.wait(20 * lab.SCALE)
    own.terminate()


def test_failing_output():
    script = lab.spawn(["sleep", "100"])
    for words in (["--version"], ["--help"], ["help", "run"], ["status"], ["nodes"], ["leases"], ["check"],
                  ["leader", "full"], ["watch", "full"], ["acquire", "--for", str(script.pid), "full"]):
        with open("/dev/full", "w") as full:
            process = lab.redlock(agent, *words, stdout=full)
            _, errors = process.communicate(timeout=20 * lab.SCALE)
        equal(process.returncode, 71, "%s that can't be written: 71" % " ".join(words[:2]))
        ok("can't write to standard output" in errors, errors.strip())
        process = lab.spawn(["sh", "-c", 'exec "$@" >&-', "sh", lab.REDLOCK, "--socket", agent.socket_path,
                             *words], stderr=subprocess.PIPE, text=True)
        _, errors = process.communicate(timeout=20 * lab.SCALE)
        equal((process.returncode, errors),
              (71, "redlock: can't write to standard output: Bad file descriptor\n"),
              "%s to a closed descriptor: 71" % " ".join(words[:2]))
    lab.wait_for(lambda: keys("full") == 0, what="the release")
    ok(True, "a lease whose id could not be printed is released")
    script.kill()
    process = lab.redlock(agent, "watch", "without a reader")
    process.stdout.readline()
    process.stdout.close()
    equal(process.wait(20 * lab.SCALE), 0, "watch ends when its output is closed")


def without_reader(agent, *words, reader=None):
    """The exit status and the messages of a command to a pipe whose reader has ended, or ends."""
    read_end, write_end = os.pipe()
    if reader is None:
        os.close(read_end)
    else:
        reader.append(read_end)
    process = lab.redlock(agent, *words, stdout=write_end)
    os.close(write_end)
    errors = process.communicate(timeout=20 * lab.SCALE)[1]
    return process.returncode, errors


def test_output_without_reader():
    script = lab.spawn(["sleep", "100"])
    equal(without_reader(agent, "acquire", "--for", str(script.pid), "unread"),
          (71, "redlock: can't write to standard output: Broken pipe\n"),
          "acquire whose reader has ended: 71")
    lab.wait_for(lambda: keys("unread") == 0, what="the release")
    ok(True, "and the lease is released")
    script.kill()
    equal(without_reader(agent, "watch", *["unread %d" % i for i in range(200)]), (0, ""),
          "watch, which prints the first names while it requests the others: 0")
    reader, samples = [], []

    def end_reader():
        samples.append(None)
        if len(samples) == 2:
            os.close(reader.pop())

    equal(without_reader(lab.Between(agent, b"LATEST", end_reader), "top", reader=reader), (0, ""),
          "top whose reader ends just before the first block: 0")
    equal((len(samples), reader), (2, []), "after two samples")


def test_denied_socket():
    if os.getuid() != 0:
        skip("the socket of another group", "only root can have it")
        return
    path = lab.path("closed.sock")
    listening = lab.listener(path)
    os.chmod(path, 0o660)
    os.chmod(lab.directory, 0o755)
    for words in (["run", "x", "true"], ["status"], ["check"], ["hold", "x"], ["watch", "x"],
                  ["release", "x"], ["nodes"], ["nodes", "--bless", "x"], ["leases"], ["leader", "x"],
                  ["check", "x"], ["acquire", "--for", str(os.getpid()), "x"]):
        process = lab.spawn(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", lab.REDLOCK,
                             "--socket", path, *words], text=True, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=20 * lab.SCALE)
        equal(process.returncode, 77, "a socket of another group: 77, for " + words[0])
        ok("permission denied: use the socket's group" in errors, errors.strip())
    listening.close()


def test_check():
    """Full nodes: they answer, and refuse each lease."""
    own = lab.nodes(3)
    full = lab.Agent(own, lab.UNHURRIED)
    equal(lab.redlock_run(full, "check")[0], 0, "check acquires and releases a lease")
    ok("acquired and released" in lab.redlock_run(full, "check")[1], "and prints that")
    client = full.client()
    grant = client.acquire("held")
    status, out, _ = lab.redlock_run(full, "check", "--lease", "held")
    ok(status == 0 and out.endswith("; the lease is held, so a majority of them answers\n"),
       "check --lease of a held name: " + out.strip())
    equal(lab.redlock_run(full, "check", "--timeout", "1s", "--lease", "held")[0], 0,
          "also within a short time-out")
    for node in own:
        node.call("CONFIG", "SET", "maxmemory", "1")
    status, out, errors = lab.redlock_run(full, "check")
    equal(status, 75, "full nodes: 75")
    ok("OOM" in errors, errors.strip())
    full.wait_voting(0)
    status, out, _ = lab.redlock_run(full, "check")
    ok(status == 75 and out.startswith("0 of 3 nodes vote"), "and they don't vote: " + out.strip())
    ok("OOM" in full.node_states()["a"]["reason"], "redlock nodes shows the reason")
    status, out, _ = lab.redlock_run(full, "check", "--timeout", "1s", "--lease", "held")
    equal((status, out), (0, "0 of 3 nodes vote, 2 are needed; the lease is still held\n"),
          "a held name says nothing of nodes that don't vote")
    client.call("RELEASE", grant["id"])
    client.close()
    full.stop()
    begun = lab.now()
    process = lab.redlock(full, "check", "--timeout", ".3")
    runs, over = lab.when(lambda: process.poll() is not None, begun, what="the end of the check")
    equal(process.returncode, 69, "a stopped agent: 69")
    ok(over - begun > 0.3 and runs - begun < 0.3 + lab.SCALE, "within the time-out")
    errors = process.stderr.read()
    ok("no answer within 300 ms" in errors, errors.strip())
    full.cont()
    full.terminate()


def test_grace_at_an_older_agent():
    older = lab.Between(agent, b"WHOAMI", lambda: b"-ERR unknown command 'WHOAMI'\r\n")
    equal(lab.redlock_run(older, "run", "--grace", "9s", "graceful", "--", "echo", "run")[:2], (0, "run\n"),
          "--grace with an agent that has no WHOAMI: the command runs")


def test_check_without_release():
    """The lease of the check is granted, but not released."""
    for status, answer, reason in ((69, "DRAINING it stops", "the agent is stopping: it stops"),
                                   (75, "NOQUORUM a of 3", "no quorum of the Redis nodes: a of 3"),
                                   (77, "DENIED not you", "not allowed to this user: not you")):
        refusing = lab.Between(agent, b"RELEASE", lambda: b"-%s\r\n" % answer.encode())
        got, _, errors = lab.redlock_run(refusing, "check", "--lease", "x")
        equal((got, errors), (status, "redlock: x: %s\n" % reason),
              "%s at the release: %d" % (answer, status))
        lab.wait_gone(nodes, "x")  # its connection was closed
    dying = lab.Agent(nodes, 'default_ttl = "8s"\nnode_timeout = "1900ms"')
    status, _, errors = lab.redlock_run(lab.Between(dying, b"RELEASE", dying.kill), "check", "--lease", "y")
    equal(status, 69, "an agent that dies just before the release: 69")
    ok("the agent is not reachable" in errors, errors.strip())
    dying.start()
    holder = dying.client()
    assert "id" in holder.acquire("z")
    process = lab.redlock(dying, "check", "--lease", "z")
    lab.wait_for(lambda: dying.status()["waiters"] == 1, what="the request of the check")
    dying.kill()
    out, errors = process.communicate(timeout=20 * lab.SCALE)
    equal(process.returncode, 69, "an agent that dies while the request waits: 69, not 'held'")
    ok("the agent is not reachable" in errors and "the lease is held" not in out, errors.strip())
    ok(errors.endswith("; is redlockd running?\n") and "connect again" not in errors, "with a hint")
    holder.close()


def history(agent, *arguments):
    status, out, errors = lab.redlock_run(agent, "history", *arguments)
    equal((status, errors), (0, ""), "history %s" % " ".join(arguments))
    return out


def check_history_of_a_queue(own):
    """Why did this acquire take 40 ms?"""
    own.wait_voting(3)
    holder, waiter = own.client(3), own.client(3)
    grant = holder.acquire("queue", "TTL", "60000")
    waiter.call("ACQUIRE", "queue", "WAIT", 60000, "ASYNC")
    lines = history(own, "queue").splitlines()
    me = (os.getpid(), os.getuid())
    ok(lines[-1].endswith("asked      pid %d uid %d  waits up to 60.0 s; "
                          "behind process %d of user %d, which holds the name" % (me + me)),
       "who asked, and behind whom: %s" % lines[-1])
    holder.call("RELEASE", grant["id"])
    waiter.push("granted")
    events = [event["event"] for event in json.loads(history(own, "--json", "queue"))]
    equal(events[-4:], ["granted", "asked", "released", "granted"], "then the grant, with the nodes' times")
    holder.close()
    waiter.close()


def test_history():
    """Why did it take so long, and why was it lost?"""
    three = lab.nodes(3)
    own = lab.Agent(three, 'default_ttl = "%dms"\nnode_timeout = "1s"\nquarantine = no' %
                    (4000 * min(lab.SCALE, 2)))
    own.wait_voting(3)
    three[2].call("SET", "job", "somebody", "PX", 60000)
    client = own.client(3)
    fence = client.acquire("job")["fence"]
    three[1].stop()
    client.push("lost")
    events = json.loads(history(own, "--json", "job"))
    equal([event["event"] for event in events], ["granted", "at-risk", "lost"], "a lease's life")
    equal([event["fence"] for event in events], [fence] * 3, "its token")
    answers = [{node["name"]: node["answer"] for node in event["nodes"]} for event in events]
    equal((answers[0]["a"], answers[0]["b"]), ("yes", "yes"),
          "history shows the nodes that granted the lease")
    equal(answers[1], {"a": "yes", "b": "silent", "c": "held"}, "why it was at risk")
    equal(answers[2]["a"], "yes", "the last event shows a node that still extended the lease")
    ok(answers[2]["b"] in ("silent", "not-asked") and answers[2]["c"] == "held",
       "the last event shows the nodes that did not")
    equal(events[2]["reason"], "no-quorum", "why it was lost")
    lines = history(own, "job").splitlines()
    ok(" ago  lost " in lines[-2] and "no-quorum: no majority" in lines[-2], "for people: %s" % lines[-2])
    ok(lines[-1].startswith("    a yes ") and "c held" in lines[-1], "with the answers: %s" % lines[-1])
    equal(len(json.loads(history(own, "--count", "1", "--json", "job"))), 1, "--count")
    three[1].cont()
    check_history_of_a_queue(own)
    status, out, errors = lab.redlock_run(own, "history", "another")
    equal((status, out), (0, ""), "history of a name without holders is empty")
    ok("no events on this host" in errors, "which is said")
    for words, what in ((["history"], "expected NAME"), (["history", "a", "b"], "unexpected argument 'b'"),
                        (["history", "--count", "0", "a"], "--count 0: expected a number from 1"),
                        (["history", "--count", "x", "a"], "--count x: expected a number from 1")):
        status, _, errors = lab.redlock_run(own, *words)
        ok(status == 64 and what in errors, "64: %s (%s)" % (" ".join(words), errors.strip()))
    own.terminate()


main(test_history, test_exit_statuses, test_arguments, test_not_names, test_stopped_agent,
     test_stopped_while_waiting, test_time_passes_while_stopped, test_rule_with_a_short_ttl,
     test_full_agent, test_acquire_gives_up, test_acquire_stopped, test_environment_and_group,
     test_signals_are_passed_on, test_waits_before_release, test_never_outlives_a_short_lease,
     test_never_outlives_the_lease, test_quorum_lost, test_max_hold, test_parent_death,
     test_acquire_for, test_acquire_in_a_service, test_empty_socket, test_missing_command,
     test_acquire_detached, test_acquire_without_null_device, test_columns, test_release,
     test_release_across_namespaces, test_check_token, test_aliases, test_wait_for_a_name_that_cools,
     test_failing_output, test_output_without_reader, test_denied_socket, test_check,
     test_grace_at_an_older_agent, test_check_without_release, test_listings)
