"""The records of a handler: their order, what is held, and what waits for its key."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from kshare.client.made_records import made_batch
from kshare.client.record import ShareBatch, ShareRecord, lease_of
from kshare.protocol import record_header
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from kshare.state.lease import RELEASE, Lease
from kshare.summary_log import SummaryLog
from kshare.worker import Delivery
from kshare.worker.handlers.inspection import inspect_handler
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import WorkQueue, is_held, record_of
from kshare.worker.records.headers import RetryContext
from kshare.worker.rules.limits import ShareLimits
from tests.helpers.batch_bytes import recheck


def queue_of(
    *,
    lane_of: Callable[[ShareRecord], Hashable] | None = None,
    max_held: int = 100,
    max_span: int = 1000,
    deliveries: int = 9,
) -> tuple[WorkQueue, list[int], list[Exception]]:
    """A queue, the offsets of records whose lock was lost, and errors of records that can't be read."""
    lost: list[int] = []
    unreadable: list[Exception] = []
    options = HandlerOptions(group="g", max_held=max_held, max_pinned=1, order=lane_of or "none")
    route = Route("ship", ("orders",), inspect_handler(_ship), options)
    limits = ShareLimits(deliveries=deliveries, window=max_span)
    host: Any = None  # the queue needs none
    handler = RunningHandler(route, limits, host, clock=time.monotonic, wall_clock=time.time)
    handler.summary = _Summary(unreadable)
    return WorkQueue(handler, lambda item: lost.append(record_of(item).offset)), lost, unreadable


async def _ship(value: bytes) -> None:
    """Nobody calls it."""


class _Summary(SummaryLog):
    """Keeps what it is told."""

    def __init__(self, problems: list[Exception]) -> None:
        super().__init__(logging.getLogger("test"))
        self._problems = problems

    def event(self, level: int, cause: str, detail: object = "", *arguments: Any, **options: Any) -> None:
        assert isinstance(detail, Exception)
        self._problems.append(detail)


def batch(count: int, **options: Any) -> ShareBatch:
    first = options.get("offset", 0)
    return made_batch("orders", [b"%d" % (first + number) for number in range(count)], **options)


def offsets(queue: WorkQueue) -> list[int]:
    found = []
    while (item := queue.next()) is not None:
        found.append(record_of(item).offset)
    return found


def delivery(of: ShareBatch) -> Delivery:
    return Delivery(next(iter(of)), "g", 5)


def test_batches_are_read_one_record_at_a_time() -> None:
    queue, _, _ = queue_of()
    assert not queue.has_ready
    queue.take_in(batch(2))
    queue.take_in(batch(2, offset=10))
    assert (queue.has_ready, queue.batches) == (True, 2)
    assert type(queue.next()) is ShareRecord
    assert offsets(queue) == [1, 10, 11]
    assert (queue.has_ready, queue.next()) == (False, None)


def test_records_that_are_settled_meanwhile_are_left_out() -> None:
    queue, lost, _ = queue_of()
    made = batch(3)
    queue.take_in(made)
    lease_of(made).decide(1, RELEASE)
    assert offsets(queue) == [0, 2]
    assert lost == []


def test_records_delivered_often_become_deliveries_at_once() -> None:
    queue, _, _ = queue_of(deliveries=5)
    queue.take_in(batch(2, delivery_count=3))
    assert queue.batches == 0
    assert [type(queue.next()), type(queue.next())] == [Delivery, Delivery]


def test_held_records_come_back_when_they_are_due_before_new_ones() -> None:
    queue, _, _ = queue_of()
    first, second = delivery(batch(1)), delivery(batch(1, offset=1))
    queue.hold(first, 20.0)
    queue.hold(second, 10.0)
    queue.take_in(batch(1, offset=2))
    assert (queue.held, queue.unavailable, queue.next_due) == (2, 2, 10.0)
    queue.bring_due(9.0)
    assert queue.held == 2
    queue.bring_due(20.0)
    assert (queue.held, queue.next_due) == (0, None)
    assert offsets(queue) == [1, 0, 2]


