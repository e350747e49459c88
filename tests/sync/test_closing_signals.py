"""Notifier handlers that close a client, or raise, while it is opened, used or closed already."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from kshare import KshareError, sync
from kshare.sync import producer
from kshare.testing import Broker

Client = sync.ShareConsumer[Any] | sync.Producer
OPENING, CLOSING = ("__enter__", "_open"), ("close", "_close")


class Interrupted(BaseException):
    """Raised by a signal handler."""


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("t", 1)
    return kshare_broker


def new_consumer(broker: Broker) -> sync.ShareConsumer[Any]:
    return sync.ShareConsumer(broker.bootstrap, group="g", topics=["t"])


def new_producer(broker: Broker) -> Client:
    return sync.Producer(broker.bootstrap)


def close_it(client: Client) -> None:
    client.close()


def close_it_and_raise(client: Client) -> None:
    client.close()
    raise Interrupted


@pytest.fixture
def handle() -> Iterator[list[Callable[[], None]]]:
    """What is called when the signal arrives."""
    called: list[Callable[[], None]] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: called[-1]())
    yield called
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.lengthy
@pytest.mark.parametrize("act", [close_it, close_it_and_raise])
@pytest.mark.parametrize("step", [OPENING, CLOSING])
@pytest.mark.parametrize("new_client", [new_consumer, new_producer])
def test_a_client_may_be_closed_at_any_line_of_opening_and_closing(
    broker: Broker,
    new_client: Callable[[Broker], Client],
    step: tuple[str, ...],
    act: Callable[[Client], None],
    handle: list[Callable[[], None]],
) -> None:
    """Python calls the handler between two lines of the thread that opens or closes."""
    line, was_called = 0, True
    while was_called:
        line, was_called, client = line + 1, False, new_client(broker)

        def on_signal(client: Client = client) -> None:
            nonlocal was_called
            was_called = True
            act(client)

        handle.append(on_signal)
        live(client, line, step)
        assert not [thread for thread in threading.enumerate() if thread.name == "kshare client"], line
        assert client not in producer._open, line
    assert line > 8, "it has more lines than that"


def live(client: Client, line: int, step: tuple[str, ...]) -> None:
    """Open and close it. The signal arrives at a line of the functions that are called so."""
    left = line
    codes = {
        getattr(member, "__code__", None)
        for kind in type(client).__mro__
        for name, member in vars(kind).items()
        if name in step
    }

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code not in codes:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGUSR1)
        return trace

    is_open = False
    try:
        sys.settrace(trace)
        with client:
            is_open = True
    except Interrupted:
        client.close()  # where `with` has just opened it, no Python code can help
    except KshareError as error:
        assert not is_open
        assert "closed" in str(error) or "isn't open" in str(error)
    finally:
        sys.settrace(None)
