"""libredlock and the command across restarts of the agent: restarts.c prints TAP, and makes this program
kill and start the agent; then `redlock run`."""

import os
import subprocess
import sys

import lab

nodes = lab.nodes(3)
agent = lab.Agent(nodes, 'node_timeout = "1s"')


def follow(process):
    """Kills and starts the agent on request, and passes on the TAP lines."""
    number = 0
    for line in process.stdout:
        if line == "# kill\n":
            agent.kill()
        elif line == "# start\n":
            agent.start()
        elif not line.startswith("1.."):
            number += line.startswith(("ok", "not ok"))
            sys.stdout.write(line)
            continue
        else:
            break
        process.stdin.write("\n")
        process.stdin.flush()
    return number, process.wait()


def run_survives():
    """A command under `redlock run`, across two kills of the agent; whether it and a waiting one succeed."""
    process = lab.redlock(agent, "run", "-t", "5s", "kept", "--", "sh", "-c",
                          "echo $$; read line; echo $$ again", stdin=subprocess.PIPE)
    pid = process.stdout.readline()
    waiting = lab.redlock(agent, "run", "-w", "60s", "kept", "--", "true")
    lab.wait_for(lambda: agent.status()["waiters"] == 1, what="the second command")
    for _ in range(2):
        agent.kill()
        agent.start()
        lab.wait_for(lambda: agent.status()["leases"] == 1 and agent.status()["waiters"] == 1,
                     what="both commands' sessions")
    lab.wait_for(lambda: agent.status()["extensions"] > 2, seconds=30, what="extensions")  # beyond the ttl
    alive = process.poll() is None and waiting.poll() is None
    out, errors = process.communicate("go on\n", timeout=20 * lab.SCALE)
    waited = waiting.wait(20 * lab.SCALE)
    return (alive and out == pid.strip() + " again\n" and errors == "" and
            (process.returncode, waited) == (0, 0))


program = lab.spawn([os.path.join(lab.BUILD, "tests", "integration", "restarts"), agent.socket_path],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
count, status = follow(program)
survived = run_survives()
print("%s %d - redlock run: the command runs across kill -9 of the agent, and the next one still waits"
      % ("ok" if survived else "not ok", count + 1))
print("1..%d" % (count + 1))
sys.exit(status or not survived)
