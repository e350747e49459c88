"""Imports between packages follow docs/architecture.md, each package has an import contract, and no cycle exists."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools.modules import ROOT, Imports, cycles, imports_of, modules

FOR_ALL = {
    "kshare.callbacks",
    "kshare.errors",
    "kshare.installation",
    "kshare.java_properties",
    "kshare.log_text",
    "kshare.offset_ranges",
    "kshare.summary_log",
    "kshare.surroundings",
    "kshare.wording",
}
SOURCES = modules("kshare") | modules("tools")


@functools.cache
def imports() -> dict[str, Imports]:
    """Module → its imports. Computed on demand, because every worker of a test run imports this module."""
    return {name: imports_of(name, path, SOURCES) for name, path in SOURCES.items()}


def arrows() -> dict[str, set[str] | None]:
    """Package → what it may import, according to the table of packages; None for everything."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The packages")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(kshare|tools)/(\w+)(?:\.py)?` \|.*\| (.*) \|$", table, flags=re.MULTILINE)
    assert len(rows) > 15
    return {
        f"{package}.{room}": None
        if allowed == "everything"
        else {f"kshare.{name}" for name in re.findall(r"`([\w.]+)`", allowed)}
        for package, room, allowed in rows
    }


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def room_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


ARROWS = arrows()
ROOMS = [room for room in ARROWS if room.startswith("kshare.")]


def test_every_package_has_a_row() -> None:
    there = {room_of(name) for name in SOURCES if name.startswith("kshare.")}
    assert there - FOR_ALL - {"kshare.__main__"} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_the_import_contracts_match_the_table(room: str) -> None:
    (contract,) = [
        contract
        for contract in contracts()
        if contract["type"] == "protected" and contract["protected_modules"] == [room]
    ]
    drawn = {
        other
        for other in ROOMS
        if other != room and (ARROWS[other] is None or room in map(room_of, ARROWS[other] or ()))
    }
    assert set(contract["allowed_importers"]) - {"kshare.__main__"} == drawn


def test_no_contract_allows_indirect_imports() -> None:
    assert [contract["name"] for contract in contracts() if "allow_indirect_imports" in contract] == []


@pytest.mark.lengthy
@pytest.mark.parametrize("room", ARROWS)
def test_a_package_imports_only_what_its_row_allows(room: str) -> None:
    allowed = ARROWS[room]
    if allowed is None:
        return
    wrong = [
        f"{name} imports {other}"
        for name in SOURCES
        if room_of(name) == room
        for other in sorted(imports()[name].at_run_time | imports()[name].for_types)
        if other.startswith("kshare.") and room_of(other) != room and room_of(other) not in FOR_ALL
        if not any(other == arrow or other.startswith(f"{arrow}.") for arrow in allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_allowed_import_is_used(room: str) -> None:
    used = {
        other
        for name in SOURCES
        if room_of(name) == room
        for other in imports()[name].at_run_time | imports()[name].for_types
    }
    idle = [
        arrow
        for arrow in ARROWS[room] or ()
        if not any(other == arrow or other.startswith(f"{arrow}.") for other in used)
    ]
    assert idle == []


def test_there_are_no_import_cycles() -> None:
    """Including imports within functions. `python -m tools.modules` also lists cycles only for type checkers."""
    graph = {name: imported.at_run_time for name, imported in imports().items() if name.startswith("kshare")}
    assert cycles(graph) == []


def test_cycles_are_found_wherever_the_import_is(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from p import b\n")
    (package / "b.py").write_text("def later():\n    from .c import x\n")
    (package / "c.py").write_text("import p.a\nx = 1\n")
    (package / "d.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.e import E\n"
    )
    (package / "e.py").write_text("from p.d import D\n")
    sources = modules("p", tmp_path)
    found = {name: imports_of(name, path, sources) for name, path in sources.items()}
    assert cycles({name: imported.at_run_time for name, imported in found.items()}) == [["p.a", "p.b", "p.c"]]
    assert found["p.d"].for_types == {"p.e"}
