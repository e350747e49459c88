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
    """Portion by portion, until everybody has had a part and everything has come."""
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
    # Twice comes only what was given back unseen or in hand when they were cancelled: a record each at most.
    assert together.total() - len(together) <= consumers


async def test_groups_are_independent(fresh_queue: FreshQueue) -> None:
    queue, other = fresh_queue(), fresh_queue()
    await queue.produce(20)
    other.topic = queue.topic
    for group in (queue, other):
        async with group.consumer() as source:
            assert [record.value for record in await take(source, 20)] == queue.values()


async def test_a_group_of_100_members(fresh_queue: FreshQueue) -> None:
    """More members than partitions: all are counted, and among them they get each record once."""
    members = 100
    queue = fresh_queue(partitions=10)
    shares: Shares = [Counter() for _ in range(members)]
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            for mine in shares:
                tasks.start_soon(work_until_cancelled, queue, mine)
            while len(await member_ids(queue)) < members:
                await anyio.sleep(0.1)
            while sum(map(bool, shares)) <= 10:  # more members than there are partitions have work
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


async def test_what_a_member_leaves_behind_goes_to_who_stays(fresh_queue: FreshQueue) -> None:
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
