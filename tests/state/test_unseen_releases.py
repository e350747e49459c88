"""Releases of records that nobody saw: growing pauses by partition, a bound by minute, and what is left to a record."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.state.unseen_releases import (
    FIRST_S,
    LONGEST_S,
    MINUTE_S,
    MOST_A_MINUTE,
    SAFE_LEFT,
    UnseenReleases,
)

ONE, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)


def test_pauses_of_a_record_that_comes_back_each_time() -> None:
    releases, now, pauses = UnseenReleases(limit=5), 100.0, []
    for delivery in range(1, 6):
        price = releases.on_released(ONE, delivery, now)
        assert price.left == 5 - delivery
        pauses.append(price.pause_s)
        now += price.pause_s
    assert pauses == [0.5, 2.0, 8.0, 60.0, 60.0]


def test_other_partitions_are_not_paused() -> None:
    releases = UnseenReleases()
    releases.on_released(ONE, 1, 0.0)
    assert releases.is_paused(ONE, 0.1)
    assert not releases.is_paused(OTHER, 0.1)
    assert not releases.is_paused(ONE, FIRST_S)
    assert releases.next_end(0.1) == FIRST_S
    assert releases.next_end(FIRST_S) == math.inf


def test_ranges_of_one_response_are_one_release() -> None:
    releases = UnseenReleases()
    for _ in range(1000):
        assert releases.on_released(ONE, 1, 0.0).pause_s == FIRST_S
    assert releases.on_released(ONE, 2, 0.0).pause_s == 2.0, "the longest pause counts"
    assert releases.on_released(ONE, 1, 0.0).pause_s == 2.0


def test_pauses_grow_although_the_records_are_others_each_time() -> None:
    releases, now, pauses = UnseenReleases(limit=100), 0.0, []
    for _ in range(5):
        pauses.append(releases.on_released(ONE, 1, now).pause_s)
        now += pauses[-1]
    assert pauses == [0.5, 2.0, 8.0, 32.0, 60.0]


def test_records_that_were_seen_shorten_the_next_pause() -> None:
    releases = UnseenReleases()
    releases.on_released(ONE, 1, 0.0)
    releases.on_released(ONE, 1, 10.0)
    releases.on_seen(ONE)
    releases.on_seen(OTHER)
    assert releases.on_released(ONE, 1, 20.0).pause_s == FIRST_S


def test_no_more_than_so_many_releases_a_minute() -> None:
    releases, now, times = UnseenReleases(limit=1000), 0.0, []
    while now < 10 * MINUTE_S:
        times.append(now)
        now += releases.on_released(ONE, 1, now).pause_s
        releases.on_seen(ONE)
    for first, last in zip(times, times[MOST_A_MINUTE:], strict=False):
        assert last - first >= MINUTE_S - 1e-6


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_last_delivery_is_risked_only_after_the_longest_pause(limit: int) -> None:
    releases = UnseenReleases(limit)
    price = releases.on_released(ONE, limit - 1, 0.0)
    assert price == (LONGEST_S, 1)
    assert price.left < SAFE_LEFT


def test_quiet_partitions_are_forgotten() -> None:
    releases = UnseenReleases()
    for number in range(100):
        releases.on_released((b"t" * 16, number), 1, 0.0)
    assert len(releases) == 100
    assert releases.next_end(MINUTE_S + 1.0) == math.inf
    assert len(releases) == 0


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 12), st.booleans()), max_size=60), st.integers(2, 10)
)
def test_bounds_hold_whatever_happens(steps: list[tuple[float, int, bool]], limit: int) -> None:
    releases, now, begun = UnseenReleases(limit), 0.0, list[float]()
    for wait, delivery, is_seen in steps:
        now += wait
        if not releases.is_paused(ONE, now):
            begun.append(now)
        announced = releases.price(ONE, delivery, now)
        price = releases.on_released(ONE, delivery, now)
        assert price == announced
        assert FIRST_S - 1e-6 <= price.pause_s <= LONGEST_S + MINUTE_S
        assert price.left == max(0, limit - delivery)
        assert releases.is_paused(ONE, now)
        if is_seen:
            releases.on_seen(ONE)
    for first, last in zip(begun, begun[MOST_A_MINUTE:], strict=False):
        assert last - first >= MINUTE_S - 1e-6
