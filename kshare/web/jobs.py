"""Redrives and drops that run in the background: a page shows how far they are, and they can be stopped.

Decides how many may run, and which are remembered: the last ones, with the outcomes of their first letters. Jobs end
with the console, whose task group owns them. What they have settled until then stays settled.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.exceptions import HTTPException

from kshare.dead_letters.outcome import Fate, LetterOutcome
from kshare.errors import KshareError
from kshare.web.audit import AuditLog
from kshare.web.content import visible

log = logging.getLogger("kshare.web.jobs")

MOST_JOBS, MOST_RUNNING, MOST_OUTCOMES = 20, 5, 5_000
_FINAL = (Fate.REDRIVEN, Fate.DROPPED, Fate.DUPLICATE)
_PROBLEMS = (Fate.LEFT, Fate.FAILED)


class JobState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """The outcome of one letter, without its contents."""

    place: str
    origin: str
    fate: Fate
    detail: str


@dataclass(slots=True)
class Job:
    id: str
    user: str
    action: str
    """redrive or drop"""
    topic: str
    tracker: str
    """The share group that keeps track of dead letters."""
    what: str
    """Which dead letters."""
    began: float
    ended: float | None = None
    state: JobState = JobState.RUNNING
    problem: str | None = None
    waits_for: int = 0
    """Other members of the tracking group, while nothing is delivered."""
    last_chances: int = 0
    counts: Counter[Fate] = field(default_factory=Counter)
    outcomes: list[OutcomeRow] = field(default_factory=list)
    scope: anyio.CancelScope | None = field(default=None, repr=False)
    _changeable: dict[str, Fate] = field(default_factory=dict, repr=False)
    """Letters that were skipped, for example: they may still be moved. Each is counted once."""
    _rows: dict[str, int] = field(default_factory=dict, repr=False)
    """Where their rows are in `outcomes`."""

    def note(self, outcome: LetterOutcome) -> None:
        place = outcome.letter.place
        before = self._changeable.pop(place, None)
        fate = outcome.fate
        if before in _PROBLEMS and fate not in _FINAL:
            fate = before  # that it was moved is a detail
        if before is not None:
            self.counts -= Counter([before])
        self.counts[fate] += 1
        if fate not in _FINAL:
            self._changeable[place] = fate
        if fate is not Fate.SKIPPED:
            self._keep(outcome, fate)

    def _keep(self, outcome: LetterOutcome, fate: Fate) -> None:
        place = outcome.letter.place
        where = "moved to" if outcome.fate is Fate.MOVED else "to"
        written = f"{where} {outcome.written}" if outcome.written else ""
        details = [visible(part) for part in (written, outcome.reason or "") if part]
        origin = visible(str(outcome.letter.origin)) if outcome.letter.origin else ""
        row = self._rows.pop(place, None)
        if row is not None:
            earlier = self.outcomes[row].detail
            details = [earlier, *details] if earlier and fate not in _FINAL else details
            self.outcomes[row] = OutcomeRow(place, origin, fate, "; ".join(details))
        elif len(self.outcomes) < MOST_OUTCOMES:
            row = len(self.outcomes)
            self.outcomes.append(OutcomeRow(place, origin, fate, "; ".join(details)))
        if row is not None and fate not in _FINAL:
            self._rows[place] = row

    @property
    def more_outcomes(self) -> int:
        """Outcomes that weren't kept."""
        return self.counts.total() - self.counts[Fate.SKIPPED] - len(self.outcomes)

    def end(self, state: JobState, problem: str | None = None) -> None:
        self.state, self.problem, self.ended = state, problem, time.time()


Work = Callable[[Job], Awaitable[None]]
"""Does the job. Raises KshareError if it didn't do all of it."""


class Jobs:
    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While this is entered, jobs can be started. At its end they are stopped."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self.close()

    def close(self) -> None:
        """Stop all jobs, and start none from now on."""
        self._tasks = None
        for job in self._jobs.values():
            if job.scope is not None:
                job.scope.cancel()

    @property
    def all(self) -> list[Job]:
        """The newest first."""
        return list(self._jobs.values())[::-1]

    def find(self, number: str) -> Job:
        if number not in self._jobs:
            raise HTTPException(404, f"there is no job {number!r}: only the last {MOST_JOBS} are kept")
        return self._jobs[number]

    async def start(
        self, user: str, action: str, topic: str, tracker: str, what: str, work: Work, **details: Any
    ) -> Job:
        """Raises OSError, before anything is done, if the audit log can't be written."""
        running = [job for job in self._jobs.values() if job.state is JobState.RUNNING]
        for job in running:
            if (job.topic, job.tracker) == (topic, tracker):
                raise HTTPException(
                    409, f"job {job.id} is still at the dead letters of {topic}: let it end first"
                )
        if self._tasks is None or len(running) >= MOST_RUNNING:
            raise HTTPException(503, f"{len(running)} jobs are running: let one of them end first")
        job = Job(str(next(self._numbers)), user, action, topic, tracker, what, time.time())
        self._jobs[job.id] = job
        try:
            await self._tasks.start(self._run, job, work, details)
        except BaseException:
            self._jobs.pop(job.id, None)
            raise
        ended = [old.id for old in self._jobs.values() if old.state is not JobState.RUNNING]
        for number in ended[: max(0, len(self._jobs) - MOST_JOBS)]:
            del self._jobs[number]
        return job

    async def _run(
        self, job: Job, work: Work, details: dict[str, Any], *, task_status: TaskStatus[None]
    ) -> None:
        is_started = False
        try:
            async with self._audit.change(
                job.user, f"{job.action} dead letters", job.topic, job=job.id, group=job.tracker, **details
            ) as audited:
                try:
                    with anyio.CancelScope() as job.scope:
                        is_started = True
                        task_status.started()
                        await work(job)
                finally:
                    audited["counts"] = {str(fate): count for fate, count in job.counts.items()}
                if job.scope.cancelled_caught:
                    raise KshareError("it was stopped" if self._tasks else "the console was stopped")
        except Exception as error:
            if not is_started:
                raise
            if job.scope is not None and job.scope.cancelled_caught:
                job.end(JobState.STOPPED)
            elif isinstance(error, KshareError | OSError):
                job.end(JobState.FAILED, str(error))
            else:
                # One job mustn't take the console with it.
                log.exception("job %s failed", job.id)
                job.end(JobState.FAILED, f"it ended with {type(error).__name__}: see the console's log")
        else:
            job.end(JobState.DONE)
