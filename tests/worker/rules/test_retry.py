"""Retry policies: how often, after which delay, for which exceptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare import ConfigError
from kshare.worker.rules.retry import LONGEST_DELAY_S, Exponential, Retry


def delays(retry: Retry, error: BaseException | None = None) -> list[float | None]:
    """After each attempt, without jitter."""
    return [retry.next_delay(error or ValueError(), attempt, 0.0, 0.5) for attempt in range(1, 7)]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (3, [3.0, 3.0, 3.0, 3.0, None, None]),
        ([1, 5], [1.0, 5.0, 5.0, 5.0, None, None]),
        (Exponential(first=2, factor=3, longest=10), [2.0, 6.0, 10.0, 10.0, None, None]),
        (lambda attempt: attempt * 10, [10.0, 20.0, 30.0, 40.0, None, None]),
        (0, [0.0, 0.0, 0.0, 0.0, None, None]),
    ],
    ids=["constant", "listed", "exponential", "function", "none"],
)
def test_delays(delay: Any, expected: list[float | None]) -> None:
    assert delays(Retry(attempts=5, delay=delay)) == expected


def test_single_attempt_is_never_retried() -> None:
    assert delays(Retry(attempts=1)) == [None] * 6


def test_exceptions_that_are_never_retried_include_subclasses() -> None:
    retry = Retry(delay=1, never=(LookupError,))
    assert retry.next_delay(KeyError(), 1, 0.0, 0.5) is None
    assert retry.next_delay(ValueError(), 1, 0.0, 0.5) == 1


def test_policy_of_the_nearest_class_applies() -> None:
    retry = Retry(
        attempts=2,
        delay=1,
        by_error={OSError: Retry(attempts=3, delay=2), ConnectionError: Retry(attempts=4, delay=3)},
    )
    assert delays(retry) == [1, None, None, None, None, None]
    assert delays(retry, FileNotFoundError()) == [2, 2, None, None, None, None]
    assert delays(retry, ConnectionResetError()) == [3, 3, 3, None, None, None]
    assert (retry.most_attempts(), retry.longest_delay()) == (4, 3)


def test_old_records_are_not_retried() -> None:
    retry = Retry(delay=10, max_age=60)
    assert retry.next_delay(ValueError(), 1, 50.0, 0.5) == 10
    assert retry.next_delay(ValueError(), 1, 50.1, 0.5) is None


@given(
    st.floats(0.001, 1000),
    st.floats(1, 1000),
    st.floats(0, 0.99),
    st.integers(1, 10**9),
    st.floats(0, 1),
)
def test_exponential_delays_stay_within_their_bounds(
    first: float, factor: float, jitter: float, attempt: int, random: float
) -> None:
    delay = Exponential(first=first, factor=factor, longest=1000, jitter=jitter)
    found = delay.after(attempt, random)
    assert first * (1 - jitter) * 0.999 <= found <= 1000 * (1 + jitter) * 1.001
    assert delay.after(attempt + 1, random) >= found


def test_jitter_spreads_delays_to_both_sides() -> None:
    delay = Exponential(first=10, jitter=0.2)
    assert [round(delay.after(1, random), 6) for random in (0.0, 0.5, 1.0)] == [8, 10, 12]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": 0}, "attempts must be a whole number above 0, not 0"),
        ({"attempts": 2.0}, "attempts must be a whole number"),
        ({"attempts": True}, "attempts must be a whole number"),
        ({"max_age": 0}, "max_age must be a positive number of seconds, at most 1,000,000,000, not 0"),
        ({"delay": -1}, "a delay must be between 0 and 86,400 seconds, not -1"),
        ({"delay": LONGEST_DELAY_S + 1}, "a delay must be between 0 and 86,400 seconds"),
        ({"delay": float("nan")}, "a delay must be between 0 and 86,400 seconds"),
        ({"delay": [1, -1]}, "a delay must be between 0 and 86,400 seconds, not -1"),
        ({"delay": [1, "2"]}, "a delay must be between 0 and 86,400 seconds, not '2'"),
        ({"delay": []}, "delay is an empty list"),
        ({"delay": "1s"}, "delay must be seconds, several of them or a function, not '1s'"),
        ({"delay": True}, "delay must be seconds, several of them or a function, not True"),
        ({"delay": None}, "delay must be seconds, several of them or a function, not None"),
        (
            {"never": [ValueError]},
            r"never must be a tuple of exception classes, not \[<class 'ValueError'>\]",
        ),
        ({"never": (1,)}, r"never must be a tuple of exception classes, not \(1,\)"),
        ({"by_error": {ValueError: 3}}, "by_error must map exception classes to Retry"),
        ({"by_error": {"ValueError": Retry()}}, "by_error must map exception classes to Retry"),
    ],
)
def test_invalid_policies_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Retry(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"first": 0},
        {"first": 2, "longest": 1},
        {"longest": LONGEST_DELAY_S + 1},
        {"factor": 0.5},
        {"jitter": 1},
    ],
)
def test_invalid_exponential_delays_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"(first|longest|factor|jitter) must"):
        Exponential(**options)


def test_invalid_delay_of_a_function_is_refused_when_it_is_used() -> None:
    with pytest.raises(ConfigError, match="a delay must be between 0 and 86,400 seconds, not -1"):
        Retry(delay=lambda attempt: -attempt).next_delay(ValueError(), 1, 0.0, 0.5)
