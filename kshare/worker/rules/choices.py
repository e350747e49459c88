"""What a handler decides itself: it accepts, releases, delays or rejects its record. Pure."""

from __future__ import annotations

from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.giving_up import give_up
from kshare.worker.rules.retry_topics import wait
from kshare.worker.rules.rule import Rule


def chose(facts: Facts, outcome: RecordOutcome) -> bool:
    return facts.chosen is not None and facts.chosen.outcome is outcome


def _reject(facts: Facts) -> Decision:
    assert facts.chosen is not None, "the rule applies"
    return give_up(facts, facts.chosen.reason, facts.error)


def _delay(facts: Facts) -> Decision:
    assert facts.chosen is not None, "the rule applies"
    return wait(facts, facts.chosen.delay, counts=False, error=facts.error)


REJECTED = Rule(
    "rejected",
    "its handler has rejected it",
    "given up",
    lambda facts: chose(facts, RecordOutcome.REJECTED),
    _reject,
)
DELAYED = Rule(
    "delayed",
    "its handler has asked for a delay",
    "held or moved; not counted as an attempt",
    lambda facts: chose(facts, RecordOutcome.HELD),
    _delay,
)
