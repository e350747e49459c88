"""`dead_letters_after`: records that are too old are no longer processed. Pure."""

from __future__ import annotations

from kshare.options.checks import require_seconds
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.giving_up import give_up
from kshare.worker.rules.rule import Rule

_LONGEST_AGE_S = 1e9


def check_age(seconds: object) -> None:
    """Raises ConfigError."""
    if seconds is not None:
        require_seconds("dead_letters_after", seconds, _LONGEST_AGE_S)


def _is_too_old(facts: Facts) -> bool:
    limit = facts.options.dead_letters_after
    return limit is not None and facts.age_s > limit


TOO_OLD = Rule(
    "too old",
    "it was written longer ago than `dead_letters_after`",
    "given up",
    _is_too_old,
    lambda facts: give_up(facts, f"older than {facts.options.dead_letters_after:g} s"),
    of_new_records=lambda options: options.dead_letters_after is not None,
)
