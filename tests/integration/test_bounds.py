"""How long a lease lasts: extension, HEARTBEAT, MAXHOLD."""

import lab
from tap import begins, equal, main, ok, within

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED)


def test_extension():
    hurried = lab.Agent(nodes)
    client = hurried.client(3)
    grant = client.acquire("extended", "TTL", 300)
    extensions = hurried.status()["extensions"]
    lab.wait_for(lambda: hurried.status()["extensions"] >= extensions + 20, what="twenty extensions")
    ok(lab.now() * 1e9 > grant["deadline"] + 1e9, "seconds after its first deadline")
    ok(client.call("CHECK", grant["id"]) > 0, "a lease of 300 ms is held")
    equal(client.pushes, [], "and its holder is not bothered")
    client.close()
    hurried.terminate()


def test_heartbeat():
    client = agent.client(3)
    grant = client.acquire("heart", "TTL", 2000, "HEARTBEAT", 1500)
    for _ in range(4):
        beat = lab.now()
        equal(client.call("BEAT", grant["id"]), 1, "BEAT")
        extensions = agent.status()["extensions"]
        lab.wait_for(lambda: agent.status()["extensions"] > extensions, what="an extension")
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "heartbeat"), "without BEAT the lease is at risk")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "heartbeat"], "and then lost")
    within(lab.now() - beat, 2.2, 3.5 + 0.2 * lab.SCALE, "within heartbeat and ttl")
    equal(client.call("BEAT", grant["id"]), 0, "a later BEAT comes too late")
    client.close()


def test_max_hold():
    client = agent.client(3)
    begun = lab.now()
    grant = client.acquire("bounded", "TTL", 1000, "MAXHOLD", 1500)
    push = client.push("at-risk")
    equal((push[1], push[3]), (grant["id"], "max-hold"), "before its end the holder is told")
    push = client.push("lost")
    equal(push[1:3], [grant["id"], "max-hold"], "at its end it is lost")
    within(lab.now() - begun, 1.5, 1.5 + 0.2 * lab.SCALE, "MAXHOLD after the grant")
    lab.wait_for(lambda: lab.keys_on(nodes, "bounded") == 0, what="the end of the keys")
    ok("id" in client.acquire("bounded"), "and free for others")
    client.close()


def test_max_hold_configured():
    bounded = lab.Agent(nodes, 'max_hold = "700ms"\ndefault_ttl = "400ms"\nnode_timeout = "190ms"\n'
                               'rule "r*" { max_hold = "100ms" }\n')
    client = bounded.client(3)
    begun = lab.now()
    client.acquire("by configuration", "MAXHOLD", 60000)
    equal(client.push("lost")[2], "max-hold", "max_hold counts, though the client asked for more")
    within(lab.now() - begun, 0.7, 0.7 + 0.2 * lab.SCALE, "at its time")
    begun = lab.now()
    client.acquire("rule")
    equal(client.push("lost")[2], "max-hold", "max_hold of the name's rule")
    within(lab.now() - begun, 0.1, 0.1 + 0.2 * lab.SCALE, "at its time, with its reason, though it is short")
    bounded.terminate()


main(test_extension, test_heartbeat, test_max_hold, test_max_hold_configured)
