"""Reads records as fast as possible with kshare, in one of several ways, and accesses every value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio

from kshare import ShareBatch, ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter

Count = Callable[[ShareBatch], int]
"""Accesses and counts the values of a batch."""


def its_values(batch: ShareBatch) -> int:
    return sum([value is not None for value in batch.values()])


def its_records(batch: ShareBatch) -> int:
    return sum([record.value is not None for record in batch])


async def by_batches(count: Count, consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    async for batch in consumer.batches():
        meter.on_records()
        seen += count(batch)
        if seen >= records:
            break
    return seen


async def by_records(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    async for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        if seen >= records:
            break
    return seen


async def one_by_one(consumer: ShareConsumer, records: int, meter: Meter) -> int:
    seen = 0
    async for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        record.accept()
        if seen >= records:
            break
    return seen


WAYS: dict[str, Callable[[ShareConsumer, int, Meter], Awaitable[int]]] = {
    "batches": partial(by_batches, its_values),
    "records of batches": partial(by_batches, its_records),
    "records": by_records,
    "explicit": one_by_one,
}


async def read(given: dict[str, str]) -> None:
    end_of_input()
    options: dict[str, Any] = {"max_records": int(given["max_records"])} if "max_records" in given else {}
    if given["way"] == "explicit":
        options["acknowledgement"] = "explicit"
    meter = Meter()
    async with ShareConsumer(
        given["bootstrap"], group=given["group"], topics=[given["topic"]], **options
    ) as consumer:
        meter.report(await WAYS[given["way"]](consumer, int(given["records"]), meter))


if __name__ == "__main__":
    anyio.run(read, arguments())
