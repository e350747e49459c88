"""`python -m tools.modules`: prints import cycles between modules of kshare, which may only exist for type checkers.

Finds modules and their imports by reading the sources, without importing anything.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(slots=True)
class Imports:
    """The full names of the modules that one module imports."""

    at_run_time: set[str] = field(default_factory=set)
    """At the top or in a function."""
    for_types: set[str] = field(default_factory=set)
    """Under TYPE_CHECKING."""


def modules(package: str, root: Path = ROOT) -> dict[str, Path]:
    """Full name → source."""
    paths = sorted((root / package).rglob("*.py"))
    return {_name(path.relative_to(root)): path for path in paths}


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(name: str, path: Path, known: Iterable[str]) -> Imports:
    """The imports of a module: only `known` modules, without itself."""
    found = Imports()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    known = frozenset(known)
    for node, is_for_types in _statements(ast.parse(path.read_text(encoding="utf-8")), False):
        targets = _targets(node, package, known) - {name}
        (found.for_types if is_for_types else found.at_run_time).update(targets)
    return found


def _statements(tree: ast.AST, for_types: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, for_types
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _statements(ast.Module(node.body, []), True)
            yield from _statements(ast.Module(node.orelse, []), for_types)
        else:
            yield from _statements(node, for_types)


def _targets(node: ast.Import | ast.ImportFrom, package: str, known: frozenset[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & known
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
    found = {f"{base}.{alias.name}" for alias in node.names} & known
    return found | ({base} & known if len(found) < len(node.names) else set())


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules in which each module is reachable from every other one."""
    reached = {name: _reachable(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in graph if other in reached[name] and name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def main() -> int:
    sources = modules("kshare")
    found = {name: imports_of(name, path, sources) for name, path in sources.items()}
    for group in cycles({name: imports.at_run_time | imports.for_types for name, imports in found.items()}):
        print(" ".join(group))
        for name in group:
            for other in sorted(found[name].for_types - found[name].at_run_time):
                if other in group:
                    print(f"    {name} names a type of {other}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
