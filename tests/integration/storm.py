"""A storm over a cluster: load, consumers that record a history, and the faults that a test chooses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from kshare import AcknowledgeError, RequestTimedOut, ShareConsumer
from kshare.client.record import lease_of
from tests.helpers.history import History
from tests.integration.load import Load
from tools.kafka.cluster import Cluster

TOPIC, GROUP = "work", "workers"
PARTITIONS = 3
COMMIT_EVERY = 5
"""Batches between commits. Records that were accepted before a commit must not be delivered after it."""
WORK_S = 0.0002
"""How long each record is held, asleep, so that a session may end meanwhile."""
_QUIET_S = 3.0


@dataclass
class Storm:
    """The cluster, its consumers, and their history."""

    cluster: Cluster
    history: History = field(default_factory=History)
    consumers: list[ShareConsumer] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    async def note(self, event: str, act: Callable[[], object]) -> None:
        """Run `act` in a thread, and add the event to the history."""
        began = time.monotonic()
        await anyio.to_thread.run_sync(act)
        self.history.events.append(f"{event} ({time.monotonic() - began:.1f} s)")

    async def work(self, name: str) -> None:
        """Accept all records, batch by batch, until cancelled."""
        options = {"acknowledgement": "explicit", "max_records": 200, "request_timeout": 5.0, **self.options}
        async with ShareConsumer(self.cluster.bootstrap, group=GROUP, topics=[TOPIC], **options) as consumer:
            self.consumers.append(consumer)
            batches = 0
            async for batch in consumer.batches():
                records = list(batch)
                self.history.on_batch(batch, records)
                for record in records:
                    if lease_of(batch).is_held(record.offset):
                        self.history.on_delivered(name, record)
                        record.accept()
                        self.history.on_accepted(name, record)
                        await anyio.sleep(WORK_S)
                batches += 1
                if batches % COMMIT_EVERY == 0:
                    try:
                        self.history.on_committed(name, await consumer.commit())
                    except RequestTimedOut:
                        self.history.on_committed(name, {})

    async def work_slowly(self, name: str) -> None:
        """Accept record by record. The record that is held when a session ends is redelivered."""
        options = {"acknowledgement": "explicit", "request_timeout": 5.0, **self.options}
        async with ShareConsumer(self.cluster.bootstrap, group=GROUP, topics=[TOPIC], **options) as consumer:
            self.consumers.append(consumer)
            async for record in consumer:
                self.history.on_delivered(name, record)
                await anyio.sleep(WORK_S)
                with suppress(AcknowledgeError):  # its session ended meanwhile
                    record.accept()
                    self.history.on_accepted(name, record)

    @property
    def skipped(self) -> int:
        """Redelivered records that their consumer had accepted before, and accepted again without showing them."""
        return sum(consumer._holdings.skipped for consumer in self.consumers if consumer._holdings)

    async def has_progressed(self, records: int, deadline_s: float = 90.0) -> None:
        """Wait until this many more records are accepted."""
        goal = len(self.history.accepted) + records
        with anyio.fail_after(deadline_s):
            while len(self.history.accepted) < goal:
                await anyio.sleep(0.02)

    async def is_finished(self, quiet_s: float = 60.0) -> None:
        """Wait until everything that was produced is accepted, or nothing more is: a busy machine may be slow."""
        most, since = -1, anyio.current_time()
        while self.history.settled < len(self.history.produced):
            if self.history.settled > most:
                most, since = self.history.settled, anyio.current_time()
            if anyio.current_time() - since > quiet_s:
                return
            await anyio.sleep(0.02)

    async def leaves_nothing(self) -> bool:
        """Whether a new consumer receives no record."""
        async with ShareConsumer(self.cluster.bootstrap, group=GROUP, topics=[TOPIC]) as consumer:
            with anyio.move_on_after(_QUIET_S):
                async for _ in consumer:
                    return False
        return True


@asynccontextmanager
async def storm_over(
    cluster: Cluster, workers: int, rate: float, *, by_record: bool = False, **options: Any
) -> AsyncIterator[Storm]:
    """Run load and workers. At the end, stop the load, and wait until everything produced is accepted."""
    storm = Storm(cluster, options=options)
    settings = {"min.insync.replicas": str(min(2, len(cluster.nodes)))}
    cluster.create_topic(TOPIC, PARTITIONS, settings=settings)
    cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    load = Load([node.address() for node in cluster.nodes], TOPIC, storm.history, rate)
    async with anyio.create_task_group() as tasks:
        for number in range(workers):
            tasks.start_soon(storm.work_slowly if by_record else storm.work, f"worker {number}")
        async with anyio.create_task_group() as producing:
            producing.start_soon(anyio.to_thread.run_sync, load.run)
            try:
                await storm.has_progressed(200)
                yield storm
            finally:
                load.stop()
        await storm.is_finished()
        tasks.cancel_scope.cancel()
