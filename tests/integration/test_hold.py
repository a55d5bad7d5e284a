"""redlock hold: notifies the service manager and runs hooks while it leads, and steps down before its lease
ends."""

import json
import os
import re
import signal
import subprocess

import lab
from tap import equal, main, ok, within

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)


class Holder:
    """A `redlock hold` with a service manager of its own."""

    def __init__(self, *arguments, at=agent, abstract=False, environment=()):
        self.manager = lab.Manager(abstract)
        self.process = lab.redlock(at, "hold", *arguments,
                                   env=dict(self.manager.environment, **dict(environment)))

    def ready(self):
        return self.manager.until("READY=1")

    def stop(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20 * lab.SCALE)

    def status(self):
        return self.process.wait()

    def errors(self):
        return self.process.stderr.read()


def leader(name):
    return json.loads(lab.redlock_run(agent, "leader", "--json", name)[1])


def left(name):
    """The seconds that the keys have left on the nodes."""
    return max(node.call("PTTL", name) for node in nodes) / 1000


def end_of(process, since):
    """When it was last seen to run, and first not to; it ran at the instant `since`."""
    return lab.when(lambda: process.poll() is not None, since, what="the end of the command")


def test_usage():
    hold = lambda *arguments: lab.redlock_run(agent, "hold", *arguments)
    equal(hold()[0], 64, "64: no name")
    equal(hold("a", "b")[0], 64, "64: two names")
    equal(hold("--nonsense", "a")[0], 64, "64: an unknown option")
    equal(hold("--ttl", "soon", "a")[0], 64, "64: an invalid time")
    equal(hold("--ttl", "1h", "a")[0], 64, "64: a ttl above max_ttl")
    equal(hold("--ttl", "2s", "--grace", "1.5s", "a")[0], 64, "64: a grace beyond half of the ttl")
    equal(hold("")[0], 64, "64: an invalid name")
    equal(hold("--unit", "../x", "a")[0], 64, "64: an invalid unit")
    equal(hold("--pause", "soon", "a")[0], 64, "64: an invalid pause")
    for variable in ("REDLOCK_TTL", "REDLOCK_GRACE", "REDLOCK_LINGER"):
        process = lab.redlock(agent, "hold", "a", env=dict(os.environ, **{variable: "soon"}))
        _, errors = process.communicate(timeout=20 * lab.SCALE)
        equal(process.returncode, 64, "64: %s is an invalid time" % variable)
        ok(variable in errors, "which is named")
    ok("redlock hold" in hold("--help")[1], "hold --help")


def test_lead():
    holder = Holder("lead")
    message = holder.ready()
    ok(message[1].startswith("STATUS=leader since 2"), "READY=1 when it leads, and the time since then")
    ok(message[1].endswith("token %d" % leader("lead")["fence"]), "with the fencing token")
    ok(not any("READY=1" in line for message in holder.manager.seen[:-1] for line in message), "not earlier")
    equal(holder.stop(), 0, "SIGTERM: exit status 0")
    equal(holder.manager.next()[0], "STOPPING=1", "and STOPPING=1")
    lab.wait_gone(nodes, "lead")
    ok(True, "released")
    equal(re.sub("token \\d+", "token N", holder.errors()),
          "redlock: lead: this host leads, token N\nredlock: lead: this host no longer leads, token N\n",
          "a line for the journal at each change")
    holder = Holder("lead", abstract=True)
    holder.ready()
    ok(True, "a NOTIFY_SOCKET in the abstract namespace")
    holder.process.send_signal(signal.SIGINT)
    equal(holder.status(), 0, "SIGINT is like SIGTERM")
    process = lab.redlock(agent, "hold", "lead", env=dict(os.environ, NOTIFY_SOCKET=""))
    lab.wait_for(lambda: lab.keys_on(nodes, "lead") == 3, what="the lease")
    process.send_signal(signal.SIGTERM)
    equal(process.wait(20 * lab.SCALE), 0, "no such lines without a service manager")


