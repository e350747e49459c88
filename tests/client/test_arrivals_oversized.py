"""Batches that would decompress to more than the limit are kept: never released while the consumer runs."""

from __future__ import annotations

import logging

import pytest

from kshare.client.holdings import Holdings
from kshare.engine.lease_book import SessionLeases
from kshare.protocol.compression import Compression
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, HELD
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange
from kshare.state.unseen_releases import DEFAULT_LIMIT

PARTITION = (b"t" * 16, 0)
LOCK_S = 30.0
LIMIT = 1000


class Member:
    """A consumer that fetched two small records, two that are too large, and two small ones."""

    def __init__(self, *, can_renew: bool = True, delivery_count: int = 1, limit: int = LIMIT) -> None:
        self.now = 0.0
        because = "" if can_renew else "brokers before Kafka 4.2 don't"
        self.holdings = Holdings(
            max_records=100,
            max_decompressed_bytes=limit,
            lease_timers=LeaseTimers(can_renew=can_renew, max_lease_s=2 * LOCK_S, no_renewal_because=because),
            clock=lambda: self.now,
        )
        self.book = self.holdings.book
        self.session: SessionLeases = self.book.open_session()
        self.acks = self.session[PARTITION] = PartitionAcks(PARTITION)
        records = batch(0, 10) + batch(2, LIMIT) + batch(4, 10)
        data = PartitionData(0, records=records, acquired_records=[AcquiredRecords(0, 5, delivery_count)])
        self.book.acquire("orders", self.acks, data, LOCK_S, 0.0)

    def accept_all(self) -> list[int]:
        found = self.holdings.next_batch()
        assert found is not None
        offsets = [record.offset for record in found]
        found.accept()
        return offsets

    def pass_time(self, until: float) -> list[AckRange]:
        """What is sent; the broker confirms all of it."""
        sent: list[AckRange] = []
        while self.now < until:
            self.now += 1.0
            self.book.check_leases()
            for renewals in (False, True):
                taken = list(self.acks.take(renewals=renewals))
                if taken:
                    self.book.on_responded(self.acks, 0, self.now)
                sent += taken
        return sent

    @property
    def is_paused(self) -> bool:
        return self.book.unseen.is_paused(PARTITION, self.now)


def batch(first: int, size: int) -> bytes:
    builder = BatchBuilder(base_offset=first, leader_epoch=1, compression=Compression.ZSTD)
    for offset in (first, first + 1):
        builder.append(bytes(size), timestamp=0, offset=offset)
    return bytes(builder.build())


def test_the_rest_is_handed_out_and_the_large_records_stay_locked() -> None:
    """They were released, and archived at the limit."""
    member = Member()
    assert member.accept_all() == [0, 1, 4, 5]
    sent = member.pass_time(20 * LOCK_S)
    assert sent[:2] == [AckRange(0, 1, bytes([ACCEPT])), AckRange(4, 5, bytes([ACCEPT]))]
    renewals = sent[2:]
    assert len(renewals) >= 20
    assert {(renewal.first, renewal.last, renewal.types) for renewal in renewals} == {(2, 3, b"\x04")}
    (kept,) = member.acks.leases
    assert kept.count(HELD) == 2
    assert not member.is_paused


def test_they_take_no_room_of_others() -> None:
    member = Member()
    member.accept_all()
    assert member.book.kept.held == 2
    assert member.holdings.undecided == 0
    assert member.holdings.next_batch() is None


def test_a_higher_limit_hands_them_out() -> None:
    assert Member(limit=4 * LIMIT).accept_all() == [0, 1, 2, 3, 4, 5]


def test_an_error_says_what_is_kept_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kshare.client"):
        Member(delivery_count=2).accept_all()
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    text = line.getMessage()
    for part in (
        "2 records of orders[0] (offsets 2 to 3)",
        "max_decompressed_bytes",
        f"the limit of {LIMIT} bytes",
        "delivery 2 of 5",
        "in-flight window can't move past offset 2",
    ):
        assert part in text, text


def test_without_renewal_the_partition_is_not_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    """Each further delivery would end in the same way, and the last one in the archive."""
    member = Member(can_renew=False)
    member.accept_all()
    sent = member.pass_time(LOCK_S - 2)
    assert {(range_.first, range_.last) for range_ in sent} == {(0, 1), (4, 5)}
    assert not member.is_paused
    member.pass_time(10 * LOCK_S)
    assert member.is_paused
    assert any("partition is no longer fetched" in line for line in caplog.messages)
    assert any("brokers before Kafka 4.2 don't" in line for line in caplog.messages)


@pytest.mark.parametrize(("delivery_count", "stops"), [(1, False), (DEFAULT_LIMIT - 1, True)])
def test_a_session_that_ends_before_the_last_delivery_stops_fetching(
    delivery_count: int, stops: bool, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member(delivery_count=delivery_count)
    member.accept_all()
    member.pass_time(1.0)
    member.book.end_session(member.session)
    member.now += 10 * LOCK_S
    assert member.is_paused is stops
    assert any("is no longer fetched" in line for line in caplog.messages) is stops
    assert member.book.kept.held == 0
