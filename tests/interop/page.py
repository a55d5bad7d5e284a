"""page.py [--check]: the tables of redlock-interop(7) from libraries.py and from the results of
test_interop.py. Writes them into the page, or compares them with the page."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from libraries import HERE, LIBRARIES  # noqa: E402
from tap import equal, main  # noqa: E402

PAGE = os.path.join(HERE, "..", "..", "units", "redlock-interop.7")
MARK = '.\\" --- %s: written by tests/interop/page.py ---\n'


def results():
    with open(os.path.join(HERE, "results.json")) as file:
        return json.load(file)


def cell(text):
    return text.replace("-", "\\-") if text == "-" else text


def table():
    seen = results()
    yield '.Bl -column "@microfleet/ioredis-lock 6.0.1 (npm)" "Nodes" "redlock:{name}" "a node down"\n'
    yield ".It Sy Client Ta Sy Nodes Ta Sy key_format Ta Sy a node down\n"
    for library in LIBRARIES:
        nodes = "one" if library.nodes == 1 else "all"
        yield ".It %s Ta %s Ta %s Ta %s\n" % (library.name.split(",")[0], nodes, library.key_format,
                                              cell(seen[library.name]["a node down"]))
    yield ".El\n"


def sentences(text):
    """mdoc needs each on a line of its own."""
    return "".join(part + "\n" for part in re.split(r"(?<=[.]) (?=[A-Z])", text))


def advice():
    yield ".Bl -tag -width Ds\n"
    for library in LIBRARIES:
        if library.advice:
            yield ".It %s\n%s" % (library.name, sentences(library.advice))
    yield ".El\n"


def filled(page):
    for name, lines in (("clients", table()), ("advice", advice())):
        mark = MARK % name
        start = page.index(mark) + len(mark)
        end = page.index('.\\" --- end ---\n', start)
        page = page[:start] + "".join(lines) + page[end:]
    return page


def test_page():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    equal(sorted(results()), sorted(library.name for library in LIBRARIES), "each client has a result")
    equal(page, filled(page), "redlock-interop(7) has the results")


def write():
    with open(PAGE, encoding="utf-8") as file:
        page = filled(file.read())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)


if sys.argv[1:] == ["--check"]:
    main(test_page)
write()
