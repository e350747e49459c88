"""Forwarded bytes are inspected in order and completely, and stay unchanged while they are inspected."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from random import Random

import anyio
import pytest

from kshare.trace.inspection_queue import InspectionQueue
from kshare.trace.socket_loop import READABLE, SocketLoop


@pytest.fixture
def pump() -> Iterator[SocketLoop]:
    made = SocketLoop()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


class Seen:
    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.times: list[float] = []

    def see(self, data: memoryview, time: float) -> None:
        self.pieces.append(data)
        self.times.append(time)


def passed(pump: SocketLoop, pair: tuple[socket.socket, socket.socket], data: bytes) -> int:
    here, there = pair
    there.sendall(data)
    received = pump.unseen.receive(here)
    assert received == data
    return len(received)


def test_consecutive_pieces_are_inspected_as_one(
    pump: SocketLoop, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = iter([1.0, 1.0004, 1.0008, 5.0])
    monkeypatch.setattr("kshare.trace.inspection_queue.time", lambda: next(at))
    seen = Seen()
    see = seen.see
    for piece in (b"ab", b"cde", b"f", b"late"):
        pump.unseen.add(see, passed(pump, pair, piece))
    assert seen.pieces == []
    pump.look()
    assert seen.pieces == [b"abcdef", b"late"]
    assert seen.times == [1.0008, 5.0]


def test_requests_and_responses_are_inspected_in_order(
    pump: SocketLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    order: list[tuple[str, bytes]] = []

    def asked(data: memoryview, time: float) -> None:
        order.append(("asked", bytes(data)))

    def responded(data: memoryview, time: float) -> None:
        order.append(("answered", bytes(data)))

    for see, data in (
        (asked, b"1?"),
        (responded, b"1!"),
        (responded, b"!"),
        (asked, b"2?"),
        (responded, b"2!"),
    ):
        pump.unseen.add(see, passed(pump, pair, data))
    pump.look()
    assert b"".join(data for kind, data in order if kind == "asked") == b"1?2?"
    assert [kind for kind, _ in order] == ["asked", "answered", "asked", "answered"]
    assert order[1] == ("answered", b"1!!")


@pytest.mark.lengthy
def test_bytes_in_use_are_not_overwritten(
    pump: SocketLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    random, seen = Random(3), Seen()
    see = seen.see
    said = [random.randbytes(random.choice([10, 1_000, 60_000, 100_000])) for _ in range(300)]
    for data in said:
        pump.unseen.add(see, passed(pump, pair, data))
    pump.look()
    assert b"".join(seen.pieces) == b"".join(said)


@pytest.mark.anyio
async def test_forwarding_has_priority_over_inspection(
    pump: SocketLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    """As long as data keeps arriving, nothing is inspected; afterwards, everything is."""
    here, there = pair
    seen, passed_on, seen_by_then = Seen(), bytearray(), -1
    see = seen.see

    def on_ready(events: int) -> None:
        nonlocal seen_by_then
        data = pump.unseen.receive(here)
        passed_on.extend(data)
        pump.unseen.add(see, len(data))
        if len(passed_on) < 500:
            there.send(b"x")
        else:
            seen_by_then = len(seen.pieces)

    pump.watch(here, READABLE, on_ready)
    there.send(b"x")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump.run)
            while sum(map(len, seen.pieces)) < 500:
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    pump.forget(here)
    assert seen_by_then == 0
    assert b"".join(seen.pieces) == passed_on


def test_bytes_waiting_for_inspection_are_bounded(pair: tuple[socket.socket, socket.socket]) -> None:
    """Nothing is inspected until the limit is reached."""
    unseen, seen = InspectionQueue(), Seen()
    here, there = pair
    see, count = seen.see, 0
    while not unseen.is_too_much:
        there.sendall(b"x" * 100_000)
        unseen.add(see, len(unseen.receive(here)))
        count += 1
    assert 32 * 2**20 <= count * 100_000 < 33 * 2**20
    unseen.look()
    assert not unseen.is_too_much
