"""Quantiles of durations: accurate to two digits, and never above the maximum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.traffic.latencies import Latencies


@given(st.lists(st.floats(0, 1e5), min_size=1), st.floats(0.01, 1))
def test_quantiles_are_accurate_to_two_digits(seconds: list[float], part: float) -> None:
    times = Latencies()
    for second in seconds:
        times.add(second)
    found = times.quantile(part)
    assert found is not None
    at_most = [second for second in seconds if second <= found * 1.06 + 1e-6]
    below = [second for second in seconds if second < found * 0.94 - 1e-6]
    assert len(below) <= part * len(seconds) <= len(at_most) + 1e-9
    assert found <= max(seconds)


def test_quantile_of_nothing_is_none() -> None:
    assert Latencies().quantile(0.5) is None
