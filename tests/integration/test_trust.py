"""Nodes that lost their memory: quarantine, blessing, epochs. The double grant that they prevent is shown
without them."""

import lab
from tap import begins, equal, main, ok, within


def trusting(nodes, config, quarantine):
    return lab.Agent(nodes, config + "\nquarantine = %s" % ("yes" if quarantine else "no"))


def bless_all(agent):
    agent.bless()
    agent.wait_voting(len(agent.nodes))


def test_new_nodes():
    nodes = lab.nodes(3)
    begun = lab.now()
    agent = trusting(nodes, 'max_ttl = "1s"\ndefault_ttl = "1s"\nnode_timeout = "490ms"', True)
    client = agent.client(3)
    begins(client.acquire("early"), "NOQUORUM 0 of 3 nodes voted", "new nodes don't vote")
    state = agent.node_states()["a"]
    equal(state["state"], "quarantined", "NODES says so")
    ok("no epoch key" in state["reason"], "and why")
    agent.wait_voting(3, seconds=20)
    within(lab.now() - begun, 11.1, 11.1 + 3 * lab.SCALE,
           "where all nodes are new they rest until every agent that is connected has noticed")
    ok("id" in client.acquire("late"), "and grant")
    begun = lab.now()
    other = trusting(nodes, 'max_ttl = "1s"\ndefault_ttl = "1s"', True)
    other.wait_voting(3)
    ok(lab.now() - begun < 1.5 * lab.SCALE, "another agent finds them blessed")
    nodes[0].call("DEL", "redlockd:epoch")
    begun = lab.now()
    ok("id" in client.acquire("meanwhile"), "if one loses its epoch, the others vote")
    agent.wait_node("a", "quarantined")
    agent.wait_voting(3)
    within(lab.now() - begun, 2.01, 2.01 + 3 * lab.SCALE, "it does after max_ttl, its drift and a margin")
    begins(client.acquire("redlockd:epoch"), "BADNAME", "nobody can lease the epoch's name")
    for each in (agent, other):
        each.terminate()


def take_over(quarantine):
    """A lease stands on a and b; b and c restart empty. What another agent's client gets then."""
    nodes = lab.nodes(3)
    first = trusting(nodes, 'default_ttl = "20s"', quarantine)
    if quarantine:
        bless_all(first)
    nodes[2].kill()
    holder = first.client()
    grant = holder.acquire("contended")
    nodes[1].kill()
    for node in nodes[1:]:
        node.start()
    second = trusting(nodes, 'default_ttl = "20s"', quarantine)
    answer = second.client().acquire("contended", "WAIT", 1500)
    still_held = holder.call("CHECK", grant["id"]) > 0
    first.kill()
    second.kill()
    return answer, still_held


def test_restarted_empty():
    answer, still_held = take_over(True)
    ok(still_held, "a holder's majority loses its memory; it is valid still")
    begins(answer, "NOQUORUM", "rule 10: nobody else gets it from the nodes that forgot")
    answer, still_held = take_over(False)
    ok(still_held and isinstance(answer, dict),
       "with quarantine = no there are two holders: the test would see it")


def test_flushed():
    nodes = lab.nodes(3)
    agent = trusting(nodes, 'max_ttl = "4s"\ndefault_ttl = "4s"', True)
    bless_all(agent)
    holder = agent.client(3)
    grant = holder.acquire("flushed")
    other = trusting(nodes, 'max_ttl = "4s"\ndefault_ttl = "4s"', True)
    for node in nodes[1:]:
        node.call("FLUSHALL")
    begins(other.client().acquire("flushed", "WAIT", 1000), "NOQUORUM",
           "flushed nodes don't vote for others")
    push = holder.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "no-quorum"), "nor for the holder, which is told")
    push = holder.push("lost")
    equal(push[1:3], [grant["id"], "no-quorum"], "it is lost at its deadline")
    agent.wait_voting(3, seconds=20)
    ok("id" in holder.acquire("flushed"), "after the quarantine all goes on")
    agent.terminate()
    other.terminate()


def test_one_of_three():
    """A minority that forgets is no trouble at all."""
    nodes = lab.nodes(3)
    agent = trusting(nodes, 'max_ttl = "2s"\ndefault_ttl = "2s"', True)
    bless_all(agent)
    client = agent.client(3)
    grant = client.acquire("minority")
    nodes[0].kill()
    nodes[0].start()
    ok("id" in client.acquire("meanwhile"), "two of three go on granting")
    agent.wait_node("a", "quarantined")
    agent.wait_voting(3)
    lab.wait_for(lambda: lab.keys_on(nodes, "minority") == 3, what="the repair")
    ok(client.call("CHECK", grant["id"]) > 0,
       "the lease is repaired on the node that forgot, once it votes again")
    agent.terminate()


def test_bless():
    nodes = lab.nodes(3)
    agent = trusting(nodes, "", True)
    status, out, errors = lab.redlock_run(agent, "nodes", "--bless", "nonesuch")
    ok(status == 64 and "nonesuch" in errors, "a name that no node has")
    for name in "abc":
        equal(lab.redlock_run(agent, "nodes", "--bless", name)[0], 0, "redlock nodes --bless %s" % name)
    agent.wait_voting(3)
    ok("id" in agent.client().acquire("blessed"), "blessed nodes vote")
    ok("blessed by an operator" in agent.log_text(), "the log tells who did it")
    agent.terminate()


def test_late_blessing():
    """Who was away while another blessed a node has not waited for what was granted since."""
    nodes = lab.nodes(3)
    config = 'max_ttl = "2s"\ndefault_ttl = "2s"'
    late, other = trusting(nodes, config, True), trusting(nodes, config, True)
    fields = late.keepers + other.keepers + 2  # the longest max_ttl, and the fleet
    lab.wait_for(lambda: all(node.call("HLEN", "redlockd:quarantine") == fields for node in nodes),
                 what="the marks of all keepers")
    late.stop()
    other.bless()
    other.wait_voting(3)
    equal([node.call("EXISTS", "redlockd:quarantine") for node in nodes], [0, 0, 0],
          "a blessing takes all marks away")
    nodes[0].call("DEL", "redlockd:epoch")
    other.stop()
    begun = lab.now()
    late.cont()
    late.wait_voting(2)
    equal(nodes[0].call("EXISTS", "redlockd:epoch"), 0,
          "so one that comes late does not bless it on its own old mark")
    late.wait_voting(3)
    within(lab.now() - begun, 3.02, 3.02 + 3 * lab.SCALE, "but waits anew")
    late.kill()
    other.kill()


def test_evicting():
    nodes = lab.nodes(3)
    nodes[0].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    agent = trusting(nodes, "", False)
    state = agent.wait_node("a", reason="maxmemory")
    ok(state["state"] != "voting", "a node that may evict keys does not vote")
    ok("id" in agent.client().acquire("others"), "the others go on")
    agent.terminate()


main(test_new_nodes, test_restarted_empty, test_flushed, test_one_of_three, test_bless, test_late_blessing,
     test_evicting)
