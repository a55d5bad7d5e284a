"""abi.py LIBRARY [--record]: libredlock.so has the binary interface that was recorded in libredlock.abi:
programs that were built with the former library run with this one. An addition is recorded anew with
--record; a change that breaks programs needs another soname."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import main, note, ok, skip  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = sys.argv[1]
RECORDED = os.path.join(HERE, "libredlock.abi")
PUBLIC = os.path.join(HERE, "..", "..", "client-lib", "redlock.h")  # all other types are the library's own
USAGE_ERROR, CHANGE, INCOMPATIBLE = 3, 4, 8  # bits of abidiff's exit status


def headers():
    """A directory with the public header alone."""
    directory = tempfile.TemporaryDirectory()
    shutil.copy(PUBLIC, directory.name)
    return directory


def record(directory):
    subprocess.run(["abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs",
                    "--no-parameter-names", "--headers-dir", directory, "--drop-private-types",
                    "--out-file", RECORDED, LIBRARY], check=True)


def test_interface():
    if not shutil.which("abidiff"):
        skip("the interface of libredlock.so",
             "abidiff is not installed; tests/setup installs it in Debian 12")
        return
    with headers() as directory:
        done = subprocess.run(["abidiff", "--headers-dir2", directory, "--drop-private-types", RECORDED,
                               LIBRARY], capture_output=True, text=True)
    for line in done.stdout.splitlines() if done.returncode else ():
        note(line)
    ok(done.returncode & USAGE_ERROR == 0,
       "abidiff compares the library with the record (%s)" % done.stderr.strip())
    ok(done.returncode & INCOMPATIBLE == 0, "programs built with the recorded library run with this one")
    ok(done.returncode & CHANGE == 0,
       "nothing was added or changed without a record: abi.py LIBRARY --record makes it")


if sys.argv[2:] == ["--record"]:
    with headers() as its_headers:
        record(its_headers)
else:
    main(test_interface)
