"""Where brokers say that they are: finds addresses in answers, and puts others in their place.

Decides which answers hold addresses, and by their schemas in which fields and since which version. An answer that holds
none is never touched.
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
_ADDRESS = {"host", "port"}
"""The fields of whatever says where a broker is."""


class Handling(Enum):
    """What an answer needs on its way."""

    PASS = auto()
    HOLD = auto()
    """Addresses may be anywhere."""
    HOLD_TAIL = auto()


@lru_cache(maxsize=256)
def handling(api_key: int, version: int) -> Handling:
    if api_key == ApiVersionsResponse.API_KEY:
        return Handling.HOLD
    cls = _WITH_ADDRESSES.get(api_key)
    if cls is None or not any(spec.is_in(version) for spec in specs_of(cls) if _leads_to_address(cls, spec)):
        return Handling.PASS
    return Handling.HOLD_TAIL if cls is ShareFetchResponse else Handling.HOLD


def _leads_to_address(owner: Any, spec: Spec) -> bool:
    """Whether a field is part of an address, or holds structs in which there are some."""
    inner: Any = struct_named(owner, spec.element)
    if inner is None:
        return spec.attribute in _ADDRESS and _is_place(owner)
    return _is_place(inner) or bool(address_fields(inner))


@cache
def _is_place(cls: Any) -> bool:
    return {spec.attribute for spec in specs_of(cls)} >= _ADDRESS


@cache
def address_fields(cls: Any) -> tuple[Spec, ...]:
    """The fields of a message or struct that hold structs with addresses, at any depth."""
    structs = (spec for spec in specs_of(cls) if struct_named(cls, spec.element))
    return tuple(spec for spec in structs if _leads_to_address(cls, spec))


def decode(api_key: int, version: int, frame: memoryview) -> Message | None:
    """An answer that was held. One that can't be read holds no addresses that we could change."""
    if api_key == ApiVersionsResponse.API_KEY and is_version_refused(frame):
        return None
    cls = ApiVersionsResponse if api_key == ApiVersionsResponse.API_KEY else _WITH_ADDRESSES[api_key]
    try:
        return decode_response(cls, version, frame)[1]
    except KshareError:
        return None


def address_structs(struct: Any) -> Iterator[Any]:
    """Everything in an answer that says where a broker is. Change them, and encode the answer again."""
    cls: Any = type(struct)
    if _is_place(cls) and struct.host and struct.port > 0:
        yield struct
    for spec in address_fields(cls):
        value = getattr(struct, spec.attribute)
        for inner in value if isinstance(value, list) else [value]:
            if inner is not None:
                yield from address_structs(inner)


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
