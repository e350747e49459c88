"""How many records are worth holding: found out from how fast they are gone through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.state.pace import FIRST, HORIZON_S, WORTHWHILE, Pace


def gone_through(pace: Pace, records: int, seconds: float, now: float) -> float:
    pace.on_handed(records, now)
    pace.on_asked(now + seconds)
    return now + seconds


def test_a_quick_user_gets_all_there_may_be_after_a_few_batches() -> None:
    pace, now, sizes = Pace(10_000), 0.0, []
    while pace.target < 10_000:
        sizes.append(pace.target)
        now = gone_through(pace, pace.target, pace.target * 1e-6, now)
    assert sizes == [16, 64, 256, 1024, 4096]


def test_a_slow_user_gets_what_lasts_for_the_horizon() -> None:
    pace, now = Pace(10_000), 0.0
    for _ in range(20):
        now = gone_through(pace, pace.target, pace.target * 0.005, now)
    assert abs(pace.target - HORIZON_S / 0.005) <= 1
    assert pace.within(0.1) == 20


def test_one_that_becomes_slow_is_noticed_within_seconds() -> None:
    pace, now = Pace(10_000), 0.0
    for _ in range(10):
        now = gone_through(pace, 4000, 0.004, now)
    for _ in range(4):
        now = gone_through(pace, 100, 1.0, now)
    assert pace.target < 200


def test_waiting_for_records_says_nothing_about_the_user() -> None:
    pace = Pace(1000)
    now = gone_through(pace, 10, 0.1, 0.0)
    target = pace.target
    pace.on_asked(now + 50.0)
    assert pace.target == target
    gone_through(pace, 10, 0.1, now + 50.0)
    assert 99 < pace.rate < 101


def test_a_very_slow_user_holds_one_at_a_time() -> None:
    pace, now = Pace(1000), 0.0
    for _ in range(10):
        now = gone_through(pace, 1, 5.0, now)
    assert pace.target == 1
    assert pace.wants(0, is_waiting=False)
    assert not pace.wants(1, is_waiting=False)


def test_a_fetch_waits_for_half_of_the_room_and_for_no_more_than_makes_it_worth_it() -> None:
    pace = Pace(16_000)
    for target, few in ((2, 1), (500, 250), (2 * WORTHWHILE, WORTHWHILE), (16_000, 16_000 - WORTHWHILE)):
        pace.target = target
        assert pace.few == few
        assert pace.wants(few, is_waiting=False)
        assert not pace.wants(few + 1, is_waiting=False)


def test_who_waits_with_records_in_hand_gets_more() -> None:
    pace = Pace(100)
    assert not pace.wants(60, is_waiting=False)
    assert pace.wants(60, is_waiting=True)
    assert pace.room(60, 1, is_waiting=True) == FIRST
    assert pace.room(95, 1, is_waiting=True) == 5
    assert not pace.wants(100, is_waiting=True)


def test_after_a_loss_it_begins_anew_and_grows_as_at_first() -> None:
    pace, now = Pace(1000), 0.0
    for _ in range(5):
        now = gone_through(pace, pace.target, pace.target * 1e-5, now)
    assert pace.target == 1000
    pace.on_lost()
    assert pace.target == FIRST
    gone_through(pace, FIRST, FIRST * 1e-5, now)
    assert pace.target == 4 * FIRST


def test_brokers_share_the_room() -> None:
    pace = Pace(16)
    assert [pace.room(4, sources, is_waiting=False) for sources in (0, 1, 2, 3, 50)] == [12, 12, 6, 4, 1]


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 100)), max_size=30), st.integers(1, 5000))
def test_the_users_limit_holds(batches: list[tuple[int, float]], most: int) -> None:
    pace, now = Pace(most), 0.0
    for records, seconds in batches:
        now = gone_through(pace, records, seconds, now)
        assert 1 <= pace.target <= most
        assert 1 <= pace.room(min(most - 1, records), 3, is_waiting=False) <= most
