"""RESUME: a lease outlives its agent, for the client that has its secret, as long as its keys exist."""

import os
import random
import signal
import threading

import lab
from tap import begins, equal, main, note, ok

nodes = lab.nodes(3)
UNHURRIED = 'node_timeout = "1s"\n'  # and yet an answer without nodes comes within a few seconds
agent = lab.Agent(nodes, UNHURRIED)
other = lab.Agent(nodes, UNHURRIED)
NOBODY = 65534


def restart(agent):
    agent.kill()
    agent.start()


def values_when_set(name, but=None):
    """A majority is enough for an answer: the last node may have the value later."""
    def values():
        found = [node.call("GET", name) for node in nodes]
        return found if len(set(found)) == 1 and found[0] not in (None, but) else None
    return lab.wait_for(values, what="the same value on each node")


class Watch:
    """Records every lock value under the name on the nodes, until the result is read."""

    def __init__(self, name):
        self.name = name
        self.randoms, self.gaps = set(), 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        clients = [lab.Client(node.socket_path) for node in nodes]
        while not self.over.wait(0.005):
            values = [client.call("GET", self.name) for client in clients]
            self.randoms |= {value[:36] for value in values if value}
            self.gaps += sum(value is None for value in values) > 1

    def end(self):
        self.over.set()
        self.thread.join()
        return self.randoms, self.gaps


def test_agent_killed():
    client = agent.client(3)
    grant = client.acquire("kept", "TTL", 8000, "RESUMABLE", "DATA", "my:data")
    value = values_when_set("kept")[0]
    waiter = other.client()
    waiter.send("ACQUIRE", "kept", "WAIT", -1)
    watch = Watch("kept")
    for _ in range(3):
        restart(agent)
        client = agent.client(3)
        begun = lab.now()
        grant = client.call("RESUME", "kept", grant["secret"])
        note("RESUME took %.1f ms" % (1000 * (lab.now() - begun)))
        ok(isinstance(grant, dict) and grant["validity"] > 4000,
           "after kill -9 the lease is resumed: %s" % grant)
    leader = client.call("LEADER", "kept")
    equal(leader["data"], "my:data", "its data is published as before")
    ok(agent.status()["agent"] in leader["holder"], "and its holder is the new agent's")
    lab.wait_for(lambda: agent.status()["extensions"] > 1, what="extensions")
    equal(watch.end(), ({value[:36]}, 0), "all the time a majority had its keys, of one lease")
    numbers = [int(text[36:40], 16) for text in (value, values_when_set("kept")[0])]
    equal((numbers[1] - numbers[0]) % 65536, 3, "each RESUME has the next number in the lock value")
    equal(waiter.buffer, b"", "another agent's waiter never got the lease")
    equal(client.call("RELEASE", grant["id"]), 1, "the lease is released like any other")
    ok(isinstance(lab.as_map(waiter.reply()), dict), "then the waiter gets the name")
    begins(client.call("RESUME", "kept", grant["secret"]), "NOTHELD",
           "the secret of a released lease is useless")
    waiter.close()
    client.close()


def test_no_resume():
    client = agent.client()
    client.acquire("forgotten", "TTL", 1000)
    killed = lab.now()
    restart(agent)
    begun = lab.now()
    client = agent.client()
    ok(isinstance(client.acquire("forgotten", "TTL", 1000, "WAIT", 15000), dict) and
       lab.now() < max(killed + 1, begun) + 3 * lab.SCALE,
       "the lease of a client that does not resume (as redis-cli) ends within the ttl")
    client.close()


def test_too_late():
    client = agent.client(3)
    grant = client.acquire("late", "TTL", 2000, "RESUMABLE")
    agent.kill()
    lab.wait_for(lambda: lab.keys_on(nodes, "late") == 0, what="the end of the keys")
    agent.start()
    client = agent.client(3)
    begins(client.call("RESUME", "late", grant["secret"]), "NOTHELD",
           "a lease that has ended does not begin again")
    equal(lab.keys_on(nodes, "late"), 0, "and no key is set")
    client.close()


