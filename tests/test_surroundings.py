"""Times and randomness: the real ones, and those that replace them."""

from __future__ import annotations

import time
from random import Random

import pytest

from kshare import surroundings as real
from kshare.engine.member import new_member_id
from kshare.surroundings import Surroundings, surroundings

suspended_s = Surroundings.suspended_s


def test_suspension_is_the_difference_between_two_system_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = {7: 1000.0}
    monkeypatch.setattr(real, "_THROUGH_SUSPENSION", 7)
    monkeypatch.setattr(time, "clock_gettime", readings.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: 900.0)
    before = suspended_s()
    readings[7] += 60.0
    assert suspended_s() - before == 60.0


def test_no_suspension_is_measured_while_awake() -> None:
    # Any delay between the two readings makes a single result smaller.
    before, after = (max(suspended_s() for _ in range(100)) for _ in range(2))
    assert abs(after - before) < 0.01


def test_suspension_is_zero_on_systems_without_such_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "_THROUGH_SUSPENSION", None)
    assert suspended_s() == 0.0


class Seeded(Surroundings):
    def random_bytes(self, count: int) -> bytes:
        return Random(7).randbytes(count)


def test_what_replaces_them_is_used_by_the_tasks_that_it_is_set_for() -> None:
    first = new_member_id()
    token = surroundings.set(Seeded())
    try:
        assert new_member_id() == new_member_id() != first
    finally:
        surroundings.reset(token)
    assert new_member_id() != new_member_id()
