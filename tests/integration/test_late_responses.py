"""A blocked event loop reads responses late: records whose lock has expired by then aren't handed out."""

from __future__ import annotations

import time
from typing import Literal

import anyio
import pytest

from kshare import ShareConsumer
from kshare.testing import Broker

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0
LOCK_S = 1.0


@pytest.mark.lengthy
async def test_records_that_a_blocked_loop_reads_too_late_are_not_handed_out() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config(
            "g",
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(int(1000 * LOCK_S)),
            },
        )
        broker.produce("orders", [b"first"])
        async with ShareConsumer(broker.bootstrap, group="g", topics="orders") as consumer:
            with anyio.fail_after(DEADLINE_S):
                (await consumer.next_batch()).accept()
                assert await consumer.commit() == {("orders", 0): None}
                await anyio.sleep(0.05)  # by now, a fetch waits on the broker
                broker.produce("orders", [b"second"])
                time.sleep(1.5 * LOCK_S)  # noqa: ASYNC251
                batch = await consumer.next_batch()
                assert batch.values() == [b"second"]
                batch.accept()
                assert await consumer.commit() == {("orders", 0): None}


@pytest.mark.lengthy
@pytest.mark.parametrize("acknowledgement", ["implicit", "explicit"])
async def test_records_that_expired_while_the_handler_blocked_the_loop_are_not_handed_out(
    acknowledgement: Literal["implicit", "explicit"],
) -> None:
    """Not even the rest of those that a loop may take without yielding to other tasks."""
    count, blocks_at = 3000, {500, 1500}
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config(
            "g",
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(int(1000 * LOCK_S)),
            },
        )
        broker.produce("orders", [b"%d" % number for number in range(count)])
        finished: set[int] = set()
        async with ShareConsumer(
            broker.bootstrap, group="g", topics="orders", acknowledgement=acknowledgement
        ) as consumer:
            with anyio.fail_after(DEADLINE_S):
                async for record in consumer:
                    assert record.lease_deadline > anyio.current_time()
                    if record.offset in blocks_at and record.delivery_count == 1:
                        time.sleep(1.5 * LOCK_S)  # noqa: ASYNC251
                        continue
                    if acknowledgement == "explicit":
                        record.accept()
                    finished.add(record.offset)
                    if len(finished) == count:
                        break


@pytest.mark.lengthy
async def test_records_that_expire_while_one_loop_blocks_are_not_handed_to_another() -> None:
    """One loop waits for a batch, and is woken, but runs only after another one has blocked the event loop."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(int(1000 * LOCK_S)),
        "share.delivery.count.limit": "10",
    }
    late: list[tuple[int, float]] = []
    handed = 0

    async def work(consumer: ShareConsumer) -> None:
        nonlocal handed
        async for record in consumer:
            over = anyio.current_time() - record.lease_deadline
            if over > 0:
                late.append((record.offset, over))
            handed += 1
            if handed > 1000:
                tasks.cancel_scope.cancel()
            elif handed % 97 == 0:
                time.sleep(1.3 * LOCK_S)  # noqa: ASYNC251
            elif handed % 3 == 0:
                await anyio.sleep(0.001)

    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("g", settings)
        broker.produce("orders", [b"%d" % number for number in range(3000)])
        async with ShareConsumer(broker.bootstrap, group="g", topics="orders", max_records=300) as consumer:
            with anyio.fail_after(DEADLINE_S):
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(work, consumer)
    assert late == []
