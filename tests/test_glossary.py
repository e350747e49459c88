"""The glossary: short, one row for each term, and every code reference in it resolves."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
GLOSSARY = PAGE.partition("## Words that aren't used")[0]
ROW = re.compile(
    r"^\| (?!term \|)(?P<term>[^|\-][^|]*?) \| (?P<meaning>[^|]+) \| (?P<code>[^|]+) \|$", re.MULTILINE
)
ROWS = [match.groupdict() for match in ROW.finditer(GLOSSARY)]
REFERENCE = re.compile(r"`(kshare(?:\.\w+)+)`")


def test_every_line_of_a_table_is_a_row() -> None:
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("|")]
    headers = [line for line in lines if line.startswith(("| term |", "|---"))]
    assert len(lines) - len(headers) == len(ROWS)


def test_there_are_at_most_40_terms_each_defined_once() -> None:
    terms = [term for row in ROWS for term in row["term"].split(", ")]
    assert 20 <= len(ROWS) <= 40
    assert len(set(terms)) == len(terms)


def test_one_thing_has_one_name() -> None:
    codes = [row["code"] for row in ROWS]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["term"]))
def test_the_code_reference_of_each_term_resolves(row: dict[str, str]) -> None:
    found = REFERENCE.fullmatch(row["code"])
    assert found, f"{row['term']}: no code reference"
    module, name = found[1].rsplit(".", 1)
    assert hasattr(import_module(module), name)


def test_readme_and_architecture_link_to_the_glossary() -> None:
    docs = Path(__file__).parents[1] / "docs"
    assert "(docs/glossary.md)" in (docs.parent / "README.md").read_text(encoding="utf-8")
    assert "(glossary.md)" in (docs / "architecture.md").read_text(encoding="utf-8")
