"""Every request is answered in time and with the right word, also if nodes are down, hung, slow or
contended: some cells of the unit test's full table, with real servers and agents."""

import subprocess

import lab
from tap import equal, main, note, ok

TIMEOUT = 0.25  # s: of a node; a busy machine may delay the answers of the others
SHORT_MS, LONG_MS = 20, 1000  # that requests wait
SLACK = 0.4  # s: of this test, of the agents' threads and of the machine
CONFIG = 'node_timeout = "%dms"\ndefault_ttl = "30s"\n' % (1000 * TIMEOUT)

nodes = lab.nodes(3)
proxies = [lab.Proxy(node) for node in nodes]
agents = [lab.Agent(proxies, CONFIG) for _ in range(3)]
for agent in agents:
    agent.wait_voting(3)


def ask(agent, *request):
    """The first word of the answer, and the seconds until it came."""
    client = agent.client()
    begun = lab.now()
    answer = client.call(*request)
    took = lab.now() - begun
    client.close()
    if isinstance(answer, lab.ReplyError):
        note("%.1f ms: %s" % (took * 1000, answer))
        return str(answer).split()[0], took
    return "granted", took


def asks(agent, name, want_0, want_short, want_long, what):
    for wait, want in ((0, want_0), (SHORT_MS, want_short), (LONG_MS, want_long)):
        if want is None:
            continue
        bound = 3 * TIMEOUT if wait == 0 else wait / 1000 + TIMEOUT
        word, took = ask(agent, "ACQUIRE", name, "WAIT", wait)
        equal(word, want, "%s, WAIT %d: %s" % (what, wait, want))
        ok(took < (bound + SLACK) * lab.SCALE, "within %d ms" % (bound * 1000))


def up_again():
    for proxy in proxies:
        proxy.deaf = proxy.mute = False
        proxy.delay = 0
        proxy.node.cont()
        if proxy.node.process.poll() is not None:
            proxy.node.start()
    for agent in agents:
        agent.wait_voting(3)


def test_run_once_beside_a_dead_node():
    """`redlock run -n` on three hosts, one of three nodes down."""
    nodes[0].kill()
    for agent in agents:
        agent.wait_voting(2)
    for _ in range(2):
        mark = lab.path("ran")
        open(mark, "w").close()
        begun = lab.now()
        jobs = [lab.redlock(agent, "run", "-n", "nightly", "--", "sh", "-c", "echo >> $0; read line; exit 0",
                            mark, stdin=subprocess.PIPE)
                for agent in agents]
        lab.wait_for(lambda: sum(job.poll() is not None for job in jobs) == 2, what="two of three to end")
        took = lab.now() - begun
        for job in jobs:
            job.stdin.close()
        statuses = sorted(job.wait(20 * lab.SCALE) for job in jobs)
        equal(statuses, [0, 1, 1], "one of three hosts runs the job, the others exit with 1")
        with open(mark) as file:
            equal(len(file.readlines()), 1, "it ran once")
        ok(took < (3 * TIMEOUT + 0.7) * lab.SCALE, "the others exited at once (%.0f ms)" % (
            1000 * took))
    up_again()


def test_held_there():
    holder = agents[0].client()
    holder.acquire("there")
    nodes[1].kill()
    for agent in agents:
        agent.wait_voting(2)
    asks(agents[1], "there", "BUSY", "TIMEOUT", "TIMEOUT",
         "held through another agent, one of three nodes down")
    nodes[2].stop()
    asks(agents[1], "there", "NOQUORUM", "NOQUORUM", "NOQUORUM", "and another one hung")
    asks(agents[0], "there", "BUSY", "TIMEOUT", "TIMEOUT",
         "held through this agent, without a quorum")
    up_again()
    holder.close()


def test_behind_one_that_waits():
    holder, waiter = agents[0].client(), agents[1].client()
    holder.acquire("line")
    nodes[1].kill()
    agents[1].wait_voting(2)
    waiter.send("ACQUIRE", "line", "WAIT", -1)
    lab.wait_for(lambda: agents[1].status()["waiters"] == 1, what="the waiter")
    asks(agents[1], "line", "BUSY", "TIMEOUT", "TIMEOUT", "behind another request of this host")
    waiter.close()
    up_again()
    holder.close()


