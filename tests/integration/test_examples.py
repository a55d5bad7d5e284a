"""The examples of the manual pages and of the README, run literally, with a real agent."""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import lab
import pages
from pages import example, not_run
from tap import begins, equal, main, note, ok, skip

HOST = socket.gethostname()
MACHINE = "needs a systemd: tests/systemd/test_examples.py"
nodes = lab.nodes(3)
agent = lab.Agent(nodes, 'default_ttl = "%dms"\nnode_timeout = "2s"\nhost = "%s"\n' %
                  (5000 * lab.SCALE, HOST))

# Programs that examples call are replaced by scripts in this directory, which record their arguments.
BIN = lab.path("bin")
HOME = lab.path("home")
CALLS = lab.path("calls")
RECORD = '#!/bin/sh\necho "${0##*/}" "$@" >>"%s"\n' % CALLS

# Unlike on a host where everything is installed.
PLACES = {
    "/run/redlockd/redlockd.sock": agent.socket_path,
    "/tmp/redlockd.sock": lab.path("dev.sock"),
    "/usr/local/bin/": BIN + "/",
}


def program(name, text=""):
    """A program that an example calls, and what it does besides."""
    with open(os.path.join(BIN, name), "w") as file:
        file.write(RECORD + text)
    os.chmod(file.name, 0o755)


def calls():
    try:
        with open(CALLS) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def environment():
    commands = [os.path.abspath(os.path.dirname(path)) for path in (lab.REDLOCK, lab.REDLOCKD)]
    return dict(os.environ, REDLOCK_SOCKET=agent.socket_path, LC_ALL="C.UTF-8", PATH=":".join(
        [BIN, *commands, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]))


def placed(text):
    """The example with the paths of this test, without the commands that ran before."""
    if os.path.exists(CALLS):
        os.remove(CALLS)
    for path, here in PLACES.items():
        text = text.replace(path, here)
    return text


def start(text, shell=("sh", "-c"), **options):
    options = dict({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
                    "env": environment()}, **options)
    process = lab.spawn([*shell, placed(text)], text=True, cwd=HOME, start_new_session=True, **options)
    lab._ends.append(lambda: end_group(process))
    return process


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(text, want=0, **options):
    """To its end: standard output."""
    process = start(text, **options)
    out, err = process.communicate(timeout=20 * lab.SCALE)
    if not ok(process.returncode == want, "exit status %d: %s" % (want, first_line(text))):
        note("got %d, %s%s" % (process.returncode, out, err))
    return out


def interrupt(process, name="redlock"):
    """SIGTERM to the redlock of this shell alone, as from a service manager or a person."""
    def found():
        for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):  # not a child of its own
            try:
                with open("/proc/%s/comm" % pid) as file:
                    if file.read() == name + "\n" and os.getpgid(int(pid)) == process.pid:
                        return int(pid)
            except OSError:
                pass
        return None

    os.kill(lab.wait_for(found, what=name), signal.SIGTERM)
    return process.wait(20 * lab.SCALE)


def has_lease(name, state):
    client = agent.client(3)
    try:
        return any(lease["name"] == name and lease["state"] == state for lease in client.call("LEASES"))
    finally:
        client.close()


def is_held(name):
    return has_lease(name, "held")


def hold(name):
    """A connection that has this lease."""
    client = agent.client()
    lab.wait_for(lambda: isinstance(client.acquire(name), dict), what="a lease for " + name)
    return client


def wait_held(name):
    lab.wait_for(lambda: is_held(name), what="the lease " + name)


def wait_waiting(name):
    lab.wait_for(lambda: has_lease(name, "waiting"), what="a waiter for " + name)


def first_line(text):
    return text.split("\n")[0]


# --- redlock(1) ---


@example("redlock.1", "redlock run -n nightly-backup")
def backup(text):
    program("backup", "redlock check nightly-backup && exit 7\n")
    run(text, want=7)
    equal(calls(), ["backup --full"], "the command runs under the lease")
    holder = hold("nightly-backup")
    run(text, want=1)
    equal(calls(), [], "and not when another holder has it")
    holder.close()


