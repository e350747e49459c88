"""Finds the client of a connection whose beginning was not seen: the side that sends requests.

Goes by whole requests where possible: a response can begin like a request by chance, but can't be decoded as one to its
last byte.
"""

from __future__ import annotations

from kshare.errors import KshareError
from kshare.protocol.envelopes import decode_request
from kshare.protocol.frames import MAX_FRAME, SIZE_BYTES
from kshare.traffic.request_heads import is_familiar, read_head

_TLS_RECORDS = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


def is_tls(data: bytes) -> bool:
    """Whether bytes begin with a TLS record."""
    return data[:2] in _TLS_RECORDS


def begins_with_request(data: bytes) -> bool:
    """Whether bytes begin with the frame of a request, complete or not."""
    size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
    if not SIZE_BYTES < size <= MAX_FRAME:
        return False
    frame = memoryview(data)[SIZE_BYTES : SIZE_BYTES + size]
    head = read_head(frame)
    if head is None or not is_familiar(head):
        return False
    if len(frame) < size:
        return bool(head.client_id)
    try:
        decode_request(frame)
    except KshareError:
        return False
    return True
