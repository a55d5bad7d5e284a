"""fuzz.py PROGRAM CORPUS: searches for an input that breaks a promise, beginning with the corpus, for
REDLOCK_FUZZ_SECONDS, or 7 s, or 60 s with REDLOCK_TEST_ALL=1, with inputs of up to REDLOCK_FUZZ_BYTES, or
4096. Prints a finding, which becomes a file of the corpus when the bug is mended."""

import base64
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import main, note, ok  # noqa: E402

PROGRAM, CORPUS = sys.argv[1:]
SECONDS = os.environ.get("REDLOCK_FUZZ_SECONDS") or ("60" if os.environ.get("REDLOCK_TEST_ALL") else "7")
INPUT_BYTES_MAX = os.environ.get("REDLOCK_FUZZ_BYTES") or "4096"


def test_search():
    with tempfile.TemporaryDirectory() as directory:
        found, finding = os.path.join(directory, "corpus"), os.path.join(directory, "finding-")
        os.mkdir(found)
        done = subprocess.run(
            [PROGRAM, "-max_total_time=" + SECONDS, "-max_len=" + INPUT_BYTES_MAX, "-print_final_stats=1",
             "-artifact_prefix=" + finding, found, CORPUS],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for name in sorted(os.listdir(directory)):
            if name.startswith("finding-"):
                with open(os.path.join(directory, name), "rb") as file:
                    note("%s, base64: %s" % (name, base64.b64encode(file.read()).decode()))
    count = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    coverage = re.findall(r"cov: (\d+)", done.stdout)
    if done.returncode != 0:
        note(done.stdout[-6000:])
    ok(done.returncode == 0 and count and int(count[1]) > 0,
       "%s: no finding in %s inputs, which reach %s places" % (
           os.path.basename(PROGRAM), count[1] if count else "no", coverage[-1] if coverage else "no"))


main(test_search)
