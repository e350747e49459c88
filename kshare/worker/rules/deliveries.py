"""Records that were often delivered without a result: they may kill the processes that have them. Pure.

With retry topics they are moved there while they have deliveries left, each to be due at another time. A record may
have killed its processes, or only have been in hand with one that did, so the retry policy doesn't count this. If the
same happens to further copies, that is no accident.
"""

from __future__ import annotations

from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.giving_up import give_up
from kshare.worker.rules.rule import Rule, never

_MOST_APART = 2
"""How many times in a row a record is moved because its deliveries ended without a result."""


def _without_result(deliveries: int) -> str:
    return f"{deliveries} deliveries ended without a result"


def _is_often_delivered(facts: Facts) -> bool:
    return facts.delivery_count >= facts.limits.last_safe_delivery and facts.tiers is not None


def _move_apart(facts: Facts) -> Decision:
    assert facts.tiers is not None, "the rule applies"
    if facts.apart >= _MOST_APART:
        return give_up(facts, _without_result(facts.delivery_count - 1))
    delay = facts.tiers.tiers[0] * (0.5 + facts.luck / 2)
    return Decision(RecordOutcome.MOVED, delay, counts=True, apart=facts.apart + 1)


OFTEN_DELIVERED = Rule(
    "often delivered",
    "half of its deliveries ended without a result, and there are retry topics",
    f"moved, {_MOST_APART} times in a row; then given up",
    _is_often_delivered,
    _move_apart,
    of_new_records=never,
)
LAST_DELIVERY = Rule(
    "last delivery",
    "only its last delivery is left, and there are dead letters",
    "given up",
    lambda facts: (
        facts.delivery_count >= facts.limits.last_delivery and facts.options.dead_letters is not None
    ),
    lambda facts: give_up(facts, _without_result(facts.delivery_count - 1)),
    of_new_records=never,
)
LAST_DELIVERY_BACK = Rule(
    "last delivery",
    "this was its last delivery, and there are dead letters",
    "given up",
    lambda facts: facts.is_last_delivery and facts.options.dead_letters is not None,
    lambda facts: give_up(facts, _without_result(facts.delivery_count)),
)