def test_held_record_whose_lock_was_lost_is_reported_when_it_is_due() -> None:
    queue, lost, _ = queue_of()
    made = batch(1, offset=7)
    queue.hold(delivery(made), 1.0)
    lease_of(made).lose()
    queue.bring_due(1.0)
    assert (queue.next(), lost) == (None, [7])


def test_copies_have_no_budget_and_pin_nothing() -> None:
    queue, _, _ = queue_of(max_held=1, max_span=5)
    for number in range(10):
        queue.hold_copy(delivery(batch(1, offset=number * 100)), 50.0)
    assert (queue.copies, queue.held, queue.unavailable, queue.next_due) == (10, 0, 0, 50.0)
    assert list(queue.held_back.over_budget(1, 5)) == []
    queue.bring_due(50.0)
    assert len(offsets(queue)) == 10


def test_new_records_make_held_ones_go_that_pin_too_much() -> None:
    queue, _, _ = queue_of(max_span=100)
    held = delivery(batch(1))
    queue.hold(held, 1000.0)
    queue.take_in(batch(99, offset=1))
    assert list(queue.held_back.over_budget(100, 100)) == []
    queue.take_in(batch(1, offset=100))
    assert list(queue.held_back.over_budget(100, 100)) == [held]


def by_key(record: ShareRecord) -> Hashable:
    return record.key


def test_records_of_a_key_come_one_after_another() -> None:
    queue, _, _ = queue_of(lane_of=by_key)
    queue.take_in(batch(4, keys=[b"a", b"a", b"b", None]))
    ready = [queue.next(), queue.next(), queue.next()]
    assert [record_of(item).offset for item in ready if item] == [0, 2, 3]
    assert (queue.next(), queue.unavailable) == (None, 1)
    first = ready[0]
    assert first is not None
    assert not queue.leave(first), "it is still being processed"
    record_of(first).accept()
    assert queue.leave(first)
    following = queue.next()
    assert following is not None
    assert record_of(following).offset == 1
    record_of(following).accept()
    assert not queue.leave(following)
    assert queue.unavailable == 0


def test_lane_stays_closed_while_its_record_is_held_for_another_attempt() -> None:
    queue, _, _ = queue_of(lane_of=by_key)
    queue.take_in(batch(2, keys=[b"a", b"a"]))
    first = queue.next()
    assert isinstance(first, ShareRecord)
    queue.hold(Delivery(first, "g", 5), 10.0)
    assert not queue.leave(first)
    assert queue.next() is None
    queue.bring_due(10.0)
    again = queue.next()
    assert isinstance(again, Delivery)
    again.accept()
    assert queue.leave(again)
    assert offsets(queue) == [1]


def test_copies_are_in_no_lane() -> None:
    """So a copy that is done lets nothing through that waits for a record of its key."""
    queue, _, _ = queue_of(lane_of=by_key)
    queue.take_in(batch(2, keys=[b"a", b"a"]))
    assert queue.next() is not None
    context = RetryContext(
        topic="orders", partition=0, offset=7, group="g", timestamp=0, attempts=0, due_ms=0
    )
    copy = Delivery(next(iter(batch(1, keys=[b"a"], offset=20))), "g", 5, context)
    copy.accept()
    assert not queue.leave(copy)
    assert (queue.next(), queue.unavailable) == (None, 1)


def test_whether_anything_waits_whose_lock_expires() -> None:
    queue, _, _ = queue_of(lane_of=by_key)
    made = batch(3, keys=[b"a", b"a", None])
    lease_of(made).deadline = 10.0
    queue.take_in(made)
    assert (queue.has_waiting(10.0), queue.has_waiting(10.1)) == (False, True)
    while (item := queue.next()) is not None:
        first = item
    assert queue.has_waiting(10.1), "the second of the key"
    lease_of(made).decide(1, RELEASE)
    assert not queue.has_waiting(10.1), "the others were handed out"
    assert is_held(first)


def test_batches_of_which_nothing_is_left_do_not_wait() -> None:
    queue, _, _ = queue_of()
    made = batch(2)
    lease_of(made).deadline = 10.0
    queue.take_in(made)
    assert queue.next() is not None
    assert queue.has_waiting(10.1)
    assert queue.next() is not None
    assert not queue.has_waiting(10.1)


