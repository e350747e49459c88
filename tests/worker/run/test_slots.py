"""Slots: tasks are created when they are needed, wake one another one by one, and can be cancelled."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.client.made_records import made_record
from kshare.worker import Delivery
from kshare.worker.run.slots import Slot, Slots

pytestmark = pytest.mark.anyio

DEADLINE_S = 30.0


class Work:
    """Slots that take numbers from a queue, and process each until they are told to go on."""

    def __init__(self) -> None:
        self.slots: Slots
        self.waiting: deque[int] = deque()
        self.running: dict[int, anyio.Event] = {}
        self.done: list[int] = []

    async def work(self, slots: Slots, slot: Slot) -> None:
        while True:
            if not self.waiting:
                await self.slots.sleep()
                continue
            number = self.waiting.popleft()
            if self.waiting and self.slots.has_free:
                self.slots.wake_one()
            self.running[number] = anyio.Event()
            await self.running[number].wait()
            del self.running[number]
            self.done.append(number)

    def put(self, *numbers: int) -> None:
        self.waiting.extend(numbers)
        self.slots.wake_one()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await checkpoint()


@asynccontextmanager
async def working(most: int) -> AsyncIterator[Work]:
    work = Work()
    async with anyio.create_task_group() as tasks:
        work.slots = Slots(tasks, most, work.work)
        yield work
        tasks.cancel_scope.cancel()


async def test_tasks_are_created_when_they_are_needed() -> None:
    async with working(3) as work:
        assert work.slots.all == []
        work.put(0)
        await until(lambda: len(work.running) == 1)
        assert len(work.slots.all) == 1
        work.put(1, 2)
        await until(lambda: len(work.running) == 3)
        assert (len(work.slots.all), work.slots.has_free) == (3, False)


async def test_no_more_than_the_limit_run_at_once() -> None:
    async with working(2) as work:
        work.put(*range(5))
        await until(lambda: len(work.running) == 2)
        work.slots.wake_one()
        work.slots.wake_one()
        for _ in range(20):
            await checkpoint()
        assert (len(work.slots.all), sorted(work.running)) == (2, [0, 1])
        while len(work.done) < 5:
            await until(lambda: bool(work.running))
            next(iter(work.running.values())).set()
            await checkpoint()
        assert sorted(work.done) == list(range(5))


async def test_sleeping_tasks_are_used_before_new_ones_are_created() -> None:
    async with working(5) as work:
        for number in range(10):
            work.put(number)
            await until(lambda: bool(work.running))
            next(iter(work.running.values())).set()
            await until(lambda number=number: work.done[-1:] == [number])  # type: ignore[misc]
        assert len(work.slots.all) == 1


async def test_task_cancelled_while_it_sleeps_is_not_woken_any_more() -> None:
    async with anyio.create_task_group() as tasks:
        ran: list[int] = []

        async def work(slots: Slots, slot: Slot) -> None:
            with anyio.CancelScope() as slot.scope:
                await slots.sleep()
            ran.append(len(ran))
            await anyio.sleep_forever()

        slots = Slots(tasks, 1, work)
        slots.wake_one()
        await until(lambda: slots.has_free and bool(slots.all) and slots.all[0].scope is not None)
        slots.all[0].cancel()
        await until(lambda: ran == [0])
        assert not slots.has_free
        tasks.cancel_scope.cancel()


async def test_cancelling_tells_the_deliveries() -> None:
    one, two, alone = (Delivery(made_record("orders", b""), "g", 5) for _ in range(3))
    slot = Slot()
    slot.cancel()
    assert not slot.is_cancelled, "nothing is running"
    slot.scope = anyio.CancelScope()
    slot.batch = [one, two]
    slot.cancel()
    assert (slot.is_cancelled, one.is_cancelled, two.is_cancelled) == (True, True, True)
    single = Slot()
    single.scope, single.item, single.delivery = anyio.CancelScope(), alone, alone
    single.cancel()
    assert (single.current, alone.is_cancelled) == (alone, True)


def test_what_a_slot_tells_is_short_however_large_its_batch_is() -> None:
    slot = Slot()
    assert slot.told == ""
    slot.batch = [Delivery(made_record("orders", b"", offset=offset), "g", 5) for offset in range(1001)]
    assert slot.told == "Delivery(orders[0]@0, attempt 1) and 1,000 more"
    slot.batch = slot.batch[:1]
    assert slot.told == "Delivery(orders[0]@0, attempt 1)"
