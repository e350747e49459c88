"""The SQLite store while another process has locked its file: calls end, and so do cancellations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from kshare.errors import StoreFailed
from kshare.idempotency import SQLiteStore, idempotent

pytestmark = pytest.mark.anyio

RECORD = SimpleNamespace(topic="orders", partition=3, offset=17)


class Impatient(SQLiteStore):
    _patience_s = 0.3

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.abandoned = 0

    async def abandon(self, key: str, owner: str) -> None:
        self.abandoned += 1
        await super().abandon(key, owner)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Impatient]:
    store = Impatient(tmp_path / "store.db")
    yield store
    store.close()


@pytest.fixture
def other(store: Impatient, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process, which may lock the file and unlock it."""
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


@pytest.mark.lengthy
@pytest.mark.parametrize("is_new", [False, True])
async def test_concurrent_calls_have_one_deadline(
    store: Impatient, other: sqlite3.Connection, is_new: bool
) -> None:
    @idempotent(store, key=str)
    async def charge(order: int) -> int:
        return order

    if not is_new:
        await charge(0)
    other.execute("BEGIN EXCLUSIVE")
    errors: list[StoreFailed] = []

    async def call(order: int) -> None:
        with pytest.raises(StoreFailed) as caught:
            await charge(order)
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks:
        for order in range(1, 13):
            tasks.start_soon(call, order)
    assert [error.is_open for error in errors] == [False] * 12
    assert store.abandoned == 0, "nothing was claimed, so nothing waits for the lock again"
    other.execute("ROLLBACK")
    assert [await charge(order) for order in range(13)] == list(range(13))


def both_kinds(store: Impatient, work: Callable[[], None]) -> list[Callable[[Any], Any]]:
    @idempotent(store, name="charge")
    async def charge(record: Any) -> str:
        await anyio.to_thread.run_sync(work)
        return "charged"

    @idempotent(store, name="plain")
    def plain(record: Any) -> str:
        work()
        return "charged"

    async def in_thread(record: Any) -> str:
        return await anyio.to_thread.run_sync(plain, record)

    return [charge, in_thread]


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [0, 1], ids=["async", "plain"])
async def test_a_cancellation_during_a_claim_wins(
    store: Impatient, other: sqlite3.Connection, kind: int
) -> None:
    call = both_kinds(store, lambda: None)[kind]
    other.execute("BEGIN EXCLUSIVE")
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, RECORD)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    other.execute("ROLLBACK")
    assert await call(RECORD) == "charged"


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [0, 1], ids=["async", "plain"])
async def test_a_cancellation_while_the_result_is_stored_wins(
    store: Impatient, other: sqlite3.Connection, kind: int
) -> None:
    scope = anyio.CancelScope()

    def work() -> None:
        other.execute("BEGIN EXCLUSIVE")
        anyio.from_thread.run_sync(scope.cancel)

    call = both_kinds(store, work)[kind]
    with scope:
        await call(RECORD)
    assert scope.cancelled_caught
    assert store.abandoned == 1
    other.execute("ROLLBACK")
