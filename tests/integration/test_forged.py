"""Names, data and what other hosts write at the nodes: no line for a terminal or a log passes them on raw,
and none is forged."""

import json
import os
import signal
import socket
import subprocess

import lab
from tap import SCALE, equal, main, ok, skip

NAME = "job\u202e\u2028boj\u2066\u200f"  # no control characters: the agent accepts it
DATA = "data\n<0>forged line\x1b[31m\u009b\u202e\u2029"
HOST = "web\x1b]0;title\x07\nnobody\u0085\u2028\u202e"
VALUE = "0123456789abcdef0123456789abcdef01234567:%s:%s:1:2:%s" % (HOST, "agent\r\n", DATA)
RAW = {*map(chr, (*range(32), *range(0x7f, 0xa0), *range(0x2028, 0x202f), *range(0x2066, 0x206a), 0x61c,
                  0x200e, 0x200f, 0xfeff))} - {"\n"}

nodes = lab.nodes(3)
agent = lab.Agent(nodes, lab.UNHURRIED +
                  'rule "*" { may = {acquire, observe, leader, list, history, metrics} }')


def raw(text):
    return sorted(RAW & set(text))


def shows(command, text, lines):
    """It shows no raw character, and as many lines as there are things to show."""
    equal(raw(text), [], "%s: no raw character" % command)
    equal(len(text.splitlines()), lines, "%s: %d lines, none forged" % (command, lines))


def run(*arguments):
    status, out, errors = lab.redlock_run(agent, *arguments)
    return out + errors


def first_line(*arguments):
    process = lab.redlock(agent, *arguments)
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    return line + process.communicate()[0]


def rejected(client, name):
    answer = str(client.call("ACQUIRE", name))
    equal(raw(answer), [], "ACQUIRE: no raw character in %.40r" % answer)


def test_own_lease():
    client = agent.client(3)
    grant = client.acquire(NAME, "DATA", DATA)
    shows("leases", run("leases"), 2)
    shows("leader", run("leader", NAME), 1)
    ok(run("leader", NAME).startswith("job??boj??  "), "a question mark for each such character")
    shows("check", run("check", NAME), 1)
    shows("watch", first_line("watch", NAME), 1)
    lab.wait_for(lambda: "granted" in run("history", NAME), what="the event of the grant")
    for command in (["history", NAME], ["status"], ["whoami", NAME], ["metrics"], ["nodes"],
                    ["top", "--count", "1"]):
        equal(raw(run(*command)), [], "%s: no raw character" % command[0])
    for command in (["leases"], ["leader", NAME], ["history", NAME]):
        text = run(*command, "--json")
        equal(raw(text), [], "%s --json: no raw character" % command[0])
        ok(json.loads(text), "and it is JSON")
    leader = json.loads(run("leader", "--json", NAME))
    equal([leader["name"], leader["data"]], [NAME, DATA], "JSON has name and data as they are")
    rejected(agent.client(3), NAME)
    for status, arguments in ((1, ["run", "-n", NAME, "true"]), (64, ["run", "-n", NAME + "\n", "true"])):
        shows(arguments[0], run(*arguments), 1)
    client.call("RELEASE", grant["id"])
    client.close()


def test_others_lease():
    """By another program, which writes what it wants."""
    client = agent.client(3)
    for node in nodes:
        node.call("SET", "theirs", VALUE.encode(), "PX", 60000)
        node.call("SET", "foreign", DATA.encode(), "PX", 60000)
    for name in "theirs", "foreign":
        shows("leader", run("leader", name), 1)
        shows("watch", first_line("watch", name), 1)
        shows("run", run("run", "-n", name, "true"), 1)
        equal(raw(run("leader", "--json", name)), [], "leader --json: no raw character")
        equal(raw(run("history", name)), [], "history: no raw character")
        rejected(client, name)
    client.close()


def test_log():
    client = agent.client(3)
    client.acquire(NAME, "TTL", 2000, "DATA", DATA)
    for node in nodes:
        node.call("SET", NAME.encode(), VALUE.encode(), "PX", 60000)
    client.push("lost")
    lab.wait_for(lambda: "lost" in agent.log_text(), what="the log of the loss")
    equal(raw(agent.log_text()), [], "the agent's log: no raw character")
    equal([line for line in agent.log_text().splitlines() if line.startswith("<0>")], [],
          "and no forged line")
    shows("run --verbose", run("run", "--verbose", "-n", NAME, "true"), 1)
    client.close()


