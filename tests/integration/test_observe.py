"""OBSERVE, libredlock's redlock_observe() through `redlock watch`, and the end and limits of observers."""

import calendar
import json
import re
import resource
import select
import signal
import time

import lab
from tap import begins, equal, main, note, ok, within

# For a thousand clients, in this process and in the agents that it starts.
_hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))

nodes = lab.nodes(3)
here = lab.Agent(nodes, 'host = "here"\n' + lab.UNHURRIED)
there = lab.Agent(nodes, 'host = "there"\n' + lab.UNHURRIED)


def observer(agent, name):
    """A client that observes the name and has got the present state; and that state."""
    client = agent.client(3)
    assert client.call("OBSERVE", name) == 1
    return client, client.push("leader")[2]


def change(client, name, timeout=None):
    push = client.push("leader", timeout)
    assert push[1] == name, push
    return push[2]


def quiet(client, seconds):
    """Whether no push arrives for so long."""
    try:
        client.read(seconds / lab.SCALE)
        return False
    except TimeoutError:
        return True


def test_grant_and_release():
    near, first = observer(here, "job")
    equal(first["state"], "free", "the first push: the name is free")
    far, first = observer(there, "job")
    equal(first["state"], "free", "at another agent too")
    holder = here.client(3)
    begun = lab.now()
    grant = holder.acquire("job", "DATA", "at home")
    pushed = change(near, "job")
    note("pushed on the same host after %.1f ms" % ((lab.now() - begun) * 1000))
    equal((pushed["state"], pushed["host"], pushed["fence"], pushed["data"]),
          ("held", "here", grant["fence"], "at home"), "a grant is pushed, with host, token and data")
    begins(pushed["holder"], "here:", "and the holder")
    other = change(far, "job")
    note("and on another one after %.0f ms" % ((lab.now() - begun) * 1000))
    equal((other["holder"], other["fence"]), (pushed["holder"], pushed["fence"]),
          "and the same at the other agent")
    late, first = observer(there, "job")
    equal(first["holder"], pushed["holder"], "a later observer gets the present leader at once")
    ok(quiet(near, 2.5) and quiet(far, 0.1), "extensions cause no push, nor does anything else")
    holder.call("RELEASE", grant["id"])
    equal((change(near, "job")["state"], change(far, "job")["state"]), ("free", "free"),
          "a release is pushed at both")
    for client in (near, far, late, holder):
        client.close()


def test_last_of_many():
    client, _ = observer(here, "busy")
    holders = [here.client(3) for _ in range(5)]
    for _ in range(20):
        for holder in holders:
            grant = holder.acquire("busy", "WAIT", 5000)
            holder.call("RELEASE", grant["id"])
    last = holders[0].acquire("busy", "WAIT", 5000)
    pushed = change(client, "busy")
    count = 1
    while pushed["state"] != "held" or pushed["fence"] != last["fence"]:
        pushed = change(client, "busy")
        count += 1
    ok(True, "of a hundred changes one after the other the last is pushed (and %d others)" % (count - 1))
    ok(quiet(client, 1.5), "and nothing after it")
    for end in (client, *holders):
        end.close()


def test_death_of_the_holder():
    near, _ = observer(here, "mortal")
    far, _ = observer(there, "mortal")
    command = lab.redlock(here, "run", "mortal", "--", "sleep", "60")
    equal((change(near, "mortal")["state"], change(far, "mortal")["state"]), ("held", "held"),
          "a command holds it")
    command.kill()
    equal((change(near, "mortal")["state"], change(far, "mortal")["state"]), ("free", "free"),
          "after kill -9 of its holder the name is free")
    near.close()
    far.close()


def test_expiry():
    agent = lab.Agent(nodes, 'host = "third"\n' + lab.UNHURRIED)
    client, _ = observer(here, "left")
    holder = agent.client(3)
    holder.acquire("left", "TTL", 3000)
    equal(change(client, "left")["host"], "third", "another agent's client leads")
    agent.kill()
    left = max(node.call("PTTL", "left") for node in nodes) / 1000
    killed = lab.now()
    equal(change(client, "left")["state"], "free", "after kill -9 of that agent, too, when the keys expire")
    within(lab.now() - killed, left - 0.7, left + 0.5 * lab.SCALE, "then, and at once")
    client.close()


