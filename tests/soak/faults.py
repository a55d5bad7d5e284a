"""What goes wrong in the soak: each fault begins at a time that the seed gives, and ends by itself."""

import heapq
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import flood
import lab
from tap import note

FORMS = [*flood.FORMS, flood.CONNECTING]


class Stops:
    """When something could not answer: (what, begin, end). An answer may be late by as much."""

    def __init__(self):
        self.rows = []
        self.open = {}

    def begin(self, what):
        self.open.setdefault(what, lab.now())

    def end(self, what):
        self.rows.append((what, self.open.pop(what), lab.now()))

    def seconds(self, whats, begin, end):
        rows = self.rows + [(what, at, lab.now()) for what, at in self.open.items()]
        return sum(max(0, min(end, row[2]) - max(begin, row[1])) for row in rows if row[0] in whats)


class Link(lab.Proxy):
    """Between all agents, which know a node by the same address, and the node. Its faults are for one agent.
    A stream of which something was lost ends with the fault, as TCP does not lose bytes."""

    def __init__(self, node):
        self.victim = None  # whose process has the faults
        super().__init__(node)

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            pid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self.node.socket_path)
            except OSError:
                client.close()
                continue
            self.connections = [pair for pair in self.connections if pair[0].fileno() >= 0]
            self.connections.append((client, server))
            for arguments in (client, server, "deaf", pid), (server, client, "mute", pid):
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source, sink, swallowed, pid):
        torn = False
        try:
            while True:
                data = source.recv(65536)
                faulty = self.victim and self.victim.process.pid == pid
                swallows = faulty and getattr(self, swallowed)
                if not data or (torn and not swallows):
                    break
                torn = torn or swallows
                if self.delay and faulty:
                    time.sleep(self.delay)
                if not swallows:
                    sink.sendall(data)
        except OSError:
            pass
        lab.hang_up(source, sink)
        source.close()  # each thread its own


