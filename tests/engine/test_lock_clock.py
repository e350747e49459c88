"""The clock for locks: corrected by the time that the machine was suspended."""

from __future__ import annotations

import pytest

from kshare.engine.lock_clock import LockClock


class Rig:
    def __init__(self) -> None:
        self.now = 100.0
        self.asleep = 5.0
        self.clock = LockClock(lambda: self.now, lambda: self.asleep)


def test_suspension_is_returned_once() -> None:
    rig = Rig()
    assert rig.clock.slept() == 0.0
    rig.asleep += 20.0
    assert rig.clock.slept() == pytest.approx(20.0)
    assert rig.clock.slept() == 0.0


def test_noise_is_not_a_suspension() -> None:
    rig = Rig()
    for noise in (-0.2, 0.001, 0.0, -3.0, 0.009):
        rig.asleep = 5.0 + noise
        assert rig.clock.slept() == 0.0


def test_times_before_a_suspension_are_moved_back_by_it() -> None:
    rig = Rig()
    stamp = rig.clock.stamp()
    rig.now += 1.0
    rig.asleep += 20.0
    assert rig.clock.time_of(stamp) == pytest.approx(80.0)