def test_foreign_lock():
    client, _ = observer(here, "foreign")
    for node in nodes:
        node.call("SET", "foreign", "their:own:token", "NX", "PX", 5000)
    pushed = change(client, "foreign")
    equal((pushed["state"], pushed["holder"], pushed["host"], pushed["fence"], pushed["data"]),
          ("held", "their:o...", "", 0, ""), "of another library's lock, half of the value is pushed")
    equal(change(client, "foreign")["state"], "free", "and its end")
    client.close()


def test_long_value():
    """Another program's value that is longer than an answer may be."""
    client, _ = observer(here, "long")
    for node in nodes:
        node.call("SET", "long", "x" * (2 << 20))
    equal((change(client, "long")["holder"], there.client(3).call("LEADER", "long")["holder"]),
          ("xxxxxxxxxxxx...", "xxxxxxxxxxxx..."), "a value of 2 MiB is pushed, and LEADER has it, too")
    equal([state["state"] for agent in (here, there) for state in agent.node_states().values()],
          ["voting"] * 6, "all nodes vote on")
    for node in nodes:
        node.call("DEL", "long")
    equal(change(client, "long")["state"], "free", "and its end")
    client.close()


def test_unobserve_and_ends():
    client, _ = observer(here, "unobserved")
    equal(client.call("OBSERVE", "unobserved"), 0, "a second OBSERVE changes nothing")
    equal(client.call("UNOBSERVE", "unobserved"), 1, "UNOBSERVE")
    equal(client.call("UNOBSERVE", "unobserved"), 0, "once")
    holder = here.client(3)
    holder.acquire("unobserved")
    ok(quiet(client, 1.5), "ends the pushes")
    begins(client.call("OBSERVE", "redlockd:epoch"), "BADNAME", "names are checked")
    refused = [client.call("OBSERVE", "quota %d" % i) for i in range(1025)]
    equal(refused[:1024], [1] * 1024, "a session observes 1,024 names")
    begins(refused[1024], "QUOTA a session observes at most", "and no more")
    others = [here.client(3) for _ in range(3)]
    for number, other in enumerate(others):
        for i in range(1024):
            other.send("OBSERVE", "more %d %d" % (number, i))
        replies = 0
        while replies < 1024:
            replies += not isinstance(other.read(), lab.Push)
    late = here.client(3)
    begins(late.call("OBSERVE", "one more"), "QUOTA the agent has no room", "all sessions together 4,096")
    client.close()
    lab.wait_for(lambda: late.call("OBSERVE", "one more") == 1, what="room for another name")
    ok(True, "a session's end frees its observations")
    for other in (*others, late, holder):
        other.close()


def scripts_run(node):
    return sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)",
                                                  node.call("INFO", "commandstats")))


def test_crowd():
    agent = lab.Agent(nodes, "max_sessions = 1100\n" + lab.UNHURRIED)
    lab.wait_for(lambda: here.status()["leases"] == 0 and there.status()["leases"] == 0,
                 what="the end of all leases")
    crowd = [agent.client(3) for _ in range(1000)]
    here.terminate()
    there.terminate()
    before = scripts_run(nodes[0])
    begun = lab.now()
    for client in crowd:
        assert client.call("OBSERVE", "popular") == 1
    states = [client.push("leader")[2]["state"] for client in crowd]
    equal(states, ["free"] * 1000, "1,000 observers get the push")
    time.sleep(2)  # the cost of the observers in this time
    looks, seconds = scripts_run(nodes[0]) - before, lab.now() - begun
    ok(1 <= looks <= seconds / 0.9 + 2, "with one query a second (%d in %.1f s)" % (looks, seconds))
    holder = agent.client(3)
    holder.acquire("popular")
    equal([change(client, "popular")["state"] for client in crowd], ["held"] * 1000, "and of a change")
    for client in (*crowd, holder):
        client.close()
    agent.terminate()
    here.start()
    there.start()


