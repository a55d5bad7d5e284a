"""A strict reader of OpenMetrics text (version 1.0): what it accepts, any scraper does. It demands more than
the standard in one point: each family has a HELP line."""

import re

TYPES = ("counter", "gauge", "histogram", "gaugehistogram", "info", "stateset", "summary", "unknown")
SUFFIXES = {"counter": ("_total", "_created"), "gauge": ("",), "info": ("_info",), "stateset": ("",),
            "histogram": ("_bucket", "_count", "_sum", "_created")}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(r"(%s)(?:\{((?:%s)(?:,(?:%s))*)?\})? (\S+)" % (NAME, LABEL, LABEL))
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN")


class Wrong(Exception):
    """The text is not OpenMetrics."""


def demand(condition, *words):
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


class Family:
    def __init__(self, name):
        self.name, self.kind, self.unit, self.help = name, None, None, None
        self.samples = []  # (name, labels, value)
        self.keys = set()

    def value(self, **labels):
        """The sum of the samples with these labels; of a histogram of its counts."""
        wanted = {"histogram": self.name + "_count", "counter": self.name + "_total"}.get(self.kind)
        return sum(value for name, has, value in self.samples if wanted in (None, name) and
                   all(has.get(key) == label for key, label in labels.items()))


def metadata(families, line, current):
    match = re.fullmatch(r"# (TYPE|UNIT|HELP) (%s) (.+)" % NAME, line)
    demand(match, "no comment of OpenMetrics:", line)
    keyword, name, text = match.groups()
    if current is None or current.name != name:
        demand(name not in families, "the family is not in one piece:", name)
        current = families[name] = Family(name)
    demand(not current.samples, "metadata behind samples:", line)
    field = {"TYPE": "kind", "UNIT": "unit", "HELP": "help"}[keyword]
    demand(getattr(current, field) is None, "twice:", line)
    demand(keyword != "TYPE" or text in TYPES, "unknown type:", line)
    demand(keyword != "UNIT" or name.endswith("_" + text), "the name has not the unit:", line)
    setattr(current, field, text)
    return current


def sample(line, current):
    match = SAMPLE.fullmatch(line)
    demand(match, "no sample:", line)
    name, labels = match.group(1), re.findall(LABEL, match.group(2) or "")
    demand(current is not None and current.kind, "without a type:", line)
    demand(NUMBER.fullmatch(match.groups()[-1]), "no number:", line)
    demand(name in [current.name + suffix for suffix in SUFFIXES[current.kind]], "not of its family:", line)
    demand(len(dict(labels)) == len(labels), "a label twice:", line)
    value = float(match.groups()[-1].replace("Inf", "inf"))
    key = (name, tuple(sorted(labels)))
    demand(key not in current.keys, "twice:", line)
    current.keys.add(key)
    current.samples.append((name, dict(labels), value))


def check_histogram(family):
    series = {}
    for name, labels, value in family.samples:
        labels = dict(labels)
        bound = labels.pop("le", None)
        one = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
        demand((bound is not None) == (name == family.name + "_bucket"), "le:", family.name, labels)
        if bound is None:
            one[name[len(family.name) + 1:]] = value
        else:
            one["buckets"].append((float(bound.replace("Inf", "inf")), value))
    for labels, one in series.items():
        bounds, counts = [bound for bound, _ in one["buckets"]], [count for _, count in one["buckets"]]
        demand(bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), "buckets:", family.name, labels)
        demand(counts == sorted(counts) and counts[-1] == one["count"], "counts:", family.name, labels)
        demand("sum" in one, "no sum:", family.name, labels)


def check(family):
    demand(family.kind and family.help, "without type or help:", family.name)
    if family.kind == "histogram":
        check_histogram(family)
    elif family.kind == "stateset":
        demand(all(family.name in labels and value in (0, 1) for _, labels, value in family.samples),
               "a state set needs its own label:", family.name)
    elif family.kind == "info":
        demand(not family.unit and all(value == 1 for _, _, value in family.samples), "no info:",
               family.name)
    elif family.kind == "counter":
        demand(all(value >= 0 for _, _, value in family.samples), "negative:", family.name)


def parse(text):
    """{name: Family}. Wrong: it is not OpenMetrics."""
    demand(text.endswith("\n# EOF\n"), "no # EOF at the end")
    families, current = {}, None
    for line in text.split("\n")[:-2]:
        demand(line != "# EOF" and line.strip(), "an empty line, or text behind # EOF")
        if line.startswith("#"):
            current = metadata(families, line, current)
        else:
            sample(line, current)
    for family in families.values():
        check(family)
    names = [name for family in families.values() for name in {name for name, _, _ in family.samples}]
    demand(len(names) == len(set(names)), "two families with a sample of one name")
    return families


def as_prometheus(text):
    """The same in Prometheus' older text format, which `promtool check metrics` reads."""
    lines = []
    kinds = dict(re.findall(r"^# TYPE (%s) (\w+)$" % NAME, text, re.M))
    for line in text.splitlines():
        match = re.fullmatch(r"# (TYPE|HELP) (%s) (.+)" % NAME, line)
        if line == "# EOF" or line.startswith("# UNIT"):
            continue
        if match:
            keyword, name, rest = match.groups()
            kind = kinds[name]
            name += {"counter": "_total", "info": "_info"}.get(kind, "")
            if keyword == "TYPE" and kind in ("info", "stateset"):
                rest = "gauge"
            line = "# %s %s %s" % (keyword, name, rest)
        lines.append(line)
    return "\n".join(lines) + "\n"
