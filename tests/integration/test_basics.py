"""Acquire and release over the socket: raw RESP2 and RESP3, inline requests, redis-cli, redis-py."""

import subprocess

import lab
from tap import begins, equal, main, note, ok, within

nodes = lab.nodes(5)
agent = lab.Agent(nodes, lab.UNHURRIED)


def test_acquire_check_release():
    client = agent.client()
    asked = lab.now()
    grant = client.acquire("basic")
    within(grant["validity"], 9897 - 1000 * (lab.now() - asked), 9898,
           "a new lease is valid for its ttl less the drift")
    equal(grant["name"], "basic", "the grant has the name")
    ok(grant["deadline"] > lab.now() * 1e9, "the deadline is an instant of CLOCK_BOOTTIME")
    lab.wait_for(lambda: lab.keys_on(nodes, "basic") == 5, what="the key on all nodes")
    value = nodes[0].call("GET", "basic")
    ok(len(value.split(":")[0]) == 40, "the lock value begins with 40 hex digits")
    equal({node.call("GET", "basic") for node in nodes}, {value}, "all nodes have the same value")
    left_ms, passed_ms = nodes[0].call("PTTL", "basic"), 1000 * (lab.now() - asked)
    within(left_ms, 9900 - passed_ms, 10000, "with the lease's ttl")
    left_ms, passed_ms = client.call("CHECK", grant["id"]), 1000 * (lab.now() - asked)
    within(left_ms, 9896 - passed_ms, 9898, "CHECK returns the validity")
    equal(client.call("RELEASE", grant["id"]), 1, "RELEASE returns 1")
    lab.wait_for(lambda: lab.keys_on(nodes, "basic") == 0, what="the end of the key on all nodes")
    ok(True, "RELEASE deletes the key on all nodes")
    equal(client.call("RELEASE", grant["id"]), 0, "a second RELEASE returns 0")
    equal(client.call("CHECK", grant["id"]), 0, "CHECK of a released lease returns 0")
    again = client.acquire("basic")
    ok(again["id"] != grant["id"], "ids are not reused")
    client.close()


def test_busy_and_others():
    first, second = agent.client(), agent.client(3)
    asked = lab.now()
    grant = first.acquire("contended", "TTL", 8000)
    within(grant["validity"], 7917 - 1000 * (lab.now() - asked), 7918, "TTL sets the validity")
    begins(second.acquire("contended"), "BUSY held by process", "a second client gets BUSY at once")
    begins(second.acquire("contended", "WAIT", 50), "TIMEOUT waited", "with WAIT it gets TIMEOUT")
    other = lab.Agent(nodes, lab.UNHURRIED)
    third = other.client()
    begins(third.acquire("contended"), "BUSY held by ",
           "another agent's client gets the holder from the nodes")
    leader = lab.as_map(third.call("LEADER", "contended"))
    ok(leader["holder"].count(":") == 2 and leader["data"] == "", "LEADER returns host, agent and process")
    within(leader["validity"], 2000, 8000, "and the remaining validity")
    equal(third.call("LEADER", "nobody has this"), None, "LEADER of a free name is nil")
    equal(third.call("RELEASE", grant["id"]), 0, "another client can't release the lease")
    first.close()
    ok(third.acquire("contended", "WAIT", 5000).get("id"),
       "after the holder's disconnect the other agent acquires the name")
    third.close()
    other.terminate()


def test_data():
    client = agent.client(3)
    client.acquire("with data", "DATA", b"url=\x00\xff:1")
    leader = client.call("LEADER", "with data")
    equal(leader["data"].encode("utf-8", "surrogateescape"), b"url=\x00\xff:1",
          "DATA is published byte for byte")
    begins(client.acquire("more data", "DATA", b"x" * 1025), "BADARG", "DATA over 1,024 bytes is rejected")
    client.close()


def test_foreign_libraries():
    nodes[0].call("SET", "foreign", "token", "PX", 60000)
    nodes[1].call("SET", "foreign", "token", "PX", 60000)
    nodes[2].call("SET", "foreign", "token", "PX", 60000)
    client = agent.client()
    begins(client.acquire("foreign"), "BUSY held by token",
           "another Redlock library's lock excludes the agent")
    equal(lab.as_map(client.call("LEADER", "foreign"))["holder"], "token", "LEADER returns its value")
    for node in nodes:
        node.call("SET", "foreign", "x" * 30000, "PX", 60000)
    holder = lab.as_map(client.call("LEADER", "foreign"))["holder"]
    equal(holder, "x" * 12 + "...", "a long value, which releases the lock, is shown in part")
    for node in nodes:
        node.call("SET", "foreign", "", "PX", 60000)
    leader = lab.as_map(client.call("LEADER", "foreign"))
    ok(leader is not None and leader["holder"] == "" and leader["validity"] > 0,
       "an empty value locks the name, too, and LEADER shows that: %s" % leader)
    watcher = agent.client(3)
    watcher.call("OBSERVE", "foreign")
    equal(watcher.push("leader")[2]["state"], "held", "so does OBSERVE")
    watcher.close()
    for node in nodes:
        node.call("DEL", "foreign")
    for node in nodes:
        node.call("SET", "foreign", "hash")
    leader = lab.as_map(client.call("LEADER", "foreign"))
    equal((leader["holder"], leader["validity"], "type" in leader), ("hash", -1, False),
          "a key without an expiry has validity -1")
    for node in nodes:
        node.call("DEL", "foreign")
        node.call("HSET", "foreign", "field", "value")
    no_lock = {"holder": "", "host": "", "fence": 0, "data": "", "validity": -1, "type": "hash"}
    equal(lab.as_map(client.call("LEADER", "foreign")), no_lock,
          "a key that is not a string has a type and no holder")
    observer = agent.client(3)
    equal(observer.call("LEADER", "foreign"), no_lock, "the same in RESP3")
    observer.call("OBSERVE", "foreign")
    seen = observer.push("leader")[2]
    equal((seen["state"], seen["holder"], seen["type"]), ("held", "", "hash"), "an observer gets the type")
    for node in nodes:
        node.call("SET", "foreign", "hash", "PX", 60000)
    seen = observer.push("leader")[2]
    equal((seen["holder"], "type" in seen), ("hash", False), "and a push when a string replaces the key")
    observer.close()
    for node in nodes:
        node.call("DEL", "foreign")
    grant = client.acquire("foreign")
    lab.wait_for(lambda: lab.keys_on(nodes, "foreign") == 5, what="the key on all nodes")
    equal(nodes[3].call("SET", "foreign", "token", "NX", "PX", 5000), None,
          "the agent's lease excludes the library's lock")
    ok(grant["id"], "the agent acquires the name when the foreign key is deleted")
    client.close()