def test_pause():
    """As after failures of the led service."""
    begun = lab.now()
    holder = Holder("--pause", "500ms", "pause", environment={"REDLOCK_PAUSE_REASON": "it has failed"})
    message = holder.manager.next()[0]
    ok("not asking for pause before 2" in message and message.endswith(": it has failed"),
       "a pause before the lease is requested, with the reason: %s" % message)
    holder.ready()
    within(lab.now() - begun, 0.5, 5 * lab.SCALE, "then it is requested")
    equal(holder.stop(), 0, "SIGTERM: exit status 0")
    holder = Holder("--pause", "1h", "pause")
    holder.manager.next()
    equal(holder.stop(), 0, "in the pause, too")


def test_hand_over():
    one, two = Holder("handed over"), None
    fence = int(one.ready()[1].split()[-1])
    two = Holder("handed over")
    host = leader("handed over")["holder"].split(":")[0]
    message = two.manager.until("leads")
    equal(message, ["STATUS=waiting for handed over: %s leads" % host],
          "the waiting command reports the leader")
    begun = lab.now()
    equal(one.stop(), 0, "the leader gets SIGTERM")
    later = int(two.ready()[1].split()[-1])
    ok(two.manager.sent - begun < 0.5 * lab.SCALE, "the other command leads at once")
    ok(later > fence, "with a larger token")
    two.process.kill()
    two.process.wait()
    three = Holder("handed over")
    three.ready()
    ok(True, "also when the leader is killed")
    waiting = Holder("handed over")
    waiting.manager.until("leads")
    equal(waiting.stop(), 0, "a waiting command ends by SIGTERM as well")
    lab.wait_for(lambda: agent.status()["waiters"] == 0, what="the end of its request")
    three.stop()


def test_own_lead_observed():
    """The push about its own lead, on another connection, reaches the command with the grant."""
    host = agent.client(3).call("STATUS")["host"]
    one = Holder("own lead")
    one.ready()
    two = Holder("own lead")
    two.manager.until("leads")
    observer = agent.client(3)
    observer.call("OBSERVE", "own lead")
    two.process.send_signal(signal.SIGSTOP)
    lab.wait_stopped(two.process)
    one.stop()
    while not str(observer.push("leader")).count(":%d'" % two.process.pid):
        pass
    two.process.send_signal(signal.SIGCONT)
    two.ready()
    two.stop()
    lines = [re.sub("token \\d+", "token N", line) for line in two.errors().splitlines()]
    equal([line.split(": ", 2)[2].replace(host, "HOST") for line in lines],
          ["HOST leads, token N", "this host leads, token N", "this host no longer leads, token N"],
          "a line for each change of the leader, and its own lead is no other's")
    observer.close()


def test_foreign_leader():
    """Its status has text from the nodes: a line break in it must not begin another message."""
    for node in nodes:
        node.call("SET", "foreign", "x\nREADY=1", "PX", 60000)
    holder = Holder("foreign")
    message = holder.manager.until("leads")
    ok(len(message) == 1, "one line, whatever the lock value")
    for node in nodes:
        node.call("SET", "foreign", "", "PX", 60000)
    holder.manager.until("waiting for foreign: a key with an empty value leads")
    for node in nodes:
        node.call("DEL", "foreign")
    equal(holder.stop(), 0, "it ends")


def test_foreign_changes():
    """Each change is reported, not found by polling."""
    def lead(who):
        for node in nodes:
            node.call("SET", "reported", who, "PX", 60000)

    lead("alice")
    holder = Holder("reported")
    holder.manager.until("alice leads")
    passed = 0
    for who in "bob", "carol", "dan", "eve":
        lead(who)
        begun = lab.now()
        holder.manager.until(who + " leads")
        passed += holder.manager.sent - begun
    ok(passed < 5.2 * lab.SCALE,
       "four changes of leader are each reported within about a second (%.1f s)" % passed)
    equal(holder.stop(), 0, "it ends")
    for node in nodes:
        node.call("DEL", "reported")


