"""The topics that are written to, as metadata responses describe them."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from kshare import Producer
from kshare.admin.routing import Router
from kshare.errors import IncompleteResponse
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.producer.topics import WrittenTopic, WrittenTopics
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_listed", [False, True])
async def test_a_topic_that_the_response_leaves_out(kshare_broker: Broker, is_listed: bool) -> None:
    def change(response: Any) -> None:
        for topic in response.topics:
            topic.partitions.clear()
        if not is_listed:
            response.topics.clear()

    kshare_broker.create_topic("orders")
    kshare_broker.faults.add(MetadataRequest, times=None, change=change)
    missing = "the partitions of topic orders" if is_listed else "topic orders"
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        with pytest.raises(IncompleteResponse, match=f"Metadata says nothing about {missing}:"):
            await WrittenTopics(Router(pool, 5)).find("orders")


async def test_partitions_that_are_added_are_used(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(response: Any) -> None:
        for topic in response.topics:
            del topic.partitions[1:]

    kshare_broker.create_topic("orders", 3)
    before = kshare_broker.faults.add(MetadataRequest, times=None, change=hide)
    monkeypatch.setattr("kshare.producer.topics.MAX_AGE_S", 0.0)
    async with Producer(kshare_broker.bootstrap, batch_bytes=1) as producer:
        for _ in range(5):
            assert (await producer.send("orders", b"before")).partition == 0
        before.stop()
        with anyio.fail_after(60):
            while (await producer.send("orders", b"after")).partition == 0:
                pass


async def test_count_of_partitions_is_looked_up_again(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kshare_broker.create_topic("orders", 1)
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        topics = WrittenTopics(Router(pool, 5))
        found = await topics.find("orders")
        assert await topics.find("orders") is found
        monkeypatch.setattr("kshare.producer.topics.MAX_AGE_S", 0.0)
        assert await topics.find("orders") is not found
        kshare_broker.faults.add(MetadataRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert (await topics.find("orders")).leaders


def test_choosing_a_partition_does_not_look_at_all() -> None:
    class Leaders(dict[int, int]):
        looks = 0

        def get(self, *arguments: Any) -> Any:
            self.looks += 1
            return super().get(*arguments)

        def items(self) -> Any:
            raise AssertionError

    leaders = Leaders()
    leaders.update(dict.fromkeys(range(10_000), 1))
    topic = WrittenTopic(b"", leaders)
    chosen = {topic.partition_without_key(Random(seed), lambda _: False) for seed in range(100)}
    assert len(chosen) > 50
    assert leaders.looks < 200
