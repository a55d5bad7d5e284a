#!/usr/bin/env python3
"""embed.py OUT NAME.lua...: writes a C file with script_sources[] (io/node/script.h), in the order given."""

import hashlib
import os
import sys


def c_string(data):
    out = []
    for line in data.splitlines(keepends=True):
        text = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        out.append('    "%s"' % text)
    return "\n".join(out)


def main():
    out, paths = sys.argv[1], sys.argv[2:]
    hashes = []
    with open(out, "w") as c:
        c.write('#include "io/node/script.h"\n\n')
        for i, path in enumerate(paths):
            with open(path) as file:
                script = file.read()
            hashes.append(hashlib.sha1(script.encode()).hexdigest())
            c.write("static const char script_%d[] =\n%s;\n\n" % (i, c_string(script)))
        c.write("const struct script_source script_sources[SCRIPTS_COUNT] = {\n")
        for i, path in enumerate(paths):
            name = os.path.splitext(os.path.basename(path))[0]
            c.write('    [SCRIPT_%s] = {"%s", script_%d, sizeof(script_%d) - 1, "%s"},\n' %
                    (name.upper(), name, i, i, hashes[i]))
        c.write("};\n")


main()
