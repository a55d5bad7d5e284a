"""Rule 10's exception: nodes that write everything to disk before they answer, and are configured as
durable, vote at once after a restart."""

import os
import shutil
import threading

import lab
from clocknode import ClockNode
from tap import begins, equal, main, ok

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
CONFIG = 'max_ttl = "20s"\ndefault_ttl = "20s"\nquarantine = yes\n' + lab.UNHURRIED


def node(name, *options, kind=lab.Node):
    home = lab.path("data-" + name)
    os.mkdir(home)
    made = kind(name, "--dir", home, *options)
    made.home = home
    return made


def trusting(nodes, node_config="durable = yes"):
    agent = lab.Agent(nodes, CONFIG, node_config=node_config)
    lab.wait_for(lambda: all(each["state"] in ("quarantined", "voting") for each in
                             agent.node_states().values()), what="examined nodes")
    agent.bless()
    agent.wait_voting(len(nodes))
    return agent


def is_of_process(each):
    """Whether the node's epoch names its process."""
    epoch = each.call("GET", "redlockd:epoch")
    return epoch is not None and epoch.split()[0] in each.call("INFO", "server")


def floors(nodes):
    return [each.call("GET", "redlockd:epoch").split()[1:3] for each in nodes]


def restart(each):
    each.kill()
    each.start()


def test_durable():
    nodes = [node(name, *ALWAYS) for name in "abc"]
    agent = trusting(nodes)
    holder = agent.client(3)
    grant = holder.acquire("kept")
    lab.wait_for(lambda: lab.keys_on(nodes, "kept") == 3, what="the key on each node")
    before = floors(nodes)
    begun = lab.now()
    for each in nodes:
        restart(each)
    agent.wait_voting(3)
    ok(lab.now() - begun < 15, "all nodes restarted and vote again long before max_ttl (%.1f s)" % (
        lab.now() - begun))
    lab.wait_for(lambda: all(map(is_of_process, nodes)), what="epochs of the new processes")
    equal(floors(nodes), before, "their epochs name the new processes; max_ttl and floor are the same")
    equal(lab.keys_on(nodes, "kept"), 3, "the keys exist")
    ok(holder.call("CHECK", grant["id"]) > 0, "the lease is held")
    other = lab.Agent(nodes, CONFIG, node_config="durable = yes")
    other.wait_voting(3)
    begins(other.client().acquire("kept"), "BUSY", "another agent finds them blessed, and the lease held")
    equal(holder.call("RELEASE", grant["id"]), 1, "its holder releases it")
    ok(other.client().acquire("kept", "WAIT", 5000)["fence"] > grant["fence"], "the next token is larger")
    other.terminate()
    agent.terminate()


def test_met_while_loading():
    """INFO shows the append-only file as off while a server loads it; servers without such a file look
    the same."""
    slow = ("--key-load-delay", "1000")
    fill = "for i = 1, 7000 do redis.call('SET', 'other:' .. i, i) end"
    nodes = [node(name, *ALWAYS) for name in "abc"]
    agent = trusting(nodes)
    before = floors(nodes)
    nodes[0].call("EVAL", fill, 0)
    nodes[0].kill()
    nodes[0].options += slow
    load_before(agent, nodes[0])
    agent.wait_voting(3)
    equal(floors(nodes), before,
          "a node that is examined while it loads its file votes when it has loaded it")
    nodes[1].call("EVAL", fill, 0)
    nodes[1].call("SAVE")
    nodes[1].kill()
    nodes[1].options += (*slow, "--loading-process-events-interval-bytes", "1024", "--appendonly", "no")
    load_before(agent, nodes[1])
    nodes[1].call("CONFIG", "SET", "appendonly", "yes")
    rests(agent, nodes[1],
          "a node that is examined while it loads a snapshot is quarantined, also if its file is on then")
    agent.terminate()


def test_switched_on_late():
    nodes = [node(name, *ALWAYS) for name in "abc"]
    agent = trusting(nodes)
    nodes[0].call("SAVE")
    agent.stop()
    nodes[0].kill()
    nodes[0].options += ("--appendonly", "no")
    nodes[0].start()
    nodes[0].call("CONFIG", "SET", "appendonly", "yes")
    lab.wait_for(lambda: "aof_rewrite_in_progress:0" in nodes[0].call("INFO", "persistence"),
                 what="its file")
    agent.cont()
    rests(agent, nodes[0],
          "a node that began with a snapshot is quarantined, also if no agent saw it without its file")
    agent.terminate()


def load_before(agent, each):
    """Starts a node that loads for seconds: until the agent has seen that."""
    text = "node %s: does not vote: is loading its data" % each.name

    def hurry():
        logged(agent, text)
        each.call("CONFIG", "SET", "key-load-delay", 0)
    hurrying = threading.Thread(target=hurry, daemon=True)
    hurrying.start()
    each.start()
    hurrying.join()
    logged(agent, text)


def logged(agent, text):
    lab.wait_for(lambda: text in agent.log_text(), what="'%s' in the log" % text)


def rests(agent, each, why):
    """Waits until the restarted node is in quarantine. An heir is, too, until its blessing is renewed."""
    agent.wait_node(each.name, "quarantined", "no epoch key")
    ok(not is_of_process(each), why)


def test_not_durable():
    nodes = [node("a", *ALWAYS), node("b", "--appendonly", "yes", "--appendfsync", "everysec"),
             node("c", *ALWAYS), node("d", *ALWAYS), node("e", *ALWAYS)]
    agent = trusting(nodes)
    logged(agent, "node b: configured as durable, but its appendonly is not yes, its appendfsync")
    ok(True, "a node that is configured as durable and is not gets a warning")
    nodes[0].kill()
    shutil.rmtree(os.path.join(nodes[0].home, "appendonlydir"))
    nodes[0].start()
    rests(agent, nodes[0], "a durable node without its file is quarantined")
    restart(nodes[1])
    rests(agent, nodes[1], "a node that writes its file every second is quarantined")
    nodes[2].kill()
    fresh = lab.Agent(nodes, CONFIG, node_config="durable = yes")
    fresh.wait_voting(2)
    agent.kill()
    nodes[2].start()
    rests(fresh, nodes[2], "for an agent that did not know the former process, its heir is quarantined")
    fresh.terminate()
    plain = trusting(nodes, "")
    restart(nodes[3])
    rests(plain, nodes[3], "without durable = yes the node is quarantined")
    plain.terminate()


def test_clock_set():
    nodes = [node(name, *ALWAYS, kind=ClockNode) for name in "abc"]
    agent = trusting(nodes)
    nodes[1].kill()
    nodes[1].set_clock(3600)
    nodes[1].start()
    rests(agent, nodes[1], "rule 11: a node whose clock was set while it was down is quarantined")
    agent.terminate()


main(test_durable, test_met_while_loading, test_switched_on_late, test_not_durable, test_clock_set)
