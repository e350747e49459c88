"""`only`: a handler gets the records that its function selects. All others are accepted without it. Pure."""

from __future__ import annotations

from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.rule import Rule

FILTERED = Rule(
    "not selected",
    "`only` doesn't select it",
    "accepted without its handler",
    lambda facts: facts.wants is not None and not facts.wants(),
    lambda facts: Decision(RecordOutcome.FILTERED),
    of_new_records=lambda options: options.only is not None,
)
