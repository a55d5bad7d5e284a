"""Other projects' lock clients beside the agents: both sides exclude each other, also while a node dies, and
after a killed holder the other side gets the name. redlock-interop(7) has the results."""

import concurrent.futures
import json
import os
import sys
import threading

from workers import AGENT, Worker, lab  # first: it makes the path of the others
from libraries import HERE, LIBRARIES, absences
from tap import SCALE, begins, equal, main, note, ok, skip, within

SECONDS = 30 if os.environ.get("REDLOCK_TEST_ALL") else 6
SECTION_MS, PAUSE_MS = 5, 20
TTL_MS = int(5000 * SCALE)
KILLED_TTL_MS = int(2000 * SCALE)
ONLY = sys.argv[1:]  # words of names
RESULTS = os.path.join(HERE, "results.json")


class Fleet:
    """Nodes, and two agents for each key_format."""

    def __init__(self, count, formats):
        self.nodes = lab.nodes(count)
        self.agents = {form: [self.agent(form), self.agent(form)] for form in formats}
        self.places = [node.socket_path for node in self.nodes]

    def agent(self, key_format):
        rule = 'rule "legacy" { legacy_setnx = yes }\n' if len(self.nodes) == 1 else ""
        return lab.Agent(self.nodes, lab.UNHURRIED + 'key_format = "%s"\n' % key_format + rule)


