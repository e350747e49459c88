"""Broker addresses in responses: finds them, so that they can be replaced.

Decides which responses contain addresses; their schemas say in which fields and since which version. A response without
addresses is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any

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
from kshare.protocol.spec import Spec, specs_of, struct_named

_WITH_ADDRESSES: dict[int, type[Message]] = {
    message.API_KEY: message
    for message in (
        DescribeClusterResponse,
        FetchResponse,
        FindCoordinatorResponse,
        MetadataResponse,
        ProduceResponse,
        ShareAcknowledgeResponse,
        ShareFetchResponse,
    )
}
_ADDRESS = {"host", "port"}
"""A struct with both of these fields is an address."""


class Handling(Enum):
    """How the proxy forwards a response."""

    PASS = auto()
    HOLD = auto()
    """Hold all of it back: addresses may be anywhere."""
    HOLD_TAIL = auto()


@lru_cache(maxsize=256)
def handling(api_key: int, version: int) -> Handling:
    if api_key == ApiVersionsResponse.API_KEY:
        return Handling.HOLD
    cls = _WITH_ADDRESSES.get(api_key)
    if cls is None or not any(spec.is_in(version) for spec in specs_of(cls) if _contains_address(cls, spec)):
        return Handling.PASS
    return Handling.HOLD_TAIL if cls is ShareFetchResponse else Handling.HOLD


def _contains_address(owner: Any, spec: Spec) -> bool:
    """Whether a field is part of an address, or holds structs that contain addresses."""
    inner: Any = struct_named(owner, spec.element)
    if inner is None:
        return spec.attribute in _ADDRESS and _is_address(owner)
    return _is_address(inner) or bool(address_fields(inner))


@cache
def _is_address(cls: Any) -> bool:
    return {spec.attribute for spec in specs_of(cls)} >= _ADDRESS


@cache
def address_fields(cls: Any) -> tuple[Spec, ...]:
    """The fields of a message or struct that hold structs with addresses, at any depth."""
    structs = (spec for spec in specs_of(cls) if struct_named(cls, spec.element))
    return tuple(spec for spec in structs if _contains_address(cls, spec))


def decode(api_key: int, version: int, frame: memoryview) -> Message | None:
    """Decodes a response that was held back. None if it can't be decoded: then no addresses can be replaced."""
    if api_key == ApiVersionsResponse.API_KEY and is_version_refused(frame):
        return None
    cls = ApiVersionsResponse if api_key == ApiVersionsResponse.API_KEY else _WITH_ADDRESSES[api_key]
    try:
        return decode_response(cls, version, frame)[1]
    except KshareError:
        return None


def address_structs(struct: Any) -> Iterator[Any]:
    """All structs in a response that are broker addresses. Change them, and encode the response again."""
    cls: Any = type(struct)
    if _is_address(cls) and struct.host and struct.port > 0:
        yield struct
    for spec in address_fields(cls):
        value = getattr(struct, spec.attribute)
        for inner in value if isinstance(value, list) else [value]:
            if inner is not None:
                yield from address_structs(inner)


def limit_versions(response: ApiVersionsResponse) -> bool:
    """Removes versions of responses with addresses that can't be decoded here. Returns whether there were any."""
    has_changed = False
    for api in response.api_keys:
        message = _WITH_ADDRESSES.get(api.api_key)
        if message is not None and api.max_version > message.VERSIONS[1]:
            api.max_version = message.VERSIONS[1]
            has_changed = True
    return has_changed


def encode(response: Message, version: int, frame: memoryview) -> bytes:
    """Encodes a response with the correlation id of its original frame, without the size."""
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    return bytes(encode_response(response, version, correlation_id)[4:])
