"""Two users of one agent: what a rule denies, what a quota leaves, who sees whose leases."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess

import lab
from tap import SCALE, begins, equal, main, ok, skip

ALICE, BOB, STAFF = 20001, 20002, 20003
RULES = lab.UNHURRIED + """
max_sessions = 44
max_leases = 100
max_extensions = 1600
rule "deploy/*" { users = {%d}  max_leases = 2  max_waiters = 1  max_ttl = 5s }
rule "deploy/*" { may = {leader} }
rule "closed" { may = {} }
rule "staff" { groups = {%d} }
rule "staff" { may = {} }
rule "shown" { may = {acquire, list} }
rule "private/*" { may = {acquire} }
""" % (ALICE, STAFF)

nodes = lab.nodes(3)
agent = lab.Agent(nodes, RULES)
agent.wait_voting(3)
os.chmod(lab.directory, 0o711)


@contextlib.contextmanager
def user(uid, gid=None):
    os.setegid(gid or uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def client_of(uid, gid=None):
    """The agent gets the user from the kernel."""
    with user(uid, gid):
        return agent.client(3)


def names(client):
    return sorted(lab.as_map(row)["name"] for row in client.call("LEASES"))


def test_rules():
    alice, bob, root = client_of(ALICE), client_of(BOB), agent.client(3)
    ok("id" in alice.acquire("deploy/a"), "the rule for Alice allows her to acquire")
    denied = bob.call("ACQUIRE", "deploy/b")
    begins(denied, 'DENIED rule "deploy/*" (line ', "the next one, for all others, does not")
    ok("does not allow 'acquire' to user %d" % BOB in str(denied), "the denial has the right and the user")
    equal(lab.as_map(bob.call("LEADER", "deploy/a"))["holder"].split(":")[0], os.uname().nodename,
          "Bob may ask who has it")
    begins(alice.call("ACQUIRE", "deploy/c", "TTL", 6000), 'DENIED rule "deploy/*"', "a rule's max_ttl")
    begins(bob.call("OBSERVE", "closed"), 'DENIED rule "closed"', "an empty may")
    begins(bob.call("BLESS", "a"), "DENIED no rule allows 'bless'", "the default")
    grant = root.acquire("closed")
    ok("id" in grant, "root may do everything")
    root.call("RELEASE", grant["id"])
    begins(bob.call("ACQUIRE", "staff"), 'DENIED rule "staff"', "a user outside the group may not acquire")
    staff = client_of(BOB, STAFF)
    ok("id" in staff.acquire("staff"), "a member of the group may acquire")
    for client in (alice, bob, root, staff):
        client.close()


def test_limits_of_rule():
    alice, other, root = client_of(ALICE), client_of(ALICE), agent.client(3)
    held = root.acquire("deploy/root")
    ok("id" in alice.acquire("deploy/1") and "id" in other.acquire("deploy/2"), "two leases under the rule")
    begins(alice.call("ACQUIRE", "deploy/3"), "QUOTA rule", "a third one")
    equal(alice.call("ACQUIRE", "deploy/root", "WAIT", 60000, "ASYNC")[0], "waiting", "one waiter")
    begins(other.call("ACQUIRE", "deploy/root", "WAIT", 60000), "QUOTA rule", "a second one")
    root.call("RELEASE", held["id"])
    begins(alice.push("failed")[2], 'QUOTA rule "deploy/*" (line ', "whose turn comes with two leases held")
    lag_s = re.search(r'^redlock_loop_lag_seconds_sum{thread="front"} (\S+)$', root.call("METRICS"), re.M)[1]
    ok(float(lag_s) < 10 * SCALE, "in time: the front's timer was late by %s s in all" % lag_s)
    for client in (alice, other, root):
        client.close()


def wait_alone():
    """Until the sessions of the test before have ended, with their leases."""
    def is_alone():
        status = agent.status()
        return status["sessions"] == 1 and status["leases"] == 0
    lab.wait_for(is_alone, what="the end of the sessions and leases of before")


def test_lists():
    wait_alone()
    alice, bob, root = client_of(ALICE), client_of(BOB), agent.client(3)
    for name in ("mine", "shown"):
        assert "id" in alice.acquire(name)
    equal(names(alice), ["mine", "shown"], "Alice sees her leases")
    equal(names(bob), ["shown"], "Bob those of a name with the right")
    ok({"mine", "shown"} <= set(names(root)), "root all")
    for client in (alice, bob, root):
        client.close()


def test_nothing_of_others():
    """Alice holds private/a, with data, and another session of hers waits. What Bob gets has none of it."""
    alice, waiter, bob, root = client_of(ALICE), client_of(ALICE), client_of(BOB), agent.client(3)
    before = {word: shown(bob, *word.split()) for word in ("STATUS", "INFO", "NODES", "METRICS")}
    grant = alice.acquire("private/a", "DATA", "my-secret-data")
    waiter.call("ACQUIRE", "private/a", "WAIT", 60000, "ASYNC")
    secrets = ["my-secret-data", "private/a", str(os.getpid()), str(ALICE), str(grant["fence"])]
    for request in ("STATUS", "INFO", "NODES", "METRICS", "LEASES", "LEASES LATEST 64", "HISTORY private/a",
                    "LEADER private/a", "OBSERVE private/a", "ACQUIRE private/a", "WHOAMI private/a",
                    "ACQUIRE private/a WAIT 50", "CHECK %d" % grant["id"], "BEAT %d" % grant["id"],
                    "RELEASE %d" % grant["id"], "HISTORY private/a", "CLIENT GETNAME", "COMMAND"):
        text = shown(bob, *request.split())
        own = "%s %s %d" % (before.get(request, ""), request, lab.as_map(bob.call("WHOAMI"))["pid"])
        equal([secret for secret in secrets if has_word(text, secret) and not has_word(own, secret)], [],
              "%s shows nothing of hers" % request)
    begins(bob.call("ACQUIRE", "private/a"), "BUSY held; the right 'leader' shows the holder",
           "that the name is held he learns")
    ok("held by process" in str(waiter.call("ACQUIRE", "private/a")), "she sees her own process")
    text = shown(root, "LEADER", "private/a") + shown(root, "LEASES", "LATEST", "64")
    ok("my-secret-data" in text and str(ALICE) in text, "root sees all")
    equal(alice.call("CHECK", grant["id"]) > 0, True, "and she holds it still")
    for client in (alice, waiter, bob, root):
        client.close()


def test_waiting_command():
    """Bob may wait for a name whose holder he may not see."""
    alice = client_of(ALICE)
    assert "id" in alice.acquire("private/a")
    process = lab.spawn(["setpriv", "--reuid=%d" % BOB, "--regid=%d" % BOB, "--clear-groups", lab.REDLOCK,
                         "--socket", agent.socket_path, "run", "private/a", "true"], text=True,
                        stderr=subprocess.PIPE)
    equal(process.stderr.readline(),
          "redlock: private/a: waiting: the right 'leader' shows the reason\n",
          "the line after two seconds is no denial of the request")
    alice.close()
    equal(process.wait(20 * SCALE), 0, "and the command runs when its turn comes")


def has_word(text, word):
    """A number that is a part of another one says nothing."""
    return re.search(r"(?<!\d)(?<!\d\.)%s(?!\.?\d)" % re.escape(word), text)


def shown(client, *request):
    return str(client.call(*request))


def quota_rejections(client):
    found = re.search(r'^redlock_rejections_total{word="QUOTA"} (\d+)$', client.call("METRICS"), re.M)
    return int(found.group(1))


def test_quotas():
    wait_alone()
    alice, bob = client_of(ALICE), client_of(BOB)
    sessions = [client_of(ALICE) for _ in range(18)]
    rejections = quota_rejections(bob)
    with user(ALICE):
        over = agent.client()
    begins(over.read(), "QUOTA max_sessions: user %d has " % ALICE, "a session too many, with use and limit")
    ok("connection rejected: max_sessions: user %d has " % ALICE in agent.log_text(),
       "and a line in the log")
    equal(quota_rejections(bob), rejections + 1, "METRICS counts the rejection")
    ok("id" in bob.acquire("bob's"), "Bob is served")
    more = client_of(BOB)
    ok("id" in more.acquire("bob's second"), "and gets another session")
    refused = [reply for reply in (alice.call("ACQUIRE", "short %d" % i, "TTL", 4000) for i in range(24))
               if isinstance(reply, Exception)]
    begins(refused[0], "QUOTA max_extensions: user %d has 760 of at most " % ALICE,
           "a limit of extensions, beside that of leases")
    equal(len(refused), 5, "40 a minute for each lease: five are too many")
    equal([begun.call("PING") for begun in sessions], ["PONG"] * 18, "no session of hers ended")
    who = lab.as_map(alice.call("WHOAMI", "deploy/x"))
    equal((who["uid"], who["rule"], who["max_leases"]), (ALICE, "deploy/*", 2),
          "WHOAMI has user, rule and limit")
    equal(who["default_ttl"], 5000, "WHOAMI has the default ttl as the rule's max_ttl bounds it")
    equal(lab.as_map(lab.as_map(who["quota"])["max_extensions"])["use"], 760,
          "WHOAMI has the use of the quota")
    quotas = lab.as_map(lab.as_map(alice.call("STATUS"))["quota"])
    mine = lab.as_map(quotas["max_leases"])
    equal((mine["use"], mine["all"], mine["max"]), (19, 21, 100), "STATUS has use, that of all, limit")
    status, out, _ = lab.redlock_run(agent, "status")
    ok("quota              max_leases: 0 of 79; all users: 21 of 100\n" in out, "so does redlock status")
    ok("user               uid: %d, max_sessions: 19, max_leases: 19, max_extensions: 760, " % ALICE in out,
       "which shows root each user")
    for client in (alice, bob, more, *sessions):
        client.close()


def test_many_uids():
    """A user with subordinate uids is many users, but can't keep root from connecting."""
    wait_alone()
    root = agent.client()
    equal(root.call("PING"), "PONG", "root is there")
    crowd = []
    while not crowd or crowd[-1].call("PING") == "PONG":
        with user(30000 + len(crowd)):
            crowd.append(agent.client())
    equal(len(crowd), 39, "of 44 sessions, uids with one each get no more than 40 with root's")
    more = [agent.client() for _ in range(4)]
    equal([client.call("PING") for client in more], ["PONG"] * 4, "root gets the others")
    for client in (root, *crowd, *more):
        client.close()


