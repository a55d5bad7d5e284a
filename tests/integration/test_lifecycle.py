"""Start, reload and end of the agent."""

import os
import signal
import socket
import subprocess
import types

import lab
from tap import SCALE, begins, equal, main, ok, skip

nodes = lab.nodes(3)


def run(*arguments):
    done = subprocess.run([lab.REDLOCKD, *arguments], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def test_options():
    equal(run("--version")[0], 0, "--version succeeds")
    ok(run("--version")[1].startswith("redlockd "), "and prints the version")
    ok("--check-config" in run("--help")[1], "--help lists the options")
    equal(run("--nonsense")[0], 64, "an unknown option: 64")
    equal(run("--dev=0")[0], 64, "--dev of no nodes: 64")
    equal(run("extra")[0], 64, "an argument: 64")


def test_check_config():
    good = lab.Agent(nodes, start=False)
    equal(run("--check-config", "--config", good.config_path)[0], 0, "a valid configuration: 0")
    bad = lab.path("bad.conf")
    with open(bad, "w") as file:
        file.write('node "a" { address = "unix:/a.sock" }\n'
                   'node "a" { address = "unix:/b.sock" }\n'
                   'default_ttl = "10"\n'
                   'keeper = 2\n'
                   'max_leases = "many"\n')
    status, _, errors = run("--check-config", "--config", bad)
    equal(status, 78, "a configuration with mistakes: 78")
    for line in (2, 3, 4, 5):
        ok("%s:%d: " % (bad, line) in errors, "the mistake in line %d is reported" % line)
    ok("keepers" in errors, "a misspelt option is reported with the correct one")
    equal(run("--config", bad)[0], 78, "the agent does not start with mistakes")
    equal(run("--config", "/nonexistent")[0], 78, "and not without a file")
    os.chmod(good.config_path, 0o640)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", lab.REDLOCKD,
                           "--check-config", "--config", good.config_path], capture_output=True, text=True)
    equal(done.returncode, 71, "a file that this user may not read: 71")
    ok("can't be read: Permission denied" in done.stderr, done.stderr.strip())


def test_missing_accounts():
    """A deleted user must not keep the agent from a restart."""
    rule = 'rule "x" { users = {"no-such-user", "root"} }\nrule "y" { groups = {"no-such-group"} }\n'
    agent = lab.Agent(nodes, rule, start=False)
    equal(run("--check-config", "--config", agent.config_path)[0], 78,
          "a user that does not exist is a mistake")
    agent.start()
    log = agent.log_text()
    ok('warning: users = "no-such-user": does not exist' in log and '"no-such-group"' in log,
       "at a start, a warning: " + log.strip())
    equal([agent.client(3).call("WHOAMI", name)["rule"] for name in "xy"], ["x", ""],
          "the rule is for the others of its list, or for nobody")
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: "has mistakes" in agent.log_text(), what="the refusal of a reload")
    agent.terminate()


def test_unusable_tls_file():
    agent = lab.Agent([types.SimpleNamespace(name="a", address="127.0.0.1:1")], start=False,
                      node_config='tls = yes tls_ca = "/nonexistent"')
    equal(run("--check-config", "--config", agent.config_path)[0], 78,
          "a TLS file that can't be used is a mistake")
    status, _, errors = run("--config", agent.config_path)
    if "built without TLS" in errors:
        skip("the exit status for a TLS file that can't be used", "built without hiredis_ssl")
        return
    equal(status, 71, "but of the host, not of the configuration: another start may succeed: " + errors)