def test_mute_among_others():
    """A push to several observers at once: none is lost, repeated or mixed up for an observer that reads
    late."""
    reader, mute = observer(here, "noisy")[0], [observer(here, "noisy")[0] for _ in range(5)]
    gone = observer(here, "noisy")[0]
    holder = here.client(3)
    pushed = []
    for number in range(150):
        grant = holder.acquire("noisy", "DATA", "%d " % number + "x" * 1000)
        pushed.append(change(reader, "noisy"))
        holder.call("RELEASE", grant["id"])
        pushed.append(change(reader, "noisy"))
        if number == 75:
            gone.close()
    equal([state["state"] for state in pushed], ["held", "free"] * 150,
          "observers that read get each change")
    equal([[change(client, "noisy") for _ in pushed] == pushed for client in mute], [True] * 5,
          "those whose sockets were full get it later, in order and once")
    ok(all(quiet(client, 0.05) for client in mute), "and nothing else")
    for client in (reader, holder, *mute):
        client.close()


def test_no_majority():
    few = lab.nodes(3)
    agent = lab.Agent(few)
    client, _ = observer(agent, "job")
    few[0].kill()
    begun = lab.now()
    few[1].kill()
    equal(change(client, "job")["state"], "unknown",
          "without a majority of nodes the leader is unknown")
    within(lab.now() - begun, 4.9, 8 * lab.SCALE, "after some seconds")
    few[1].start()
    equal(change(client, "job")["state"], "free", "and the leader follows when there is a majority again")
    client.close()
    agent.terminate()


# --- redlock watch ---


class Watch:
    def __init__(self, agent, *arguments):
        self.process = lab.redlock(agent, "watch", "--json", *arguments)

    def line(self, timeout=20):
        if not select.select([self.process.stdout], [], [], timeout * lab.SCALE)[0]:
            raise TimeoutError("no line")
        return json.loads(self.process.stdout.readline())

    def quiet(self, seconds):
        return not select.select([self.process.stdout], [], [], seconds)[0]

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(20 * lab.SCALE)


def values_of(name, its_nodes):
    return {node.call("GET", name) for node in its_nodes}


def hand_off_beside_a_refusing_node(agent, its_nodes):
    """The last of three holders has the lease by hand-off, and one node keeps the value of the one before:
    it refuses to write. None: the nodes had the new value already."""
    clients = [agent.client(3) for _ in range(3)]
    held = clients[0].acquire("passed on", "TTL", 30000)
    for client in clients[1:]:
        client.send("ACQUIRE", "passed on", "TTL", 30000, "WAIT", 20000)
    clients[0].call("RELEASE", held["id"])
    held = clients[1].reply()
    its_nodes[1].call("CONFIG", "SET", "min-replicas-to-write", 1)
    clients[1].call("RELEASE", held["id"])
    grant = clients[2].reply()
    try:
        lab.wait_for(lambda: len(values_of("passed on", its_nodes)) == 2, 1, "the refresh at one node")
    except TimeoutError:
        grant = None
    if grant and None not in values_of("passed on", its_nodes):
        return clients, grant
    its_nodes[1].call("CONFIG", "SET", "min-replicas-to-write", 0)
    for client in clients:
        client.close()
    lab.wait_gone(its_nodes, "passed on")
    return None


def test_hand_off_beside_a_refusing_node():
    three = lab.nodes(3)
    agent = lab.Agent(three, lab.UNHURRIED)
    three[2].kill()
    agent.wait_voting(2)
    made = None
    while not made:
        made = hand_off_beside_a_refusing_node(agent, three[:2])
    clients, grant = made
    client = agent.client(3)
    equal(client.call("OBSERVE", "passed on"), 1, "two nodes of three have two values of one lease")
    ok(quiet(client, 1.5), "which is not shown as free")
    three[1].call("CONFIG", "SET", "min-replicas-to-write", 0)
    pushed = change(client, "passed on")
    equal((pushed["state"], pushed["fence"]), ("held", grant["fence"]),
          "but as held, once both nodes have the new holder's value")
    for end in (client, *clients):
        end.close()


def test_watch():
    watch = Watch(here, "job")
    line = watch.line()
    equal((line["name"], line["state"], line["holder"]), ("job", "free", ""),
          "redlock watch prints that the name is free")
    holder = there.client(3)
    begun = time.time()
    grant = holder.acquire("job")
    line = watch.line()
    equal((line["state"], line["host"], line["fence"]), ("held", "there", grant["fence"]), "then the leader")
    ok(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["since"]), "and since when")
    since = calendar.timegm(time.strptime(line["since"][:19], "%Y-%m-%dT%H:%M:%S"))
    within(since - begun, -1, time.time() - begun, "in seconds since the request")
    here.terminate()
    here.start()
    ok(watch.quiet(3), "a restart of the agent causes no line")
    holder.call("RELEASE", grant["id"])
    equal(watch.line()["state"], "free", "a later change does")
    here.kill()
    grant = holder.acquire("job")
    here.start()
    line = watch.line()
    equal((line["state"], line["fence"]), ("held", grant["fence"]),
          "and a change while there was no agent")
    equal(watch.end(signal.SIGTERM), 0, "SIGTERM ends it with 0")
    holder.close()


