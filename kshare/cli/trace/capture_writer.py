"""Writes the traffic of a proxy as a capture in which clients and brokers are connected directly.

Credentials are replaced by asterisks; everything else is written as it is.
"""

from __future__ import annotations

from typing import BinaryIO

from kshare.capture import CaptureWriter
from kshare.dissect import dissect_request, dissect_response
from kshare.traffic import Frame
from kshare.wire.masking import begins_raw_tokens, hide_plausible, holds_secrets, mask

_SIZE_BYTES = 4


class TrafficCapture:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer = CaptureWriter(file.write)

    def connect(self, client: tuple[str, int], server: tuple[str, int], time: float) -> CapturedConnection:
        return CapturedConnection(self._file, self._writer, client, server, time)


class CapturedConnection:
    def __init__(
        self,
        file: BinaryIO,
        writer: CaptureWriter,
        client: tuple[str, int],
        server: tuple[str, int],
        time: float,
    ) -> None:
        self._file = file
        self._written = writer.connect(client, server, time)
        self._takes_tokens = False

    def frame(self, frame: Frame) -> None:
        if frame.is_request and frame.api_key >= 0:
            self._takes_tokens = begins_raw_tokens(frame.api_key, frame.version)
        # What nobody recognizes after that is a token, whatever the broker has responded.
        is_token = frame.is_token or (self._takes_tokens and frame.api_key < 0)
        masked = b"*" * len(frame.data) if is_token else _masked(frame)
        data = b"".join((len(frame.data).to_bytes(_SIZE_BYTES, "big"), masked))
        send = self._written.client_sends if frame.is_request else self._written.server_sends
        send(data, frame.time)

    def close(self, time: float, *, by_client: bool) -> None:
        self._written.close(time, by_client=by_client)
        self._file.flush()


def _masked(frame: Frame) -> bytes | bytearray | memoryview:
    if frame.api_key >= 0 and not holds_secrets(frame.api_key):
        return frame.data
    data = bytearray(frame.data)
    if frame.api_key < 0:  # what it is isn't known
        hide_plausible(data)
        return data
    if frame.is_request:
        reading = dissect_request(data, is_sized=False)
    else:
        reading = dissect_response(data, frame.api_key, frame.version, is_sized=False)
    mask(reading, data)
    return data
