"""The brake on fetches that a broker answers at once, without records."""

from __future__ import annotations

from kshare.state.empty_answers import FREE, LONGEST_S, REMARKABLE, EmptyAnswers


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
