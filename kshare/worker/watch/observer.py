"""What happens in a worker, for metrics, traces and logs: the base class of its observers.

    class Slow(WorkerObserver):
        def on_run(self, run):
            def ended():
                if run.seconds > 60:
                    print(run.handler, run.seconds)

            return ended

    worker.observe(Slow())

Observers are called in the worker's event loop, so a slow one delays all handlers. One that raises is logged, and
otherwise ignored. With an observer, each record has a `Delivery`; without one, simple handlers are called directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.rules.decision import RecordOutcome, RunResult
from kshare.worker.watch.health import WorkerHealth


@dataclass(slots=True, eq=False)
class HandlerRun:
    """One call of a handler. The last three fields are set when it has ended."""

    handler: str
    group: str
    deliveries: Sequence[Delivery]
    is_batch: bool
    result: RunResult | None = None
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordProcessed:
    """A record was settled, or is held for another attempt."""

    handler: str
    delivery: Delivery
    outcome: RecordOutcome
    cause: str = ""
    """Why it wasn't just accepted."""
    seconds: float = 0.0
    """How long that took: copies have to be confirmed first."""


class WorkerObserver:
    """Does nothing. Subclasses override the methods that they need; `Worker.observe` adds them to a worker."""

    def on_serve(self, health: Callable[[], WorkerHealth]) -> Callable[[], None] | None:
        """The worker starts. May return a function to be called when it has ended."""

    def on_run(self, run: HandlerRun) -> Callable[[], None] | None:
        """A handler is about to be called, in this context. May return a function to be called when it has ended."""

    def on_settled(self, settled: RecordProcessed) -> None:
        """A record was settled, or is held for another attempt."""

    def on_breaker(self, handler: str, group: str, state: BreakerState) -> None:
        """The breaker of a handler opened or closed."""

    def exposition(self) -> tuple[str, bytes] | None:
        """What the HTTP endpoint serves as /metrics: content type and body. None if this observer has no metrics."""
        return None
