"""install.py BUILD: what `meson install` puts where, and that the manual's examples build against it."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pages import displays  # noqa: E402
from tap import equal, main, ok  # noqa: E402

BUILD = sys.argv[1]
WANTED = ["redlockd", "redlock", "libredlock.a", "libredlock.so", "libredlock.so.0", "redlock.h",
          "libredlock.pc",
          "redlock.1", "libredlock.3", "redlockd.conf.5", "redlockd.8", "doc/redlockd/redlockd.conf",
          "sysusers.d/redlockd.conf", "bash-completion/completions/redlock",
          "redlockd.service", "redlockd.socket", "redlock-leader@.service", "redlock-leader@.service.8"]
directory = tempfile.mkdtemp(prefix="redlock-install-")


def run(*arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def installed(name):
    for where, _, names in os.walk(directory):
        for path in (os.path.join(where, file) for file in names):
            if path.endswith("/" + name):
                return path
    return None


def test_install():
    status, said = run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", directory)
    ok(status == 0, "meson install respects DESTDIR")
    equal([name for name in WANTED if not installed(name)], [], "everything is installed")
    status, said = run(installed("redlockd"), "--check-config",
                       "--config", installed("doc/redlockd/redlockd.conf"))
    equal((status, said), (0, ""), "the example configuration has no mistake")


def test_examples():
    examples = [text for section, text in displays("client-lib/libredlock.3") if section == "EXAMPLES"]
    ok(len(examples) >= 3, "the manual has examples (%d)" % len(examples))
    pkg_config = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(installed("libredlock.pc")),
                      PKG_CONFIG_SYSROOT_DIR=directory)
    _, flags = run("pkg-config", "--cflags", "--libs", "libredlock", env=pkg_config)
    for number, example in enumerate(examples, 1):
        path = os.path.join(directory, "example.c")
        with open(path, "w") as file:
            file.write(example)
        _, said = run("cc", "-Wall", "-Werror", path, "-o", path + ".out", *flags.split())
        equal(said, "", "example %d of libredlock(3) compiles against what is installed" % number)


try:
    main(test_install, test_examples)
finally:
    shutil.rmtree(directory)
