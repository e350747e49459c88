"""Connections of a worker process: they are shared, limited in number, and never inherited by a fork."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe

import pytest

from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.errors import ConnectionLost
from kshare.net.settings import NetSettings
from kshare.spark.executor import connections as module
from kshare.spark.executor.connections import Connections, close_connections, connections
from kshare.testing import Broker


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    close_connections()


def settings(client_id: str, bootstrap: str = "127.0.0.1:9") -> NetSettings:
    return NetSettings.parse(bootstrap, client_id=client_id)


def first_offset(shared: Connections) -> int:
    place = ("orders", 0)
    return shared.submit(log_offsets, shared.router, [place], EARLIEST).result(60)[place]


def test_equal_settings_share_connections_and_the_oldest_are_closed_at_a_limit() -> None:
    first = connections(settings("0"))
    assert connections(settings("0")) is first
    others = [connections(settings(str(number))) for number in range(1, 5)]
    assert len({id(other) for other in others}) == 4
    assert connections(settings("0")) is not first
    with pytest.raises(RuntimeError):
        first.submit(log_offsets, first.router, [], EARLIEST)


@pytest.mark.lengthy
def test_a_broker_that_restarts_is_reached() -> None:
    with Broker() as broker:
        broker.stop_node(1)
        starting = threading.Timer(0.5, broker.start_node, [1])
        starting.start()
        connections(settings("late", broker.bootstrap)).reach()
        starting.join()


@pytest.mark.lengthy
def test_reaching_nobody_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much sooner than a request that is retried."""
    monkeypatch.setattr(module, "_REACH_S", 0.5)
    began = time.monotonic()
    with pytest.raises(ConnectionLost, match=r"can't reach 127\.0\.0\.1:9"):
        connections(settings("nobody")).reach()
    assert time.monotonic() - began < 5


def _in_child(bootstrap: str, pipe: Pipe) -> None:
    pipe.send(first_offset(connections(settings("forked", bootstrap))))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_opens_its_own_connections() -> None:
    """Spark's daemon forks its workers, and may have read something itself."""
    with Broker(topics={"orders": 1}) as broker:
        mine = connections(settings("forked", broker.bootstrap))
        assert first_offset(mine) == 0
        forking = multiprocessing.get_context("fork")
        here, there = forking.Pipe()
        child = forking.Process(target=_in_child, args=(broker.bootstrap, there))
        child.start()
        assert here.poll(60)
        assert here.recv() == 0
        child.join(60)
        assert child.exitcode == 0
        assert first_offset(mine) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_closes_nothing_of_its_parents() -> None:
    """It has no thread to do so. Only the module refers to these connections, so garbage collection might try."""
    connections(settings("parent"))
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    try:
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
