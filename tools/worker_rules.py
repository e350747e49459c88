"""`python -m tools.worker_rules`: writes docs/worker-rules.md from the tables in `kshare/worker/rules/tables.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kshare.worker.rules import tables
from kshare.worker.rules.rule import Rule

PAGE = Path(__file__).parents[1] / "docs" / "worker-rules.md"

_HEAD = """\
# What a worker does with a record

These tables are generated from the rules that the worker runs. In each, the first rule that applies decides. Names of
rules are shown by [`worker.test`](worker-testing.md), as `trial.decision.rule`. If a rule leaves the decision to
another table, both are named: `cancelled: released`.

| decision | meaning |
|---|---|
| accepted | The record is acknowledged as done. Results that its handler has published are confirmed before. |
| held | The worker keeps the record, and renews its lock, until its next attempt. |
| moved | A copy is confirmed in a retry topic, then the record is accepted. |
| given up | A dead letter is confirmed, then the record is rejected; without `dead_letters`, only that. |
| released | Any member of the group may acquire the record again. That uses up one of its deliveries. |
| lost | Its lock was lost: the broker delivers the record again, unless this was its last delivery. |

"Held or moved" means: moved if there are retry topics, and the delay is longer than `hold_up_to` (or, where locks can't
be renewed, longer than half of the lock). Otherwise the record is held.

A copy may be confirmed and its record be delivered again all the same, because the worker dies before it has
acknowledged the record. So a record is never lost, but may be there twice.
"""

_SECTIONS: tuple[tuple[str, str, Sequence[Rule]], ...] = (
    (
        "Before the handler is called",
        "If no rule applies, the handler is called.",
        tables.BEFORE_CALL,
    ),
    ("When the handler has ended", "It has returned, has raised, or was cancelled.", tables.AFTER_CALL),
    (
        "When a record is handed back",
        "Because its handler was cancelled or has released it, and when the worker ends.",
        tables.HANDING_BACK,
    ),
    (
        "When a held record has to make way",
        "It pins more of the in-flight window than `max_pinned`, or more than `max_held` records are held.",
        tables.MAKING_WAY,
    ),
    (
        "When a copy can't be written",
        "Nothing is settled before its copy is confirmed.",
        tables.NOT_WRITTEN,
    ),
)


def page() -> str:
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for title, text, rules in _SECTIONS:
        yield f"## {title}\n\n{text}\n"
        yield "| rule | applies when | decision |\n|---|---|---|"
        for rule in rules:
            yield f"| {rule.name} | {rule.when} | {rule.then} |"
        yield ""


def main() -> int:
    PAGE.write_text(page().rstrip("\n") + "\n", encoding="utf-8")
    print(f"written: {PAGE.relative_to(Path.cwd())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
