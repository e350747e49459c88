"""Retry policies: whether a failed record is retried, and after which delay; and the rules that follow from it. Pure.

A policy is data. It is asked once for each failure, with the attempt's number, the record's age and a random number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kshare.callbacks import require_plain
from kshare.errors import ConfigError
from kshare.options.checks import require_number, require_seconds
from kshare.options.mistakes import Mistakes
from kshare.worker.rules.decision import Decision, RunResult
from kshare.worker.rules.facts import Facts
from kshare.worker.rules.giving_up import give_up
from kshare.worker.rules.retry_topics import wait
from kshare.worker.rules.rule import Rule, never

LONGEST_DELAY_S = 86_400.0
_LONGEST_AGE_S = 1e9


@dataclass(frozen=True, slots=True)
class Exponential:
    """Delays that grow: `first` seconds, then `factor` times as many each time, up to `longest`."""

    first: float = 1.0
    """Seconds after the first attempt."""
    factor: float = 2.0
    """By how much each delay is longer than the one before."""
    longest: float = 60.0
    """No delay is longer than this many seconds, apart from jitter."""
    jitter: float = 0.1
    """Each delay is longer or shorter by up to this fraction, so that records that failed together aren't retried
    together."""

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        for name in ("first", "longest"):
            with mistakes:
                require_seconds(name, getattr(self, name), LONGEST_DELAY_S)
        if not mistakes and self.first > self.longest:
            mistakes.add(
                f"first must not be larger than longest, not first={self.first:g} and longest={self.longest:g}"
            )
        with mistakes:
            require_number("factor", self.factor, 1, 1_000)
        with mistakes:
            require_number("jitter", self.jitter, 0, 0.99)
        mistakes.raise_all()

    def after(self, attempt: int, random: float) -> float:
        """The delay after this attempt (1, 2, ...). `random` is between 0 and 1."""
        try:
            delay = min(self.longest, self.first * math.pow(self.factor, attempt - 1))
        except OverflowError:
            delay = self.longest
        return delay * (1 + self.jitter * (2 * random - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A retry policy: how often a record is attempted, and how long to wait before each further attempt."""

    attempts: int = 5
    """How many attempts a record gets in all, including the first. After the last one it becomes a dead letter, or is
    rejected if the handler has no `dead_letters`."""
    delay: float | Sequence[float] | Exponential | Callable[[int], float] = field(default_factory=Exponential)
    """Seconds until the next attempt: always the same, one number for each attempt (the last one repeats), an
    `Exponential`, or a function of the attempt's number (1, 2, ...)."""
    max_age: float | None = None
    """A record isn't retried if it would be older than this many seconds by then. None: age doesn't matter."""
    never: tuple[type[BaseException], ...] = ()
    """Exceptions after which a record isn't retried."""
    by_error: Mapping[type[BaseException], Retry] = field(default_factory=dict)
    """Other policies for some exceptions. The first matching class of the exception's bases applies."""

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        if type(self.attempts) is not int or self.attempts < 1:
            mistakes.add(f"attempts must be a whole number above 0, not {self.attempts!r}")
        if self.max_age is not None:
            with mistakes:
                require_seconds("max_age", self.max_age, _LONGEST_AGE_S)
        if not isinstance(self.never, tuple) or not all(map(_is_exception_class, self.never)):
            mistakes.add(f"never must be a tuple of exception classes, not {self.never!r}")
        if not isinstance(self.by_error, Mapping) or not all(
            _is_exception_class(kind) and isinstance(policy, Retry) for kind, policy in self.by_error.items()
        ):
            mistakes.add(f"by_error must map exception classes to Retry, not {self.by_error!r}")
        with mistakes:
            self._require_delay()
        mistakes.raise_all()

    def _require_delay(self) -> None:
        match self.delay:
            case bool() | str() | bytes():
                raise ConfigError(f"delay must be seconds, several of them or a function, not {self.delay!r}")
            case int() | float():
                _check_delay(self.delay)
            case Exponential():
                pass
            case Sequence():
                if not self.delay:
                    raise ConfigError("delay is an empty list: give at least one number of seconds")
                for seconds in self.delay:
                    _check_delay(seconds)
            case _ if not callable(self.delay):
                raise ConfigError(f"delay must be seconds, several of them or a function, not {self.delay!r}")
            case _:
                require_plain("delay", self.delay, "one argument, the attempt")

    def policy_for(self, error: BaseException) -> Retry:
        """The policy that applies to this exception."""
        for kind in type(error).__mro__:
            if kind in self.by_error:
                return self.by_error[kind]
        return self

    def next_delay(self, error: BaseException, attempt: int, age: float, random: float) -> float | None:
        """Seconds until the next attempt, after this one has failed; None to give up."""
        policy = self.policy_for(error)
        if isinstance(error, policy.never) or attempt >= policy.attempts:
            return None
        delay = policy.delay_after(attempt, random)
        if policy.max_age is not None and age + delay > policy.max_age:
            return None
        return delay

    def delay_after(self, attempt: int, random: float) -> float:
        delay = self.delay
        if isinstance(delay, Exponential):
            return delay.after(attempt, random)
        if isinstance(delay, Sequence):
            return float(delay[min(attempt, len(delay)) - 1])
        if callable(delay):
            seconds = delay(attempt)
            _check_delay(seconds)
            return float(seconds)
        return float(delay)

    def longest_delay(self) -> float:
        """The longest delay of this policy and those in `by_error`."""
        own = [self.delay_after(attempt, 1.0) for attempt in range(1, min(self.attempts, 100))]
        return max([*own, *(other.longest_delay() for other in self.by_error.values())], default=0.0)

    def most_attempts(self) -> int:
        """The largest number of attempts, of this policy and those in `by_error`."""
        return max([self.attempts, *(other.most_attempts() for other in self.by_error.values())])


def _is_exception_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _check_delay(seconds: object) -> None:
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 <= seconds <= LONGEST_DELAY_S
    ):
        raise ConfigError(f"a delay must be between 0 and {LONGEST_DELAY_S:,.0f} seconds, not {seconds!r}")


def check_retry(retry: object) -> None:
    """Raises ConfigError."""
    if not isinstance(retry, Retry):
        raise ConfigError(f"retry must be a Retry, such as Retry(attempts=5), not {retry!r}")


# --- rules


def _is_spent(facts: Facts) -> bool:
    return facts.attempt > 1 and facts.counted_attempt > facts.options.retry.most_attempts()


def has_failed(facts: Facts) -> bool:
    return facts.call is RunResult.FAILED


def _give_up(facts: Facts) -> Decision:
    return give_up(facts, f"{facts.error_name} in attempt {facts.attempt}", facts.error)


SPENT = Rule(
    "attempts spent",
    "it has had all attempts that the retry policy allows",
    "given up",
    _is_spent,
    lambda facts: give_up(facts, f"{facts.counted_attempt - 1} attempts have failed"),
    of_new_records=never,
)
NOT_CONVERTED = Rule(
    "unreadable",
    "its value can't be converted",
    "given up",
    lambda facts: has_failed(facts) and facts.is_payload_error,
    lambda facts: give_up(facts, str(facts.error), facts.error),
)
LAST_ATTEMPT = Rule(
    "last attempt",
    "its handler has raised, and the retry policy gives up",
    "given up",
    lambda facts: has_failed(facts) and facts.next_delay is None,
    _give_up,
)
FAILED = Rule(
    "failed",
    "its handler has raised",
    "held or moved, for the delay of the retry policy; counted as an attempt",
    has_failed,
    lambda facts: wait(facts, facts.next_delay or 0.0, counts=True, error=facts.error),
)