def test_stuck_log():
    """Nobody reads standard error: the agent goes on."""
    agent = lab.Agent(nodes, start=False)
    os.mkfifo(agent.log_path)
    reader = os.open(agent.log_path, os.O_RDONLY | os.O_NONBLOCK)
    agent.start()
    writer = os.open(agent.log_path, os.O_WRONLY | os.O_NONBLOCK)
    client = agent.client()
    grant = client.acquire("logged", "TTL", 3000, "WAIT", 10000)
    try:
        while os.write(writer, b"x" * 512):
            pass
    except BlockingIOError:
        pass
    until = lab.now() + 4
    answers = set()
    while lab.now() < until:
        agent.signal(signal.SIGHUP)
        answers.add(client.call("PING"))
    equal(answers, {"PONG"}, "the agent answers")
    ok(client.call("CHECK", grant["id"]) > 0, "and extends leases")
    os.set_blocking(reader, True)
    text = b""
    while b"messages are missing here" not in text:
        agent.signal(signal.SIGHUP)
        text = text[-8192:] + os.read(reader, 4096)
    ok(True, "the number of missing messages is logged: " + text.decode().split("x")[-1].split("\n")[0])
    os.close(writer)
    agent.kill()
    os.close(reader)
    os.unlink(agent.log_path)


def test_drain():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    other = lab.Agent(nodes, lab.UNHURRIED)
    holder, waiter, old = agent.client(3), agent.client(3), agent.client()
    grant = holder.acquire("drained", "TTL", 6000)
    free = old.acquire("free soon")
    old.call("RELEASE", free["id"])
    waiter.send("ACQUIRE", "drained", "WAIT", -1)
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the waiter")
    agent.signal(signal.SIGTERM)
    equal(holder.push("draining")[0], "draining", "SIGTERM: the clients get draining")
    begins(waiter.reply(), "DRAINING", "a waiter gets DRAINING")
    equal(agent.process.wait(20 * SCALE), 0, "exit status 0")
    equal(lab.keys_on(nodes, "drained"), 3, "the keys of a connected holder stay")
    ok(not os.path.exists(agent.socket_path), "the socket file is removed")
    contender = other.client()
    begins(contender.acquire("drained"), "BUSY", "so other clients get BUSY before the ttl has passed")
    ok(isinstance(contender.acquire("drained", "WAIT", 20000),
                  dict) and lab.now() * 1e9 >= grant["deadline"],
       "and acquire the name afterwards")
    other.terminate()


def test_no_agent_returns():
    """redlock(1): commands that wait go on at the next agent, if one comes within ten seconds."""
    agent = lab.Agent(nodes, lab.UNHURRIED)
    holder = agent.client()
    holder.acquire("waited for", "TTL", 60000)
    waiters = [lab.redlock(agent, "run", "waited for", "--", "true"),
               lab.redlock(agent, "acquire", "--for", str(os.getpid()), "waited for")]
    lab.wait_for(lambda: agent.status()["waiters"] == len(waiters), what="both waiters")
    agent.kill()
    killed = lab.now()
    for waiter in waiters:
        _, errors = waiter.communicate(timeout=30 * SCALE)
        took = lab.now() - killed
        equal(waiter.returncode, 69, "no agent returns: 69 (%s)" % errors.strip())
        ok(9 < took < 10 + 2 * SCALE, "after ten seconds (%.1f s)" % took)


def test_time_passes_without_agent():
    """redlock(1): --wait is an upper bound."""
    agent = lab.Agent(nodes, lab.UNHURRIED)
    holder = agent.client()
    holder.acquire("bounded", "TTL", 60000)
    begun = lab.now()
    wait = min(4 * SCALE, 8)  # less than the ten seconds for which a request is kept
    waiters = [lab.redlock(agent, "run", "-w", "%gs" % wait, "bounded", "--", "true"),
               lab.redlock(agent, "acquire", "-w", "%gs" % wait, "--for", str(os.getpid()), "bounded")]
    lab.wait_for(lambda: agent.status()["waiters"] == len(waiters), what="both waiters")
    agent.kill()
    for waiter in waiters:
        _, errors = waiter.communicate(timeout=30 * SCALE)
        took = lab.now() - begun
        equal(waiter.returncode, 124, "the time passes while there is no agent: 124 (%s)" % errors.strip())
        ok(wait <= took < wait + 2 * SCALE, "at its end (%.1f s)" % took)


