"""Leases with a cooldown: the name stays taken for that time after the grant, however lease, holder and
agent end."""

import re
import select
import subprocess
import sys

import lab
from tap import begins, equal, main, ok, within

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED)
other = lab.Agent(nodes, lab.UNHURRIED)

COOLDOWN_MS = 2000
TTL = ("TTL", 1000)  # less, so that the cooldown is what counts
LATE_MS = 300 * lab.SCALE
LONGER_MS = 300  # of a key than its cooldown: less than the ttl
HOLDER = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'ACQUIRE ' + b' '.join(word.encode() for word in sys.argv[2:]) + b'\\r\\n')
assert s.recv(4096).startswith(b'*'), 'granted'
print('held', flush=True)
time.sleep(60)
"""


def is_taken(name):
    for where, asker in ("elsewhere", other), ("here", agent):
        client = asker.client()
        answer = client.acquire(name)
        ok(re.match("BUSY (held by|the name cools:) ", str(answer)),
           "a request %s finds the name taken: %s" % (where, answer))
        client.close()


def keys_cool(name, granted, cooldown_ms):
    """Of a lease that nobody extends any more: not also for a ttl."""
    left_ms = 1000 * (lab.keys_end(nodes, name) - granted)
    ok(left_ms < cooldown_ms + LONGER_MS, "the keys end with the cooldown (after %.0f ms)" % left_ms)


def test_released():
    waiting = []
    for what, waiting_agent in ("of this host", agent), ("of another host", other):
        name = "released, for a waiter " + what
        client = agent.client()
        asked = lab.now()
        grant = client.acquire(name, "COOLDOWN", COOLDOWN_MS, *TTL)
        granted = lab.now()
        equal(client.call("RELEASE", grant["id"]), 1, "a RELEASE")
        ok(1000 * (lab.now() - asked) < COOLDOWN_MS / 2, "is answered at once")
        equal(agent.status()["leases"], 0, "no request of this host holds the name any more")
        is_taken(name)
        keys_cool(name, granted, COOLDOWN_MS)
        waiting.append((what, lab.wait_at(waiting_agent, name), asked))
        client.close()
    times = lab.at_once(lambda each: lab.granted_after(*each[1:]), waiting)
    for (what, _, _), passed_ms in zip(waiting, times):
        ok(passed_ms >= COOLDOWN_MS, "a waiter %s gets the name after the cooldown (%.0f ms)" %
           (what, passed_ms))


def test_late_release():
    client = agent.client()
    grant = client.acquire("late", "COOLDOWN", 1, "TTL", 10000)
    lab.wait_for(lambda: client.call("CHECK", grant["id"]) < 9880, what="its end")
    waiter = lab.wait_at(other, "late")
    begun = lab.now()
    client.call("RELEASE", grant["id"])
    ok(lab.granted_after(waiter, begun) < 5000, "a release after the cooldown hands it over at once")
    client.close()


def test_client_killed():
    asked = lab.now()
    process = lab.spawn([sys.executable, "-c", HOLDER, agent.socket_path, "killed", "COOLDOWN",
                         str(COOLDOWN_MS), *map(str, TTL)], stdout=subprocess.PIPE, text=True)
    equal(process.stdout.readline(), "held\n", "a process holds it")
    process.kill()
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the session's end")
    is_taken("killed")
    waiter = lab.wait_at(other, "killed")
    ok(lab.granted_after(waiter, asked) >= COOLDOWN_MS, "kill -9: the name cools down as well")


def test_lost():
    client = agent.client()
    asked = lab.now()
    client.acquire("lost", "COOLDOWN", COOLDOWN_MS, "MAXHOLD", 300, *TTL)
    waiter = lab.wait_at(other, "lost")
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of its hold")
    ok(lab.granted_after(waiter, asked) >= COOLDOWN_MS, "a lease that ends by MAXHOLD cools down")
    client.close()


def test_agent_killed():
    cooldown_ms = int(3000 * lab.SCALE)
    for what in "released", "held":
        client = agent.client()
        asked = lab.now()
        grant = client.acquire(what, "COOLDOWN", cooldown_ms, *TTL)
        granted = lab.now()
        if what == "released":
            client.call("RELEASE", grant["id"])
        else:  # extended: with what is left
            lab.wait_for(lambda: lab.now() - asked > 0.6, what="extensions")
        agent.kill()
        if what == "released":
            agent.start()
            agent.wait_voting(5)
            is_taken(what)
            agent.kill()
        keys_cool(what, granted, cooldown_ms)
        waiter = lab.wait_at(other, what)
        ok(lab.granted_after(waiter, asked) >= cooldown_ms - 1,
           "the agent is killed after it was %s: the keys stay as long" % what)
        client.close()
        agent.start()
        agent.wait_voting(5)


def test_resumed():
    cooldown_ms = int(5500 * lab.SCALE)
    client = agent.client()
    asked = lab.now()
    grant = client.acquire("resumed", "COOLDOWN", cooldown_ms, "RESUMABLE", "TTL", 4500)
    agent.kill()
    agent.start()
    agent.wait_voting(5)
    client = agent.client()
    again = lab.as_map(client.call("RESUME", "resumed", grant["secret"]))
    equal(client.call("RELEASE", again["id"]), 1,
          "the next agent resumes the lease, which is released there")
    within(lab.granted_after(lab.wait_at(other, "resumed"), asked), cooldown_ms - 1, cooldown_ms + LATE_MS,
           "the name cools down as before, in ms")
    client.close()


def test_command():
    asked = lab.now()
    equal(lab.redlock_run(agent, "run", "-n", "--min-hold", "4s", "job", "--", "true")[0], 0, "redlock run")
    ok(lab.now() - asked < 4, "--min-hold does not delay the command's end")
    status, _, said = lab.redlock_run(agent, "run", "-n", "job", "--", "true")
    equal((status, re.sub("\\d+", "N", said)),
          (1, "redlock: job: the name cools: its last lease has ended, and the name stays taken for N ms "
           "more: try again then, or wait (without -n)\n"), "a later command does nothing, and says why")
    for at in agent, other:
        ended = lab.redlock_run(at, "run", "-n", "-q", "--min-hold", "4s", "job", "--", "echo", "no")
        equal(tuple(ended), (1, "", ""), "with -q without a message")
    status, _, _ = lab.redlock_run(other, "run", "-w", "20", "--min-hold", "4s", "job", "--", "true")
    equal(status, 0, "or waits")
    ok(lab.now() - asked >= 4, "until the time is over")
    status, _, said = lab.redlock_run(agent, "run", "--min-hold", "2m", "job", "--", "true")
    equal((status, said),
          (64, "redlock: job: the command was not run: --min-hold is longer than this host's agent allows "
           "(COOLDOWN wants milliseconds from 0 to 60000). Use a shorter time, or raise max_ttl on all "
           "hosts, see redlockd.conf(5)\n"),
          "more than max_ttl is refused, with the next step")


def leases_of(name):
    client = agent.client(3)
    found = [lease for lease in client.call("LEASES") if lease["name"] == name]
    client.close()
    return found


def test_shown():
    """Where the lease was granted; elsewhere the keys are those of a held lease."""
    cooldown_ms = int(6000 * lab.SCALE)
    client = agent.client(3)
    asked = lab.now()
    grant = client.acquire("shown", "COOLDOWN", cooldown_ms, *TTL)
    since_ms = client.call("LEADER", "shown")["since"]
    ok(0 < since_ms <= 1000 * (lab.now() - asked) + 1,
       "the time for which the holder leads: %d ms" % since_ms)
    client.call("RELEASE", grant["id"])
    lease, = leases_of("shown")
    left_ms = cooldown_ms - 1000 * (lab.now() - asked)
    equal((lease["state"], lease["id"], lease["validity"]), ("cooling", grant["id"], 0), "LEASES")
    ok(left_ms - 1 < lease["cooldown"] <= cooldown_ms, "the ms left: %d" % lease["cooldown"])
    equal((agent.status()["leases"], agent.status()["cooling"]), (0, 1), "STATUS")
    here, there = client.call("LEADER", "shown"), other.client(3).call("LEADER", "shown")
    ok(0 < here["cooling"] <= cooldown_ms and "since" not in here, "LEADER here")
    ok("cooling" not in there and "since" not in there and there["holder"] == here["holder"], "and there")
    ok(" cooling " in lab.redlock_run(agent, "leases")[1], "redlock leases")
    ok("cooling            1\n" in lab.redlock_run(agent, "status")[1], "redlock status")
    status, out, _ = lab.redlock_run(agent, "leader", "shown")
    ok(status == 0 and "  cooling: ended, and taken for " in out, "redlock leader: " + out.strip())
    status = lab.redlock_run(agent, "check", "--id", str(grant["id"]), "shown")[0]
    equal(status, 1, "check --id: not held")
    for words in ["shown"], ["--id", str(grant["id"])], ["--fence", str(grant["fence"])]:
        status, _, said = lab.redlock_run(agent, "release", *words)
        equal((status, re.sub("\\d+", "N", said)),
              (75, "redlock: the lease has ended, and its name cools (--min-hold): it stays taken for N ms "
               "more, and can't be released before\n"), "and release can't end that: " + words[0])
    equal(lab.redlock_run(agent, "release", "--id", str(grant["id"] + 1))[0], 1, "nor another lease")
    lab.granted_after(lab.wait_at(other, "shown"), asked)
    lab.wait_for(lambda: leases_of("shown") == [] and agent.status()["cooling"] == 0, what="the end")
    client.close()


def test_observed():
    """An observer sees the last holder until the name has cooled, then a free name."""
    def observe(place):
        where, observing = place
        name = "observed " + where
        observer = observing.client(3)
        observer.call("OBSERVE", name)
        equal(observer.push("leader")[2]["state"], "free", "an observer %s" % where)
        client = agent.client()
        asked = lab.now()
        grant = client.acquire(name, "COOLDOWN", COOLDOWN_MS, *TTL)
        equal(observer.push("leader")[2]["fence"], grant["fence"], "%s: sees the holder" % where)
        client.call("RELEASE", grant["id"])
        equal(observer.push("leader")[2]["state"], "free", "%s: and then a free name" % where)
        passed_ms = 1000 * (lab.now() - asked)
        ok(passed_ms >= COOLDOWN_MS - 1, "%s: not before it has cooled (%d ms)" % (where, passed_ms))
        observer.close()
        client.close()
    lab.at_once(observe, [("here", agent), ("elsewhere", other)])


def test_heartbeat():
    client = agent.client(3)
    asked = lab.now()
    client.acquire("beat", "COOLDOWN", 4000, "HEARTBEAT", 100, "TTL", 1000)
    equal(client.push("lost")[2], "heartbeat", "a holder that stops its heartbeats loses the lease")
    is_taken("beat")
    ok(lab.granted_after(lab.wait_at(other, "beat"), asked) >= 4000 - 1, "and the name cools")
    client.close()


def test_withdrawn():
    """Neither a request that waits nor one whose session ends at the grant leaves a cooldown."""
    holder, client = agent.client(), agent.client(3)
    grant = holder.acquire("withdrawn")
    _, waiting = client.call("ACQUIRE", "withdrawn", "WAIT", -1, "COOLDOWN", 20000, "ASYNC")
    equal(client.call("RELEASE", waiting), 1, "an ASYNC request is withdrawn")
    holder.call("RELEASE", grant["id"])
    begun = lab.now()
    again = holder.acquire("withdrawn", "WAIT", 20000)
    ok("id" in again and lab.now() - begun < 5 * lab.SCALE, "and leaves no cooldown")
    holder.call("RELEASE", again["id"])
    equal(agent.status()["cooling"], 0, "nor a cooling name")
    client.close()
    holder.close()


def test_without_quorum():
    """The release reaches no majority; a node is down at the release and back before the cooldown's end."""
    cooldown_ms = int(3000 * lab.SCALE)
    for what, stopped in ("a node", nodes[:1]), ("a majority", nodes[:3]):
        client = agent.client()
        asked = lab.now()
        grant = client.acquire("nodes", "COOLDOWN", cooldown_ms, *TTL)
        for node in stopped:
            node.stop()
        ended = client.call("RELEASE", grant["id"])
        equal(ended, 1, "%s hangs at the release" % what)
        for node in stopped:
            node.cont()
        waiter = lab.wait_at(other, "nodes")
        within(lab.granted_after(waiter, asked), cooldown_ms - 1, cooldown_ms + 1500 * lab.SCALE,
               "the name cools as long, in ms")
        client.close()
        lab.wait_for(lambda: lab.keys_on(nodes, "nodes") == 0, what="the end of the keys")
    client = agent.client(3)
    asked = lab.now()
    client.acquire("nodes", "COOLDOWN", cooldown_ms, *TTL)
    for node in nodes[:3]:
        node.stop()
    ok(client.push("lost")[2] in ("no-quorum", "paused"), "a lease that is lost without a quorum")
    for node in nodes[:3]:
        node.cont()
    is_taken("nodes")
    waiter = lab.wait_at(other, "nodes")
    ok(lab.granted_after(waiter, asked) >= cooldown_ms - 1, "cools on the nodes that come back")
    client.close()


