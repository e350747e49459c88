"""How deserializers are called: their signature decides."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from kshare import ConfigError, DeserializerContext, ShareConsumer
from kshare.client.deserializer_calls import DeserializerCall


def alone(data: bytes) -> None: ...
def with_option(data: bytes, encoding: str = "utf-8") -> None: ...
def with_keyword(data: bytes, *, strict: bool = True) -> None: ...
def with_anything(*arguments: Any, **options: Any) -> None: ...
def with_context(data: bytes, context: DeserializerContext) -> None: ...
def with_context_and_option(data: bytes, context: DeserializerContext, limit: int = 3) -> None: ...
async def awaited(data: bytes) -> None: ...
async def awaited_with_context(data: bytes, context: DeserializerContext) -> None: ...


class Schema:
    def read(self, data: bytes) -> None: ...
    def read_with_context(self, data: bytes, context: DeserializerContext) -> None: ...
    async def __call__(self, data: bytes, context: DeserializerContext) -> None: ...


class Money:
    def __init__(self, amount: bytes) -> None: ...

    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        *(alone, with_option, with_keyword, with_anything, awaited, Schema().read, partial(with_keyword, strict=False)),
        *(int, str, Decimal, UUID, Money, bytes.decode, bytes.hex, json.loads, zlib.decompress, Mock()),
        lambda data: data,
    ],
)  # fmt: skip
def test_functions_that_can_be_called_with_the_bytes_alone_get_nothing_else(
    function: Callable[..., Any],
) -> None:
    assert not DeserializerCall.of(function, "value").takes_context


@pytest.mark.parametrize(
    "function",
    [
        *(with_context, with_context_and_option, awaited_with_context, Schema().read_with_context, Schema()),
        partial(with_context_and_option, limit=4),
        lambda data, context: data,
    ],
)
def test_functions_that_require_two_arguments_get_a_context(function: Callable[..., Any]) -> None:
    assert DeserializerCall.of(function, "value").takes_context


@pytest.mark.parametrize("function", [awaited, awaited_with_context, Schema(), partial(awaited)])
def test_async_functions_and_objects_are_awaited(function: Callable[..., Any]) -> None:
    assert DeserializerCall.of(function, "key").is_async


@pytest.mark.parametrize("function", [alone, int, Money, Schema().read, json.loads, Mock()])
def test_others_are_not(function: Callable[..., Any]) -> None:
    assert not DeserializerCall.of(function, "key").is_async


@pytest.mark.parametrize("function", [lambda: 0, lambda a, b, c: 0, lambda *, data: 0])
def test_other_functions_are_refused_when_the_consumer_is_created(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="value_deserializer must accept the bytes, or the bytes and a Des"):
        ShareConsumer("a:1", group="g", topics=["t"], value_deserializer=function)
