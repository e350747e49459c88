"""The rules of a worker, in all situations that they tell apart: what must never be decided, and what always is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from kshare.worker import Decision, RecordOutcome, Retry, RetryTopics
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.rules import tables
from kshare.worker.rules.decision import ACCEPT, RELEASE, RunResult
from kshare.worker.rules.facts import Facts, MovedRun
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.rule import Rule, first_decision

NOW_MS = 1_000_000.0
TIERS = RetryTopics(tiers=(60.0,))
ALL = (*tables.BEFORE_CALL, *tables.AFTER_CALL, *tables.HANDING_BACK, *tables.MAKING_WAY, *tables.NOT_WRITTEN)
MOVED = Decision(RecordOutcome.MOVED, 60.0, counts=True)
DEAD = Decision(RecordOutcome.DEAD_LETTER, reason="bad")


def facts_of(
    *, dead_letters: str | None = None, dead_letters_after: float | None = None, **given: Any
) -> Facts:
    options = HandlerOptions(
        dead_letters=dead_letters, dead_letters_after=dead_letters_after, retry=Retry(attempts=3)
    )
    facts = Facts(options, ShareLimits())
    facts.now_ms, facts.timestamp = NOW_MS, int(NOW_MS)
    of_copy = given.pop("copy", {})
    for name, value in {**given, **of_copy}.items():
        assert hasattr(facts, name), name
        setattr(facts, name, value)
    return facts


def copy(due_in_s: float = 0.0, attempts: int = 1, apart: int = 0) -> dict[str, Any]:
    """What is known about a copy in a retry topic."""
    due_ms = NOW_MS + due_in_s * 1000
    return {"copy_due_ms": due_ms, "copy_attempts": attempts, "apart": apart}


def situations(**choices: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


RECORDS: dict[str, tuple[Any, ...]] = {
    "delivery_count": (1, 2, 3, 4, 5, 6),
    "attempt": (1, 2, 4),
    "copy": ({}, copy(), copy(due_in_s=60.0), copy(apart=2)),
    "tiers": (None, TIERS),
    "dead_letters": (None, "dead"),
    "pending": (None, DEAD),
}
CHOSEN = (
    None,
    ACCEPT,
    RELEASE,
    Decision(RecordOutcome.HELD, 5.0),
    Decision(RecordOutcome.REJECTED, reason="bad"),
)
CALLS: dict[str, tuple[Any, ...]] = {
    "delivery_count": (1, 5),
    "attempt": (1, 4),
    "tiers": (None, TIERS),
    "dead_letters": (None, "dead"),
    "call": tuple(RunResult),
    "chosen": CHOSEN,
    "is_in_hand": (True, False),
    "is_lock_lost": (True, False),
    "is_attempt": (True, False),
    "next_delay": (None, 90.0),
    "keeps": (True, False),
}


def test_every_rule_decides_somewhere() -> None:
    """Otherwise it could be left out, or another one hides it."""
    used: set[str] = set()
    for table, choices in (
        (
            tables.BEFORE_CALL,
            {
                **RECORDS,
                "run": tuple(MovedRun),
                "wants": (None, lambda: False),
                "dead_letters_after": (None, -1.0 + 1.5),
                "timestamp": (int(NOW_MS), 0),
            },
        ),
        (tables.AFTER_CALL, {**CALLS, "is_payload_error": (True, False)}),
        (
            tables.HANDING_BACK,
            {**RECORDS, "is_in_hand": (True, False), "due_in_s": (0.0, 1.0), "is_of_run": (True, False)},
        ),
        (tables.MAKING_WAY, {**RECORDS, "is_in_hand": (True, False), "is_of_run": (True, False)}),
        (
            tables.NOT_WRITTEN,
            {
                **RECORDS,
                "failed": (MOVED, DEAD),
                "is_too_large": (True, False),
                "is_ending": (True, False),
                "is_abandoned": (True, False),
                "is_moved": (True, False),
            },
        ),
    ):
        for situation in situations(**choices):
            facts = facts_of(**situation)
            deciding = next((rule for rule in table if rule.applies(facts)), None)
            if deciding is not None:
                used.add(_id(table, deciding))
        assert {_id(table, rule) for rule in table} <= used


def _id(table: tuple[Rule, ...], rule: Rule) -> str:
    return f"{id(table)} {rule.name}"


def test_nothing_is_accepted_unless_its_handler_has_returned_or_accepted_it() -> None:
    for situation in situations(**CALLS):
        decision = tables.after_call(facts_of(**situation))
        if decision.outcome is RecordOutcome.ACCEPTED:
            is_chosen = situation["chosen"] is ACCEPT
            assert is_chosen or (situation["call"] is RunResult.RETURNED and situation["chosen"] is None), (
                situation
            )


def test_what_is_decided_without_other_facts_is_what_the_rules_decide() -> None:
    for situation in situations(**{**CALLS, "call": (RunResult.RETURNED,)}):
        decision = tables.when_returned(situation["chosen"])
        assert decision is None or decision == tables.after_call(facts_of(**situation))
    assert tables.when_returned(None) is not None


def test_what_is_cancelled_is_neither_given_up_nor_counted() -> None:
    for situation in situations(**{**CALLS, "call": (RunResult.CANCELLED,), "delivery_count": (1,)}):
        if situation["chosen"] in (None, RELEASE):
            decision = tables.after_call(facts_of(**situation))
            assert decision.outcome is not RecordOutcome.REJECTED
            assert not decision.counts


def test_attempts_are_counted_only_after_a_failure_that_counts() -> None:
    for situation in situations(**CALLS):
        decision = tables.after_call(facts_of(**situation))
        if decision.counts and decision.outcome in (RecordOutcome.HELD, RecordOutcome.MOVED):
            assert situation["call"] is RunResult.FAILED
            assert situation["is_attempt"]
            assert situation["chosen"] is None


def test_nothing_that_could_be_archived_is_released_if_there_is_another_way() -> None:
    for situation in situations(**{**RECORDS, "due_in_s": (0.0, 1.0)}):
        decision = tables.hand_back(facts_of(**situation))
        is_last = situation["delivery_count"] >= ShareLimits().deliveries
        has_way = situation["tiers"] is not None or situation["dead_letters"] is not None
        if decision.outcome is RecordOutcome.RELEASED and is_last:
            assert not has_way, situation


@pytest.mark.parametrize("dead_letters", [None, "dead"])
def test_records_that_are_given_up_become_dead_letters_if_there_are_any(dead_letters: str | None) -> None:
    wanted = RecordOutcome.REJECTED if dead_letters is None else RecordOutcome.DEAD_LETTER
    for situation in situations(**{**CALLS, "dead_letters": (dead_letters,)}):
        decision = tables.after_call(facts_of(**situation))
        if decision.outcome in (RecordOutcome.REJECTED, RecordOutcome.DEAD_LETTER):
            assert decision.outcome is wanted


def test_a_copy_that_is_not_confirmed_settles_nothing_while_the_record_can_be_kept() -> None:
    for failed, deliveries in product((MOVED, DEAD), range(1, 7)):
        facts = facts_of(failed=failed, delivery_count=deliveries, tiers=TIERS, dead_letters="dead")
        decision = tables.not_written(facts)
        assert (decision.outcome, decision.pending) == (RecordOutcome.HELD, failed)


@pytest.mark.parametrize(("delivery_count", "outcome"), [(1, "released"), (5, "moved")])
def test_a_copy_of_a_run_stays_one(delivery_count: int, outcome: str) -> None:
    """Moved as another record, it would be processed again although the run is over."""
    facts = facts_of(
        is_of_run=True, tiers=TIERS, due_in_s=5.0, delivery_count=delivery_count, **copy(attempts=1)
    )
    facts.attempt = 2
    decisions = [tables.hand_back(facts), tables.make_way(facts)]
    assert [decision.outcome for decision in decisions] == [outcome] * 2
    assert [decision.is_again for decision in decisions] == [outcome == "moved"] * 2
    assert not tables.must_be_copied(facts)


@pytest.mark.parametrize("has_unwritten", [False, True])
def test_a_moved_run_that_has_accepted_its_record_is_over(has_unwritten: bool) -> None:
    facts = facts_of(call=RunResult.CANCELLED, chosen=ACCEPT, is_moved=True, has_unwritten=has_unwritten)
    assert tables.after_call(facts).outcome == ("released" if has_unwritten else "accepted")


@pytest.mark.parametrize(
    ("age_s", "limit", "is_called"), [(100.0, None, True), (100.0, 101.0, True), (100.0, 99.0, False)]
)
def test_records_that_are_too_old_are_given_up(age_s: float, limit: float | None, is_called: bool) -> None:
    facts = facts_of(dead_letters_after=limit, timestamp=int(NOW_MS - age_s * 1000), dead_letters="dead")
    decision = first_decision(tables.BEFORE_CALL, facts)
    if is_called:
        assert decision is None
    else:
        assert decision is not None
        assert (decision.outcome, decision.reason, decision.rule) == (
            RecordOutcome.DEAD_LETTER,
            "older than 99 s",
            "too old",
        )


@pytest.mark.parametrize(
    ("options", "is_asked", "is_direct"),
    [
        ({}, False, True),
        ({"dead_letters": "dead", "retry_topics": True}, False, True),
        ({"only": bool}, True, False),
        ({"order": "key"}, False, False),
        ({"move_runs": True, "retry_topics": True}, False, False),
        ({"dead_letters_after": 60.0}, True, False),
    ],
)
def test_new_records_are_looked_at_if_a_rule_may_stop_them(
    options: dict[str, Any], is_asked: bool, is_direct: bool
) -> None:
    assert bool(tables.rules_of_new_records(HandlerOptions(**options))) is is_asked
    assert tables.are_called_directly(HandlerOptions(**options)) is is_direct


def test_a_rule_that_does_not_say_otherwise_looks_at_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """So whoever adds a policy can't forget the fast path."""
    rule = Rule("made up", "", "", lambda facts: False, lambda facts: RELEASE)
    monkeypatch.setattr(tables, "BEFORE_CALL", (*tables.BEFORE_CALL, rule))
    assert tables.rules_of_new_records(HandlerOptions()) == (rule,)
    assert not tables.are_called_directly(HandlerOptions())


