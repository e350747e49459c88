"""Takes readings of the cluster, asks worker processes what they are doing, and runs the checks of `kshare doctor`, in
a thread with an event loop of its own.

Pages show the last reading, and never wait for one. A large cluster takes seconds to read, so readings follow each
other at an interval that leaves the thread idle most of the time. If the cluster doesn't respond, the last reading
remains, with the reason. The log says once that it doesn't respond, and once that it does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kshare.admin.routing import Router
from kshare.dead_letters.self_written import self_written
from kshare.doctor.check_result import CheckResult
from kshare.doctor.examine import examine
from kshare.errors import KshareError
from kshare.monitor.collect import Collector, retry_limit
from kshare.monitor.figures import Figures, figures
from kshare.monitor.snapshot import Snapshot
from kshare.monitor.stalls import MembersSince
from kshare.monitor.tracking_groups import is_tracking
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.web.config import WorkerSources
from kshare.web.known_fleet import KnownFleet

log = logging.getLogger("kshare.web")

_CHECK_EVERY_S = 10.0
_SHARE_OF_TIME = 5
"""The pause after a reading is at least so many times as long as the reading."""


@dataclass(frozen=True, slots=True)
class View:
    """What is known of the cluster. Immutable: it is replaced as a whole."""

    number: int = 0
    """Rises with every change."""
    snapshot: Snapshot | None = None
    figures: Figures | None = None
    problem: str | None = None
    """Why the last reading failed."""
    findings: tuple[CheckResult, ...] | None = None
    """What the checks have found; None until they have run."""
    checked_at: float | None = None
    dead_letters_by_members: Mapping[str, str] = field(default_factory=dict)
    """Groups whose members write dead letters themselves, with the topic, as far as its newest ones tell."""
    fleet: KnownFleet | None = None
    """None until the worker processes were asked."""


class Watcher:
    """`with Watcher(...) as watcher: watcher.view`"""

    def __init__(self, settings: NetSettings, interval_s: float, workers: WorkerSources) -> None:
        self._settings = settings
        self._interval_s = interval_s
        self._workers = workers
        self._members_since = MembersSince()
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._is_hurried = anyio.Event()
        """Ends the pause before the next reading."""
        self._has_read = anyio.Event()
        self._is_away = False
        """Whether it was logged that the cluster can't be read."""
        self.view = View()

    def __enter__(self) -> Watcher:
        portal = self._stack.enter_context(start_blocking_portal("asyncio", name="kshare web watcher"))
        self._stack.callback(portal.start_task_soon(self._watch).cancel)
        self._portal = portal
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hurry(self) -> None:
        """Take a reading soon: something was changed here, and pages should show it."""
        if self._portal is not None:
            self._portal.start_task_soon(self._end_pause)

    async def _end_pause(self) -> None:
        self._is_hurried.set()

    async def _watch(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._repeat, self._read_until_failure, self._interval_s)
            tasks.start_soon(self._repeat, self._check, _CHECK_EVERY_S)
            tasks.start_soon(self._repeat, self._find_writers, _CHECK_EVERY_S)
            if self._workers.has_any:
                tasks.start_soon(self._repeat, self._ask_workers, self._interval_s)

    async def _repeat(self, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            began = anyio.current_time()
            try:
                await work()
            except KshareError as error:
                self._change(problem=str(error))
                await anyio.sleep(pause_s)
            except Exception as bug:  # it must not end watching
                log.exception("a reading failed: this is a bug in kshare")
                self._change(
                    problem=f"a reading failed, which is a bug in kshare: {type(bug).__name__}: {bug}"
                )
                await anyio.sleep(pause_s)
            else:
                await anyio.sleep(max(pause_s, _SHARE_OF_TIME * (anyio.current_time() - began)))

    async def _read_until_failure(self) -> None:
        """A new connection after each failure: the cluster may have other addresses."""
        retry_s = retry_limit(self._interval_s, self._settings.request_timeout)
        try:
            async with Pool(self._settings) as pool:
                await pool.bootstrap()
                await self._read(Collector(Router(pool, retry_s), members_since=self._members_since))
        except KshareError as error:
            if not self._is_away:
                self._is_away = True
                log.warning("the cluster can't be read: %s; retrying until it can", error)
            raise

    async def _read(self, collector: Collector) -> None:
        before = None
        while True:
            began = anyio.current_time()
            now = await collector.read()
            self._change(snapshot=now, figures=figures(now, before), problem=None)
            self._has_read.set()
            if self._is_away:
                self._is_away = False
                log.warning("the cluster can be read now")
            before = now
            took_s = anyio.current_time() - began
            with anyio.move_on_after(max(self._interval_s, _SHARE_OF_TIME * took_s)):
                await self._is_hurried.wait()
            self._is_hurried = anyio.Event()

    async def _check(self) -> None:
        found: list[CheckResult] = []
        await examine(self._settings, found.append, members_since=self._members_since)
        self._change(findings=tuple(found), checked_at=time.time())

    async def _find_writers(self) -> None:
        """Which members write dead letters. If it can't be read, what was found before remains."""
        await self._has_read.wait()
        snapshot = self.view.snapshot
        names = [
            group.group
            for group in (snapshot.groups if snapshot else ())
            if not group.settings.dead_letter_topic and not is_tracking(group.group)
        ]
        with suppress(KshareError):
            async with Pool(self._settings) as pool:
                found = await self_written(Router(pool, self._settings.request_timeout), names)
            self._change(dead_letters_by_members=found)

    async def _ask_workers(self) -> None:
        """Also while the cluster doesn't respond: then the announcements that were read before are used."""
        async with Pool(self._settings) as pool:
            fleet = self._workers.fleet(Router(pool, self._settings.request_timeout))
            while True:
                began = time.thread_time()
                view = await fleet.look()
                self._change(fleet=KnownFleet(view, time.time(), self.view.fleet))
                busy_s = time.thread_time() - began  # waiting for processes that don't respond costs nothing
                await anyio.sleep(max(self._interval_s, _SHARE_OF_TIME * busy_s))

    def _change(self, **changes: object) -> None:
        with self._lock:
            self.view = replace(self.view, number=self.view.number + 1, **changes)  # type: ignore[arg-type]
