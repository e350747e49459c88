"""Brokers whose responses can't be decoded or are too large: logged at once, and raised if they persist."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare import ConfigError, DecodeError, ShareConsumer
from kshare.engine.events import Event, SessionEnded
from kshare.engine.unreadable import ENOUGH, TOO_MANY, WINDOW_S, UnreadableResponses
from kshare.errors import ConnectionLost, UnreadableResponse
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatResponse,
)
from tests.fakes.tiny_cluster import ACCEPTED, TinyCluster
from tests.helpers.spoiled_responses import brings_records, cut_in_half

DEADLINE_S = 20.0
in_both_loops = pytest.mark.anyio


def consumer(cluster: TinyCluster, **options: Any) -> ShareConsumer:
    return ShareConsumer(cluster.bootstrap, group="g", topics="a", **options)


def with_null_records(response: Message, frame: bytearray) -> bytearray:
    """Null records, as kfake writes them for a partition without records; only empty fields follow them."""
    if isinstance(response, ShareFetchResponse) and response.responses and not brings_records(response):
        assert frame[-6:] == b"\x01\x01\x00\x00\x01\x00", "records, acquired, tags, tags, endpoints, tags"
        frame[-6] = 0
    return frame


@pytest.mark.lengthy
@in_both_loops
async def test_null_records_are_no_records() -> None:
    cluster = TinyCluster("a")
    cluster.spoil = with_null_records
    events: list[Event] = []
    options: dict[str, Any] = {"observer": events.append, "max_records": 4}
    async with cluster.running(), consumer(cluster, **options) as source:
        topic = cluster.topics["a"]
        topic.append(*(b"%d" % number for number in range(40)))
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                if record.offset == 39:
                    record.accept()
                    break
            assert set((await source.commit()).values()) == {None}
        assert topic.states == [ACCEPTED] * 40
        assert topic.deliveries == [1] * 40
    assert not any(isinstance(event, SessionEnded) for event in events)


@pytest.mark.lengthy
@in_both_loops
async def test_repeated_undecodable_responses_are_logged_and_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = TinyCluster("a")
    cluster.spoil = cut_in_half
    with caplog.at_level(logging.WARNING, "kshare.client"):
        async with cluster.running(), consumer(cluster) as source:
            cluster.topics["a"].append(b"x" * 1000)
            with anyio.fail_after(DEADLINE_S):
                with pytest.raises(UnreadableResponse) as raised:
                    await source.next_batch()
                with pytest.raises(DecodeError):
                    await anext(aiter(source))
            assert str(raised.value).startswith(
                f"the response of {cluster.bootstrap} to ShareFetch v2 can't be "
            )
            assert "records" in str(raised.value)
            assert cluster.topics["a"].deliveries == [ENOUGH], "fewer deliveries than the limit"
    first, last = (record for record in caplog.records if "can't be decoded" in record.message)
    assert (first.levelname, last.levelname) == ("WARNING", "ERROR")
    assert first.message.startswith(f"node 1: the response of {cluster.bootstrap} to ShareFetch v2")


@pytest.mark.lengthy
@in_both_loops
async def test_single_undecodable_response_only_closes_the_connection() -> None:
    """Records acquired in that response are locked until the connection closes; here, without time limit."""
    cluster = TinyCluster("a")

    def once(response: Message, frame: bytearray) -> bytearray:
        if brings_records(response):
            cluster.spoil = None
        return cut_in_half(response, frame)

    cluster.spoil = once
    async with cluster.running(), consumer(cluster) as source:
        cluster.topics["a"].append(b"x" * 1000)
        with anyio.fail_after(DEADLINE_S):
            batch = await source.next_batch()
        assert batch.delivery_count == 2
        batch.accept()
        assert set((await source.commit()).values()) == {None}


@pytest.mark.lengthy
@in_both_loops
async def test_undecodable_heartbeats_are_raised() -> None:
    cluster = TinyCluster("a")

    def spoil(response: Message, frame: bytearray) -> bytearray:
        if isinstance(response, ShareGroupHeartbeatResponse):
            frame += b"!!"
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        return frame

    cluster.spoil = spoil
    async with cluster.running(), consumer(cluster) as source:
        with (
            anyio.fail_after(DEADLINE_S),
            pytest.raises(UnreadableResponse, match="to ShareGroupHeartbeat v1"),
        ):
            await source.next_batch()


@in_both_loops
async def test_batch_larger_than_the_response_limit_raises_before_it_is_archived() -> None:
    cluster = TinyCluster("a")
    async with cluster.running(), consumer(cluster, max_response_bytes=100_000) as source:
        topic = cluster.topics["a"]
        topic.append(b"x" * 150_000)
        with (
            anyio.fail_after(DEADLINE_S),
            pytest.raises(ConfigError, match=r"responds to a fetch with 150\d\d\d bytes, .* batch of a\[0\]"),
        ):
            await source.next_batch()
        assert topic.deliveries == [2], "fewer deliveries than the limit"


def announcing(*sizes: int) -> Callable[[Message, bytearray], bytearray]:
    """Responses with records announce these sizes, one after the other, and then their own."""
    left = [*sizes]

    def spoil(response: Message, frame: bytearray) -> bytearray:
        if brings_records(response) and left:
            frame[:4] = left.pop(0).to_bytes(4, "big")
        return frame

    return spoil


@pytest.mark.lengthy
@in_both_loops
async def test_two_absurd_frame_lengths_do_not_end_the_consumer() -> None:
    cluster = TinyCluster("a")
    cluster.spoil = announcing(2**31 - 1, 2**30)
    async with cluster.running(), consumer(cluster) as source:
        cluster.topics["a"].append(b"x" * 1000)
        with anyio.fail_after(DEADLINE_S):
            batch = await source.next_batch()
        assert batch.delivery_count == 3


@pytest.mark.lengthy
@in_both_loops
async def test_a_third_absurd_frame_length_ends_the_consumer_as_damage() -> None:
    cluster = TinyCluster("a")
    cluster.spoil = announcing(2**31 - 1, 2**30, 2**29)
    async with cluster.running(), consumer(cluster) as source:
        cluster.topics["a"].append(b"x" * 1000)
        with anyio.fail_after(DEADLINE_S), pytest.raises(ConnectionLost, match=r"a frame of 536870912 bytes"):
            await source.next_batch()
        assert cluster.topics["a"].deliveries == [ENOUGH]


@in_both_loops
async def test_the_limit_that_is_advised_is_one_that_can_be_set() -> None:
    cluster = TinyCluster("a")
    cluster.spoil = announcing(2**31 - 1, 2**31 - 1)
    async with cluster.running(), consumer(cluster) as source:
        cluster.topics["a"].append(b"x" * 1000)
        with (
            anyio.fail_after(DEADLINE_S),
            pytest.raises(ConfigError, match=r"Set max_response_bytes to 2147483647 or more"),
        ):
            await source.next_batch()


@in_both_loops
async def test_fetches_ask_for_no_more_than_the_response_limit() -> None:
    cluster = TinyCluster("a")
    async with cluster.running(), consumer(cluster, max_response_bytes=100_000) as source:
        topic = cluster.topics["a"]
        topic.append(*[b"x" * 10_000] * 60)
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                if record.offset == 59:
                    break
        assert topic.deliveries == [1] * 60
    assert max(fetch.max_bytes for fetch in cluster.asked(ShareFetchRequest)) <= 75_000


def test_useful_responses_in_between_allow_more_undecodable_ones() -> None:
    """For example with a network that occasionally flips a bit: requests are repeated, and the consumer continues."""
    error = DecodeError("responses", 7, "null")
    responses = UnreadableResponses()
    for number in range(TOO_MANY - 1):
        responses.note(error, "node 1", number / 10)
        responses.on_useful()
    with pytest.raises(DecodeError):
        responses.note(error, "node 1", 1.0)


@pytest.mark.lengthy
@in_both_loops
async def test_occasionally_damaged_responses_do_not_end_the_consumer() -> None:
    cluster = TinyCluster("a")
    damaged: set[int] = set()

    def spoil(response: Message, frame: bytearray) -> bytearray:
        count = sum(state == ACCEPTED for state in cluster.topics["a"].states)
        if not brings_records(response) or count in damaged or len(damaged) == 4:
            return frame
        damaged.add(count)
        return cut_in_half(response, frame)

    cluster.spoil = spoil
    async with cluster.running(), consumer(cluster, max_records=1) as source:
        cluster.topics["a"].append(*[b"x" * 1000] * 6)
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                record.accept()
                await source.commit()
                if record.offset == 5:
                    break
    assert len(damaged) == 4
    assert cluster.topics["a"].states == [ACCEPTED] * 6


def test_three_undecodable_responses_within_the_window_raise() -> None:
    error = DecodeError("responses", 7, "null")
    now_and_then, often = UnreadableResponses(), UnreadableResponses()
    for number in range(10):
        now_and_then.note(error, "node 1", number * WINDOW_S / (ENOUGH - 1))
    for number in range(ENOUGH - 1):
        often.note(error, "node 1", float(number))
    often.note(ConnectionLost("gone"), "node 1", 3.0)
    lost = ConnectionLost("sent an invalid response")
    lost.__cause__ = error
    with pytest.raises(ConnectionLost, match="an invalid response"):
        often.note(lost, "node 1", 4.0)
