"""The synchronous consumer while user code runs: beyond the lock duration, when interrupted, and at exit."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest

import kshare
import kshare.sync
from kshare import AcknowledgeError, ShareRecord
from kshare.engine.events import Event, LeaseRenewed
from kshare.errors import KshareError
from kshare.protocol.messages import ShareGroupHeartbeatRequest
from kshare.sync import loops
from kshare.testing import Broker
from tests.fakes.tiny_cluster import ACCEPTED, AVAILABLE, TinyCluster
from tests.helpers.uncompiled import is_compiled

DEADLINE_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.share.min.record.lock.duration.ms": "200"}) as started:
        settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "1000"}
        started.set_group_config("g", settings)
        yield started


def consume(broker: Broker, **options: Any) -> kshare.sync.ShareConsumer:
    return kshare.sync.ShareConsumer(broker.bootstrap, group="g", topics=["t"], **options)


@pytest.mark.lengthy
def test_locks_are_renewed_while_a_record_is_processed(broker: Broker) -> None:
    """For several lock durations, in which only the background thread runs the loop."""
    broker.create_topic("t")
    broker.produce("t", [b"slow", b"next"])
    renewed = threading.Semaphore(0)

    def observe(event: Event) -> None:
        if isinstance(event, LeaseRenewed):
            renewed.release()

    with consume(broker, observer=observe) as consumer:
        for record in consumer:
            if record.value == b"next":
                assert record.delivery_count == 1
                record.accept()
                break
            for _ in range(4):
                assert renewed.acquire(timeout=DEADLINE_S)
        assert set(consumer.commit().values()) == {None}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_works_inside_another_event_loop(broker: Broker, backend: str) -> None:
    """As in a notebook, where the thread runs an event loop."""
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(50)])

    async def work() -> list[bytes | None]:
        seen: list[bytes | None] = []
        with consume(broker) as consumer:
            for record in consumer:
                seen.append(record.value)
                if len(seen) == 50:
                    record.accept()
                    break
            assert set(consumer.commit().values()) == {None}
        return seen

    assert len(anyio.run(work, backend=backend)) == 50


@pytest.mark.lengthy
def test_consumers_in_several_threads_share_the_work(broker: Broker) -> None:
    broker.create_topic("t", partitions=3)
    broker.produce("t", [b"%d" % number for number in range(300)])
    seen: list[bytes | None] = []

    def work() -> None:
        with consume(broker, max_records=20) as first, consume(broker, max_records=20) as second:
            while len(seen) < 300:
                for consumer in (first, second):
                    batch = consumer.next_batch(timeout=0.05)
                    if batch is not None:
                        seen.extend(record.value for record in batch)
                        batch.accept()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(seen, key=str) == sorted((b"%d" % number for number in range(300)), key=str)


class Interrupted(Exception):
    pass


@pytest.mark.lengthy
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_thrown_into_the_thread_accepts_no_unfinished_record(
    broker: Broker,
) -> None:
    """As libraries do that limit the time of a job. Finished records may be redelivered."""
    broker.create_topic("t")
    finished: set[bytes | None] = set()
    for attempt in range(10):
        # A connection may take the exception for its own; then the thread goes on until everything is processed.
        broker.produce("t", [b"%d of %d" % (number, attempt) for number in range(200)])
        is_working = threading.Event()

        def work(is_working: threading.Event = is_working) -> None:
            try:
                with consume(broker, max_records=10) as consumer:
                    for record in consumer:
                        is_working.set()
                        value = record.value
                        threading.Event().wait(0.001)
                        finished.add(value)
            except Exception:
                return

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert is_working.wait(DEADLINE_S)
        thread.join(0.01 * attempt)
        ident = thread.ident
        assert ident is not None
        for _ in range(10):  # asyncio suppresses an exception that is thrown into one of its callbacks
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Interrupted))
            thread.join(DEADLINE_S / 20)
            if not thread.is_alive():
                break
        assert not thread.is_alive()
    with consume(broker) as consumer:
        while len(finished) < 10 * 200:
            batch = consumer.next_batch(timeout=DEADLINE_S)
            assert batch is not None, "a record was accepted that wasn't finished"
            finished |= {record.value for record in batch}
            batch.accept()


@pytest.mark.lengthy
def test_an_interrupt_at_any_line_of_a_loop_accepts_only_returned_records(broker: Broker) -> None:
    """As by a signal handler that raises. Each run of the loop is interrupted one line later than the previous run."""
    finished: set[bytes | None] = set()
    topics: list[str] = []
    was_interrupted = True
    while was_interrupted:
        topics.append(f"t{len(topics)}")
        broker.create_topic(topics[-1])
        broker.produce(topics[-1], [b"%d of %s" % (number, topics[-1].encode()) for number in range(3)])
        was_interrupted = finish_three_records(broker, topics[-1], finished, interrupt_at=len(topics))
    assert len(topics) > 6, "a loop over three records runs more lines than that"
    with kshare.sync.ShareConsumer(broker.bootstrap, group="g", topics=topics) as consumer:
        while len(finished) < 3 * len(topics):
            batch = consumer.next_batch(timeout=DEADLINE_S / 2)
            assert batch is not None, "a record that the user never saw was accepted"
            finished |= {record.value for record in batch}
            batch.accept()


_TRACED = {
    "loops.py": (
        "__next__",
        "_begin",
        "_accept_current",
        "_take",
        "_end",
        "_park",
        "_unpark",
        "begin",
        "end",
        "go_on",
        "give_back",
    ),
    "settlements.py": ("accept",),
    "consumer.py": ("_make", "_open_batch", "_open_urgent", "_take_turn"),
}
"""What runs for a loop in the user's thread, outside the event loop. If compiled, the first two have no lines."""


