"""The bounds of a lease: extension, HEARTBEAT, MAXHOLD."""

import lab
from tap import begins, equal, main, ok, within

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)


def test_extension():
    extending = lab.Agent(nodes)
    client = extending.client(3)
    grant = client.acquire("extended", "TTL", 300)
    extensions = extending.status()["extensions"]
    lab.wait_for(lambda: extending.status()["extensions"] >= extensions + 20, what="twenty extensions")
    ok(lab.now() * 1e9 > grant["deadline"] + 1e9, "a second after its first deadline")
    ok(client.call("CHECK", grant["id"]) > 0, "a lease of 300 ms is still valid")
    equal(client.pushes, [], "and its holder gets no pushes")
    client.close()
    extending.terminate()


def test_heartbeat():
    client = agent.client(3)
    grant = client.acquire("heart", "TTL", 2000, "HEARTBEAT", 1500)
    for _ in range(4):
        beat = lab.now()
        equal(client.call("BEAT", grant["id"]), 1, "BEAT returns 1")
        extensions = agent.status()["extensions"]
        lab.wait_for(lambda: agent.status()["extensions"] > extensions, what="an extension")
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "heartbeat"), "without BEAT the lease is at risk")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "heartbeat"], "then lost")
    within(lab.now() - beat, 2.2, 3.5 + 0.2 * lab.SCALE, "within heartbeat and ttl")
    equal(client.call("BEAT", grant["id"]), 0, "a BEAT after the loss returns 0")
    client.close()


def test_max_hold():
    client = agent.client(3)
    begun = lab.now()
    grant = client.acquire("bounded", "TTL", 1000, "MAXHOLD", 1500)
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "max-hold"), "before the end of MAXHOLD the lease is at risk")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "max-hold"], "at the end it is lost")
    within(lab.now() - begun, 1.5, 1.5 + 0.2 * lab.SCALE, "MAXHOLD after the grant")
    lab.wait_for(lambda: lab.keys_on(nodes, "bounded") == 0, what="the end of the keys")
    ok("id" in client.acquire("bounded"), "and another client acquires the name")
    client.close()


def test_max_hold_configured():
    bounded = lab.Agent(nodes, 'max_hold = "700ms"\ndefault_ttl = "400ms"\nnode_timeout = "190ms"\n'
                               'rule "r*" { max_hold = "100ms" }\n')
    client = bounded.client(3)
    begun = lab.now()
    client.acquire("by configuration", "MAXHOLD", 60000)
    equal(client.push("lost")[2], "max-hold", "max_hold limits a larger MAXHOLD")
    within(lab.now() - begun, 0.7, 0.7 + 0.2 * lab.SCALE, "at max_hold after the grant")
    begun = lab.now()
    client.acquire("rule")
    equal(client.push("lost")[2], "max-hold", "the max_hold of the name's rule applies")
    within(lab.now() - begun, 0.1, 0.1 + 0.2 * lab.SCALE, "at that time, even if it is short")
    bounded.terminate()


main(test_extension, test_heartbeat, test_max_hold, test_max_hold_configured)
