"""`anext` of a stream, used in every way that coroutines are: awaited, kept, cancelled, closed, run as a task."""

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


async def test_records_come_in_order_whether_buffered_or_awaited() -> None:
    stream = Batches(batch(0, 3), batch(3, 1), batch(4, 3)).records()
    with anyio.fail_after(5):
        assert [(await anext(stream)).offset for _ in range(7)] == list(range(7))


async def test_anext_with_a_default_returns_records() -> None:
    stream = Batches(batch(0, 2), batch(2, 2)).records()
    with anyio.fail_after(5):
        found = [await anext(stream, None) for _ in range(4)]
    assert [record and record.offset for record in found] == [0, 1, 2, 3]


async def test_anext_does_nothing_before_it_is_awaited() -> None:
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
async def test_awaiting_twice_raises(before: int) -> None:
    """Both if it had to wait, and if it hadn't."""
    stream = Batches(batch(0, 3)).records()
    for _ in range(before):
        await anext(stream)
    one = anext(stream)
    await one
    with pytest.raises(RuntimeError):
        await one
    assert (await anext(stream)).offset == before + 1


async def test_a_cancelled_wait_consumes_no_record() -> None:
    source = Batches(batch(0, 1))
    stream = source.records()
    await anext(stream)
    with anyio.move_on_after(0.05):
        await anext(stream)
    source.bring(batch(1, 1))
    assert (await anext(stream)).offset == 1
    assert source.states == [ACCEPT, HELD]


async def test_an_exception_of_next_batch_is_raised_to_the_caller() -> None:
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
async def test_asyncio_accepts_it_as_a_coroutine() -> None:
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


async def test_it_can_be_driven_with_next() -> None:
    """Interpreted code drives an awaitable this way; compiled code takes a shortcut."""
    stream = Batches(batch(0, 2)).records()
    await anext(stream)
    with pytest.raises(StopIteration) as end:
        next(cast("Iterator[None]", anext(stream)))
    assert end.value.value.offset == 1


async def test_a_kept_stop_iteration_keeps_its_record() -> None:
    """Compiled, on Python 3.12 and later, one StopIteration object is reused for all records that nobody catches."""

    class Long(Batches):
        def slice_size(self) -> int:
            return 100

    stream = Long(batch(0, 5)).records()
    await anext(stream)
    kept = []
    for _ in range(3):
        with pytest.raises(StopIteration) as end:
            next(cast("Iterator[None]", anext(stream)))
        kept.append(end.value)
    assert [stop.value.offset for stop in kept] == [1, 2, 3]


class Marked:
    """An object that a frame refers to."""


async def test_tracebacks_keep_no_caller_alive() -> None:
    """A StopIteration that is raised repeatedly would otherwise collect the frames of all callers."""

    class Long(Batches):
        def slice_size(self) -> int:
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
        raise AssertionError("anext had to wait")

    assert [ask() for _ in range(10)] == list(range(1, 11))
    assert len(set(depths)) == 1
    assert [mark() for mark in marks] == [None] * 10
    assert (await anext(stream)).offset == 11