def reload(agent):
    before = agent.log_text().count(" applied")
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: agent.log_text().count(" applied") > before, what="the reload")


def test_reload():
    agent = lab.Agent(nodes, 'max_ttl = "30s"\n' + lab.UNHURRIED)
    client = agent.client()
    grant = client.acquire("reloaded", "TTL", 10000)
    begins(client.acquire("x", "TTL", 35000), "BADARG", "a ttl above max_ttl")
    client.acquire("long", "TTL", 30000)
    agent.write_config('max_ttl = "20s"\ndefault_ttl = "9s"\n' + lab.UNHURRIED)
    reload(agent)
    begins(client.acquire("x", "TTL", 25000), "BADARG", "SIGHUP applies a smaller max_ttl")
    ok("id" in client.acquire("x", "TTL", 20000), "a ttl up to the new max_ttl is granted")
    ok("reload: 1 leases and waiting requests have a ttl above max_ttl (20000 ms): these leases are "
       "extended until the agent restarts, and not after that" in agent.log_text(),
       "the log has the leases that a restart would not continue")
    agent.write_config('max_ttl = "thirty"')
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: "has mistakes" in agent.log_text(), what="the refusal")
    ok("max_ttl" in agent.log_text(), "a mistake is logged")
    ok("id" in client.acquire("y", "TTL", 20000), "and the agent keeps its configuration")
    agent.keepers = 5
    agent.write_config('max_ttl = "40s"\n' + lab.UNHURRIED)
    agent.signal(signal.SIGHUP)
    lab.wait_for(lambda: "need a restart: " in agent.log_text(), what="the warning")
    changes = agent.log_text().rsplit("need a restart: ", 1)[1]
    ok("keepers" in changes and "a larger max_ttl" in changes, "changes that need a restart are logged")
    begins(client.acquire("z", "TTL", 35000), "BADARG", "and not applied")
    ok(client.call("CHECK", grant["id"]) > 0, "no lease is lost by a reload")
    agent.terminate()


def test_reload_of_socket():
    """Mode and group change with the file; what somebody else has set stays while the file is the same."""
    agent = lab.Agent(nodes)
    client = agent.client()
    os.chmod(agent.socket_path, 0o600)
    reload(agent)
    equal(os.stat(agent.socket_path).st_mode & 0o777, 0o600, "a reload leaves the socket's mode alone")
    group = 12345 if os.geteuid() == 0 else os.getgid()
    agent.write_config('socket { path = "%s"  mode = "0640"  group = "%d" }' % (agent.socket_path, group))
    reload(agent)
    status = os.stat(agent.socket_path)
    equal((status.st_mode & 0o777, status.st_gid), (0o640, group), "unless it is changed in the file")
    agent.write_config('socket { path = "%s"  mode = "0640" }' % agent.socket_path)
    reload(agent)
    equal(os.stat(agent.socket_path).st_gid, os.getegid(), "without a group in the file it has the agent's")
    equal(client.call("PING"), "PONG", "clients that are connected stay")
    agent.terminate()
    elsewhere = lab.Agent(nodes, 'socket { path = "/nonexistent" }', start=False)
    elsewhere.start("--socket", elsewhere.socket_path)
    reload(elsewhere)
    ok("need a restart" not in elsewhere.log_text(), "a path of --socket is no change of the file")
    elsewhere.terminate()


