"""The circuit breaker of a handler: stops acquiring while most of its runs fail. Pure.

    state     | leaves it when                            | then
    ----------+-------------------------------------------+------------------------------------------
    closed    | `failing_share` of the last runs failed,  | open: nothing is acquired or started
              | and at least `min_failures`; only first   |
              | attempts count as failed                  |
              | three records in a row took longer than   | the same
              | `time_limit`, and nothing succeeded since |
              | the run of the first of them began        |
    open      | `probe_after` seconds have passed         | half-open: one record is tried
    half-open | the probe succeeds                        | closed
              | the probe fails                           | open again

A run that is cancelled because it takes longer than `time_limit` counts as failed, though not as an attempt of its
record: what the handler depends on may hang. `Admission.on_timed_out` decides what becomes of the record. Such runs are
few, because each takes so long, so the window alone would find them too late, or never. They must be of different
records: one record that takes too long again and again is itself the cause.

Further attempts of a record that has failed before say nothing about the others, so a few bad records don't open it.

Failures while it isn't closed don't count as attempts of their records: the dependency is down, not the record bad.
After `patience` they count again. Otherwise bad records would stay for ever, if no others arrive.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from kshare.errors import ConfigError
from kshare.options.checks import require_number, require_seconds
from kshare.options.mistakes import Mistakes
from kshare.worker.rules.decision import RunResult
from kshare.worker.rules.retry_topics import wait
from kshare.worker.rules.rule import Rule

_STUCK_RECORDS = 3


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When to stop acquiring, and how often to try again."""

    failing_share: float = 0.5
    """The breaker opens when at least this fraction of the runs has failed."""
    min_failures: int = 10
    """It opens only if at least this many runs have failed. Three records in a row that take too long are enough."""
    window: float = 10.0
    """Seconds over which runs are counted. Only first attempts count as failed runs."""
    probe_after: float = 2.0
    """While it is open, one record is tried every time this many seconds have passed."""
    patience: float = 3600.0
    """While it is open, failures don't count as attempts of their records, for this many seconds at most."""

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        with mistakes:
            require_number("failing_share", self.failing_share, 0.001, 1)
        if type(self.min_failures) is not int or self.min_failures < 1:
            mistakes.add(f"min_failures must be a whole number above 0, not {self.min_failures!r}")
        for name in ("window", "probe_after"):
            with mistakes:
                require_seconds(name, getattr(self, name))
        with mistakes:
            require_number("patience", self.patience, 0, 1e9)
        mistakes.raise_all()


def check_breaker(breaker: object) -> None:
    """Raises ConfigError."""
    if not isinstance(breaker, Breaker | None):
        raise ConfigError(f"breaker must be a Breaker, such as Breaker(), or None, not {breaker!r}")


class BreakerMachine:
    """`succeeded` is a running total of the caller's, so that a successful run costs nothing here.

    A window begins with a failure: successes before an outage say nothing. `before` is the total when a run began that
    failed by taking too long: what succeeded meanwhile shows that not everything hangs.
    """

    def __init__(self, settings: Breaker) -> None:
        self.settings = settings
        self.state = BreakerState.CLOSED
        self.opened = 0
        """How many times it has opened."""
        self.probe_at = 0.0
        """While open: when to try one record."""
        self._opened_at = 0.0
        self._since = 0.0
        self._failed = 0
        self._succeeded_before = 0
        self._previous = (0, 0)
        """Failed and succeeded runs in the window before this one."""
        self._stuck: set[Hashable] = set()
        """The last records that took too long, while nothing succeeded."""
        self._stuck_since = 0
        """The total when the run of the first of them began."""

    @property
    def is_closed(self) -> bool:
        return self.state is BreakerState.CLOSED

    def on_failure(self, now: float, succeeded: int, *, is_first: bool = True) -> bool:
        """A run failed. Returns whether that counts as an attempt of its record."""
        if self.state is BreakerState.CLOSED and is_first:
            self._count(now, succeeded, succeeded)
        return self._is_attempt(now)

    def on_timed_out(
        self, now: float, succeeded: int, record: Hashable, *, before: int, is_first: bool = True
    ) -> bool:
        """A run of this record takes too long. Returns whether it may have been the record's fault."""
        if self.state is BreakerState.CLOSED:
            if is_first:
                self._count(now, succeeded, before)
            if self.state is BreakerState.CLOSED and self._is_stuck(record, succeeded, before):
                self._open(now)
        return self._is_attempt(now)

    def _is_stuck(self, record: Hashable, succeeded: int, before: int) -> bool:
        if succeeded != self._stuck_since:
            self._stuck.clear()
        if succeeded == before:
            self._stuck_since = before
            self._stuck.add(record)
        return len(self._stuck) >= min(_STUCK_RECORDS, self.settings.min_failures)

    def _is_attempt(self, now: float) -> bool:
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.HALF_OPEN:
            self._wait(now)
        return now - self._opened_at > self.settings.patience

    def _count(self, now: float, succeeded: int, before: int) -> None:
        if now - self._since > self.settings.window:
            is_adjacent = now - self._since < 2 * self.settings.window
            self._previous = (self._failed, before - self._succeeded_before) if is_adjacent else (0, 0)
            self._since, self._failed, self._succeeded_before = now, 0, before
        self._succeeded_before = min(self._succeeded_before, before)
        self._failed += 1
        failed = self._failed + self._previous[0]
        all_runs = failed + succeeded - self._succeeded_before + self._previous[1]
        if failed >= self.settings.min_failures and failed >= self.settings.failing_share * all_runs:
            self._open(now)

    def _open(self, now: float) -> None:
        self._opened_at = now
        self.opened += 1
        self._stuck.clear()
        self._wait(now)

    def on_success(self, succeeded: int) -> None:
        """A run succeeded while the breaker wasn't closed."""
        if self.state is BreakerState.HALF_OPEN:
            self.state = BreakerState.CLOSED
            self._since, self._failed, self._succeeded_before = 0.0, 0, succeeded
            self._previous = (0, 0)

    def may_start(self, now: float) -> bool:
        """Whether a run may start. If this starts a probe, no other run may until its result is known."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now >= self.probe_at:
            self.state = BreakerState.HALF_OPEN
            return True
        return False

    def on_no_result(self, now: float) -> None:
        """The probe ended without a result: it was cancelled, or there was no record to try."""
        if self.state is BreakerState.HALF_OPEN:
            self.state = BreakerState.OPEN
            self.probe_at = now

    def _wait(self, now: float) -> None:
        self.state = BreakerState.OPEN
        self.probe_at = now + self.settings.probe_after


NOT_AN_ATTEMPT = Rule(
    "not an attempt",
    "its handler has raised, and that doesn't count: the circuit breaker isn't closed, or the worker ends",
    "held or moved, for the delay of the retry policy",
    lambda facts: facts.call is RunResult.FAILED and not facts.is_attempt,
    lambda facts: wait(facts, facts.next_delay or 0.0, counts=False, error=facts.error),
)