def finish_three_records(broker: Broker, topic: str, finished: set[bytes | None], interrupt_at: int) -> bool:
    """Returns whether the loop ran that many lines, and so was interrupted."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        path = Path(frame.f_code.co_filename)
        if path.parent.name != "sync" or frame.f_code.co_name not in _TRACED.get(path.name, ()):
            return None
        if event == "line":
            lines += 1
            if lines == interrupt_at:
                raise Interrupted
        return trace

    with kshare.sync.ShareConsumer(broker.bootstrap, group="g", topics=[topic]) as consumer:
        records = iter(consumer)
        sys.settrace(trace)
        try:
            for _ in range(3):
                finished.add(next(records).value)
        except Interrupted:
            return True
        finally:
            sys.settrace(None)
    return False


AT_EXIT = """
import atexit, sys
from kshare import sync
consumer = sync.ShareConsumer(sys.argv[1], group="g", topics=["t"])
consumer.__enter__()
if sys.argv[2] == "closed":
    atexit.register(consumer.close)
for record in consumer:
    break
"""


@pytest.mark.lengthy
@pytest.mark.anyio
@pytest.mark.parametrize("end", ["closed", "left open"])
async def test_a_program_ends_whether_it_closes_its_consumer_or_not(end: str) -> None:
    cluster = TinyCluster("t")
    cluster.topics["t"].append(b"0")
    async with cluster.running():
        with anyio.fail_after(DEADLINE_S):
            command = [sys.executable, "-c", AT_EXIT, cluster.bootstrap, end]
            ended = await anyio.run_process(command, stderr=subprocess.PIPE)
        assert b"Error" not in ended.stderr
        assert ACCEPTED not in cluster.topics["t"].states
        if end == "closed":
            assert cluster.asked(ShareGroupHeartbeatRequest)[-1].member_epoch == -1
            assert cluster.topics["t"].states == [AVAILABLE]


@pytest.mark.lengthy
def test_loops_that_take_turns_accept_what_each_has_finished(broker: Broker) -> None:
    """Two iterators of one consumer, in one thread: the records of a batch go to both."""
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})  # on a busy machine, too
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(400)])
    with consume(broker) as consumer:
        loops = [iter(consumer), iter(consumer)]
        values = [next(loops[number % 2]).value for number in range(300)]
        assert values == [b"%d" % number for number in range(300)]
        assert set(consumer.commit().values()) == {None}
    # The last record of each loop isn't finished.
    assert unaccepted(broker) == [b"%d" % number for number in range(298, 400)]


@pytest.mark.lengthy
def test_loop_inside_a_loop_accepts_what_both_have_finished(broker: Broker) -> None:
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})  # on a busy machine, too
    broker.create_topic("t")
    values = [b"%d" % number for number in range(400)]
    broker.produce("t", values)
    finished: set[bytes | None] = set()
    with consume(broker) as consumer:
        for number, outer in enumerate(consumer):
            for position, inner in zip(range(3), consumer, strict=False):
                if position < 2:  # the third is left in the middle
                    finished.add(inner.value)
            if number == 49:
                break
            finished.add(outer.value)
    assert len(finished) > 100
    assert set(unaccepted(broker)) == set(values) - finished


def unaccepted(broker: Broker) -> list[bytes | None]:
    """What a new consumer of the group gets, in order."""
    found: list[tuple[int, bytes | None]] = []
    with consume(broker) as consumer:
        batch = consumer.next_batch(timeout=DEADLINE_S)
        while batch is not None:
            found += [(record.offset, record.value) for record in batch]
            batch.accept()
            batch = consumer.next_batch(timeout=1.0)
    return [value for _, value in sorted(found)]


@pytest.mark.lengthy
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("acknowledgement", ["implicit", "explicit"])
def test_forked_process_gets_no_records_of_its_parent(broker: Broker, acknowledgement: str) -> None:
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(100)])
    program = [sys.executable, "-W", "error", "-c", FORKED, broker.bootstrap, acknowledgement]
    done = subprocess.run(program, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert "acquired by the process that this one was forked from" in child
    assert "was opened before this process was forked off" in child
    assert parent == "100 records, {None}"


FORKED = """
import os, sys
from kshare import sync
from kshare.errors import KshareError
consumer = sync.ShareConsumer(sys.argv[1], group="g", topics=["t"], acknowledgement=sys.argv[2])
with consumer:
    seen = 0
    for record in consumer:
        seen += 1
        if seen == 10:
            child = os.fork()
            if not child:
                errors = []
                for step in (record.accept, lambda: [None for _ in consumer], consumer.commit):
                    try:
                        step()
                    except KshareError as error:
                        errors.append(str(error))
                assert len(errors) == 3
                print(errors, flush=True)
                sys.exit()
            assert os.waitpid(child, 0)[1] == 0
        if sys.argv[2] == "explicit" or seen == 100:
            record.accept()
        if seen == 100:
            break
    print(f"{seen} records, {set(consumer.commit().values())}")
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("is_large", [False, True])
def test_rest_of_a_batch_that_a_loop_left_is_handed_to_the_next_caller(
    broker: Broker, is_large: bool
) -> None:
    """A large batch is handed out in several stretches."""
    count = 2000 if is_large else 20
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(count)])
    seen: list[bytes | None] = []
    with consume(broker, max_records=count, acquire="batches") as consumer:
        for _, record in zip(range(count // 2), consumer, strict=False):
            seen.append(record.value)
            record.accept()
        while len(seen) < count:
            batch = consumer.next_batch(timeout=DEADLINE_S)
            assert batch is not None
            assert batch.delivery_count == 1
            seen += [record.value for record in batch]
            batch.accept()
    assert seen == [b"%d" % number for number in range(count)]


@pytest.mark.lengthy
def test_rest_of_a_batch_that_nobody_asks_for_is_released(broker: Broker) -> None:
    """When its lock would be renewed for the second time."""
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(20)])
    with consume(broker) as consumer, consume(broker) as other:
        for record in consumer:
            record.accept()
            break
        count = 1
        while count == 1:
            batch = other.next_batch(timeout=DEADLINE_S)
            assert batch is not None, "it is renewed all the time"
            count = batch.delivery_count