def test_agent_stopped():
    """Without the agent: the led service must have stopped before another host may lead."""
    victim = lab.Agent(nodes)
    holder = Holder("--ttl", "5s", "--grace", "2s", "doomed", at=victim)
    holder.ready()
    begun = lab.now()
    victim.stop()
    until = lab.keys_end(nodes, "doomed")
    message = holder.manager.until("STOPPING=1")
    announced = holder.manager.sent
    within(until - announced, 2 - 0.3 * lab.SCALE, 2 + 0.25,
           "the end is announced a grace before the keys end")
    within(announced - begun, 0.3, 4, "not at once")
    ok("lost" in message[1], "and why")
    runs, over = end_of(holder.process, begun)
    equal(holder.status(), 125, "exit status 125")
    ok(runs < until, "before the keys end (%.0f ms)" % (1000 * (until - runs)))
    ok(over > until - 0.4, "but after the led service's time to stop (%.0f ms)" % (1000 * (until - over)))
    ok("can't be kept" in holder.errors(), "with a message")
    process = lab.redlock(agent, "hold", "--ttl", "2s", "doomed")
    lab.wait_for(lambda: agent.status()["leases"] == 1, what="the next leader")
    ok("doomed" in lab.redlock_run(agent, "leases")[1], "another command leads then")
    process.send_signal(signal.SIGTERM)
    equal(process.wait(20 * lab.SCALE), 0, "to its end")
    victim.kill()


def test_no_grace():
    victim = lab.Agent(nodes)
    process = lab.redlock(victim, "hold", "--ttl", "5s", "--grace", "0", "graceless")
    lab.wait_for(lambda: victim.status()["leases"] == 1, what="the lease, which it has received")
    begun = lab.now()
    victim.stop()
    deadline = lab.keys_end(nodes, "graceless") - 0.052  # the drift
    runs, _ = end_of(process, begun)
    equal(process.wait(), 125, "--grace 0: the lead ends")
    ok(runs < deadline - 0.03, "before the lease does (%.0f ms)" % (1000 * (deadline - runs)))
    victim.kill()


def test_without_manager():
    victim = lab.Agent(nodes)
    process = lab.redlock(victim, "hold", "--ttl", "5s", "--grace", "2s", "alone")
    lab.wait_for(lambda: victim.status()["leases"] == 1, what="the lease, which it has received")
    begun = lab.now()
    victim.stop()
    until = lab.keys_end(nodes, "alone")
    runs, over = end_of(process, begun)
    equal(process.wait(), 125, "without a service manager the command's end is the notice")
    ok(until - runs > 2 - 0.3 * lab.SCALE and until - over < 2 + 0.25,
       "the grace before the keys end (%.2f to %.2f s)" % (until - over, until - runs))
    victim.kill()


def test_back_in_time():
    """A late extension before the deadline changes nothing."""
    victim = lab.Agent(nodes)
    holder = Holder("--ttl", "9s", "--grace", "300ms", "late", at=victim)
    holder.ready()
    victim.stop()
    lab.wait_for(lambda: left("late") < 4.5, what="half of the ttl")
    victim.cont()
    lab.wait_for(lambda: left("late") > 6, what="an extension")
    equal(holder.process.poll(), None, "an agent that was stopped for a while: the lead goes on")
    equal(holder.stop(), 0, "to its end")
    ok(not any("STOPPING=1" in message for message in holder.manager.seen), "and has reported nothing else")
    victim.kill()


def test_quorum_lost():
    own = lab.nodes(3)
    victim = lab.Agent(own)
    holder = Holder("--ttl", "4s", "no quorum", at=victim)
    holder.ready()
    for node in own[:2]:
        node.kill()
    ok("at risk: " in holder.manager.until("at risk")[0], "the status shows the risk")
    ok("STOPPING=1" in holder.manager.until("STOPPING=1"), "and then the end")
    equal(holder.status(), 125, "125")
    waiting = Holder("no quorum", at=victim)
    ok("quorum" in waiting.manager.until("quorum")[0], "a command that waits for nodes reports that")
    for node in own[:2]:
        node.start()
    waiting.ready()
    ok(True, "and leads when they are back")
    waiting.stop()
    victim.terminate()


