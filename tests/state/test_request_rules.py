"""Which request rule applies in which situation: each rule, their order, and all possible situations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from textwrap import wrap

import pytest

from kshare.state import request_rules
from kshare.state.request_rules import REQUEST_RULES, Action, RequestRule, Situation

_WHEN = 60
"""The width of the table's second column."""
NAMES = [rule.name for rule in REQUEST_RULES]

_APPLIES = {
    "renewals": Situation(has_decided=True),
    "unassigned": Situation(has_decided=True, has_unassigned=True),
    "partitions": Situation(has_changes=True, has_capacity=True),
    "awaited": Situation(has_decided=True, is_awaited=True),
    "refused": Situation(has_decided=True, is_refused=True),
    "lingering": Situation(has_decided=True, has_lingered=True),
    "confirmation": Situation(has_decided=True, has_capacity=True, commits=True),
    "records": Situation(has_capacity=True),
}

_PASSED_OVER = [
    # a rule, and a situation in which it doesn't apply although some of its conditions hold
    ("renewals", Situation(has_unassigned=True, is_refused=True, has_lingered=True, is_awaited=True)),
    ("unassigned", Situation(has_decided=True)),
    ("partitions", Situation(has_changes=True)),
    ("partitions", Situation(has_capacity=True)),
    ("partitions", Situation(forgets_all=True)),
    ("awaited", Situation(is_awaited=True)),
    ("awaited", Situation(has_decided=True)),
    ("refused", Situation(has_decided=True)),
    ("lingering", Situation(has_decided=True)),
    ("lingering", Situation(has_decided=True, has_lingered=True, has_capacity=True, broker_has_more=True)),
    ("confirmation", Situation(has_decided=True, has_capacity=True)),
    ("confirmation", Situation(has_decided=True, commits=True)),
    ("confirmation", Situation(has_capacity=True, commits=True)),
    ("confirmation", Situation(has_decided=True, has_capacity=True, commits=True, broker_has_more=True)),
    ("records", Situation(broker_has_more=True)),
    ("records", Situation(has_capacity=True, is_settled_soon=True)),
]

_ALSO_APPLIES = [
    ("partitions", Situation(has_changes=True, forgets_all=True)),
    ("lingering", Situation(has_decided=True, has_lingered=True, has_capacity=True)),
    ("lingering", Situation(has_decided=True, has_lingered=True, broker_has_more=True)),
    ("records", Situation(has_capacity=True, is_settled_soon=True, broker_has_more=True)),
]


def rule(name: str) -> RequestRule:
    return REQUEST_RULES[NAMES.index(name)]


def all_situations() -> Iterator[Situation]:
    return (Situation(*flags) for flags in product((False, True), repeat=len(Situation._fields)))


def test_every_rule_has_a_situation() -> None:
    assert list(_APPLIES) == NAMES


@pytest.mark.parametrize(("name", "situation"), [*_APPLIES.items(), *_ALSO_APPLIES])
def test_rule_applies(name: str, situation: Situation) -> None:
    assert rule(name).applies(situation)


@pytest.mark.parametrize(("name", "situation"), _PASSED_OVER)
def test_rule_does_not_apply(name: str, situation: Situation) -> None:
    assert not rule(name).applies(situation)


def test_order_of_the_rules() -> None:
    """Each pair: a rule, and a later rule that it must precede."""
    before = [
        ("renewals", "awaited"),  # an expired lock would undo what is awaited
        ("renewals", "partitions"),  # a fetch may wait at the broker while locks expire
        ("unassigned", "partitions"),  # the fetch would reacquire the records that they release
        ("unassigned", "records"),
        ("awaited", "records"),  # in a fetch, they would be confirmed only when records arrive
        ("refused", "records"),  # pieces refused in a fetch would delay the next one by its wait
        ("lingering", "records"),
        ("confirmation", "records"),
    ]
    for earlier, later in before:
        assert NAMES.index(earlier) < NAMES.index(later), (earlier, later)


def test_nothing_is_fetched_without_capacity_unless_everything_is_forgotten() -> None:
    for situation in all_situations():
        asks = {rule.action for rule in REQUEST_RULES if rule.applies(situation)}
        if Action.FETCH in asks:
            assert situation.has_capacity or situation.forgets_all


def test_nothing_is_acknowledged_without_decisions() -> None:
    for situation in all_situations():
        if not situation.has_decided:
            assert {rule.action for rule in REQUEST_RULES if rule.applies(situation)} <= {Action.FETCH}


def test_waiting_acknowledgements_and_users_get_a_request() -> None:
    for situation in all_situations():
        applying = [rule.action for rule in REQUEST_RULES if rule.applies(situation)]
        if situation.has_decided and (situation.is_awaited or situation.is_refused):
            assert Action.SETTLE in applying
        if situation.has_decided and situation.has_lingered:
            assert Action.SETTLE in applying or Action.FETCH in applying
        if situation.has_capacity and not situation.is_settled_soon:
            assert Action.FETCH in applying


def test_documented_table_matches_the_rules() -> None:
    rows = [("rule", "applies when", "request")]
    for rule in REQUEST_RULES:
        first, *more = wrap(rule.when, _WHEN)
        rows += [(rule.name, first, rule.action.value), *(("", line, "") for line in more)]
    lines = [f"    {name:<12} | {when:<{_WHEN}} | {action}".rstrip() for name, when, action in rows]
    lines.insert(1, f"    {'-' * 13}+{'-' * (_WHEN + 2)}+{'-' * 23}")
    drawn = "\n".join(lines)
    assert drawn in (request_rules.__doc__ or ""), drawn
