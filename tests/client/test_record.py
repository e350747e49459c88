"""Batches handed to the user: which records they have, which offsets have none, and how they are settled."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable, Sequence

import pytest

from kshare.client import record as record_module
from kshare.client.arrivals import FetchedPartition, PendingBatch
from kshare.client.record import ShareBatch, ShareRecord, lease_of, settle_through, spans_of
from kshare.engine.lease_book import LeaseBook
from kshare.errors import AcknowledgeError, CorruptBatchError
from kshare.protocol import record_header
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.record_columns import RecordColumns
from kshare.protocol.records import Batch, read_batches
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, GAP, HELD, RELEASE, RENEW, Lease, UndecidedCounter
from kshare.state.lease_timers import LeaseTimers
from tests.fakes.plain_holder import PlainHolder
from tests.helpers.batch_bytes import recheck
from tests.helpers.uncompiled import is_compiled

P = (b"t" * 16, 3)


def batches(*groups: list[int], control: int | None = None) -> list[Batch]:
    data = b""
    for number, offsets in enumerate(groups):
        builder = BatchBuilder(
            base_offset=offsets[0], is_control=number == control, is_transactional=number == control
        )
        for offset in offsets:
            builder.append(b"value %d" % offset, key=b"\0\0\0\1", timestamp=offset, offset=offset)
        data += builder.build()
    return list(read_batches(data))


def share_batch(lease: Lease, found: list[Batch]) -> ShareBatch:
    data = PartitionData(lease.partition[1], records=b"".join(bytes(batch.view) for batch in found))
    timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    book = LeaseBook(PlainHolder(), lease_timers=timers, clock=lambda: 0.0)
    PendingBatch("orders", lease, FetchedPartition([lease], data, book)).verify()
    return ShareBatch("orders", lease, found)


def test_batch_has_only_the_acquired_records() -> None:
    lease = Lease(P, 12, 14, 2)
    made = share_batch(lease, batches(list(range(10, 20))))
    assert [(r.offset, r.value) for r in made] == [(o, b"value %d" % o) for o in (12, 13, 14)]
    assert len(made) == 3
    assert made.values() == [b"value 12", b"value 13", b"value 14"]
    record = next(iter(made))
    assert (record.topic, record.partition, record.delivery_count, record.redelivered) == (
        "orders",
        3,
        2,
        True,
    )


def test_rule_7_offsets_without_a_record_are_gaps() -> None:
    lease = Lease(P, 8, 31, 1)
    found = batches([10, 11, 14, 19], [20, 21], [30], control=1)
    made = share_batch(lease, found)
    assert [record.offset for record in made] == [10, 11, 14, 19, 30]
    assert made.values() == [b"value %d" % offset for offset in (10, 11, 14, 19, 30)]
    assert spans_of(share_batch(lease, found)) == [(10, 11), (14, 14), (19, 19), (30, 30)]
    made.accept()
    book = PartitionAcks(P)
    book.add(lease)
    (sent,) = book.take(renewals=False)
    assert (sent.first, sent.last) == (8, 31)
    types = {8 + index: kind for index, kind in enumerate(sent.types)}
    assert {offset for offset, kind in types.items() if kind == ACCEPT} == {10, 11, 14, 19, 30}
    assert {offset for offset, kind in types.items() if kind == RELEASE} == {8, 9, 31}
    assert {offset for offset, kind in types.items() if kind == GAP} == {
        12,
        13,
        *range(15, 19),
        *range(20, 30),
    }


def test_accepting_a_batch_keeps_decisions_for_single_records() -> None:
    lease = Lease(P, 0, 4, 1)
    made = share_batch(lease, batches(list(range(5))))
    for record in made:
        if record.offset == 2:
            record.release()
    made.accept()
    assert list(lease.states) == [ACCEPT, ACCEPT, RELEASE, ACCEPT, ACCEPT]


def test_decisions_notify_the_counters_listener() -> None:
    told: list[int] = []
    counter = UndecidedCounter(lambda: told.append(1))
    made = ShareBatch("orders", Lease(P, 0, 1, 1, counter=counter), batches([0, 1]))
    for record in made:
        counter.notify_at(counter.undecided - 1)
        record.reject()
    assert len(told) == 2
    made.renew()
    assert len(told) == 3


class SettlementQueue:
    def __init__(self) -> None:
        self.settled: list[tuple[int, int]] = []

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        self.settled.append((offset, kind))
        return offset != 1

    def settle_all(self, lease: Lease, kind: int) -> None:
        self.settled.append((-1, kind))

    def settle_spans(self, lease: Lease, spans: Sequence[tuple[int, int]], kind: int) -> None:
        self.settled += [(offset, kind) for first, last in spans for offset in range(first, last + 1)]


def test_settlement_queue_gets_decisions_instead_of_the_lease() -> None:
    made = share_batch(Lease(P, 0, 1, 1), batches([0, 1]))
    queue = SettlementQueue()
    settle_through(made, queue)
    first, second = made
    first.accept()
    with pytest.raises(AcknowledgeError):
        second.reject()
    made.release()
    assert queue.settled == [(0, 1), (1, 3), (-1, 2)]
    assert lease_of(made).count(HELD) == 2


def test_settlement_queue_gets_decisions_on_a_part_of_a_batch_by_offset() -> None:
    made = share_batch(Lease(P, 0, 3, 1), batches([0, 1, 2, 3]))
    queue = SettlementQueue()
    settle_through(made, queue)
    records = iter(made)
    next(records)
    rest = records.rest()
    assert rest is not None
    rest.accept()
    made.release()
    rest.renew()
    assert queue.settled == [(1, 1), (2, 1), (3, 1), (0, 2), (-1, 4)]
    assert lease_of(made).count(HELD) == 4


def test_settling_a_lost_record_raises_error_with_the_reason() -> None:
    lease = Lease(P, 0, 0, 1)
    (record,) = share_batch(lease, batches([0]))
    lease.lose()
    with pytest.raises(AcknowledgeError, match=r"orders\[3\]@0 can no longer be acknowledged"):
        record.accept()


def test_records_decided_before_are_not_returned() -> None:
    lease = Lease(P, 0, 9, 1)
    for offset in range(4, 7):
        lease.decide(offset, ACCEPT)
    made = share_batch(lease, batches(list(range(10))))
    assert [record.offset for record in made] == [0, 1, 2, 3, 7, 8, 9]
    assert made.values() == [record.value for record in made]
    assert lease.count(HELD) == 7


def test_records_have_the_producers_data() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(None, key=b"k", timestamp=1234, headers=[("a", b"1"), ("b", None)])
    (record,) = ShareBatch("orders", Lease(P, 5, 5, 1), list(read_batches(builder.build())))
    assert (record.key, record.value, record.timestamp, record.has_append_time) == (b"k", None, 1234, False)
    assert record.headers == (("a", b"1"), ("b", None))
    assert repr(record) == "ShareRecord(orders[3]@5, delivery 1)"


def test_kept_records_do_not_change() -> None:
    made = share_batch(Lease(P, 0, 29, 1), batches(list(range(30))))
    kept: list[ShareRecord] = []
    accepts: list[Callable[[], None]] = []
    for record in made:
        if record.offset % 3 == 0:
            kept.append(record)
        elif record.offset % 5 == 0:
            accepts.append(record.accept)
    assert [(record.offset, record.value) for record in kept] == [
        (n, b"value %d" % n) for n in range(0, 30, 3)
    ]
    for accept in accepts:
        accept()
    assert [n for n, state in enumerate(lease_of(made).states) if state == ACCEPT] == [5, 10, 20, 25]


def test_compiled_iteration_reuses_records_that_are_not_kept() -> None:
    made = share_batch(Lease(P, 0, 29, 1), batches(list(range(30))))
    seen: set[int] = set()
    takers: list[ShareRecord] = []
    for record in made:
        seen.add(id(record))
        # Takes the memory of a freed record, so that its id isn't reused by chance.
        takers.append(ShareRecord.__new__(ShareRecord))
    assert (len(seen) == 2) is is_compiled(record_module)


def test_iteration_ends_when_the_lease_is_lost() -> None:
    lease = Lease(P, 0, 9, 1)
    seen = []
    for record in share_batch(lease, batches(list(range(10)))):
        seen.append(record.offset)
        if record.offset == 3:
            lease.lose()
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("through_queue", [False, True])
def test_batch_that_was_accepted_is_iterated_all_the_same_without_what_was_lost(through_queue: bool) -> None:
    lease = Lease(P, 0, 9, 1)
    made = share_batch(lease, batches(list(range(10))))
    if through_queue:
        settle_through(made, SettlementQueue())
    made.accept()
    lease.decide_held(ACCEPT)  # as the queue's owner does later
    assert [record.offset for record in made] == list(range(10))
    book = PartitionAcks(P)
    book.add(lease)
    book.take(renewals=False)
    assert [record.offset for record in made] == list(range(10))
    book.on_response(0)
    assert lease.is_done
    assert [record.offset for record in made] == list(range(10))
    lost = share_batch(Lease(P, 0, 9, 1), batches(list(range(10))))
    lost.accept()
    lease_of(lost).lose()
    assert not [*lost]


def test_batch_that_was_accepted_has_no_records_that_were_acknowledged_before() -> None:
    made = share_batch(Lease(P, 0, 5, 1), batches(list(range(6))))
    records = list(made)
    records[1].accept()
    records[2].release()
    records[4].reject()
    made.accept()
    assert [record.offset for record in made] == [0, 3, 5]


def test_batch_that_was_released_is_not_iterated() -> None:
    made = share_batch(Lease(P, 0, 9, 1), batches(list(range(10))))
    made.release()
    assert not [*made]


def test_pending_renewal_does_not_hide_records() -> None:
    lease = Lease(P, 0, 3, 1)
    made = share_batch(lease, batches(list(range(4))))
    iterator = iter(made)
    next(iterator)
    lease.decide_held(RENEW)
    assert [record.offset for record in iterator] == [1, 2, 3]


def test_objects_with_pointers_or_locks_cannot_be_copied_or_pickled() -> None:
    """Compiled or not. Pickle used to follow pointers before it failed."""
    lease = Lease(P, 0, 2, 1)
    (stored,) = read = batches([0, 1, 2])
    made = share_batch(lease, read)
    (plain, *_) = stored
    ones = [next(iter(made)), made, iter(made), lease, stored, stored.walk(), plain]
    ones += [UndecidedCounter(lambda: None), RecordColumns()]
    ways: list[Callable[[object], object]] = [copy.copy, copy.deepcopy]
    ways += [
        functools.partial(pickle.dumps, protocol=number) for number in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for thing in ones:
        for way in ways:
            with pytest.raises(
                TypeError, match=rf"{type(thing).__name__} objects can't be copied or pickled: \w+"
            ):
                way(thing)
    assert pickle.loads(pickle.dumps(made.values())) == [b"value 0", b"value 1", b"value 2"]


def test_malformed_record_is_raised_once_and_released_with_the_rest_of_its_batch() -> None:
    """With a valid checksum over malformed records. Records handed out before, and later batches, aren't affected."""
    lying = bytearray(batches([0, 1, 2, 3])[0].view)
    for field, value in ((record_header.CHECKSUM_BEHIND + 2, 2), (record_header.HEADER.size - 4, 3)):
        lying[field : field + 4] = value.to_bytes(4, "big")
    recheck(lying)
    lease = Lease(P, 0, 5, 1)
    made = ShareBatch("orders", lease, list(read_batches(lying + batches([3, 4, 5])[0].view)))
    walk = iter(made)
    assert [next(walk).offset, next(walk).offset] == [0, 1]
    with pytest.raises(CorruptBatchError, match="after the last one"):
        next(walk)
    assert [record.offset for record in walk] == [3, 4, 5]
    assert list(lease.states) == [HELD, HELD, RELEASE, HELD, HELD, HELD]