def test_agent_restarted():
    victim = lab.Agent(nodes)
    holder, waiting = Holder("--ttl", "20s", "kept", at=victim), None
    holder.ready()
    waiting = Holder("--ttl", "20s", "kept", at=victim)
    waiting.manager.until("leads")
    for _ in range(2):
        victim.kill()
        victim.start()
        lab.wait_for(lambda: victim.status()["leases"] == 1 and victim.status()["waiters"] == 1,
                     what="their return")
    ok(holder.process.poll() is None and waiting.process.poll() is None, "kill -9 of the agent: both go on")
    equal(holder.stop(), 0, "the leader to its end")
    waiting.ready()
    ok(not any("STOPPING=1" in message for message in holder.manager.seen),
       "and the end was never announced")
    waiting.stop()
    victim.terminate()


def test_agent_away():
    victim = lab.Agent(nodes, start=False)
    holder = Holder("patient", at=victim)
    ok(holder.manager.until("no agent")[0].startswith("STATUS=waiting"), "without an agent it waits for one")
    victim.start()
    holder.ready()
    ok(True, "and leads when the agent is there")
    equal(holder.stop(), 0, "to its end")
    ok(holder.errors().count("no agent there") == 1, "with one complaint")
    victim.terminate()


def test_agent_full():
    full = lab.Agent(nodes, "max_sessions = 1")
    client = full.last_client()
    holder = Holder("crowded", at=full)
    ok(holder.manager.until("a limit of the agent is reached")[0].startswith("STATUS=waiting"),
       "the status says that the agent has none left")
    client.close()
    holder.ready()
    ok(True, "and the command leads when there is one")
    equal(holder.stop(), 0, "to its end")
    full.terminate()


def test_hooks():
    log = lab.path("hooks")
    victim = lab.Agent(nodes)
    write = lambda what: 'echo "%s $REDLOCK_NAME $REDLOCK_FENCE" >> %s' % (what, log)
    lines = lambda: open(log).read().split("\n")[:-1] if os.path.exists(log) else []
    holder = Holder("--ttl", "4s", "--exec-leader", write("leader"),
                    "--exec-follower", write("follower"), "hooked", at=victim)
    fence = holder.ready()[1].split()[-1]
    lab.wait_for(lambda: len(lines()) == 1, what="the leader's hook")
    equal(lines(), ["leader hooked " + fence], "--exec-leader, when the lease is held")
    begun = lab.now()
    victim.stop()
    until = lab.keys_end(nodes, "hooked")
    missing, _ = lab.when(lambda: len(lines()) == 2, begun, what="the follower's hook")
    ok(missing < until, "--exec-follower before it ends (%.0f ms)" % (1000 * (until - missing)))
    equal(lines()[1], "follower hooked " + fence, "with the same token")
    victim.cont()
    again = holder.ready()[1].split()[-1]
    lab.wait_for(lambda: len(lines()) == 3, what="the leader's hook")
    ok(int(again) > int(fence), "then the command waits again, and leads with another token")
    equal(holder.stop(), 0, "until SIGTERM")
    equal(lines()[3:], ["follower hooked " + again], "the follower's hook runs")
    victim.terminate()


def test_hooks_with_one_id():
    """The agent is killed: the follower's hook has the id of the leader's, too."""
    log = lab.path("ids")
    victim = lab.Agent(nodes)
    lines = lambda: open(log).read().split("\n")[:-1] if os.path.exists(log) else []
    write = 'echo "$REDLOCK_ID" >> ' + log
    holder = Holder("--ttl", "4s", "--exec-leader", write, "--exec-follower", write, "one-id", at=victim)
    holder.ready()
    lab.wait_for(lambda: len(lines()) == 1, what="the leader's hook")
    victim.kill()
    lab.wait_for(lambda: len(lines()) == 2, what="the follower's hook")
    equal(lines()[1], lines()[0], "REDLOCK_ID is that of the grant, though no agent has the lease")
    holder.process.kill()