class Trial:
    """One library beside two agents, on a name of its own."""

    def __init__(self, library, fleet, resource, number):
        self.library, self.fleet, self.resource = library, fleet, resource
        self.agents = fleet.agents[library.key_format]
        # As a user would call it: the library adds its own prefix.
        self.name = library.name_of_lock or "name-%d" % number
        self.late_ms = None  # of the grant after a killed holder
        self.counts, self.facts = None, {"held by an agent": None, "a node down": "-"}

    def worker(self, ttl_ms):
        return Worker(self.library, self.resource, self.name, ttl_ms, self.fleet.places)

    def says(self, good, what):
        return ok(good, "%s: %s" % (self.library.name, what))

    def exclude(self, theirs):
        """Each direction once."""
        ours = [agent.client() for agent in self.agents]
        equal(theirs.do("try"), {"held": True}, "%s: takes a free name" % self.library.name)
        error = ours[0].acquire(self.name, "TTL", TTL_MS)
        begins(error, "BUSY", "%s: for an agent its lock is held" % self.library.name)
        ours[1].send("ACQUIRE", self.name, "TTL", TTL_MS, "WAIT", 20000)
        began = lab.now()
        theirs.do("release")
        grant = lab.as_map(ours[1].reply(30))
        self.says(isinstance(grant, dict), "a waiter gets the lease after its release")
        self.counts = {"wake_ms": round((lab.now() - began) * 1000, 1)}
        said = theirs.do("try")
        self.says(not said["held"], "it does not get a name that an agent's client holds")
        self.facts["held by an agent"] = "error" if "WRONGTYPE" in said.get("error", "") else "waits"
        ours[1].call("RELEASE", grant["id"])
        equal(theirs.do("wait"), {"held": True},
              "%s: gets the name after an agent's release" % self.library.name)
        theirs.do("release")
        for client in ours:
            client.close()

    def follow_killed(self):
        """A killed holder: its key expires."""
        theirs, ours = self.worker(KILLED_TTL_MS), self.agents[1].client()
        began = lab.now()
        theirs.do("wait")
        theirs.kill()
        grant = ours.acquire(self.name, "TTL", TTL_MS, "WAIT", 10 * KILLED_TTL_MS, timeout=30)
        took_ms = (lab.now() - began) * 1000
        self.says(isinstance(grant, dict), "after a killed holder the other side gets the name")
        within(took_ms, 0.9 * KILLED_TTL_MS, KILLED_TTL_MS + 3000 * SCALE,
               "%s: when its key has expired (ms)" % self.library.name)
        self.late_ms = took_ms - KILLED_TTL_MS
        ours.call("RELEASE", grant["id"])
        ours.close()

    def contend(self, together):
        """Two workers of the library, four of the agents' clients. All trials begin together."""
        library = self.library
        theirs = [self.worker(TTL_MS) for _ in range(2 // library.workers_a_process)]
        ours = Worker(AGENT, self.resource, self.name, TTL_MS, [agent.socket_path for agent in self.agents])
        together.wait()
        for worker in theirs:
            worker.begin("contend", SECONDS, SECTION_MS, PAUSE_MS, library.workers_a_process)
        ours.begin("contend", SECONDS, SECTION_MS, PAUSE_MS, 4)
        said = [worker.answer() for worker in theirs]
        mine = ours.answer()
        total = {key: sum(one[key] for one in said) for key in said[0]}
        written = int(self.resource.call("GET", "count:" + self.name) or 0)
        self.counts.update(theirs=total, ours=mine, lost=total["sections"] + mine["sections"] - written)
        for worker in (*theirs, ours):
            worker.kill()

    def judge(self):
        theirs, ours = self.counts["theirs"], self.counts["ours"]
        note("%s: %s" % (self.library.name, json.dumps(self.counts)))
        if theirs["overruns"] + ours["overruns"] > 0:
            skip("%s: no violation" % self.library.name, "the machine paused for longer than a lock's ttl")
            return
        equal((theirs["overlaps"] + ours["overlaps"], self.counts["lost"]), (0, 0),
              "%s: neither violations nor lost updates" % self.library.name)
        self.says(ours["sections"] > 0, "the agents' clients get their share beside it")

    def go_on(self):
        """Whether the library works without one of three nodes. On another name where possible,
        since a client of a dialect may have left keys."""
        theirs = self.before
        if self.library.program == "worker.py":
            theirs = Worker(self.library, self.resource, self.name + "-later", TTL_MS, self.fleet.places)
        said = theirs.do("wait")
        for _ in range(2):
            if not said["held"] and "error" not in said:
                said = theirs.do("wait")
        self.facts["a node down"] = "goes on" if said["held"] else "error" if "error" in said else "stops"
        theirs.kill()

    def run(self, together):
        try:
            self.before = self.worker(TTL_MS)
            self.exclude(self.before)
            self.follow_killed()
        except Exception:
            together.abort()
            raise
        self.contend(together)
        if self.library.nodes > 1:
            self.go_on()


def kill_in_the_middle(fleet, together):
    """For all contentions at once."""
    together.wait()
    lab.time.sleep(SECONDS / 2)
    fleet.nodes[-1].kill()


def judge_shares(trials):
    """The share of all libraries together, as one may have bad luck. Without the agents' pauses: a
    twentieth."""
    theirs, ours = (sum(trial.counts[side]["sections"] for trial in trials) for side in ("theirs", "ours"))
    within(theirs / (theirs + ours), 0.1, 1, "the libraries' share of all sections")


def compare(trials):
    """Compares the page with the results; REDLOCK_INTEROP_RECORD=1 writes them."""
    with open(RESULTS) as file:
        recorded = json.load(file)
    seen = {trial.library.name: trial.facts for trial in trials}
    if os.environ.get("REDLOCK_INTEROP_RECORD"):
        with open(RESULTS, "w") as file:
            json.dump({**recorded, **seen}, file, indent=1)
            file.write("\n")
        return
    for name, facts in seen.items():
        equal(facts, recorded.get(name), "%s: as in redlock-interop(7)" % name)


def test_libraries():
    libraries = [library for library in LIBRARIES if not ONLY or any(word in library.name for word in ONLY)]
    why = absences(libraries)
    resource = lab.Node("resource")
    formats = {count: {lib.key_format for lib in libraries if lib.nodes == count} for count in (1, 3)}
    fleets = {count: Fleet(count, formats[count]) for count in (1, 3)}
    trials = []
    for number, library in enumerate(libraries):
        if why[library.name]:
            skip(library.name, why[library.name])
        else:
            trials.append(Trial(library, fleets[library.nodes], resource, number))
    together = threading.Barrier(len(trials) + 1, timeout=120 * SCALE)
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(trials) + 1) as pool:
        killing = pool.submit(kill_in_the_middle, fleets[3], together)
        running = [pool.submit(trial.run, together) for trial in trials]
    for trial, done in zip(trials, running):
        error = done.exception()
        if error:
            ok(False, "%s: %r" % (trial.library.name, error))
        else:
            trial.judge()
    if not ONLY:
        late_ms = min((trial.late_ms for trial in trials if trial.late_ms is not None), default=0)
        ok(late_ms < 1000 * SCALE, "a killed holder's name is free soon (%.0f ms)" % late_ms)
    if not ONLY and all("ours" in (trial.counts or {}) for trial in trials):
        judge_shares(trials)
    if killing.exception():
        ok(False, "a node was killed: %r" % killing.exception())
    compare(trials)


main(test_libraries)
