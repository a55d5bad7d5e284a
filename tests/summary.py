"""Adds up what the tests of all variants said (meson's testlog.json, each test's TAP), and shows what
failed and why."""

import json
import os
import re
import sys

passed = failed = skipped = 0
reasons = {}


def skip(what, why):
    global skipped
    skipped += 1
    reasons.setdefault(why, []).append(what)


def show(what, text):
    print("\n== failed: %s" % what)
    lines = text.splitlines()
    lines = [line for line in lines if not line.startswith("ok ")]
    print("\n".join(lines if len(lines) <= 300 else ["..."] + lines[-300:]))


def add_test(variant, test):
    """One program's points; a program that died, or timed out, without a failed point is one failure."""
    global passed, failed
    name = "%s (%s)" % (test["name"].split(":")[-1].strip(), variant)
    points = re.findall(r"^(not )?ok\b *\d* *-? *([^#\n]*)(?:# *(SKIP|TODO) *(.*))?$",
                        test.get("stdout", ""), re.M | re.I)
    failures = 0
    for bad, what, directive, why in points:
        if directive.upper() == "SKIP":
            skip("%s: %s" % (name, what.strip()), why.strip() or "no reason given")
        elif bad:
            failures += 1
        else:
            passed += 1
    whole = re.search(r"^1\.\.0 *# *SKIP *(.*)$", test.get("stdout", ""), re.M | re.I)
    if whole:
        skip(name, whole.group(1) or "no reason given")
    elif test["result"] not in ("OK", "SKIP") and failures == 0:
        failures = 1
    failed += failures
    if failures:
        show("%s: %s" % (name, test["result"]), test.get("stdout", "") + test.get("stderr", ""))


for variant in sys.argv[1:]:
    log = os.path.join("build-" + variant.replace(":", "-"), "meson-logs", "testlog.json")
    try:
        with open(log) as file:
            tests = [json.loads(line) for line in file]
    except (OSError, ValueError) as error:
        failed += 1
        print("\n== failed: %s was not built, or its tests did not run: %s" % (variant, error))
        continue
    before = passed, failed
    for test in tests:
        add_test(variant, test)
    print("%s: %d programs, %d passed, %d failed" % (variant, len(tests), passed - before[0],
                                                     failed - before[1]))
for why, what in reasons.items():
    print("skipped, %s: %s" % (why, "; ".join(what)))
print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
sys.exit(0 if passed and not failed else 1)