def test_hooks_without_child_signals():
    """A parent that ignores SIGCHLD passes that on."""
    log = lab.path("children")
    manager = lab.Manager()
    process = lab.spawn(["env", "--ignore-signal=CHLD", lab.REDLOCK, "--socket", agent.socket_path, "hold",
                         "--exec-follower", "echo done > " + log, "children"], env=manager.environment)
    manager.until("READY=1")
    process.send_signal(signal.SIGTERM)
    equal(process.wait(20 * lab.SCALE), 0, "with SIGCHLD ignored at its start, hold ends after SIGTERM")
    ok(os.path.exists(log), "and after its hook")
    lab.wait_gone(nodes, "children")
    ok(True, "released")


def test_hooks_that_hang():
    victim = lab.Agent(nodes)
    log = lab.path("hang")
    holder = Holder("--ttl", "4s", "--once",
                    "--exec-leader", "trap '' TERM; sleep 100 & wait; sleep 100",
                    "--exec-follower", "touch " + log, "hanging", at=victim)
    holder.ready()
    begun = lab.now()
    victim.stop()
    until = lab.keys_end(nodes, "hanging")
    runs, _ = end_of(holder.process, begun)
    equal(holder.status(), 125, "--once: a loss ends the command, with hooks too")
    ok(os.path.exists(log) and runs < until, "a leader's hook that does not end is killed in time")
    victim.kill()
    holder = Holder("--exec-follower", "sleep 100", "hanging", environment={"WATCHDOG_USEC": "1500000"})
    holder.ready()
    stop_once(holder)
    equal(holder.stop(), 0, "a second signal ends all waiting")


def stop_once(holder):
    """The first signal; another one counts as the second from half a second later on."""
    holder.process.send_signal(signal.SIGTERM)
    holder.manager.until("STOPPING=1")
    for _ in range(2):
        holder.manager.until("WATCHDOG=1")  # each half second


def stop_twice(log):
    """The leader's hook gets SIGTERM, and the command SIGHUP then. How long all of it took."""
    holder = Holder("--ttl", "60s", "--exec-leader",
                    "trap 'kill -HUP $PPID; sleep 0.05; echo leader >>%s; exit' TERM; touch %s;"
                    "while :; do sleep 0.01; done" % (log, log), "--exec-follower", "echo follower >>" + log,
                    "twice")
    holder.ready()
    lab.wait_for(lambda: os.path.exists(log), what="the leader's hook")
    begun = lab.now()
    status = holder.stop()
    took = lab.now() - begun
    equal(status, 0, "SIGTERM and SIGHUP soon after each other end the command (%.0f ms)" % (1000 * took))
    return took


def test_signals_in_hooks():
    log = lab.path("in-hooks")
    lines = lambda: open(log).read().split() if os.path.exists(log) else []
    while stop_twice(log) > 0.5:  # two signals, on such a busy machine
        os.unlink(log)
    equal(lines(), ["leader", "follower"], "as one signal: both hooks run to their ends")

    os.unlink(log)
    holder = Holder("--ttl", "60s", "--grace", "30s",  # after half of which the hook would be killed
                    "--exec-leader", "trap '' TERM; touch %s; while :; do sleep 0.01; done" % log,
                    "--exec-follower", "echo follower >>" + log, "both",
                    environment={"WATCHDOG_USEC": "1500000"})
    holder.ready()
    lab.wait_for(lambda: os.path.exists(log), what="the leader's hook")
    stop_once(holder)
    equal(lines(), [], "a leader's hook that ignores SIGTERM runs on")
    equal(holder.stop(), 0, "until a second signal, which ends the command")
    equal(lines(), ["follower"], "after the follower's hook, which the leader's does not take along")


