"""Our consumer with faults in the embedded cluster: no record is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from kshare import AcknowledgeError, ShareConsumer, ShareRecord
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.testing import Broker, ManualClock, corrupt_records

pytestmark = pytest.mark.anyio

DEADLINE_S = 60.0
RECORDS = 60

Misbehave = Callable[[Broker], object]

ONCE: dict[str, Misbehave] = {
    "fetch at the wrong leader": lambda broker: broker.faults.add(
        ShareFetchRequest, skip=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER
    ),
    "session is unknown": lambda broker: broker.faults.add(
        ShareFetchRequest, skip=2, error=ErrorCode.SHARE_SESSION_NOT_FOUND
    ),
    "session limit is reached": lambda broker: broker.faults.add(
        ShareFetchRequest, times=2, error=ErrorCode.SHARE_SESSION_LIMIT_REACHED
    ),
    "fetch response is truncated": lambda broker: broker.faults.add(ShareFetchRequest, skip=1, cut_after=60),
    "connection closes during a fetch": lambda broker: broker.faults.add(
        ShareFetchRequest, skip=1, hang_up=True
    ),
    "a batch is corrupt": lambda broker: broker.faults.add(ShareFetchRequest, change=corrupt_records),
    "acknowledgement is refused": lambda broker: broker.faults.add(
        ShareAcknowledgeRequest, error=ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ),
    "response to an acknowledgement is lost": lambda broker: broker.faults.add(
        ShareAcknowledgeRequest, cut_after=0
    ),
    "heartbeat finds another coordinator": lambda broker: broker.faults.add(
        ShareGroupHeartbeatRequest, error=ErrorCode.NOT_COORDINATOR
    ),
    "member is unknown": lambda broker: broker.faults.add(
        ShareGroupHeartbeatRequest, skip=1, error=ErrorCode.UNKNOWN_MEMBER_ID
    ),
    "coordinator is loading": lambda broker: broker.faults.add(
        FindCoordinatorRequest, times=2, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ),
    "metadata response is truncated": lambda broker: broker.faults.add(MetadataRequest, cut_after=9),
    "everything is slow": lambda broker: broker.faults.add(times=40, before_ms=20),
    "every tenth response is lost": lambda broker: [
        broker.faults.add(skip=10 * number, cut_after=0) for number in range(1, 4)
    ],
}


async def everything_accepted(broker: Broker, group: str = "g") -> set[int]:
    """Consume until every record was accepted once."""
    seen: set[int] = set()
    with anyio.fail_after(DEADLINE_S):
        async with ShareConsumer(
            broker.bootstrap, group=group, topics=["t"], acknowledgement="explicit", request_timeout=5.0
        ) as consumer:
            async for record in consumer:
                try:
                    record.accept()
                except AcknowledgeError:
                    continue  # it will be redelivered
                seen.add(int(record.value or b""))
                if len(seen) == RECORDS:
                    break
    return seen


def prepare(broker: Broker) -> None:
    broker.set_group_config(
        "g", {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "2000"}
    )
    for partition in range(3):
        for start in range(0, RECORDS // 3, 5):
            numbers = range(partition * RECORDS // 3 + start, partition * RECORDS // 3 + start + 5)
            broker.produce("t", [b"%d" % number for number in numbers], partition=partition)


@pytest.mark.lengthy
@pytest.mark.parametrize("fault", ONCE)
async def test_every_record_is_accepted_despite_the_fault(fault: str) -> None:
    async with Broker(topics={"t": 3}) as broker:
        prepare(broker)
        ONCE[fault](broker)
        assert await everything_accepted(broker) == set(range(RECORDS))


@pytest.mark.lengthy
async def test_every_record_is_accepted_while_leaders_and_coordinators_move() -> None:
    async with Broker(nodes=3, topics={"t": 3}) as cluster:
        prepare(cluster)

        async def disturb() -> None:
            for node in (1, 2, 3):
                await anyio.sleep(0.1)
                cluster.move_leader("t", partition=node - 1, node=node % 3 + 1)
            await anyio.to_thread.run_sync(cluster.stop_node, 2)
            await anyio.sleep(0.3)
            await anyio.to_thread.run_sync(cluster.start_node, 2)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(disturb)
            assert await everything_accepted(cluster) == set(range(RECORDS))


@asynccontextmanager
async def three_in_hand(clock: ManualClock) -> AsyncIterator[tuple[Broker, ShareConsumer, list[ShareRecord]]]:
    """Three records in hand. Only the broker's clock advances, 10 ms at a time, so that fetches end."""
    async with Broker(topics={"t": 1}, clock=clock) as broker, anyio.create_task_group() as tasks:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("t", [b"0", b"1", b"2"])

        async def pass_time() -> None:
            while True:
                broker.call(lambda: clock.advance(10))
                await anyio.sleep(0.005)

        tasks.start_soon(pass_time)
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(
                broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit", renew_leases=False
            ) as consumer:
                records = aiter(consumer)
                yield broker, consumer, [await anext(records) for _ in range(3)]
        tasks.cancel_scope.cancel()


@pytest.mark.lengthy
async def test_redelivered_records_are_lost_to_the_first_lease() -> None:
    """After a suspension, or with a shortened lock, the broker redelivers records that the consumer still holds."""
    clock = ManualClock()
    async with three_in_hand(clock) as (broker, consumer, in_hand):
        broker.call(lambda: clock.advance(30_000))
        again = list(await consumer.next_batch())
        assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2), (2, 2)]
        for record in in_hand:
            with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                record.accept()
        for record in again:
            record.accept()
        assert set((await consumer.commit()).values()) == {None}


@pytest.mark.lengthy
async def test_renewing_one_record_renews_its_whole_lease() -> None:
    clock = ManualClock()
    async with three_in_hand(clock) as (broker, consumer, in_hand):

        def locks() -> list[int]:
            (led,) = broker.state.shares.loaded()
            return [delivery.lock_until for _, _, delivery in led.shared.window.runs()]

        (before,) = broker.call(locks)
        broker.call(lambda: clock.advance(10_000))
        in_hand[0].renew()
        assert set((await consumer.commit()).values()) <= {None}
        assert all(lock >= before + 10_000 for lock in broker.call(locks))
        for record in in_hand:
            record.accept()
        assert set((await consumer.commit()).values()) == {None}


@pytest.mark.lengthy
async def test_stopped_leader_is_replaced_by_the_new_one(kshare_cluster: Broker) -> None:
    """It closes connections and refuses new ones: no response tells the consumer that leadership moved."""
    kshare_cluster.create_topic("t")
    kshare_cluster.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_cluster.produce("t", [b"before"])
    leader = kshare_cluster.call(lambda: kshare_cluster.state.cluster.partition("t", 0).leader)
    async with ShareConsumer(kshare_cluster.bootstrap, group="g", topics=["t"]) as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                assert record.value == b"before"
                record.accept()
                break
            await anyio.to_thread.run_sync(kshare_cluster.stop_node, leader)
            kshare_cluster.produce("t", [b"after"])
            async for record in source:
                if record.value == b"after":
                    break
