"""install.py BUILD: what `meson install` puts where, and that the manual's examples build against it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from pages import displays, manual_pages, named, read  # noqa: E402
from tap import equal, main, ok  # noqa: E402

BUILD = sys.argv[1]
WANTED = ["redlockd", "redlock", "libredlock.a", "libredlock.so", "libredlock.so.0", "redlock.h",
          "libredlock.pc",
          "doc/redlockd/redlockd.conf", "doc/redlockd/releases.md", "doc/redlockd/protocol.md",
          "sysusers.d/redlockd.conf", "bash-completion/completions/redlock",
          "redlockd.service", "redlockd.socket", "redlock-leader@.service",
          "redlockd/redlock-alerts.yml", "redlockd/redlock-dashboard.json"]
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


def test_places():
    """Where the configuration and the socket are follows the directories that the build is given: in what is
    compiled, in units and pages."""
    build, tree = os.path.join(directory, "elsewhere"), os.path.join(directory, "tree")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    status, said = run("meson", "setup", build, source, "--prefix=/opt/r", "-Dsysconfdir=/opt/etc",
                       "-Dlocalstatedir=/opt/var", "-Dtests=false", "-Dwerror=false")
    equal(status, 0, "a build for other directories: %s" % said.strip().splitlines()[-1])
    with open(os.path.join(build, "compile_commands.json")) as file:
        commands = file.read()
    ok("/opt/etc/redlockd.conf" in commands and "/opt/var/run/redlockd/redlockd.sock" in commands,
       "is compiled with them")
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", tree, "--tags", "man,systemd")
    texts = {name: read(os.path.join(where, name)) for where, _, names in os.walk(tree) for name in names
             if "redlock" in name}
    usual = re.compile(r"(?<!/opt)/etc/redlock|(?<!/opt/var)/run/redlock|"
                       r"/usr/(libexec|share)/(doc/)?redlock")
    wrong = [name for name, text in texts.items() if usual.search(text)]
    equal([name for name in ("redlockd.service", "redlockd.8") if name not in texts], [],
          "the units and the pages")
    equal(wrong, [], "name no other")
    shutil.rmtree(tree)
    shutil.rmtree(build)


def test_manual():
    """Each page by each of its names, and those that pages refer to."""
    for page, path in manual_pages().items():
        for name in named(path):
            found = installed("man%s/%s.%s" % (page[-1], name, page[-1]))
            equal(found and os.path.basename(os.path.realpath(found)), page, "%s leads to its page" % name)
        references = re.findall(r"^\.Xr (redlock\S*|libredlock\S*) (\d)", read(path), re.M)
        equal([pair for pair in references if not installed("man%s/%s.%s" % (pair[1], *pair))], [],
              "the pages that %s refers to are there" % page)


def examples():
    """(page, text) of each in C."""
    for page, path in manual_pages().items():
        for section, text in displays(path):
            if page.endswith(".3") and section == "EXAMPLES":
                yield page, text


def test_examples():
    pkg_config = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(installed("libredlock.pc")),
                      PKG_CONFIG_SYSROOT_DIR=directory)
    _, flags = run("pkg-config", "--cflags", "--libs", "libredlock", env=pkg_config)
    for page, example in examples():
        path = os.path.join(directory, "example.c")
        with open(path, "w") as file:
            file.write(example)
        _, said = run("cc", "-Wall", "-Werror", path, "-o", path + ".out", *flags.split())
        equal(said, "", "the example of %s compiles against what is installed" % page)


try:
    main(test_install, test_places, test_manual, test_examples)
finally:
    shutil.rmtree(directory)
