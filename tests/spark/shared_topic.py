"""A topic, a group that reads it from its start, and a sink that is idempotent by batch id."""

from __future__ import annotations

import itertools
import time

import anyio

from kshare import AdminClient
from kshare.testing import Broker

_numbers = itertools.count()
_PATIENCE_S = 30.0

Where = tuple[int, int]
"""Partition and offset."""


class SharedTopic:
    """A topic of two partitions and a group for one test. Queries write into `sink`."""

    def __init__(self, broker: Broker) -> None:
        number = next(_numbers)
        self.broker = broker
        self.topic, self.group = f"orders-{number}", f"shipping-{number}"
        self.sink: dict[int, list[Where]] = {}
        """By batch id: the rows of the first run that wrote this batch."""
        broker.create_topic(self.topic, 2)
        broker.set_group_config(self.group, {"share.auto.offset.reset": "earliest"})

    def options(self) -> dict[str, str]:
        """The options that every reader of the group needs."""
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "group": self.group,
            "subscribe": self.topic,
        }

    def produce(self, count: int, partition: int = 0) -> None:
        self.broker.produce(self.topic, [f"{n}".encode() for n in range(count)], partition=partition)

    @property
    def written(self) -> list[Where]:
        return [where for rows in self.sink.values() for where in rows]

    def expect(self, *counts: int) -> None:
        """Assert that the sink has every record exactly once. `counts`: of the records in partition 0, 1, …"""
        wanted = [(number, at) for number, count in enumerate(counts) for at in range(count)]
        assert sorted(self.written) == wanted

    def lag(self) -> int:
        """The group's lag, as the broker reports it."""

        async def ask() -> int:
            async with AdminClient(self.broker.bootstrap) as admin:
                rows = await admin.share_group_offsets(self.group, {self.topic: None})
                return sum(row.lag or 0 for row in rows)

        return anyio.run(ask)

    def await_lag(self, lag: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self.lag()) > lag:
            assert time.monotonic() < deadline, f"the lag is still {found}"

    def members(self) -> int:
        async def ask() -> int:
            async with AdminClient(self.broker.bootstrap) as admin:
                if self.group not in {group.group for group in await admin.list_groups()}:
                    return 0  # the group doesn't exist before its first member
                return len((await admin.describe_share_group(self.group)).members)

        return anyio.run(ask)
