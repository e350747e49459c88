"""How calls and outcomes are written on the pipes of another process: each with a number that the outcome repeats.

A process has these descriptors for itself. What comes from elsewhere all the same has no such number.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

_HEAD = struct.Struct(">8sQQ")
_MARK = b"kshare\x00\x01"


class FrameError(Exception):
    """What was read isn't the next frame."""


def write_frame(stream: BinaryIO, number: int, content: bytes) -> None:
    stream.write(_HEAD.pack(_MARK, number, len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[int, bytes] | None:
    """The next number and its content; None at the end. Raises FrameError."""
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise FrameError("it ends in the middle")
    mark, number, size = _HEAD.unpack(head)
    if mark != _MARK:
        raise FrameError(f"it begins with {head[:16]!r}")
    content = stream.read(size)
    if len(content) < size:
        raise FrameError("it ends in the middle")
    return number, content
