"""Prints its memory usage ten times: while it reads a number of records, or while its handler is stalled."""

from __future__ import annotations

import os
from pathlib import Path

import anyio

from kshare import ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input, say

SAMPLES = 10


def tell_memory() -> None:
    """Print the resident memory in MiB, as Linux reports it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    say(f"{pages * os.sysconf('SC_PAGE_SIZE') / (1 << 20):.2f}")


async def by_batches(consumer: ShareConsumer, records: int) -> None:
    seen = samples = 0
    async for batch in consumer.batches():
        seen += sum([value is not None for value in batch.values()])
        while samples < SAMPLES and seen * SAMPLES >= (samples + 1) * records:
            tell_memory()
            samples += 1
        if samples == SAMPLES:
            return


async def by_records(consumer: ShareConsumer, records: int) -> None:
    seen = samples = 0
    async for record in consumer:
        seen += record.value is not None
        if seen * SAMPLES >= (samples + 1) * records:
            tell_memory()
            samples += 1
            if samples == SAMPLES:
                return


async def stalled(consumer: ShareConsumer, seconds: float) -> None:
    async for _ in consumer:
        for _ in range(SAMPLES):
            await anyio.sleep(seconds / SAMPLES)
            tell_memory()
        return


async def read(given: dict[str, str]) -> None:
    end_of_input()
    async with ShareConsumer(given["bootstrap"], group=given["group"], topics=[given["topic"]]) as consumer:
        match given["way"]:
            case "batches":
                await by_batches(consumer, int(given["records"]))
            case "records":
                await by_records(consumer, int(given["records"]))
            case _:
                await stalled(consumer, float(given["seconds"]))


if __name__ == "__main__":
    anyio.run(read, arguments())
