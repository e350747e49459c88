"""Decides how a user's deserializer is called: with the bytes alone or with a context, and whether it is awaited.

Its signature decides, once for each consumer. A function gets the context only if it can't be called without: many
functions have an optional second argument that means something else, as in `bytes.decode(data, encoding)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from kshare.callbacks import is_async, takes
from kshare.errors import ConfigError
from kshare.fast.shown_names import show_as
from kshare.protocol.record import Headers

ResultT = TypeVar("ResultT")
KeyFunctionT = TypeVar("KeyFunctionT")
ValueFunctionT = TypeVar("ValueFunctionT")
RecordPart = Literal["key", "value"]


class DeserializerContext(NamedTuple):
    """Where the bytes come from that a deserializer converts."""

    topic: str
    part: RecordPart
    """Which part of the record the bytes are: its key or its value."""
    headers: Headers = ()
    """The headers of the record."""
    partition: int = 0
    offset: int = 0


show_as(DeserializerContext, b"kshare.DeserializerContext")

Deserializer = Callable[[bytes], Any] | Callable[[bytes, DeserializerContext], Any]
PlainDeserializer = Callable[[bytes], ResultT] | Callable[[bytes, DeserializerContext], ResultT]
AwaitedDeserializer = (
    Callable[[bytes], Awaitable[ResultT]] | Callable[[bytes, DeserializerContext], Awaitable[ResultT]]
)


@dataclass(frozen=True, slots=True)
class DeserializerCall:
    """A deserializer, and how it is called."""

    function: Callable[..., Any]
    part: RecordPart
    takes_context: bool
    is_async: bool

    @classmethod
    def of(cls, function: Callable[..., Any], part: RecordPart) -> DeserializerCall:
        """Raises ConfigError if the function accepts neither one nor two arguments."""
        return cls(function, part, _takes_context(function, part), is_async(function))


def _takes_context(function: Callable[..., Any], part: RecordPart) -> bool:
    if takes(function, 1):
        return False
    if takes(function, 2):
        return True
    raise ConfigError(
        f"{part}_deserializer must accept the bytes, or the bytes and a DeserializerContext: {function!r} has the "
        f"arguments {inspect.signature(function)}"
    )
