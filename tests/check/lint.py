"""Form: manual pages, shell scripts, completion, line lengths, blanks."""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok, skip  # noqa: E402

SOURCE = sys.argv[1]
COLUMNS = 109
# Words for programs that readers had to decode: they report, get, consider and release instead.
DIALECT = re.compile(r"\b(told|tells?|heard|hears?|beliefs?|believ\w+|lets? go|whoever)\b", re.IGNORECASE)
# Functions whose time depends on the bytes, or that a compiler may leave out, with secrets.
COMPARISON = re.compile(r"\b(?:memcmp|bcmp|strn?(?:case)?cmp|bytes_equal)\s*\([^;{]*?"
                        r"(?:secret|password|credential|->value\b|resume_token)[^;{]*?\)")
CLEARING = re.compile(r"\b(?:explicit_bzero|bzero)\s*\(|\bmemset\s*\([^;,]*(?:secret|password)[^;,]*, 0,")
TEXTS = (".c", ".h", ".lua", ".py", ".sh", ".bash", ".md", ".build", ".txt", ".1", ".3", ".5", ".7", ".8",
         ".conf", ".service", ".socket")


def files():
    """The project's text files, by their path."""
    for directory, directories, names in os.walk(SOURCE):
        directories[:] = [name for name in directories
                          if not name.startswith((".git", "build", "__pycache__", "corpus"))]
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(TEXTS) or "." not in name:
                yield os.path.relpath(path, SOURCE)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def is_shell(path):
    first = read(path).split("\n", 1)[0]
    return bool(re.match(r"#!.*\b(sh|bash)\b", first)) or path.endswith((".sh", ".bash"))


def complaints(*command):
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def check_with(tool, paths, *command):
    for path in paths:
        if shutil.which(tool):
            equal(complaints(*command, path), [], "%s has nothing against %s" % (tool, path))
        else:
            skip("%s on %s" % (tool, path), "%s is not installed; tests/setup installs it" % tool)


def test_manual_pages():
    pages = [path for path in files() if re.search(r"\.[1-8]$", path)]
    ok(len(pages) >= 4, "the manual pages were found (%d)" % len(pages))
    check_with("mandoc", pages, "mandoc", "-Tlint", "-Wwarning")


def test_guarantees():
    """The page names the tests that show each guarantee: they exist."""
    page = read("units/redlock-guarantees.7")
    named = re.findall(r"[\w/-]+", " ".join(re.findall(r"Shown by (.*)", page)))
    places = "", "tests/integration/"
    ok(len(named) > 20, "redlock-guarantees(7) names its tests (%d)" % len(named))
    equal([name for name in named if not any(
        os.path.exists(os.path.join(SOURCE, place + name + ending))
        for place in places for ending in ("", ".py", ".c"))], [], "and each of them exists")


def test_scripts():
    scripts = [path for path in files() if is_shell(path)]
    ok(len(scripts) >= 3, "the shell scripts were found (%d)" % len(scripts))
    check_with("shellcheck", scripts, "shellcheck")


def test_form():
    for path in files():
        text = read(path)
        wrong = []
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                wrong.append("%d: blanks at the end" % number)
            if "\t" in line and not path.endswith("debian/rules"):  # a makefile
                wrong.append("%d: a tab" % number)
            if path.endswith((".c", ".h", ".lua", ".py")) and len(line) > COLUMNS:
                wrong.append("%d: %d columns" % (number, len(line)))
            if path.endswith((".c", ".h")) and line.strip() == "*/":
                wrong.append("%d: a comment that ends on a line of its own" % number)
        if not text.endswith("\n") or text.endswith("\n\n"):
            wrong.append("ends without, or with more than, one line break")
        equal(wrong, [], "%s is in form" % path)


def test_words():
    """An agent reports, a client gets, a node publishes, a holder releases: no personal verbs for these."""
    wrong = []
    for path in files():
        if path == os.path.join("tests", "check", "lint.py"):
            continue
        for number, line in enumerate(read(path).split("\n"), 1):
            wrong += ["%s:%d: %s" % (path, number, word) for word in DIALECT.findall(line)]
    equal(wrong, [], "no text uses dialect: told, heard, believe, let go, whoever")


def test_secrets():
    """The agent's lock values, resume tokens and passwords are compared and cleared by base/secret.h."""
    wrong = []
    for path in files():
        if not path.startswith("agent/") or not path.endswith((".c", ".h")) or path == "agent/base/secret.h":
            continue
        code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', read(path))
        wrong += ["%s: %s" % (path, call.split("\n")[0]) for kind in (COMPARISON, CLEARING)
                  for call in kind.findall(code)]
    equal(wrong, [], "secrets are compared and cleared by base/secret.h")


main(test_manual_pages, test_guarantees, test_scripts, test_form, test_words, test_secrets)
