"""All commands report the same start offset and lag, even after records were deleted that weren't settled."""

from __future__ import annotations

import functools
import json
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.cli.running import kshare
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

RECORDS, REMOVED_BEFORE = 60, 50
SETTLED = (0, 1, 2, 4, 12)


async def test_start_and_lag_are_the_same_for_every_command(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(RECORDS)
    await settle(queue)
    lag = RECORDS - len(SETTLED)
    assert await starts(queue) == {("describe", 3, lag), ("top", 3, lag), ("state", 3, lag)}
    await queue.delete_records(REMOVED_BEFORE)
    lag = RECORDS - REMOVED_BEFORE
    assert await starts(queue) == {(command, REMOVED_BEFORE, lag) for command in ("describe", "top", "state")}
    found = await form("doctor", "--group", queue.group, "-b", queue.broker.bootstrap)
    said = [finding["text"] for finding in found if finding["level"] == "problem"]
    lost = REMOVED_BEFORE - len(SETTLED)
    assert len(said) == 1
    assert f"{queue.topic}[0]: {lost} records before offset {REMOVED_BEFORE} were removed" in said[0]


async def settle(queue: WorkQueue) -> None:
    """Accept a few records, and release the others."""
    async with queue.consumer(acknowledgement="explicit") as consumer:
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            while seen < RECORDS:
                for record in await consumer.next_batch():
                    seen += 1
                    if record.offset in SETTLED:
                        record.accept()
            await consumer.commit()


async def starts(queue: WorkQueue) -> set[tuple[str, int | None, int | None]]:
    """START and LAG of the only partition, by command."""
    where = ("-b", queue.broker.bootstrap)
    ((described,),) = [row["offsets"] for row in await form("groups", "describe", queue.group, *where)]
    top = await form("top", "--once", "--interval", "0.1", "--group", queue.group, *where)
    (row,) = top["partitions"]
    (state,) = await form("state", queue.group, *where)
    return {
        ("describe", described["start_offset"], described["lag"]),
        ("top", row["start"], row["lag"]),
        ("state", state["start_offset"], state["lag"]),
    }


async def form(*words: str) -> Any:
    done = await anyio.to_thread.run_sync(functools.partial(kshare, *words, "--json"))
    return json.loads(done.out)
