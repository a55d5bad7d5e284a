"""A reload while the directory of users and groups answers slowly, or the units of many clients are read:
the agent serves meanwhile."""

import os
import signal

import lab
from tap import equal, main, ok

ANSWER_MS = 8000
TTL_MS = 4000
RULE = 'rule "x/*" { users = {"somebody"} may = {"observe"} }\n'

nodes = lab.nodes(3)
library = os.path.join(lab.BUILD, "tests", "integration", "libslow-accounts.so")


def new_agent(answer_ms, unit_ms=0):
    agent = lab.Agent(nodes, prefix=("env", "LD_PRELOAD=" + library, "SLOW_ACCOUNTS_MS=%d" % answer_ms,
                                     "SLOW_UNITS_MS=%d" % unit_ms))
    agent.wait_voting(3)
    return agent


def applied(agent):
    return agent.log_text().count(" applied")


def replace_config(agent, config):
    """In one step: a thread may be about to read the file."""
    path = agent.config_path
    agent.config_path += ".new"
    agent.write_config(config)
    os.rename(agent.config_path, path)
    agent.config_path = path


def begin_reload(agent):
    threads = lambda: len(os.listdir("/proc/%d/task" % agent.process.pid))
    before = threads()
    replace_config(agent, RULE)
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: threads() > before, what="the thread that reads the file")


def test_serves():
    """A blocked agent would lose the lease, and the service manager's watchdog would end the agent."""
    agent = new_agent(ANSWER_MS)
    holder, other = agent.client(), agent.client()
    grant = holder.acquire("held", "TTL", TTL_MS)
    begun = lab.now()
    begin_reload(agent)
    longest = 0
    while applied(agent) == 0 and lab.now() - begun < 60:
        asked = lab.now()
        other.call("PING")
        longest = max(longest, lab.now() - asked)
    took = lab.now() - begun
    ok(took >= ANSWER_MS / 1000, "the reload waits for the directory (%.1f s)" % took)
    ok(longest < 4, "other requests do not (%.3f s)" % longest)
    ok(holder.call("CHECK", grant["id"]) > 0, "a lease with a shorter ttl goes on")
    agent.terminate()


def test_again():
    """A second reload during the first one."""
    agent = new_agent(3000)
    begin_reload(agent)
    replace_config(agent, RULE + 'max_ttl = "20s"\n')
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: applied(agent) == 2, 20, "both reloads")
    ok(str(agent.client().acquire("long", "TTL", 25000)).startswith("BADARG"), "the latest file applies")
    agent.terminate()


def test_stop():
    """An agent that is stopped does not wait for the directory."""
    agent = new_agent(60000)
    begin_reload(agent)
    begun = lab.now()
    agent.signal(signal.SIGTERM)
    equal(agent.process.wait(30), 0, "exit status 0")
    ok(lab.now() - begun < 10, "at once (%.1f s)" % (lab.now() - begun))


def test_units():
    """The units of all clients are read for the first rule with units: leases are extended meanwhile."""
    clients, unit_ms, ttl_ms = 100, 10, 400
    agent = new_agent(0, unit_ms)
    others = [agent.client() for _ in range(clients)]
    holder = agent.client()
    grant = holder.acquire("held", "TTL", ttl_ms)
    begun = lab.now()
    replace_config(agent, 'rule "x/*" { units = {"slow.service"} may = {} }\n')
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: applied(agent) == 1, 20, "the reload")
    took = lab.now() - begun
    ok(took >= clients * unit_ms / 1000,
       "the reload reads the units of %d clients (%.1f s)" % (clients, took))
    ok(holder.call("CHECK", grant["id"]) > 0, "a lease with a shorter ttl goes on")
    equal({lab.as_map(client.call("WHOAMI", "x/y"))["rule"] for client in others}, {"x/*"},
          "then the rule is for each of them")
    agent.terminate()


main(test_serves, test_again, test_stop, test_units)
