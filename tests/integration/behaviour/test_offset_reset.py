"""Where a new group starts: the group's setting `share.auto.offset.reset`."""

from __future__ import annotations

import time

import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

MINUTE_MS = 60_000


@pytest.mark.parametrize("setting", [None, "latest"])
async def test_rule_13_a_new_group_starts_at_the_end_by_default(
    fresh_queue: FreshQueue, setting: str | None
) -> None:
    queue = fresh_queue()
    if setting:
        await queue.configure_group({"share.auto.offset.reset": setting})
    else:
        queue.group += "-never-configured"
    await queue.produce(5)
    async with queue.consumer() as source:
        assert await nothing_comes(source, seconds=1.5)
        await queue.produce(5)
        assert [record.value for record in await take(source, 5)] == queue.values(first=5)


async def test_earliest_sees_everything(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.auto.offset.reset": "earliest"})
    await queue.produce(5)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 5)] == queue.values()


async def test_by_duration_skips_older_records(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.auto.offset.reset": "by_duration:PT30M"})
    now = int(time.time() * 1000)
    for age in (90, 60, 10, 0):
        await queue.produce(1, timestamp_ms=now - age * MINUTE_MS)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 2)] == queue.values(first=2)
        assert await nothing_comes(source)


async def test_the_setting_does_not_affect_a_group_that_has_started(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(5)
    async with queue.consumer() as source:
        await take(source, 5)
    await queue.configure_group({"share.auto.offset.reset": "latest"})
    await queue.produce(5)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 5)] == queue.values(first=5)
