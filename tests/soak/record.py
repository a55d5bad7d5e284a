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
    "libredlock": ("BUSY", "NOQUORUM", "TIMEOUT", "QUOTA", "DRAINING", "lost", "away", "no-answer"),
}
SLACK_S = 0.7  # of an answer: this machine's and this test's threads


class Claim:
    def __init__(self, key, name, fence, begin):
        self.key, self.name, self.fence, self.begin, self.last = key, name, fence, begin, begin


class Record:
    def __init__(self, stops, scale):
        self.stops, self.scale = stops, scale
        self.claims = {}
        self.answers = []
        self.wrong = []
        self.watched = {}  # the largest token by observer and name

    def take(self, client, line):
        kind, _, rest = line.partition(" ")
        words = rest.split(" ")
        if kind == "begin":
            self.claims[words[0]] = Claim(words[0], words[1], int(words[2]), float(words[3]))
        elif kind == "valid":
            claim = self.claims.get(words[0])
            if claim:
                claim.last = max(claim.last, float(words[1]))
        elif kind == "asked":
            self.answers.append((client, *words))
        elif kind == "started":
            client.has_command = True
        elif kind == "watched":
            self.watch((client, client.starts, words[0]), rest.partition(" ")[2])
        elif kind == "wrong":
            self.wrong.append("%s: %s" % (client.name, rest))
        elif kind != "end":
            self.wrong.append("%s writes: %s" % (client.name, line[:100]))

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
        client, number, kind, word, begin, took, bound = answer
        begin, took, bound = float(begin), float(took), float(bound)
        agent = agents[int(number)] if int(number) >= 0 else None
        whats = [client, "machine"] + ([agent] if agent else agents)
        excuse = self.stops.seconds(whats, begin, begin + took)
        if kind == "libredlock" and word in ("away", "no-answer"):
            excuse += 10  # redlock_set_answer_timeout()'s default
        if any(begin < end and begin + took > start for start, end in floods):
            excuse += 1
        if word != "ok" and word not in WORDS.get(kind, ("NOTHELD",)):
            yield "%s: %s is answered with %s" % (client.name, kind, word)
        if took > bound + SLACK_S * self.scale + 1.1 * excuse:
            yield "%s: %s is answered with %s after %.3f s (at most %.3f; excused: %.3f)" % (
                client.name, kind, word, took, bound, excuse)

    def counts(self):
        """By kind and word."""
        counts = collections.Counter((answer[2], answer[3]) for answer in self.answers)
        kinds = sorted({kind for kind, _ in counts})
        return {kind: {word: n for (of, word), n in sorted(counts.items()) if of == kind} for kind in kinds}
