"""How many records are worth holding, derived from how fast they are processed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.state.processing_rate import HORIZON_S, INITIAL_TARGET, MIN_REFILL, ProcessingRate


def gone_through(pace: ProcessingRate, records: int, seconds: float, now: float) -> float:
    pace.on_handed_out(records, now)
    pace.on_next_requested(now + seconds)
    return now + seconds


def test_fast_user_reaches_the_maximum_after_a_few_batches() -> None:
    pace, now, sizes = ProcessingRate(10_000), 0.0, []
    while pace.target < 10_000:
        sizes.append(pace.target)
        now = gone_through(pace, pace.target, pace.target * 1e-6, now)
    assert sizes == [16, 64, 256, 1024, 4096]


def test_slow_user_gets_enough_for_the_horizon() -> None:
    pace, now = ProcessingRate(10_000), 0.0
    for _ in range(20):
        now = gone_through(pace, pace.target, pace.target * 0.005, now)
    assert abs(pace.target - HORIZON_S / 0.005) <= 1
    assert pace.within(0.1) == 20


def test_user_that_becomes_slow_is_noticed_within_seconds() -> None:
    pace, now = ProcessingRate(10_000), 0.0
    for _ in range(10):
        now = gone_through(pace, 4000, 0.004, now)
    for _ in range(4):
        now = gone_through(pace, 100, 1.0, now)
    assert pace.target < 200


def test_waiting_time_is_not_processing_time() -> None:
    pace = ProcessingRate(1000)
    now = gone_through(pace, 10, 0.1, 0.0)
    target = pace.target
    pace.on_next_requested(now + 50.0)
    assert pace.target == target
    gone_through(pace, 10, 0.1, now + 50.0)
    assert 99 < pace.rate < 101


def test_very_slow_user_holds_one_record_at_a_time() -> None:
    pace, now = ProcessingRate(1000), 0.0
    for _ in range(10):
        now = gone_through(pace, 1, 5.0, now)
    assert pace.target == 1
    assert pace.wants(0, is_waiting=False)
    assert not pace.wants(1, is_waiting=False)


def test_refill_waits_for_half_of_the_target_or_a_worthwhile_amount() -> None:
    pace = ProcessingRate(16_000)
    for target, refill_at in (
        (2, 1),
        (500, 250),
        (2 * MIN_REFILL, MIN_REFILL),
        (16_000, 16_000 - MIN_REFILL),
    ):
        pace.target = target
        assert pace.refill_at == refill_at
        assert pace.wants(refill_at, is_waiting=False)
        assert not pace.wants(refill_at + 1, is_waiting=False)


def test_waiting_user_with_records_in_hand_gets_more() -> None:
    pace = ProcessingRate(100)
    assert not pace.wants(60, is_waiting=False)
    assert pace.wants(60, is_waiting=True)
    assert pace.capacity(60, 1, is_waiting=True) == INITIAL_TARGET
    assert pace.capacity(95, 1, is_waiting=True) == 5
    assert not pace.wants(100, is_waiting=True)


def test_target_restarts_after_a_loss() -> None:
    pace, now = ProcessingRate(1000), 0.0
    for _ in range(5):
        now = gone_through(pace, pace.target, pace.target * 1e-5, now)
    assert pace.target == 1000
    pace.on_lost()
    assert pace.target == INITIAL_TARGET
    gone_through(pace, INITIAL_TARGET, INITIAL_TARGET * 1e-5, now)
    assert pace.target == 4 * INITIAL_TARGET


def test_brokers_share_the_capacity() -> None:
    pace = ProcessingRate(16)
    assert [pace.capacity(4, sources, is_waiting=False) for sources in (0, 1, 2, 3, 50)] == [12, 12, 6, 4, 1]


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 100)), max_size=30), st.integers(1, 5000))
def test_max_records_is_respected(batches: list[tuple[int, float]], max_records: int) -> None:
    pace, now = ProcessingRate(max_records), 0.0
    for records, seconds in batches:
        now = gone_through(pace, records, seconds, now)
        assert 1 <= pace.target <= max_records
        assert 1 <= pace.capacity(min(max_records - 1, records), 3, is_waiting=False) <= max_records
