"""Nodes that lost their memory: quarantine, blessing, epochs. The double grant that they prevent is shown
with quarantine = no."""

import hashlib
import os
import re

import lab
from tap import begins, equal, main, ok, within

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "agent", "scripts")


def trusting(nodes, config, quarantine):
    return lab.Agent(nodes, config + "\nquarantine = %s" % ("yes" if quarantine else "no"))


def test_new_nodes():
    nodes = lab.nodes(3)
    begun = lab.now()
    agent = trusting(nodes, 'max_ttl = "1s"\ndefault_ttl = "1s"\nnode_timeout = "490ms"', True)
    client = agent.client(3)
    begins(client.acquire("early"), "NOQUORUM 0 of 3 nodes voted", "new nodes don't vote")
    state = agent.wait_node("a", "quarantined")
    equal(state["state"], "quarantined", "NODES shows that")
    ok("no epoch key" in state["reason"], "and why")
    agent.wait_voting(3, seconds=20)
    within(lab.now() - begun, 11.1, 11.1 + 3 * lab.SCALE,
           "if all nodes are new, their quarantine lasts until every connected agent has noticed")
    ok("id" in client.acquire("late", "WAIT", 5000), "and grant")
    other = trusting(nodes, 'max_ttl = "1s"\ndefault_ttl = "1s"', True)
    other.wait_voting(3)
    ok("no epoch key" in agent.log_text() and "no epoch key" not in other.log_text(),
       "another agent finds them blessed")
    begun = lab.now()
    nodes[0].call("DEL", "redlockd:epoch")
    ok("id" in client.acquire("meanwhile", "WAIT", 1500), "if one node loses its epoch, the others vote")
    agent.wait_node("a", "quarantined")
    agent.wait_voting(3)
    within(lab.now() - begun, 2.01, 2.01 + 3 * lab.SCALE,
           "that node votes after max_ttl, its drift and a margin")
    begins(client.acquire("redlockd:epoch"), "BADNAME", "the epoch's name can't be leased")
    for each in (agent, other):
        each.terminate()


def take_over(quarantine):
    """A lease is held on a and b; b and c restart empty. Returns what another agent's client gets then."""
    nodes = lab.nodes(3)
    first = trusting(nodes, 'default_ttl = "20s"\n' + lab.UNHURRIED, quarantine)
    if quarantine:
        first.bless_all()
    nodes[2].kill()
    holder = first.client()
    grant = holder.acquire("contended", "WAIT", 5000)
    nodes[1].kill()
    for node in nodes[1:]:
        node.start()
    second = trusting(nodes, 'default_ttl = "20s"', quarantine)
    answer = second.client().acquire("contended", "WAIT", 4000)
    still_held = holder.call("CHECK", grant["id"]) > 0
    first.kill()
    second.kill()
    return answer, still_held


def test_restarted_empty():
    answer, still_held = take_over(True)
    ok(still_held, "the holder's majority loses its memory; the lease is still valid")
    begins(answer, "NOQUORUM", "rule 10: no other client gets it from the nodes that lost their memory")
    answer, still_held = take_over(False)
    ok(still_held and isinstance(answer, dict),
       "with quarantine = no there are two holders: the test detects it")


def test_flushed():
    nodes = lab.nodes(3)
    agent = trusting(nodes, 'max_ttl = "4s"\ndefault_ttl = "4s"', True)
    agent.bless_all()
    holder = agent.client(3)
    grant = holder.acquire("flushed", "WAIT", 5000)
    other = trusting(nodes, 'max_ttl = "4s"\ndefault_ttl = "4s"', True)
    for node in nodes[1:]:
        node.call("FLUSHALL")
    begins(other.client().acquire("flushed", "WAIT", 1000), "NOQUORUM",
           "flushed nodes don't vote for others")
    push = holder.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "nor for the holder, which gets at-risk")
    push = holder.push("lost")
    equal(push[1:3], [grant["id"], "no-quorum"], "the lease is lost at its deadline")
    agent.wait_voting(3, seconds=30)
    ok("id" in holder.acquire("flushed", "WAIT", 5000), "after the quarantine leases are granted again")
    agent.terminate()
    other.terminate()


