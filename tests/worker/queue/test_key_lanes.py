"""Order by key: one record of a key at a time, in the order of arrival, and none is left behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.worker.queue.key_lanes import KeyLanes


def test_second_of_a_key_waits_for_the_first() -> None:
    lanes: KeyLanes[str] = KeyLanes()
    assert lanes.enter(b"k", "first")
    assert not lanes.enter(b"k", "second")
    assert lanes.enter(b"other", "of another key")
    assert len(lanes) == 1
    assert lanes.leave(b"k") == "second"
    assert lanes.leave(b"k") is None
    assert lanes.enter(b"k", "third")


def test_records_without_a_key_never_wait() -> None:
    lanes: KeyLanes[str] = KeyLanes()
    assert lanes.enter(None, "a")
    assert lanes.enter(None, "b")
    assert lanes.leave(None) is None


def test_empty_keys_are_keys() -> None:
    lanes: KeyLanes[str] = KeyLanes()
    assert lanes.enter(b"", "a")
    assert not lanes.enter(b"", "b")


def test_take_all_returns_what_waits() -> None:
    lanes: KeyLanes[str] = KeyLanes()
    for item in ("a", "b", "c"):
        lanes.enter(1, item)
    assert lanes.take_all() == ["b", "c"]
    assert len(lanes) == 0
    assert lanes.leave(1) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_one_at_a_time_and_in_order(steps: list[tuple[str, bool]]) -> None:
    lanes: KeyLanes[tuple[str, int]] = KeyLanes()
    entered: dict[str, int] = dict.fromkeys("abc", 0)
    started: dict[str, list[int]] = {key: [] for key in "abc"}
    busy: set[str] = set()

    def start(key: str, number: int) -> None:
        assert key not in busy
        busy.add(key)
        started[key].append(number)

    def end(key: str) -> None:
        busy.remove(key)
        following = lanes.leave(key)
        if following is not None:
            assert following[0] == key
            start(*following)

    for key, is_arrival in steps:
        if is_arrival:
            number, entered[key] = entered[key], entered[key] + 1
            if lanes.enter(key, (key, number)):
                start(key, number)
        elif key in busy:
            end(key)
    for key in "abc":
        while key in busy:
            end(key)
    assert started == {key: list(range(count)) for key, count in entered.items()}
    assert len(lanes) == 0
