"""A worker whose handler does nothing, or sleeps for as long as its record says."""

from __future__ import annotations

import anyio

from kshare.worker import Worker
from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


def run(given: dict[str, str]) -> None:
    end_of_input()
    meter, records, seen = Meter(), int(given["records"]), 0
    worker = Worker(given["bootstrap"], group=given["group"], concurrency=int(given["concurrency"]))

    async def nothing(value: bytes) -> None:
        nonlocal seen
        if not seen:
            meter.on_records()
        seen += 1
        if seen == records:
            meter.report(records)
            worker.stop()

    async def sleep(value: float) -> None:
        nonlocal seen
        if not seen:
            meter.on_records()
        seen += 1
        await anyio.sleep(value / 1000)
        if seen == records:
            worker.stop()

    worker.handler(given["topic"])(sleep if given["way"] == "slow" else nothing)
    worker.run()
    if given["way"] == "slow":
        meter.report(records)


if __name__ == "__main__":
    run(arguments())
