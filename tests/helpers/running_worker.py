"""Runs a worker for a test, and asks its HTTP endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from kshare.testing import Broker
from kshare.worker import Worker

DEADLINE_S = 30.0


def from_the_start(broker: Broker, group: str = "g") -> None:
    """Let the group begin at the start of its topics."""
    broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """The worker runs while the block does."""
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            yield
            worker.stop()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await anyio.sleep(0.005)


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes, and return everything that comes until the connection is closed."""
    with anyio.fail_after(DEADLINE_S):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request)
            return await rest_of(stream)


async def rest_of(stream: anyio.abc.ByteReceiveStream) -> bytes:
    received = b""
    while True:
        try:
            received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


async def get(port: int | None, path: str) -> tuple[int, str]:
    """Status and body."""
    assert port is not None, "the worker has an HTTP endpoint, and runs"
    response = await exchange(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()