def test_strangers():
    client = agent.client(3)
    grant = client.acquire("mine", "TTL", 10000, "RESUMABLE")
    theirs = client.acquire("theirs", "TTL", 10000, "RESUMABLE")
    before = values_when_set("mine")
    thief = agent.client(3)
    begins(thief.call("RESUME", "mine", grant["secret"]), "NOTHELD",
           "a lease that is held at this agent can't be resumed")
    restart(agent)
    thief = agent.client(3)
    begins(thief.call("RESUME", "mine", theirs["secret"]), "NOTHELD", "another lease's secret is refused")
    changed = grant["secret"].replace("-", "-0", 1)
    begins(thief.call("RESUME", "mine", changed), "BADARG", "an altered secret is refused")
    if os.geteuid() == 0:
        os.chmod(lab.directory, 0o711)
        os.seteuid(NOBODY)
        foreigner = agent.client(3)
        os.seteuid(0)
        begins(foreigner.call("RESUME", "mine", grant["secret"]), "NOTHELD",
               "another user can't resume with it")
        foreigner.close()
    equal([node.call("GET", "mine") for node in nodes], before, "none of this changed a key")
    client = agent.client(3)
    ok(isinstance(client.call("RESUME", "mine", grant["secret"]), dict), "the owner can")
    ok(isinstance(client.call("RESUME", "theirs", theirs["secret"]), dict), "and can resume several")
    client.close()
    lab.wait_for(lambda: lab.keys_on(nodes, "mine") + lab.keys_on(nodes, "theirs") == 0, what="the release")
    ok(True, "both end with the new session")


def test_old_agent_lives():
    old, new = lab.Agent(nodes, UNHURRIED), lab.Agent(nodes, UNHURRIED)
    client = old.client(3)
    grant = client.acquire("moved", "TTL", 8000, "RESUMABLE")
    before = values_when_set("moved")[0]
    old.stop()
    mover = new.client(3)
    resumed = mover.call("RESUME", "moved", grant["secret"])
    ok(isinstance(resumed, dict), "a lease is resumed while its agent is stopped")
    client.close()
    value = values_when_set("moved", but=before)[0]
    old.cont()
    lab.wait_for(lambda: old.status()["leases"] == 0, what="the old agent's release")
    equal([node.call("GET", "moved") for node in nodes], [value] * 3,
          "the old agent, which releases it at last, deletes none of its keys")
    ok(mover.call("CHECK", resumed["id"]) > 0, "and the lease stays held")
    begins(other.client().acquire("moved"), "BUSY", "so another client does not get it")
    old.kill()
    new.kill()


def test_released_elsewhere():
    """Released at the new agent before the old one extends the lease next: the old one sets no key again."""
    for linger in (), ("LINGER", 60000):
        old, new = lab.Agent(nodes, UNHURRIED), lab.Agent(nodes, UNHURRIED)
        case = "with LINGER" if linger else "with the former session open"
        client = old.client(3)
        grant = client.acquire("released", "TTL", 8000, "RESUMABLE", *linger)
        if linger:
            client.close()
            lab.wait_for(lambda: old.status()["sessions"] == 1, what="the end of the session")
        mover = new.client(3)
        resumed = mover.call("RESUME", "released", grant["secret"])
        ok(isinstance(resumed, dict), "%s, a lease is resumed at another agent" % case)
        begun = lab.now()
        equal(mover.call("RELEASE", resumed["id"]), 1, "and released there")
        ok(lab.keys_on(nodes, "released") < 2, "the name is free at once")
        lab.wait_for(lambda: lab.keys_on(nodes, "released") == 0, what="the release at the last node")
        if not linger:
            equal(client.push("lost")[1:3], [grant["id"], "taken"], "the old session gets `lost`, `taken`")
        lab.wait_for(lambda: old.status()["leases"] == 0, what="the end at the old agent")
        ok(lab.now() < begun + 6 * lab.SCALE, "the old agent's lease ends at its next extension")
        equal(lab.keys_on(nodes, "released"), 0, "and has set no key again")
        for secret in grant["secret"], resumed["secret"]:
            begins(mover.call("RESUME", "released", secret), "NOTHELD", "its secrets are useless")
        old.kill()
        new.kill()


def test_unread_resume():
    """The client has not read the reply to its RESUME, so it uses the same secret at a third agent."""
    agents = [lab.Agent(nodes, UNHURRIED) for _ in range(3)]
    client = agents[0].client(3)
    grant = client.acquire("unread", "TTL", 8000, "RESUMABLE", "LINGER", 60000)
    silent = agents[1].client(3)
    silent.send("RESUME", "unread", grant["secret"])
    lab.wait_for(lambda: agents[1].status()["leases"] == 1, what="the lease at the second agent")
    silent.close()
    last = agents[2].client(3)
    resumed = last.call("RESUME", "unread", grant["secret"])
    ok(isinstance(resumed, dict), "a lease is resumed with the secret of an unread RESUME")
    equal(last.call("RELEASE", resumed["id"]), 1, "and released")
    lab.wait_for(lambda: agents[0].status()["leases"] + agents[1].status()["leases"] == 0,
                 what="the end at the former agents")
    equal(lab.keys_on(nodes, "unread"), 0, "neither of the former agents has set a key again")
    for one in agents:
        one.kill()


