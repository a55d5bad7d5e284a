"""The plots, by gnuplot: SVG files. Without gnuplot there are none."""

import os
import shutil
import subprocess

import table

HEAD = """set terminal svg size %d,%d background rgb "white" font "sans-serif,13"
set output "%s"
set grid ytics lc rgb "#dddddd"
set key below left Left reverse samplen 3 maxcols 2
set rmargin 6
set border 3
set tics nomirror
"""
AGENT, FLOOR, OTHER = "#c0392b", "#2c3e50", "#7f8c8d"
QUANTILES = (("acquire_p50", "p50", 1), ("acquire_p99", "p99", 2), ("acquire_p999", "p99.9", 3))


def gnuplot(script):
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def block(name, lines):
    return "$%s << EOD\n%s\nEOD\n" % (name, "\n".join(lines))


def by_clients(results, what, count):
    """Lines "clients agent floor" of the connections of one process."""
    lines = []
    for form, clients, nodes in table.cells(results):
        if form == "connections" and nodes == count:
            row = results.rows["%s/%s/%d/%d" % (what, form, clients, nodes)]
            lines.append("%d %f %f" % (clients, row.value("agent"), row.value("floor")))
    return lines


def counts(results):
    return sorted({nodes for _, _, nodes in table.cells(results)})


def clients_axis(results):
    shown = sorted({clients for form, clients, _ in table.cells(results) if form == "connections"})
    return "set xlabel 'clients'\nset xtics (%s)\nset xrange [%g:%g]\n" % (
        ", ".join(map(str, shown)), shown[0] / 1.3, shown[-1] * 1.3)


def latency(results, path):
    """Acquire, by clients; one panel for each number of nodes."""
    panels = counts(results)
    script = HEAD % (330 * len(panels), 520, path) + "set logscale xy\n" + clients_axis(results)
    script += "set multiplot layout 1,%d title 'acquire: the agent (red) and the bare floor'\n" % len(panels)
    for count in panels:
        for what, _, _ in QUANTILES:
            script += block("%s_%d" % (what, count), by_clients(results, what, count))
        script += "set title 'N=%d'\nset ylabel 'microseconds'\nplot " % count + ", ".join(
            "$%s_%d using 1:%d with linespoints lw 2 pt %d ps 0.6 dt %d lc rgb '%s' title '%s %s'" %
            (what, count, column, 5 + dash, dash, colour, series, title)
            for what, title, dash in QUANTILES
            for column, series, colour in ((2, "agent", AGENT), (3, "floor", FLOOR))) + "\n"
    gnuplot(script + "unset multiplot\n")


def pairs(results, path):
    script = HEAD % (640, 420, path) + "set logscale x\n" + clients_axis(results)
    script += "set yrange [0:*]\nset title 'acquire and release: pairs a second'\n"
    curves = []
    for dash, count in enumerate(counts(results), 1):
        script += block("pairs_%d" % count, by_clients(results, "pairs", count))
        curves += ["$pairs_%d using 1:%d with linespoints lw 2 pt %d ps 0.6 dt %d lc rgb '%s' "
                   "title '%s, N=%d'" % (count, column, 5 + dash, dash, colour, series, count)
                   for column, series, colour in ((2, "agent", AGENT), (3, "floor", FLOOR))]
    gnuplot(script + "plot " + ", ".join(curves) + "\n")


def bars(path, title, unit, values):
    """(label, value, colour): logarithmic, with the numbers."""
    script = HEAD % (640, 90 + 34 * len(values), path)
    script += "set title '%s'\nset xlabel '%s'\nset logscale x\n" % (title, unit)
    script += "unset key\nset style fill solid\n"
    numbers = [value for _, value, _ in values]
    script += "set yrange [%g:-0.5]\nset xrange [%g:%g]\nset grid noytics xtics\n" % (
        len(values) - 0.5, min(numbers) / 3, max(numbers) * 4)
    labels = []
    for at, (label, value, colour) in enumerate(values):
        labels.append("'%s' %d" % (label, at))
        corners = (at + 1, at - 0.3, value, at + 0.3, colour)
        script += "set object %d rectangle from graph 0, first %g to first %g, first %g " \
                  "fc rgb '%s'\n" % corners
        script += "set label %d ' %s' at first %g, first %d\n" % (at + 1, table.number(value), value, at)
    gnuplot(script + "set ytics (%s) scale 0\nplot NaN\n" % ", ".join(labels))


def peers(results, path):
    values = []
    for series in results.rows["peer_acquire"].series:
        colour = AGENT if series.startswith("agent") else FLOOR if series.startswith("floor") else OTHER
        values.append((series, results.rows["peer_acquire"].value(series), colour))
    bars(path, "acquire p50", "microseconds", sorted(values, key=lambda bar: bar[1]))


def handoffs(results, path):
    rows = results.rows
    values = [("a byte between two processes", rows["handoff_local_p50"].value("echo"), OTHER),
              ("agent, one host", rows["handoff_local_p50"].value("agent"), AGENT),
              ("floor, publish/subscribe", rows["handoff_remote_p50"].value("floor"), FLOOR),
              ("agent, two hosts", rows["handoff_remote_p50"].value("agent"), AGENT)]
    if "peer_handoff" in rows:
        measured = rows["peer_handoff"]
        values += [(name, measured.value(name), OTHER) for name in results.peers
                   if name in measured.series and not name.startswith("agent")]
    bars(path, "hand-off p50", "microseconds", values)


def draw(results, directory):
    """The names of the files."""
    if not shutil.which("gnuplot"):
        return ["(no plots: gnuplot is not installed)"]
    drawn = []
    for name, plot, wants in (("latency", latency, "pairs/"), ("pairs", pairs, "pairs/"),
                              ("handoff", handoffs, "handoff_remote_p50"), ("peers", peers, "peer_acquire")):
        if any(key.startswith(wants) for key in results.rows):
            plot(results, os.path.join(directory, name + ".svg"))
            drawn.append(name + ".svg")
    return drawn
