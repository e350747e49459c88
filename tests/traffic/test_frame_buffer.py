"""Frames that arrive in pieces reuse a buffer, but never one that is still in use."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from kshare.traffic.frame_buffer import FrameBuffer
from tests.helpers.framing import framed


@given(
    st.lists(st.binary(max_size=40), max_size=8),
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.sets(st.integers(0, 7)),
)
def test_frames_in_use_are_not_overwritten(bodies: list[bytes], cuts: list[int], kept: set[int]) -> None:
    stream, splitter, at = framed(*bodies), FrameBuffer(), 0
    seen: list[bytes] = []
    held: list[tuple[memoryview, bytes]] = []
    for size in [*cuts, len(stream)]:
        for frame in splitter.feed(stream[at : at + size]):
            if len(seen) in kept:
                held.append((frame, bytes(frame)))
            seen.append(bytes(frame))
        at += size
    assert seen == bodies
    assert all(frame == copy for frame, copy in held)


def test_buffer_is_reused_when_no_frame_uses_it() -> None:
    splitter = FrameBuffer()
    places = []
    for body in (b"first" * 10, b"second" * 5, b"third" * 8):
        stream = framed(body)
        assert list(splitter.feed(stream[:9])) == []
        (frame,) = splitter.feed(stream[9:])
        assert frame == body
        places.append(frame.obj)
        del frame
    assert places[0] is places[1] is places[2]


def test_frame_in_one_piece_is_not_copied() -> None:
    stream = framed(b"abc")
    (frame,) = FrameBuffer().feed(stream)
    assert frame.obj is stream


def test_memory_is_not_allocated_for_a_size_alone() -> None:
    announced = (4 * 1024 * 1024).to_bytes(4, "big") + b"x"
    tracemalloc.start()
    splitters = [FrameBuffer() for _ in range(10)]
    for splitter in splitters:
        assert list(splitter.feed(announced)) == []
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 100_000


def test_buffer_is_reused_for_large_frames_once_one_has_arrived() -> None:
    splitter = FrameBuffer()
    places = []
    for _ in range(3):
        stream = framed(bytes(100_000))
        assert list(splitter.feed(stream[:9])) == []
        (frame,) = splitter.feed(stream[9:])
        places.append(frame.obj)
        del frame
    assert places[1] is places[2]
