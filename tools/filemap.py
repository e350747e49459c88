"""Writes the file map of docs/architecture.md: each handwritten module of kshare with the first line of its docstring.

`python -m tools.filemap` replaces the text between the markers. Generated modules and empty packages are left out.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- file map: python -m tools.filemap -->\n", "<!-- end of the file map -->\n"
GENERATED = (
    "kshare/protocol/messages/",
    "kshare/dissect/fields/",
    "kshare/protocol/acknowledge_types.py",
    "kshare/protocol/error_codes.py",
    "kshare/protocol/api_keys.py",
)


class FileMapError(ValueError):
    """The map can't be created; the message names the file."""


def file_map(root: Path) -> str:
    """One table per package, with its modules sorted by name."""
    packages: dict[str, list[Path]] = {}
    for path in _modules(root):
        packages.setdefault(path.parent.relative_to(root).as_posix(), []).append(path)
    return "\n".join(_table(package, packages[package]) for package in sorted(packages))


def first_line(path: Path) -> str:
    """The first line of the module's docstring, continued to the end of the sentence."""
    document = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not document:
        raise FileMapError(f"{path} has no docstring")
    line = ""
    for part in document.partition("\n\n")[0].splitlines():
        line = f"{line} {part}".strip()
        if line.endswith((".", "?", ":")):
            break
    return line.rstrip(".:")


def merged(page: str, table: str) -> str:
    """The page with this map between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise FileMapError(f"{PAGE.name} lacks {BEGIN.strip()} or {END.strip()}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _modules(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("kshare/**/*.py")):
        is_generated = path.relative_to(root).as_posix().startswith(GENERATED)
        if not is_generated and (path.name != "__init__.py" or path.stat().st_size):
            yield path


def _table(package: str, modules: list[Path]) -> str:
    rows = (f"| `{path.name}` | {first_line(path).replace('|', chr(92) + '|')} |" for path in modules)
    return "\n".join([f"### `{package}/`", "", "| file | what it is |", "|---|---|", *rows, ""])


def main(arguments: list[str]) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="tools.filemap", description=__doc__).parse_args(arguments)
    try:
        page = merged(PAGE.read_text(encoding="utf-8"), file_map(ROOT))
    except FileMapError as problem:
        print(f"tools/filemap: {problem}", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
