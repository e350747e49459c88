"""When user code has caught an error, its frames are freed at once, and loops that it has left there end."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from kshare import DeserializationFailed, KshareError, sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import EndTxnRequest, ProduceRequest
from kshare.sync.shared_loop import SharedLoop
from kshare.sync.signals import finish
from kshare.testing import Broker

pytestmark = pytest.mark.usefixtures("without_collector", "on_signal")


class Interrupted(BaseException):
    """Raised by a signal handler."""


class Variable:
    """Of a frame."""


class User:
    def on_taken(self) -> None: ...

    def on_run(self) -> None: ...

    def on_free(self) -> None: ...


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def on_signal() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def loop() -> Iterator[SharedLoop]:
    made = SharedLoop(User())
    yield made
    made.close()


def is_freed(function: Callable[[], object], kind: type[BaseException]) -> bool:
    """Whether the frame that has called the function is, once the error is caught."""

    def call() -> None:
        variable = Variable()
        variables.append(weakref.ref(variable))
        function()

    variables: list[weakref.ref[Variable]] = []
    with pytest.raises(kind):
        call()
    return variables[0]() is None


async def fail() -> None:
    raise KshareError("failed")


async def signal_itself() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def interrupt() -> None:
    raise Interrupted


def test_an_error_of_a_call(loop: SharedLoop) -> None:
    assert is_freed(lambda: loop.run(fail), KshareError)


def test_a_signal_handler_that_raises(loop: SharedLoop) -> None:
    assert is_freed(lambda: loop.run(signal_itself), Interrupted)


def test_a_signal_handler_that_raises_while_a_client_is_closed() -> None:
    assert is_freed(lambda: finish(interrupt), Interrupted)


def test_an_exception_that_is_thrown_into_a_callback(loop: SharedLoop) -> None:
    assert is_freed(lambda: loop.take_turn(interrupt), Interrupted)


@pytest.mark.parametrize("way", ["send", "flush", "transaction"])
def test_a_record_that_is_not_written(kshare_broker: Broker, way: str) -> None:
    kshare_broker.create_topic("t", 1)
    kshare_broker.faults.add(ProduceRequest, times=None, error=ErrorCode.INVALID_RECORD)
    options: Any = {"transactional_id": "tx"} if way == "transaction" else {}
    producer = sync.Producer(kshare_broker.bootstrap, **options)

    def write() -> None:
        if way == "send":
            producer.send("t", b"1")
        elif way == "flush":
            producer.enqueue("t", b"1")
            producer.flush()
        else:
            with producer.transaction():
                producer.enqueue("t", b"1")

    with producer:
        assert is_freed(write, KshareError)


def test_a_transaction_that_cannot_be_committed(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("t", 1)
    refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    kshare_broker.faults.add(EndTxnRequest, times=None, error=refusal)

    def write() -> None:
        with producer.transaction():
            producer.enqueue("t", b"1")

    with sync.Producer(kshare_broker.bootstrap, transactional_id="tx") as producer:
        assert is_freed(write, KshareError)


def test_a_record_that_cannot_be_deserialized(kshare_broker: Broker) -> None:
    """Neither of the loop that raises, nor of one around it."""
    kshare_broker.create_topic("t", 1)
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("t", [b"1", b"2", b"x"])
    with sync.ShareConsumer(
        kshare_broker.bootstrap, group="g", topics=["t"], value_deserializer=int
    ) as consumer:

        def loop_twice() -> None:
            for _ in consumer:
                for _ in consumer:
                    pass

        assert is_freed(loop_twice, DeserializationFailed)
