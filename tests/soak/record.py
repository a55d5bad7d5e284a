"""What the clients of the soak report, and what must not be in it."""

import collections
import json

from history import History

# What a request may be answered with, beside "ok".
WORDS = {
    "ACQUIRE": ("BUSY", "NOQUORUM", "TIMEOUT", "QUOTA", "DRAINING"),
    "ASYNC": ("BUSY", "NOQUORUM", "TIMEOUT", "QUOTA", "DRAINING"),
    "RESUME": ("NOTHELD", "NOQUORUM", "BUSY", "QUOTA", "DRAINING"),
    "LEADER": ("NOQUORUM", "DRAINING"),
    "OBSERVE": ("QUOTA", "DRAINING"),
    "PAGE": ("BADARG", "QUOTA"),  # the session has its page already
    "libredlock": ("BUSY", "NOQUORUM", "TIMEOUT", "QUOTA", "DRAINING", "lost", "away", "no-answer"),
}
NO_ANSWER = "no answer"  # to a request whose connection has ended
# What each kind of client does at least in a second, all clients together: a small part of the usual.
LEAST_PER_S = {"raw": 2, "library": 0.5, "command": 0.2, "watch": 0.2, "garbage": 0.2}
SLACK_S = 0.7  # of an answer: this machine's and this test's threads


class Claim:
    def __init__(self, key, name, fence, begin):
        self.key, self.name, self.fence, self.begin, self.last = key, name, fence, begin, begin


class Answer:
    """Of an agent to a client's request: its word came at `end`, or the connection ended then."""

    def __init__(self, client, agent, kind, begin, bound):
        self.client, self.agent, self.kind = client, int(agent), kind
        self.begin, self.bound = float(begin), float(bound)
        self.word = self.end = None

    def ends(self, word, end):
        self.word, self.end = word, end
        return self


class Record:
    """`lasting`: the agent that the soak does not kill. Only this one must answer a request whose connection
    ends, if its bound is over by then."""

    def __init__(self, stops, scale, lasting):
        self.stops, self.scale, self.lasting = stops, scale, lasting
        self.done = collections.Counter()  # by kind of client and what was done
        self.claims = {}
        self.answers = []
        self.wrong = []
        self.watched = {}  # the largest token by observer and name

    def take(self, client, open_requests, line):
        """A line of a client's process, which has its own open requests."""
        kind, _, rest = line.partition(" ")
        words = rest.split(" ")
        if kind == "begin":
            self.claims[words[0]] = Claim(words[0], words[1], int(words[2]), float(words[3]))
        elif kind == "valid":
            claim = self.claims.get(words[0])
            if claim:
                claim.last = max(claim.last, float(words[1]))
        elif kind == "asking":
            open_requests[words[0]] = Answer(client, *words[1:])
        elif kind == "asked":
            answer = open_requests.pop(words[0]).ends(" ".join(words[1:-1]), float(words[-1]))
            self.answers.append(answer)
            self.done[client.kind, answer.kind] += 1
        elif kind == "withdrawn":
            del open_requests[words[0]]
        elif kind == "closed":
            self.close(open_requests, float(words[0]))
        elif kind == "did":
            self.done[client.kind, words[0]] += 1
        elif kind == "started":
            client.has_command = True
        elif kind == "watched":
            self.done[client.kind, "watched"] += 1
            self.watch((client, client.starts, words[0]), rest.partition(" ")[2])
        elif kind == "wrong":
            self.wrong.append("%s: %s" % (client.name, rest))
        elif kind != "end":
            self.wrong.append("%s writes: %s" % (client.name, line[:100]))

    def close(self, open_requests, end):
        """The requests' connection ends."""
        self.answers += [answer.ends(NO_ANSWER, end) for answer in open_requests.values()
                         if answer.agent == self.lasting]
        open_requests.clear()

    def watch(self, observer, line):
        try:
            seen = json.loads(line)
        except ValueError:
            self.wrong.append("%s: no JSON: %s" % (observer[0].name, line[:100]))
            return
        key = observer, seen["name"]
        fence = seen.get("fence") or 0
        if 0 < fence < self.watched.get(key, 0):
            self.wrong.append("%s: an observer sees the token %d of %s after %d" % (
                observer[0].name, fence, seen["name"], self.watched[key]))
        self.watched[key] = max(fence, self.watched.get(key, 0))

    def history(self):
        history = History()
        for claim in self.claims.values():
            history.add(claim.name, claim.begin, claim.last, claim.fence)
        return history

    def explain(self):
        """The claims around those of which a token does not grow, or that overlap."""
        for name in sorted({claim.name for claim in self.claims.values()}):
            mine = sorted((each for each in self.claims.values() if each.name == name),
                          key=lambda each: each.begin)
            for i in range(1, len(mine)):
                if mine[i].fence <= mine[i - 1].fence or mine[i].begin < mine[i - 1].last:
                    for each in mine[max(0, i - 3):i + 3]:
                        yield "%s: %s, token %d, from %.6f to %.6f" % (
                            name, each.key, each.fence, each.begin, each.last)

    def troubles(self, agents, floods):
        return self.wrong + self.history().troubles() + [
            trouble for answer in self.answers for trouble in self.trouble_of(answer, agents, floods)]

    def trouble_of(self, answer, agents, floods):
        kind, word, begin, end = answer.kind, answer.word, answer.begin, answer.end
        kind_of_words = "libredlock" if kind.startswith("libredlock-") else kind
        if word not in ("ok", NO_ANSWER) and word not in WORDS.get(kind_of_words, ("NOTHELD",)):
            yield "%s: %s is answered with %s" % (answer.client.name, kind, word)
        if end - begin <= answer.bound + SLACK_S * self.scale:
            return
        excuse = self.stops.seconds([answer.client, "machine", agents[answer.agent]], begin, end)
        if kind_of_words == "libredlock" and word in ("away", "no-answer"):
            excuse += 10  # redlock_set_answer_timeout()'s default
        if any(begin < flood_end and end > flood_begin for flood_begin, flood_end in floods):
            excuse += 1
        if end - begin > answer.bound + SLACK_S * self.scale + 1.1 * excuse:
            yield "%s: %s to agent %d: %s after %.3f s (at most %.3f; excused: %.3f)" % (
                answer.client.name, kind, answer.agent, word, end - begin, answer.bound, excuse)

    def done_by(self, kind):
        return sum(n for (by, _), n in self.done.items() if by == kind)

    def counts(self):
        """By kind of request, and word."""
        counts = collections.Counter((answer.kind, answer.word) for answer in self.answers)
        kinds = sorted({kind for kind, _ in counts})
        return {kind: {word: n for (of, word), n in sorted(counts.items()) if of == kind} for kind in kinds}