def test_descriptors():
    """A low limit of descriptors is shared like max_sessions, which is above it."""
    if not shutil.which("prlimit"):
        skip("a share of the descriptors", "no prlimit here")
        return
    few = lab.Agent(lab.nodes(1), prefix=["prlimit", "--nofile=256"])
    os.chmod(few.socket_path, 0o666)
    root, hers, rejected = few.client(3), [], []
    while not hers or hers[-1].call("PING") == "PONG":
        with user(ALICE):
            hers.append(few.client())
    with user(ALICE):
        over = few.client()
        rejected = [few.client() for _ in range(256)]  # do not read
    begins(over.read(), "QUOTA descriptors: user %d has " % ALICE, "a user can't take all descriptors")
    ok("connection rejected: descriptors: user %d has " % ALICE in few.log_text(), "and a line in the log")
    with user(BOB):
        other = few.client()
    ok("id" in other.acquire("beside her", "TTL", 60000), "another user connects and is served")
    ok("Too many open files" not in few.log_text(), "also beside connections that read no rejection")
    status = lab.as_map(root.call("STATUS"))
    shown = lab.as_map(lab.as_map(status["quota"])["descriptors"])
    equal(shown["all"], 3 * status["sessions"], "STATUS counts three of each session")
    ok(shown["all"] < shown["max"] < 256,
       "and the process has more (%d of %d)" % (shown["all"], shown["max"]))
    for client in (root, other, *hers, *rejected):
        client.close()
    few.terminate()


