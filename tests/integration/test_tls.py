"""Nodes that speak TLS only, with this test's own certificates; and the messages about wrong ones."""

import os
import select
import shutil
import socket
import ssl
import subprocess
import threading

import lab
from tap import begins, equal, main, note, ok, skip

HOME = lab.path("certificates")


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], cwd=HOME, check=True, capture_output=True)


def request(name, *options):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=" + name, "-keyout", name + ".key", *options)


def make_ca(name):
    request(name, "-x509", "-days", "2", "-out", name + ".crt")


def make_certificate(name, ca, names):
    request(name, "-out", name + ".csr")
    with open(os.path.join(HOME, name + ".ext"), "w") as file:
        file.write("subjectAltName = %s\n" % names)
    openssl("x509", "-req", "-days", "2", "-in", name + ".csr", "-CA", ca + ".crt", "-CAkey", ca + ".key",
            "-CAcreateserial", "-extfile", name + ".ext", "-out", name + ".crt")


def at(name):
    return os.path.join(HOME, name)


def make_all():
    os.mkdir(HOME)
    for name in ("ours", "theirs"):
        make_ca(name)
    make_certificate("server", "ours", "DNS:localhost,DNS:redis.example,IP:127.0.0.1")
    make_certificate("elsewhere", "ours", "DNS:elsewhere.example")
    make_certificate("client", "ours", "DNS:client.example")
    make_certificate("stranger", "theirs", "DNS:client.example")


class TlsNode(lab.TcpNode):
    def __init__(self, name, clients="no", certificate="server"):
        super().__init__(name, "--tls-auth-clients", clients, "--tls-cert-file", at(certificate + ".crt"),
                         "--tls-key-file", at(certificate + ".key"), "--tls-ca-cert-file", at("ours.crt"),
                         port_option="--tls-port")


