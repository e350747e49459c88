"""kshare's consumer: reads as fast as possible, measures latency or memory, and works beside others."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from kshare import ShareBatch, ShareConsumer
from tools.benches.contenders.program import (
    Delays,
    Given,
    Meter,
    end_of_input,
    handled,
    main,
    reading_options,
    say,
)

SAMPLES = 10
Count = Callable[[ShareBatch], int]
"""Accesses and counts the values of a batch."""


def consumer_of(given: Given, **options: Any) -> ShareConsumer:
    return ShareConsumer(given["bootstrap"], group=given["group"], topics=[given["topic"]], **options)


# --- as fast as possible


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


async def by_records(
    consumer: ShareConsumer, records: int, meter: Meter, *, is_explicit: bool = False
) -> int:
    seen = 0
    async for record in consumer:
        if not seen:
            meter.on_records()
        seen += record.value is not None
        if is_explicit:
            record.accept()
        if seen >= records:
            break
    return seen


WAYS: dict[str, Callable[[ShareConsumer, int, Meter], Awaitable[int]]] = {
    "batches": partial(by_batches, its_values),
    "records of batches": partial(by_batches, its_records),
    "records": by_records,
    "explicit": partial(by_records, is_explicit=True),
}


async def read(given: Given) -> None:
    """Accesses every value, in one of several ways."""
    end_of_input()
    meter = Meter()
    async with consumer_of(given, **reading_options(given)) as consumer:
        meter.report(await WAYS[given["way"]](consumer, int(given["records"]), meter))


# --- latency and memory


async def latency(given: Given) -> None:
    end_of_input()
    delays = Delays(given)
    async with consumer_of(given, acknowledgement=given["mode"]) as consumer:
        async for batch in consumer.batches():
            received = time.monotonic()
            delays.hand += [time.monotonic() - float(record.value or b"") for record in batch]
            if delays.is_explicit:
                batch.accept()
                delays.on_committed(received, await consumer.commit())
            if delays.is_complete:
                break
    delays.report()


async def memory(given: Given) -> None:
    """Prints its memory usage ten times: while it reads a number of records, or while its handler is stalled."""
    end_of_input()
    async with consumer_of(given) as consumer:
        if given["way"] == "stalled":
            async for _ in consumer:
                for _ in range(SAMPLES):
                    await anyio.sleep(float(given["seconds"]) / SAMPLES)
                    tell_memory()
                return
        records, seen, samples = int(given["records"]), 0, 0
        units = consumer.batches() if given["way"] == "batches" else consumer
        async for unit in units:
            seen += its_values(unit) if isinstance(unit, ShareBatch) else unit.value is not None
            while samples < SAMPLES and seen * SAMPLES >= (samples + 1) * records:
                tell_memory()
                samples += 1
            if samples == SAMPLES:
                return


def tell_memory() -> None:
    """Print the resident memory in MiB, as Linux reports it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    say(f"{pages * os.sysconf('SC_PAGE_SIZE') / (1 << 20):.2f}")


# --- beside others, until the input ends


async def work(given: Given) -> None:
    """Record by record, with defaults. A record contains its handler's time."""
    async with until_the_end(given) as consumer:
        async for record in consumer:
            started = time.monotonic()
            number, milliseconds = (record.value or b"").split()
            await anyio.sleep(float(milliseconds) / 1000)
            handled(number, started)


async def compete(given: Given) -> None:
    """Prints the number of records of each batch."""
    async with until_the_end(given) as consumer:
        async for batch in consumer.batches():
            say(str(len(batch)))


async def crowd(given: Given) -> None:
    """Prints how old the records of each batch are."""
    async with until_the_end(given) as consumer:
        async for batch in consumer.batches():
            now = time.monotonic()
            delays = [round(now - float(value or b""), 6) for value in batch.values()]
            say(json.dumps([int(given["number"]), delays]))


@asynccontextmanager
async def until_the_end(given: Given) -> AsyncIterator[ShareConsumer]:
    ended = end_of_input()
    async with consumer_of(given) as consumer:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at, ended, scope)
                yield consumer


async def _cancel_at(ended: threading.Event, scope: anyio.CancelScope) -> None:
    await anyio.to_thread.run_sync(ended.wait, abandon_on_cancel=True)
    scope.cancel()


if __name__ == "__main__":
    main(read, latency, memory, work, compete, crowd)