def test_hook_until_the_end():
    """A leader's hook that runs for the whole lead ends by SIGTERM, which is no failure of it."""
    log = lab.path("whole")
    holder = Holder("--exec-leader", "touch %s; exec sleep 1000" % log, "--exec-follower", "exit 3", "whole")
    holder.ready()
    lab.wait_for(lambda: os.path.exists(log), what="the leader's hook")
    equal(holder.stop(), 0, "a hook that runs until the end")
    equal([line for line in holder.errors().split("\n") if "hook" in line],
          ["redlock: whole: the hook of --exec-follower failed: exit status 3"],
          "only the other hook's failure is reported")


def test_signal_after_loss():
    """The first signal counts as the first one also when the lease was lost before."""
    victim = lab.Agent(nodes)
    log, go, traps = lab.path("late-signal"), lab.path("go"), lab.path("traps")
    lines = lambda: open(log).read().split() if os.path.exists(log) else []
    stop = "echo stopping >>%s; read -r line <%s; echo stopped >>%s; exit 0" % (log, go, log)
    os.mkfifo(go)
    goes = os.open(go, os.O_RDWR)
    holder = Holder("--ttl", "20s", "--grace", "10s",  # after half of which the hook would be killed
                    "--exec-leader",
                    "trap '%s' TERM; touch %s; while :; do sleep 0.01; done" % (stop, traps),
                    "--exec-follower", "echo follower >>" + log, "late-signal", at=victim)
    holder.ready()
    lab.wait_for(lambda: os.path.exists(traps), what="the leader's hook")
    victim.stop()
    lab.wait_for(lambda: lines() == ["stopping"], 30, "the end of the leader's hook")
    holder.process.send_signal(signal.SIGTERM)
    lab.wait_for(lambda: not pending(holder.process, signal.SIGTERM), what="the signal's delivery")
    os.write(goes, b"on\n")
    victim.cont()
    equal(holder.process.wait(20 * lab.SCALE), 0, "a signal after a loss ends the command")
    equal(lines(), ["stopping", "stopped", "follower"], "after both hooks have run")
    os.close(goes)
    victim.terminate()


def pending(process, number):
    """Whether the process has not read this signal yet."""
    with open("/proc/%d/status" % process.pid) as file:
        found = re.search(r"^ShdPnd:\s+(\w+)", file.read(), re.M)
    return int(found[1], 16) >> number - 1 & 1


def test_without_reader():
    """The follower's hook matters more than a message."""
    victim = lab.Agent(nodes)
    log = lab.path("unread")
    reader, writer = os.pipe()
    process = lab.spawn([lab.REDLOCK, "--socket", victim.socket_path, "hold", "--once", "--ttl", "3s",
                         "--exec-leader", "echo leader >>" + log, "--exec-follower",
                         "echo follower >>" + log, "unread"], stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    os.close(reader)
    lab.wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 0, what="the leader's hook")
    victim.stop()
    equal(process.wait(20 * lab.SCALE), 125, "a loss, and the reader of standard error has ended: 125")
    with open(log) as file:
        equal(file.read().split(), ["leader", "follower"], "the follower's hook has run")
    victim.cont()
    victim.terminate()


def test_watchdog():
    holder = Holder("watched", environment={"WATCHDOG_USEC": "1000000"})
    holder.ready()
    fed = holder.manager.sent
    for _ in range(3):
        holder.manager.until("WATCHDOG=1")
        within(holder.manager.sent - fed, 0, 1, "the watchdog is fed in time")
        fed = holder.manager.sent
    holder.stop()
    holder = Holder("watched", environment={"WATCHDOG_USEC": "300000", "WATCHDOG_PID": "1"})
    holder.ready()
    holder.stop()
    holder.manager.until("STOPPING=1")
    ok(not any("WATCHDOG=1" in message for message in holder.manager.seen), "not if it is another process's")