class Talkative:
    """Ends TLS in front of a plain node, and sends what nobody asked for, over each connection."""

    def __init__(self, node):
        self.name, self.node, self.unasked = node.name, node, b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(at("server.crt"), at("server.key"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, plain):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            try:
                server.connect(self.node.socket_path)
                with self.context.wrap_socket(plain, server_side=True) as client:
                    while self._relay(client, server):
                        pass
            except OSError:
                pass

    def _relay(self, client, server):
        ready = select.select([client, server], [], [], 0.02)[0]
        if self.unasked:
            client.sendall(self.unasked)
        for source, sink in ((client, server), (server, client)):
            if source in ready:
                data = source.recv(1 << 16)
                while data and source is client and client.pending():
                    data += client.recv(1 << 16)
                if not data:
                    return False
                sink.sendall(data)
        return True


def config(ca="ours", certificate=None, more=""):
    text = 'tls = yes tls_ca = "%s" %s' % (at(ca + ".crt"), more)
    if certificate:
        text += ' tls_cert = "%s" tls_key = "%s"' % (at(certificate + ".crt"), at(certificate + ".key"))
    return text


def built_with_tls():
    path = lab.path("tls.conf")
    with open(path, "w") as file:
        file.write('node a { address = h tls = yes }\n')
    done = subprocess.run([lab.REDLOCKD, "--check-config", "--config", path], capture_output=True, text=True)
    if done.returncode == 0:
        return True
    ok("built without TLS" in done.stderr, "without TLS in the build the configuration reports that: %s" %
       done.stderr.strip())
    return False


def reason(agent, part, name="a"):
    """Waits until NODES has the reason."""
    try:
        return agent.wait_node(name, reason=part, seconds=15)["reason"]
    except TimeoutError:
        return agent.node_states()[name]["reason"]


def shows(node, node_config, part, what):
    agent = lab.Agent([node], node_config=node_config)
    text = reason(agent, part)
    ok(part in text, "%s: %s" % (what, text))
    ok(agent.status()["voting"] == 0, "and does not vote")
    agent.terminate()


def test_it_works():
    nodes = [TlsNode(name) for name in "abc"]
    agent = lab.Agent(nodes, lab.UNHURRIED, node_config=config())
    agent.wait_voting(3)
    client = agent.client(3)
    times = []
    for i in range(50):
        begun = lab.now()
        grant = client.acquire("tls %d" % i)
        times.append(lab.now() - begun)
        client.call("RELEASE", grant["id"])
    note("acquire, median of 50: %.2f ms" % (1000 * lab.median(times)))
    ok(min(times) < 0.05 * lab.SCALE, "leases are granted over TLS")
    grants = [client.acquire("many %d" % i, "TTL", 6000, "DATA", "x" * 500) for i in range(600)]
    before = agent.status()["extensions"]
    lab.wait_for(lambda: agent.status()["extensions"] >= before + 1800, seconds=30,
                 what="three rounds of extensions")
    ok(all(client.call("CHECK", grant["id"]) > 0 for grant in grants),
       "600 are extended, in commands of more than one TLS record")
    nodes[1].kill()
    agent.wait_voting(2)
    nodes[1].start()
    agent.wait_voting(3)
    ok(client.call("CHECK", grants[0]["id"]) > 0, "a node that restarts is connected again")
    lab.wait_for(lambda: "connection lost: " in agent.log_text(), what="the log of the connection's end")
    ok("TLS fails" not in agent.log_text(), "and the connection's end was no TLS end")
    equal([client.call("RELEASE", grant["id"]) for grant in grants], [1] * 600, "all are released")
    lab.wait_for(lambda: lab.keys_on(nodes, "many 599") == 0, what="the end of the keys")
    equal(agent.terminate(), 0, "the agent exits with 0")


def channels(node):
    return int(node.call("INFO", "stats").split("pubsub_channels:")[1].split()[0])


def test_wake_up():
    nodes = [TlsNode(name) for name in "abc"]
    agents = [lab.Agent(nodes, node_config=config()) for _ in range(2)]
    for agent in agents:
        agent.wait_voting(3)
    holder, waiter = (agent.client(3) for agent in agents)
    count = 1000
    for client in (holder, waiter):
        for i in range(count):
            client.send("ACQUIRE", "for several TLS records %d" % i, "WAIT", -1, "ASYNC")
        for i in range(count):
            client.reply()
        if client is holder:
            for i in range(count):
                client.push("granted")
    lab.wait_for(lambda: all(channels(node) > count for node in nodes), what="the subscriptions")
    ok(True, "%d names are subscribed to over TLS" % count)
    holder.close()
    for i in range(count):
        waiter.push("granted")
    ok(True, "and all are granted when they are released")
    for agent in agents:
        agent.terminate()


def test_certificates():
    node = TlsNode("a")
    shows(node, config("theirs"), "not trusted", "a CA that did not sign the server's certificate")
    shows(node, "tls = yes", "not trusted", "the system's CAs")
    shows(node, config(more="tls_name = other.example"), 'not for "other.example"',
         "another name than the server's")
    for name in ("localhost", "redis.example", "127.0.0.1"):
        agent = lab.Agent([node], node_config=config(more="tls_name = " + name))
        agent.wait_voting(1)
        ok(True, "tls_name = %s is in its certificate" % name)
        agent.terminate()
    node = TlsNode("a", certificate="elsewhere")
    shows(node, config(), 'not for "127.0.0.1"', "a certificate of another host")


def test_client_certificates():
    node = TlsNode("a", clients="yes")
    shows(node, config(), "demands a certificate of us", "no client certificate")
    shows(node, config(certificate="stranger"), "refuses our certificate",
         "a client certificate of another CA")
    agent = lab.Agent([node], lab.UNHURRIED, node_config=config(certificate="client"))
    agent.wait_voting(1)
    ok(isinstance(agent.client().acquire("known"), dict), "the right client certificate works")
    agent.terminate()


def test_plain_beside_tls():
    agent = lab.Agent([TlsNode("a")], node_config="")
    text = reason(agent, "TLS")
    ok("TLS" in text, "a plain connection to a TLS port: %s" % text)
    agent.terminate()


def test_tls_to_plain():
    """Redis answers at the first line end: the random bytes of a handshake may have none."""
    shows(lab.TcpNode("a"), config(), "tls = no", "TLS to a plain port")


def test_silence():
    """Ports that accept connections and send nothing: the handshake waits, and nothing else does."""
    class Silent:
        def __init__(self, name):
            self.name = name
            self.listener = socket.socket()
            self.listener.bind(("127.0.0.1", 0))
            self.listener.listen(64)
            self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]

    agent = lab.Agent([TlsNode(name) for name in "abc"] + [Silent("d"), Silent("e")], lab.UNHURRIED,
                      node_config=config())
    agent.wait_voting(3)
    client = agent.client(3)
    worst = 0
    for i in range(300):
        begun = lab.now()
        grant = client.acquire("beside %d" % i)
        worst = max(worst, lab.now() - begun)
        client.call("RELEASE", grant["id"])
    ok(worst < 0.5 * lab.SCALE,
       "two nodes of five that never shake hands delay no request (worst of 300: %.1f ms)" % (1000 * worst))
    text = reason(agent, "does not answer", "d")
    ok("does not answer" in text, "NODES shows: %s" % text)
    agent.terminate()