class Faults:
    def __init__(self, world, choose):
        self.world, self.choose = world, choose
        self.counts = {}
        self.ends = []     # (when, number, what ends the fault)
        self.number = 0
        self.emptied = {}  # nodes that were restarted empty, and when
        self.kinds = [
            (5, "client killed", self.kill_client), (4, "client stopped", self.stop_client),
            (2, "command killed", self.kill_command), (2, "command stopped", self.stop_command),
            (3, "agent killed", self.kill_agent), (3, "agent stopped", self.stop_agent),
            (2, "agent terminated", self.terminate_agent), (2, "agent reloaded", self.reload_agent),
            (3, "node restarted empty", self.empty_node), (4, "node stopped", self.stop_node),
            (1, "majority of nodes stopped", self.stop_majority),
            (1, "node's connections killed", self.kill_normal),
            (3, "link delayed", self.delay_link), (3, "link cut", self.cut_link),
            (2, "requests to a node lost", self.deafen_link), (2, "answers of a node lost", self.mute_link),
            (1, "flood by another user", self.flood)]

    def later(self, seconds, end):
        self.number += 1
        heapq.heappush(self.ends, (lab.now() + seconds, self.number, end))

    def step(self):
        """One more fault, if it can be now."""
        weights = [weight for weight, _, _ in self.kinds]
        _, name, begin = self.choose.choices(self.kinds, weights)[0]
        if begin():
            self.counts[name] = self.counts.get(name, 0) + 1

    def end_due(self):
        while self.ends and self.ends[0][0] <= lab.now():
            heapq.heappop(self.ends)[2]()

    def end_all(self):
        while self.ends:
            heapq.heappop(self.ends)[2]()

    # --- clients ---

    def kill_client(self):
        client = self.choose.choice(self.world.clients)
        client.kill()
        self.later(self.choose.random(), client.start)
        return True

    def stop_client(self):
        client = self.choose.choice(self.world.clients)
        return self.stop(client.process, client, self.choose.choice((0.1, 1, 3)))

    def command_client(self):
        """One that runs `redlock`, to which it passes on signals; None."""
        running = [client for client in self.world.clients
                   if client.has_command and client.process.poll() is None]
        return self.choose.choice(running) if running else None

    def kill_command(self):
        client = self.command_client()
        if client:
            client.process.send_signal(signal.SIGUSR1)
        return client

    def stop_command(self):
        client = self.command_client()
        if client:
            client.process.send_signal(signal.SIGUSR2)
        return client

    def stop(self, process, what, seconds):
        """Popen signals no process that has taken over a pid."""
        if what in self.world.stops.open or process.poll() is not None:
            return False
        self.world.stops.begin(what)  # before the signal: this process may be delayed in between
        process.send_signal(signal.SIGSTOP)

        def cont():
            process.send_signal(signal.SIGCONT)
            self.world.stops.end(what)
        self.later(seconds, cont)
        return True

    # --- agents ---

    def agent(self, spared=None):
        """One that runs."""
        running = [agent for agent in self.world.agents
                   if agent not in self.world.stops.open and agent != spared]
        return self.choose.choice(running) if running else None

    def stop_agent(self):
        agent = self.agent()
        return agent and self.stop(agent.process, agent, self.choose.choice((0.05, 0.5, 3)))

    def restart_later(self, agent):
        def start():
            agent.start()
            self.world.stops.end(agent)
        self.later(self.choose.choice((0, 0.3, 2)), start)

    def kill_agent(self):
        agent = self.agent(spared=self.world.lasting)
        if agent:
            self.world.stops.begin(agent)
            agent.kill()
            self.world.check_end(agent, -signal.SIGKILL)
            self.restart_later(agent)
        return agent

    def terminate_agent(self):
        agent = self.agent(spared=self.world.lasting)
        if agent:
            self.world.stops.begin(agent)  # what it has not answered by now its next process answers
            begun = lab.now()
            agent.terminate()
            if lab.now() - begun > 1:
                note("an agent took %.1f s to end" % (lab.now() - begun))
            self.world.check_end(agent, 0)
            self.restart_later(agent)
        return agent

    def reload_agent(self):
        agent = self.agent()
        if agent:
            agent.signal(signal.SIGHUP)
        return agent

    # --- nodes ---

    def empty_node(self):
        """At most two of five at a time, so that a quorum comes back."""
        now = lab.now()
        recent = [node for node, at in self.emptied.items() if now - at < self.world.quarantine_s]
        node = self.choose.choice(self.world.nodes)
        if node in self.world.stops.open or len(recent) >= 2:
            return False
        self.emptied[node] = now + 1
        node.kill()
        self.world.stops.begin(node)

        def start():
            node.start()
            self.world.stops.end(node)
        self.later(self.choose.choice((0, 1)), start)
        return True

    def stop_node(self):
        node = self.choose.choice(self.world.nodes)
        return self.stop(node.process, node, self.choose.choice((0.05, 0.3, 2)))

    def stop_majority(self):
        return [self.stop(node.process, node, 1.5) for node in self.choose.sample(self.world.nodes, 3)]

    def kill_normal(self):
        node = self.choose.choice(self.world.nodes)
        if node in self.world.stops.open:
            return False
        node.call("CLIENT", "KILL", "TYPE", self.choose.choice(("normal", "pubsub")))
        return True

    # --- the links to the nodes ---

    def link(self, attribute, fault, rest, seconds):
        link = self.choose.choice(self.world.links)
        if getattr(link, attribute) != rest:
            return False
        link.victim = self.choose.choice(self.world.agents)
        setattr(link, attribute, fault)
        self.later(seconds, lambda: setattr(link, attribute, rest))
        return True

    def delay_link(self):
        return self.link("delay", self.choose.choice((0.005, 0.03, 0.15)), 0.0, 2)

    def deafen_link(self):
        return self.link("deaf", True, False, self.choose.choice((0.3, 2)))

    def mute_link(self):
        return self.link("mute", True, False, self.choose.choice((0.3, 2)))

    def cut_link(self):
        self.choose.choice(self.world.links).cut()
        return True

    # --- other users ---

    def flood(self):
        agent = self.agent()
        if agent:
            seconds = self.choose.choice((0.5, 1.5))
            self.later(seconds + 1, Flood(self.world, agent, self.choose.choice(FORMS), seconds).end)
        return agent

    def flood_in_turn(self, agent):
        """With each form."""
        for form in FORMS:
            one = Flood(self.world, agent, form, 1)
            try:
                one.process.wait(5 * lab.SCALE)
            except subprocess.TimeoutExpired:
                pass  # it waits for a connection
            one.end()


class Flood:
    """From an unprivileged user (nobody) when this runs as root."""

    def __init__(self, world, agent, form, seconds):
        self.world, self.agent, self.form, self.begun = world, agent, form, lab.now()
        world.floods.append((self.begun, self.begun + seconds + 2))
        self.process = lab.spawn([sys.executable, flood.__file__, agent.socket_path, form, str(seconds)],
                                 stderr=subprocess.PIPE, text=True)

    def end(self):
        """A flood fails if it gets no connection: its agent was away, or nothing was flooded."""
        lab.end_process(self.process)
        said = self.process.stderr.read()
        self.process.stderr.close()
        was_away = self.world.stops.seconds([self.agent], self.begun, lab.now()) > 0
        if self.process.returncode not in (0, -signal.SIGKILL, flood.NO_LEASE) and not was_away:
            self.world.wrong.append("the flood '%s' fails with %d: %s" % (
                self.form, self.process.returncode, said.strip()[-200:]))
