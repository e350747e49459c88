"""Attempts: what becomes of a record whose handler has failed. The delays are those of the retry policy. Pure."""

from __future__ import annotations

from kshare.worker.rules.decision import Decision
from kshare.worker.rules.facts import Call, Facts
from kshare.worker.rules.rule import Rule
from kshare.worker.rules.waiting import give_up, wait


def _is_spent(facts: Facts) -> bool:
    return facts.attempt > 1 and facts.counted_attempt > facts.options.retry.most_attempts()


def _has_failed(facts: Facts) -> bool:
    return facts.call is Call.RAISED


def _give_up(facts: Facts) -> Decision:
    return give_up(facts, f"{facts.error_name} in attempt {facts.attempt}", facts.error)


SPENT = Rule(
    "attempts spent",
    "it has had all attempts that the retry policy allows",
    "given up",
    _is_spent,
    lambda facts: give_up(facts, f"{facts.counted_attempt - 1} attempts have failed"),
)
UNREADABLE = Rule(
    "unreadable",
    "its value can't be converted",
    "given up",
    lambda facts: _has_failed(facts) and facts.is_payload_error,
    lambda facts: give_up(facts, str(facts.error), facts.error),
)
NOT_AN_ATTEMPT = Rule(
    "not an attempt",
    "its handler has raised, and that doesn't count: the circuit breaker isn't closed, or the worker ends",
    "held or moved, for the delay of the retry policy",
    lambda facts: _has_failed(facts) and not facts.is_attempt,
    lambda facts: wait(facts, facts.next_delay or 0.0, counts=False, error=facts.error),
)
LAST_ATTEMPT = Rule(
    "last attempt",
    "its handler has raised, and the retry policy gives up",
    "given up",
    lambda facts: _has_failed(facts) and facts.next_delay is None,
    _give_up,
)
FAILED = Rule(
    "failed",
    "its handler has raised",
    "held or moved, for the delay of the retry policy; counted as an attempt",
    _has_failed,
    lambda facts: wait(facts, facts.next_delay or 0.0, counts=True, error=facts.error),
)