def test_unasked():
    node = Talkative(lab.Node("c"))
    agent = lab.Agent([TlsNode("a"), TlsNode("b"), node], node_config=config())
    agent.wait_voting(3)
    client = agent.client(3)
    kept = client.acquire("kept", "TTL", 6000, "WAIT", 10000)
    for answer in (b":1\r\n", b"$3\r\nabc\r\n", b"*2\r\n:1\r\n:2\r\n", b"*2000\r\n", b"-ERR no\r\n"):
        node.unasked = answer
        agent.wait_node("c", state="connecting")
        text = reason(agent, "", "c")
        node.unasked = b""
        agent.wait_voting(3)
        ok(client.call("CHECK", kept["id"]) > 0,
           "%r that nobody asked for costs a vote, and nothing else: %s" % (answer, text))
    agent.terminate()


def test_renewal():
    for name in ("ca.crt", "cert.crt", "cert.key"):
        shutil.copy(at({"ca.crt": "ours.crt", "cert.crt": "stranger.crt", "cert.key": "stranger.key"}[name]),
                    at(name))
    node = TlsNode("a", clients="yes")
    agent = lab.Agent([node], node_config='tls = yes tls_ca = "%s" tls_cert = "%s" tls_key = "%s"' %
                      (at("ca.crt"), at("cert.crt"), at("cert.key")))
    reason(agent, "refuses our certificate")
    with open(at("cert.crt"), "w") as file:
        file.write("not a certificate\n")
    lab.wait_for(lambda: "tls_cert has changed" in agent.log_text(), what="the warning of a broken file")
    begun = lab.now()

    def refused():
        """From an attempt that has ended since."""
        node = agent.node_states()["a"]
        return node if node["state"] == "connecting" and node["since"] < 1000 * (lab.now() - begun) else None

    begins(lab.wait_for(refused, what="another try")["reason"], "refuses our certificate",
           "with a broken file the agent keeps the former one")
    for name in ("crt", "key"):
        shutil.copy(at("client." + name), at("new"))
        os.rename(at("new"), at("cert." + name))
    agent.wait_voting(1)
    ok(True, "with a new certificate it votes, without a restart")
    equal(agent.terminate(), 0, "the agent exits with 0")


def test_files_break_before_the_node_is_there():
    shutil.copy(at("ours.crt"), at("early.crt"))
    node = TlsNode("a")
    node.kill()
    agent = lab.Agent([node], lab.UNHURRIED, keepers=1,
                      node_config='tls = yes tls_ca = "%s"' % at("early.crt"))
    agent.wait_node("a", reason="efused")
    with open(at("early.crt"), "w") as file:
        file.write("not a certificate\n")
    node.start()
    agent.wait_voting(1)
    ok("tls_ca has changed" in agent.log_text(), "the file as it was at the start is in use: %s" %
       agent.node_states()["a"]["state"])
    node.call("SET", "foreign", "value")
    waiter = lab.wait_at(agent, "foreign")
    lab.wait_for(lambda: channels(node) > 0, what="the subscription")
    ok(True, "also for messages")
    waiter.close()
    agent.terminate()


def tests():
    plain = [test_plain_beside_tls]
    if shutil.which("openssl") is None:
        return [lambda: skip("TLS", "openssl is not installed; tests/setup installs it")]
    make_all()
    if built_with_tls():
        return plain + [test_it_works, test_wake_up, test_certificates, test_client_certificates,
                        test_tls_to_plain, test_silence, test_unasked, test_renewal,
                        test_files_break_before_the_node_is_there]
    return plain + [lambda: skip("TLS", "this build has no TLS: hiredis_ssl needs hiredis 1.0 or later")]


main(*tests())