def test_watch_of_a_resumed_lease():
    watch = Watch(there, "resumed")
    watch.line()
    command = lab.redlock(here, "run", "resumed", "--", "sleep", "60")
    equal(watch.line()["host"], "here", "a command leads")
    own = Watch(here, "resumed")
    own.line()
    here.kill()
    here.start()
    ok(own.quiet(2) and watch.quiet(0.1), "a lease that is resumed at a new agent causes no line")
    command.terminate()
    equal((own.line()["state"], watch.line()["state"]), ("free", "free"), "its end does")
    equal((own.end(signal.SIGINT), watch.end(signal.SIGINT)), (0, 0), "SIGINT ends it with 0")


def test_watch_of_a_hanging_agent():
    equal(hanging_watch.line(30)["state"], "unknown", "that hangs: the leader is unknown")
    holder = there.client(3)
    grant = holder.acquire("hung", "TTL", 60000)
    ok(hanging_watch.quiet(0.2), "once")
    hanging.cont()
    line = hanging_watch.line()
    equal((line["state"], line["fence"]), ("held", grant["fence"]), "when it goes on, the leader follows")
    equal(hanging_watch.end(signal.SIGTERM), 0, "and the watch goes on")
    hanging.terminate()
    holder.close()


def catches(pid, number):
    with open("/proc/%d/status" % pid) as file:
        caught = re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M).group(1)
    return int(caught, 16) >> (number - 1) & 1


def sleeps(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def test_watch_as_text():
    holder = here.client(3)
    grant = holder.acquire("text", "DATA", "at home")
    process = lab.redlock(there, "watch", "text", "nobody's")
    lines = sorted(process.stdout.readline() for _ in range(2))
    ok(re.fullmatch(r"nobody's  nobody  since \S+Z\n", lines[0]), "a line for a free name")
    text = r'text  here:[0-9a-f]{8}:\d+  on here  fence %d  since \S+Z%%s  "at home"\n' % grant["fence"]
    ok(re.fullmatch(text % "", lines[1]), "and one for a leader")
    process.terminate()
    equal(process.wait(20 * lab.SCALE), 0, "SIGTERM ends it with 0")
    status, out, _ = lab.redlock_run(there, "leader", "text")
    ok(status == 0 and re.fullmatch(text % r"  \d+ ms left", out),
       "redlock leader prints the same, and the time left")
    leader = json.loads(lab.redlock_run(there, "leader", "--json", "text")[1])
    equal((leader["name"], leader["host"], leader["fence"], leader["data"]),
          ("text", "here", grant["fence"], "at home"), "as JSON too")
    ok(3000 < leader["validity"] <= 10000 and leader["since"].endswith("Z"), "with validity and since")
    here.stop()
    process = lab.redlock(here, "watch", "text")
    lab.wait_for(lambda: catches(process.pid, signal.SIGINT) and sleeps(process.pid), what="its waiting")
    process.send_signal(signal.SIGINT)
    equal(process.wait(20 * lab.SCALE), 0, "SIGINT ends it also while it waits for a stopped agent")
    here.cont()
    equal(lab.redlock_run(here, "watch")[0], 64, "watch without a name: 64")
    equal(lab.redlock_run(here, "watch", "")[0], 64, "watch of an invalid name: 64")
    holder.close()


# This agent hangs while the tests before its own run.
hanging = lab.Agent(nodes, lab.UNHURRIED)
hanging_watch = Watch(hanging, "hung")
hanging_watch.line()
hanging.stop()

main(test_grant_and_release, test_last_of_many, test_death_of_the_holder, test_expiry, test_foreign_lock,
     test_long_value, test_unobserve_and_ends, test_mute_among_others, test_no_majority, test_watch,
     test_watch_of_a_resumed_lease, test_watch_as_text, test_hand_off_beside_a_refusing_node,
     test_watch_of_a_hanging_agent, test_crowd)
