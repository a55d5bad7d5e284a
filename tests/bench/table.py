"""The table."""

from world import median  # noqa: F401


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    return "%.0f" % value if abs(value) >= 100 else "%.1f" % value if abs(value) >= 10 else "%.2f" % value


def cells(results):
    """The measurements of latency(): (form, clients, nodes)."""
    found = [key.split("/")[1:] for key in results.rows if key.startswith("pairs/")]
    return sorted(((form, int(clients), int(count)) for form, clients, count in found),
                  key=lambda cell: (cell[2], cell[0], cell[1]))


LATENCIES = (("acquire", ("acquire_p50", "acquire_p99", "acquire_p999", "pairs")),
             ("release", ("release_p50", "release_p99", "release_p999")))


def compared(row):
    return "%6s /%6s %5.2f" % (number(row.value("agent")), number(row.value("floor")), row.ratio() or 0)


def latency_lines(results):
    """A line for each number of nodes and of clients."""
    found = cells(results)
    for phase, columns in LATENCIES if found else ():
        titles = [column.split("_")[-1].replace("p999", "p99.9") for column in columns]
        yield "%-20s" % phase + "  ".join("%-20s" % title for title in titles).rstrip()
        yield " N clients          " + "  ".join(["agent / floor, ratio"] * len(columns))
        for form, clients, count in found:
            rows = [results.rows["%s/%s/%d/%d" % (column, form, clients, count)] for column in columns]
            yield "%2d %4d %-12s" % (count, clients, form) + "  ".join(map(compared, rows))
        yield ""


def verdict(row):
    if row.met() is None:
        return ""
    bound = number(row.bound) + (" x" if row.of == "ratio" else "")
    return "%s (%s %s)" % ("met" if row.met() else "NOT MET", row.bound_is(), bound)


LINE = "%-69s %6s %6s %-7s %-21s %s"


def row_line(row):
    low, high = row.spread()
    if row.ratios():
        spread = "%6.2f (%.2f, %.2f)" % (row.ratio(), low, high)
    else:
        spread = "       (%s, %s)" % (number(low), number(high)) if low != high else ""
    values = number(row.value(row.ours)), number(row.value(row.base))
    return (LINE % (row.text, *values, row.unit, spread, verdict(row))).rstrip()


def row_lines(results):
    rows = [row for key, row in results.rows.items() if "/" not in key and not key.startswith("peer_")]
    if not rows:
        return
    yield LINE % ("medians of the rounds", "agent", "beside", "", " ratio (of rounds)", "target")
    for row in rows:
        yield row_line(row)
    yield ""


PEER_COLUMNS = (("peer_acquire", "acquire p50"), ("peer_pairs_16", "pairs/s, 16"),
                ("peer_pairs_64", "pairs/s, 64"), ("peer_apart", "16 processes"),
                ("peer_handoff", "hand-off p50"), ("peer_failover", "failover, % of ttl"))


def peer_lines(results):
    if not results.peers:
        return
    yield "%-16s %2s %16s %13s %13s %13s %14s %20s" % ("peers", "N", *(title for _, title in PEER_COLUMNS))
    for name, peer in results.peers.items():
        if "absent" in peer:
            yield "%-16s not measured: %s" % (name, peer["absent"])
            continue
        values = [results.rows[key].value(name) if key in results.rows else None for key, _ in PEER_COLUMNS]
        floor = results.rows["peer_acquire"].value("floor N=%d" % peer["nodes"])
        shown = [number(value) for value in values]
        if floor and values[0]:
            shown[0] += " (%.1f x)" % (values[0] / floor)
        yield "%-16s %2d %16s %13s %13s %13s %14s %20s" % (name, peer["nodes"], *shown)
    yield "  (microseconds; x: the floor with as many nodes in the same rounds)"
    for name, peer in results.peers.items():
        if "version" in peer:
            yield "  %s: %s" % (name, peer["version"])
    yield ""


def text(results):
    about = results.about
    lines = ["; ".join("%s %s" % pair for pair in about["versions"].items()),
             "run: %s; nodes %s" % (about["form"], about["nodes"]),
             "load average %.2f at the start, %.2f at the end" % (about["load_average"]["start"],
                                                                  about["load_average"]["end"])]
    moved = about["noise"]["floor_spread_median"]
    lines.append("noise: not known, since the floor was not measured twice" if moved is None else
                 "noise: from its lowest to its highest round the floor itself moved by %.0f %% (median "
                 "of its rows)" % (100 * moved))
    lines.append("")
    for part in (latency_lines, row_lines, peer_lines):
        lines.extend(part(results))
    lines += ["FAILED, and not measured whole: " + name for name in about["failed"]]
    judged = [row for row in results.rows.values() if row.met() is not None]
    lines.append("targets: %d of %d met" % (sum(row.met() for row in judged), len(judged)))
    return "\n".join(lines)