def test_settings():
    holder = Holder("set", environment={"REDLOCK_TTL": "3s", "REDLOCK_GRACE": ""})
    holder.ready()
    within(left("set"), 1, 3, "REDLOCK_TTL")
    holder.stop()
    holder = Holder("--ttl", "9s", "set", environment={"REDLOCK_TTL": "3s"})
    holder.ready()
    within(left("set"), 3.1, 9, "--ttl overrides it")
    holder.stop()
    victim = lab.Agent(nodes)
    holder = Holder("set", environment={"REDLOCK_TTL": "5s", "REDLOCK_GRACE": "2s"}, at=victim)
    holder.ready()
    victim.stop()
    until = lab.keys_end(nodes, "set")
    holder.manager.until("STOPPING=1")
    within(until - holder.manager.sent, 2 - 0.3 * lab.SCALE, 2 + 0.25, "REDLOCK_GRACE")
    victim.kill()


def test_extended_after_all():
    """The end was announced, and the led service has stopped: nothing has to linger."""
    victim = lab.Agent(nodes, lab.UNHURRIED)
    holder = Holder("--ttl", "10s", "--grace", "5s", "--linger", "50s", "late", at=victim)
    holder.ready()
    victim.stop()
    holder.manager.until("STOPPING=1")
    victim.cont()
    lab.wait_for(lambda: left("late") > 6, what="an extension")
    equal(holder.status(), 125, "a lease that is extended after the announced end: 125")
    lab.wait_gone(nodes, "late")
    ok(True, "the lease is released, and does not linger for 50 s")
    victim.terminate()


def test_reason_of_a_loss():
    """A loss that this process slept through is no reason of the next one."""
    victim = lab.Agent(nodes, lab.UNHURRIED)
    client = victim.client()
    grant = client.acquire("reason")
    holder = Holder("--ttl", "8s", "reason", at=victim)
    lab.wait_for(lambda: victim.status()["waiters"] == 1, what="the waiter")
    holder.process.send_signal(signal.SIGSTOP)
    client.call("RELEASE", grant["id"])
    lab.wait_for(lambda: victim.status()["losses"] == 1, 20, what="the loss of an unread grant")
    holder.process.send_signal(signal.SIGCONT)
    holder.ready()
    victim.stop()
    equal(holder.status(), 125, "a lease that can't be kept: 125")
    loss, change = holder.errors().split("\n")[-3:-1]
    ok(change.startswith("redlock: reason: this host no longer leads, token "), "also a loss is a change")
    equal(loss,
          "redlock: reason: the lease can't be kept: the agent no longer extends the lease (max_hold, or "
          "the agent is stuck)", "not for the reason of an earlier one")
    victim.kill()
    client.close()


def test_linger_above_max_ttl():
    """The leader units have REDLOCK_LINGER=3s, whatever max_ttl the agent has."""
    brief = lab.Agent(nodes, 'max_ttl = "2s"\ndefault_ttl = "2s"\nnode_timeout = "900ms"')
    brief.bless()
    brief.wait_voting(3)
    holder = Holder("brief", at=brief, environment={"REDLOCK_LINGER": "3s"})
    holder.ready()
    waiter = brief.client()
    waiter.send("ACQUIRE", "brief", "WAIT", 20000)
    killed = lab.now()
    holder.process.kill()
    waiter.reply()
    ok(lab.now() - killed > 1.4, "after kill -9 the lease lingers as long as the agent allows")
    ok("lingers 1500 ms" in holder.errors(), "and a line reports how long")
    equal(lab.redlock_run(brief, "hold", "--linger", "3s", "brief")[0], 64, "64: --linger above max_ttl")
    brief.terminate()


main(test_usage, test_lead, test_pause, test_hand_over, test_own_lead_observed, test_foreign_leader,
     test_foreign_changes, test_agent_stopped, test_no_grace, test_without_manager, test_back_in_time,
     test_quorum_lost, test_agent_restarted, test_agent_away, test_agent_full, test_hooks,
     test_hooks_with_one_id, test_hooks_without_child_signals, test_hooks_that_hang, test_signals_in_hooks,
     test_hook_until_the_end, test_signal_after_loss, test_without_reader, test_watchdog, test_settings,
     test_extended_after_all, test_reason_of_a_loss, test_linger_above_max_ttl)
