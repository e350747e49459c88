"""The brake on fetches that a broker responds at once, without records."""

from __future__ import annotations

from kshare.state.empty_responses import (
    FREE,
    LONGEST_REOPEN_S,
    LONGEST_S,
    REMARKABLE,
    REOPEN,
    REOPEN_S,
    EmptyResponses,
)


def test_pauses_double_up_to_the_longest() -> None:
    responses, now, pauses = EmptyResponses(), 10.0, []
    for _ in range(12):
        responses.on_empty(0.001, 0.5, now)
        pauses.append(max(0.0, round(responses.until - now, 6)))
        now = max(now, responses.until)
    assert pauses[:FREE] == [0.0] * FREE
    assert pauses[FREE:] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    assert max(pauses) == LONGEST_S


def test_requests_in_a_minute_are_few() -> None:
    responses, now, requests = EmptyResponses(), 0.0, 0
    while now < 60.0:
        requests += 1
        responses.on_empty(0.0002, 0.5, now)
        now = max(now + 0.0002, responses.until)
    assert requests < 80


def test_brokers_that_wait_are_asked_again_at_once() -> None:
    responses = EmptyResponses()
    for _ in range(100):
        responses.on_empty(0.5, 0.5, 10.0)
    assert responses.until < 10.0


def test_records_end_the_pauses() -> None:
    responses = EmptyResponses()
    for number in range(REMARKABLE):
        assert not responses.are_remarkable, number
        responses.on_empty(0.0, 0.5, 10.0)
    assert responses.are_remarkable
    responses.on_records()
    assert not responses.are_remarkable
    assert responses.until < 10.0


def reopened(responses: EmptyResponses, begin: float, end: float) -> list[float]:
    """When the session is opened again, while a broker responds at once."""
    times, now = [], begin
    while now < end:
        responses.on_empty(0.0002, 0.5, now)
        if responses.should_reopen(now):
            responses.on_reopening(now)
            times.append(now)
        now = max(now + 0.0002, responses.until)
    return times


def test_the_session_is_opened_again_after_some_seconds_and_then_less_often() -> None:
    first, *others = times = reopened(EmptyResponses(), 0.0, 3600.0)
    assert first < 5.0
    pauses = [after - before for before, after in zip(times, others, strict=False)]
    assert REOPEN_S <= pauses[0] < REOPEN_S + 2 * LONGEST_S
    assert pauses == sorted(pauses)
    assert LONGEST_REOPEN_S <= pauses[-1] < LONGEST_REOPEN_S + 2 * LONGEST_S
    assert len(times) < 15


def test_a_broker_that_waits_ends_the_long_pauses_and_records_do_not() -> None:
    """Records may be of other partitions than the one that stands still."""
    responses = EmptyResponses()
    assert len(reopened(responses, 0.0, 60.0)) == 3
    responses.on_records()
    assert reopened(responses, 60.0, 70.0) == []
    responses.on_empty(0.5, 0.5, 70.0)
    for _ in range(REOPEN - 1):
        responses.on_empty(0.0, 0.5, 200.0)
    assert not responses.should_reopen(200.0)
    responses.on_empty(0.0, 0.5, 200.0)
    assert responses.should_reopen(200.0)
    responses.on_reopening(200.0)
    assert responses.should_reopen(200.0 + REOPEN_S)


def test_the_next_session_waits_until_the_broker_has_noticed_the_end_of_the_connection() -> None:
    responses = EmptyResponses()
    responses.on_reopening(10.0)
    assert responses.until == 10.0 + LONGEST_S
