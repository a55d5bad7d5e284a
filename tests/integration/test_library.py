"""Runs library.c, which prints TAP, against an agent with three nodes."""

import os
import sys

import lab

agent = lab.Agent(lab.nodes(3), lab.UNHURRIED)
process = lab.spawn([os.path.join(lab.BUILD, "tests", "integration", "library"), agent.socket_path,
                     str(agent.process.pid)])
sys.exit(process.wait())
