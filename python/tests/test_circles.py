"""No modules of the package import each other in a circle, neither at the top level nor in a function."""

import ast
from pathlib import Path

import attile


def is_for_types(node):
    """True for `if TYPE_CHECKING:`, which does not run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(node):
    """Yields all import statements below a node that run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not is_for_types(child):
            yield from imports(child)


def graph_of(sources):
    """Converts {module: (text, is it a package?)} to {module: modules that it imports}. A package contains its modules:
    this does not count as an import."""
    graph = {}
    for module, (text, is_package) in sources.items():
        graph[module] = found = set()
        for node in imports(ast.parse(text)):
            if isinstance(node, ast.Import):
                found.update(one.name for one in node.names)
                continue
            above = module.split(".")[: len(module.split(".")) + is_package - node.level] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            names = {f"{base}.{one.name}" for one in node.names}
            found.update(names & set(sources) if names <= set(sources) else (names & set(sources)) | {base})
        found &= set(sources) - {module}
    return graph


def circle_in(graph):
    """Returns modules each of which reaches all others, or [] if there are none."""

    def reached(start):
        seen, rest = set(), [start]
        while rest:
            for other in graph[rest.pop()] - seen:
                seen.add(other)
                rest.append(other)
        return seen

    reach = {module: reached(module) for module in graph}
    return sorted(module for module in graph if module in reach[module])


def test_a_circle_is_found():
    sources = {
        "p": ("from .a import x", True),
        "p.a": ("def f():\n    from . import b", False),
        "p.b": ("from p.c import y", False),
        "p.c": ("import p.a", False),
        "p.d": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .e import z", False),
        "p.e": ("from .d import z", False),
    }
    assert circle_in(graph_of(sources)) == ["p.a", "p.b", "p.c"]


def test_no_modules_import_each_other_in_a_circle():
    folder = Path(attile.__file__).parent
    sources = {}
    for path in folder.rglob("*.py"):
        words = ["attile", *path.relative_to(folder).with_suffix("").parts]
        is_package = words[-1] == "__init__"
        sources[".".join(words[:-1] if is_package else words)] = (path.read_text(), is_package)
    assert len(sources) > 30
    assert circle_in(graph_of(sources)) == []