IN_JOURNAL = ("mount -t tmpfs none /run && mkdir -p /run/systemd/journal"
              " && ln -s %s /run/systemd/journal/socket"
              " && export JOURNAL_STREAM=$(stat -L -c %%d:%%i /proc/self/fd/2)"
              " && exec \"$@\"")


def journaled():
    """The socket of a journal, and an agent that writes to it, in a mount namespace of its own."""
    journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    journal.bind(lab.path("journal"))
    journal.settimeout(20 * SCALE)
    prefix = ["unshare", "--mount", "sh", "-c", IN_JOURNAL % journal.getsockname(), "sh"]
    return journal, lab.Agent(nodes, lab.UNHURRIED, prefix=prefix)


def hold_logs(journal, logging):
    """redlock hold as a service: at the beginning and the end of a lead."""
    manager = lab.Manager()
    holder = lab.spawn(["unshare", "--mount", "sh", "-c", IN_JOURNAL % journal.getsockname(), "sh",
                        lab.REDLOCK, "--socket", logging.socket_path, "hold", NAME + "led"],
                       env=manager.environment)
    entries = []
    for event in ("lead-begun", "lead-ended"):
        while not entries or "REDLOCK_EVENT=%s\n" % event not in entries[-1]:
            entries.append(journal.recv(65536).decode())
        equal([line.split("=")[0] for line in entries[-1].splitlines()],
              ["PRIORITY", "SYSLOG_IDENTIFIER", "MESSAGE_ID", "REDLOCK_EVENT", "REDLOCK_NAME",
               "REDLOCK_FENCE", "MESSAGE"], "redlock hold: %s has its fields, no others" % event)
        holder.terminate()
    equal(raw("".join(entries)), [], "and no raw character")
    holder.wait(timeout=20)
    manager.close()


def hold_prints(journal, logging, script, what):
    manager = lab.Manager()
    holder = lab.spawn(["unshare", "--mount", "sh", "-c", script % journal.getsockname(), "sh",
                        lab.REDLOCK, "--socket", logging.socket_path, "hold", "printed"],
                       env=manager.environment, stderr=subprocess.PIPE, text=True)
    manager.until("READY=1")
    holder.terminate()
    lines = holder.communicate(timeout=20 * SCALE)[1].splitlines()
    equal([line.split(", token")[0] for line in lines],
          ["redlock: printed: this host leads", "redlock: printed: this host no longer leads"], what)
    manager.close()


def hold_prints_otherwise(journal, logging):
    """Where the journal does not read standard error, or takes no message, each line is printed, once."""
    stream = "$(stat -L -c %%d:%%i /proc/self/fd/2)"
    hold_prints(journal, logging, IN_JOURNAL.replace(stream, "0:0"), "another standard error: printed")
    journal.setblocking(False)
    try:
        while b"printed" not in journal.recv(65536):
            pass
        ok(False, "and not sent")
    except BlockingIOError:
        ok(True, "and not sent")
    writer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    writer.setblocking(False)
    try:
        while writer.sendto(b"PRIORITY=6\nMESSAGE=full\n", journal.getsockname()):
            pass
    except BlockingIOError:
        pass
    hold_prints(journal, logging, IN_JOURNAL, "a journal that takes nothing: printed, and nothing waits")
    writer.close()


def test_journal():
    """The fields of an entry are lines, so no name brings a line, nor a character that changes lines."""
    if subprocess.run("unshare --mount true", shell=True, stderr=subprocess.DEVNULL).returncode != 0:
        skip("the journal", "no mount namespaces here")
        return
    journal, logging = journaled()
    client = logging.client(3)
    for node in nodes:
        node.call("DEL", NAME.encode())
    ok("id" in client.acquire(NAME, "TTL", 2000, "DATA", DATA), "a lease")
    for node in nodes:
        node.call("SET", NAME.encode(), VALUE.encode(), "PX", 60000)
    lost, entries = None, []
    while not lost:
        entries.append(journal.recv(65536).decode())
        lost = "REDLOCK_EVENT=lease-lost\n" in entries[-1] and entries[-1]
    equal(raw("".join(entries)), [], "the journal's entries: no raw character")
    equal([line.split("=")[0] for line in lost.splitlines()],
          ["PRIORITY", "SYSLOG_IDENTIFIER", "MESSAGE_ID", "REDLOCK_EVENT", "REDLOCK_NAME", "REDLOCK_REASON",
           "REDLOCK_FENCE", "MESSAGE"], "and a loss has its fields, no others")
    hold_logs(journal, logging)
    hold_prints_otherwise(journal, logging)
    client.close()
    logging.terminate()
    journal.close()


main(test_own_lease, test_others_lease, test_log, test_journal)
