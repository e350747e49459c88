"""A whole consumer on sockets: what it wants changes, leaders move, addresses are disowned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare import ConfigError, KshareError, ShareConsumer
from kshare.client.record import ShareRecord
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, ShareFetchRequest
from tests.client.tiny_cluster import ACCEPTED, AVAILABLE, TinyCluster

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0


def consumer(cluster: TinyCluster, *topics: str, **options: Any) -> ShareConsumer:
    return ShareConsumer(cluster.bootstrap, group="g", topics=topics, **options)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await anyio.sleep(0.002)


async def next_of(source: ShareConsumer) -> ShareRecord:
    with anyio.fail_after(DEADLINE_S):
        async for record in source:
            return record
    raise AssertionError("the loop ended")


async def test_a_topic_added_is_consumed_and_a_topic_left_out_is_not() -> None:
    async with TinyCluster("a", "b").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        source.subscribe(["b"])
        assert source.topics == ("b",)
        cluster.topics["b"].append(b"b0")
        record = await next_of(source)
        assert (record.topic, record.value) == ("b", b"b0")
        record.accept()
        await source.commit()
        assert cluster.subscribed == ["b"]
        await until(lambda: any(one.forgotten_topics_data for one in cluster.asked(ShareFetchRequest)))
        cluster.topics["a"].append(b"a1")
        cluster.topics["b"].append(b"b1")
        record = await next_of(source)
        assert record.value == b"b1"
        assert cluster.topics["a"].states == [ACCEPTED, AVAILABLE]


async def test_records_in_hand_of_a_topic_left_out_can_still_be_settled() -> None:
    async with TinyCluster("a", "b").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        record = await next_of(source)
        source.subscribe("b")
        await until(lambda: cluster.subscribed == ["b"])
        record.accept()
        assert await source.commit() == {("a", 0): None}
        assert cluster.topics["a"].states == [ACCEPTED]


async def test_a_subscription_is_checked_like_an_option() -> None:
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        with pytest.raises(ConfigError, match="topics must be a list of topic names"):
            source.subscribe([7])  # type: ignore[list-item]
        with pytest.raises(ConfigError, match="at least one topic"):
            source.subscribe([])
        assert source.topics == ("a",)
    with pytest.raises(KshareError, match="isn't open"):
        consumer(cluster, "a").subscribe(["a"])


async def test_disowned_addresses_send_us_back_to_those_that_were_given() -> None:
    async with TinyCluster("a", "b").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        cluster.error_next[MetadataRequest] = ErrorCode.REBOOTSTRAP_REQUIRED
        source.subscribe(["a", "b"])
        await until(lambda: not cluster.error_next)
        cluster.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"
