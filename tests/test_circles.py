#!/usr/bin/env python3
"""No files of the C modules call each other in a circle, except for the circles listed here with their reasons
(docs/design.md, section 3).

    tests/test_circles.py
"""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = "text system gen model runtime check tune explore cli".split()
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
FUNCTION = re.compile(r"^(?!static)(?:[A-Za-z_][\w ]*[ *]+)([a-z_]\w*)\([^;{]*\)\s*\{", re.M)

ALLOWED = [
    # Recursive descent: an operand may be a bracket or a named formula, which holds an expression.
    {"gen/formula/formula_operand.c", "gen/formula/formula_parse.c", "gen/formula/formula_table.c"},
    # Recursive descent: a directive may include a template, which holds directives.
    {"gen/template/template_choice.c", "gen/template/template_directive.c", "gen/template/template_read.c"},
    # The hook is linked into programs built with the race detector and calls back.
    {"runtime/host/race.c", "runtime/host/race_hook.c"},
    # A block passes each operation of a kernel to the file that models it; that file suspends and wakes its threads.
    {f"runtime/host/{name}.c" for name in "barriers block cluster collective counters launch mma tma units wgmma".split()},
]


def calls(sources):
    """Converts {file: text} to {file: other files that define a function that it names}."""
    defined = {name: file for file, text in sources.items() for name in FUNCTION.findall(text)}
    return {file: {defined[word] for word in re.findall(r"\b[a-z_]\w*\b", text) if word in defined} - {file}
            for file, text in sources.items()}


def reachable(graph, start):
    found, rest = set(), [start]
    while rest:
        for file in graph[rest.pop()] - found:
            found.add(file)
            rest.append(file)
    return found


def circles(graph):
    """Returns sets of files each of which reaches all others."""
    reach = {file: reachable(graph, file) for file in graph}
    return {frozenset(other for other in graph if other in reach[file] and file in reach[other])
            for file in graph if file in reach[file]}


class Circles(unittest.TestCase):
    def test_a_circle_is_found(self):
        sources = {"a.c": "int a(void) {\n    return b();\n}\n", "b.c": "int b(void) {\n    return c();\n}\n",
                   "c.c": "int c(void) {\n    return a();\n}\n", "d.c": "int d(void) {\n    return a();\n}\n"}
        self.assertEqual(circles(calls(sources)), {frozenset({"a.c", "b.c", "c.c"})})

    def test_no_files_call_each_other_in_a_circle(self):
        sources = {}
        for path in (path for room in ROOMS for path in glob.glob(f"{ROOT}/{room}/**/*.c", recursive=True)):
            with open(path, encoding="utf-8") as file:
                sources[os.path.relpath(path, ROOT)] = NOT_CODE.sub("", file.read())
        self.assertGreater(len(sources), 100)
        found = circles(calls(sources))
        self.assertEqual([sorted(circle) for circle in found if not any(circle <= allowed for allowed in ALLOWED)], [])


if __name__ == "__main__":
    unittest.main()
