"""Sums up the tests of all legs (meson's log of a run, each test's TAP): failures with reasons and the way
to repeat them, and skipped tests with reasons."""

import json
import re

LINES_SHOWN = 300  # of a failed program's output


class Summary:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons = {}
        self.failures = []  # (program, leg, what failed)

    def _skip(self, what, why):
        self.skipped += 1
        self.reasons.setdefault(why, []).append(what)

    def _add_program(self, leg, test):
        """A program that died, or timed out, without a failed point is one failure."""
        program = test["name"].split(" / ")[-1].split(":")[-1].strip()
        output = test.get("stdout", "")
        points = re.findall(r"^(not )?ok\b *\d* *-? *([^#\n]*)(?:# *(SKIP|TODO) *(.*))?$", output,
                            re.M | re.I)
        failures = []
        for bad, what, directive, why in points:
            if directive.upper() == "SKIP":
                self._skip("%s (%s): %s" % (program, leg, what.strip()), why.strip() or "no reason given")
            elif bad:
                failures.append(what.strip())
            else:
                self.passed += 1
        whole = re.search(r"^1\.\.0 *# *SKIP *(.*)$", output, re.M | re.I)
        if whole:
            self._skip("%s (%s)" % (program, leg), whole.group(1) or "no reason given")
        elif test["result"] not in ("OK", "SKIP") and not failures:
            failures.append("the program ended with %s" % test["result"])
        if not failures:
            return
        self.failed += len(failures)
        self.failures.append((program, leg, failures[0]))
        lines = (output + test.get("stderr", "")).splitlines()
        lines = [line for line in lines if not line.startswith("ok ")]
        print("\n== failed: %s (%s), %s" % (program, leg, test["result"]))
        print("\n".join(lines if len(lines) <= LINES_SHOWN else ["..."] + lines[-LINES_SHOWN:]))

    def add_log(self, leg, path):
        try:
            with open(path) as file:
                tests = [json.loads(line) for line in file]
        except (OSError, ValueError) as error:
            self.failed += 1
            self.failures.append(("", leg, "it was not built, or its tests did not run: %s" % error))
            return
        before = self.passed, self.failed
        for test in tests:
            self._add_program(leg, test)
        print("%s: %d programs, %d passed, %d failed" % (leg, len(tests), self.passed - before[0],
                                                         self.failed - before[1]))

    def add_status(self, leg, status):
        """For a leg that prints its own summary."""
        if status != 0:
            self.failed += 1
            self.failures.append(("", leg, "its exit status was %d" % status))
        else:
            self.passed += 1

    def show(self):
        """The last screen; the exit status."""
        for why, what in self.reasons.items():
            print("skipped, %s: %s" % (why, "; ".join(what)))
        for program, leg, what in self.failures:
            repeat = "tests/run --leg %s %s" % (leg, program)
            if leg == "debian13":
                repeat = "tests/run --debian13"
            print("FAILED %s (%s): %s\n       to repeat: %s" % (
                program or "the leg", leg, what, repeat.strip()))
        print("%d passed, %d failed%s" % (self.passed, self.failed,
                                          ", %d skipped" % self.skipped if self.skipped else ""))
        return 0 if self.passed and not self.failed else 1
