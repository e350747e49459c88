"""Every name that is defined in several modules has a documented reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.modules import modules
from tools.names import FILE, MISSING, read, shared, written

HOW = "run: python -m tools.names --write"


@pytest.mark.lengthy
def test_every_shared_name_has_a_reason_and_no_reason_is_left_over() -> None:
    names, reasons = shared(modules("kshare")), read(FILE.read_text(encoding="utf-8"))
    assert sorted(names) == sorted(reasons), HOW
    assert [name for name, reason in reasons.items() if len(reason) < 10] == []
    assert FILE.read_text(encoding="utf-8") == written(names, reasons), HOW


def test_which_names_count(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("from p.a import Thing\n")
    (package / "a.py").write_text("class Thing: ...\ndef work(): ...\n_own = LIMIT = 1\nT = TypeVar('T')\n")
    (package / "b.py").write_text("try:\n    LIMIT: int = 2\nfinally: ...\n_own = 2\nT = TypeVar('T')\n")
    (package / "c.py").write_text("class Thing:\n    LIMIT = 3\n\n    def work(self): ...\n")
    assert shared(modules("p", tmp_path)) == {"LIMIT": ["p.a", "p.b"], "Thing": ["p.a", "p.c"]}


def test_reasons_are_kept_and_missing_ones_marked() -> None:
    assert written(["A", "B"], {"B": "one room", "C": "gone"}) == f"A | {MISSING}\nB | one room\n"
