"""Deserializers of keys, values and headers, under the names of Kafka's deserializers or short names.

Values are printed as Java's own tools print them, so that the same options give the same lines.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Callable
from typing import Any

import typer

from kshare.wording import did_you_mean

Deserializer = Callable[[bytes], Any]
"""Raises ValueError for bytes that it can't read."""

_JAVAS = "org.apache.kafka.common.serialization."


def deserializer(name: str) -> Deserializer | None:
    """Find `long`, or `org.apache.kafka.common.serialization.LongDeserializer`. None leaves bytes as they are."""
    short = name.removeprefix(_JAVAS).removesuffix("Deserializer").lower()
    if short in _KINDS:
        return _KINDS[short]
    hint = did_you_mean(short, KINDS) or f"; choose one of {', '.join(KINDS)}"
    raise typer.BadParameter(f"there is no deserializer {name!r}{hint}")


def _packed(form: str, what: str, write: Callable[[Any], Any] = lambda number: number) -> Deserializer:
    layout = struct.Struct(form)

    def read(data: bytes) -> Any:
        if len(data) != layout.size:
            raise ValueError(f"{what} has {layout.size} bytes, not {len(data)}")
        return write(layout.unpack(data)[0])

    return read


_KINDS: dict[str, Deserializer | None] = {
    "bytearray": None,
    "bytes": None,
    "string": lambda data: data.decode("utf-8", "replace"),
    "short": _packed(">h", "a short"),
    "integer": _packed(">i", "an integer"),
    "long": _packed(">q", "a long"),
    "float": _packed(">f", "a float", lambda number: _shortest_float(number)),
    "double": _packed(">d", "a double"),
    "boolean": _packed(">?", "a boolean"),
    "uuid": lambda data: str(uuid.UUID(data.decode())),
    "json": json.loads,
    "hex": lambda data: data.hex(),
    "base64": lambda data: base64.b64encode(data).decode(),
}
KINDS = tuple(_KINDS)


def text_of(value: Any) -> str:
    """The printed form of a deserialized value."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return _javas_number(value)
    if isinstance(value, bool | int):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortest_float(number: float) -> float:
    """The shortest decimal number that rounds to the same 32-bit float."""
    for digits in range(6, 10):
        short = float(f"{number:.{digits}g}")
        if struct.pack(">f", short) == struct.pack(">f", number):
            return short
    return number


def _javas_number(number: float) -> str:
    """A number as Java writes it: 1.0E10, where Python writes 10000000000.0."""
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return str(number) if "e" not in str(number) else f"{number:f}"
    exponent = f"{number:.16e}".partition("e")[2]
    digits = repr(number).lower().partition("e")[0].replace(".", "").replace("-", "").strip("0") or "0"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
