"""The synchronous consumer: what is accepted when, use from several threads, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from kshare import (
    AcknowledgeError,
    ConfigError,
    ConnectionLost,
    ConsumerClosed,
    DeserializationFailed,
    KshareError,
    ShareConsumer,
    sync,
)
from kshare.engine.events import Acknowledged, Event, Finished, LeaseLost
from kshare.protocol.messages import ShareGroupHeartbeatRequest
from tests.fakes.tiny_cluster import ACCEPTED, ARCHIVED, AVAILABLE, TinyCluster

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


async def test_a_record_is_accepted_when_the_loop_asks_for_the_next() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            if record.offset == 3:
                break

    async with filled(5).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED] * 3 + [AVAILABLE] * 2


async def test_an_exception_releases_the_current_record() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            if record.offset == 1:
                raise RuntimeError("boom")

    async with filled(3).running() as cluster:
        with pytest.raises(RuntimeError, match="boom"):
            await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE, AVAILABLE]


async def test_a_new_loop_continues_after_the_last_record() -> None:
    def work(consumer: sync.ShareConsumer) -> list[int]:
        seen = []
        for until in (1, 4):
            for record in consumer:
                seen.append(record.offset)
                if record.offset == until:
                    record.accept()
                    break
        return seen

    async with filled(5).running() as cluster:
        assert await in_thread(work, cluster) == [0, 1, 2, 3, 4]
        assert cluster.topics["t"].states == [ACCEPTED] * 5


@pytest.mark.lengthy
async def test_all_acknowledgement_types_are_sent_and_confirmed_by_commit() -> None:
    def work(consumer: sync.ShareConsumer) -> list[tuple[int, int]]:
        seen = []
        for record in consumer:
            seen.append((record.offset, record.delivery_count))
            if record.offset == 0:
                record.accept()
            elif record.offset == 1:
                record.reject()
            elif not record.redelivered:
                record.release()
            else:
                record.accept()
                break
        assert consumer.commit() == {("t", 0): None}
        return seen

    async with filled(3).running() as cluster:
        assert await in_thread(work, cluster, acknowledgement="explicit") == [(0, 1), (1, 1), (2, 1), (2, 2)]
        assert cluster.topics["t"].states == [ACCEPTED, ARCHIVED, ACCEPTED]


async def test_an_explicit_acknowledgement_overrides_the_implicit_one() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            if record.offset == 1:
                record.reject()
            if record.offset == 4:
                break

    async with filled(5).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED, ARCHIVED, ACCEPTED, ACCEPTED, AVAILABLE]


async def test_a_new_loop_accepts_only_records_that_it_returned() -> None:
    """Neither records that couldn't be deserialized, nor the record that the previous loop held."""

    def read(data: bytes) -> int:
        if data == b"2":
            raise ValueError
        return int(data)

    def work(consumer: sync.ShareConsumer) -> list[int]:
        seen: list[Any] = [next(iter(consumer)).value]
        with pytest.raises(DeserializationFailed):
            seen += [record.value for record in consumer]
        for record in consumer:
            seen.append(record.value)
            if record.offset == 4:
                break
        return seen

    async with filled(5).running() as cluster:
        assert await in_thread(work, cluster, value_deserializer=read) == [0, 3, 4]
        assert cluster.topics["t"].states == [AVAILABLE, ACCEPTED, AVAILABLE, ACCEPTED, AVAILABLE]


async def test_a_batch_is_accepted_when_the_loop_asks_for_the_next() -> None:
    def work(consumer: sync.ShareConsumer) -> list[list[int]]:
        seen = []
        for batch in consumer.batches():
            seen.append([record.offset for record in batch])
            if len(seen) == 2:
                break
        return seen

    async with filled(6).running() as cluster:
        assert await in_thread(work, cluster, max_records=3) == [[0, 1, 2], [3, 4, 5]]
        assert cluster.topics["t"].states == [ACCEPTED] * 3 + [AVAILABLE] * 3