def test_one_of_three():
    """A minority that loses its memory changes nothing."""
    nodes = lab.nodes(3)
    agent = trusting(nodes, 'max_ttl = "5s"\ndefault_ttl = "5s"\nnode_timeout = "2s"\n', True)
    agent.bless_all()
    client = agent.client(3)
    grant = client.acquire("minority")
    nodes[0].kill()
    nodes[0].start()
    ok("id" in client.acquire("meanwhile"), "two of three nodes still grant")
    agent.wait_node("a", "quarantined")
    agent.wait_voting(3, seconds=20)
    lab.wait_for(lambda: lab.keys_on(nodes, "minority") == 3, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0,
       "the lease is repaired on the flushed node, once it votes again")
    agent.terminate()


def test_bless():
    nodes = lab.nodes(3)
    agent = trusting(nodes, lab.UNHURRIED, True)
    status, out, errors = lab.redlock_run(agent, "nodes", "--bless", "nonesuch")
    ok(status == 64 and "nonesuch" in errors, "an unknown node")
    for name in "abc":
        agent.wait_node(name, "quarantined")
        equal(lab.redlock_run(agent, "nodes", "--bless", name)[0], 0, "redlock nodes --bless %s" % name)
    agent.wait_voting(3)
    ok("id" in agent.client().acquire("blessed"), "blessed nodes vote")
    ok("blessed by an operator" in agent.log_text(), "the log has the operator's action")
    agent.terminate()


def test_bless_without_effect():
    nodes = lab.nodes(3)
    nodes[1].kill()
    agent = trusting(nodes, "", True)
    for name in "ac":
        agent.wait_node(name, "quarantined")
    agent.wait_node("b", reason="Connection refused")
    status, out, errors = lab.redlock_run(agent, "nodes", "--bless", "a", "b", "nonesuch", "c", "b")
    equal((status, out), (64, ""), "an unknown node, and one that is not connected")
    equal(errors.splitlines()[1:],
          ["redlock: node b is still connecting: Connection refused: the blessing may have had no effect: "
           "repeat it when 'redlock nodes' shows quarantined"],
          "the latter has a line: its state, the reason, the consequence, the next step")
    equal({name: node["state"] for name, node in agent.node_states().items()},
          {"a": "voting", "b": "connecting", "c": "voting"}, "the others vote when the command ends")
    equal(lab.redlock_run(agent, "nodes", "--bless", "b")[0], 75, "75: a node is not connected")
    nodes[1].start()
    agent.wait_node("b", "quarantined")
    equal(lab.redlock_run(agent, "nodes", "--bless", "b"), (0, "", ""), "repeated as the line says")
    equal(agent.status()["voting"], 3, "it has an effect")
    agent.terminate()


def test_late_blessing():
    """An agent that was away while another one blessed a node has not waited for leases granted since."""
    nodes = lab.nodes(3)
    config = 'max_ttl = "4s"\ndefault_ttl = "4s"'
    late, other = trusting(nodes, config, True), trusting(nodes, config, True)
    fields = late.keepers + other.keepers + 2  # the longest max_ttl, and the fleet
    lab.wait_for(lambda: all(node.call("HLEN", "redlockd:quarantine") == fields for node in nodes),
                 what="the marks of all keepers")
    late.stop()
    other.bless()
    other.wait_voting(3)
    equal([node.call("EXISTS", "redlockd:quarantine") for node in nodes], [0, 0, 0],
          "a blessing removes all marks")
    nodes[0].call("DEL", "redlockd:epoch")
    other.stop()
    begun = lab.now()
    late.cont()
    late.wait_voting(2)
    equal(nodes[0].call("EXISTS", "redlockd:epoch"), 0,
          "so a late agent does not bless the node by its own old mark")
    late.wait_voting(3)
    within(lab.now() - begun, 5.04, 5.04 + 3 * lab.SCALE, "but waits anew")
    late.kill()
    other.kill()


