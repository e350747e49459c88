"""Hypothesis strategies for every message in every version, built from the schema tables of the generated classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from kshare.protocol import by_name, messages
from kshare.protocol.message import Message
from kshare.protocol.spec import Spec, specs_of, struct_named

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def every_message(test: Callable[..., None]) -> Callable[..., None]:
    """Parametrizes a test with the name of each message."""
    parametrized: Callable[..., None] = pytest.mark.parametrize("name", list(messages.MODULES))(test)
    return parametrized


def shapes(name: str) -> list[range]:
    """A message's versions, those with the same fields together: nothing but the number differs between them."""
    cls = by_name.message_class(name)
    first, last = cls.VERSIONS

    def shape(version: int) -> tuple[object, ...]:
        return cls.is_flexible(version), _fields(cls, version)

    starts = [
        version
        for version in range(first, last + 1)
        if version == first or shape(version) != shape(version - 1)
    ]
    return [range(*pair) for pair in pairwise([*starts, last + 1])]


def _fields(cls: type[Any], version: int) -> tuple[object, ...]:
    return tuple(
        (
            spec.attribute,
            spec.is_tagged_in(version),
            spec.is_nullable_in(version),
            _fields(inner, version) if (inner := struct_named(cls, spec.element)) else spec.type,
        )
        for spec in specs_of(cls)
        if spec.is_in(version)
    )


@cache
def messages_of(name: str, version: int) -> st.SearchStrategy[Message]:
    """Messages that can be encoded in this version: boundary values, nulls, empty and filled arrays, tagged fields."""
    return _struct(by_name.message_class(name), version)


def _struct(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    fields = {spec.attribute: _field(cls, spec, version) for spec in specs_of(cls) if spec.is_in(version)}
    return st.builds(cls, **fields)


def _field(owner: type[Any], spec: Spec, version: int) -> st.SearchStrategy[Any]:
    value = _value(owner, spec, version)
    if spec.type == "[]int8":
        value = st.binary(max_size=3)
    elif spec.is_array:
        value = st.lists(value, max_size=2)
    if spec.is_nullable_in(version):
        value = st.none() | value
    if spec.is_tagged_in(version):
        # A tagged field that has its default isn't encoded: both cases must occur.
        value = st.just(getattr(owner(), spec.attribute)) | value
    return value


def _value(owner: type[Any], spec: Spec, version: int) -> st.SearchStrategy[Any]:
    inner = struct_named(owner, spec.element)
    if inner:
        return _struct(inner, version)
    return primitive(spec.element)


@cache
def primitive(type_name: str) -> st.SearchStrategy[Any]:
    if type_name in _BITS:
        edge = 2 ** (_BITS[type_name] - 1)
        return st.sampled_from([0, 1, -1, edge - 1, -edge]) | st.integers(-edge, edge - 1)
    if type_name in ("uint16", "uint32"):
        top = 2 ** int(type_name[4:]) - 1
        return st.sampled_from([0, 1, top, top // 2 + 1]) | st.integers(0, top)
    return {
        "bool": st.booleans(),
        "float64": st.sampled_from([0.0, -0.5, 1e300, 5e-324])
        | st.floats(allow_nan=False, allow_infinity=False),
        "string": st.sampled_from(["", "a", "grüße, 東京 🗼", "x" * 127, "y" * 300]) | st.text(max_size=8),
        "bytes": st.sampled_from([b"", b"\x00", b"z" * 200]) | st.binary(max_size=8),
        "records": st.sampled_from([b"", b"\x00" * 61]) | st.binary(max_size=8),
        "uuid": st.sampled_from([bytes(16), bytes(15) + b"\x01", b"\xff" * 16])
        | st.binary(min_size=16, max_size=16),
    }[type_name]
