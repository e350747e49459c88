"""Captures of conversations that tests make up."""

from __future__ import annotations

from kshare.capture import CaptureWriter
from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse

CLIENT, BROKER = ("10.0.0.1", 50_000), ("10.0.0.2", 9092)


def written(exchanges: list[tuple[bytes, bytes]]) -> bytes:
    """A capture of one connection."""
    chunks: list[bytes] = []
    writer = CaptureWriter(chunks.append)
    connection = writer.connect(CLIENT, BROKER, 1.0)
    for number, (request, response) in enumerate(exchanges):
        connection.client_sends(request, 1.0 + number)
        connection.server_sends(response, 1.5 + number)
    connection.close(2.0 + len(exchanges))
    return b"".join(chunks)


def fetches(*epochs: int) -> list[tuple[bytes, bytes]]:
    return [
        (
            bytes(encode_request(ShareFetchRequest("orders", "member", epoch), 2, number, "me")),
            bytes(encode_response(ShareFetchResponse(acquisition_lock_timeout_ms=30_000), 2, number)),
        )
        for number, epoch in enumerate(epochs)
    ]
