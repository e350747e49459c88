"""A worker that holds records for their next attempt, and says what that costs.

`python -m tests.integration.holding BOOTSTRAP GROUP TOPIC RECORDS SECONDS`: prints "ready" when it is warm, and later a
line with the growth of its memory in megabytes, its CPU time as a fraction of a core, and how many records it held at
the end. Warm means that it has processed some records, whose value is empty.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

import anyio

from kshare.worker import Retry, Worker

WARMING = 1_000
_DELAY_S = 600.0
_PAGE = 4096


class NotYet(Exception):
    """What the handler raises, so that the record is held."""


async def main(bootstrap: str, group: str, topic: str, records: int, seconds: float) -> None:
    worker = Worker(
        bootstrap, group=group, concurrency=100, retry=Retry(delay=_DELAY_S), breaker=None, drain_timeout=1.0
    )
    warmed = 0

    @worker.handler(topic)
    async def process(value: bytes) -> None:
        nonlocal warmed
        if value:
            raise NotYet
        warmed += 1

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        while warmed < WARMING:
            await anyio.sleep(0.1)
        before = _memory()
        say("ready")
        while runner.queue.held < records:
            await anyio.sleep(0.1)
        await anyio.sleep(1.0)
        began, cpu = time.monotonic(), time.process_time()
        await anyio.sleep(seconds)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        say(f"{(_memory() - before) / 1e6:.1f} {share:.4f} {runner.queue.held}")
        worker.stop()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _memory() -> int:
    """The resident memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