def test_slow_resume():
    """The former agent extends the lease between the first and the last node of a RESUME."""
    slow = [nodes[0], lab.Proxy(nodes[1]), lab.Proxy(nodes[2])]
    old, new = lab.Agent(nodes, UNHURRIED), lab.Agent(slow, 'node_timeout = "4900ms"\n')
    new.wait_voting(3)
    client, mover = old.client(3), new.client(3, timeout=20)
    grant = client.acquire("slow", "TTL", 8000, "RESUMABLE")
    slow[1].deaf = True
    slow[2].delay = 1.6
    lab.wait_for(lambda: client.call("CHECK", grant["id"]) < 5400, what="a while before the extension")
    mover.send("RESUME", "slow", grant["secret"])
    lab.wait_for(lambda: nodes[0].call("KEYS", "redlockd:moved:*"), what="the RESUME on the first node")
    begun = lab.now()
    lab.wait_for(lambda: old.status()["extensions"] > 0, what="an extension by the former agent")
    old.stop()
    resumed = lab.as_map(mover.reply())
    ok(isinstance(resumed, dict), "a lease is resumed at a majority, one node after the other")
    equal(mover.call("RELEASE", resumed["id"]), 1, "and released")
    lab.wait_for(lambda: lab.now() > begun + 8.1, what="a ttl after the RESUME on the first node")
    old.cont()
    lab.wait_for(lambda: old.status()["leases"] == 0, what="the end at the former agent")
    lab.wait_for(lambda: lab.keys_on(nodes, "slow") == 0, what="the end of the keys")
    ok(True, "the former agent, which was stopped meanwhile, does not keep the lease")
    old.kill()
    new.kill()


def behind_another(agent, name):
    """The last of three holders in turn, with its grant; the second's value. A node hangs from then on."""
    clients = [agent.client(3) for _ in range(3)]
    grant = clients[0].acquire(name, "TTL", 8000, "WAIT", 5000)
    for i, client in enumerate(clients[1:]):
        client.send("ACQUIRE", name, "TTL", 8000, "WAIT", -1, *(["RESUMABLE"] if i else []))
        lab.wait_for(lambda: agent.status()["waiters"] == i + 1, what="the waiter")
    nodes[2].stop()
    clients[0].call("RELEASE", grant["id"])
    grant = clients[1].reply()
    before = nodes[0].call("GET", name)
    clients[1].call("RELEASE", grant["id"])
    return clients[2], lab.as_map(clients[2].reply()), before


def test_handed_off_and_released_elsewhere():
    """A node hangs, so the former agent still writes the second holder's value with each extension."""
    old, new = lab.Agent(nodes, UNHURRIED), lab.Agent(nodes, UNHURRIED)
    new.wait_voting(3)
    for i in range(20):  # a hand-off comes within 50 ms of the acquisition, or not at all
        name = "handed-off-%d" % i
        second, grant, before = behind_another(old, name)
        if old.status()["handoffs"] == 1:
            break
        second.close()
        nodes[2].cont()
    equal(old.status()["handoffs"], 1, "a lease is handed off, and a node hangs")
    lab.wait_for(lambda: before not in [node.call("GET", name) for node in nodes[:2]],
                 what="the second holder's value")
    mover = new.client(3)
    resumed = mover.call("RESUME", name, grant["secret"])
    ok(isinstance(resumed, dict), "the second holder resumes the lease at another agent")
    equal(mover.call("RELEASE", resumed["id"]), 1, "and releases it there")
    equal(second.push("lost")[1:3], [grant["id"], "taken"], "its former session gets `lost`, `taken`")
    equal(lab.keys_on(nodes[:2], name), 0, "and the former agent has set no key again")
    nodes[2].cont()
    old.kill()
    new.kill()


def set_again(client, grant, node):
    """Whether a lease goes on whose key is deleted on a node."""
    node.call("DEL", "repaired")
    lab.wait_for(lambda: lab.keys_on(nodes, "repaired") == 3, what="the repair")
    return client.call("CHECK", grant["id"]) > 0