def once(name, command, *, lost, env=None):
    """One host runs the job, and a second one, whose clock is behind, does not, without a message."""
    program(name)
    run(command, env=env or environment())
    equal(calls(), [name], "it runs")
    process = start(command, env=env or environment())
    out, err = process.communicate(timeout=20 * lab.SCALE)
    equal((process.returncode, out, calls()), (lost, "", []), "and not again, though the command has ended")
    for node in nodes:
        node.call("DEL", name)  # the interval is over
    return err


@example("redlock.1", "0 3 * * *")
def cron_of_the_page(text):
    equal(once("nightly", text.split(None, 6)[6], lost=1), "", "without a message")


@example("redlock.1", "ExecStart=")
def timer_service(text):
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    once("report", settings["ExecStart"], lost=int(settings["SuccessExitStatus"]))
    verify("once.service", text)


@example("redlock.1", "OnCalendar=")
def timer(text):
    verify("once.timer", text)


def verify(unit, text):
    """As systemd reads it. A timer or a socket needs its service beside it."""
    directory = lab.path("units")
    os.makedirs(directory, exist_ok=True)
    service = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
    for name, content in (os.path.splitext(unit)[0] + ".service", service), (unit, placed(text)):
        with open(os.path.join(directory, name), "w") as file:
            file.write(content.replace("ExecStart=redlock", "ExecStart=" + os.path.abspath(lab.REDLOCK)))
    if not shutil.which("systemd-analyze"):
        skip(unit, "there is no systemd-analyze")
        return
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                           os.path.join(directory, unit)], capture_output=True, text=True)
    equal((said.returncode, said.stderr), (0, ""), "systemd accepts %s" % unit)


@example("redlock.1", "redlock run -w 30 reports")
def reports(text):
    program("generate", "echo a report\n")
    program("mail", "cat >>'%s'\n" % CALLS)
    holder = hold("reports")
    process = start(text)
    wait_waiting("reports")
    holder.close()
    equal(process.wait(20 * lab.SCALE), 0,
          "the command waits until the lease is free: %s" % first_line(text))
    equal(sorted(calls()), ["a report", "generate", "mail -s Reports team"], "and the pipeline works")


@example("redlock.1", "redlock acquire --for")
def deploy(text):
    process = start(text + "redlock check deploy >&2; echo $?; exec sleep 60")
    printed = process.stdout.readline()
    ok(re.fullmatch(r"\d+ \d+ \d+\n", printed),
       "acquire prints the id, the token and the holder's process: %s" % printed.rstrip())
    equal(process.stdout.readline(), "0\n", "the rest of the script runs under the lease")
    for node in nodes:
        node.call("SET", "deploy", "another's")
    equal(process.wait(20 * lab.SCALE), -signal.SIGTERM, "and ends when the lease is lost")
    for node in nodes:
        node.call("DEL", "deploy")
    holder = hold("deploy")
    process = start(text.replace("acquire", "acquire -n") + "echo not reached")
    equal((process.communicate(timeout=20 * lab.SCALE)[0], process.returncode), ("", 1),
          "without the lease the script ends there")
    holder.close()


@example("redlock.1", "redlock run upload")
def upload(text):
    program("curl")
    run(text)
    said = re.fullmatch(r"curl -H Fence: (\d+) -T report https://storage.example/", "\n".join(calls()))
    ok(said and int(said.group(1)) > 1e15, "the storage gets a token (%s)" % calls())


@example("redlock.1", "redlock run --data")
def publish(text):
    with open(os.path.join(HOME, "scheduler"), "w") as file:
        file.write(RECORD + "exec sleep 60\n")
    os.chmod(file.name, 0o755)
    publish.running = start(text)
    wait_held("scheduler")
    ok(publish.running.poll() is None, "the command runs: %s" % first_line(text))


@example("redlock.1", "redlock leader --json scheduler")
def ask(text):
    leader = json.loads(run(text))
    equal((leader["data"], leader["host"]), (HOST + ":8080", HOST),
          "and others can query where: %s" % leader)
    interrupt(publish.running)


