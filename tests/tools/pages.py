"""The examples of the manual pages and of the README, taken from their sources: tests run the same text that
people read.

A test takes each one by a mark, a piece of text that no other example of the same page has, and says of
those that it does not run why. An example without a test, and a mark without an example, are failures."""

import os
import re
import shutil
import subprocess

from tap import equal, note, ok, skip

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PLACES = ("agent", "client-lib", "units")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def manual_pages():
    """Name -> path."""
    return {name: os.path.join(place, name) for place in PLACES
            for name in sorted(os.listdir(os.path.join(SOURCE, place))) if re.search(r"\.[1-8]$", name)}


def section(path, title):
    """The source of one section."""
    found = re.search(r"^\.Sh %s\n(.*?)(?=^\.Sh |\Z)" % re.escape(title), read(path), re.M | re.S)
    return found.group(1) if found else ""


def named(path):
    """The key of a page."""
    return re.findall(r"^\.Nm (\S+)", section(path, "NAME"), re.M)


def plain(text):
    """The text that mdoc makes of it."""
    become = {"e": "\\", "-": "-", " ": " ", "(dq": '"', "&": "", "\n": ""}
    return re.sub(r"\\(e|-| |\(dq|&|\n)", lambda found: become[found.group(1)], text)


def displays(path):
    """The texts that a page shows as input: (section, text) of each .Bd, and of each run of .Dl."""
    shown, section, block, run = [], "", None, []
    for line in read(path).split("\n"):
        if block is not None:
            if line == ".Ed":
                shown.append((section, plain("\n".join(block) + "\n")))
                block = None
            else:
                block.append(line)
            continue
        if line.startswith(".Dl "):
            run.append(plain(line[4:]))
            continue
        if run:
            shown.append((section, "\n".join(run) + "\n"))
            run = []
        if line.startswith(".Sh "):
            section = line[4:]
        elif line.startswith(".Bd "):
            block = []
    return shown


def indented_blocks(path):
    """The same of a text in Markdown: (heading, text)."""
    shown, heading, block = [], "", []
    for line in read(path).split("\n") + ["end"]:
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block:
            shown.append((heading, "\n".join(block).rstrip("\n") + "\n"))
            block = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return shown


def examples():
    """(page, section, text) of all."""
    for name, path in manual_pages().items():
        for section, text in displays(path):
            yield name, section, text
    for section, text in indented_blocks("README.md"):
        yield "README.md", section, text


def find(page, mark):
    """The one with this mark."""
    found = [text for name, _, text in examples() if name == page and mark in text]
    if len(found) != 1:
        raise LookupError("%d examples of %s have %r" % (len(found), page, mark))
    return found[0]


known = {}


def example(page, mark):
    """Decorates the function that runs the example; the function gets the text."""
    def know(run):
        known[page, mark] = run
        return run
    return know


def not_run(page, mark, why):
    known[page, mark] = lambda text: note("not run here: %s" % why)


def test_all():
    """Runs each example by its function."""
    left = dict(known)
    for page, section, text in examples():
        marks = [mark for name, mark in known if name == page and mark in text]
        if not ok(len(marks) == 1 and (page, marks[0]) in left,
                  "%s, %s: one test has the example: %s" % (page, section, text.split("\n")[0])):
            note("marks of this example: %s" % marks)
            continue
        run = left.pop((page, marks[0]))
        try:
            run(text)
        except Exception as error:  # the others are run all the same
            ok(False, "it runs: %r" % error)
    ok(not left, "each example of the tests is still there: %s" % sorted(left))


def test_sections():
    for name, path in manual_pages().items():
        ok(".Sh EXAMPLES\n" in read(path), "%s has examples" % name)


def test_shown():
    """A formatter breaks lines that are too long, also where that changes a shell's meaning."""
    for name, path in manual_pages().items():
        if not shutil.which("mandoc"):
            skip("%s as formatted" % name, "mandoc is not installed; tests/setup installs it")
            continue
        page = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=78", os.path.join(SOURCE, path)],
                              check=True, capture_output=True, text=True).stdout
        seen = {line.strip() for line in re.sub(".\b", "", page).split("\n")}
        lines = [line for _, text in displays(path) for line in text.split("\n")]
        broken = [line for line in lines if line.strip() not in seen]
        equal(broken, [], "%s shows each line of its examples as one" % name)
