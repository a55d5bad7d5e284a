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


SECTION = re.compile(r" *\[ *(\d+)\] (\.\S+) ")
SYMBOL = re.compile(r" *\d+: [0-9a-f]+ +\S+ (?P<type>\w+) +(?P<bind>\w+) +\w+ +(?P<section>\w+) "
                    r"(?P<name>\S+)")
STATE = (".data", ".bss", "COM", ".tbss", ".tdata")
CONSTANT = ".data.rel.ro"  # but for its relocations


def symbols(library):
    """(name, bind, section) of each symbol of the machine code. nm(1) shows another form of it, for
    optimization at link time, where objects have both."""
    out = subprocess.run(["readelf", "--wide", "--sections", "--symbols", library],
                         capture_output=True, text=True, check=True).stdout
    sections, found = {}, []
    for line in out.splitlines():
        section, symbol = SECTION.match(line), SYMBOL.match(line)
        if line.startswith("File:"):
            sections = {}
        elif section:
            sections[section[1]] = section[2]
        elif symbol and symbol["type"] not in ("SECTION", "FILE"):
            place = symbol["section"]
            found.append((symbol["name"], symbol["bind"], sections.get(place, place)))
    return found


def test_imports():
    defined = {name for library in sys.argv[1:] for name, bind, section in symbols(library)
               if bind != "LOCAL" and section != "UND"}
    for library in sys.argv[1:]:
        imports = {name for name, bind, section in symbols(library) if section == "UND"}
        ok(len(imports) > 0, "%s was read" % os.path.basename(library))
        foreign = sorted(name for name in imports - defined if not ALLOWED.match(name))
        equal(foreign, [], "%s imports nothing impure" % os.path.basename(library))


def test_state():
    for library in sys.argv[1:]:
        state = [name for name, bind, section in symbols(library)
                 if section.startswith(STATE) and not section.startswith(CONSTANT)]
        equal(state, [], "%s has no static variable" % os.path.basename(library))


main(test_imports, test_state)