def test_second_thread_gets_an_error_while_an_outer_loop_goes_on(broker: Broker) -> None:
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(20)])
    errors: list[KshareError] = []

    def iterate(consumer: kshare.sync.ShareConsumer) -> None:
        try:
            next(iter(consumer))
        except KshareError as error:
            errors.append(error)

    with consume(broker) as consumer:
        for _ in consumer:
            for _ in consumer:
                break
            thread = threading.Thread(target=iterate, args=(consumer,))
            thread.start()
            thread.join(DEADLINE_S)
            break
    assert "only one" in str(errors[0])


@pytest.mark.lengthy
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers on this system")
def test_group_is_left_however_often_closing_is_interrupted(broker: Broker) -> None:
    broker.create_topic("t")

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    broker.produce("t", [b"0"])
    with consume(broker) as consumer:  # so that the group exists
        assert consumer.next_batch(timeout=DEADLINE_S) is not None
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for round_ in range(10):
            try:
                with consume(broker):
                    signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.0005 * round_, 0.001)
            except Interrupted:
                pass
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    break
                except Interrupted:
                    pass
            assert members(broker) == 0
    finally:
        signal.signal(signal.SIGALRM, before)


def members(broker: Broker) -> int:
    async def count() -> int:
        async with kshare.AdminClient(broker.bootstrap) as admin:
            return len((await admin.describe_share_group("g")).members)

    return anyio.run(count)


