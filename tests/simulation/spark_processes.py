"""The processes of a simulated Spark: a driver with the query's runner, and an executor with connections of its own."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import anyio

from kshare.net.settings import NetSettings
from kshare.spark.executor.connections import Connections
from tests.simulation.blocking import run_blocking, sleep
from tests.simulation.portals import portal_tasks
from tests.simulation.processes import Process, current_process
from tests.simulation.spark_history import Place

_MOMENT_S = 0.001

Row = tuple[Place, bytes]


class TaskFailed(Exception):
    """A task of Spark failed."""


@dataclass
class _Job:
    data: bytes
    ended: anyio.Event = field(default_factory=anyio.Event)
    rows: list[Row] = field(default_factory=list)
    error: str | None = "its executor was lost"


@dataclass
class Executor(Process):
    """`is_failing` is asked before each task."""

    is_failing: Callable[[], bool] = lambda: False
    opened: dict[NetSettings, Connections] = field(default_factory=dict)
    is_opening: bool = False
    _jobs: list[_Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[_Job](inf)

    async def live(self) -> None:
        self.enter()
        try:
            with self.scope:
                async with anyio.create_task_group() as tasks:
                    portal_tasks.set(tasks)
                    async for job in self._receive:
                        tasks.start_soon(self._do, job)
                    await run_blocking(self._disconnect)
                    tasks.cancel_scope.cancel()
        finally:
            self.ended.set()
            self._send.close()
            self._receive.close()
            for job in self._jobs:
                job.ended.set()

    async def run_task(self, reader: object, partition: object) -> list[Row]:
        """Called by the driver. Raises TaskFailed."""
        job = _Job(pickle.dumps((reader, partition)))
        if self.ended.is_set():
            raise TaskFailed(job.error)
        self._jobs.append(job)
        self._send.send_nowait(job)
        await job.ended.wait()
        self._jobs.remove(job)
        if job.error is not None:
            raise TaskFailed(job.error)
        return job.rows

    async def stop(self) -> None:
        self._send.close()
        await self.ended.wait()

    async def _do(self, job: _Job) -> None:
        try:
            if self.is_failing():
                raise TaskFailed("it was told to")
            job.rows = await run_blocking(partial(_read, job.data))
            job.error = None
        except Exception as error:
            job.error = f"{type(error).__name__}: {error}"
        finally:
            if not self.was_killed:
                job.ended.set()

    def _disconnect(self) -> None:
        for connections in self.opened.values():
            connections.close()


def _read(data: bytes) -> list[Row]:
    reader, partition = pickle.loads(data)
    rows: list[Row] = []
    for found in reader.read(partition):
        columns = found.to_pydict()
        places = zip(columns["partition"], columns["offset"], strict=True)
        rows += zip(places, columns["value"], strict=True)
    return rows


def connections_of_process(settings: NetSettings) -> Connections:
    """In place of `connections`, which knows those of a real process."""
    process = current_process()
    assert isinstance(process, Executor)
    while process.is_opening:
        sleep(_MOMENT_S)
    if settings not in process.opened:
        process.is_opening = True
        try:
            process.opened[settings] = Connections(settings)
        finally:
            process.is_opening = False
    return process.opened[settings]


@dataclass
class Driver(Process):
    """The driver of a query, on a machine that keeps its files in `disk`."""

    machine: int = 0
    disk: Path = Path()
    executor: Executor | None = None
    settle: Callable[..., Awaitable[int]] | None = None
    """As the user's `settle`, while the runner listens."""
    is_stopping: bool = False
    """The user wants to stop the query."""
    is_zombie: bool = False
    """Another driver has taken the query over."""
    dies_at: str | None = None
    """At which step it will be killed."""

    def kill(self) -> None:
        super().kill()
        if self.executor is not None and not self.executor.ended.is_set():
            self.executor.kill()


async def serve_settlements(group: str, response: Callable[..., Awaitable[int]]) -> None:
    """In place of a socket in a folder: the user is in the same program."""
    process: Any = current_process()
    process.settle = response
    try:
        await anyio.sleep_forever()
    finally:
        process.settle = None
