"""Loops over records and batches: what they accept, what they leave, and that other tasks can run."""

from __future__ import annotations

import gc
import weakref

import anyio
import anyio.lowlevel
import pytest

from kshare.client.record import ShareRecord, lease_of
from kshare.client.streams import BatchStream, RecordStream
from kshare.fast.left_loops import Loop
from kshare.state.lease import ACCEPT, HELD, RELEASE
from tests.fakes.batches import Batches, batch

pytestmark = pytest.mark.anyio


async def take(stream: RecordStream, count: int) -> list[ShareRecord]:
    found = []
    with anyio.fail_after(5):
        async for record in stream:
            found.append(record)
            if len(found) == count:
                break
    return found


async def test_next_iteration_accepts_the_previous_record() -> None:
    source = Batches(batch(0, 2), batch(2, 2))
    await take(source.records(), 3)
    assert source.states == [ACCEPT, ACCEPT, HELD, HELD]


@pytest.mark.lengthy
async def test_next_loop_gets_what_the_last_one_left_and_the_record_in_hand_is_released() -> None:
    source = Batches(batch(0, 5))
    await take(source.records(), 2)
    gc.collect()
    assert [record.offset for record in await take(source.records(), 2)] == [2, 3]
    assert source.states == [ACCEPT, RELEASE, ACCEPT, HELD, HELD]


@pytest.mark.lengthy
async def test_single_record_stays_held_until_settled() -> None:
    source = Batches(batch(0, 2))
    record = await anext(aiter(source.records()))
    gc.collect()
    record.accept()
    await anext(aiter(source.records()))
    assert source.states == [ACCEPT, HELD]


async def test_what_was_delivered_more_often_comes_before_the_rest_of_an_opened_batch() -> None:
    source = Batches(batch(0, 8))
    records = source.records()
    found = await take(records, 1)
    source.bring(batch(10, 3, delivery_count=4))
    source.bring(batch(20, 2))
    found += await take(records, 12)
    assert [record.offset for record in found] == [0, 1, 10, 11, 12, *range(2, 8), 20, 21]
    assert source.states[:8] == [ACCEPT] * 8


async def test_explicit_loops_settle_nothing() -> None:
    source = Batches(batch(0, 3))
    await take(source.records(is_implicit=False), 2)
    await take(source.records(is_implicit=False), 1)
    assert source.states == [HELD] * 3


async def test_batch_loops_accept_and_release_likewise() -> None:
    source = Batches(batch(0, 2), batch(2, 2), batch(4, 2))
    with anyio.fail_after(5):
        async for given in source.batches():
            next(iter(given)).reject()
            if lease_of(given).first == 2:
                break
    stream = source.batches()
    assert lease_of(await anext(stream)).first == 4
    assert source.states == [3, ACCEPT, 3, RELEASE, HELD, HELD]


async def test_two_loops_share_records_but_accept_only_their_own() -> None:
    source = Batches(batch(0, 4))
    one, other = source.records(), source.records()
    with anyio.fail_after(5):
        got = [(await anext(stream)).offset for stream in (one, other, one)]
    assert got == [0, 1, 2]
    assert source.states == [ACCEPT, HELD, HELD, HELD]


async def test_busy_loop_lets_other_tasks_run() -> None:
    source = Batches(batch(0, 10))
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(0)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await take(source.records(), 10)
        tasks.cancel_scope.cancel()
    assert len(turns) >= 4


async def test_cancelled_wait_has_accepted_the_records_passed() -> None:
    source = Batches(batch(0, 1))
    stream = source.records()
    with anyio.move_on_after(0.05):
        async for _ in stream:
            pass
    assert source.states == [ACCEPT]


@pytest.mark.parametrize("kind", [RecordStream, BatchStream])
def test_a_loop_that_was_interrupted_while_it_was_created_is_deleted_in_silence(kind: type[Loop]) -> None:
    kind.__new__(kind).__del__()


class Variable:
    """Of a frame."""


async def test_a_cancelled_wait_leaves_nothing_to_the_garbage_collector() -> None:
    source = Batches(batch(0, 1))

    async def take_two() -> None:
        stream, variable = source.records(), Variable()
        freed.append(weakref.ref(variable))
        await anext(stream)
        with anyio.move_on_after(0.01) as scope:
            await anext(stream)
        assert scope.cancelled_caught

    freed: list[weakref.ref[Variable]] = []
    gc.disable()
    try:
        await take_two()
        await anyio.lowlevel.checkpoint()  # the event loop has the cancellation until then
        assert freed[0]() is None
    finally:
        gc.enable()