@pytest.mark.lengthy
async def test_commit_does_not_count_what_no_loop_has_got_as_lost() -> None:
    lost = threading.Event()

    def observe(event: Event) -> None:
        if isinstance(event, LeaseLost):
            lost.set()

    def work(consumer: sync.ShareConsumer) -> str:
        record = next(iter(consumer))
        anyio.from_thread.run(cluster.hang_up)
        assert lost.wait(DEADLINE_S)
        with pytest.raises(AcknowledgeError):
            record.accept()
        return str(next(iter(consumer.commit().values())))

    cluster = filled(6)
    async with cluster.running():
        said = await in_thread(work, cluster, acknowledgement="explicit", observer=observe)
    assert said.startswith("t[0], offset 0: ")


@pytest.mark.lengthy
async def test_batch_that_is_accepted_first_is_processed_all_the_same() -> None:
    def work(consumer: sync.ShareConsumer) -> tuple[list[int], list[int]]:
        batch = consumer.next_batch()
        batch.accept()
        at_once = [record.offset for record in batch]
        consumer.commit()
        return at_once, [record.offset for record in batch]

    async with filled(6).running() as cluster:
        assert await in_thread(work, cluster) == ([*range(6)], [*range(6)])


@pytest.mark.lengthy
async def test_records_are_accepted_from_any_thread() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        threads = []
        for record in consumer:
            threads.append(threading.Thread(target=record.accept))
            threads[-1].start()
            if len(threads) == 50:
                break
        for thread in threads:
            thread.join()
        assert consumer.commit() == {("t", 0): None}

    async with filled(50).running() as cluster:
        await in_thread(work, cluster, acknowledgement="explicit")
        assert cluster.topics["t"].states == [ACCEPTED] * 50


async def test_acknowledgements_are_sent_while_the_thread_processes_the_next_record() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        confirmed = threading.Event()
        cluster_states = cluster.topics["t"].states
        for record in consumer:
            if record.offset == 1:
                for _ in range(10_000):
                    if cluster_states[0] == ACCEPTED:
                        confirmed.set()
                        break
                    threading.Event().wait(0.001)
                break
        assert confirmed.is_set()

    async with filled(2).running() as cluster:
        await in_thread(work, cluster)


@pytest.mark.lengthy
async def test_a_late_acknowledgement_raises_at_once() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            record.accept()
            consumer.commit()
            with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                record.release()
            break
        kept.append(record)

    kept: list[Any] = []
    async with filled(1).running() as cluster:
        await in_thread(work, cluster, acknowledgement="explicit")
    with pytest.raises(AcknowledgeError):
        kept[0].accept()
    kept[0].batch.accept()


async def test_deserializers_run_in_the_users_thread() -> None:
    threads = set()

    def read(data: bytes) -> int:
        threads.add(threading.current_thread())
        if data == b"1":
            raise ValueError
        return int(data)

    def work(consumer: sync.ShareConsumer) -> list[Any]:
        user.append(threading.current_thread())
        seen: list[Any] = []
        while len(seen) < 3:
            try:
                for record in consumer:
                    seen.append(record.value)
                    if len(seen) == 3:
                        record.accept()
                        break
            except DeserializationFailed as failure:
                failure.record.reject()
                seen.append(failure.part)
        return seen

    user: list[threading.Thread] = []
    async with filled(3).running() as cluster:
        assert await in_thread(work, cluster, value_deserializer=read) == [0, "value", 2]
        assert cluster.topics["t"].states == [ACCEPTED, ARCHIVED, ACCEPTED]
    assert threads == set(user)


@pytest.mark.lengthy
async def test_subscriptions_change_and_outcomes_are_reported() -> None:
    outcomes: list[Acknowledged] = []
    events: list[Event] = []

    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            consumer.subscribe(["u"])
            record.accept()
            break
        assert consumer.topics == ("u",)
        consumer.commit()
        for record in consumer:
            assert record.topic == "u"
            break

    async with filled(1).running() as cluster:
        cluster.topics["u"].append(b"u0")
        await in_thread(work, cluster, on_settled=outcomes.append, observer=events.append)
    assert [(outcome.topic, list(outcome.ranges()), outcome.error) for outcome in outcomes[:1]] == [
        ("t", [(0, 0, "accept")], None)
    ]
    assert [event.topic for event in events if isinstance(event, Finished)][:1] == ["t"]


