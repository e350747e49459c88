"""What the cookbook shows is what happens: every scenario is played, and the linter says what the page says."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.cookbook.pages import DOCUMENTS, shown
from tools.cookbook.scenarios import RULES, SCENARIOS
from tools.cookbook.stage import output_of


@pytest.mark.lengthy
def test_every_scenario_is_shown_and_shows_what_it_did() -> None:
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
    return output_of(scenario, "--group", "shippers", port=0)


def rules(text: str) -> set[str]:
    """Those with advice at the end."""
    return set(re.findall(r"^([a-z-]+)  (?:forbidden|harmful), ", text, re.MULTILINE))
