"""Where brokers say that they are: finds addresses in answers, and puts others in their place.

Decides which answers hold addresses. An answer that holds none is never touched, and the large ones are told by two
bytes at their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from itertools import product
from typing import Any, Protocol

from kshare.errors import KshareError
from kshare.protocol.envelopes import decode_response, encode_response, is_version_refused
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsResponse,
    DescribeClusterResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ProduceResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from kshare.protocol.primitives import write_structs, write_tags, write_uvarint

_WITH_ADDRESSES: dict[int, type[Message]] = {
    one.API_KEY: one
    for one in (
        DescribeClusterResponse,
        FetchResponse,
        FindCoordinatorResponse,
        MetadataResponse,
        ProduceResponse,
        ShareAcknowledgeResponse,
        ShareFetchResponse,
    )
}
_ENDPOINTS_SINCE = {FetchResponse.API_KEY: 16, ProduceResponse.API_KEY: 10}
"""The version that brought addresses into them."""
_NO_ENDPOINTS_NO_TAGS = b"\x01\x00"
"""How a ShareFetch's answer ends nearly always: an empty list (with addresses in it, the byte before the last
counts the last one's tags, of which there are none), and no tags."""
_PADDING_TAGS = (100, 200)
"""No fields of Kafka's; whoever doesn't know a tag passes over it. One takes a byte, the other two."""

TAIL = 4096
"""Addresses are at the end of a ShareFetch's answer, if there are any. Enough for 40 brokers."""


class Handling(Enum):
    """What an answer needs on its way."""

    PASS = auto()
    HOLD = auto()
    """Addresses may be anywhere."""
    HOLD_TAIL = auto()


def handling(api_key: int, version: int) -> Handling:
    if api_key == ShareFetchResponse.API_KEY:
        return Handling.HOLD_TAIL
    if api_key == ApiVersionsResponse.API_KEY:
        return Handling.HOLD
    is_addressed = api_key in _WITH_ADDRESSES and version >= _ENDPOINTS_SINCE.get(api_key, 0)
    return Handling.HOLD if is_addressed else Handling.PASS


class Place(Protocol):
    """Part of an answer that says where a broker is."""

    host: str
    port: int


def decode(api_key: int, version: int, frame: memoryview) -> Message | None:
    """An answer that was held. One that can't be read holds no addresses that we could change."""
    if api_key == ApiVersionsResponse.API_KEY and is_version_refused(frame):
        return None
    cls = ApiVersionsResponse if api_key == ApiVersionsResponse.API_KEY else _WITH_ADDRESSES[api_key]
    try:
        return decode_response(cls, version, frame)[1]
    except KshareError:
        return None


def has_no_endpoints(tail: bytes) -> bool:
    """Told by the end of a ShareFetch's answer."""
    return tail.endswith(_NO_ENDPOINTS_NO_TAGS)


def places(answer: object) -> Iterator[Place]:
    """Change them, and encode the answer again."""
    found: list[Any] = []
    match answer:
        case MetadataResponse() | DescribeClusterResponse():
            found = answer.brokers
        case FindCoordinatorResponse():
            found = [*answer.coordinators, answer]
        case FetchResponse() | ProduceResponse() | ShareFetchResponse() | ShareAcknowledgeResponse():
            found = answer.node_endpoints
    for one in found:
        if one.host and one.port > 0:
            yield one


def limit_versions(answer: ApiVersionsResponse) -> bool:
    """No version of an answer with addresses that we couldn't read. Whether there was one."""
    has_changed = False
    for api in answer.api_keys:
        known = _WITH_ADDRESSES.get(api.api_key)
        if known is not None and api.max_version > known.VERSIONS[1]:
            api.max_version = known.VERSIONS[1]
            has_changed = True
    return has_changed


def encode(answer: Message, version: int, frame: memoryview) -> bytes:
    """With the correlation id of the frame that it came in; without the size."""
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    return bytes(encode_response(answer, version, correlation_id)[4:])


def tail_of(answer: ShareFetchResponse, version: int) -> bytes:
    """How it ends: its addresses, and its tags."""
    out = bytearray()
    write_structs(out, answer.node_endpoints, True, version)
    write_tags(out, answer.unknown_tags)
    return bytes(out)


def tail_of_length(answer: ShareFetchResponse, version: int, length: int) -> bytes:
    """The same with the addresses that are in it now, in as many bytes: its size has been passed on already.

    What is too short is filled up by a tag that nobody knows; what is too long goes without racks, or without
    addresses, for which clients then ask.
    """
    answer.unknown_tags = b""
    tail = _padded(tail_of(answer, version), length)
    if tail is None:
        for one in answer.node_endpoints:
            one.rack = None
        tail = _padded(tail_of(answer, version), length)
    if tail is None:
        answer.node_endpoints = []
        tail = _padded(tail_of(answer, version), length)
    assert tail is not None, "an address takes more room than the tag in its place"
    return tail


def _padded(tail: bytes, length: int) -> bytes | None:
    spare = length - len(tail)
    if spare == 0:
        return tail
    for tag, size_bytes in product(_PADDING_TAGS, (1, 2)):
        out = bytearray(tail[:-1])
        out.append(1)
        write_uvarint(out, tag)
        filling = length - len(out) - size_bytes
        if filling >= 0:
            write_uvarint(out, filling)
            out += bytes(filling)
            if len(out) == length:
                return bytes(out)
    return None
