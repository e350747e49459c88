"""Passwords aren't written, whatever their frames look like."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest

from kshare.cli.trace.capture_writer import TrafficCapture
from kshare.traffic import Frame
from kshare.traffic.exchange import Connection

PASSWORD = b"correct horse battery"
TOKEN = b"\0alice\0" + PASSWORD
HERE = Connection(1, "127.0.0.1:1000", "127.0.0.1:9092")


def head(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 9, 2) + b"me"


def login(version: int) -> bytes:
    return head(36, version) + b"\0" + bytes([len(TOKEN) + 1]) + TOKEN + b"\0"


HANDSHAKE = (head(17, 0) + b"\0\x05PLAIN", 17, 0)
METADATA = (head(3, 1) + b"\xff\xff\xff\xff", 3, 1)


def written(*frames: tuple[bytes, int, int]) -> bytes:
    """Requests: bytes, API key and version, as they were recognized."""
    file = BytesIO()
    connection = TrafficCapture(file).connect(("127.0.0.1", 1000), ("127.0.0.1", 9092), 0.0)
    for data, key, version in frames:
        connection.frame(Frame(HERE, True, 0.0, memoryview(data), key, version))
    return file.getvalue()


@pytest.mark.parametrize(
    "frames",
    [
        [(login(2), 36, 2)],
        [(login(32), 36, 32)],
        [(login(200), -1, 0)],
        [HANDSHAKE, (TOKEN, -1, 0)],
    ],
    ids=["known", "version 32", "version 200", "raw token before the response"],
)
def test_passwords_are_masked(frames: list[tuple[bytes, int, int]]) -> None:
    capture = written(*frames)
    assert PASSWORD[:8] not in capture
    assert b"*" * len(PASSWORD) in capture


def test_what_is_no_token_is_written() -> None:
    capture = written(HANDSHAKE, METADATA, (b"something else", -1, 0))
    assert METADATA[0] in capture
    assert b"something else" in capture