def test_listings():
    client = agent.client(3)
    before = agent.status()
    client.acquire("listed one")
    client.acquire("listed two", "TTL", 5000)
    lab.wait_for(lambda: agent.status()["grants"] >= before["grants"] + 2, what="each keeper's count")
    leases = {lease["name"]: lease for lease in client.call("LEASES")}
    equal(leases["listed two"]["ttl"], 5000, "LEASES lists the leases")
    equal(leases["listed one"]["state"], "held", "with their state")
    status = client.call("STATUS")
    equal((status["state"], status["nodes"], status["quorum"], status["voting"]), ("ready", 5, 3, 5),
          "STATUS has state, nodes, quorum and voting nodes")
    ok(status["leases"] >= 2 and status["grants"] >= before["grants"] + 2, "STATUS counts leases and grants")
    numbers = [key for key, value in status.items() if isinstance(value, int)]
    equal([key for key in numbers if "\n%s:" % key not in client.call("INFO")], [],
          "INFO has the numbers of STATUS")
    states = [node["state"] for node in client.call("NODES")]
    equal(states, ["voting"] * 5, "NODES lists five voting nodes")
    client.close()


def test_inline_and_pipeline():
    client = agent.client()
    client.send_raw(b"ping\r\nECHO hello\r\n")
    equal([client.reply(), client.reply()], ["PONG", "hello"], "inline requests work")
    names = ["piped %d" % i for i in range(1000)]
    for name in names:
        client.send("ACQUIRE", name)
    grants = [lab.as_map(client.reply()) for _ in names]
    equal([grant["name"] for grant in grants], names,
          "a thousand pipelined requests get replies in order")
    client.close()
    lab.wait_for(lambda: agent.status()["leases"] == 0, what="the end of all leases")
    ok(True, "a disconnect releases all leases")


def test_redis_cli():
    script = "ACQUIRE cli\nCHECK 0\nLEASES\nLEADER cli\nNODES\nSTATUS\nINFO\nQUIT\n"
    done = subprocess.run(["redis-cli", "-s", agent.socket_path], input=script, capture_output=True,
                          text=True, timeout=30)
    ok("validity" in done.stdout and "deadline" in done.stdout, "redis-cli acquires a lease")
    ok("redlockd_version" in done.stdout, "and reads INFO")
    done = subprocess.run(["redis-cli", "-3", "-s", agent.socket_path, "ACQUIRE", "cli3"],
                          capture_output=True, text=True,
                          timeout=30)
    ok('"id"' in done.stdout or "id" in done.stdout, "redis-cli -3 acquires a lease")
    lab.wait_for(lambda: lab.keys_on(nodes, "cli3") == 0, what="the release")
    ok(True, "and its end releases the lease")


def test_redis_py():
    code = ("import redis, sys\n"
            "r = redis.Redis(unix_socket_path=sys.argv[1], client_name='me')\n"
            "assert r.ping()\n"
            "with r.client() as c:\n"
            "    g = c.execute_command('ACQUIRE', 'python'); g = dict(zip(g[::2], g[1::2]))\n"
            "    assert c.execute_command('CHECK', g[b'id']) > 3000\n"
            "    assert c.execute_command('RELEASE', g[b'id']) == 1\n"
            "print('fine')\n")
    done = subprocess.run(["/usr/bin/python3", "-c", code, agent.socket_path], capture_output=True,
                          text=True, timeout=30)
    ok(done.stdout == "fine\n", "redis-py works unchanged")
    for line in done.stderr.splitlines()[-3:]:
        note(line)


def test_async():
    client, holder = agent.client(3), agent.client()
    grant = holder.acquire("async")
    word, identity = client.call("ACQUIRE", "async", "ASYNC", "WAIT", -1)
    equal(word, "waiting", "ASYNC replies at once")
    equal(client.call("PING"), "PONG", "and the session takes other requests")
    holder.call("RELEASE", grant["id"])
    push = client.push("granted")
    equal((push[1], push[2]["id"]), (identity, identity), "the grant is pushed")
    word, second = client.call("ACQUIRE", "async", "ASYNC", "WAIT", 30)
    push = client.push("failed")
    ok(push[1] == second and push[2].startswith("TIMEOUT"), "the end of a wait is pushed too")
    client.close()
    holder.close()


main(test_acquire_check_release, test_busy_and_others, test_data, test_foreign_libraries, test_listings,
     test_inline_and_pipeline, test_redis_cli, test_redis_py, test_async)
