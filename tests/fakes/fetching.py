"""The task of one broker, with its holdings, without a consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.client.record import ShareBatch
from kshare.engine.node_session import NodeSession
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import ShareSession
from tests.fakes.tiny_broker import ACCEPTED, ARCHIVED, PARTITION, TinyBroker

DEADLINE_S = 20.0


class Rig:
    def __init__(self, broker: TinyBroker, max_records: int) -> None:
        config = ConsumerConfig.make("x:1", {"group": "g", "topics": ["t"], "max_records": max_records})
        lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
        self.holdings = Holdings(max_records=max_records, lease_timers=lease_timers, clock=anyio.current_time)
        self.moved: list[object] = []
        self.node = NodeSession(
            1,
            ShareSession("g", "m"),
            broker,  # type: ignore[arg-type]
            config.member_settings(),
            self.holdings.book,
            lambda topic_id: "t",
            lambda partitions, leaders, endpoints: self.moved.append(partitions),
        )
        self.node.want([PARTITION])

    async def next_batch(self) -> ShareBatch:
        while True:
            batch = self.holdings.next_batch()
            if batch:
                return batch
            batch_available = self.holdings.batch_available.next()
            self.node.flush()
            self.holdings.book.changed.send()
            await batch_available.wait()


@asynccontextmanager
async def running(broker: TinyBroker, max_records: int = 100) -> AsyncIterator[Rig]:
    rig = Rig(broker, max_records)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.node.run)
            yield rig
            rig.node.stop()
        await rig.node.close()


async def accept_all(rig: Rig, broker: TinyBroker) -> Counter[int]:
    """Accept until all records are settled on the broker. Returns how often each was delivered to the user."""
    seen: Counter[int] = Counter()
    while not all(state in (ACCEPTED, ARCHIVED) for state in broker.states):
        with anyio.move_on_after(0.05):
            batch = await rig.next_batch()
            for record in batch:
                seen[record.offset] += 1
                assert record.value == b"%d" % record.offset
                record.accept()
    return seen
