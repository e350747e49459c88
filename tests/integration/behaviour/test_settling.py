"""What the acknowledgement types do: accept, release, reject, renew, and no acknowledgement at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest

from kshare import ConsumerClosed, ShareConsumer
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]


async def test_implicit_every_record_once(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=3)
    await queue.produce(500)
    async with queue.consumer() as source:
        found = await take(source, 500)
        assert set((await source.commit()).values()) == {None}
    assert Counter(record.value for record in found) == Counter(queue.values())
    assert {record.delivery_count for record in found} == {1}
    one = found[0]
    assert (one.topic, one.key, one.headers) == (queue.topic, one.value, (("n", one.value),))
    async with queue.consumer() as source:
        await queue.produce(1)
        (new,) = await take(source, 1)
        assert new.value == b"500"


async def test_explicit_all_four_types(fresh_queue: FreshQueue) -> None:
    """Of four records in turn: accept, release, reject, renew and then accept."""
    queue = fresh_queue()
    await queue.produce(12)
    again: list[bytes | None] = []
    async with queue.consumer(acknowledgement="explicit") as source:
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                seen += 1
                number = int(record.value or b"")
                if record.redelivered:
                    again.append(record.value)
                    record.accept()
                elif number % 4 == 1:
                    record.release()
                elif number % 4 == 2:
                    record.reject()
                else:
                    if number % 4 == 3 and not queue.is_4_1:  # 4.1 can't renew
                        record.renew()
                        assert set((await source.commit()).values()) == {None}
                    record.accept()
                if seen == 15:
                    break
        assert set((await source.commit()).values()) == {None}
        assert sorted(again, key=str) == [b"1", b"5", b"9"]
    async with queue.consumer() as source:
        assert await nothing_comes(source)


async def test_explicit_without_acknowledgements_nothing_is_settled(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(3)
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                if record.value == b"2":
                    break
        assert await source.commit() == {}
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 3)] == queue.values()


async def test_a_redelivered_record_is_acknowledged_with_the_rest_of_its_first_batch(
    fresh_queue: FreshQueue,
) -> None:
    """Brokers refuse all ranges of a request if they don't ascend."""
    queue = fresh_queue()
    await queue.produce(3)
    with anyio.fail_after(DEADLINE_S):
        async with queue.consumer(acknowledgement="explicit") as source:
            records = aiter(source)
            first, second, third = [await anext(records) for _ in range(3)]
            first.release()
            second.accept()
            again = await anext(records)
            assert (again.offset, again.delivery_count) == (first.offset, 2)
            await queue.produce(1)
            new = await anext(records)
            for record in (third, again, new):
                record.accept()
            assert set((await source.commit()).values()) == {None}
    async with queue.consumer() as source:
        assert await nothing_comes(source)


async def test_batches_are_settled_as_a_whole(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    await queue.produce(400)
    seen: Counter[bytes | None] = Counter()
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for batch in source.batches():
                seen.update(record.value for record in batch)
                batch.accept()
                if sum(seen.values()) >= 400:
                    break
        assert set((await source.commit()).values()) == {None}
    assert seen == Counter(queue.values())


async def test_batch_that_is_accepted_first_is_processed_all_the_same(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(50)
    seen: Counter[bytes | None] = Counter()
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for batch in source.batches():
                batch.accept()
                assert set((await source.commit()).values()) == {None}
                seen.update(record.value for record in batch)
                if sum(seen.values()) >= 50:
                    break
    assert seen == Counter(queue.values())


async def test_a_cancelled_consumer_still_sends_what_was_accepted(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(3)
    with anyio.CancelScope() as scope:
        async with queue.consumer(acknowledgement="explicit") as source:
            async for record in source:
                record.accept()
                if record.value == b"1":
                    scope.cancel()
                    await anyio.sleep(DEADLINE_S)
    assert scope.cancelled_caught
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 1)] == [b"2"]


class Stop(Exception):
    """Ends the consumer's block."""


async def break_out(source: ShareConsumer) -> None:
    async for record in source:
        if record.value == b"1":
            break


async def raise_out(source: ShareConsumer) -> None:
    async for record in source:
        if record.value == b"1":
            raise Stop


async def cancel_out(source: ShareConsumer) -> None:
    with anyio.CancelScope() as scope:
        async for record in source:
            if record.value == b"1":
                scope.cancel()
                await anyio.sleep(DEADLINE_S)


@pytest.mark.parametrize("leave", [break_out, raise_out, cancel_out])
async def test_the_current_record_is_redelivered_however_the_loop_ends(
    fresh_queue: FreshQueue, leave: Callable[[ShareConsumer], Awaitable[None]]
) -> None:
    queue = fresh_queue()
    await queue.produce(3)
    with suppress(Stop):
        async with queue.consumer() as source:
            with anyio.fail_after(DEADLINE_S):
                await leave(source)
    async with queue.consumer() as source:
        found = await take(source, 2)
    assert [record.value for record in found] == [b"1", b"2"]
    # 4.1 doesn't count a delivery that ended with its session
    assert [record.redelivered for record in found] == [not queue.is_4_1] * 2


async def test_tasks_that_loop_over_one_consumer_share_its_records(fresh_queue: FreshQueue) -> None:
    """One of them stops early: the others get the remaining records. Any of them may close the consumer."""
    queue = fresh_queue()
    await queue.produce(200)
    got: dict[int, list[bytes | None]] = {number: [] for number in range(4)}

    async def work(number: int) -> None:
        with suppress(ConsumerClosed):
            async for record in source:
                got[number].append(record.value)
                await anyio.sleep(0.002)
                if number == 0 and len(got[0]) == 3:
                    break
                if len({value for values in got.values() for value in values}) == 200:
                    record.accept()
                    await source.close()

    with anyio.fail_after(DEADLINE_S):
        async with queue.consumer() as source, anyio.create_task_group() as tasks:
            for number in got:
                tasks.start_soon(work, number)
    assert len(got[0]) == 3
    assert all(len(got[number]) > 10 for number in (1, 2, 3))
    assert {value for values in got.values() for value in values} == set(queue.values())
