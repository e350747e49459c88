"""Reads the cluster again and again, and keeps the last report until it is too old.

Readings have an interval of their own, instead of being taken when somebody scrapes. So the load on the cluster doesn't
depend on the number of scrapers and autoscalers, pages are served at once whatever the cluster does, and counters and
rates come from readings at regular intervals.

If readings fail, the last report is dropped after three intervals: a number that no longer changes looks like a
group that does nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import anyio

from kshare.admin.routing import Router
from kshare.errors import KshareError
from kshare.exporter.counters import GroupCounters
from kshare.exporter.metrics import ExporterState
from kshare.exporter.report import Report, report
from kshare.log_text import escaped
from kshare.monitor.collect import Collector
from kshare.monitor.snapshot import Snapshot
from kshare.wording import duration

log = logging.getLogger("kshare.exporter")

READING_TIMEOUT_S = 60.0
_INTERVALS = 3
SHORTEST_LIFE_S = 15.0
"""The first readings of a large cluster may take longer than the interval."""
_SHORTEST_PAUSE_S = 0.2


class ClusterWatch:
    def __init__(self, groups: Sequence[str], interval_s: float) -> None:
        self.life_s = max(_INTERVALS * interval_s, SHORTEST_LIFE_S)
        """How old a report may become."""
        self.is_ready = False
        """Whether a reading has ever succeeded."""
        self._groups = groups
        self._interval_s = interval_s
        self._counters = GroupCounters()
        self._before: Snapshot | None = None
        self._report: Report | None = None
        self._problem: str | None = None
        self._ended_at: float | None = None
        self._reading_s: float | None = None
        self._failures = 0
        self._router: Router | None = None
        self._unreadable: tuple[str, ...] = ()

    @property
    def report(self) -> Report | None:
        """The last report, if it isn't too old."""
        if self._report is None or anyio.current_time() - self._report.moment > self.life_s:
            return None
        return self._report

    @property
    def problem(self) -> str:
        """Why there is no report, for people."""
        if self._problem is not None:
            return self._problem
        if self._report is None:
            return "the cluster hasn't been read yet"
        return f"no reading has ended for {duration(anyio.current_time() - self._report.moment)}"

    @property
    def state(self) -> ExporterState:
        return ExporterState(
            self._problem is None and self.report is not None,
            self._ended_at,
            self._reading_s,
            self._router.requests if self._router is not None else 0,
            self._failures,
        )

    async def run(self, router: Router) -> None:
        """Read until cancelled. Errors are logged, and reading goes on."""
        self._router = router
        collector = Collector(router, self._groups)
        while True:
            began = anyio.current_time()
            try:
                with anyio.fail_after(READING_TIMEOUT_S):
                    await self.read(collector)
            except KshareError as error:
                self._fail(str(error))
            except TimeoutError:
                self._fail(f"the cluster wasn't read within {READING_TIMEOUT_S:g} s")
            except Exception as bug:  # it must not end the exporter
                log.debug("a reading failed", exc_info=True)
                self._fail(f"this is a bug in kshare: {type(bug).__name__}: {bug}")
            took = anyio.current_time() - began
            await anyio.sleep(max(_SHORTEST_PAUSE_S, self._interval_s - took))

    async def read(self, collector: Collector) -> None:
        """Take one reading."""
        began = anyio.current_time()
        now = await collector.read()
        self._counters.update(now)
        self._report = report(now, self._before, self._counters)
        self._before = now
        self._reading_s = anyio.current_time() - began
        self._ended_at = time.time()
        self.is_ready = True
        self._note_unreadable(now)
        if self._problem is not None:
            log.warning("the cluster can be read again")
            self._problem = None

    def _note_unreadable(self, now: Snapshot) -> None:
        """The metric only has their number."""
        found = (*now.missing, *(f"{group.group} ({group.problem})" for group in now.groups if group.problem))
        if found and found != self._unreadable:
            log.warning("groups that can't be read: %s", escaped("; ".join(found)))
        elif not found and self._unreadable:
            log.warning("all groups can be read again")
        self._unreadable = found

    def _fail(self, problem: str) -> None:
        self._failures += 1
        if self._problem is None:
            log.warning("the cluster can't be read: %s; retrying every %g s", problem, self._interval_s)
        self._problem = problem
