"""The producer for blocking code, with an embedded broker."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from types import FrameType
from typing import Any

import anyio
import pytest

import kshare.sync
from kshare import BrokerError, ConnectionLost, DeliveryFailed, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from tests.helpers.committed import committed


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 1)
    return kshare_broker


def written(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


def test_send_enqueue_and_flush(broker: Broker) -> None:
    with kshare.sync.Producer(broker.bootstrap) as producer:
        assert producer.send("orders", b"one").offset == 0
        sends = [producer.enqueue("orders", b"%d" % number) for number in range(500)]
        assert sends[0].result().offset == 1
        producer.flush()
        assert all(send.is_done for send in sends)
        producer.enqueue("orders", b"last")
    assert written(broker)[-1] == b"last"
    with pytest.raises(KshareError, match="the producer was closed: open another one to continue"):
        producer.send("orders", b"two")


def test_producer_must_be_open(broker: Broker) -> None:
    with pytest.raises(KshareError, match="the producer isn't open: use it with `with`"):
        kshare.sync.Producer(broker.bootstrap).send("orders", b"one")


@pytest.mark.lengthy
def test_several_threads_use_a_producer(broker: Broker) -> None:
    def work(name: int) -> None:
        for number in range(50):
            producer.send("orders", b"%d %d" % (name, number))

    with kshare.sync.Producer(broker.bootstrap, linger=0) as producer:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = written(broker)
    assert len(values) == 200
    for name in range(4):
        own = [value for value in values if value and value.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, number) for number in range(50)]


@pytest.mark.lengthy
def test_all_threads_that_close_it_return_when_the_records_are_written(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, before_ms=300)
    found: list[object] = []
    producer = kshare.sync.Producer(broker.bootstrap)

    def close() -> None:
        try:
            producer.close()
            found.append(len(written(broker)))
        except BaseException as error:
            found.append(error)

    with producer:
        for number in range(100):
            producer.enqueue("orders", b"%d" % number)
        threads = [threading.Thread(target=close) for _ in range(3)]
        for thread in threads:
            thread.start()
    assert len(written(broker)) == 100
    for thread in threads:
        thread.join()
    assert found == [100] * 3


@pytest.mark.lengthy
def test_transactions(broker: Broker) -> None:
    def abort() -> None:
        with producer.transaction():
            producer.send("orders", b"b")
            raise ZeroDivisionError

    with kshare.sync.Producer(broker.bootstrap, transactional_id="shop") as producer:
        with producer.transaction():
            producer.enqueue("orders", b"a")
        with pytest.raises(ZeroDivisionError):
            abort()
        broker.faults.add(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        with pytest.raises(BrokerError, match="INVALID_RECORD"), producer.transaction():
            producer.enqueue("orders", b"c")
    assert anyio.run(committed, broker.bootstrap, "orders") == [b"a"]


@pytest.mark.lengthy
def test_errors_at_the_end(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, times=None, swallow=True)
    with (
        pytest.raises(DeliveryFailed, match="the producer was closed"),
        kshare.sync.Producer(broker.bootstrap, close_timeout=0.2) as producer,
    ):
        producer.enqueue("orders", b"one")

    def fail() -> None:
        with kshare.sync.Producer(broker.bootstrap, close_timeout=0.2) as producer:
            producer.enqueue("orders", b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_broker_out_of_reach() -> None:
    with pytest.raises(ConnectionLost), kshare.sync.Producer("localhost:1", request_timeout=0.5):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "kshare client"]


def test_each_thread_is_told_of_its_records_by_flush(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.INVALID_RECORD)
    enqueued, told = threading.Barrier(2), list[int]()

    def work(name: int) -> None:
        producer.enqueue("orders", b"%d" % name)
        enqueued.wait()
        try:
            producer.flush()
        except BrokerError:
            told.append(name)
        producer.flush()

    with kshare.sync.Producer(broker.bootstrap) as producer:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [0, 1]


def test_a_producer_that_was_interrupted_while_it_was_created_is_deleted_in_silence() -> None:
    kshare.sync.Producer.__new__(kshare.sync.Producer).__del__()


class Interrupted(BaseException):
    """Raised by a signal handler."""


@pytest.mark.lengthy
@pytest.mark.parametrize("step", ["__enter__", "close"])
def test_an_interrupt_at_any_line_of_opening_and_closing_leaves_nothing_open(
    broker: Broker, step: str
) -> None:
    """Not even once it has connected, or before it has begun to close."""
    line, was_interrupted = 0, True
    while was_interrupted:
        line += 1
        was_interrupted = interrupt_at(line, step, broker)
        assert not [thread for thread in threading.enumerate() if thread.name == "kshare client"], line
    assert line > 4, "it has more lines than that"


def interrupt_at(line: int, step: str, broker: Broker) -> bool:
    """Whether there was such a line. The end of `__enter__` is none: no `with` could help there."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code is not vars(kshare.sync.Producer)[step].__code__:
            return None
        if event == "line":
            left -= 1
            source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if left == 0 and source != "return self":
                signal.raise_signal(signal.SIGUSR1)
        return trace

    def handle(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handle)
    sys.settrace(trace)
    try:
        with kshare.sync.Producer(broker.bootstrap):
            pass
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGUSR1, before)
    return False
