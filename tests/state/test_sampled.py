"""Rates, means and maximums of the last minute."""

from __future__ import annotations

import pytest

from kshare.state.sampled import DEFAULT_WINDOW_S, Sampled


def test_without_values_there_is_no_mean_and_no_maximum() -> None:
    sampled = Sampled(100.0)
    assert (sampled.mean(110.0), sampled.highest(110.0)) == (None, None)
    assert sampled.rate(110.0) == 0.0
    assert sampled.total == 0.0


def test_at_the_start_a_rate_is_divided_by_a_window_more() -> None:
    """As measured: Java's first push after 3.09 s had 16 requests at a rate of 0.4836."""
    sampled = Sampled(0.0)
    for _ in range(16):
        sampled.record(1, 1.0)
    assert sampled.rate(3.09) == pytest.approx(0.4836, abs=1e-4)
    assert sampled.rate(40.0) == pytest.approx(16 / 40)


def test_values_of_two_windows_count() -> None:
    sampled = Sampled(0.0)
    sampled.record(9, 1.0)
    sampled.record(3, DEFAULT_WINDOW_S + 1)
    assert sampled.mean(50.0) == 6
    assert sampled.highest(50.0) == 9
    assert sampled.rate(50.0) == pytest.approx(12 / 50)
    sampled.record(1, 2 * DEFAULT_WINDOW_S + 2)  # the first window is replaced
    assert sampled.highest(70.0) == 3
    assert sampled.total == 13
    assert sampled.count == 3
    assert sampled.frequency(70.0) == pytest.approx(2 / (70 - DEFAULT_WINDOW_S - 1))
    assert sampled.last_at == 2 * DEFAULT_WINDOW_S + 2


def test_old_values_are_forgotten() -> None:
    sampled = Sampled(0.0)
    sampled.record(9, 1.0)
    assert sampled.highest(1.0 + 2 * DEFAULT_WINDOW_S - 0.1) == 9
    assert sampled.highest(1.0 + 2 * DEFAULT_WINDOW_S) is None
    assert sampled.rate(1.0 + 2 * DEFAULT_WINDOW_S) == 0.0
    assert sampled.total == 9


def test_the_window_may_be_longer() -> None:
    """As measured: one rebalance, three seconds ago, is 0.999 in an hour."""
    sampled = Sampled(0.0, 3600.0)
    sampled.record(1, 0.0)
    assert 3600 * sampled.rate(3.0) == pytest.approx(0.999, abs=1e-3)
