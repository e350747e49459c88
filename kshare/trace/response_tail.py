"""The end of a ShareFetch response, which is held back until it is known whether it contains addresses.

Decides what can be told from the end alone, and how other addresses are encoded in the same number of bytes. Goes by
the schema, so fields that new versions add are kept.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, product
from typing import Any

from kshare.protocol.message import Message
from kshare.protocol.messages import ShareFetchResponse
from kshare.protocol.primitives import join_tags, split_tags, write_uvarint
from kshare.protocol.spec import specs_of, struct_named
from kshare.trace.addresses import address_fields, address_structs, encode

TAIL = 4096
"""How many bytes are held back. Enough for the addresses of 40 brokers."""

_PADDING_TAGS = (100, 200, 20_000)
"""Tags that Kafka doesn't use: unknown tags are skipped. Their numbers take one, two and three bytes."""


def has_no_addresses(tail: bytes, version: int) -> bool:
    """Whether the end alone shows that there are no addresses, as it nearly always does. False if unknown."""
    ending = _ending_without_addresses(version)
    return bool(ending) and tail.endswith(ending)


@lru_cache(maxsize=16)
def _ending_without_addresses(version: int) -> bytes:
    """How a response without addresses ends: no elements, fields at their defaults and no tags.

    Empty if by the schema a response with addresses could end in the same way. Not excluded is a tag that the schema
    doesn't know and whose last byte is 1: then a client gets the broker's real address.
    """
    cls: Any = ShareFetchResponse
    fields = address_fields(cls)
    if len(fields) != 1 or not fields[0].is_array or fields[0].is_tagged_in(version):
        return b""
    element: Any = struct_named(cls, fields[0].element)
    if any(spec.is_tagged_in(version) for spec in specs_of(element)):
        return b""  # an element ends with the contents of its tags
    without: bytes = cls().encode(version)
    with_one: bytes = cls(**{fields[0].attribute: [element()]}).encode(version)
    start = next(i for i, (byte, other) in enumerate(zip(without, with_one, strict=False)) if byte != other)
    return without[start:]


def rewritten_tail(held: bytes, old: bytes, new: bytes) -> bytes | None:
    """`held`, the end of a response, with the changes from `old` to `new`. None if these differ before it as well."""
    size = len(held)
    if len(old) != len(new) or old[:-size] != new[:-size]:
        return None
    old, new = old[-size:], new[-size:]
    same = next((i for i, (was, will_be) in enumerate(zip(old, new, strict=True)) if was != will_be), size)
    return held[:same] + new[same:] if held[same:] == old[same:] else None


def encode_in_length(response: Message, version: int, frame: memoryview, length: int) -> bytes | None:
    """Like `encode`, but in exactly `length` bytes: the frame's size has been forwarded already.

    If the result is too short, it is padded with an unknown tag. If it is too long, racks are left out, and then
    addresses, which clients then get from metadata. None if nothing helps.
    """
    padded = _padded(response, version, frame, length)
    if padded is None:
        for place in address_structs(response):
            if hasattr(place, "rack"):
                place.rack = None
        padded = _padded(response, version, frame, length)
    if padded is None:
        cls: Any = type(response)
        for spec in address_fields(cls):
            setattr(response, spec.attribute, getattr(cls(), spec.attribute))
        padded = _padded(response, version, frame, length)
    return padded


def _padded(response: Any, version: int, frame: memoryview, length: int) -> bytes | None:
    encoded = encode(response, version, frame)
    spare = length - len(encoded)
    if spare <= 0:
        return None if spare else encoded
    kept: bytes = response.unknown_tags
    tags = split_tags(kept, 0)[0] if kept else {}
    for first, size_bytes in product(_PADDING_TAGS, (1, 2)):
        number = next(number for number in count(first) if number not in tags)
        filling = spare - _uvarint_size(number) - size_bytes
        if filling >= 0:
            response.unknown_tags = join_tags({**tags, number: bytes(filling)})
            encoded = encode(response, version, frame)
            if len(encoded) == length:
                return encoded
    response.unknown_tags = kept
    return None


def _uvarint_size(value: int) -> int:
    out = bytearray()
    write_uvarint(out, value)
    return len(out)
