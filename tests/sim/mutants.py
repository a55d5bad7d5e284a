"""mutants.py [--runs N] [--sample N] [--seed N] [--only PATH] [--compiler CC]: makes mutants of the pure
layers, runs the simulator on each, and prints the score and the survivors.

A mutant has one change: a comparison is flipped, or its bound moves by one; `&&` becomes `||` or the
reverse; an early return is dropped. tests/sim/mutations.py has the bugs that were thought of; this script
shows what neither it nor the simulator thinks of. A survivor is a gap of the simulator, code that the
simulator does not run (unit tests do), or an equivalent."""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import resource
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MUTATED = ("agent/core", "agent/local")
COMPILED = ("agent/base", "agent/core", "agent/local", "tests/sim")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-w"]
CPU_SECONDS_PER_RUN = 0.01  # ten times the usual: what takes longer hangs

FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
MOVED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OTHER = {"&&": "||", "||": "&&"}
OPERATOR = re.compile(r" (<=|>=|==|!=|<|>|&&|\|\|) ")
RETURN = re.compile(r"^ {8,}return\b[^;]*;$")

Mutant = collections.namedtuple("Mutant", "path line kind text")


def sources():
    """Of the simulator, without the program that compares its nodes with real ones."""
    found = [os.path.relpath(os.path.join(place, name), SOURCE) for part in COMPILED
             for place, _, names in os.walk(os.path.join(SOURCE, part)) for name in names
             if name.endswith(".c") and name != "conformance.c"]
    return sorted(found) + ["client-lib/resp.c"]


def is_code(line):
    """Not a comment, a preprocessor's line or an assertion: a mutant of an assertion is no bug."""
    words = line.strip()
    return bool(words) and not words.startswith(("/*", "*", "#", "//")) and "assert" not in words


def blank_strings(line):
    """The line with its literals and comments replaced, so that no operator is found there."""
    return re.sub(r'"(\\.|[^"\\])*"|/\*.*?(\*/|$)', lambda found: "_" * len(found.group()), line)


def mutants_of(path):
    """Every mutant of one file."""
    with open(os.path.join(SOURCE, path)) as file:
        lines = file.read().split("\n")
    in_comment = False
    for number, line in enumerate(lines):
        was_in_comment, in_comment = in_comment, (in_comment or "/*" in line) and "*/" not in line
        if was_in_comment or not is_code(line):
            continue
        for found in OPERATOR.finditer(blank_strings(line)):
            operator = found.group(1)
            for kind, table in (("flipped", FLIPPED), ("moved", MOVED), ("other operator", OTHER)):
                if operator in table:
                    changed = line[:found.start(1)] + table[operator] + line[found.end(1):]
                    yield Mutant(path, number, kind, changed)
        if RETURN.match(line):
            yield Mutant(path, number, "return dropped", re.sub(r"return\b[^;]*;", ";", line))


def all_mutants(only):
    paths = [os.path.relpath(os.path.join(place, name), SOURCE) for part in MUTATED
             for place, _, names in os.walk(os.path.join(SOURCE, part)) for name in names
             if name.endswith((".c", ".h"))]
    return [mutant for path in sorted(paths) if only in path for mutant in mutants_of(path)]


class Base:
    """The objects of the sources as they are, and which of them each header is in."""

    def __init__(self, compiler, directory):
        self.compiler, self.directory = compiler, directory
        self.objects, self.users = {}, collections.defaultdict(set)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for source, headers in zip(sources(), pool.map(self.compile_base, sources())):
                for header in headers:
                    self.users[header].add(source)

    def compile(self, source, object_path, first=None):
        """`first`: a directory whose headers are found before the usual ones."""
        places = [os.path.join(first, part) for part in ("agent", "client-lib")] if first else []
        places += [os.path.join(SOURCE, part) for part in ("agent", "client-lib", "tests/sim")]
        return subprocess.run([self.compiler, *FLAGS, *("-I" + place for place in places), "-MMD", "-c",
                               source, "-o", object_path], capture_output=True, text=True)

    def compile_base(self, source):
        self.objects[source] = os.path.join(self.directory, source.replace("/", "_")[:-2] + ".o")
        done = self.compile(os.path.join(SOURCE, source), self.objects[source])
        assert done.returncode == 0, done.stderr
        with open(self.objects[source][:-2] + ".d") as file:
            return {os.path.relpath(word, SOURCE) for word in file.read().replace("\\\n", " ").split()
                    if word.endswith(".h")}

    def build(self, mutant, directory):
        """The mutant's simulator; None: it does not compile."""
        changed = os.path.join(directory, mutant.path)
        os.makedirs(os.path.dirname(changed))
        with open(os.path.join(SOURCE, mutant.path)) as file:
            lines = file.read().split("\n")
        lines[mutant.line] = mutant.text
        with open(changed, "w") as file:
            file.write("\n".join(lines))
        objects = dict(self.objects)
        users = {mutant.path} if mutant.path.endswith(".c") else self.users[mutant.path]
        for source in users:
            place = changed if source == mutant.path else os.path.join(SOURCE, source)
            objects[source] = os.path.join(directory, source.replace("/", "_") + ".o")
            if self.compile(place, objects[source], directory).returncode != 0:
                return None
        program = os.path.join(directory, "sim")
        linked = subprocess.run([self.compiler, *objects.values(), "-o", program], capture_output=True)
        return program if linked.returncode == 0 else None


def judge(base, mutant, runs):
    """What became of the mutant: `killed by …`, `survived` or `does not compile`."""
    with tempfile.TemporaryDirectory(prefix="redlock-mutant-") as directory:
        program = base.build(mutant, directory)
        if not program:
            return "does not compile"
        seconds = int(10 + runs * CPU_SECONDS_PER_RUN)
        done = subprocess.run(
            [program, "--runs", str(runs), "--expect-violation"], capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)))
        if done.returncode == 0:
            return "killed by an invariant after %s" % done.stdout.strip()
        return "survived" if done.returncode == 1 else "killed by signal %d" % -done.returncode


def print_score(results):
    """By file and by kind."""
    for what, key in (("file", lambda mutant: mutant.path), ("change", lambda mutant: mutant.kind)):
        counts = collections.defaultdict(lambda: [0, 0])
        for mutant, result in results:
            counts[key(mutant)][0] += result != "survived"
            counts[key(mutant)][1] += 1
        print("\n%-44s killed of" % what)
        for name, (killed, count) in sorted(counts.items()):
            print("%-44s %6d %2d" % (name, killed, count))
    killed = sum(result != "survived" for _, result in results)
    print("\nscore: %d of %d, %d %%" % (killed, len(results), 100 * killed // max(1, len(results))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000, help="schedules for each mutant")
    parser.add_argument("--sample", type=int, help="so many mutants, at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="", help="files whose path has this")
    parser.add_argument("--compiler", default="cc")
    options = parser.parse_args()
    mutants = all_mutants(options.only)
    if options.sample and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    results = []
    with tempfile.TemporaryDirectory(prefix="redlock-mutants-") as directory, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        base = Base(options.compiler, directory)
        for mutant, result in zip(mutants, pool.map(lambda one: judge(base, one, options.runs), mutants)):
            print("%s:%d: %s: %s: %s" % (mutant.path, mutant.line + 1, mutant.kind, result,
                                         mutant.text.strip()))
            sys.stdout.flush()
            if result != "does not compile":
                results.append((mutant, result))
    print_score(results)


main()
