"""Where brokers say that they are: finds addresses in answers, and puts others in their place.

Decides which answers hold addresses. An answer that holds none is never touched, and the large ones are told by two
bytes at their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from kshare.errors import KshareError
from kshare.protocol.envelopes import decode_response, encode_response
from kshare.protocol.error_codes import ErrorCode
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
_SHARING = (ShareFetchResponse.API_KEY, ShareAcknowledgeResponse.API_KEY)
_NO_ENDPOINTS_NO_TAGS = b"\x01\x00"
"""How answers of a share session end nearly always: an empty list (with addresses in it, the byte before the last
counts the last one's tags, of which there are none), and no tags."""


class Place(Protocol):
    """Part of an answer that says where a broker is."""

    host: str
    port: int


def decode_if_addressed(api_key: int, version: int, frame: memoryview) -> Message | None:
    """The answer, if there may be addresses in it. One that can't be read holds none that we could change."""
    if api_key == ApiVersionsResponse.API_KEY:
        return _versions(version, frame)
    cls = _WITH_ADDRESSES.get(api_key)
    if cls is None or version < _ENDPOINTS_SINCE.get(api_key, 0):
        return None
    if api_key in _SHARING and bytes(frame[-2:]) == _NO_ENDPOINTS_NO_TAGS:
        return None
    try:
        return decode_response(cls, version, frame)[1]
    except KshareError:
        return None


def places(answer: Message) -> Iterator[Place]:
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


def _versions(version: int, frame: memoryview) -> ApiVersionsResponse | None:
    if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        return None
    try:
        return decode_response(ApiVersionsResponse, version, frame)[1]
    except KshareError:
        return None