@example("redlock.1", "redlock watch --json scheduler")
def watch(text):
    program("notify")
    lab.wait_gone(nodes, "scheduler")  # of the example before
    process = start(text)

    def printed():
        return [json.loads(line.split(" ", 1)[1])["state"] for line in calls()]

    lab.wait_for(lambda: printed() == ["free"], what="the present leader")
    holder = hold("scheduler")
    lab.wait_for(lambda: printed() == ["free", "held"], what="a change")
    holder.close()
    lab.wait_for(lambda: printed() == ["free", "held", "free"], what="another")
    equal(interrupt(process), 0, "each change is printed: %s" % first_line(text))


@example("redlock.1", "192.0.2.7/24")
def floating_address(text):
    unshare, link = ["unshare", "--net", "sh", "-c"], "ip link add eth0 type veth peer name eth1"
    if subprocess.run([*unshare, link], capture_output=True).returncode != 0:
        skip("a floating address", "a network of its own needs root, unshare and ip")
        return
    process = start(link + " && " + text, shell=unshare)
    command = ["nsenter", "--net=/proc/%d/ns/net" % process.pid, "ip", "-o", "addr", "show", "dev", "eth0"]

    def has_address():
        return "192.0.2.7/24" in subprocess.run(command, capture_output=True, text=True).stdout

    lab.wait_for(has_address, what="the address")
    ok(is_held("floating-ip"), "the leader has the address: %s" % first_line(text))
    for node in nodes:
        node.call("SET", "floating-ip", "another's")
    lab.wait_for(lambda: not has_address(), what="its end")
    ok(True, "until the lease is lost")
    equal(interrupt(process), 0, "exit status 0")
    for node in nodes:
        node.call("DEL", "floating-ip")


@example("redlock.1", "redlock check; redlock nodes")
def why(text):
    agent.wait_voting(3)
    said = run(text)
    ok(said.count("voting") >= 3, "the nodes are shown: %s" % said.splitlines()[-1])


@example("redlock.1", "redlock history nightly")
def history(text):
    run("redlock run nightly -- true")
    said = run(text)
    ok("granted" in said and "released" in said,
       "the events of the name are shown: %s" % said.splitlines()[-2:])


@example("redlock.1", "redlock top --count 60 >top.txt")
def top(text):
    run(text.replace("60", "1"))
    with open(os.path.join(HOME, "top.txt")) as file:
        said = file.read()
    ok(said.startswith("redlockd ") and "\ngrants " in said, "a block a second: %s" % said.splitlines()[0])


# --- redlockd(8), redlockd.conf(5) ---


def complaints(text):
    """The mistakes that redlockd reports in this configuration: exit status, messages."""
    path = write("redlockd.conf", text)
    done = subprocess.run([lab.REDLOCKD, "--check-config", "--config", path], capture_output=True, text=True)
    return done.returncode, done.stderr.replace(path, "/etc/redlockd.conf")


def check_config(text, want=0):
    status, said = complaints(text)
    if not ok(status == want, "redlockd --check-config: %d" % want):
        note(said)
    return said


not_run("redlockd.8", "systemd-sysusers\n", MACHINE)
not_run("redlockd.8", "REDLOCK_EVENT=lease-lost", MACHINE)
not_run("redlockd.8", "IPAddressDeny=", "needs a systemd: tests/systemd/test_units.py")
not_run("redlockd.8", "bpftrace", "needs a kernel that permits it: tests/integration/test_probes.py")
not_run("redlockd.8", "systemctl enable --now redlockd.socket", MACHINE)
not_run("redlockd.8", "redlockd --check-config && systemctl", MACHINE)


@example("redlockd.8", "redlockd --dev")
def try_it(text):
    try_it.running = start(text, stderr=subprocess.DEVNULL)
    until = PLACES["/tmp/redlockd.sock"]
    lab.wait_for(lambda: subprocess.run([lab.REDLOCK, "--socket", until, "check"],
                                        capture_output=True).returncode == 0, what="a quorum")
    ok(True, "with nodes of its own the agent has a quorum: %s" % first_line(text))


@example("redlockd.8", "redis-cli -3")
def ask_with_redis_cli(text):
    said = run(text)
    ok("backup" in said and "fence" in said, "a Redis client gets a lease: %s" % said.split("\n")[0])
    equal(interrupt(try_it.running, "redlockd"), 0, "and the agent exits with 0")


