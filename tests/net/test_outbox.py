"""The order in which frames leave: whole, whatever the system takes at once."""

from __future__ import annotations

from typing import cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshare.net.outbox import Outbox
from kshare.net.tcp import TcpStream


class Narrow:
    """Takes so many bytes at once, and all of them from who waits."""

    def __init__(self, buffer: int) -> None:
        self.buffer = buffer
        self.sent = b""

    def send_now(self, item: bytes | memoryview) -> memoryview:
        taken = min(self.buffer, len(item))
        self.buffer -= taken
        self.sent += bytes(item[:taken])
        return memoryview(item)[taken:]

    async def send(self, item: bytes | memoryview) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent += bytes(item)


def made(buffer: int) -> tuple[Narrow, Outbox]:
    stream = Narrow(buffer)
    return stream, Outbox(cast("TcpStream", stream))


async def finish(outbox: Outbox) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run)
        while not outbox.is_free:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_what_does_not_leave_at_once_leaves_behind_what_was_put_before() -> None:
    stream, outbox = made(5)
    outbox.put(b"abc")
    assert outbox.is_free
    outbox.put(b"def")
    assert stream.sent == b"abcde"
    assert not outbox.is_free
    stream.buffer = 100
    outbox.put(b"ghi")
    assert stream.sent == b"abcde", "not into the middle of another"
    await finish(outbox)
    assert stream.sent == b"abcdefghi"
    assert outbox.is_free
    outbox.put(b"jkl")
    assert stream.sent == b"abcdefghijkl"


@pytest.mark.anyio
async def test_only_what_has_not_begun_to_leave_can_be_taken_back() -> None:
    stream, outbox = made(1)
    outbox.put(b"abc")
    outbox.put(b"def")
    outbox.put(b"ghi")
    assert not outbox.withdraw(b"abc")
    assert outbox.withdraw(b"def")
    assert not outbox.withdraw(b"def")
    await finish(outbox)
    assert stream.sent == b"abcghi"
    assert not outbox.withdraw(b"abc")
    assert not outbox.is_partly_sent(b"abc")


def test_while_it_is_reserved_others_wait() -> None:
    stream, outbox = made(100)
    outbox.reserve()
    assert not outbox.is_free
    outbox.put(b"later ")
    outbox.put(b"never")
    outbox.put(b"now ", is_reserved=True)
    assert outbox.withdraw(b"never")
    assert stream.sent == b"now "
    outbox.release()
    assert stream.sent == b"now later "
    assert outbox.is_free


@pytest.mark.anyio
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 40), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8))
async def test_every_frame_leaves_whole_and_in_order(buffer: int, frames: list[tuple[bool, bool]]) -> None:
    stream, outbox = made(buffer)
    left = b""
    for number, (is_taken_back, pauses) in enumerate(frames):
        frame = b"%03d " % number
        outbox.put(frame)
        if not (is_taken_back and outbox.withdraw(frame)):
            left += frame
        if pauses:
            await finish(outbox)
    await finish(outbox)
    assert stream.sent == left