@pytest.mark.lengthy
def test_rest_that_a_loop_over_batches_finishes_leaves_the_record_in_hand_alone(broker: Broker) -> None:
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})  # on a busy machine, too
    broker.create_topic("t")
    values = [b"%d" % number for number in range(30)]
    broker.produce("t", values)
    finished: set[bytes | None] = set()
    in_hand: bytes | None = None
    with consume(broker) as consumer:
        over_batches = consumer.batches()
        for record in consumer:
            in_hand = record.value
            if in_hand == b"5":
                break
            finished.add(in_hand)
        rest = next(over_batches)
        next_batch = consumer.next_batch(timeout=0.2)
        finished.update(rest.values())
        over_batches.close()  # type: ignore[attr-defined]
        rest.accept()
        if next_batch is not None:
            next_batch.release()
    assert in_hand == b"5"
    assert set(unaccepted(broker)) == set(values) - finished


@pytest.mark.lengthy
@pytest.mark.parametrize("over", ["records", "batches"])
def test_thread_that_shares_an_iterator_accepts_nothing_of_another_thread(broker: Broker, over: str) -> None:
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(10)])
    errors: list[Exception] = []

    def go_on(iterator: Iterator[Any]) -> None:
        try:
            next(iterator)
        except KshareError as error:
            errors.append(error)

    with consume(broker) as consumer:
        iterator = iter(consumer) if over == "records" else iter(consumer.batches())
        next(iterator)
        thread = threading.Thread(target=go_on, args=(iterator,))
        thread.start()
        thread.join(DEADLINE_S)
        assert "is shared by several threads" in str(errors[0])
    assert unaccepted(broker) == [b"%d" % number for number in range(10)]


