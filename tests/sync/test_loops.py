"""Loops over the synchronous consumer: what was handed out is what is accepted, however loops are mixed and left."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import pytest

from kshare import DeserializationFailed, sync
from kshare.client.record import BatchIterator, ShareBatch, ShareRecord
from kshare.client.streams import Inbox
from kshare.fast.left_loops import Loop
from kshare.sync.consumer import BlockingConsumer
from kshare.sync.decision_queue import DecisionQueue
from kshare.sync.loops import BatchLoop, BlockingSource, OpenedBatch, RecordLoop
from kshare.testing import Broker
from tests.fakes.batches import batch
from tests.fakes.tiny_cluster import ACCEPTED, AVAILABLE, TinyCluster
from tests.helpers.loop_checker import check_blocking

pytestmark = pytest.mark.anyio
DEADLINE_S = 60.0
ReturnT = TypeVar("ReturnT")


async def in_thread(
    work: Callable[[sync.ShareConsumer], ReturnT], cluster: TinyCluster, **options: Any
) -> ReturnT:
    """Run `work` in a thread, with a consumer of the topic `t`."""

    def run() -> ReturnT:
        with sync.ShareConsumer(cluster.bootstrap, group="g", topics=["t"], **options) as consumer:
            return work(consumer)

    with anyio.fail_after(DEADLINE_S):
        return await anyio.to_thread.run_sync(run)


def filled(count: int) -> TinyCluster:
    cluster = TinyCluster("t", "u")
    cluster.topics["t"].append(*(b"%d" % number for number in range(count)))
    return cluster


def whole_numbers_but(*broken: int) -> Callable[[bytes], int]:
    def read(data: bytes) -> int:
        if int(data) in broken:
            raise ValueError
        return int(data)

    return read


async def test_a_record_that_an_inner_loop_could_not_read_is_not_accepted_by_the_outer_one() -> None:
    def work(consumer: sync.ShareConsumer) -> list[int]:
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 1:
                with pytest.raises(DeserializationFailed):
                    next(iter(consumer))
            if record.offset == 5:
                break
        consumer.commit()
        return seen

    async with filled(7).running() as cluster:
        assert await in_thread(work, cluster, value_deserializer=whole_numbers_but(2)) == [0, 1, 3, 4, 5]
        assert (
            cluster.topics["t"].states
            == [ACCEPTED, ACCEPTED, AVAILABLE, ACCEPTED, ACCEPTED] + [AVAILABLE] * 2
        )


async def test_a_loop_accepts_what_it_handed_out_after_an_inner_one_got_the_next_batch() -> None:
    """The inner loop exhausts the batch of the outer one, and ends at the first record of the next batch."""

    def work(consumer: sync.ShareConsumer) -> list[int]:
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 9:
                anyio.from_thread.run_sync(
                    cluster.topics["t"].append, *(b"%d" % number for number in range(10, 60))
                )
                with pytest.raises(DeserializationFailed):
                    next(iter(consumer))
            if record.offset == 49:
                break
        assert consumer.commit() == {("t", 0): None}
        return seen

    async with filled(10).running() as cluster:
        read = whole_numbers_but(10)
        assert await in_thread(work, cluster, value_deserializer=read) == [*range(10), *range(11, 50)]
        states = cluster.topics["t"].states
        assert states[:10] == [ACCEPTED] * 10
        assert states[10] == AVAILABLE
        assert states[11:49] == [ACCEPTED] * 38
        assert ACCEPTED not in states[49:]


async def test_a_record_that_a_thread_got_while_another_one_took_over_is_not_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both got one: the second thread had been let in while the first looked whether the record before was finished."""
    call = BlockingConsumer._call
    tries: list[Callable[[], object]] = []
    got: list[object] = []

    def call_later(self: BlockingConsumer[Any], function: Callable[[], None]) -> None:
        while tries:
            with ThreadPoolExecutor(1) as first:
                got.append(first.submit(tries.pop()).exception())
        call(self, function)

    monkeypatch.setattr(BlockingConsumer, "_call", call_later)

    def work(consumer: sync.ShareConsumer) -> list[int]:
        loop = iter(consumer)
        with ThreadPoolExecutor(1) as first:
            record = first.submit(next, loop).result()
        record.accept()
        tries.append(lambda: next(loop))
        return [record.offset, next(loop).offset]

    async with filled(5).running() as cluster:
        assert await in_thread(work, cluster) == [0, 1]
        assert ACCEPTED not in cluster.topics["t"].states[1:]
    assert "another thread is waiting on it" in str(got)


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(4))
def test_what_a_random_user_has_finished_is_accepted_and_nothing_else(seed: int) -> None:
    with Broker(topics={"t": 2}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        partitions = itertools.cycle((0, 1))

        def produce(values: list[bytes]) -> None:
            broker.produce("t", values, partition=next(partitions))

        check_blocking(broker.bootstrap, "t", "g", produce, seed, steps=100)


def test_what_a_loop_that_is_alive_has_left_is_named_when_closing_archives_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: set[int] = set()
    with Broker(topics={"t": 1}) as broker:
        settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"}
        broker.set_group_config("g", settings)
        broker.produce("t", [b"x"] * 10)
        loops = []
        for _ in range(2):
            with sync.ShareConsumer(broker.bootstrap, group="g", topics="t", max_records=5) as consumer:
                loop = iter(consumer)
                record = next(loop)
                record.accept()
                seen.add(record.offset)
                loops.append(loop)
        assert seen == {0, 1}
        assert [line for line in caplog.messages if "the broker archives them" in line] == [
            "group g: 3 records of t[0] (offsets 2 to 4): released without being handed out, at the delivery count "
            "limit; the broker archives them"
        ]


@pytest.mark.parametrize("is_finalizing", [False, True])
def test_loops_do_nothing_when_the_interpreter_ends(is_finalizing: bool) -> None:
    """Globals of modules are None then."""
    left: list[bool] = []

    class ALoop(Loop):
        _is_finalizing = staticmethod(lambda: is_finalizing)

        def _on_left(self) -> None:
            left.append(True)

    ALoop()
    gc.collect()
    assert left == [True] * (not is_finalizing)


def offsets(records: RecordLoop, count: int) -> list[int]:
    """Those of the next records."""
    return [record.offset for record in itertools.islice(records, count) if isinstance(record, ShareRecord)]


def opened_batch(
    waiting: list[ShareBatch],
    inbox: Inbox,
    most_delivered: int = 0,
    deliveries: list[Callable[[ShareBatch], None]] | None = None,
) -> OpenedBatch:
    def take(above: int) -> ShareBatch | None:
        return waiting.pop(0) if waiting and waiting[0].delivery_count > above else None

    def next_batch() -> ShareBatch:
        return take(inbox.delivery_count) or inbox.next_rest() or waiting.pop(0)

    def open_batch(deliver: Callable[[ShareBatch], None]) -> None:
        if deliveries is not None:
            deliveries.append(deliver)
        deliver(next_batch())

    def open_urgent(deliver: Callable[[ShareBatch], None], delivery_count: int) -> None:
        if (found := take(delivery_count)) is not None:
            deliver(found)

    return OpenedBatch(
        BlockingSource(
            next_batch=next_batch,
            open_batch=open_batch,
            open_urgent=open_urgent,
            take_turn=lambda: None,
            slice_size=lambda: 2,
            most_delivered=lambda: max((batch.delivery_count for batch in waiting), default=most_delivered),
            apply_decisions=lambda: None,
            inbox=inbox,
        )
    )


def test_what_was_delivered_more_often_comes_before_the_rest_of_an_opened_batch() -> None:
    waiting = [batch(0, 8)]
    inbox = Inbox(lambda: None)
    records = RecordLoop(opened_batch(waiting, inbox), is_implicit=False)
    found = offsets(records, 1)
    waiting += [batch(10, 3, delivery_count=3), batch(20, 2)]
    found += offsets(records, 3)
    waiting.insert(0, batch(30, 3, delivery_count=4))
    found += offsets(records, 8)
    assert found == [0, 1, 10, 11, 30, 31, 32, 12, 2, 3, 4, 5]
    records.close()
    rest = inbox.next_rest()
    assert rest is not None
    assert [record.offset for record in rest] == [6, 7]
    assert inbox.next_rest() is None


def test_what_an_ended_loop_leaves_includes_batches_that_were_overtaken() -> None:
    waiting = [batch(0, 4), batch(10, 4, delivery_count=3)]
    inbox = Inbox(lambda: None)
    records = RecordLoop(opened_batch(waiting, inbox), is_implicit=False)
    assert offsets(records, 3) == [0, 1, 10]
    records.close()
    left = [inbox.next_rest(), inbox.next_rest()]
    assert [[record.offset for record in rest or ()] for rest in left] == [[11, 12, 13], [2, 3]]


def test_batch_that_comes_when_all_loops_have_ended_is_left_to_others() -> None:
    """The call that waited for it was interrupted."""
    inbox = Inbox(lambda: None)
    deliveries: list[Callable[[ShareBatch], None]] = []
    waiting = [batch(0, 2)]
    opened = opened_batch(waiting, inbox, deliveries=deliveries)
    records = RecordLoop(opened, is_implicit=False)
    assert offsets(records, 1) == [0]
    records.close()
    deliveries[0](batch(10, 3))
    left = [inbox.next_rest(), inbox.next_rest()]
    assert [[record.offset for record in rest or ()] for rest in left] == [[1], [10, 11, 12]]


def test_a_loop_of_a_former_opening_goes_on_with_what_comes_in_the_next() -> None:
    waiting = [batch(0, 2)]
    opened = opened_batch(waiting, Inbox(lambda: None))
    records = RecordLoop(opened, is_implicit=False)
    assert offsets(records, 2) == [0, 1]
    opened.open(DecisionQueue.__new__(DecisionQueue))
    waiting.append(batch(10, 3))
    assert offsets(records, 3) == [10, 11, 12]


def test_rests_are_handed_out_once_whoever_else_has_their_iterator() -> None:
    """An interrupt may come when a loop has left its batch to others, and has it still."""
    inbox = Inbox(lambda: None)
    walk = BatchIterator(batch(0, 6))
    assert [record.offset for record in itertools.islice(walk, 2)] == [0, 1]
    inbox.park(walk)
    inbox.park(walk)
    rest = inbox.next_rest()
    assert rest is not None
    assert next(walk, None) is None
    again = iter(rest)
    inbox.park(again)
    of_rest = inbox.next_rest()
    assert of_rest is not None
    assert [record.offset for record in of_rest] == [2, 3, 4, 5]
    assert inbox.next_rest() is None
    assert not inbox.has_unread


@pytest.mark.parametrize("kind", [RecordLoop, BatchLoop])
def test_a_loop_that_was_interrupted_while_it_was_created_is_deleted_in_silence(kind: type[Loop]) -> None:
    kind.__new__(kind).__del__()


def test_an_interrupt_while_a_loop_ends_leaves_nothing_behind() -> None:
    """At each place where Python looks for signals: with compiled modules, these are calls of Python code."""
    for step in range(40):
        waiting = [batch(0, 4), batch(10, 4, delivery_count=3)]
        inbox = Inbox(lambda: None)
        opened = opened_batch(waiting, inbox)
        records = RecordLoop(opened, is_implicit=False)
        found = offsets(records, 3)
        interrupt = _Interrupt(step)
        with suppress(KeyboardInterrupt):
            sys.setprofile(interrupt)
            try:
                records.close()
            finally:
                sys.setprofile(None)
        found += offsets(RecordLoop(opened, is_implicit=False), 5)
        assert found == [0, 1, 10, 11, 12, 13, 2, 3]


class _Interrupt:
    """Raises KeyboardInterrupt at the given call."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "return"):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def test_closing_does_not_wait_for_a_loop_that_begins_or_ends() -> None:
    """A signal handler may close the consumer in the thread of that loop, which would then wait for ever."""
    inbox = Inbox(lambda: None)
    closings: list[threading.Thread] = []

    class SlowInbox:
        def __getattr__(self, name: str) -> Any:
            return getattr(inbox, name)

        def attend(self, is_attended: bool) -> None:
            inbox.attend(is_attended)
            closings.append(threading.Thread(target=opened.leave_walk, daemon=True))
            closings[-1].start()
            closings[-1].join(DEADLINE_S)

    slow: Any = SlowInbox()
    opened = opened_batch([batch(0, 4)], slow)
    records = RecordLoop(opened, is_implicit=False)
    assert offsets(records, 1) == [0]
    records.close()
    assert [closing.is_alive() for closing in closings] == [False, False]
    left = [inbox.next_rest(), inbox.next_rest()]
    assert [[record.offset for record in rest or ()] for rest in left] == [[1, 2, 3], []]


def test_a_loop_goes_on_with_its_batch_if_the_one_to_overtake_it_is_lost() -> None:
    """It waited for another one, with records in hand."""
    waiting = [batch(0, 4)]
    opened = opened_batch(waiting, Inbox(lambda: None), most_delivered=9)
    assert offsets(RecordLoop(opened, is_implicit=False), 4) == [0, 1, 2, 3]