def test_everything_is_taken_out_once() -> None:
    queue, _, _ = queue_of(lane_of=by_key)
    queue.take_in(batch(3, keys=[b"a", b"a", b"b"]))
    queue.hold(delivery(batch(1, offset=10)), 10.0)
    queue.hold_copy(delivery(batch(1, offset=20)), 10.0)
    queue.put(delivery(batch(1, offset=30)))
    taken = [delivery for delivery, _ in queue.take_all()]
    assert sorted(record.offset for record in taken) == [0, 1, 2, 10, 20, 30]
    assert all(is_held(record) for record in taken)
    assert (list(queue.take_all()), queue.unavailable, queue.copies) == ([], 0, 0)


def test_malformed_records_are_reported_and_the_others_read() -> None:
    queue, _, unreadable = queue_of()
    queue.take_in(spoiled())
    queue.take_in(batch(1, offset=10))
    assert offsets(queue) == [0, 1, 10]
    assert len(unreadable) == 1


def spoiled() -> ShareBatch:
    """The batch's header promises only three of its four records."""
    builder = BatchBuilder()
    for offset in range(4):
        builder.append(b"x", timestamp=0, offset=offset)
    data = bytearray(builder.build())
    for field, value in ((record_header.CHECKSUM_BEHIND + 2, 2), (record_header.HEADER.size - 4, 3)):
        data[field : field + 4] = value.to_bytes(4, "big")
    recheck(data)
    return ShareBatch("orders", Lease((bytes(16), 0), 0, 3, 1), list(read_batches(bytes(data))))


def test_taking_out_everything_keeps_the_keys_of_what_is_processed() -> None:
    queue, _, _ = queue_of(lane_of=lambda record: "k")
    queue.take_in(batch(3))
    running = queue.next()
    assert running is not None
    assert len([*queue.take_all()]) == 2
    queue.take_in(batch(2, offset=1))
    assert queue.next() is None, "a record of its key is being processed"
    record_of(running).accept()
    assert queue.leave(running)
    assert queue.next() is not None


def test_taking_out_everything_forgets_all_other_keys() -> None:
    class Key:
        pass

    keys: list[weakref.ref[Key]] = []

    def lane_of(record: ShareRecord) -> Key:
        key = Key()
        keys.append(weakref.ref(key))
        return key

    queue, _, _ = queue_of(lane_of=lane_of)
    queue.take_in(batch(3))
    running = queue.next()
    assert len([*queue.take_all()]) == 2
    gc.collect()
    assert [key() is None for key in keys] == [False, True, True]
    assert running is not None


def test_what_has_not_failed_is_probed_with_first() -> None:
    """Records of earlier deliveries may have failed in them, but they are no reason to acquire more."""
    queue, _, _ = queue_of()
    fresh, failed = delivery(batch(1, offset=10)), delivery(batch(1, offset=20))
    failed.probes = 3
    queue.put(failed)
    assert not queue.has_fresh
    queue.take_in(batch(1, delivery_count=2))
    assert queue.has_fresh
    queue.put(fresh)
    order = []
    while (item := queue.next_for_probe()) is not None:
        order.append(record_of(item).offset)
    assert order == [10, 0, 20]


def test_offsets_of_a_topic_that_was_created_again_start_at_zero() -> None:
    """The window seemed to reach to the last offset of the old topic, so that records pinned too much at once."""
    queue, _, _ = queue_of(max_span=100)
    queue.take_in(batch(1, offset=5000))
    builder = BatchBuilder()
    for number in range(2):
        builder.append(b"%d" % number, timestamp=0, offset=number)
    new = ShareBatch("orders", Lease((b"n" * 16, 0), 0, 1, 1), list(read_batches(builder.build())))
    queue.take_in(new)
    queue.hold(delivery(new), 10.0)
    assert list(queue.held_back.over_budget(100, 100)) == []
    assert queue.held_back.newest(("orders", 0)) == 1