not_run("redlockd.conf.5", "ACL SETUSER", "test_acl.py has an agent with just these rights")


not_run("redlockd.conf.5", "ListenStream=/run/redlockd/other.sock", MACHINE)


@example("redlockd.conf.5", 'groups = {"web"}')
def three_nodes(text):
    check_config(text.replace('groups = {"web"}', 'groups = {"0"}'))
    said = check_config(text, want=78)
    ok(said.count("\n") == 1 and "web" in said, "the group must exist: %s" % said.strip())


@example("redlockd.conf.5", 'tls_key = "/etc/redlockd/agent.key"')
def tls_node(text):
    for name in ("ca.pem", "agent.pem", "agent.key"):
        text = text.replace("/etc/redlockd/" + name, at(name))
    if not shutil.which("openssl"):
        skip("a node that speaks TLS", "openssl is not installed; tests/setup installs it")
        return
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-subj", "/CN=agent", "-keyout", at("agent.key"), "-out", at("agent.pem")],
                   check=True, capture_output=True)
    shutil.copy(at("agent.pem"), at("ca.pem"))
    status, said = complaints(text)
    if "built without TLS" in said:
        equal((status, said.count("\n")), (78, 1), "the lack of TLS in this build is the only mistake")
    else:
        check_config(text)


def at(name):
    return os.path.join(HOME, name)


def write(name, text):
    with open(at(name), "w") as file:
        file.write(text)
    return at(name)


not_run("redlockd.conf.5", "redlockd --check-config\n", "the next page has the credential's text")


@example("redlockd.conf.5", "'default_tll'")
def diagnostics(text):
    nodes_config = "".join('node "%s" { address = "%s" }\n' % (name, name) for name in "abc")
    equal(check_config(nodes_config + 'default_tll = "5s"\nkeepers = "17"\n', want=78), text,
          "these mistakes are reported as on the page")


# --- libredlock(3) and its pages ---


def compile_c(text):
    """Compiles as plain C11, with the warnings and the sanitizer of our own sources; the program's path."""
    with open(os.path.join(lab.BUILD, "compile_commands.json")) as file:
        command = next(shlex.split(entry["command"]) for entry in json.load(file)
                       if entry["file"].endswith("tests/integration/library.c"))
    flags = [word for word in command if re.match(r"-[Wf]|-O", word)]
    compiler = list(itertools.takewhile(lambda word: not word.startswith("-"), command))  # or ccache gcc
    path, output = write("example.c", text), lab.path("example")
    library = os.path.abspath(os.path.join(lab.BUILD, "client-lib"))
    done = subprocess.run(
        [*compiler, *flags, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wextra", "-Wpedantic", "-Werror",
         "-I" + os.path.join(pages.SOURCE, "client-lib"), path, "-o", output,
         "-L" + library, "-lredlock", "-Wl,-rpath," + library], capture_output=True, text=True)
    if not ok(done.returncode == 0 and not done.stderr, "it compiles without a warning"):
        note(done.stderr)
    return output


@example("libredlock.3", '"nightly"')
def work_in_c(text):
    compiled = compile_c(text)
    holder = hold("nightly")
    process = start(compiled)
    wait_waiting("nightly")
    holder.close()
    out, _ = process.communicate(timeout=20 * lab.SCALE)
    equal((process.returncode, out.splitlines()), (0, ["step %d" % step for step in range(10)]),
          "the program waits for its lease, and works under it")
    lab.wait_for(lambda: not is_held("nightly"), what="the end of the lease")
    ok(True, "and releases it")
    process = start(compiled, env=dict(environment(), REDLOCK_SOCKET=at("nowhere")))
    equal((process.communicate(timeout=20 * lab.SCALE)[1], process.returncode),
          ("the agent is not reachable\n", 1), "without an agent the program reports that")


