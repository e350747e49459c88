"""`max_pinned`, `max_held`, `move_runs`: how much of the in-flight window records may pin, and what goes then. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshare.options.checks import require_flag, require_number, require_whole
from kshare.options.mistakes import Mistakes
from kshare.worker.rules.decision import KEEP, Decision, RecordOutcome
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.rule import Rule

if TYPE_CHECKING:
    from kshare.worker.handlers.options import HandlerOptions


def check_window(options: HandlerOptions) -> None:
    """Raises ConfigError."""
    mistakes = Mistakes()
    with mistakes:
        require_whole("max_held", options.max_held, 1, 1_000_000)
    with mistakes:
        require_number("max_pinned", options.max_pinned, 0.001, 1)
    with mistakes:
        require_flag("move_runs", options.move_runs)
    if options.move_runs is True and options.retry_topics is False:
        mistakes.add("move_runs needs retry topics: write retry_topics=True")
    mistakes.raise_all()


def max_span(options: HandlerOptions, limits: ShareLimits) -> int:
    """How many offsets of the window of a partition a record may pin."""
    return max(1, int(options.max_pinned * limits.window))


MOVED = Rule(
    "moved",
    "there are retry topics",
    "moved; not counted as an attempt",
    lambda facts: facts.tiers is not None,
    lambda facts: Decision(RecordOutcome.MOVED, facts.tiers.tiers[0] if facts.tiers is not None else 0.0),
)
EARLY = Rule(
    "early",
    "otherwise",
    "tried again at once",
    lambda facts: True,
    lambda facts: KEEP._replace(is_again=True),
)


def may_hand_back(facts: Facts, *, was_tried: bool) -> bool:
    """Whether a record may be handed back only because it pins too much, or its attempts are kept in a copy."""
    return facts.tiers is not None if was_tried else facts.limits.may_be_released(facts.delivery_count)
