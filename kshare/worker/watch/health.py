"""The health of a worker, as values: whether it lives, whether it is ready, and what each handler does. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from kshare.worker.rules.breaker import BreakerState
from kshare.worker.watch.counts import Counts

UNREACHABLE_AFTER_S = 30.0
"""Brokers get heartbeats at most 15 seconds apart. If two in a row had no response, none of them can be reached."""


class WorkerState(StrEnum):
    STOPPED = "stopped"
    """It doesn't run: not yet, or no longer."""
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    """It acquires nothing more, and finishes the acquired records."""


class HandlerState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    BREAKER_OPEN = "breaker open"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerHealth:
    """One handler."""

    handler: str
    group: str
    topics: tuple[str, ...]
    state: HandlerState
    breaker: BreakerState
    running: int
    """Records that are being processed."""
    ready: int
    """Records that were acquired, and wait for their turn."""
    held: int
    """Records that are held for another attempt."""
    counts: Counts
    """What was done since the worker started."""
    last_progress: float
    """When `counts` changed, in seconds since 1970; 0 if it never did. It is noticed up to a second late."""
    unheard_s: float
    """Seconds since a broker responded to a heartbeat."""

    @property
    def is_reachable(self) -> bool:
        """Whether brokers respond."""
        return self.unheard_s < UNREACHABLE_AFTER_S


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    state: WorkerState
    handlers: tuple[HandlerHealth, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether the worker runs. If its event loop is blocked, nobody can say so: then a probe gets no response."""
        return self.state is not WorkerState.STOPPED

    @property
    def is_ready(self) -> bool:
        return not self.reason

    @property
    def reason(self) -> str:
        """Why it isn't ready; empty if it is.

        An open breaker doesn't make it unready: it means that a dependency of the handler is down, for all workers
        alike. Orchestrators stop a rollout at workers that aren't ready, even one that brings the repair, and some
        restart them; neither brings the dependency back, and the breaker notices without a restart when it is.
        """
        if self.state is not WorkerState.RUNNING:
            return f"the worker is {self.state}"
        if self.handlers and not any(handler.is_reachable for handler in self.handlers):
            quiet = min(handler.unheard_s for handler in self.handlers)
            return f"no broker has responded for {quiet:.0f} s"
        return ""


class Progress:
    """Notices when counts change."""

    def __init__(self) -> None:
        self.at = 0.0
        """When they changed last, in seconds since 1970; 0 if they never did."""
        self._seen = Counts()

    def note(self, counts: Counts, now: float) -> None:
        if counts != self._seen:
            self._seen, self.at = replace(counts), now


def handler_state(*, is_stopping: bool, is_paused: bool, breaker: BreakerState) -> HandlerState:
    if is_stopping:
        return HandlerState.STOPPING
    if is_paused:
        return HandlerState.PAUSED
    return HandlerState.RUNNING if breaker is BreakerState.CLOSED else HandlerState.BREAKER_OPEN


def health_page(health: WorkerHealth) -> dict[str, object]:
    """As the HTTP endpoint shows it."""
    return {
        "state": health.state,
        "reason": health.reason,
        "handlers": [handler_page(handler) for handler in health.handlers],
    }


def handler_page(health: HandlerHealth) -> dict[str, object]:
    return asdict(health) | {"unheard_s": round(health.unheard_s, 1)}
