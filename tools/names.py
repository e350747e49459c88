"""`python -m tools.names`: prints public names that several modules of kshare define, with the reason for each.

The reasons are in names.txt in this folder, one line per name. `--write` updates that file: it keeps existing reasons,
removes names that are no longer defined twice, and writes a question mark where a reason is missing.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.modules import modules

FILE = Path(__file__).with_suffix(".txt")
GENERATED = ("kshare.protocol.messages.", "kshare.dissect.fields.")
"""Their names are Kafka's, which has the same names for structs of different messages."""
MISSING = "?"
_TYPE_VARIABLES = {"ParamSpec", "TypeVar"}


def defined(tree: ast.AST) -> Iterator[str]:
    """Names that a module defines at its top level, except type variables and names that begin with an underscore."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not _is_type_variable(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        elif isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            names = list(defined(node))
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def _is_type_variable(value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _TYPE_VARIABLES
    )


def shared(sources: Mapping[str, Path]) -> dict[str, list[str]]:
    """Name → the modules that define it, for names that several modules define."""
    found: dict[str, set[str]] = {}
    for module, path in sources.items():
        if not module.startswith(GENERATED):
            for name in defined(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(name, set()).add(module)
    return {name: sorted(found[name]) for name in sorted(found) if len(found[name]) > 1}


def read(text: str) -> dict[str, str]:
    """Name → reason."""
    rows = (line.partition(" | ") for line in text.splitlines() if line)
    return {name: reason for name, _, reason in rows}


def written(names: Iterable[str], reasons: Mapping[str, str]) -> str:
    return "".join(f"{name} | {reasons.get(name, MISSING)}\n" for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.names", description=__doc__)
    parser.add_argument("--write", action="store_true", help="update names.txt")
    names, reasons = shared(modules("kshare")), read(FILE.read_text(encoding="utf-8"))
    if parser.parse_args().write:
        FILE.write_text(written(names, reasons), encoding="utf-8")
    for name, places in names.items():
        print(f"{name}: {reasons.get(name, MISSING)}", *places, sep="\n    ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
