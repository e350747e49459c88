"""The cookbook's output is real: every scenario is run again, and the linter reports the same rules."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.cookbook.pages import DOCUMENTS, output_of, shown
from tools.cookbook.scenarios import RULES, SCENARIOS


@pytest.mark.lengthy
def test_every_scenario_is_documented_with_its_findings() -> None:
    blocks = {name: block for path in DOCUMENTS for name, block in shown(path.read_text()).items()}
    assert blocks.keys() == SCENARIOS.keys() == RULES.keys()
    with ThreadPoolExecutor(len(blocks)) as pool:
        said = dict(zip(blocks, pool.map(fresh, blocks), strict=True))
    for name, block in blocks.items():
        assert RULES[name] <= rules(block), name
        assert RULES[name] <= rules(said[name]), said[name]
    assert "no linter findings" in blocks["healthy"]
    assert "no linter findings" in said["healthy"]


def fresh(scenario: str) -> str:
    return output_of(scenario, port=0)


def rules(text: str) -> set[str]:
    """The rules listed with advice at the end."""
    return set(re.findall(r"^([a-z-]+)  (?:forbidden|harmful), ", text, re.MULTILINE))
