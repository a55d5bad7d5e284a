"""Leases with a cooldown: their name stays taken until that time since the grant has passed, whatever
becomes of them, of their holder and of the agent."""

import subprocess
import sys

import lab
from tap import begins, equal, main, ok, within

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED)
other = lab.Agent(nodes, lab.UNHURRIED)

COOLDOWN_MS = 1000
TTL = ("TTL", 500)  # less, so that the cooldown is what counts
LATE_MS = 300 * lab.SCALE
HOLDER = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'ACQUIRE ' + b' '.join(word.encode() for word in sys.argv[2:]) + b'\\r\\n')
assert s.recv(4096).startswith(b'*'), 'granted'
print('held', flush=True)
time.sleep(60)
"""


def wait_at(waiting_agent, name):
    waiter = waiting_agent.client()
    waiter.send("ACQUIRE", name, "WAIT", -1)
    lab.wait_for(lambda: waiting_agent.status()["waiters"] == 1, what="the waiter")
    return waiter


def granted_after(waiter, asked):
    """Milliseconds since then."""
    grant = lab.as_map(waiter.reply())
    assert isinstance(grant, dict), grant
    passed_ms = 1000 * (lab.now() - asked)
    waiter.close()
    return passed_ms


def is_taken(name):
    for where, asker in ("elsewhere", other), ("here", agent):
        client = asker.client()
        begins(client.acquire(name), "BUSY held by ", "who asks %s finds it held" % where)
        client.close()


def test_released():
    for what, waiting_agent in ("of this host", agent), ("of another host", other):
        client = agent.client()
        asked = lab.now()
        grant = client.acquire("released", "COOLDOWN", COOLDOWN_MS, *TTL)
        equal(client.call("RELEASE", grant["id"]), 1, "a RELEASE")
        ok(1000 * (lab.now() - asked) < COOLDOWN_MS / 2, "is answered at once")
        equal(agent.status()["leases"], 0, "nobody holds it any more")
        is_taken("released")
        within(granted_after(wait_at(waiting_agent, "released"), asked), COOLDOWN_MS, COOLDOWN_MS + LATE_MS,
               "a waiter %s gets it when it has cooled down, in ms" % what)
        client.close()
        lab.wait_for(lambda: lab.keys_on(nodes, "released") == 0, what="the end of the keys")


def test_late_release():
    client = agent.client()
    grant = client.acquire("late", "COOLDOWN", 1, *TTL)
    lab.wait_for(lambda: client.call("CHECK", grant["id"]) < 490, what="its end")
    waiter = wait_at(other, "late")
    begun = lab.now()
    client.call("RELEASE", grant["id"])
    ok(granted_after(waiter, begun) < COOLDOWN_MS, "a release after the cooldown hands it over at once")
    client.close()


def test_client_killed():
    asked = lab.now()
    process = lab.spawn([sys.executable, "-c", HOLDER, agent.socket_path, "killed", "COOLDOWN",
                         str(COOLDOWN_MS), *map(str, TTL)], stdout=subprocess.PIPE, text=True)
    equal(process.stdout.readline(), "held\n", "a process holds it")
    process.kill()
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the session's end")
    is_taken("killed")
    ok(granted_after(wait_at(other, "killed"), asked) >= COOLDOWN_MS, "kill -9: it cools down as well")


def test_lost():
    client = agent.client()
    asked = lab.now()
    client.acquire("lost", "COOLDOWN", 3 * COOLDOWN_MS, "MAXHOLD", 300, *TTL)
    waiter = wait_at(other, "lost")
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of its hold")
    ok(granted_after(waiter, asked) >= 3 * COOLDOWN_MS, "one that ends by MAXHOLD cools down")
    client.close()


def test_agent_killed():
    cooldown_ms = int(3 * COOLDOWN_MS * lab.SCALE)
    for what in "released", "held":
        client = agent.client()
        asked = lab.now()
        grant = client.acquire(what, "COOLDOWN", cooldown_ms, *TTL)
        if what == "released":
            client.call("RELEASE", grant["id"])
        else:  # extended: with what is left
            lab.wait_for(lambda: lab.now() - asked > 0.5 * lab.SCALE, what="extensions")
        agent.kill()
        if what == "released":
            agent.start()
            agent.wait_voting(5)
            is_taken(what)
            agent.kill()
        waiter = wait_at(other, what)
        within(granted_after(waiter, asked), cooldown_ms - 1, cooldown_ms + LATE_MS,
               "the agent is killed after it was %s: the keys stay as long, in ms" % what)
        client.close()
        agent.start()
        agent.wait_voting(5)


def test_resumed():
    cooldown_ms = int(3 * COOLDOWN_MS * lab.SCALE)
    client = agent.client()
    asked = lab.now()
    grant = client.acquire("resumed", "COOLDOWN", cooldown_ms, "RESUMABLE", "TTL", 2000)
    agent.kill()
    agent.start()
    agent.wait_voting(5)
    client = agent.client()
    again = lab.as_map(client.call("RESUME", "resumed", grant["secret"]))
    equal(client.call("RELEASE", again["id"]), 1, "the next agent resumes it, and it is released there")
    within(granted_after(wait_at(other, "resumed"), asked), cooldown_ms - 1, cooldown_ms + LATE_MS,
           "it cools down as before, in ms")
    client.close()


def test_command():
    asked = lab.now()
    equal(lab.redlock_run(agent, "run", "-n", "--min-hold", "1s", "job", "--", "true")[0], 0, "redlock run")
    ok(lab.now() - asked < 1, "--min-hold does not hold up the command")
    for at in agent, other:
        ended = lab.redlock_run(at, "run", "-n", "-q", "--min-hold", "1s", "job", "--", "echo", "no")
        equal(tuple(ended), (1, "", ""), "who comes later does nothing, quietly")
    status, _, _ = lab.redlock_run(other, "run", "-w", "20", "--min-hold", "1s", "job", "--", "true")
    equal(status, 0, "or waits")
    ok(lab.now() - asked >= 1, "until the time is over")
    status, _, said = lab.redlock_run(agent, "run", "--min-hold", "2m", "job", "--", "true")
    equal((status, said),
          (64, "redlock: job: the command was not run: --min-hold is longer than this host's agent allows "
           "(COOLDOWN wants milliseconds from 0 to 60000). Use a shorter time, or raise max_ttl on all "
           "hosts, see redlockd.conf(5)\n"),
          "more than max_ttl is refused, with the next step")


main(test_released, test_late_release, test_client_killed, test_lost, test_agent_killed, test_resumed,
     test_command)
