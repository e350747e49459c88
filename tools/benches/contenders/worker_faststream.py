"""FastStream over aiokafka, in a consumer group, with a handler that does nothing."""

from __future__ import annotations

import anyio
from faststream import FastStream
from faststream.kafka import KafkaBroker

from tools.benches.contenders.arguments import arguments, end_of_input
from tools.benches.contenders.meter import Meter


async def run(given: dict[str, str]) -> None:
    end_of_input()
    meter, records, seen = Meter(), int(given["records"]), 0
    broker = KafkaBroker(given["bootstrap"], logger=None)
    app = FastStream(broker, logger=None)

    @broker.subscriber(
        given["topic"],
        group_id=given["group"],
        auto_offset_reset="earliest",
        max_workers=int(given["concurrency"]),
    )
    async def nothing(value: bytes) -> None:
        nonlocal seen
        if not seen:
            meter.on_records()
        seen += 1
        if seen == records:
            meter.report(records)
            app.exit()

    await app.run()


if __name__ == "__main__":
    anyio.run(run, arguments())