def test_queries_of_ended_sessions():
    """32 queries of a user are under way, also of one that ends its sessions before the answers."""
    node = lab.nodes(1)
    queried = lab.Agent(node, "node_timeout = 4900ms  max_work = 1000M")
    os.chmod(queried.socket_path, 0o666)
    root = queried.client(3)

    def under_way():
        """Alice's: the others ask for nothing."""
        return lab.as_map(lab.as_map(lab.as_map(root.call("STATUS"))["quota"])["requests"])["all"]

    def wait_sessions(count):
        lab.wait_for(lambda: lab.as_map(root.call("STATUS"))["sessions"] == count, what="the sessions' end")

    def a_round():
        """A node counts as silent after a second: until then the queries wait. None: it took too long."""
        with user(ALICE):
            first, askers = [queried.client() for _ in range(32)], [queried.client() for _ in range(8)]
        begun = lab.now()

        def late():
            return lab.now() - begun > 0.8
        node[0].stop()
        for asker in first:
            asker.send("LEADER", "nobody's")
        lab.wait_for(lambda: under_way() == 32 or late(), what="as many queries of hers as may be")
        for asker in first:
            asker.close()
        wait_sessions(9)
        ended = under_way()
        for asker in askers:
            asker.send("LEADER", "nobody's")
        early = select.select([asker.socket for asker in askers], [], [], 0.1)[0]
        further = under_way()
        node[0].cont()
        in_time = not late()
        replies = [asker.reply() for asker in askers]
        for asker in askers:
            asker.close()
        wait_sessions(1)
        return (ended, early, further, replies) if in_time else None

    ended, early, further, replies = lab.wait_for(a_round, 60, "a round within a second")
    equal(ended, 32, "the queries of sessions that have ended are still at the node, and count")
    ok(not early and further == 32, "further ones wait")
    equal(replies, [None] * 8, "until the node has answered: then they are sent")
    equal(under_way(), 0, "and none is left")
    root.close()
    queried.terminate()


