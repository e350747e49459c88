"""How a record waits for its next attempt, and how it is given up: what rows of several tables decide. Pure."""

from __future__ import annotations

from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts

SHORTEST_DELAY_S = 0.01
"""The shortest delay that isn't counted as an attempt. Without it, a handler that always asks for no delay would be
called without end, and nothing else would run."""


def wait(facts: Facts, delay: float, *, counts: bool, error: BaseException | None = None) -> Decision:
    """Held here, or moved to a retry topic if there is one and the delay is too long to hold the record."""
    is_too_long = delay > facts.options.hold_up_to or (
        not facts.can_renew and delay >= facts.limits.holdable_s
    )
    if facts.tiers is not None and (is_too_long or facts.is_moved):
        return Decision(RecordOutcome.MOVED, delay, counts, error=error)
    return hold(delay, counts=counts, error=error)


def hold(delay: float, *, counts: bool, error: BaseException | None = None) -> Decision:
    return Decision(
        RecordOutcome.HELD, delay if counts else max(delay, SHORTEST_DELAY_S), counts, error=error
    )


def give_up(facts: Facts, reason: str, error: BaseException | None = None) -> Decision:
    """With a dead letter, if the handler has a topic or a function for them."""
    has_dead_letters = facts.options.dead_letters is not None
    outcome = RecordOutcome.DEAD_LETTER if has_dead_letters else RecordOutcome.REJECTED
    return Decision(outcome, counts=facts.call is not None, reason=reason, error=error)


def without_result(deliveries: int) -> str:
    return f"{deliveries} deliveries ended without a result"
