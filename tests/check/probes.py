"""The probes for tracers are in the agent, with their arguments."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main  # noqa: E402

AGENT = sys.argv[1]
ARGUMENTS = {"grant": 4, "handoff": 4, "extend": 4, "loss": 5}


def test_notes():
    notes = subprocess.run(["readelf", "--notes", "--wide", AGENT], capture_output=True, text=True,
                           check=True, env=dict(os.environ, LC_ALL="C")).stdout
    found = re.findall(r"Provider: redlockd\s+Name: (\w+)\s+Location: \S+, Base: \S+ Semaphore: (\S+)\s+"
                       r"Arguments: ([^\n]*)", notes)
    equal({name: len(arguments.split()) for name, _, arguments in found}, ARGUMENTS,
          "each probe has a note with its arguments")
    equal([name for name, counter, _ in found if int(counter, 16) == 0], [],
          "and a counter, without which no argument is computed")


main(test_notes)