def test_many_users():
    """Root sees the use of each: METRICS is larger than the usual reply."""
    many = lab.Agent(lab.nodes(1))
    os.chmod(many.socket_path, 0o666)
    sessions = []
    for i in range(200):
        with user(100000 + i):
            sessions.append(many.client())
        assert sessions[-1].call("PING") == "PONG"
    status, out, errors = lab.redlock_run(many, "metrics")
    equal((status, errors), (0, ""), "redlock metrics with 200 users")
    ok(len(out) > 65536 and out.endswith("# EOF\n"), "has all of it (%d bytes)" % len(out))
    for client in sessions:
        client.close()
    many.terminate()


def test_observed_names():
    """4,096 names in all, 1,024 a session: a user alone may have half, the next one half of the rest."""
    refusal = "QUOTA max_observed_names: user %d has %d of at most "
    wait_alone()
    alices, bobs = ([client_of(uid) for _ in range(3)] for uid in (ALICE, BOB))

    def observe(client, count):
        names = ["%d-%d" % (id(client), i) for i in range(count)]
        return sum(not isinstance(client.call("OBSERVE", name), Exception) for name in names)

    equal([observe(client, 1024) for client in (alices[0], alices[1], bobs[0])], [1024, 1024, 1024],
          "Alice observes 2,048 names, Bob 1,024")
    begins(alices[2].call("OBSERVE", "hers"), refusal % (ALICE, 2048), "Alice may have no more")
    begins(bobs[1].call("OBSERVE", "his"), refusal % (BOB, 1024), "nor may Bob")
    name = "%d-0" % id(alices[0])
    ok(not isinstance(bobs[1].call("OBSERVE", name), Exception), "a name that Alice has costs him none")
    equal(alices[0].call("UNOBSERVE", "%d-1" % id(alices[0])), 1, "Alice ends one")
    begins(alices[2].call("OBSERVE", "hers"), refusal % (ALICE, 2047) + "1536",
           "half of what Bob leaves is less than she has")
    quotas = lab.as_map(lab.as_map(bobs[0].call("STATUS"))["quota"])
    equal(lab.as_map(quotas["max_observed_names"])["all"], 3071, "STATUS has the names of all")
    for client in (*alices, *bobs):
        client.close()


def test_whoami():
    lab.wait_for(lambda: "max_leases: 0 of 100\n" in lab.redlock_run(agent, "whoami")[1],
                 what="the release of the leases of before")
    status, out, _ = lab.redlock_run(agent, "whoami", "closed")
    rows = dict(line.split(None, 1) for line in out.splitlines() if len(line.split(None, 1)) == 2)
    equal((status, rows["uid"], rows["rule"]), (0, "0", "closed"), "redlock whoami NAME: user and rule")
    equal((rows["max_hold"], rows["max_leases"], rows["max_waiters"], rows["leases"]),
          ("none", "none", "none", "0"), "and that there is no limit")
    ok("acquire" in rows["may"].split() and "bless" in rows["may"].split(), "what it allows: " + rows["may"])
    ok("quota              max_leases: 0 of 100\n" in out, "and the quotas, each with its limit")
    shown = json.loads(lab.redlock_run(agent, "whoami", "--json", "deploy/x")[1])
    equal((shown["rule"], shown["max_leases"]), ("deploy/*", 0), "the same as JSON")
    equal(lab.redlock_run(agent, "whoami")[0], 0, "without a name")
    status, _, errors = lab.redlock_run(agent, "whoami", "redlockd:x")
    ok(status == 64 and "redlockd:" in errors, "a name that can't be one: %s" % errors.strip())


