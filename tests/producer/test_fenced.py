"""The only writer of a partition: fenced by a newer one, and never doubled by a lost response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import time
from typing import Any

import anyio
import pytest

from kshare.admin.routing import Router
from kshare.errors import BrokerError, KshareError, ProducerFenced
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.producer.fenced import FencedWriter
from kshare.producer.records import NewRecord
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

NewWriter = Callable[[], FencedWriter]


@pytest.fixture
async def writer(kshare_broker: Broker) -> AsyncIterator[NewWriter]:
    kshare_broker.create_topic("frames", 1)
    async with Pool(NetSettings.parse(kshare_broker.bootstrap, request_timeout=2)) as pool:
        await pool.bootstrap()
        yield lambda: FencedWriter(Router(pool, 6), "only-one", "frames")


def record(text: bytes) -> NewRecord:
    return NewRecord(text, None, (), int(time() * 1000))  # brokers delete old ones


def written(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.records("frames")]


async def test_records_are_appended_in_order(kshare_broker: Broker, writer: NewWriter) -> None:
    one = writer()
    await one.claim()
    assert await one.append([record(b"a"), record(b"b")]) == 0
    assert await one.append([record(b"c")]) == 2
    assert written(kshare_broker) == [b"a", b"b", b"c"]


async def test_an_older_writer_is_fenced_by_the_first_append_of_a_newer_one(
    kshare_broker: Broker, writer: NewWriter
) -> None:
    old, new = writer(), writer()
    await old.claim()
    await old.append([record(b"a")])
    await new.claim()
    await old.append([record(b"b")])  # nothing of the new epoch is in the log yet
    await new.append([record(b"c")])
    for _ in range(2):
        with pytest.raises(ProducerFenced, match=r"transactional id only-one: .*a newer writer has this id"):
            await old.append([record(b"d")])
    await new.append([record(b"e")])
    assert written(kshare_broker) == [b"a", b"b", b"c", b"e"]


async def test_a_lost_response_doubles_nothing(kshare_broker: Broker, writer: NewWriter) -> None:
    one = writer()
    await one.claim()
    await one.append([record(b"a")])
    kshare_broker.faults.add(ProduceRequest, cut_after=3)
    await one.append([record(b"b")])
    await one.append([record(b"c")])
    assert written(kshare_broker) == [b"a", b"b", b"c"]


async def test_an_append_is_unknown_whatever_follows_a_lost_response(
    kshare_broker: Broker, writer: NewWriter
) -> None:
    one = writer()
    await one.claim()
    kshare_broker.faults.add(ProduceRequest, cut_after=3)
    kshare_broker.faults.add(ProduceRequest, times=None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KshareError, match=r"it isn't known whether an append to frames\[0\] was written"):
        await one.append([record(b"a")])
    assert written(kshare_broker) == [b"a"]


@pytest.mark.lengthy
async def test_a_transient_error_is_retried(kshare_broker: Broker, writer: NewWriter) -> None:
    one = writer()
    await one.claim()
    kshare_broker.faults.add(ProduceRequest, times=2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await one.append([record(b"a")])
    assert written(kshare_broker) == [b"a"]


async def test_nothing_is_appended_after_an_unknown_outcome(kshare_broker: Broker, writer: NewWriter) -> None:
    one = writer()
    await one.claim()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await one.append([record(b"a")])
    with pytest.raises(KshareError, match=r"it isn't known whether an append to frames\[0\] was written"):
        await one.append([record(b"b")])


async def test_a_refused_append_ends_the_writer(kshare_broker: Broker, writer: NewWriter) -> None:
    one = writer()
    await one.claim()
    kshare_broker.faults.add(ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"TOPIC_AUTHORIZATION_FAILED|not allowed|permission"):
            await one.append([record(b"a")])
    assert written(kshare_broker) == []


async def test_a_writer_claims_its_name_again(
    kshare_broker: Broker, writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the coordinator would forget the name, and the next writer would fence nobody."""
    old, new = writer(), writer()
    await old.claim()
    await old.append([record(b"a")])
    monkeypatch.setattr("kshare.producer.fenced._CLAIM_S", -1.0)
    await old.append([record(b"b")])
    await new.claim()
    # The newer one hasn't appended anything yet.
    with pytest.raises(ProducerFenced):
        await old.append([record(b"c")])
    await new.append([record(b"d")])
    assert written(kshare_broker) == [b"a", b"b", b"d"]


async def test_a_response_without_the_partition_leaves_the_outcome_open(
    kshare_broker: Broker, writer: NewWriter
) -> None:
    def clear(response: Any) -> None:
        response.responses.clear()

    one = writer()
    await one.claim()
    kshare_broker.faults.add(ProduceRequest, times=1, change=clear)
    for _ in range(2):
        with pytest.raises(KshareError, match=r"it isn't known .*Produce says nothing about frames\[0\]:"):
            await one.append([record(b"a")])
    assert written(kshare_broker) == [b"a"]
