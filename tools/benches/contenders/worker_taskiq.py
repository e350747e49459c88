"""taskiq with its broker in memory: no network at all. A task that does nothing is sent and run for each record."""

from __future__ import annotations

import anyio
from taskiq import InMemoryBroker

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


async def run(given: dict[str, str]) -> None:
    end_of_input()
    meter, records = Meter(), int(given["records"])
    broker = InMemoryBroker(max_async_tasks=int(given["concurrency"]))

    @broker.task
    async def nothing(value: bytes) -> None: ...

    await broker.startup()
    meter.on_records()
    for _ in range(records):
        await nothing.kiq(b"x" * 100)
    await broker.wait_all()
    meter.report(records)
    await broker.shutdown()


if __name__ == "__main__":
    anyio.run(run, arguments())
