"""Rules: rows of tables, of which the first that applies decides. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kshare.worker.rules.decision import Decision
from kshare.worker.rules.facts import Facts

if TYPE_CHECKING:
    from kshare.worker.handlers.options import HandlerOptions


def always(options: HandlerOptions) -> bool:
    return True


def never(options: HandlerOptions) -> bool:
    return False


class Rule(NamedTuple):
    name: str
    when: str
    """In words, for the documentation."""
    then: str
    """Also in words: what is decided."""
    applies: Callable[[Facts], bool]
    decide: Callable[[Facts], Decision]
    of_new_records: Callable[[HandlerOptions], bool] = always
    """Before the call: whether it may apply to a record that comes for the first time. If no rule may, handlers get
    these without asking the rules (`tables.are_called_directly`)."""


def first_decision(rules: Sequence[Rule], facts: Facts) -> Decision | None:
    """None if no rule applies. If a rule leaves the decision to another table, both rules are named."""
    for rule in rules:
        if rule.applies(facts):
            decision = rule.decide(facts)
            if decision.rule in ("", rule.name):
                return decision._replace(rule=rule.name)
            return decision._replace(rule=f"{rule.name}: {decision.rule}")
    return None
