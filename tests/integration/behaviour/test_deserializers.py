"""Deserializers that read headers, and async ones that take longer than a lock lasts."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import DeserializerContext
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]


async def test_headers_and_coordinates_reach_the_deserializers(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(5)

    def with_header(data: bytes, context: DeserializerContext) -> tuple[bytes, bytes | None, str, int, int]:
        (header,) = context.headers
        assert (header[0], context.topic) == ("n", queue.topic)
        return data, header[1], context.part, context.partition, context.offset

    async def later(data: bytes, context: DeserializerContext) -> tuple[bytes, bytes | None, str, int, int]:
        await anyio.sleep(0.01)
        return with_header(data, context)

    async with queue.consumer(key_deserializer=with_header, value_deserializer=later) as source:
        found: list[Any] = [(record.key, record.value) for record in await take(source, 5)]
        assert found == [
            ((text, text, "key", 0, number), (text, text, "value", 0, number))
            for number, text in enumerate(queue.values())
        ]
        assert set((await source.commit()).values()) == {None}


async def test_a_slow_deserializer_does_not_lose_the_lock(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.record.lock.duration.ms": "1000"})
    if queue.is_4_1:  # it can't renew
        await queue.configure_group({"share.record.lock.duration.ms": "15000"})
    await queue.produce(3)
    calls = 0

    async def slow(data: bytes) -> int:
        nonlocal calls
        calls += 1
        await anyio.sleep(3)
        return int(data)

    async with queue.consumer(value_deserializer=slow) as source:
        found = await take(source, 3)
        values: list[Any] = [record.value for record in found]
        assert values == [0, 1, 2]
        assert {record.delivery_count for record in found} == {1}
        assert set((await source.commit()).values()) == {None}
    assert calls == 3
