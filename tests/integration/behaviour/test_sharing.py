"""Several consumers and several groups on one topic."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from kshare.protocol.messages import ShareGroupDescribeRequest
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

Shares = list[Counter[bytes | None]]


async def work_until_cancelled(queue: WorkQueue, mine: Counter[bytes | None]) -> None:
    async with queue.consumer(max_records=20) as source:
        async for record in source:
            mine[record.value] += 1
            await anyio.sleep(0.001)


async def share(queue: WorkQueue, consumers: int, portion: int) -> Shares:
    """Produce `portion` records at a time until each consumer has received some, then wait until all have arrived."""
    shares: Shares = [Counter() for _ in range(consumers)]
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            for mine in shares:
                tasks.start_soon(work_until_cancelled, queue, mine)
            while not all(shares):
                await queue.produce(portion)
            while len(set().union(*shares)) < queue.produced:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    return shares


@pytest.mark.parametrize("consumers", [2, 10])
async def test_consumers_share_one_partition_without_loss(fresh_queue: FreshQueue, consumers: int) -> None:
    queue = fresh_queue()
    shares = await share(queue, consumers, portion=25 * consumers)
    together: Counter[bytes | None] = sum(shares, Counter())
    assert set(together) == set(queue.values())
    # Only what a consumer held when it was cancelled is delivered twice: at most one record each.
    assert together.total() - len(together) <= consumers


async def test_groups_are_independent(fresh_queue: FreshQueue) -> None:
    queue, other = fresh_queue(), fresh_queue()
    await queue.produce(20)
    other.topic = queue.topic
    for group in (queue, other):
        async with group.consumer() as source:
            assert [record.value for record in await take(source, 20)] == queue.values()


async def test_a_group_of_100_members(fresh_queue: FreshQueue) -> None:
    """More members than partitions: all are listed, and each record is delivered once."""
    members = 100
    queue = fresh_queue(partitions=10)
    shares: Shares = [Counter() for _ in range(members)]
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            for mine in shares:
                tasks.start_soon(work_until_cancelled, queue, mine)
            while len(await member_ids(queue)) < members:
                await anyio.sleep(0.1)
            while sum(map(bool, shares)) <= 10:  # until more members than partitions have received records
                await queue.produce(200)
            while len(set().union(*shares)) < queue.produced:
                await anyio.sleep(0.01)
            assert len(await member_ids(queue)) == members
            tasks.cancel_scope.cancel()
    together: Counter[bytes | None] = sum(shares, Counter())
    assert together == Counter(queue.values())
    assert await member_ids(queue) == set()


async def member_ids(queue: WorkQueue) -> set[str]:
    (group,) = (await queue.ask(ShareGroupDescribeRequest(group_ids=[queue.group]))).groups
    return {member.member_id for member in group.members}


async def test_records_of_a_leaving_member_go_to_the_others(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2, settings={"share.heartbeat.interval.ms": "500"})
    async with queue.consumer() as stays:
        async with queue.consumer() as goes:
            await queue.produce(2, partition=0)
            await queue.produce(2, partition=1)
            async for _ in goes:
                break
        found = await take(stays, 4)
        assert sorted(str(record.value) for record in found) == [str(value) for value in queue.values()]
        assert await nothing_comes(stays)