def resident_kib(agent):
    with open("/proc/%d/status" % agent.process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def test_reload_memory():
    agent = lab.Agent(nodes)
    before = resident_kib(agent)
    for _ in range(4):
        reload(agent)
    grown = resident_kib(agent) - before
    ok(grown < 4096, "reloads leave no memory behind (%d KiB)" % grown)
    agent.terminate()


def words(messages):
    """READY and RELOADING in order, without the other messages."""
    return [line for message in messages for line in message if line in ("READY=1", "RELOADING=1")]


def test_reload_notified():
    manager = lab.Manager()
    agent = lab.Agent(nodes, start=False)
    agent.start(manager=manager)
    if "READY=1" not in words(manager.seen):
        manager.until("READY=1")
    del manager.seen[:]
    reload(agent)
    agent.terminate()
    manager.until("STOPPING=1")
    equal(words(manager.seen), ["RELOADING=1", "READY=1"], "the service manager is notified of a reload")


def test_ready_without_quorum():
    """Unreachable nodes don't delay the boot."""
    manager = lab.Manager()
    absent = [types.SimpleNamespace(name=name, address="unix:/nonexistent/" + name) for name in "abc"]
    agent = lab.Agent(absent, start=False)
    agent.start(manager=manager)
    began = lab.now()
    if not any("READY=1" in message for message in manager.seen):
        manager.until("READY=1")
    ok(manager.sent - began < 3 * SCALE, "ready after a second without a quorum")

    def shown(words):
        return any(words(line) for message in manager.seen for line in message)

    while not shown(lambda line: line.endswith("; a, b, c: No such file or directory")):
        manager.next()
    ok(True, "the status line has the reason, once for all nodes that share it")
    ok(shown(lambda line: "no quorum" in line), "and what it means")
    agent.terminate()


def test_socket():
    agent = lab.Agent(nodes, lab.UNHURRIED)
    equal(os.stat(agent.socket_path).st_mode & 0o777, 0o666, "the socket has the configured mode")
    begun = lab.now()
    status, _, errors = run("--config", agent.config_path)
    ok(status == 69 and "another agent listens" in errors,
       "a second agent on the socket does not start")
    ok(lab.now() - begun > 2, "after two seconds, in which the first one might have ended")
    equal(agent.client().call("PING"), "PONG", "and the first one still serves")
    agent.kill()
    ok(os.path.exists(agent.socket_path), "an agent that was killed leaves its socket file")
    agent.start()
    equal(agent.client().call("PING"), "PONG", "the next agent replaces the file")
    status, _, errors = run("--config", agent.config_path, "--socket", "/nonexistent/dir/sock")
    ok(status == 69 and "/nonexistent/dir/sock" in errors, "a missing directory of the socket is reported")
    first = agent.client().acquire("first")["id"]
    agent.kill()
    agent.start()
    client, other = agent.client(), agent.client()
    second = client.acquire("second")["id"]
    ok(second != first, "the next process has other ids, even without a ledger")
    equal(other.call("CHECK", first), 0, "so an id of the former process is not held")
    for command in ("CHECK", "BEAT", "RELEASE"):
        equal(str(other.call(command, second)), "NOTHELD held by another session",
              "%s by another connection of the user gets NOTHELD" % command)
    ok(client.call("CHECK", second) > 0, "and the lease stays valid")
    os.unlink(agent.socket_path)
    with lab.listener(agent.socket_path) as other:
        agent.terminate()
        ok(os.path.exists(agent.socket_path) and other.fileno() >= 0,
           "another program's socket at the path stays when the agent ends")
        other.accept()[0].close()  # from that agent
        process = lab.spawn([lab.REDLOCKD, "--config", agent.config_path], stderr=subprocess.DEVNULL)
        other.accept()[0].close()
    lab.wait_for(lambda: answers(agent.socket_path), what="the next agent")
    ok(True, "an agent that finds the socket in use waits for the end of the former one")
    process.terminate()
    equal(process.wait(20 * SCALE), 0, "and ends as others do")
    inherited = socket.socket(socket.AF_UNIX)
    inherited_path = agent.socket_path  # as with redlockd.socket: the configured path
    inherited.bind(inherited_path)
    inherited.listen(5)
    process = lab.spawn(["bash", "-c",
                         'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"' % inherited.fileno(),
                         "sh", lab.REDLOCKD, "--config", agent.config_path],
                        pass_fds=[inherited.fileno()], stderr=subprocess.DEVNULL)
    clients = [lab.Client(inherited_path), lab.Client(inherited_path)]
    equal([client.call("PING") for client in clients], ["PONG", "PONG"],
          "an inherited, blocking socket is served (socket activation)")
    process.terminate()
    process.wait()
    ok(os.path.exists(inherited_path), "and stays when the agent ends")


def test_other_files_at_the_path():
    agent = lab.Agent(nodes, start=False)
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    target = lab.path("file")
    with open(target, "w") as file:
        file.write("precious")

    def make_file():
        os.link(target, agent.socket_path)

    def make_datagram_socket():
        datagrams.bind(agent.socket_path)

    for make, what, word in ((make_file, "a file", "no socket"),
                             (lambda: os.symlink(target, agent.socket_path), "a symbolic link", "no socket"),
                             (lambda: os.symlink("/nowhere", agent.socket_path), "a dangling link",
                              "no socket"),
                             (lambda: os.mkfifo(agent.socket_path), "a pipe", "no socket"),
                             (lambda: os.mkdir(agent.socket_path), "a directory", "no socket"),
                             (make_datagram_socket, "a datagram socket", "can't listen")):
        make()
        before = os.lstat(agent.socket_path)
        status, _, errors = run("--config", agent.config_path)
        ok(status == 69 and agent.socket_path in errors and word in errors,
           "%s at the socket's path: the agent does not start, with the reason" % what)
        after = os.lstat(agent.socket_path)
        equal((after.st_ino, after.st_mode), (before.st_ino, before.st_mode), "and the file stays")
        if os.path.isdir(agent.socket_path):
            os.rmdir(agent.socket_path)
        else:
            os.unlink(agent.socket_path)
    datagrams.close()
    with open(target) as file:
        equal(file.read(), "precious", "and the target of a link stays, too")


def test_dev():
    socket_path = lab.path("dev.sock")
    process = lab.spawn([lab.REDLOCKD, "--dev", "--socket", socket_path], stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: answers(socket_path), what="the socket")
    client = lab.Client(socket_path)
    ok("id" in client.acquire("dev", "WAIT", 20000), "--dev works without configuration")
    children = open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split()
    equal(len(children), 3, "on three private servers")
    process.kill()
    process.wait()
    lab.wait_for(lambda: not any(lab.alive(int(child)) for child in children), what="their end")
    ok(True, "which end with the agent, even by kill -9")
    process = lab.spawn([lab.REDLOCKD, "--dev=5", "--socket", socket_path], stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: answers(socket_path), what="the agent")
    children = open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split()
    equal(len(children), 5, "--dev=5 starts five servers")
    process.terminate()
    equal(process.wait(20 * SCALE), 0, "SIGTERM ends the agent")
    ok(not any(lab.alive(int(child)) for child in children), "and its servers")


def test_dev_without_terminal():
    socket_path = lab.path("dev.sock")
    command = [lab.REDLOCKD, "--dev=1", "--socket", socket_path]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup, too
    process = lab.spawn(command, stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: answers(socket_path), what="the agent")
    child = int(open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read())
    process.send_signal(signal.SIGHUP)
    equal(process.wait(20 * SCALE), 0, "SIGHUP, as of a terminal that closes, ends an agent with --dev")
    ok(not lab.alive(child), "and its servers")
    process = lab.spawn(["nohup", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: answers(socket_path), what="the agent")
    process.send_signal(signal.SIGHUP)
    ok(answers(socket_path), "unless nohup(1) started it")
    process.terminate()
    equal(process.wait(20 * SCALE), 0, "then SIGTERM ends it")


def answers(socket_path):
    try:
        return lab.Client(socket_path).call("PING") == "PONG"
    except OSError:
        return False


main(test_options, test_check_config, test_missing_accounts, test_unusable_tls_file, test_stuck_log,
     test_drain, test_no_agent_returns, test_time_passes_without_agent, test_reload,
     test_reload_of_socket, test_reload_memory, test_reload_notified, test_ready_without_quorum,
     test_socket, test_other_files_at_the_path, test_dev, test_dev_without_terminal)
