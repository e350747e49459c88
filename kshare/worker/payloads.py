"""Converts values to the type that a handler declares for its payload.

bytes, str, dict and list (JSON), dataclasses (JSON), and the classes of msgspec and pydantic if these are installed.
Chosen once for each handler, from its annotation. Errors never contain the value, which may be confidential.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from kshare.errors import ConfigError, KshareError

Decode = Callable[[bytes | None], Any]


class PayloadError(KshareError):
    """A value can't be converted to the payload type of its handler."""


def decoder_for(annotation: Any, handler: str) -> Decode | None:
    """A function that converts a value; None if the handler takes bytes. Raises ConfigError for unknown types."""
    wanted, is_optional = _without_none(annotation)
    if wanted is bytes or wanted is Any:
        return None
    if wanted is str:
        return _guarded(lambda value: value.decode(), "text", is_optional)
    kind = get_origin(wanted) or wanted
    if not isinstance(kind, type):
        raise ConfigError(_unknown(wanted, handler))
    if kind in (dict, list, int, float, bool, tuple):
        return _guarded(_json_of(kind), f"JSON {kind.__name__}", is_optional)
    if is_dataclass(kind):
        return _guarded(_dataclass_of(kind), kind.__name__, is_optional)
    if (msgspec := sys.modules.get("msgspec")) and issubclass(kind, msgspec.Struct):
        return _guarded(msgspec.json.Decoder(wanted).decode, kind.__name__, is_optional)
    if (pydantic := sys.modules.get("pydantic")) and issubclass(kind, pydantic.BaseModel):
        return _guarded(kind.model_validate_json, kind.__name__, is_optional)  # type: ignore[attr-defined]
    raise ConfigError(_unknown(wanted, handler))


def _unknown(wanted: Any, handler: str) -> str:
    return (
        f"handler {handler}: payloads can't be converted to {wanted!r}: use bytes, str, dict, list, a dataclass, or a "
        "class of msgspec or pydantic"
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had that."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [one for one in get_args(annotation) if one is not type(None)]
        if len(rest) == 1 and len(get_args(annotation)) == 2:
            return rest[0], True
    return annotation, False


def _guarded(decode: Callable[[bytes], Any], name: str, is_optional: bool) -> Decode:
    def convert(value: bytes | None) -> Any:
        if value is None:
            if is_optional:
                return None
            raise PayloadError(
                f"the record has no value, and the handler's payload is {name}: write `{name} | None`"
            )
        try:
            return decode(value)
        except Exception as error:
            raise PayloadError(f"the value isn't {name} ({type(error).__name__})") from None

    return convert


def _json_of(kind: type) -> Callable[[bytes], Any]:
    def decode(value: bytes) -> Any:
        found = json.loads(value)
        if kind is float and type(found) is int:
            return float(found)
        if kind is tuple and isinstance(found, list):
            return tuple(found)
        if type(found) is not kind:
            raise ValueError
        return found

    return decode


def _dataclass_of(kind: type[Any]) -> Callable[[bytes], Any]:
    def decode(value: bytes) -> Any:
        return _build(kind, json.loads(value))

    return decode


def _build(kind: Any, found: Any) -> Any:
    """Fields of dataclasses are built as well; other values stay what JSON makes of them."""
    wanted, is_optional = _without_none(kind)
    if found is None and is_optional:
        return None
    if not (isinstance(wanted, type) and is_dataclass(wanted)):
        return _checked(wanted, found)
    if not isinstance(found, Mapping):
        raise ValueError
    hints = get_type_hints(wanted)
    values = {}
    for field in fields(wanted):
        if field.name in found:
            values[field.name] = _build(hints[field.name], found[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError
    return wanted(**values)


def _checked(wanted: Any, found: Any) -> Any:
    """Convert what JSON has no type for, and refuse a value of another simple type."""
    if wanted is float and type(found) is int:
        return float(found)
    if get_origin(wanted) is list and isinstance(found, list):
        [item] = get_args(wanted)
        return [_build(item, one) for one in found]
    if wanted in (str, int, float, bool, dict, list) and type(found) is not wanted:
        raise ValueError
    return found