@example("redlock_connect.3", "redlock_set_answer_timeout")
def answers_in_c(text):
    compiled = compile_c(text)
    run(compiled)
    process = start(at("nowhere"), shell=(compiled,))
    equal((process.communicate(timeout=20 * lab.SCALE)[1], process.returncode),
          ("the agent is not reachable\n", 1), "the given path is used")
    with lab.listener(at("mute.sock")) as mute:
        process = start(at("mute.sock"), shell=(compiled,))
        greeted, _ = mute.accept()
        greeted.recv(4096)
        greeted.sendall(b"%0\r\n")
        equal((process.communicate(timeout=20 * lab.SCALE)[1], process.returncode),
              ("the agent does not answer: the agent did not reply within 2000 ms\n", 1), "and the time-out")
        greeted.close()


@example("redlock_acquire.3", "linger_ms")
def token_in_c(text):
    compiled = compile_c(text)
    tokens = [int(re.fullmatch(r"reports: token (\d+)\n", run(compiled)).group(1)) for _ in range(2)]
    ok(0 < tokens[0] < tokens[1], "the program has a token, and then a larger one: %s" % tokens)
    holder = hold("reports")
    said = run(compiled, want=2)
    begins(said, "held by process %d of this host" % os.getpid(), "and reports the holder")
    holder.close()


@example("redlock_valid.3", '"ticker"')
def tick_in_c(text):
    process = start(compile_c(text))
    equal(process.stdout.readline(), "tick\n", "it works under its lease")
    for node in nodes:
        node.call("SET", "ticker", "another's")
    out, _ = process.communicate(timeout=20 * lab.SCALE)
    equal((process.returncode, out.splitlines()[-1]), (0, "no longer ours"), "and notices the loss")
    for node in nodes:
        node.call("DEL", "ticker")


@example("redlock_acquire_async.3", "on_lost")
def loop_in_c(text):
    process = start(compile_c(text))
    wait_held("leader")
    for node in nodes:
        node.call("SET", "leader", "another's")
    out, _ = process.communicate(timeout=20 * lab.SCALE)
    lines = out.splitlines()
    ok(process.returncode == 0 and len(lines) == 2 and lines[0] == "leader of leader" and
       lines[1].startswith("no longer: taken, "), "the program leads until its lease is lost: %s" % lines)
    for node in nodes:
        node.call("DEL", "leader")


@example("redlock_observe.3", "on_leader")
def observe_in_c(text):
    process = start(compile_c(text))
    equal(process.stdout.readline(), "leader: nobody\n", "the program gets the present leader")
    holder = hold("leader")
    fence = holder.call("LEADER", "leader")
    fence = fence[fence.index("fence") + 1]
    equal(process.stdout.readline(), "leader: %s leads with token %d\n" % (HOST, fence), "and a change")
    holder.close()
    equal(process.stdout.readline(), "leader: nobody\n", "and another")
    end_group(process)


# --- redlock-leader@.service(8) ---

not_run("redlock-leader@.service.8", "REDLOCK_EVENT=lead-begun", MACHINE)
not_run("redlock-leader@.service.8", "systemctl disable --now backup", MACHINE)
not_run("redlock-leader@.service.8", "REDLOCK_TTL=5s", MACHINE)


# --- redlock-guarantees(7), redlock-interop(7), redlock-operations(7) ---


@example("redlock-guarantees.7", 'exec 9>>"$2.fence"')
def store(text):
    with open(os.path.join(BIN, "store"), "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(file.name, 0o755)
    for fence, want in ((5, 0), (7, 0), (6, 1), (7, 0)):
        run("echo %d | store %d kept" % (fence, fence), want=want)
        equal(run("cat kept"), "%d\n" % max(fence, 7 if want else 0), "after token %d" % fence)


@example("redlock-guarantees.7", "redlock run report -c")
def use_store(text):
    program("generate", "echo a report\n")
    run(text)
    equal(run("cat report.txt"), "a report\n", "the holder stores its report")
    run("echo late | store 1 report.txt", want=1)


@example("redlock-interop.7", "key_format")
def keys_of_a_library(text):
    other = lab.Agent(nodes, text + lab.UNHURRIED)
    for node in nodes:
        node.call("SET", "mutex:deploy", "token", "PX", 60000)
    begins(lab.redlock_run(other, "leader", "deploy")[1], "deploy  token",
           "redlock leader shows the library's lock")
    equal(lab.redlock_run(other, "run", "-n", "deploy", "--", "true")[0], 1, "which excludes the lease")
    other.stop()


@example("redlock-metrics.service.8", "systemctl edit redlock-metrics.socket")
def metrics_elsewhere(text):
    unit = pages.read("units/redlock-metrics.socket")
    verify("redlock-metrics.socket", unit + text)


@example("redlock-metrics.service.8", "may = {metrics, list}")
def metrics_of_users(text):
    """test_units.py has the service with this rule."""
    check_config('node "a" { address = "10.0.0.1" }\n' + text)


@example("redlock-metrics.service.8", "rule_files")
def prometheus(text):
    if not shutil.which("promtool"):
        skip("the configuration of Prometheus", "there is no promtool; tests/setup installs it")
        return
    rules = os.path.join(pages.SOURCE, "units", "metrics", "redlock-alerts.yml")
    path = write("prometheus.yml", text.replace("/usr/share/redlockd/redlock-alerts.yml", rules))
    done = subprocess.run(["promtool", "check", "config", path], capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""), "Prometheus accepts it")


