"""worker.py KIND RESOURCE NAME TTL_MS PLACE...: a client of dialects.py that does what its standard input
says, and answers each line with one of JSON. worker.js and worker.php are the same for libraries.

    try              acquire at once, or not              {"held": true}
    wait             acquire, as patiently as it can      {"held": true}
    release                                               {"released": true}
    contend S MS P N N workers contend for S seconds      {"sections": 20, "overlaps": 0, ...}

A section is what mutual exclusion is for: on the server RESOURCE, which is no node, it reads a counter,
waits MS milliseconds, and writes the counter and one. `overlaps` counts sections that found another one
inside; a lost update shows in the counter. After each section a worker pauses for up to P milliseconds: one
that does not keeps the lock from clients that poll. `overruns` are sections that may have outlived their
lock, on a machine that stood still."""

import json
import random
import sys
import threading
import time

from dialects import KINDS, Connection, ServerError

KIND, RESOURCE, NAME, TTL_MS, *PLACES = sys.argv[1:]
TTL_MS = int(TTL_MS)
counts = dict.fromkeys(("sections", "overlaps", "gave_up", "errors", "overruns", "longest_wait_ms"), 0)
guard = threading.Lock()


def count(what, more=1):
    with guard:
        counts[what] += more


def section(resource, ms):
    if resource.call("INCR", "inside:" + NAME) != 1:
        count("overlaps")
    value = int(resource.call("GET", "count:" + NAME) or 0)
    time.sleep(ms / 1000)
    resource.call("SET", "count:" + NAME, value + 1)
    resource.call("DECR", "inside:" + NAME)
    count("sections")


def contend(until, ms, pause_ms, places):
    lock, resource = KINDS[KIND](places, NAME, TTL_MS), Connection(RESOURCE)
    wait_began = time.monotonic()
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            held = lock.acquire(True)
        except Exception:
            count("errors")
            time.sleep(0.1)
            continue
        waited_ms = int((time.monotonic() - wait_began) * 1000)
        with guard:
            counts["longest_wait_ms"] = max(counts["longest_wait_ms"], waited_ms)
        if not held:
            count("gave_up")
            continue
        acquired = time.monotonic()
        section(resource, ms)
        if time.monotonic() - acquired > 0.9 * TTL_MS / 1000:
            count("overruns")
        try:
            lock.release()
        except Exception:
            count("errors")
        time.sleep(random.uniform(0, pause_ms) / 1000)
        wait_began = time.monotonic()


def contend_all(seconds, ms, pause_ms, workers):
    until = time.monotonic() + float(seconds)
    # The workers of our own side are shared out among the agents.
    places = [PLACES if KIND != "Agent" else [PLACES[i % len(PLACES)]] for i in range(int(workers))]
    given = until, float(ms), float(pause_ms)
    threads = [threading.Thread(target=contend, args=(*given, place)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def main():
    lock = KINDS[KIND](PLACES, NAME, TTL_MS)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command, *given = line.split()
        try:
            if command == "release":
                lock.release()
                said = {"released": True}
            elif command == "contend":
                said = contend_all(*given)
            else:
                said = {"held": bool(lock.acquire(command == "wait"))}
        except (ServerError, OSError) as error:
            said = {"held": False, "error": str(error)}
        print(json.dumps(said), flush=True)


main()
