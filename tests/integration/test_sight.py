"""redlock_valid() in a C program of its own (sight.c), which prints TAP itself."""

import os
import sys

import lab

agent = lab.Agent(lab.nodes(3))
process = lab.spawn([os.path.join(lab.BUILD, "tests", "integration", "sight"), agent.socket_path,
                     str(agent.process.pid)])
sys.exit(process.wait())
