"""The brake on fetches that a broker answers at once, without records."""

from __future__ import annotations

from kshare.state.empty_answers import (
    FREE,
    LONGEST_REOPEN_S,
    LONGEST_S,
    REMARKABLE,
    REOPEN,
    REOPEN_S,
    EmptyAnswers,
)


def test_pauses_double_up_to_the_longest() -> None:
    answers, now, pauses = EmptyAnswers(), 10.0, []
    for _ in range(12):
        answers.on_empty(0.001, 0.5, now)
        pauses.append(max(0.0, round(answers.until - now, 6)))
        now = max(now, answers.until)
    assert pauses[:FREE] == [0.0] * FREE
    assert pauses[FREE:] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    assert max(pauses) == LONGEST_S


def test_requests_in_a_minute_are_few() -> None:
    answers, now, requests = EmptyAnswers(), 0.0, 0
    while now < 60.0:
        requests += 1
        answers.on_empty(0.0002, 0.5, now)
        now = max(now + 0.0002, answers.until)
    assert requests < 80


def test_brokers_that_wait_are_asked_again_at_once() -> None:
    answers = EmptyAnswers()
    for _ in range(100):
        answers.on_empty(0.5, 0.5, 10.0)
    assert answers.until < 10.0


def test_records_end_the_pauses() -> None:
    answers = EmptyAnswers()
    for number in range(REMARKABLE):
        assert not answers.are_remarkable, number
        answers.on_empty(0.0, 0.5, 10.0)
    assert answers.are_remarkable
    answers.on_records()
    assert not answers.are_remarkable
    assert answers.until < 10.0


def reopened(answers: EmptyAnswers, begin: float, end: float) -> list[float]:
    """When the session is opened again, while a broker answers at once."""
    times, now = [], begin
    while now < end:
        answers.on_empty(0.0002, 0.5, now)
        if answers.should_reopen(now):
            answers.on_reopening(now)
            times.append(now)
        now = max(now + 0.0002, answers.until)
    return times


def test_the_session_is_opened_again_after_some_seconds_and_then_less_often() -> None:
    first, *others = times = reopened(EmptyAnswers(), 0.0, 3600.0)
    assert first < 5.0
    pauses = [after - before for before, after in zip(times, others, strict=False)]
    assert REOPEN_S <= pauses[0] < REOPEN_S + 2 * LONGEST_S
    assert pauses == sorted(pauses)
    assert LONGEST_REOPEN_S <= pauses[-1] < LONGEST_REOPEN_S + 2 * LONGEST_S
    assert len(times) < 15


def test_a_broker_that_waits_ends_the_long_pauses_and_records_do_not() -> None:
    """Records may be of other partitions than the one that stands still."""
    answers = EmptyAnswers()
    assert len(reopened(answers, 0.0, 60.0)) == 3
    answers.on_records()
    assert reopened(answers, 60.0, 70.0) == []
    answers.on_empty(0.5, 0.5, 70.0)
    for _ in range(REOPEN - 1):
        answers.on_empty(0.0, 0.5, 200.0)
    assert not answers.should_reopen(200.0)
    answers.on_empty(0.0, 0.5, 200.0)
    assert answers.should_reopen(200.0)
    answers.on_reopening(200.0)
    assert answers.should_reopen(200.0 + REOPEN_S)


def test_the_next_session_waits_until_the_broker_has_noticed_the_end_of_the_connection() -> None:
    answers = EmptyAnswers()
    answers.on_reopening(10.0)
    assert answers.until == 10.0 + LONGEST_S
