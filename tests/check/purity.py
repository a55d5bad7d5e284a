"""The pure layers link against nothing that has a clock, a descriptor, an allocator, a lock or a log;
and they keep no state."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, ok  # noqa: E402

# From the C library and the compiler. snprintf() formats messages for people,
# which are composed in the pure layers.
ALLOWED = re.compile(r"^(__assert_fail|__stack_chk_fail|__popcountdi2|_GLOBAL_OFFSET_TABLE_|"
                     r"mem(cpy|cmp|move|set|chr)|bcmp|explicit_bzero|strlen|strcmp|strncmp|v?snprintf|"
                     r"__(mem|explicit_bzero|v?snprintf)\w*_chk)$")


def nm(*arguments):
    out = subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True).stdout
    return [line.split() for line in out.splitlines() if line and not line.endswith(":")]


def test_imports():
    defined = {row[-1] for library in sys.argv[1:] for row in nm("--defined-only", library)}
    for library in sys.argv[1:]:
        imports = {row[-1] for row in nm("-u", library)}
        ok(len(imports) > 0, "%s was read" % os.path.basename(library))
        foreign = sorted(name for name in imports - defined if not ALLOWED.match(name))
        equal(foreign, [], "%s imports nothing impure" % os.path.basename(library))


def test_state():
    for library in sys.argv[1:]:
        # d and D are writable, but for relocated constants: those are in
        # .data.rel.ro, which nm shows by `-f sysv`.
        out = subprocess.run(["nm", "-f", "sysv", library],
                             capture_output=True, text=True, check=True).stdout
        state = []
        for line in out.splitlines():
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 7 and fields[6].startswith((".data", ".bss", "*COM*", ".tbss", ".tdata")) and \
                    not fields[6].startswith(".data.rel.ro"):
                state.append(fields[0])
        equal(state, [], "%s has no static variable" % os.path.basename(library))


main(test_imports, test_state)