not_run("redlock-operations.7", "systemctl stop 'redlock-leader@*.target'", MACHINE)


@example("redlock-operations.7", "redlock nodes --bless")
def bless_all(text):
    if os.geteuid() != 0:
        skip("redlock nodes --bless", "the test does not run as root")
        return
    run(text)


@example("redlock-operations.7", "CRITICAL")
def monitor(text):
    agent.wait_voting(3)
    begins(run(text), "OK: ", "with a quorum")
    nodes[0].kill()
    agent.wait_voting(2)
    begins(run(text, want=1), "WARNING: %s " % nodes[0].name, "with a node down")
    nodes[0].start()
    agent.wait_voting(3)
    process = start(text, env=dict(environment(), REDLOCK_SOCKET=at("nowhere")))
    begins(process.communicate(timeout=20 * lab.SCALE)[0], "CRITICAL: ", "without an agent")
    equal(process.returncode, 2, "and exit status 2")


# --- README ---


@example("README.md", "redlock run nightly-backup")
def first_lines(text):
    program("backup", "redlock check nightly-backup >/dev/null || exit 7\n")
    run(text)
    equal(calls(), ["backup"], "the command runs under its lease")


not_run("README.md", "agent/try", "agent/try installs and builds; shellcheck checks it")
not_run("README.md", "tests/run", "this command runs this test")


not_run("README.md", "apt build-dep", "tests/systemd/test_packages.py builds and installs the packages")


@example("README.md", "apt install gcc")
def install(text):
    wanted = re.search("apt install (.*)", text).group(1).split()
    setup = re.search('^packages="(.*?)"', pages.read("tests/setup"), re.M | re.S).group(1).split()
    equal(sorted(set(wanted) - set(setup)), [], "tests/setup installs what the README says is needed")
    directory = re.search(r"meson setup (\S+)", text).group(1)
    tried = re.search(r'(?m)^build="?([\w-]+)', pages.read("agent/try")).group(1)
    ok(directory != tried, "not in the directory of agent/try: meson keeps its options")
    note("meson install is run by tests/check/install.py")


@example("README.md", 'address = "10.0.0.1:6379"')
def readme_config(text):
    check_config(text)


not_run("README.md", "systemd-sysusers && journalctl", MACHINE)
not_run("README.md", "nodes --bless a b c", MACHINE)


@example("README.md", "redlock run -n NAME")
def in_the_shell(text):
    """Each line by itself, with words in place of the placeholders."""
    holder = hold("readme leader")
    for line in text.splitlines():
        line = line.replace("'shell text'", "true").replace("COMMAND...", "true")
        name = "'readme leader'" if "leader NAME" in line else "readme"
        line = line.replace("NAME...", "readme other").replace("NAME", name)
        if not line.startswith("redlock watch"):
            run(line)
            lab.wait_for(lambda: not is_held("readme"), what="the end of the lease")
            continue
        process = start(line)
        names = sorted(process.stdout.readline().split()[0] for _ in range(2))
        equal(names, ["other", "readme"], "a line of redlock watch for each name")
        equal(interrupt(process), 0, "it ends well: %s" % line)
    holder.close()


