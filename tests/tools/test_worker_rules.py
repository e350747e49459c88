"""docs/worker-rules.md says what the rules are."""

from __future__ import annotations

from tools.worker_rules import PAGE, page


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page().rstrip("\n") + "\n", "run `python -m tools.worker_rules`"
