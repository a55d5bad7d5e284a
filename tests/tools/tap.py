"""A producer of the Test Anything Protocol. Each test file ends with tap.main(test_one, test_two, ...)."""

import os
import sys
import threading
import traceback

SCALE = float(os.environ.get("REDLOCK_TEST_SCALE", "1"))  # larger on slow builds: times are stretched by it
_lock = threading.Lock()
_checks = 0
_failures = 0
_explanations = []


def ok(good, what):
    global _checks, _failures
    with _lock:  # checks of several threads are numbered in the order of their lines
        _checks += 1
        _failures += not good
        print("%s %d - %s\n" % ("ok" if good else "not ok", _checks, what), end="", flush=True)
    if not good:
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        print("# failed at %s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno), flush=True)
    return bool(good)


def equal(got, want, what):
    if not ok(got == want, what):
        print("#   got %r, want %r" % (got, want), flush=True)


def begins(got, prefix, what):
    if not ok(isinstance(got, (str, Exception)) and str(got).startswith(prefix), what):
        print("#   got %r, want %r..." % (got, prefix), flush=True)


def within(got, low, high, what):
    if not ok(low <= got <= high, "%s (%.3g, from %.3g to %.3g)" % (what, got, low, high)):
        print("#   out of range", flush=True)


def note(text):
    print("# %s\n" % text, end="", flush=True)


def on_failure(explain):
    """explain() returns text that helps to understand a failure, such as a log. Its last lines are printed
    when a test breaks off, before later tests write to the log or empty it, and at the end."""
    _explanations.append(explain)


def _explain(lines):
    for explain in _explanations:
        try:
            text = explain()
        except Exception as error:
            text = "no explanation: %s: %s" % (type(error).__name__, error)
        for line in text.splitlines()[-lines:]:
            note(line)


def skip(what, why):
    global _checks
    with _lock:
        _checks += 1
        print("ok %d - %s # SKIP %s\n" % (_checks, what, why), end="", flush=True)


def main(*tests):
    for test in tests:
        note("--- %s" % test.__name__)
        try:
            test()
        except Exception as error:
            number = traceback.extract_tb(error.__traceback__)[1].lineno
            text = " ".join(str(error).split())[:200]
            ok(False, "%s, line %d: %s: %s" % (test.__name__, number, type(error).__name__, text))
            for line in traceback.format_exc().splitlines():
                note(line)
            _explain(20)
    if _failures:
        _explain(100)
    print("1..%d" % _checks, flush=True)
    sys.exit(1 if _failures else 0)
