"""How many bytes of status pages are kept."""

from __future__ import annotations

from kshare.fleet.asking import BodyBudget

MIB = 1 << 20


def test_large_bodies_cannot_take_the_share_of_others() -> None:
    budget = BodyBudget(1000)
    kept = sum(budget.take(MIB) for _ in range(900))
    assert kept == 16
    assert all(budget.take(16 * 1024) for _ in range(100))


def test_few_processes_may_say_much() -> None:
    budget = BodyBudget(16)
    assert all(budget.take(MIB) for _ in range(16))


def test_nobody_to_ask() -> None:
    assert BodyBudget(0).take(MIB)
