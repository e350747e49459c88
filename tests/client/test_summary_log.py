"""Log lines of a consumer: many records with the same problem are summarized in a few lines."""

from __future__ import annotations

import logging
import re
import time

import pytest

import kshare.sync
from kshare.client.deserialize import Reader
from kshare.client.holdings import Holdings
from kshare.client.record import ShareBatch
from kshare.engine.reporter import Reporter
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from kshare.state.acks import PartitionAcks
from kshare.state.lease import Lease
from kshare.state.lease_timers import LeaseTimers
from kshare.testing import Broker

MANY = 20_000
TOPIC = b"t" * 16
_COUNT = re.compile(r"([\d,]+) records? of ")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(lines: list[str]) -> int:
    """The number of records that these lines mention."""
    return sum(int(found[1].replace(",", "")) for line in lines if (found := _COUNT.search(line)))


@pytest.mark.lengthy
def test_expired_locks_are_summarized(caplog: pytest.LogCaptureFixture) -> None:
    """As in a loop that holds single records too long: ten minutes, 20,000 records."""
    clock = Clock()
    reporter = Reporter(group="shippers", clock=clock)
    lease_timers = LeaseTimers(can_renew=False, max_lease_s=1e9)
    holdings = Holdings(max_records=100, lease_timers=lease_timers, clock=clock, reporter=reporter)
    acks = PartitionAcks((TOPIC, 3))
    holdings.book.open_session()[acks.partition] = acks
    with caplog.at_level(logging.DEBUG, "kshare"):
        for offset in range(MANY):
            acquired = [AcquiredRecords(offset, offset, 1)]
            holdings.book.acquire(
                "orders", acks, PartitionData(3, acquired_records=acquired), 0.01, clock.now
            )
            lease_timers.hand_out(acks.leases[-1], clock.now)
            clock.now += 0.03
            holdings.book.check_leases()
            holdings.book.forget(acks)
        reporter.log.close()
    lines = [line for line in caplog.messages if "lock expired" in line]
    assert 2 <= len(lines) <= MANY * 0.03 / 10 + 2
    assert lines[0] == "group shippers: 1 record of orders[3] (offset 0): lock expired; will be redelivered"
    assert counted(lines) == MANY
    assert re.fullmatch(
        r"group shippers: [\d,]+ records of orders\[3\] \(offsets 1 to \d+\): lock expired; will be redelivered",
        lines[1],
    )
    assert not [line for line in caplog.messages if "Lease(" in line]


@pytest.mark.lengthy
@pytest.mark.parametrize("on_poison", ["reject", "release"])
def test_poisoned_records_are_summarized(on_poison: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    reporter = Reporter(group="shippers", clock=clock)

    def refuse(data: bytes) -> object:
        clock.now += 0.001
        raise ValueError(data)

    builder = BatchBuilder()
    for _ in range(MANY):
        builder.append(b"hunter2", timestamp=0)
    reader = Reader(None, refuse, on_poison, reporter)  # type: ignore[arg-type]
    lease = Lease((TOPIC, 3), 0, MANY - 1, 1)
    with caplog.at_level(logging.DEBUG, "kshare"):
        assert list(ShareBatch("orders", lease, list(read_batches(builder.build())), reader)) == []
        reporter.log.close()
    assert 2 <= len(caplog.messages) <= 4
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert counted(caplog.messages) == MANY
    assert caplog.messages[0] == (
        "group shippers: 1 record of orders[3] (offset 0): "
        f"value can't be deserialized (ValueError); {'rejected' if on_poison == 'reject' else 'released'}"
    )
    assert "hunter2" not in caplog.text


def test_summaries_are_completed_when_the_consumer_closes(
    kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"bad"] * 499 + [b"1"])
    with (
        caplog.at_level(logging.WARNING, "kshare.client"),
        kshare.sync.ShareConsumer(
            kshare_broker.bootstrap,
            group="shippers",
            topics=["orders"],
            value_deserializer=int,
            on_poison="reject",
        ) as consumer,
    ):
        assert next(iter(consumer)).value == 1
    lines = [line for line in caplog.messages if "can't be deserialized" in line]
    assert len(lines) <= 3
    assert all(line.startswith("group shippers: ") and "orders[0]" in line for line in lines)
    assert counted(lines) == 499


def test_nonexistent_topic_is_logged(kshare_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The consumer waits for it, because it may be created at any moment."""
    with (
        caplog.at_level(logging.WARNING, "kshare.client"),
        kshare.sync.ShareConsumer(kshare_broker.bootstrap, group="shippers", topics=["oders"]),
    ):
        deadline = time.monotonic() + 30
        while not caplog.messages:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert caplog.messages[0] == "group shippers: waiting for topic oders: UNKNOWN_TOPIC_OR_PARTITION"
