"""Runs one of several competing kshare consumers. Prints how old the records of each batch are."""

from __future__ import annotations

import json
import threading
import time

import anyio

from kshare import ShareConsumer
from tools.benches.contenders.arguments import arguments, end_of_input, say


async def work(given: dict[str, str]) -> None:
    ended = end_of_input()
    async with ShareConsumer(given["bootstrap"], group=given["group"], topics=[given["topic"]]) as consumer:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at, ended, scope)
                async for batch in consumer.batches():
                    now = time.monotonic()
                    delays = [round(now - float(value or b""), 6) for value in batch.values()]
                    say(json.dumps([int(given["number"]), delays]))


async def _cancel_at(ended: threading.Event, scope: anyio.CancelScope) -> None:
    await anyio.to_thread.run_sync(ended.wait, abandon_on_cancel=True)
    scope.cancel()


if __name__ == "__main__":
    anyio.run(work, arguments())
