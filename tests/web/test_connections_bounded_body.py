"""Bodies have bounds for the number of their parts, and for what is around the data."""

from __future__ import annotations

import h11
import pytest

from kshare.web.connections import BoundedConnection

_CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
_EXTENDED = b"1;" + 60_000 * b"e" + b"\r\nx\r\n"


def data_in(pieces: list[bytes]) -> int:
    """Bytes of data, read as a server reads."""
    connection, found = BoundedConnection(), 0
    for piece in pieces:
        connection.receive_data(piece)
        while (event := connection.next_event()) is not h11.NEED_DATA:
            found += len(event.data) if isinstance(event, h11.Data) else 0
            if isinstance(event, h11.EndOfMessage):
                return found
    return found


def chunk(size: int) -> bytes:
    return b"%x\r\n%s\r\n" % (size, size * b"x")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("pieces", "size"),
    [
        ([_CHUNKED, 100 * chunk(1), b"0\r\n\r\n"], 100),
        ([_CHUNKED, *(50 * [1000 * chunk(100)]), b"0\r\n\r\n"], 5_000_000),
        ([_CHUNKED + 20 * chunk(100_000) + b"0\r\n\r\n"], 2_000_000),
        (
            [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n", *(5000 * [1000 * b"x"])],
            5_000_000,
        ),
    ],
    ids=["few small chunks", "many chunks", "large chunks", "announced"],
)
def test_usual_bodies_are_read(pieces: list[bytes], size: int) -> None:
    assert data_in(pieces) == size


@pytest.mark.parametrize(
    "pieces",
    [
        [_CHUNKED, 1000 * chunk(1)],
        [_CHUNKED, *(1000 * [chunk(1)])],
        [_CHUNKED, *(100 * [_EXTENDED])],
        [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", *(1000 * [b"x"])],
    ],
    ids=["tiny chunks", "one by one", "long extensions", "tiny segments"],
)
def test_bodies_with_little_in_them_are_refused(pieces: list[bytes]) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        data_in(pieces)
