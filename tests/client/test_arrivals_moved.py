"""Every bit of every base offset is flipped, in first and later deliveries: no record is handed out at a wrong offset.

No checksum covers a base offset. Where the rest of a response leaves room for another one, nothing contradicts it: then
records may have wrong offsets, and docs/consumer.md says so. The test counts both, so that the page stays exact.
"""

from __future__ import annotations

import logging
import random
import struct
from functools import cache
from typing import NamedTuple

import pytest

from kshare.client.holdings import Holdings
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.state.acks import PartitionAcks
from kshare.state.lease_timers import LeaseTimers

PARTITION = (b"t" * 16, 0)
LIMIT = 5
Span = tuple[int, int]


@cache
def built(base: int, last: int) -> bytes:
    """A batch; each value is the record's offset."""
    builder = BatchBuilder(base_offset=base)
    for offset in range(base, last + 1):
        builder.append(b"%d" % offset, timestamp=0, offset=offset)
    return bytes(builder.build())


class Response(NamedTuple):
    """One partition of a response."""

    batches: list[Span]
    """Base offset and last offset of each."""
    acquired: list[Span]

    def data(self, delivery_count: int, flipped: int | None = None, bit: int = 0) -> PartitionData:
        records = bytearray()
        for index, (base, last) in enumerate(self.batches):
            one = bytearray(built(base, last))
            if index == flipped:
                struct.pack_into(">Q", one, 0, base ^ 1 << bit)
            records += one
        rows = [AcquiredRecords(first, last, delivery_count) for first, last in self.acquired]
        return PartitionData(0, records=bytes(records), acquired_records=rows)

    def leaves_room(self, index: int, bit: int) -> bool:
        """What the page says: neither neighbours nor acquired offsets contradict the moved batch."""
        base, last = self.batches[index]
        moved = base ^ 1 << bit
        moved_last = moved + last - base
        before = self.batches[index - 1][1] if index else -1
        behind = self.batches[index + 1][0] if index + 1 < len(self.batches) else 2**63
        if not before < moved <= moved_last < behind:
            return False
        holes = {*range(self.acquired[0][0], self.acquired[-1][1] + 1)}
        for start, end in self.batches:
            holes -= {*range(start, end + 1)}
        wanted = {offset for start, end in self.acquired for offset in range(start, end + 1)}
        mine = {*range(base, last + 1)}
        is_edge = index in (0, len(self.batches) - 1)
        covers_its_part = not mine <= wanted and mine & wanted <= {*range(moved, moved_last + 1)}
        return (is_edge and covers_its_part) or bool({base - 1, last + 1} & holes)


def some_response(chance: random.Random) -> Response:
    """Batches in a row, or with holes between them; all of it is acquired, or parts of it."""
    hole = chance.choice((0, 0, 1, 4))
    start = chance.choice((0, 8, 100, 2**31 - 3, 2**40))
    batches = []
    for _ in range(chance.randint(1, 4)):
        end = start + chance.randint(0, 12)
        batches.append((start, end))
        start = end + 1 + chance.randint(0, hole)
    first, last = batches[0][0], batches[-1][1]
    kind = chance.choice(("all", "cut", "parts"))
    if kind == "all":
        return Response(batches, [(first, last)])
    begin = chance.randint(first, batches[0][1])
    end = chance.randint(max(begin, batches[-1][0]), last)
    if kind == "cut" or end - begin < 4:
        return Response(batches, [(begin, end)])
    middle = chance.randint(begin, end - 2)
    return Response(batches, [(begin, middle), (middle + 2, end)])


def member() -> tuple[Holdings, PartitionAcks]:
    timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    return Holdings(max_records=1000, lease_timers=timers, clock=lambda: 0.0), PartitionAcks(PARTITION)


def at_wrong_offsets(who: tuple[Holdings, PartitionAcks], data: PartitionData) -> tuple[int, int]:
    """How many records the user gets, and how many of them at a wrong offset."""
    holdings, acks = who
    holdings.book.acquire("orders", acks, data, 30, 0.0)
    given = wrong = 0
    while (batch := holdings.next_batch()) is not None:
        for record in batch:
            given += 1
            wrong += record.offset != int(record.value or b"-1")
        batch.release()
    acks.take(renewals=False)
    acks.on_response(0)
    holdings.book.forget(acks)
    return given, wrong


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(4))
def test_records_of_a_moved_batch_are_handed_out_only_where_nothing_contradicts_it(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Second deliveries handed out 114 of these."""
    caplog.set_level(logging.CRITICAL, "kshare.client")
    chance = random.Random(seed)
    believed = 0
    for _ in range(6):
        response = some_response(chance)
        for delivery_count, has_seen_it in ((1, False), (2, False), (2, True), (3, True)):
            for index in range(len(response.batches)):
                for bit in range(64):
                    who = member()
                    if has_seen_it:
                        at_wrong_offsets(who, response.data(delivery_count - 1))
                    _, wrong = at_wrong_offsets(who, response.data(delivery_count, index, bit))
                    if response.leaves_room(index, bit):
                        believed += wrong
                    else:
                        assert not wrong, (response, delivery_count, index, bit)
    assert believed


@pytest.mark.parametrize("seed", range(4))
def test_sound_records_are_handed_out_before_the_broker_would_archive_them(seed: int) -> None:
    """Compaction may look like damage. Whoever gets them, the members that saw them before or new ones."""
    chance = random.Random(seed)
    for _ in range(50):
        response = some_response(chance)
        wanted = sum(
            base <= offset <= last
            for first, end in response.acquired
            for offset in range(first, end + 1)
            for base, last in response.batches
        )
        who = member()
        at_wrong_offsets(who, response.data(1))
        assert at_wrong_offsets(who, response.data(2)) == (wanted, 0)
        for delivery_count in (LIMIT - 1, LIMIT):
            assert at_wrong_offsets(member(), response.data(delivery_count)) == (wanted, 0)