def test_thread_may_continue_with_an_iterator_whose_record_is_acknowledged(broker: Broker) -> None:
    broker.create_topic("t")
    broker.produce("t", [b"%d" % number for number in range(10)])
    seen: list[bytes | None] = []

    def take(iterator: Iterator[kshare.ShareRecord]) -> None:
        record = next(iterator)
        record.accept()
        seen.append(record.value)

    with consume(broker) as consumer:
        iterator = iter(consumer)
        for _ in range(4):
            thread = threading.Thread(target=take, args=(iterator,))
            thread.start()
            thread.join(DEADLINE_S)
    assert seen == [b"0", b"1", b"2", b"3"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers on this system")
def test_batch_that_arrives_as_its_caller_is_interrupted_is_released(broker: Broker) -> None:
    broker.create_topic("t")

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    seen: set[bytes | None] = set()
    try:
        with consume(broker) as consumer, consume(broker) as other:
            for delay in range(1, 20):
                broker.produce("t", [b"%d" % delay])
                batch = None
                with suppress(Interrupted):  # perhaps when the batch is here already
                    signal.setitimer(signal.ITIMER_REAL, delay / 5000)
                    batch = consumer.next_batch(timeout=1.0)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                if batch is not None:
                    seen.update(batch.values())
                    batch.accept()
            while len(seen) < 19:
                batch = other.next_batch(timeout=DEADLINE_S / 2)
                assert batch is not None, "another consumer holds them all the time"
                seen.update(batch.values())
                batch.accept()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.lengthy
def test_consumer_closed_by_another_thread_while_it_is_opened_says_so() -> None:
    with Broker() as broker:
        consumer = consume(broker)
        for delay in range(20):
            thread = threading.Timer(delay / 2000, consumer.close)
            thread.start()
            try:
                with consumer:
                    pass
            except KshareError as error:
                assert str(error)
            thread.join(DEADLINE_S)
            assert not [thread for thread in threading.enumerate() if thread.name == "kshare client"]


SOON_S = (3e-5, 3e-4, 1e-3)


@pytest.mark.lengthy
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("acknowledgement", ["explicit", "implicit"])
def test_interrupts_at_any_time_hand_out_no_delivery_twice_and_strand_none(
    broker: Broker, acknowledgement: str
) -> None:
    """In loops and in `next_batch`, also while the rest of a batch waits for what was delivered more often."""
    is_implicit = acknowledgement == "implicit"
    broker.set_group_config("g", {"share.delivery.count.limit": "10"})
    broker.create_topic("t", partitions=2)
    chance = random.Random(35)
    handed_out: Counter[tuple[int, int, int]] = Counter()
    in_hand: list[ShareRecord] = []
    seen: set[tuple[int, int]] = set()
    interrupts = written = 0
    is_armed = False

    def interrupt(*_: object) -> None:
        if is_armed:
            raise Interrupted

    def take(record: ShareRecord) -> None:
        handed_out[record.partition, record.offset, record.delivery_count] += 1
        seen.add((record.partition, record.offset))
        if not is_implicit:
            in_hand.append(record)

    def settle() -> None:
        for record in in_hand:
            with suppress(AcknowledgeError):  # its lock was lost
                record.accept() if record.delivery_count > 7 or chance.random() < 0.6 else record.release()
        in_hand.clear()

    before = signal.signal(signal.SIGALRM, interrupt)
    # What is on its way to user code as that is interrupted is redelivered when it is no longer renewed. Compiled,
    # implicit loops have no such moment.
    lasts_s = 300.0 if is_implicit and is_compiled(loops) else 2.0
    try:
        with consume(broker, acknowledgement=acknowledgement, max_lease_seconds=lasts_s) as consumer:
            for _ in range(1_000):
                if written - len(seen) < 40:
                    for partition in range(2):
                        broker.produce("t", [b"x"] * 8, partition=partition)
                    written += 16
                try:
                    try:
                        is_armed = True
                        signal.setitimer(signal.ITIMER_REAL, chance.choice(SOON_S) * chance.random() + 1e-6)
                        if is_implicit or chance.random() < 0.7:
                            for record in consumer:
                                take(record)
                                if chance.random() < 0.2:
                                    break
                        elif (found := consumer.next_batch(timeout=0.2)) is not None:
                            is_armed = False
                            for record in found:
                                take(record)
                    finally:
                        is_armed = False
                except Interrupted:
                    interrupts += 1
                if len(in_hand) > 40:
                    settle()
            settle()
            while len(seen) < written:
                rest = consumer.next_batch(timeout=DEADLINE_S / 4)
                assert rest is not None, f"{written - len(seen)} records are stranded"
                seen |= {(record.partition, record.offset) for record in rest}
                rest.accept()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 100
    assert {where: count for where, count in handed_out.items() if count > 1} == {}