def test_held_by_a_library():
    for node in nodes[:2]:
        node.call("SET", "library", "9ac8a1d0-5b53-4bb3-9d0f-0e1c1f8b8f61", "PX", 30000)
    asks(agents[0], "library", "BUSY", "TIMEOUT", "TIMEOUT",
         "held by a library on two of three nodes")
    proxies[0].delay = 2 * TIMEOUT
    # A short wait would end just after its attempt: a matter of milliseconds here, see the unit test.
    asks(agents[0], "library", "BUSY", None, "TIMEOUT", "and one of these too slow")
    up_again()


def test_free():
    nodes[0].stop()
    word, took = ask(agents[2], "ACQUIRE", "free beside one that hangs")
    equal(word, "granted", "free, one of three nodes hung: granted")
    ok(took < (TIMEOUT + SLACK) * lab.SCALE, "at once")
    nodes[1].stop()
    asks(agents[2], "free", "NOQUORUM", "NOQUORUM", "NOQUORUM", "free, two of three nodes hung")
    up_again()
    client = agents[2].client()
    ok(isinstance(client.acquire("free", "WAIT", 5000), dict), "no node keeps a lease of these attempts")
    client.close()


def test_resume_what_has_ended():
    client = agents[0].client()
    lease = client.acquire("ended", "RESUMABLE")
    client.close()
    lab.wait_for(lambda: lab.keys_on(nodes, "ended") == 0, what="its end")
    nodes[2].kill()
    agents[1].wait_voting(2)
    for wait in (0, SHORT_MS, LONG_MS):
        word, took = ask(agents[1], "RESUME", "ended", lease["secret"], "WAIT", wait)
        equal(word, "NOTHELD",
              "a lease that has ended, one of three nodes down, RESUME with WAIT %d: NOTHELD" % wait)
        ok(took < SLACK * lab.SCALE, "at once")
    up_again()


def start(agent, name):
    """A client, and the seconds until it got HELLO's reply and a grant."""
    begun = lab.now()
    begin(agent)
    client = lab.wait_for(lambda: connect(agent), what="the socket")
    client.call("HELLO", 3)
    greeted = lab.now() - begun
    ok(isinstance(client.acquire(name, "WAIT", 5000), dict), "the first request is granted")
    return client, greeted, lab.now() - begun


def begin(agent):
    agent.process = lab.spawn([lab.REDLOCKD, "--config", agent.config_path],
                              stderr=open(agent.log_path, "a"))


def connect(agent):
    try:
        return agent.client()
    except OSError:
        return None


def test_start_beside_a_dead_node():
    for what in ("dead", "hung"):
        if what == "dead":
            nodes[0].kill()
        else:
            nodes[0].stop()
        agent = lab.Agent(proxies, CONFIG, start=False)
        client, greeted, granted = start(agent, what + " 1")
        ok(granted < 0.5 * lab.SCALE,
           "an agent that starts beside a node that is %s grants at once" % what)
        note("greets after %.0f ms, grants after %.0f ms" % (1000 * greeted, 1000 * granted))
        lease = client.acquire("short " + what, "TTL", 5000, "RESUMABLE", "WAIT", 5000)
        agent.kill()
        client.close()
        successor, greeted, granted = start(agent, what + " 2")
        note("the next greets after %.0f ms, grants after %.0f ms" % (1000 * greeted, 1000 * granted))
        resumed = lab.as_map(successor.call("RESUME", "short " + what, lease["secret"], "WAIT", 0))
        ok(isinstance(resumed, dict), "and the next one resumes a lease of five seconds")
        ok(isinstance(successor.call("LEADER", "short " + what), dict), "and LEADER returns the holder")
        successor.close()
        agent.terminate()
        up_again()


def test_start_without_a_quorum():
    for node in nodes[:2]:
        node.kill()
    agent = lab.Agent(proxies, CONFIG, start=False)
    begin(agent)
    client = lab.wait_for(lambda: connect(agent), what="the socket")
    begun = lab.now()
    answer = client.acquire("none")
    ok(str(answer).startswith("NOQUORUM"), "without a quorum the first request gets NOQUORUM: %s" % answer)
    ok(lab.now() - begun < (3 * TIMEOUT + SLACK) * lab.SCALE, "within its bound")
    client.close()
    agent.terminate()
    up_again()


main(test_start_beside_a_dead_node, test_start_without_a_quorum, test_run_once_beside_a_dead_node,
     test_held_there, test_behind_one_that_waits, test_held_by_a_library, test_free,
     test_resume_what_has_ended)
