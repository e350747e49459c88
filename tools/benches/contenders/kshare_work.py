"""One of several consumers that share records: kshare with defaults, record by record. A record contains its handler's
time."""

from __future__ import annotations

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
                async for record in consumer:
                    started = time.monotonic()
                    number, milliseconds = (record.value or b"").split()
                    await anyio.sleep(float(milliseconds) / 1000)
                    say(f"{int(number)} {started:.6f} {time.monotonic():.6f}")


async def _cancel_at(ended: threading.Event, scope: anyio.CancelScope) -> None:
    await anyio.to_thread.run_sync(ended.wait, abandon_on_cancel=True)
    scope.cancel()


if __name__ == "__main__":
    anyio.run(work, arguments())
