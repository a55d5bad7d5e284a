"""Plays the transcripts of protocol.md against an agent: the replies are those of the page."""

import itertools
import os
import random
import re
import subprocess

import lab
from tap import equal, main

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "protocol.md")
COMMANDS = """ACQUIRE RELEASE CHECK BEAT LEADER STATUS NODES LEASES HISTORY HELLO PING ECHO SELECT CLIENT
    COMMAND AUTH QUIT BLESS RESUME OBSERVE UNOBSERVE""".split()
nodes = lab.nodes(3)


def blocks(kind):
    with open(PAGE) as file:
        page = file.read()
    return [block.splitlines() for block in re.findall(r"^```%s\n(.*?)^```" % kind, page, re.M | re.S)]


def plain(line):
    """The line without the parts that differ from run to run."""
    line = re.sub(r'\b(web1|localhost):[0-9a-f]{8}:\d+\b', 'HOLDER', line)
    line = re.sub(r'("agent" => )"[0-9a-f]{8}"', r"\1AGENT", line)
    line = re.sub(r'("secret" => )"1-[0-9a-f-]*"', r"\1SECRET", line)
    line = re.sub(r'("address" => )"[^"]*"', r"\1ADDRESS", line)
    line = re.sub(r"^\$\d+$", "$LENGTH", line)
    line = re.sub(r'("clock" => \(integer\) )-', r"\1", line)  # ahead of the others', or behind
    line = re.sub(r'("answer" => )"(yes|silent)"', r"\1ANSWER", line)  # before the majority, or after
    line = re.sub(r'("after" => \(integer\) )-', r"\1", line)
    return re.sub(r"\d+", "N", line).rstrip()


def fresh_agent():
    """A new agent, whose ids begin anew."""
    return lab.Agent(nodes, 'host = "web1"\n' + lab.UNHURRIED, keepers=2)


def end(agent):
    """The next agent must not find its keys."""
    lab.wait_for(lambda: agent.status()["leases"] == 0, 20, "the release of all leases")
    agent.terminate()


def play_redis_cli():
    seen = set()
    for block in blocks("redis-cli"):
        agent = fresh_agent()
        # The page's id has the first slot, in no agent's generation: so it is not the end of a listing.
        typed = [line[2:].replace("LEASES AFTER 1048576", "LEASES AFTER %d" % (2**53 - 1)) for line in block
                 if line.startswith("> ")]
        want = [line for line in block if not line.startswith("> ")]
        done = subprocess.run(["redis-cli", "-3", "--no-raw", "-s", agent.socket_path],
                              input="\n".join(typed) + "\n",
                              capture_output=True, text=True, timeout=30 * lab.SCALE)
        got = [line for line in done.stdout.splitlines() if line]
        equal([plain(line) for line in got], [plain(line) for line in want],
              "redis-cli prints the page's replies to %s" % "; ".join(typed))
        seen |= {line.split()[0].upper() for line in typed}
        end(agent)
    return seen


def play(client, steps):
    """The agent's replies to each run of the client's lines, and those of the page."""
    got = []
    want = []
    for speaker, line in steps:
        if speaker == "C":
            client.send_raw(line.encode() + b"\r\n")
            continue
        want.append(plain(line))
        try:
            got.append(plain(client._line(lab.now() + 10 * lab.SCALE).decode()))
        except ConnectionError:
            got.append("(closed)")
    return got, want


def play_wire():
    seen = set()
    for block in blocks("wire"):
        agent = fresh_agent()
        client = agent.client()
        got, want = play(client, [(line[0], line[3:]) for line in block])
        equal(got, want, "on the wire: %s" % block[0])
        client.close()
        end(agent)
        seen |= {line[3:].split()[0] for line in block if line.startswith("C: ")}
    return seen


def test_transcripts():
    seen = play_redis_cli() | play_wire()
    equal([command for command in COMMANDS if command not in seen], [], "each command has a transcript")


# --- options ---

def documented():
    """From the page's headings: each command, its arguments, and its options as lists of words."""
    with open(PAGE) as file:
        usages = re.findall(r"^### ([A-Z].*)$", file.read(), re.M)
    for usage in ", ".join(usages).split(", "):
        required = usage.split("[")[0].split()
        yield required[0], required[1:], [option.split() for option in re.findall(r"\[(.*?)\]", usage)]
    yield "HELLO", ["3"], [["AUTH", "user", "password"], ["SETNAME", "text"]]


def orders(options):
    """Each subset in a random order; the largest ones in some more."""
    for size in range(len(options) + 1):
        for subset in itertools.combinations(options, size):
            for _ in range(5 if size >= max(1, len(options) - 1) else 1):
                yield [word for option in random.sample(subset, size) for word in option]


def refusals(client, requests):
    """The errors about the requests' form, all requests sent at once."""
    for request in requests:
        client.send(*request)
    replies = [client.reply() for _ in requests]
    waiting = sum(isinstance(reply, list) and reply[:1] == ["waiting"] for reply in replies)
    replies += [client.push("granted") for _ in range(waiting if requests[0][0] == "ACQUIRE" else 0)]
    return [str(reply) for reply in replies
            if isinstance(reply, lab.ReplyError) and str(reply).split()[0] in ("ERR", "BADARG")]


def test_options():
    """Every subset of the documented options of each command, in many orders."""
    agent = fresh_agent()
    client = agent.client(3)
    secret = client.acquire("resumed", "RESUMABLE")["secret"]
    seed = random.randrange(1 << 32)
    random.seed(seed)
    for command, arguments, options in documented():
        requests = []
        for number, words in enumerate(orders(options)):
            values = {"name": "options-%d" % number, "secret": secret, "ms": "5000", "bytes": "some bytes",
                      "id": "1", "node": "a", "user": "u", "password": "p", "text": "me", "n": "9"}
            requests.append([command] + [values.get(word, word) for word in arguments + words])
        equal(refusals(client, requests), [], "%s takes %s (%d requests, seed %d)" %
              (command, " and ".join(option[0] for option in options) or "no options", len(requests), seed))
    client.close()
    end(agent)


main(test_transcripts, test_options)