async def test_errors_are_those_of_the_async_consumer(free_tcp_port: int) -> None:
    with pytest.raises(ConfigError, match="did you mean group"):
        sync.ShareConsumer("localhost:9092", gruop="g")  # type: ignore[call-overload]
    unopened = sync.ShareConsumer("localhost:9092", group="g", topics=["t"])
    with pytest.raises(KshareError, match="write `with ShareConsumer"):
        unopened.commit()
    with pytest.raises(KshareError, match="write `with ShareConsumer"):
        next(iter(unopened))

    def reach_nobody() -> None:
        with sync.ShareConsumer(f"127.0.0.1:{free_tcp_port}", group="g", topics=["t"]):
            pass

    with pytest.raises(ConnectionLost, match="refused"):
        await anyio.to_thread.run_sync(reach_nobody)


INTERRUPTED = """
import sys
from kshare import sync
with sync.ShareConsumer(sys.argv[1], group="g", topics=["t"]) as consumer:
    try:
        for record in consumer:
            print("got", record.offset, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    for record in consumer:
        print("got", record.offset, flush=True)
        record.accept()
        break
    for record in consumer:
        print("got", record.offset, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.lengthy
async def test_ctrl_c_interrupts_waiting_and_loses_nothing() -> None:
    """The first interrupts waiting, and the consumer continues. The second interrupts the body and ends the program."""
    async with filled(1).running() as cluster:
        command = [sys.executable, "-W", "error", "-c", INTERRUPTED, cluster.bootstrap]
        with anyio.fail_after(DEADLINE_S):
            async with await anyio.open_process(command, stderr=subprocess.PIPE) as process:
                assert process.stdout is not None
                said = BufferedByteReceiveStream(process.stdout)

                async def line() -> bytes:
                    return await said.receive_until(b"\n", 1000)

                assert await line() == b"got 0"
                while cluster.topics["t"].states[0] != ACCEPTED:  # then it waits for the next record
                    await anyio.sleep(0.01)
                process.send_signal(signal.SIGINT)
                assert await line() == b"interrupted"
                cluster.topics["t"].append(b"1", b"2")
                assert await line() == b"got 1"
                assert await line() == b"got 2"
                process.send_signal(signal.SIGINT)
                await process.wait()
                assert process.stderr is not None
                assert b"KeyboardInterrupt" in await process.stderr.receive()
        assert cluster.asked(ShareGroupHeartbeatRequest)[-1].member_epoch == -1
        assert cluster.topics["t"].states == [ACCEPTED, ACCEPTED, AVAILABLE]


@pytest.mark.lengthy
async def test_any_thread_may_close_and_waiting_threads_raise() -> None:
    told = []

    def work(consumer: sync.ShareConsumer) -> None:
        def wait() -> None:
            try:
                for _ in consumer:
                    pass
            except KshareError as error:
                told.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not consumer._loops.has_loops or not cluster.asked(ShareGroupHeartbeatRequest):
            pass
        closing = [threading.Thread(target=consumer.close) for _ in range(2)]
        for thread in closing:
            thread.start()
        for thread in [*closing, waiting]:
            thread.join()
        consumer.close()
        for late in (consumer.commit, lambda: next(iter(consumer)), lambda: consumer.subscribe(["t"])):
            with pytest.raises(ConsumerClosed, match="group 'g' was closed"):
                late()

    async with filled(0).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.asked(ShareGroupHeartbeatRequest)[-1].member_epoch == -1
    assert [type(error) for error in told] == [ConsumerClosed]


async def test_closing_within_the_loop_releases_the_current_record() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            if record.offset == 1:
                consumer.close()
                with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                    record.accept()
                break

    async with filled(3).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE, AVAILABLE]


async def test_only_one_thread_may_iterate_at_a_time() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        told: list[Any] = []

        def iterate() -> None:
            for ways in (consumer, consumer.batches):
                try:
                    next(iter(ways) if ways is consumer else ways())  # type: ignore[operator]
                except KshareError as error:
                    told.append(str(error))

        for record in consumer:
            if record.offset == 1:
                other = threading.Thread(target=iterate)
                other.start()
                other.join()
                break
        assert len(told) == 2
        assert "only one at a time" in told[0]
        other = threading.Thread(target=lambda: told.append(next(iter(consumer)).offset))
        other.start()
        other.join()
        assert told[2] == 2

    async with filled(4).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states[0] == ACCEPTED
        assert ACCEPTED not in cluster.topics["t"].states[1:]


@pytest.mark.lengthy
async def test_several_threads_may_wait_for_batches() -> None:
    """A second call took the place of the first, which returned None though it had no timeout."""
    total = 300

    def work(consumer: sync.ShareConsumer) -> list[int]:
        def take() -> list[int]:
            found: list[int] = []
            while len(seen) < total:
                batch = consumer.next_batch(timeout=DEADLINE_S)
                if batch is None:
                    raise AssertionError(f"no batch in {DEADLINE_S} s")
                found += [record.offset for record in batch]
                batch.accept()
                seen.update(found)
            return found

        seen: set[int] = set()
        with ThreadPoolExecutor(3) as threads:
            calls = [threads.submit(take) for _ in range(3)]
            while len(seen) < total:
                anyio.from_thread.run_sync(cluster.topics["t"].append, b"x")
                sleep(0.001)
            anyio.from_thread.run_sync(cluster.topics["t"].append, *[b"x"] * 1000)  # ends calls that wait
            return [offset for call in calls for offset in call.result()]

    async with filled(0).running() as cluster:
        seen = await in_thread(work, cluster, acknowledgement="explicit", max_records=5)
    assert len(seen) == len(set(seen)) >= total


@pytest.mark.lengthy
async def test_accepting_a_lost_batch_raises_and_continuing_the_loop_does_not() -> None:
    outcomes: list[Acknowledged] = []

    def work(consumer: sync.ShareConsumer) -> None:
        batches = consumer.batches()
        batch = next(batches)
        holdings = consumer._consumer._holdings
        assert holdings is not None
        anyio.from_thread.run(cluster.hang_up)
        while not holdings.book.commits.losses:
            pass
        with pytest.raises(AcknowledgeError, match=r"t\[0\]@0\.\.1 can no longer be .*: the session"):
            batch.accept()
        assert next(batches).delivery_count == 2
        assert consumer.commit().keys() == {("t", 0)}

    async with filled(2).running() as cluster:
        await in_thread(work, cluster, on_settled=outcomes.append)
    assert [list(outcome.ranges()) for outcome in outcomes if outcome.error] == [[(0, 1, "accept")]]


@pytest.mark.anyio
async def test_close_and_commit_raise_in_observers_even_while_closing() -> None:
    """Observers are called in the event loop that `close` waits for."""
    told: list[str] = []
    consumers: list[sync.ShareConsumer] = []

    def meddle(event: Event) -> None:
        for call in (consumers[0].close, consumers[0].commit) if consumers else ():
            try:
                call()
            except KshareError as error:
                told.append(str(error))

    def work(consumer: sync.ShareConsumer) -> None:
        consumers.append(consumer)
        for record in consumer:
            record.accept()
            break

    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0")
        await in_thread(work, cluster, on_settled=meddle)
        assert cluster.topics["t"].states == [ACCEPTED]
    assert told
    assert all("observers" in text or "was closed" in text for text in told), told


async def test_it_has_the_members_of_the_async_consumer() -> None:
    def public(kind: type[object]) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(sync.ShareConsumer) - {"config"} == public(ShareConsumer)


async def test_next_batch_accepts_nothing_implicitly() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        first = consumer.next_batch(timeout=DEADLINE_S)
        assert first is not None
        assert first.values() == [b"0", b"1"]
        next(iter(first)).accept()
        assert consumer.next_batch(timeout=0.05) is None
        assert consumer.next_batch(timeout=0) is None
        consumer.commit()
        with pytest.raises(ConfigError, match="timeout must be a number of seconds, 0 or more, not -1"):
            consumer.next_batch(timeout=-1)

    async with filled(2).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE]


async def test_a_batch_that_arrives_after_the_timeout_is_returned_next() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        assert consumer.next_batch(timeout=0.05) is None
        anyio.from_thread.run_sync(cluster.topics["t"].append, b"late")
        assert consumer.next_batch().values() == [b"late"]

    async with filled(0).running() as cluster:
        await in_thread(work, cluster)


async def test_next_batch_releases_the_record_of_an_ended_loop_but_not_of_a_running_one() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            assert consumer.next_batch(timeout=0) is None
            record.accept()  # it is still held
            break
        for left in consumer:
            assert left.offset == 1
            break
        again = consumer.next_batch()
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 2)]
        again.accept()

    async with filled(2).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED] * 2


async def test_a_thread_knows_how_long_the_lock_of_a_record_is_valid() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        for record in consumer:
            first = record.lease_deadline
            assert 0 < first - monotonic() <= cluster.lock_ms / 1000
            sleep(0.01)
            record.renew()
            consumer.commit()
            assert first < record.lease_deadline <= monotonic() + cluster.lock_ms / 1000
            break

    async with filled(1).running() as cluster:
        await in_thread(work, cluster)


@pytest.mark.lengthy
async def test_a_pause_that_releases_and_set_max_records() -> None:
    def work(consumer: sync.ShareConsumer) -> None:
        assert consumer.can_renew
        assert consumer.member_id
        with pytest.raises(ConfigError, match="max_records must be between 1 and 1000000, not 0"):
            consumer.set_max_records(0)
        consumer.set_max_records(1)
        for record in consumer:
            record.accept()
            break
        consumer.commit()
        consumer.pause(release=True)
        consumer.commit()
        anyio.from_thread.run_sync(cluster.topics["t"].append, b"more")
        assert consumer.next_batch(timeout=0.05) is None
        consumer.resume()
        consumer.next_batch().accept()

    async with filled(1).running() as cluster:
        await in_thread(work, cluster)
        assert cluster.topics["t"].states == [ACCEPTED, ACCEPTED]


async def test_deserializers_may_be_async() -> None:
    async def read(data: bytes) -> int:
        await anyio.lowlevel.checkpoint()
        if data == b"3":
            raise ValueError
        return int(data)

    def work(consumer: sync.ShareConsumer) -> list[Any]:
        got: list[Any] = []
        for record in consumer:
            got.append(record.value)
            if len(got) == 4:
                record.accept()
                break
        return got

    async with filled(5).running() as cluster:
        assert await in_thread(work, cluster, value_deserializer=read, on_poison="reject") == [0, 1, 2, 4]
        assert cluster.topics["t"].states == [ACCEPTED] * 3 + [ARCHIVED, ACCEPTED]


@pytest.mark.lengthy
async def test_a_call_that_times_out_while_records_are_deserialized_loses_nothing() -> None:
    may_finish = threading.Event()

    async def read(data: bytes) -> int:
        while not may_finish.is_set():
            await anyio.sleep(0.001)
        return int(data)

    def work(consumer: sync.ShareConsumer) -> list[Any]:
        assert consumer.next_batch(timeout=0.1) is None
        assert consumer.next_batch(timeout=0.1) is None
        may_finish.set()
        return [record.value for _, record in zip(range(5), consumer, strict=False)]

    async with filled(5).running() as cluster:
        assert await in_thread(work, cluster, value_deserializer=read) == [0, 1, 2, 3, 4]