def reload(config):
    before = agent.log_text().count(" applied")
    agent.write_config(config)
    agent.process.send_signal(signal.SIGHUP)
    lab.wait_for(lambda: agent.log_text().count(" applied") > before, what="the reload")


def test_counts_after_reload():
    """Another user in a rule, and another place for it: the leases of before still count under it."""
    wait_alone()
    alice, waiter = client_of(ALICE), client_of(ALICE)
    for name in "deploy/a", "deploy/b":
        alice.acquire(name)
    waiter.call("ACQUIRE", "deploy/a", "WAIT", -1, "ASYNC")
    for what, config in (("another user", RULES.replace("{%d}" % ALICE, "{%d, %d}" % (ALICE, BOB))),
                         ("a rule before it", 'rule "other" { may = {} }\n' + RULES),
                         ("as it was", RULES)):
        reload(config)
        begins(alice.call("ACQUIRE", "deploy/c"), 'QUOTA rule "deploy/*"', what + ": the leases count")
        begins(alice.call("ACQUIRE", "deploy/b", "WAIT", -1, "ASYNC"), 'QUOTA rule "deploy/*"',
               what + ": and the waiter")
        who = lab.as_map(alice.call("WHOAMI", "deploy/x"))
        equal((who["leases"], who["waiters"]), (2, 1), what + ": WHOAMI shows both")
    for client in (waiter, alice):
        client.close()


def test_reload():
    wait_alone()
    alice, bob = client_of(ALICE), client_of(BOB)
    held = alice.acquire("deploy/held")
    alice.call("OBSERVE", "deploy/held")
    equal(lab.as_map(alice.push("leader")[2])["state"], "held", "Alice observes it")
    changed = RULES.replace("users = {%d}" % ALICE, "users = {%d}" % BOB)
    reload(changed.replace("max_extensions = 1600", "max_extensions = 3200"))
    ok("id" in bob.acquire("deploy/new"), "the new rules count for Bob")
    begins(alice.call("ACQUIRE", "deploy/other"), "DENIED rule", "sessions of before have the new rules")
    ok(alice.call("CHECK", held["id"]) > 0, "a lease of before goes on")
    equal(lab.as_map(lab.as_map(lab.as_map(alice.call("STATUS"))["quota"])["max_extensions"])["max"], 3200,
          "max_extensions has its new value")
    equal(lab.as_map(alice.push("leader")[2])["state"], "unknown", "an observation without the right ends")
    for client in (alice, bob):
        client.close()


def test_groups_after_reload():
    """The groups of a client are read when a rule needs them."""
    reload(RULES.replace("groups", "users"))
    os.setgroups([STAFF])
    member = client_of(BOB)
    os.setgroups([])
    begins(member.call("ACQUIRE", "staff"), 'DENIED rule "staff"', "no rule has groups")
    reload(RULES)
    ok("id" in member.acquire("staff"), "a reload brings one: the groups of a session of before count")
    member.close()


def test_right_taken_and_given_back():
    alice, root = client_of(ALICE), agent.client(3)
    reload(RULES)
    equal(alice.call("OBSERVE", "deploy/other"), 1, "the first rules allow Alice to observe")
    watch = lab.spawn(["setpriv", "--reuid=%d" % ALICE, "--clear-groups", lab.REDLOCK, "--socket",
                       agent.socket_path, "watch", "--json", "deploy/seen"], stdout=subprocess.PIPE,
                      text=True)

    def state():
        readable, _, _ = select.select([watch.stdout], [], [], 10 * lab.SCALE)
        return json.loads(watch.stdout.readline())["state"] if readable else "no line"

    equal(state(), "free", "redlock watch of Alice")
    reload(RULES.replace("users = {%d}" % ALICE, "users = {%d}" % BOB))
    equal(state(), "unknown", "a reload takes the right")
    reload(RULES)
    equal(state(), "free", "once she has it again, the library observes again")
    root.acquire("deploy/seen")
    equal(state(), "held", "and she gets the next change")
    lab.end_process(watch)
    for client in (alice, root):
        client.close()


if os.getuid() == 0:
    main(test_rules, test_limits_of_rule, test_nothing_of_others, test_waiting_command, test_lists,
         test_quotas, test_many_uids, test_descriptors, test_queries_of_ended_sessions, test_many_users,
         test_observed_names, test_whoami,
         test_counts_after_reload, test_reload, test_groups_after_reload, test_right_taken_and_given_back)
else:
    skip("rights of users", "only root can become other users")
    main()