def test_resume_of_a_cooling_name():
    client = agent.client()
    cooldown_ms = int(4000 * lab.SCALE)
    asked = lab.now()
    grant = client.acquire("over", "COOLDOWN", cooldown_ms, "RESUMABLE", *TTL)
    client.call("RELEASE", grant["id"])
    begins(client.call("RESUME", "over", grant["secret"], "WAIT", 0), "NOTHELD ",
           "RESUME of a lease that cools, at its agent")
    is_taken("over")
    client.close()
    elsewhere = other.client()
    again = lab.as_map(elsewhere.call("RESUME", "over", grant["secret"]))
    equal(again["fence"], grant["fence"], "another agent of the host finds the keys of a held lease")
    equal(elsewhere.call("RELEASE", again["id"]), 1, "and releases it")
    elsewhere.close()
    ok(lab.granted_after(lab.wait_at(agent, "over"), asked) >= cooldown_ms - 1, "to cool as before")


def test_waiters():
    """Waiters get the name in the order of their requests, and WAIT 0 is answered at once meanwhile."""
    cooldown_ms = int(3000 * lab.SCALE)
    client = agent.client()
    asked = lab.now()
    grant = client.acquire("queue", "COOLDOWN", cooldown_ms, *TTL)
    waiters = []
    for i in range(3):
        waiters.append(agent.client())
        waiters[-1].send("ACQUIRE", "queue", "WAIT", -1)
        lab.wait_for(lambda: agent.status()["waiters"] == i + 1, what="a waiter")
    elsewhere = other.client()
    elsewhere.send("ACQUIRE", "queue", "WAIT", -1)
    lab.wait_for(lambda: other.status()["waiters"] == 1, what="the waiter elsewhere")
    client.call("RELEASE", grant["id"])
    for where, asker in ("here", agent), ("elsewhere", other):
        begun = lab.now()
        answer = str(asker.client().acquire("queue"))
        wanted = r"BUSY (\d+ ms ago: )?held by " if asker is other else \
            r"BUSY the name cools: its last lease has ended, and the name stays taken for \d+ ms more$"
        ok(re.match(wanted, answer), "WAIT 0 %s: %s" % (where, answer))
        ok(lab.now() - begun < 0.5 * lab.SCALE, "is answered at once")
        begins(asker.client().acquire("queue", "WAIT", 50), "TIMEOUT waited ", "WAIT 50 %s" % where)
    order, everybody = [], [*waiters, elsewhere]
    while len(order) < 4:
        ready = select.select([waiter.socket for waiter in everybody], [], [], 20 * lab.SCALE)[0]
        for waiter in everybody:
            if waiter.socket in ready:
                order.append(waiter)
                if len(order) == 1:
                    ok(1000 * (lab.now() - asked) >= cooldown_ms - 1,
                       "the first waiter gets it after the cooldown")
                waiter.call("RELEASE", lab.as_map(waiter.reply())["id"])
    equal([waiters.index(waiter) for waiter in order if waiter is not elsewhere], [0, 1, 2],
          "the waiters of a host get it in their order, and the other host's waiter, too")
    for waiter in [*order, client]:
        waiter.close()


main(test_released, test_late_release, test_client_killed, test_lost, test_agent_killed, test_resumed,
     test_command, test_shown, test_observed, test_heartbeat, test_withdrawn, test_without_quorum,
     test_resume_of_a_cooling_name, test_waiters)
