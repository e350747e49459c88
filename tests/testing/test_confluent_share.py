"""confluent-kafka's ShareConsumer with the embedded broker: accept, release, reject, and a group shared with ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

import kshare.sync
from kshare.testing import Broker

DEADLINE_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        broker.set_group_config(
            "workers", {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"}
        )
        yield broker


def consumer(broker: Broker, mode: str = "explicit") -> ShareConsumer:
    share = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "workers",
            "share.acknowledgement.mode": mode,
            "log_level": 0,
        }
    )
    share.subscribe(["orders"])
    return share


def poll(share: ShareConsumer, count: int) -> list[Any]:
    """Poll until there are `count` messages; in explicit mode with a single poll."""
    deadline = time.monotonic() + DEADLINE_S
    found: list[Any] = []
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += [message for message in share.poll(1.0) if not message.error()]
    return found


def settled(broker: Broker) -> dict[str, float]:
    """Acknowledged records by type."""
    return {
        reading.labels["type"]: reading.value
        for reading in broker.metrics()
        if reading.metric.name == "share_acknowledged_records_total"
    }


def test_implicit_acknowledgement(broker: Broker) -> None:
    broker.produce("orders", [b"a", b"b"])
    broker.produce("orders", [b"c"], partition=1)
    share = consumer(broker, "implicit")
    try:
        assert sorted(message.value() for message in poll(share, 3)) == [b"a", b"b", b"c"]
        assert set(share.commit_sync(DEADLINE_S).values()) <= {None}
    finally:
        share.close()
    assert settled(broker) == {"accept": 3}


def test_accept_release_and_reject(broker: Broker) -> None:
    broker.produce("orders", [b"good", b"later", b"bad"])
    share = consumer(broker)
    try:
        says = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
        for message, what in zip(poll(share, 3), says, strict=True):
            share.acknowledge(message, what)
        assert set(share.commit_sync(DEADLINE_S).values()) == {None}
        (again,) = poll(share, 1)
        assert (again.value(), again.delivery_count()) == (b"later", 2)
        share.acknowledge(again)
        share.commit_sync(DEADLINE_S)
    finally:
        share.close()
    assert settled(broker) == {"accept": 2, "release": 1, "reject": 1}


def test_group_shared_with_our_consumer(broker: Broker) -> None:
    """Its unacknowledged records are released with its session, and delivered to ours."""
    broker.produce("orders", [b"a", b"b"])
    share = consumer(broker)
    poll(share, 2)
    with kshare.sync.ShareConsumer(broker.bootstrap, group="workers", topics=["orders"]) as ours:
        share.close()
        found = []
        for record in ours:
            found.append((record.value, record.delivery_count))
            if len(found) == 2:
                record.accept()
                break
    assert found == [(b"a", 2), (b"b", 2)]