def test_repaired_after_resume():
    """What keeps a former agent from setting a key again does not keep the present one."""
    old, new = lab.Agent(nodes, UNHURRIED), lab.Agent(nodes, UNHURRIED)
    client, mover = old.client(3), new.client(3)
    grant = client.acquire("repaired", "TTL", 6000, "RESUMABLE")
    resumed = mover.call("RESUME", "repaired", grant["secret"])
    ok(set_again(mover, resumed, nodes[0]), "the agent that resumed a lease sets a missing key again")
    equal(client.push("lost")[1:3], [grant["id"], "taken"], "the former session gets `lost`, `taken`")
    client.close()
    client = old.client(3)
    grant = client.call("RESUME", "repaired", resumed["secret"])
    ok(set_again(client, grant, nodes[1]), "so does the first agent when the lease has come back")
    old.kill()
    new.kill()


def test_old_secrets():
    """The number in the lock value never becomes smaller."""
    agents = [lab.Agent(nodes, UNHURRIED) for _ in range(3)]
    sessions = [one.client(3) for one in agents]
    grants = [sessions[0].acquire("passed-on", "TTL", 20000, "RESUMABLE")]
    for session in sessions[1:]:
        grants.append(session.call("RESUME", "passed-on", grants[-1]["secret"]))
    ok(all(isinstance(grant, dict) for grant in grants), "a lease goes from agent to agent")
    before = values_when_set("passed-on")[0]
    late = other.client(3)
    begins(late.call("RESUME", "passed-on", grants[0]["secret"]), "NOTHELD",
           "a secret of two RESUMEs ago gets NOTHELD")
    equal([node.call("GET", "passed-on") for node in nodes], [before] * 3, "and changes no key")
    for session in sessions[:2]:
        session.close()
    lab.wait_for(lambda: [one.status()["leases"] for one in agents] == [0, 0, 1], what="the former agents")
    equal([node.call("GET", "passed-on") for node in nodes], [before] * 3,
          "nor does the end of the former sessions")
    ok(sessions[2].call("CHECK", grants[2]["id"]) > 0, "the last agent's client holds the lease")
    begins(late.acquire("passed-on"), "BUSY", "and no other client gets the name")
    taken = late.call("RESUME", "passed-on", grants[1]["secret"])
    ok(isinstance(taken, dict), "the secret of the last RESUME works: of two uses the later one counts")
    equal(sessions[2].push("lost")[2], "taken", "and the other session gets `lost`, `taken`")
    equal(late.call("RELEASE", taken["id"]), 1, "the lease is released")
    for one in agents:
        one.kill()


def test_nodes_away():
    client = agent.client(3)
    grant = client.acquire("waits", "TTL", 20000, "RESUMABLE")
    agent.kill()
    for node in nodes[:2]:
        node.stop()
    agent.start()
    client = agent.client(3)
    begins(client.call("RESUME", "waits", grant["secret"], "WAIT", 0), "NOQUORUM",
           "without a quorum RESUME gets NOQUORUM")
    client.send("RESUME", "waits", grant["secret"])
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the resume")
    for node in nodes[:2]:
        node.cont()
    ok(isinstance(client.reply(), dict), "RESUME is retried until the nodes are back")
    client.close()


def test_bad_secrets():
    chance = random.Random(7)
    client = agent.client(3)
    secret = client.acquire("fuzzed", "TTL", 60000, "WAIT", 10000, "RESUMABLE",
                            "DATA", b"\x00\xff:\r\n" * 100)["secret"]
    restart(agent)
    client = agent.client(3)
    answers = set()
    for i in range(3000):
        data = bytearray(secret.encode())
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                del data[at:at + chance.randint(1, 40)]
            elif kind == 2:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 40)))
            else:
                data[at:at] = data[:chance.randint(1, 600)]
            data = data[:4096] or bytearray(b"-")
        if data == secret.encode():
            continue  # undone by chance
        answers.add(str(client.call("RESUME", "fuzzed", bytes(data), "WAIT", 0)).split()[0])
    equal(answers, {"BADARG"}, "3,000 damaged secrets are refused")
    ok(isinstance(client.call("RESUME", "fuzzed", secret), dict),
       "the right secret is accepted, whatever the lease's data")
    client.close()


try:
    main(test_agent_killed, test_no_resume, test_too_late, test_strangers, test_old_agent_lives,
         test_released_elsewhere, test_unread_resume, test_slow_resume,
         test_handed_off_and_released_elsewhere, test_repaired_after_resume,
         test_old_secrets, test_nodes_away, test_bad_secrets)
finally:
    for node in nodes:
        node.process.send_signal(signal.SIGCONT)
