"""The lock clients that are tested beside the agents: kind, worker, and notes for the page."""

import concurrent.futures
import dataclasses
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"
PHP_LOCK = "/usr/share/php/Symfony/Component/Lock/autoload.php"
IOREDIS = "ioredis@5.9.2"
INSTALL_SECONDS = 60


class Absent(Exception):
    """The reason why a library is not tested."""


@dataclasses.dataclass
class Library:
    name: str       # as the page calls it
    kind: str       # as its worker calls it
    program: str    # its worker: worker.py, .js or .php
    nodes: int = 3
    key_format: str = "{name}"
    workers_a_process: int = 2
    name_of_lock: str = ""  # if another than usual
    advice: str = ""  # for the page: what to set, what to avoid

    @property
    def package(self):
        return self.kind if self.program == "worker.js" else None


LIBRARIES = (
    Library("redlock 4.2.0 (npm)", "redlock@4.2.0", "worker.js"),
    Library("redlock 5.0.0-beta.2 (npm)", "redlock@5.0.0-beta.2", "worker.js",
            advice="A failed try keeps its keys on a minority of the nodes while it retries, which delays "
                   "all others."),
    Library("@sesamecare-oss/redlock 1.4.0 (npm)", "@sesamecare-oss/redlock@1.4.0", "worker.js",
            advice="As redlock 5."),
    Library("redlock-universal 0.8.5 (npm)", "redlock-universal@0.8.5", "worker.js",
            advice="Do not reduce its quorum: a smaller one is not safe."),
    Library("redis-semaphore 5.8.0 (npm), RedlockMutex", "redis-semaphore@5.8.0", "worker.js",
            key_format="mutex:{name}"),
    Library("@microfleet/ioredis-lock 6.0.1 (npm)", "@microfleet/ioredis-lock@6.0.1", "worker.js", nodes=1),
    Library("redis-py, Lock", "RedisPyLock", "worker.py", nodes=1,
            advice="Give it a timeout: without one its key never expires."),
    Library("symfony/lock (PHP), CombinedStore", "symfony/lock", "worker.php", workers_a_process=1,
            advice="Its key is a sorted set. Set a read time-out on the Redis object: without one, a "
                   "hung node blocks the client."),
    Library("StackExchange.Redis, LockTake", "LockTake", "worker.py", nodes=1),
    Library("Redisson, RLock and RedissonRedLock", "Redisson", "worker.py",
            advice="Its key is a hash. While an agent's client holds the name, lock() of an RLock throws a "
                   "WRONGTYPE error: catch it and try again. RedissonRedLock waits."),
    Library("RedLock.net", "RedLockNet", "worker.py", key_format="redlock:{name}"),
    Library("redlock-rb (leandromoreira)", "RedlockRb", "worker.py",
            advice="Its extension sets a missing key again: it may come back as a holder after another "
                   "one."),
    Library("redlock-py (SPSCommerce)", "RedlockPy", "worker.py",
            advice="While a node is down it raises an error and leaves its keys, which block the name for "
                   "their ttl."),
    Library("redlock-php (ronnylt)", "RedlockPhp", "worker.py",
            advice="It needs 3 of 3, or 4 of 5 nodes."),
    Library("redsync (Go)", "Redsync", "worker.py"),
    Library("SETNX and GETSET, time in the value", "LegacySetnx", "worker.py", nodes=1,
            name_of_lock="legacy",
            advice="Only with legacy_setnx, see redlockd.conf(5). Without it such a client takes every "
                   "lease for an ended lock."),
)


def cache_of(package):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "redlockd-interop", package)


def module_of(package):
    return package.rsplit("@", 1)[0]


def install(package):
    """Installs a package of npm beside ioredis. Returns None, or the reason of the failure."""
    cache = cache_of(package)
    modules = os.path.join(cache, "node_modules")
    wanted = (module_of(package), "ioredis")
    if all(os.path.exists(os.path.join(modules, module, "package.json")) for module in wanted):
        return None
    os.makedirs(cache, exist_ok=True)
    try:
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--fetch-retries", "1",
                               "--fetch-retry-mintimeout", "1000", "--prefix", cache, package, IOREDIS],
                              cwd=cache, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return "npm did not reach its registry within %d s" % INSTALL_SECONDS
    if done.returncode != 0:
        complaints = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        return "npm could not install %s: %s" % (package, "; ".join(complaints[:2]))
    return None


def absences(libraries):
    """Installs missing packages. Returns by library the reason why it can't be tested, or None."""
    packages = [library for library in libraries if library.package]
    why = dict.fromkeys((library.name for library in libraries))
    if not shutil.which("node") or not shutil.which("npm"):
        why.update((library.name, "node and npm are not installed") for library in packages)
    else:
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(packages) or 1) as pool:
            why.update(zip((library.name for library in packages),
                           pool.map(install, (library.package for library in packages))))
    for library in libraries:
        if library.kind == "RedisPyLock" and subprocess.run([PYTHON, "-c", "import redis"],
                                                            capture_output=True).returncode != 0:
            why[library.name] = "python3-redis is not installed; tests/setup installs it"
        if library.program == "worker.php" and not (shutil.which("php") and os.path.exists(PHP_LOCK)):
            why[library.name] = "php, its redis or php-symfony-lock is missing; tests/setup installs them"
    return why


def command(library):
    """The worker's arguments in front, and its environment."""
    environment = dict(os.environ)
    program = os.path.join(HERE, library.program)
    if library.program == "worker.js":
        environment["NODE_PATH"] = os.path.join(cache_of(library.package), "node_modules")
        return ["node", program, library.kind], environment
    return [PYTHON if library.program == "worker.py" else "php", program, library.kind], environment
