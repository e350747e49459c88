"""Reads a topic as a consumer with `read_committed` does."""

from __future__ import annotations

import anyio

from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.record import Record

LIMIT_S = 30.0
_MARKERS_S = 10.0
"""How long to wait for transactions to end: brokers confirm that one is committed before all partitions know it."""


async def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of all partitions, one partition after another."""
    return [record.value for record in await records_in(bootstrap, topic)]


async def records_in(bootstrap: str, topic: str) -> list[Record]:
    """The records of all partitions, one partition after another."""
    return [
        record for records in (await records_by_partition(bootstrap, topic)).values() for record in records
    ]


async def records_by_partition(bootstrap: str, topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    async with Pool(NetSettings.parse(bootstrap)) as pool:
        router = Router(pool, LIMIT_S)
        row = (await router.metadata([topic])).topics[0]
        reader = LogReader(router, is_committed_only=True)
        places = [(topic, number) for number in range(len(row.partitions))]
        written = await log_offsets(router, places, LATEST)
        for number in range(len(row.partitions)):
            with anyio.move_on_after(_MARKERS_S):
                while (await reader.fetch((row.topic_id, number), written[topic, number])).end < written[
                    topic, number
                ]:
                    await anyio.sleep(0.05)
            where, at = (row.topic_id, number), 0
            found[number] = []
            while True:
                fetched = await reader.fetch(where, at)
                for batch, is_for_users in fetched.batches():
                    at = batch.last_offset + 1
                    found[number] += list(batch) if is_for_users else []
                if at >= fetched.end:
                    break
    return found
