"""The committed golden vectors are up to date with `python -m tools.golden`."""

from __future__ import annotations

import pytest

from tests.helpers.judge import open_judge
from tools import golden

pytestmark = pytest.mark.java


def test_the_golden_vectors_are_up_to_date() -> None:
    with open_judge() as judge:
        made = golden.make_files(judge)
    kept = {path.name: path.read_text(encoding="utf-8") for path in golden.GOLDEN.glob("*.json")}
    assert kept.keys() == made.keys()
    assert not [name for name in made if kept[name] != made[name]], (
        "run `python -m tools.golden`, and check why they differ"
    )
