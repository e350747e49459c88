"""`only`: a handler gets the records that its function selects. All others are accepted without it. Pure."""

from __future__ import annotations

from kshare.callbacks import require_plain
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.rule import Rule


def check_filter(only: object) -> None:
    """Raises ConfigError."""
    if only is not None:
        require_plain("only", only, "one argument, the delivery")


FILTERED = Rule(
    "not selected",
    "`only` doesn't select it",
    "accepted without its handler",
    lambda facts: facts.wants is not None and not facts.wants(),
    lambda facts: Decision(RecordOutcome.FILTERED),
    of_new_records=lambda options: options.only is not None,
)
