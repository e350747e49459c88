"""Runs `kshare worker`: in this process, or as a supervisor of others that run the same command."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import anyio

from kshare.admin.config import admin_settings
from kshare.admin.configs import broker_values
from kshare.admin.routing import Router
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.cli.terminal.standard_error import log_handler
from kshare.cli.worker.app_import import (
    describe_error,
    files_of,
    is_in_users_code,
    possible_files,
)
from kshare.cli.worker.app_options import AppOptions
from kshare.cli.worker.checks.app_facts import members_of
from kshare.cli.worker.checks.groups import MOST_MEMBERS, too_many
from kshare.cli.worker.processes import Processes
from kshare.cli.worker.supervision import Supervision
from kshare.cli.worker.supervisor_link import SupervisorLink, ignore_signals, leave_signals_to_supervisor
from kshare.errors import AuthenticationFailed, ConfigError, KshareError, NotAuthorized, Unsupported
from kshare.http.endpoint import parse_listen_address
from kshare.net.addresses import format_address
from kshare.net.pool import Pool
from kshare.options.checks import require_backend
from kshare.worker import Worker
from kshare.worker.signals import on_stop_signals

log = logging.getLogger("kshare.worker")

_FORMAT = "%(asctime)s %(levelname)s {process}%(name)s: %(message)s"


class WorkerFailed(Failure):
    """The user's code ended the worker while it ran, such as a hook. The next start may succeed."""


_HOPELESS = (Failure, ConfigError, AuthenticationFailed, NotAuthorized, Unsupported)
"""A process that is started again would fail with the same."""
_IDLE_S = 0.5
"""How long idle threads may take to end."""


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
class RunOptions:
    backend: Literal["asyncio", "trio"] = "asyncio"
    workers: int | None = None
    threads: int = 1
    reloads: bool = False
    log_level: str | None = None


def run_worker(app: AppOptions, options: RunOptions, place: ChildPlace | None) -> int:
    """Returns the exit code. `place` is given by a supervisor to its processes."""
    require_backend(options.backend)
    if place is not None:
        return _run_child(app, options, place)
    if options.workers is not None or options.reloads:
        return _supervise(app, options)
    worker = app.load()
    _set_up_logs(options.log_level)
    _run(worker, options, None)
    return 0


def _run_child(app: AppOptions, options: RunOptions, place: ChildPlace) -> int:
    leave_signals_to_supervisor()
    link = SupervisorLink(place.descriptor, reloads=options.reloads)
    try:
        worker = link.worker = app.load()
        worker.stops_per_signal = link.stops_per_signal
        worker.http = _own_address(worker.http, place)
        _set_up_logs(options.log_level, f"[{place.number}] " if place.count > 1 else "")
        link.report(drain_timeout=worker.drain_timeout)
        if place.number == 1 and place.count > 1:
            anyio.run(_require_room, worker, place.count, backend=options.backend)
        _run(worker, options, link)
    except _HOPELESS as problem:
        if not isinstance(problem, WorkerFailed):
            link.report(is_hopeless=True)
        link.report_files(files_of(problem) | possible_files(app.place))
        raise
    finally:
        ignore_signals()
    return 0


def _run(worker: Worker, options: RunOptions, link: SupervisorLink | None) -> None:
    def on_running() -> None:
        if link is not None:
            link.report_files()
            link.report(running=True)

    # Between the worker's end and `ignore_signals`, Python's own handlers would change the exit code.
    with on_stop_signals(lambda _: None):
        try:
            with nullcontext() if link is None else link.serving():
                worker.run(backend=options.backend, threads=options.threads, on_running=on_running)
        except KshareError:
            raise
        except Exception as problem:
            if not is_in_users_code(problem):
                raise
            log.debug("the worker failed", exc_info=problem)
            raise WorkerFailed(f"the worker failed: {describe_error(problem)}") from problem
        ignore_signals()
    _end_with_threads()


def _own_address(http: str | None, place: ChildPlace) -> str | None:
    """Processes can't listen on the same port: the second one takes the next, and so on."""
    if http is None:
        return None
    host, port = parse_listen_address(http)
    return format_address((host, port + place.number - 1 if port else 0))


def _end_with_threads() -> None:
    """Functions that were cancelled may still run in anyio's threads. Python would wait for them at its end.

    Idle threads end when their event loop has, but not at once.
    """
    left = [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("AnyIO worker") and not thread.daemon
    ]
    deadline = time.monotonic() + _IDLE_S
    for thread in left:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread for thread in left if thread.is_alive()]
    if left:
        what = "1 function is" if len(left) == 1 else f"{len(left)} functions are"
        log.warning("%s still running in threads, and will be ended with this process", what)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _supervise(app: AppOptions, options: RunOptions) -> int:
    if sys.platform == "win32":
        raise Failure("--workers and --reload need POSIX signals, which Windows doesn't have")
    _set_up_logs(options.log_level)
    count = options.workers or 1
    words = [*app.arguments(), "--backend", options.backend]
    words += ["--log-level", options.log_level] if options.log_level else []
    words += ["--threads", str(options.threads)] if options.threads > 1 else []
    words += ["--reload"] if options.reloads else []

    def command(slot: int, descriptor: int) -> list[str]:
        place = ChildPlace(slot + 1, count, descriptor)
        return [
            *(sys.executable, *(f"-W{warnoption}" for warnoption in sys.warnoptions), "-m", "kshare.cli"),
            *("worker", "run", *words, "--place", str(place), "--", app.place),
        ]

    supervision = Supervision(count, reloads=options.reloads)
    Processes(supervision, command).run()
    return 1 if supervision.has_failed else 0


async def _require_room(worker: Worker, count: int) -> None:
    """Raises Misuse if the processes have more members than a group may have, as far as that can be read."""
    settings = admin_settings(worker.bootstrap_servers, worker.connection)
    async with Pool(settings) as pool:
        await pool.bootstrap()
        found = await broker_values(Router(pool, settings.request_timeout), [MOST_MEMBERS])
    most = found.get(MOST_MEMBERS)
    for group, members in members_of(worker.routes()).items():
        if most is not None and count * members > int(most):
            raise Misuse(f"group {group}: {too_many(count, members, int(most))}")


def _set_up_logs(level: str | None, process: str = "") -> None:
    """Unless the application has done it."""
    if level is not None:
        logging.getLogger("kshare").setLevel(level.upper())
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, handlers=[log_handler(_FORMAT.format(process=process))])
