"""Tells all observers of a worker what happens in one handler, and survives their errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TypeVar

from kshare.errors import InProgress
from kshare.summary_log import SummaryLog
from kshare.worker.functions.user_functions import exception_name, is_failure
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.rules.decision import RecordOutcome, RunResult
from kshare.worker.watch.observer import HandlerRun, RecordProcessed, WorkerObserver

ResultT = TypeVar("ResultT")

_NOTHING = nullcontext()


class Watch:
    """For one handler. Without observers it does nothing."""

    def __init__(
        self,
        observers: Sequence[WorkerObserver] = (),
        handler: str = "",
        group: str = "",
        log: SummaryLog | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.is_on = bool(observers)
        self._observers = observers
        self._handler = handler
        self._group = group
        self.clock = clock
        self._log = log or SummaryLog(logging.getLogger("kshare.worker"))

    def run(
        self, deliveries: Sequence[Delivery], *, is_batch: bool = False
    ) -> AbstractContextManager[object]:
        """Enclose a call of the handler in this."""
        if not self.is_on:
            return _NOTHING
        return _Watched(self, HandlerRun(self._handler, self._group, deliveries, is_batch))

    def settled(
        self,
        outcome: RecordOutcome,
        delivery: Delivery,
        cause: str | BaseException | None = "",
        since: float | None = None,
    ) -> None:
        """`since`: when settling began, by `clock`."""
        if not self.is_on:
            return
        if isinstance(cause, BaseException):
            cause = exception_name(cause)
        seconds = 0.0 if since is None else self.clock() - since
        settled = RecordProcessed(self._handler, delivery, outcome, cause or "", seconds)
        for observer in self._observers:
            self.tell(observer.on_settled, settled)

    def breaker(self, state: BreakerState) -> None:
        for observer in self._observers:
            self.tell(observer.on_breaker, self._handler, self._group, state)

    def started(self, run: HandlerRun) -> list[Callable[[], None]]:
        """Returns what is to be called when it has ended."""
        ends = [self.tell(observer.on_run, run) for observer in self._observers]
        return [end for end in ends if end is not None]

    def tell(self, function: Callable[..., ResultT], *arguments: object) -> ResultT | None:
        try:
            return function(*arguments)
        except BaseException as problem:
            if not is_failure(problem):
                raise
            what = getattr(function, "__qualname__", repr(function))
            self._log.event(logging.ERROR, f"observer {what} raised", has_traceback=True)
            return None


class _Watched:
    """One run: measures it, and finds out how it ends."""

    __slots__ = ("_began", "_ends", "_run", "_watch")

    def __init__(self, watch: Watch, run: HandlerRun) -> None:
        self._watch = watch
        self._run = run
        self._ends: list[Callable[[], None]] = []
        self._began = 0.0

    def __enter__(self) -> None:
        self._ends = self._watch.started(self._run)
        self._began = self._watch.clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run = self._run
        run.seconds = self._watch.clock() - self._began
        run.error = error
        run.result = _result_of(run, error)
        for end in reversed(self._ends):
            self._watch.tell(end)


def _result_of(run: HandlerRun, error: BaseException | None) -> RunResult:
    # Whatever a cancelled handler returns or raises, it doesn't count.
    is_cancelled = any(delivery.is_cancelled for delivery in run.deliveries)
    if is_cancelled or (error is not None and not is_failure(error)):
        return RunResult.CANCELLED
    if error is None:
        return RunResult.RETURNED
    is_postponed = isinstance(error, InProgress) and not any(
        delivery.is_settled for delivery in run.deliveries
    )
    return RunResult.POSTPONED if is_postponed else RunResult.FAILED
