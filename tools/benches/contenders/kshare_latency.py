"""Measures the latency until kshare has a record, and until it knows that the acknowledgement is confirmed."""

from __future__ import annotations

import json
import time

import anyio

from kshare import ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input, say


async def read(given: dict[str, str]) -> None:
    end_of_input()
    records, is_explicit = int(given["records"]), given["mode"] == "explicit"
    hand: list[float] = []
    acknowledged: list[float] = []
    async with ShareConsumer(
        given["bootstrap"],
        group=given["group"],
        topics=[given["topic"]],
        acknowledgement="explicit" if is_explicit else "implicit",
    ) as consumer:
        async for batch in consumer.batches():
            received = time.monotonic()
            hand += [time.monotonic() - float(record.value or b"") for record in batch]
            if is_explicit:
                batch.accept()
                results = await consumer.commit()
                if any(results.values()):
                    raise RuntimeError(f"refused: {results}")
                acknowledged += [time.monotonic() - received] * (len(hand) - len(acknowledged))
            if len(hand) >= records:
                break
    say(json.dumps([hand, acknowledged]))


if __name__ == "__main__":
    anyio.run(read, arguments())
