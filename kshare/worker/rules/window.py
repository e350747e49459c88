"""`max_pinned`: how much of the in-flight window a record may pin, and what becomes of one that pins more. Pure."""

from __future__ import annotations

from kshare.options.checks import require_number
from kshare.worker.rules.decision import KEEP, Decision, RecordOutcome
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.rule import Rule


def check_max_pinned(share: object) -> None:
    """Raises ConfigError."""
    require_number("max_pinned", share, 0.001, 1)


def max_span(max_pinned: float, window: int) -> int:
    """How many offsets of the window a record may pin."""
    return max(1, int(max_pinned * window))


MOVED_AWAY = Rule(
    "moved",
    "there are retry topics",
    "moved; not counted as an attempt",
    lambda facts: facts.tiers is not None,
    lambda facts: Decision(RecordOutcome.MOVED, facts.tiers.tiers[0] if facts.tiers is not None else 0.0),
)
EARLY = Rule(
    "early",
    "otherwise",
    "retried at once",
    lambda facts: True,
    lambda facts: KEEP._replace(is_again=True),
)


def may_hand_back(facts: Facts, *, was_tried: bool) -> bool:
    """Whether a record may be handed back only because it pins too much, or its attempts are kept in a copy."""
    return facts.tiers is not None if was_tried else facts.limits.may_be_released(facts.delivery_count)
