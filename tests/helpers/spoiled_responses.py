"""ShareFetch responses that can't be decoded."""

from __future__ import annotations

from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ShareFetchResponse,
)


def brings_records(response: Message) -> bool:
    return isinstance(response, ShareFetchResponse) and any(
        row.acquired_records for topic in response.responses for row in topic.partitions
    )


def cut_in_half(response: Message, frame: bytearray) -> bytearray:
    """Truncate the response, in a complete frame."""
    if not brings_records(response):
        return frame
    half = frame[: len(frame) // 2]
    half[:4] = (len(half) - 4).to_bytes(4, "big")
    return half
