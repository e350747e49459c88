"""Held records: nothing is lost or given out twice, and the budget is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kshare.worker.queue.held_records import HeldBack

A, B = ("orders", 0), ("orders", 1)


def test_due_in_the_order_of_time_then_of_arrival() -> None:
    held: HeldBack[str] = HeldBack()
    for name, due in (("late", 30.0), ("first", 10.0), ("second", 10.0), ("later", 40.0)):
        held.add(A, 0, due, name)
    assert held.next_due == 10
    assert list(held.take_due(9.9)) == []
    assert list(held.take_due(30)) == ["first", "second", "late"]
    assert (held.next_due, len(held)) == (40, 1)


def test_records_that_pin_too_much_have_to_go() -> None:
    held: HeldBack[str] = HeldBack()
    held.saw(A, 50)
    held.add(A, 0, 1.0, "oldest")
    held.add(A, 40, 1.0, "newer")
    held.add(B, 0, 1.0, "other partition")
    assert list(held.over_budget(100, 100)) == []
    held.saw(A, 100)
    assert held.span(A, 0) == 101
    assert list(held.over_budget(100, 100)) == ["oldest"]
    held.saw(A, 1000)
    assert list(held.over_budget(100, 100)) == ["newer"]
    assert list(held.take_due(2.0)) == ["other partition"]


def test_older_offsets_never_shrink_the_window() -> None:
    held: HeldBack[str] = HeldBack()
    held.saw(A, 500)
    held.saw(A, 20)
    assert held.span(A, 10) == 491


def test_when_too_many_are_held_those_held_longest_go() -> None:
    held: HeldBack[str] = HeldBack()
    for number in range(4):
        held.add(A, number, 100.0 - number, str(number))
    assert list(held.over_budget(2, 1000)) == ["0", "1"]
    assert held.take_all() == [("3", 97.0), ("2", 98.0)]
    assert (len(held), held.next_due) == (0, None)


def test_everything_may_be_taken_out_while_the_budget_is_enforced() -> None:
    """The worker copies a record between two steps, and may be stopped meanwhile."""
    held: HeldBack[str] = HeldBack()
    held.saw(A, 100)
    held.add(A, 0, 1.0, "first")
    held.add(A, 1, 1.0, "second")
    going = held.over_budget(100, 10)
    assert next(going) == "first"
    assert held.take_all() == [("second", 1.0)]
    assert list(going) == []


def grown(step: Callable[[HeldBack[str]], None], held: HeldBack[str]) -> int:
    """How many bytes 5,000 steps add, after as many before."""
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(2):
            for _ in range(5_000):
                step(held)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return sizes[1] - sizes[0]


def test_nothing_piles_up_behind_a_record_that_stays() -> None:
    held: HeldBack[str] = HeldBack()
    held.add(A, 0, 1e6, "stays")

    def step(held: HeldBack[str]) -> None:
        held.add(A, 1, 1.0, "retried")
        assert list(held.take_due(2.0)) == ["retried"]

    assert grown(step, held) < 50_000


def test_records_that_had_to_go_leave_nothing_behind() -> None:
    def step(held: HeldBack[str]) -> None:
        held.add(A, 0, 1e6, "")
        list(held.over_budget(10, 1000))

    assert grown(step, HeldBack()) < 50_000


class AgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.held: HeldBack[int] = HeldBack()
        self.model: dict[int, tuple[tuple[str, int], int, float]] = {}
        self.newest: dict[tuple[str, int], int] = {}
        self.now, self.added = 0.0, 0

    def take_out(self, items: list[int]) -> None:
        for item in items:
            assert item in self.model, "given out twice"
            del self.model[item]

    @rule(where=st.sampled_from([A, B]), further=st.integers(1, 15))
    def acquire(self, where: tuple[str, int], further: int) -> None:
        self.newest[where] = self.newest.get(where, -1) + further
        self.held.saw(where, self.newest[where])

    @rule(
        where=st.sampled_from([A, B]), back=st.integers(0, 30), delay=st.sampled_from([0.0, 1.0, 5.0, 50.0])
    )
    def hold(self, where: tuple[str, int], back: int, delay: float) -> None:
        offset = max(0, self.newest.get(where, 0) - back)
        self.held.add(where, offset, self.now + delay, self.added)
        self.model[self.added] = (where, offset, self.now + delay)
        self.added += 1

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [item for item, (_, _, at) in self.model.items() if at <= self.now]
        taken = list(self.held.take_due(self.now))
        assert sorted(taken) == sorted(due)
        assert taken == sorted(taken, key=lambda item: (self.model[item][2], item))
        self.take_out(taken)

    @rule()
    def enforce(self) -> None:
        before = dict(self.model)
        self.take_out(list(self.held.over_budget(6, 20)))
        assert len(self.model) <= 6
        for where, offset, _ in self.model.values():
            assert self.newest.get(where, offset) - offset + 1 <= 20
        if len(before) <= 6:
            gone = [place for item, place in before.items() if item not in self.model]
            assert all(self.newest.get(where, offset) - offset + 1 > 20 for where, offset, _ in gone)

    @rule()
    def take_all(self) -> None:
        items = [item for item, _ in self.held.take_all()]
        assert len(items) == len(self.model)
        self.take_out(items)

    @invariant()
    def both_hold_the_same(self) -> None:
        assert len(self.held) == len(self.model)
        assert self.held.next_due == min((at for _, _, at in self.model.values()), default=None)


def test_agrees_with_a_simple_model() -> None:
    run_state_machine_as_test(AgainstModel)
