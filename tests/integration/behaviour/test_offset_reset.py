"""Where a new group starts: the group's setting `share.auto.offset.reset`."""

from __future__ import annotations

import time

import pytest

from kshare import AdminClient
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

MINUTE_MS = 60_000
HAS_FETCHED_S = 4.0
"""By then a new member has been assigned the partition, and the leader has decided where the group starts."""


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


async def test_a_group_that_has_settled_nothing_starts_anew_when_its_last_member_has_left(
    fresh_queue: FreshQueue,
) -> None:
    """Brokers have stored no start by then: what was written meanwhile is skipped, or a new setting applies."""
    queue = fresh_queue()
    await queue.configure_group({"share.auto.offset.reset": "latest"})
    async with queue.consumer() as source:
        assert await nothing_comes(source, seconds=HAS_FETCHED_S)
    await queue.produce(5)
    async with queue.consumer() as source:
        assert await nothing_comes(source, seconds=HAS_FETCHED_S)
    await queue.configure_group({"share.auto.offset.reset": "earliest"})
    async with AdminClient(queue.broker.bootstrap) as admin:
        assert [offset.start_offset for offset in await admin.share_group_offsets(queue.group)] == [None]
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 5)] == queue.values()


async def test_the_start_stays_while_a_member_is_left(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.configure_group({"share.auto.offset.reset": "latest"})
    await queue.produce(5)
    async with queue.consumer() as source:
        assert await nothing_comes(source, seconds=HAS_FETCHED_S)
        await queue.configure_group({"share.auto.offset.reset": "earliest"})
        async with queue.consumer() as other:
            assert await nothing_comes(other, seconds=HAS_FETCHED_S)
        await queue.produce(5)
        assert [record.value for record in await take(source, 5)] == queue.values(first=5)
