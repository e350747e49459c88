"""Real TCP on the loopback interface, captured by libpcap: the reassembled bytes are those that were sent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshare.capture import CaptureReader, Closed, MissingBytes, ReceivedBytes, Streams, segment_of
from kshare.capture.tcp_connection import TcpEvent
from tests.capture.loopback import captured

pytestmark = pytest.mark.captures

QUESTION, RESPONSE = b"question" * 5_000, bytes(range(256)) * 8_000


@pytest.mark.lengthy
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_captured_streams_equal_the_sent_bytes(
    tmp_path: Path, family: socket.AddressFamily, host: str
) -> None:
    path = tmp_path / "loopback.pcap"
    with socket.create_server((host, 0), family=family) as listening:
        port = listening.getsockname()[1]
        with captured(path, port):
            client = converse(listening)
    streams = {0: b"", 1: b""}
    ends = []
    for event in events_of(path):
        match event:
            case ReceivedBytes(link, side, data):
                assert link.opener == 0
                assert link.name(1 - side).endswith(f":{client if side else port}")
                streams[side] += data
            case MissingBytes():
                raise AssertionError(event)
            case _:
                ends.append(event.link.number)
    assert streams == {0: QUESTION, 1: RESPONSE}
    assert ends == [1]


def test_bytes_beyond_the_snapshot_length_are_reported_missing(tmp_path: Path) -> None:
    path = tmp_path / "loopback.pcap"
    with socket.create_server(("127.0.0.1", 0)) as listening, captured(path, listening.getsockname()[1], 100):
        converse(listening)
    sizes = {ReceivedBytes: 0, MissingBytes: 0, Closed: 0}
    for event in events_of(path):
        sizes[type(event)] += (
            len(event.data) if isinstance(event, ReceivedBytes) else getattr(event, "size", 0)
        )
    assert sizes[ReceivedBytes] + sizes[MissingBytes] == len(QUESTION) + len(RESPONSE)
    assert 0 < sizes[ReceivedBytes] < 10_000


def converse(listening: socket.socket) -> int:
    """Exchange data over a connection; returns the client's port."""
    address = listening.getsockname()[:2]
    with socket.create_connection(address) as client:
        accepted, _ = listening.accept()
        with accepted:
            port: int = client.getsockname()[1]
            client.sendall(QUESTION)
            receive(accepted, len(QUESTION))
            for at in range(0, len(RESPONSE), 50_000):
                accepted.sendall(RESPONSE[at : at + 50_000])
                receive(client, len(RESPONSE[at : at + 50_000]))
    return port


def receive(sock: socket.socket, size: int) -> None:
    while size:
        size -= len(sock.recv(size))


def events_of(path: Path) -> Iterator[TcpEvent]:
    reader, streams = CaptureReader(), Streams()
    for packet in reader.feed(path.read_bytes()):
        segment = segment_of(packet)
        assert segment is not None
        yield from streams.feed(segment, packet.time)
    reader.finish()
    yield from streams.finish(0.0)
