"""The rate limit: how much it allows over any time, and how long it lets wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare import ConfigError
from kshare.worker import HandlerOptions
from kshare.worker.rules.rate_limit import TokenBucket


def test_one_at_once_and_then_at_the_rate() -> None:
    bucket = TokenBucket(2)
    assert [bucket.take(10.0), bucket.take(10.0), bucket.take(10.4), bucket.take(10.5)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_look_takes_nothing() -> None:
    bucket = TokenBucket(2)
    assert bucket.has_token(10.0)
    assert bucket.take(10.0)
    assert [bucket.has_token(now) for now in (10.0, 10.4, 10.5, 10.5)] == [False, False, True, True]


def test_idle_time_saves_up_for_one_second() -> None:
    bucket = TokenBucket(3)
    assert bucket.take(0.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]


def test_rates_below_one_save_up_for_one_record() -> None:
    bucket = TokenBucket(0.1)
    assert bucket.take(0.0)
    assert not bucket.take(9.0)
    assert bucket.wait_s == pytest.approx(1.0)
    assert bucket.take(1000.0)
    assert not bucket.take(1000.0)


def test_token_without_use_is_given_back() -> None:
    bucket = TokenBucket(1)
    assert bucket.take(5.0)
    bucket.give_back()
    assert bucket.take(5.0)
    assert not bucket.take(5.0)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), "1"])
def test_invalid_rates_are_refused(rate: Any) -> None:
    with pytest.raises(ConfigError, match=r"rate_limit must be a number from 0.001 to 1e\+06, not "):
        HandlerOptions(rate_limit=rate)


@given(st.floats(0.01, 10_000), st.lists(st.floats(0, 3), min_size=1, max_size=200))
def test_never_more_than_the_rate_and_a_burst(rate: float, waits: list[float]) -> None:
    bucket, now, taken = TokenBucket(rate), 1000.0, 0
    for wait in waits:
        now += wait
        while taken < 5_000 and bucket.take(now):
            taken += 1
    assert taken <= max(1.0, rate) + (now - 1000.0) * rate + 1


@given(st.floats(0.01, 10_000), st.floats(0, 1e9), st.integers(1, 50))
def test_two_waits_are_enough(rate: float, now: float, count: int) -> None:
    """One should be, but times are rounded: the second makes up for that."""
    bucket = TokenBucket(rate)
    for _ in range(count):
        if not bucket.take(now):
            now += bucket.wait_s
            if not bucket.take(now):
                now += bucket.wait_s
                assert bucket.take(now)
