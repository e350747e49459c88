"""What isn't a frame is never taken for one."""

from __future__ import annotations

import io

import pytest

from kshare.worker.functions.process_frames import FrameError, read_frame, write_frame


def test_frames_are_read_as_they_were_written() -> None:
    stream = io.BytesIO()
    write_frame(stream, 1, b"first")
    write_frame(stream, 2, b"")
    stream.seek(0)
    assert [read_frame(stream) for _ in range(3)] == [(1, b"first"), (2, b""), None]


def test_what_was_printed_is_no_frame() -> None:
    with pytest.raises(FrameError, match="it begins with"):
        read_frame(io.BytesIO(b"printed by another program\n" * 9))


@pytest.mark.parametrize("size", [1, 23, 24, 26])
def test_a_frame_that_is_cut_off_is_none(size: int) -> None:
    stream = io.BytesIO()
    write_frame(stream, 1, b"first")
    with pytest.raises(FrameError, match="it ends in the middle"):
        read_frame(io.BytesIO(stream.getvalue()[:size]))
