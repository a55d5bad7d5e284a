"""The simulator's node beside a real server (tests/sim/conformance.c), which prints TAP itself."""

import os
import sys

import lab

node = lab.Node("real")
process = lab.spawn([os.path.join(lab.BUILD, "tests", "sim", "conformance"), node.socket_path, "1",
                     str(int(2000 / lab.SCALE))])
sys.exit(process.wait())
