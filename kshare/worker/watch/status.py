"""What a worker process is doing now, as values: its handlers, and the runs in progress. Pure.

The HTTP endpoint shows it as JSON, at /status. Nothing of a record's key, value or headers is in it. `SCHEMA` is the
number of its form: adding a field keeps it, everything else increases it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from kshare.worker.watch.health import HandlerHealth, WorkerState, handler_page
from kshare.worker.watch.process_identity import ProcessIdentity

SCHEMA = 1
MOST_RUNS = 50
"""How many runs of a handler are shown: the longest."""


class RunState(StrEnum):
    COLLECTING = "collecting"
    """More records are awaited for its batch."""
    WAITING = "waiting"
    """It waits for a thread."""
    RUNNING = "running"
    """The handler was called, and hasn't ended."""
    SETTLING = "settling"
    """The handler has ended: what became of its records is being written."""
    CANCELLED = "cancelled"
    """It was cancelled, and hasn't ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A call of a handler, for a record or a batch. A batch has the coordinates of its first record."""

    topic: str
    """The topic that the record was first written to."""
    partition: int
    offset: int
    records: int
    delivery_count: int
    attempt: int
    state: RunState
    seconds: float
    """For how long it has been in this state. That is noticed up to a second late, and not counted while it collects or
    waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerStatus:
    health: HandlerHealth
    concurrency: int
    """How many records, or batches, it may process at once now."""
    attempts: int
    """How many attempts a record gets."""
    time_limit: float
    """How many seconds a run may take."""
    lock_s: float
    """How many seconds the acquisition locks of the group last, unless they are renewed."""
    runs: tuple[RunStatus, ...]
    """Those that have been going on for longest, the longest first."""
    run_count: int
    """How many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    identity: ProcessIdentity
    state: WorkerState
    reason: str
    """Why it isn't ready; empty if it is."""
    handlers: tuple[HandlerStatus, ...]


def status_page(status: ProcessStatus) -> dict[str, object]:
    """As the HTTP endpoint shows it."""
    return {
        "schema": SCHEMA,
        **asdict(status.identity),
        "state": status.state,
        "reason": status.reason,
        "handlers": [_handler_page(handler) for handler in status.handlers],
    }


def _handler_page(status: HandlerStatus) -> dict[str, object]:
    return {
        **handler_page(status.health),
        "concurrency": status.concurrency,
        "attempts": status.attempts,
        "time_limit": status.time_limit,
        "lock_s": status.lock_s,
        "runs": [asdict(run) | {"seconds": round(run.seconds, 1)} for run in status.runs],
        "run_count": status.run_count,
    }
