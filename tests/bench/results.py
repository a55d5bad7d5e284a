"""The measurements: rows, each with a value a round for each series (agent, floor, a peer, ...)."""

from world import median

ROUNDS_MIN = 5    # for a verdict on a ratio
ROUNDS_MANY = 12  # their spread is given by quartiles: the extremes of many only show their number


def target(settings, bound):
    """A row's bound, in the full form."""
    return bound if settings.binding else None


class Row:
    def __init__(self, key, text, unit, ours, base, bound, of, least):
        self.key, self.text, self.unit = key, text, unit
        self.ours, self.base = ours, base
        self.bound, self.of, self.least = bound, of, least
        self.series = {}

    def note(self, series, value):
        self.series.setdefault(series, []).append(value)

    def value(self, series):
        return median(self.series[series]) if self.series.get(series) else None

    def ratios(self, base=None):
        """A ratio for each round, of that round's values."""
        pairs = zip(self.series.get(self.ours, []), self.series.get(base or self.base, []))
        return [ours / base for ours, base in pairs if base]

    def ratio(self, base=None):
        ratios = self.ratios(base)
        return median(ratios) if ratios else None

    def spread(self):
        """From the lowest to the highest ratio, or value without a ratio; with many rounds, from the
        lower to the upper quartile."""
        found = sorted(self.ratios() or self.series.get(self.ours, []))
        cut = len(found) // 4 if len(found) >= ROUNDS_MANY else 0
        return (found[cut], found[-1 - cut]) if found else (None, None)

    def judged(self):
        """The value that the bound applies to; None if it is not known well enough."""
        if self.of == "ratio":
            return self.ratio() if len(self.ratios()) >= ROUNDS_MIN else None
        return self.value(self.ours)

    def bound_is(self):
        return "at least" if self.least else "at most"

    def met(self):
        if self.bound is None or self.judged() is None:
            return None
        return self.judged() >= self.bound if self.least else self.judged() <= self.bound

    def as_json(self):
        low, high = self.spread()
        return {"text": self.text, "unit": self.unit, "rounds": self.series,
                "medians": {series: self.value(series) for series in self.series},
                "ours": self.ours, "base": self.base, "ratio": self.ratio(),
                "low": low, "high": high,  # of the ratio, or else of our value
                "bound": self.bound, "bound_of": self.of if self.bound is not None else None,
                "bound_is": self.bound_is() if self.bound is not None else None, "met": self.met()}


class Results:
    def __init__(self):
        self.rows = {}
        self.peers = {}    # name: its version, or why there is none
        self.about = {}    # versions, noise, settings

    def row(self, key, text="", unit="us", ours="agent", base="floor", bound=None, of="ratio", least=False):
        """The row, which is made if missing. `bound`: the upper or lower limit of the ratio, or of
        our value."""
        if key not in self.rows:
            self.rows[key] = Row(key, text, unit, ours, base, bound, of, least)
        return self.rows[key]

    def again(self, measured, key, text, **compared):
        """A further row from another row's measurements."""
        row = self.row(key, text, measured.unit, **compared)
        row.series = measured.series
        return row

    def note(self, key, series, value):
        self.rows[key].note(series, value)

    def as_json(self):
        return {**self.about, "peers": self.peers,
                "measured": {key: row.as_json() for key, row in self.rows.items()}}
