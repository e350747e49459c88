"""The documented table of optimizations matches kshare/fast, and no other module uses such ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAST = ROOT / "kshare" / "fast"
MODULES = sorted(path.name for path in FAST.glob("*.py") if path.stem != "__init__")

NO_OPTIMIZATION = {"kshare/sync/producer.py": ["__del__"]}
"""Warns if records are lost because a producer wasn't closed."""
MARKS = ("__del__", "Py_REFCNT", "getrefcount", "cdef extern", "cdef inline", "PyTypeObject", "pythonapi")


def rows() -> list[str]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("\n## Optimizations\n")[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("| ") and "`" in line]


def test_the_table_lists_each_module_once() -> None:
    assert (
        sorted(re.findall(r"^\| [^|]+ \| `(\w+\.py)` \|", "\n".join(rows()), flags=re.MULTILINE)) == MODULES
    )


def test_each_row_is_complete() -> None:
    assert [
        row for row in rows() if len([cell for cell in row.strip("|").split("|") if cell.strip()]) != 4
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_each_module_says_what_it_gains_and_how_to_remove_it(name: str) -> None:
    said = ast.get_docstring(ast.parse((FAST / name).read_text(encoding="utf-8"))) or ""
    assert "\nGains: " in said
    assert "\nTo take it out: " in said


@pytest.mark.lengthy
def test_no_other_module_uses_such_optimizations() -> None:
    sources = [path for path in (ROOT / "kshare").rglob("*") if path.suffix in (".py", ".pxd")]
    found = {
        str(path.relative_to(ROOT)): [mark for mark in MARKS if mark in path.read_text(encoding="utf-8")]
        for path in sources
        if FAST not in path.parents
    }
    assert {path: marks for path, marks in found.items() if marks} == NO_OPTIMIZATION