def test_no_rule_comes_before_that_of_handlers_that_return() -> None:
    """When they do, the fast path asks no rule."""
    assert tables.AFTER_CALL[0].name == "done"


def test_a_new_record_that_no_rule_looks_at_is_always_called() -> None:
    """The fast path leaves the rules out for these (`are_called_directly`)."""
    for rule in tables.BEFORE_CALL:
        for situation in situations(
            tiers=(None, TIERS), dead_letters=(None, "dead"), timestamp=(0, int(NOW_MS))
        ):
            assert not rule.applies(facts_of(**situation)), rule.name


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_rules_say_in_words_what_they_do(rule: Rule) -> None:
    assert rule.name
    assert rule.when
    assert rule.then


def test_the_first_rule_decides_and_is_named() -> None:
    def rule(name: str, applies: bool) -> Rule:
        return Rule(name, "", "", lambda facts: applies, lambda facts: RELEASE)

    rules = [rule("first", False), rule("second", True), rule("third", True)]
    found = first_decision(rules, facts_of())
    assert found is not None
    assert (found.outcome, found.rule) == (RecordOutcome.RELEASED, "second")
    assert first_decision(rules[:1], facts_of()) is None


def test_a_rule_that_leaves_the_decision_to_another_table_is_named_too() -> None:
    assert tables.after_call(facts_of(call=RunResult.CANCELLED)).rule == "cancelled: released"
