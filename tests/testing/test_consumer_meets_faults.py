"""Our consumer while the embedded cluster misbehaves: nothing is lost, whatever happens when."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kshare import AcknowledgeError, ShareConsumer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    FindCoordinatorRequest,
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.testing import Broker, corrupt_records

pytestmark = pytest.mark.anyio

DEADLINE_S = 60.0
RECORDS = 60

Misbehave = Callable[[Broker], object]

ONCE: dict[str, Misbehave] = {
    "fetch isn't for this node": lambda broker: broker.faults.add(
        ShareFetchRequest, skip=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER
    ),
    "session is unknown": lambda broker: broker.faults.add(
        ShareFetchRequest, skip=2, error=ErrorCode.SHARE_SESSION_NOT_FOUND
    ),
    "session limit is reached": lambda broker: broker.faults.add(
        ShareFetchRequest, times=2, error=ErrorCode.SHARE_SESSION_LIMIT_REACHED
    ),
    "fetch is cut off": lambda broker: broker.faults.add(ShareFetchRequest, skip=1, cut_after=60),
    "fetch's connection ends": lambda broker: broker.faults.add(ShareFetchRequest, skip=1, hang_up=True),
    "a batch is corrupt": lambda broker: broker.faults.add(ShareFetchRequest, change=corrupt_records),
    "acknowledgement is refused": lambda broker: broker.faults.add(
        ShareAcknowledgeRequest, error=ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ),
    "acknowledgement's answer is lost": lambda broker: broker.faults.add(
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
    "metadata is cut off": lambda broker: broker.faults.add(MetadataRequest, cut_after=9),
    "everything is slow": lambda broker: broker.faults.add(times=40, before_ms=20),
    "every tenth answer is lost": lambda broker: [
        broker.faults.add(skip=10 * number, cut_after=0) for number in range(1, 4)
    ],
}


async def everything_accepted(broker: Broker, group: str = "g") -> set[int]:
    """Until all records have been accepted by this consumer or were before."""
    seen: set[int] = set()
    with anyio.fail_after(DEADLINE_S):
        async with ShareConsumer(
            broker.bootstrap, group=group, topics=["t"], acknowledgement="explicit", request_timeout=5.0
        ) as consumer:
            async for record in consumer:
                try:
                    record.accept()
                except AcknowledgeError:
                    continue  # it comes again
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


@pytest.mark.parametrize("fault", ONCE)
async def test_every_record_is_accepted_all_the_same(fault: str) -> None:
    async with Broker(topics={"t": 3}) as broker:
        prepare(broker)
        ONCE[fault](broker)
        assert await everything_accepted(broker) == set(range(RECORDS))


async def test_leaders_and_coordinators_move_under_it() -> None:
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