@example("README.md", "0 3 * * *")
def cron(text):
    """As cron runs it: the command behind the time and the user, with sh and the PATH before it."""
    setting, line = text.splitlines()
    directories = setting.split("=")[1].split(":")
    equal((setting.split("=")[0], directories[:2]), ("PATH", ["/usr/local/bin", "/usr/bin"]),
          "where the sources and the packages install redlock")
    fields = line.split(None, 6)
    equal(fields[5], "root", "the sixth field is a user")
    redlock = os.path.join(BIN, "redlock")
    os.symlink(os.path.abspath(lab.REDLOCK), redlock)
    bare = {"PATH": ":".join([BIN, *directories[1:]]), "HOME": "/", "REDLOCK_SOCKET": agent.socket_path}
    equal(once("nightly", fields[6], lost=1, env=bare), "", "without a message")
    os.remove(redlock)


not_run("README.md", "redlock-leader@backup", MACHINE)


@example("README.md", "#include <redlock.h>")
def readme_in_c(text):
    head, body = text.split("\n\n", 1)
    compiled = compile_c(head + """
#include <stdio.h>

static int work = 3;
static bool work_is_left(void) { return work > 0; }
static void work_on(void) { printf("work %d\\n", work--); }

int main(void) {
""" + body + "return 0;\n}\n")
    equal(run(compiled), "work 3\nwork 2\nwork 1\n", "it works under its lease")
    equal(run(compiled, env=dict(environment(), REDLOCK_SOCKET=at("nowhere"))), "",
          "without an agent the program does nothing, and exits with 0")


@example("README.md", "> CHECK ")
def redis_cli(text):
    """The typed lines go to standard input, with the id of the grant."""
    fresh = lab.Agent(nodes, lab.UNHURRIED)
    command, acquire, rest = text.split("\n", 2)
    process = start(command.replace("/run/redlockd/redlockd.sock", fresh.socket_path), stdin=subprocess.PIPE)
    process.stdin.write(acquire.replace("> ", "") + "\n")
    process.stdin.flush()
    client = fresh.client(3)
    grant = lab.wait_for(lambda: [lease for lease in client.call("LEASES") if lease["state"] == "held"])[0]
    rest = re.sub(r"> (\w+) \d+", r"\1 %d" % grant["id"], rest)
    out, _ = process.communicate(rest, timeout=20 * lab.SCALE)
    lines = out.splitlines()
    ok(process.returncode == 0 and str(grant["id"]) in out and len(lines) > 2, "the grant has the id")
    ok(0 < int(lines[-2].split()[-1]) <= 10000 and int(lines[-1].split()[-1]) == 1,
       "CHECK returns the validity, RELEASE that the lease was held: %s" % lines[-2:])
    fresh.terminate()


@example("README.md", "import redis\n")
def redis_py(text):
    python = "/usr/bin/python3"  # python3-redis is Debian's
    if subprocess.run([python, "-c", "import redis"], capture_output=True).returncode != 0:
        skip("a Python program", "python3-redis is not installed; tests/setup installs it")
        return
    given = "work = [3, 2, 1]\nwork_is_left = lambda: bool(work)\nwork_on = lambda: print(work.pop())\n"
    equal(run(given + text, shell=(python, "-c")), "1\n2\n3\n", "redis-py: it works under its lease")
    lab.wait_for(lambda: not is_held("nightly"), what="the end of the lease")
    ok(True, "and releases it")
    holder = hold("nightly")
    process = start(given + text.replace("5000", "200"), shell=(python, "-c"))
    _, errors = process.communicate(timeout=20 * lab.SCALE)
    ok(process.returncode == 1 and "TIMEOUT" in errors,
       "TIMEOUT is an exception: %s" % errors.splitlines()[-1:])
    holder.close()


@example("README.md", "agent/scripts/")
def parts(text):
    others = ["CONTRIBUTING.md", "client-lib/cli", "tests/bench/run", "tests/bench/soak"]
    for name in re.findall(r"^(\S+/)", text, re.M) + others:
        ok(os.path.exists(os.path.join(pages.SOURCE, name)), "%s is there" % name)


os.mkdir(BIN)
os.mkdir(HOME)
main(pages.test_sections, pages.test_shown, pages.test_all)