class Together(lab.Proxy):
    """Has all requests. After hold_until() it holds back all answers until this text is among them: then
    they come in one piece, so that the agent reads them in one turn."""

    def __init__(self, node):
        self.requests = self.answers = self.text = b""
        super().__init__(node)

    def hold_until(self, text):
        self.requests = b""
        self.text = text

    def _forward(self, source, sink, swallowed):
        try:
            while data := source.recv(65536):
                if swallowed == "deaf":
                    self.requests += data
                else:
                    data = self._held(data)
                sink.sendall(data)
        except OSError:
            pass
        lab.hang_up(source, sink)

    def _held(self, data):
        """What the agent gets now."""
        self.answers += data
        if self.text not in self.answers:
            return b""
        data, self.answers, self.text = self.answers, b"", b""
        return data

    def calls(self, script=""):
        """The words of each call; or of a script's calls, which have its text or its hash."""
        calls = [call.split(b"\r\n")[::2]
                 for call in re.split(rb"\*\d+\r\n\$\d+\r\n(?=EVAL)", self.requests)[1:]]
        if not script:
            return calls
        with open(os.path.join(SCRIPTS, script + ".lua"), "rb") as file:
            text = file.read()
        return [words for words in calls if words[1] in (text, hashlib.sha1(text).hexdigest().encode())]


def test_request_before_the_answer():
    """The agent makes a request, and reads in the same turn, before the request is sent, that another agent
    proposes epochs too short for this agent's leases."""
    node = lab.Node("a")
    proxy = Together(node)
    lab.Agent([proxy], 'max_ttl = "2m"').terminate()
    process, max_ttl, _, *fleet, _ = node.call("GET", "redlockd:epoch").split()
    proposal = " ".join([process, max_ttl, "1", *fleet, "2", "1000"])
    # The node blessed long ago: then tokens are times, and this one causes a second request, raise.
    node.call("SET", "redlockd:epoch", " ".join([process, max_ttl, "1", *fleet, "1"]))
    node.call("HSET", "redlockd:fences", "turn", int(lab.time.time() * 1e6) + 30 * 1000000)
    agent = lab.Agent([proxy], 'max_ttl = "1m"\n' + lab.UNHURRIED, keepers=1)
    agent.wait_voting(1)  # the next probe follows in ten seconds
    proxy.hold_until(proposal.encode())
    client = agent.client()
    client.send("ACQUIRE", "turn", "WAIT", 10000)
    lab.wait_for(lambda: node.call("EXISTS", "turn"), what="acquire, whose answer is held back")
    node.call("SET", "redlockd:epoch", proposal)
    agent.bless()  # makes the epoch shorter at once: the answer is the present epoch, the other agent's
    ok("id" in lab.as_map(client.reply()), "the lease is granted when the agent has withdrawn the proposal")
    ok(proxy.calls("raise")[0][7] in proxy.calls("acquire")[0], "the first attempt makes a second request,")
    equal([words[2:] for words in proxy.calls() if words[0] == b"EVALSHA" and proposal.encode() in words],
          [], "rule 10: which does not carry the epoch that the agent does not accept, nor do later ones")
    agent.terminate()


def test_evicting():
    nodes = lab.nodes(3)
    nodes[0].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    agent = trusting(nodes, lab.UNHURRIED, False)
    state = agent.wait_node("a", reason="maxmemory")
    ok(state["state"] != "voting", "a node that may evict keys does not vote")
    ok("id" in agent.client().acquire("others"), "the other nodes grant leases")
    agent.terminate()


main(test_new_nodes, test_restarted_empty, test_flushed, test_one_of_three, test_bless,
     test_bless_without_effect, test_late_blessing, test_request_before_the_answer, test_evicting)
