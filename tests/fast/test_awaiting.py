"""`anext` of a stream in every way that coroutines are used: awaited, kept, cancelled, closed, run as tasks."""

from __future__ import annotations

import asyncio
import traceback
import weakref
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import anyio
import pytest

from kshare.client.record import ShareRecord
from kshare.client.streams import RecordStream
from kshare.state.lease import ACCEPT, HELD
from tests.fakes.batches import Batches, batch

pytestmark = pytest.mark.anyio


async def test_whether_records_are_there_or_awaited_all_come_in_order() -> None:
    stream = Batches(batch(0, 3), batch(3, 1), batch(4, 3)).records()
    with anyio.fail_after(5):
        assert [(await anext(stream)).offset for _ in range(7)] == list(range(7))


async def test_anext_with_a_default_gives_records_too() -> None:
    stream = Batches(batch(0, 2), batch(2, 2)).records()
    with anyio.fail_after(5):
        found = [await anext(stream, None) for _ in range(4)]
    assert [one and one.offset for one in found] == [0, 1, 2, 3]


async def test_nothing_is_taken_or_accepted_before_it_is_awaited() -> None:
    source = Batches(batch(0, 3))
    stream = source.records()
    first = await anext(stream)
    forgotten, closed, kept = anext(stream), anext(stream), anext(stream)
    cast("Coroutine[Any, Any, ShareRecord]", closed).close()
    with pytest.raises(RuntimeError):
        await closed
    del forgotten
    assert source.states == [HELD] * 3
    assert (first.offset, (await kept).offset) == (0, 1)
    assert source.states == [ACCEPT, HELD, HELD]


@pytest.mark.parametrize("before", [0, 1])
async def test_it_is_awaited_once(before: int) -> None:
    """Be it one that waited, or one that didn't."""
    stream = Batches(batch(0, 3)).records()
    for _ in range(before):
        await anext(stream)
    one = anext(stream)
    await one
    with pytest.raises(RuntimeError):
        await one
    assert (await anext(stream)).offset == before + 1


async def test_cancelled_while_it_waits_it_takes_nothing_along() -> None:
    source = Batches(batch(0, 1))
    stream = source.records()
    await anext(stream)
    with anyio.move_on_after(0.05):
        await anext(stream)
    source.bring(batch(1, 1))
    assert (await anext(stream)).offset == 1
    assert source.states == [ACCEPT, HELD]


async def test_an_exception_on_the_way_to_a_batch_is_raised_where_it_is_awaited() -> None:
    class Broken(Batches):
        async def next_batch(self) -> Any:
            await anyio.lowlevel.checkpoint()
            raise LookupError("no batch")

    with pytest.raises(LookupError, match="no batch"):
        await anext(Broken().records())


async def test_many_tasks_share_a_stream() -> None:
    source = Batches(*(batch(first, 3) for first in range(0, 30, 3)))
    stream = source.records(is_implicit=False)
    found: list[int] = []

    async def work() -> None:
        async for record in stream:
            found.append(record.offset)
            await anyio.lowlevel.checkpoint()

    with anyio.move_on_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(work)
            while len(found) < 30:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert sorted(found) == list(range(30))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_takes_it_for_a_coroutine() -> None:
    def run(stream: RecordStream) -> asyncio.Task[ShareRecord]:
        return asyncio.create_task(cast("Coroutine[Any, Any, ShareRecord]", stream.__anext__()))

    source = Batches(batch(0, 2))
    stream = source.records()
    assert [(await run(stream)).offset for _ in range(2)] == [0, 1]
    waiting = run(stream)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.01)
    assert source.states == [ACCEPT, ACCEPT]


async def test_it_is_an_iterator_like_any_awaitable() -> None:
    """Python's own way in, which compiled code spares itself."""
    stream = Batches(batch(0, 2)).records()
    await anext(stream)
    with pytest.raises(StopIteration) as end:
        next(cast("Iterator[None]", anext(stream)))
    assert end.value.value.offset == 1


async def test_each_exception_that_is_kept_keeps_its_record() -> None:
    """Compiled, on Python 3.12 and later, one does for all records that nobody catches."""

    class Long(Batches):
        def burst_size(self) -> int:
            return 100

    stream = Long(batch(0, 5)).records()
    await anext(stream)
    kept = []
    for _ in range(3):
        with pytest.raises(StopIteration) as end:
            next(cast("Iterator[None]", anext(stream)))
        kept.append(end.value)
    assert [one.value.offset for one in kept] == [1, 2, 3]


class Marked:
    """Something that a frame holds."""


async def test_who_calls_next_is_not_kept_alive_by_the_traceback() -> None:
    """One StopIteration that is raised again and again would collect the frames of all who met it."""

    class Long(Batches):
        def burst_size(self) -> int:
            return 100

    stream = Long(batch(0, 20)).records()
    await anext(stream)
    marks: list[weakref.ref[Marked]] = []
    depths: list[int] = []

    def ask() -> int:
        mark = Marked()
        marks.append(weakref.ref(mark))
        try:
            next(cast("Iterator[None]", anext(stream)))
        except StopIteration as stop:
            depths.append(len(list(traceback.walk_tb(stop.__traceback__))))
            return int(stop.value.offset)
        raise AssertionError("it waits")

    assert [ask() for _ in range(10)] == list(range(1, 11))
    assert len(set(depths)) == 1
    assert [mark() for mark in marks] == [None] * 10
    assert (await anext(stream)).offset == 11
