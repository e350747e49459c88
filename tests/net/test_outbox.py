"""The outbox: frames are sent whole and in order, however many bytes the system accepts at once."""

from __future__ import annotations

from typing import cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshare.net.outbox import Outbox
from kshare.net.tcp import TcpStream


class Narrow:
    """A stream that accepts a limited number of bytes immediately, and all bytes from callers that wait."""

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
async def test_rest_of_a_frame_is_sent_before_later_frames() -> None:
    stream, outbox = made(5)
    outbox.put(b"abc")
    assert outbox.is_free
    outbox.put(b"def")
    assert stream.sent == b"abcde"
    assert not outbox.is_free
    stream.buffer = 100
    outbox.put(b"ghi")
    assert stream.sent == b"abcde", "a frame must not be sent in the middle of another"
    await finish(outbox)
    assert stream.sent == b"abcdefghi"
    assert outbox.is_free
    outbox.put(b"jkl")
    assert stream.sent == b"abcdefghijkl"


@pytest.mark.anyio
async def test_only_unsent_frames_can_be_withdrawn() -> None:
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


def test_other_frames_wait_while_it_is_reserved() -> None:
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


@pytest.mark.lengthy
@pytest.mark.anyio
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 40), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8))
async def test_frames_are_sent_whole_and_in_order(buffer: int, frames: list[tuple[bool, bool]]) -> None:
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
