"""The bounds of a lease: extension, HEARTBEAT, MAXHOLD."""

import lab
from tap import begins, equal, main, ok, within

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)
LATE_S = 0.2 * lab.SCALE  # of the threads of this test and of the agent


def test_extension():
    client = agent.client(3)
    grants = [client.acquire("extended %d" % i, "TTL", 4000) for i in range(5)]
    extensions = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= extensions + 20, seconds=30,
                 what="twenty extensions")
    ok(all(lab.now() * 1e9 > grant["deadline"] + 1e9 for grant in grants),
       "a second after their first deadlines")
    ok(all(client.call("CHECK", grant["id"]) > 0 for grant in grants), "leases of 4 s are still valid")
    equal(client.pushes, [], "and their holder gets no pushes")
    for grant in grants:
        client.call("RELEASE", grant["id"])
    client.close()


def test_heartbeat():
    client = agent.client(3)
    grant = client.acquire("heart", "TTL", 4000, "HEARTBEAT", 3500)
    for _ in range(4):
        beat = lab.now()
        equal(client.call("BEAT", grant["id"]), 1, "BEAT returns 1")
        extensions = agent.status()["extensions"]
        lab.wait_for(lambda: agent.status()["extensions"] > extensions, what="an extension")
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "heartbeat"), "without BEAT the lease is at risk")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "heartbeat"], "then lost")
    within(lab.now() - beat, 4.5, 7.5 + LATE_S, "within heartbeat and ttl")
    equal(client.call("BEAT", grant["id"]), 0, "a BEAT after the loss returns 0")
    client.close()


def test_max_hold():
    client = agent.client(3)
    begun = lab.now()
    grant = client.acquire("bounded", "TTL", 3000, "MAXHOLD", 4000)
    granted = lab.now()
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "max-hold"), "before the end of MAXHOLD the lease is at risk")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "max-hold"], "at the end it is lost")
    within(lab.now() - begun, 4, 4 + LATE_S + granted - begun, "MAXHOLD after the grant")
    lab.wait_for(lambda: lab.keys_on(nodes, "bounded") == 0, what="the end of the keys")
    ok("id" in client.acquire("bounded"), "and another client acquires the name")
    client.close()


def test_max_hold_configured():
    bounded = lab.Agent(nodes, 'max_hold = "4s"\ndefault_ttl = "3s"\nnode_timeout = "1400ms"\n'
                               'rule "r*" { max_hold = "100ms" }\n')
    client = bounded.client(3)
    begun = lab.now()
    client.acquire("by configuration", "MAXHOLD", 60000)
    granted = lab.now()
    equal(client.push("lost")[2], "max-hold", "max_hold limits a larger MAXHOLD")
    within(lab.now() - begun, 4, 4 + LATE_S + granted - begun, "at max_hold after the grant")
    begun = lab.now()
    client.acquire("rule")
    granted = lab.now()
    equal(client.push("lost")[2], "max-hold", "the max_hold of the name's rule applies")
    within(lab.now() - begun, 0.1, 0.1 + LATE_S + granted - begun, "at that time, even if it is short")
    bounded.terminate()


main(test_extension, test_heartbeat, test_max_hold, test_max_hold_configured)
