"""A call that is cancelled at any await: it is done with its result stored, or it isn't and can run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from kshare.idempotency import ClaimResponse, MemoryStore, idempotent
from tests.idempotency.harnesses import Harness, harness

pytestmark = pytest.mark.anyio

RECORD = SimpleNamespace(topic="orders", partition=3, offset=17)


class Steps:
    """Cancels a scope when a certain await is reached. After that it does nothing more."""

    def __init__(self, cancel_at: int) -> None:
        self.scope = anyio.CancelScope()
        self.taken = 0
        self._cancel_at = cancel_at

    async def step(self) -> None:
        if self.taken == self._cancel_at:
            self.scope.cancel()
        self.taken += 1
        await anyio.lowlevel.checkpoint()


class Stepping:
    """A store that awaits before and after everything it does."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._store = MemoryStore()

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        await self.steps.step()
        response = await self._store.claim(key, owner, seconds)
        await self.steps.step()
        return response

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        await self.steps.step()
        is_stored = await self._store.finish(key, owner, result, seconds)
        await self.steps.step()
        return is_stored

    async def abandon(self, key: str, owner: str) -> None:
        await self.steps.step()
        await self._store.abandon(key, owner)
        await self.steps.step()

    async def purge(self) -> int:
        return 0


AWAITS = 6
"""Two each of claim, the function and finish."""


@pytest.mark.parametrize("cancel_at", range(AWAITS + 1))
async def test_at_every_await(cancel_at: int) -> None:
    steps = Steps(cancel_at)
    effects: list[int] = []
    returned: list[int] = []

    @idempotent(Stepping(steps))
    async def charge(record: Any) -> int:
        await steps.step()
        effects.append(len(effects) + 1)
        await steps.step()
        return effects[-1]

    with steps.scope:
        returned.append(await charge(RECORD))
    finished = cancel_at >= 4  # from its first await, storing can't be interrupted
    assert returned == ([1] if finished else [])
    assert steps.taken >= min(cancel_at + 1, AWAITS)
    after = [await charge(RECORD), await charge(RECORD)]
    assert after == ([2, 2] if cancel_at == 3 else [1, 1])
    assert len(effects) == after[0]


@pytest.mark.parametrize("cancel_at", range(5))
async def test_while_it_waits_for_another_call(cancel_at: int) -> None:
    steps = Steps(-1)
    store = Stepping(steps)
    is_running, may_end = anyio.Event(), anyio.Event()

    @idempotent(store, wait=60)
    async def charge(record: Any) -> int:
        is_running.set()
        await may_end.wait()
        return 1

    async def wait_and_be_cancelled() -> None:
        store.steps = cancelled = Steps(cancel_at)
        with cancelled.scope:
            await charge(RECORD)
        assert cancelled.scope.cancelled_caught
        store.steps = steps

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(charge, RECORD)
        await is_running.wait()
        await wait_and_be_cancelled()
        may_end.set()
    assert await charge(RECORD) == 1


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Harness]:
    with harness("sqlite", tmp_path) as made:
        yield made


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
async def test_with_a_store_in_threads(sqlite: Harness, is_plain: bool) -> None:
    scope = anyio.CancelScope()
    effects: list[int] = []

    @idempotent(sqlite.store)
    async def charge(record: Any) -> int:
        effects.append(1)
        if len(effects) == 1:
            scope.cancel()
            await anyio.sleep_forever()
        return len(effects)

    @idempotent(sqlite.store)
    def plain(record: Any) -> int:
        effects.append(1)
        if len(effects) == 1:
            anyio.from_thread.run_sync(scope.cancel)
            anyio.from_thread.check_cancelled()
        return len(effects)

    async def call() -> int:
        if is_plain:
            return await anyio.to_thread.run_sync(plain, RECORD)
        return await charge(RECORD)

    with scope:
        await call()
    assert scope.cancelled_caught
    assert [await call(), await call()] == [2, 2]


async def test_a_plain_function_that_is_cancelled_while_it_works_is_done(sqlite: Harness) -> None:
    scope = anyio.CancelScope()
    effects: list[int] = []

    @idempotent(sqlite.store)
    def charge(record: Any) -> int:
        effects.append(1)
        anyio.from_thread.run_sync(scope.cancel)  # a thread can't be interrupted
        return len(effects)

    with scope:
        await anyio.to_thread.run_sync(charge, RECORD)
    assert await anyio.to_thread.run_sync(charge, RECORD) == 1
    assert effects == [1]
