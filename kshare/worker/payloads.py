"""Converts values to the type that a handler declares for its payload.

bytes, str, dict and list (JSON), dataclasses (JSON), and the classes of msgspec and pydantic if these are installed.
Chosen once for each handler, from its annotation. Errors never contain the value, which may be confidential.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from kshare.errors import ConfigError, KshareError

Decode = Callable[[bytes | None], Any]
Build = Callable[[Any], Any]
"""Makes a value of a declared type from what JSON has made."""


class PayloadError(KshareError):
    """A value can't be converted to the payload type of its handler."""


def decoder_for(annotation: Any, handler: str) -> Decode | None:
    """A function that converts a value; None if the handler takes bytes. Raises ConfigError for unknown types."""
    wanted, is_optional = _without_none(annotation)
    if wanted is bytes or wanted is Any:
        return None
    if wanted is str:
        return _guarded(lambda value: value.decode(), "str", "text", is_optional)
    kind = get_origin(wanted) or wanted
    if not isinstance(kind, type):
        raise ConfigError(_unknown(wanted, handler))
    name = kind.__name__
    if kind in _JSON_TYPES:
        return _guarded(_json(_builder(wanted, handler, {})), name, f"JSON {name}", is_optional)
    if is_dataclass(kind):
        return _guarded(_json(_builder(wanted, handler, {})), name, name, is_optional)
    if _is_of("msgspec", "Struct", kind):
        return _guarded(sys.modules["msgspec"].json.Decoder(wanted).decode, name, name, is_optional)
    if _is_of("pydantic", "BaseModel", kind):
        return _guarded(kind.model_validate_json, name, name, is_optional)  # type: ignore[attr-defined]
    raise ConfigError(_unknown(wanted, handler))


def _unknown(wanted: Any, handler: str) -> str:
    return (
        f"handler {handler}: payloads can't be converted to {wanted!r}: use bytes, str, dict, list, a dataclass, or a "
        "class of msgspec or pydantic"
    )


def _is_of(module: str, base: str, kind: type) -> bool:
    """Whether it is a class of this library. If it is, the library has been imported."""
    found = sys.modules.get(module)
    return found is not None and issubclass(kind, getattr(found, base))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had that."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [one for one in get_args(annotation) if one is not type(None)]
        if len(rest) == 1 and len(get_args(annotation)) == 2:
            return rest[0], True
    return annotation, False


def _guarded(decode: Callable[[bytes], Any], kind: str, content: str, is_optional: bool) -> Decode:
    def convert(value: bytes | None) -> Any:
        if value is None:
            if is_optional:
                return None
            raise PayloadError(
                f"the record has no value, and the handler's payload is {kind}: write `{kind} | None`"
            )
        try:
            return decode(value)
        except Exception as error:
            raise PayloadError(f"the value isn't {content} ({type(error).__name__})") from None

    return convert


def _json(build: Build) -> Callable[[bytes], Any]:
    return lambda value: build(json.loads(value))


_JSON_TYPES = (dict, list, tuple, str, int, float, bool)


def _builder(annotation: Any, handler: str, known: dict[type, Build]) -> Build:
    """Types for which JSON has no counterpart stay what JSON makes of them. `known`: dataclasses found before, which
    may contain themselves."""
    wanted, is_optional = _without_none(annotation)
    kind = get_origin(wanted) or wanted
    if not isinstance(kind, type):
        build: Build = _as_is
    elif kind in _JSON_TYPES:
        build = _json_builder(kind, [_builder(one, handler, known) for one in get_args(wanted)])
    elif is_dataclass(kind):
        build = _dataclass_builder(kind, handler, known)
    elif _is_of("msgspec", "Struct", kind):
        build = partial(sys.modules["msgspec"].convert, type=wanted)
    elif _is_of("pydantic", "BaseModel", kind):
        build = kind.model_validate  # type: ignore[attr-defined]
    else:
        build = _as_is
    if not is_optional:
        return build
    return lambda found: None if found is None else build(found)


def _as_is(found: Any) -> Any:
    return found


def _json_builder(kind: type, items: list[Build]) -> Build:
    """`items` are those of its type arguments."""

    def build(found: Any) -> Any:
        if kind is float and type(found) is int:
            return float(found)
        if kind is tuple and type(found) is list:
            return tuple(found)
        if type(found) is not kind:
            raise ValueError
        if items and isinstance(found, list):
            return [items[0](one) for one in found]
        if items and isinstance(found, dict):
            return {key: items[1](one) for key, one in found.items()}
        return found

    return build


def _dataclass_builder(kind: Any, handler: str, known: dict[type, Build]) -> Build:
    if kind in known:
        return lambda found: known[kind](found)
    known[kind] = _as_is  # replaced below
    try:
        hints = get_type_hints(kind)
    except Exception as error:
        raise ConfigError(
            f"handler {handler}: the annotations of {kind.__name__} can't be evaluated: {error}. Define or import "
            "these types at module level"
        ) from None
    members = [
        (
            one.name,
            _builder(hints[one.name], handler, known),
            one.default is MISSING and one.default_factory is MISSING,
        )
        for one in fields(kind)
        if one.init
    ]

    def build(found: Any) -> Any:
        if type(found) is not dict:
            raise ValueError
        values = {}
        for name, build_member, is_required in members:
            if name in found:
                values[name] = build_member(found[name])
            elif is_required:
                raise ValueError
        return kind(**values)

    known[kind] = build
    return build
