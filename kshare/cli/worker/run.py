"""Runs `kshare worker`: in this process, or as a supervisor of others that run the same command."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from kshare.admin.config import admin_settings
from kshare.admin.configs import broker_values
from kshare.admin.routing import Router
from kshare.cli.cluster.connection import read_properties
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.cli.worker.app_import import (
    describe_error,
    files_of,
    import_worker,
    is_in_users_code,
    possible_files,
)
from kshare.cli.worker.processes import Processes
from kshare.cli.worker.supervision import Supervision
from kshare.cli.worker.supervisor_link import SupervisorLink
from kshare.errors import AuthenticationFailed, ConfigError, KshareError, NotAuthorized, Unsupported
from kshare.net.pool import Pool
from kshare.worker import Worker
from kshare.worker.config import override_connection
from kshare.worker.options import check_drain_timeout
from kshare.worker.routes import Route

log = logging.getLogger("kshare.worker")

MOST_MEMBERS = "group.share.max.size"
_FORMAT = "%(asctime)s %(levelname)s {process}%(name)s: %(message)s"
_HOPELESS = (Failure, ConfigError, AuthenticationFailed, NotAuthorized, Unsupported)
"""A process that is started again would fail with the same."""


@dataclass(frozen=True, slots=True)
class ChildPlace:
    """Which of the processes this is, and the descriptor of its connection to the supervisor."""

    number: int
    count: int
    descriptor: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}:{self.descriptor}"

    @classmethod
    def parse(cls, text: str) -> ChildPlace:
        number, count, descriptor = text.replace("/", ":").split(":")
        return cls(int(number), int(count), int(descriptor))


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Which worker, and what the command line says about it."""

    place: str
    server: str | None = None
    properties: Path | None = None
    file: Path | None = None
    drain_timeout: float | None = None

    def arguments(self) -> list[str]:
        given = {
            "--bootstrap-server": self.server,
            "--command-config": self.properties,
            "--config": self.file,
            "--drain-timeout": self.drain_timeout,
        }
        return [word for name, value in given.items() if value is not None for word in (name, str(value))]

    def load(self) -> Worker:
        """Import and configure the worker. Raises Failure or ConfigError."""
        worker = import_worker(self.place)
        worker.configure(self.file)
        if self.properties is not None:
            override_connection(worker, read_properties(self.properties))
        if self.server is not None:
            override_connection(worker, {"bootstrap_servers": self.server})
        if self.drain_timeout is not None:
            worker.drain_timeout = check_drain_timeout(self.drain_timeout)
        if not worker.routes():
            raise Failure(f'{self.place} has no handlers: decorate functions with @worker.handler("orders")')
        admin_settings(worker.bootstrap_servers, worker.connection)
        return worker


@dataclass(frozen=True, slots=True)
class RunOptions:
    backend: Literal["asyncio", "trio"] = "asyncio"
    workers: int | None = None
    reloads: bool = False
    log_level: str | None = None


def run_worker(app: AppOptions, options: RunOptions, place: ChildPlace | None) -> int:
    """Returns the exit code. `place` is given by a supervisor to its processes."""
    if place is not None:
        return _run_child(app, options, place)
    if options.workers is not None or options.reloads:
        return _supervise(app, options)
    worker = app.load()
    _set_up_logs(options.log_level)
    _run(worker, options, None)
    return 0


def _run_child(app: AppOptions, options: RunOptions, place: ChildPlace) -> int:
    link = SupervisorLink(place.descriptor)
    try:
        worker = link.worker = app.load()
        _set_up_logs(options.log_level, f"[{place.number}] " if place.count > 1 else "")
        link.report(drain_timeout=worker.drain_timeout)
        if place.number == 1 and place.count > 1:
            anyio.run(_require_room, worker, place.count, backend=options.backend)
        _run(worker, options, link)
    except _HOPELESS as problem:
        link.report(is_hopeless=True)
        link.report_files(files_of(problem) | possible_files(app.place))
        raise
    return 0


def _run(worker: Worker, options: RunOptions, link: SupervisorLink | None) -> None:
    def on_running() -> None:
        if link is not None:
            link.report_files()
            link.report(running=True)

    try:
        worker.run(backend=options.backend, on_running=on_running)
    except Exception as problem:
        first = _first(problem)
        if isinstance(first, KshareError):
            raise first from None
        if is_in_users_code(first):
            log.debug("the worker failed", exc_info=problem)
            raise Failure(f"the worker failed: {describe_error(first)}") from first
        raise


def _first(problem: BaseException) -> BaseException:
    """Task groups wrap exceptions in groups."""
    return _first(problem.exceptions[0]) if isinstance(problem, BaseExceptionGroup) else problem


def _supervise(app: AppOptions, options: RunOptions) -> int:
    if sys.platform == "win32":
        raise Failure("--workers and --reload need POSIX signals, which Windows doesn't have")
    _set_up_logs(options.log_level)
    count = options.workers or 1
    words = [*app.arguments(), "--backend", options.backend]
    words += ["--log-level", options.log_level] if options.log_level else []

    def command(slot: int, descriptor: int) -> list[str]:
        place = ChildPlace(slot + 1, count, descriptor)
        return [
            *(sys.executable, *(f"-W{one}" for one in sys.warnoptions), "-m", "kshare.cli"),
            *("worker", "run", *words, "--place", str(place), "--", app.place),
        ]

    supervision = Supervision(count, reloads=options.reloads)
    Processes(supervision, command).run()
    return 1 if supervision.has_failed else 0


def members_of(routes: list[Route]) -> Counter[str]:
    """How many members one process has in each group: every handler is one."""
    return Counter(route.group for route in routes)


async def _require_room(worker: Worker, count: int) -> None:
    """Raises Misuse if the processes have more members than a group may have, as far as that can be read."""
    settings = admin_settings(worker.bootstrap_servers, worker.connection)
    async with Pool(settings) as pool:
        await pool.bootstrap()
        found = await broker_values(Router(pool, settings.request_timeout), [MOST_MEMBERS])
    most = found.get(MOST_MEMBERS)
    for group, members in members_of(worker.routes()).items():
        if most is not None and count * members > int(most):
            raise Misuse(too_many(group, count, members, int(most)))


def too_many(group: str, count: int, members: int, most: int) -> str:
    each = "" if members == 1 else f" with {members} handlers each"
    return (
        f"group {group}: {count} processes{each} need {count * members} members, and brokers allow {most} "
        f"({MOST_MEMBERS})"
    )


def _set_up_logs(level: str | None, process: str = "") -> None:
    """Unless the application has done it."""
    if level is not None:
        logging.getLogger("kshare").setLevel(level.upper())
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format=_FORMAT.format(process=process))
