"""Checks pages by axe-core: WCAG 2.2 A and AA, and axe's best practices.

axe is evaluated in the page through the browser's debugger, which a Content-Security-Policy doesn't stop. So pages are
checked under the policy with which they are served.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page

_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_OPTIONS = {"runOnly": {"type": "tag", "values": _TAGS}, "resultTypes": ["violations"]}


def assert_accessible(page: Page) -> None:
    """Fails with the rules that the page violates, as it is now, and where."""
    if not page.evaluate("'axe' in window"):
        source = importlib.resources.files("axe_playwright_python") / "axe.min.js"
        page.evaluate(source.read_text(encoding="utf-8"))
    violations = page.evaluate("options => axe.run(document, options)", _OPTIONS)["violations"]
    assert not violations, "\n".join([f"{page.url} isn't accessible:", *_lines(violations)])


def _lines(violations: list[dict[str, Any]]) -> Iterator[str]:
    for violation in violations:
        yield f"{violation['id']} ({violation['impact']}): {violation['help']}"
        for node in violation["nodes"]:
            yield f"    {_selector(node['target'])}: {node['html']}"
            yield from (f"        {line}" for line in node["failureSummary"].splitlines())


def _selector(target: list[Any]) -> str:
    """Selectors of the element and of the frames it is in; one within a shadow tree is a list itself."""
    return " ".join(step if isinstance(step, str) else " ".join(step) for step in target)
