"""Starts the workers of worker.py, worker.js and worker.php."""

import json
import os
import sys
from subprocess import PIPE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import lab  # noqa: E402
from libraries import Library, command  # noqa: E402

AGENT = Library("agent", "Agent", "worker.py")


class Worker:
    """A client of one side, which does one thing after another."""

    def __init__(self, library, resource, name, ttl_ms, places):
        arguments, environment = command(library)
        self.process = lab.spawn([*arguments, resource.socket_path, name, str(ttl_ms), *places], text=True,
                                 bufsize=1, stdin=PIPE, stdout=PIPE, env=environment)
        self.answer()

    def begin(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the worker ended")
        return json.loads(line)

    def do(self, *words):
        self.begin(*words)
        return self.answer()

    def kill(self):
        lab.end_process(self.process)
