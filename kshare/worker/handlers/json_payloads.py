"""Builds payloads of declared types from what JSON has made: dataclasses, lists, dates, enums and so on.

Chosen once for each handler, from its annotation. What can't be built is refused then, and not silently left as it is.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kshare.errors import ConfigError

Build = Callable[[Any], Any]
"""Makes a value of a declared type from what JSON has made. Raises an exception if it can't."""

JSON_TYPES = (dict, list, tuple, str, int, float, bool)


def is_of(module: str, base: str, kind: type) -> bool:
    """Whether it is a class of this library. If it is, the library has been imported."""
    found = sys.modules.get(module)
    return found is not None and issubclass(kind, getattr(found, base))


def without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had that."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None)]
        if len(rest) == 1 and len(get_args(annotation)) == 2:
            return rest[0], True
    return annotation, False


def builder_for(annotation: Any, handler: str) -> Build:
    """Raises ConfigError if JSON can't contain such a value."""
    return _builder(annotation, handler, {})


def _builder(annotation: Any, handler: str, known: dict[type, Build]) -> Build:
    """`known`: dataclasses found before, which may contain themselves."""
    wanted, is_optional = without_none(annotation)
    build = _builder_of(wanted, handler, known)
    if not is_optional:
        return build
    return lambda found: None if found is None else build(found)


def _builder_of(wanted: Any, handler: str, known: dict[type, Build]) -> Build:
    kind, parts = get_origin(wanted) or wanted, get_args(wanted)
    if wanted in (Any, object) or isinstance(wanted, TypeVar):
        return _as_is
    if kind is Literal:
        return partial(_one_of, parts)
    if kind in (Union, types.UnionType):
        return partial(_first_that_fits, [_builder(part, handler, known) for part in parts])
    if wanted is type(None):
        return partial(_one_of, (None,))
    if isinstance(kind, type):
        if kind in (tuple, set, frozenset):
            return _sequence_builder(kind, parts, handler, known)
        if kind in JSON_TYPES:
            return _json_builder(kind, [_builder(part, handler, known) for part in parts])
        if is_dataclass(kind):
            return _dataclass_builder(kind, handler, known)
        if is_of("msgspec", "Struct", kind):
            return partial(sys.modules["msgspec"].convert, type=wanted)
        if is_of("pydantic", "BaseModel", kind):
            return kind.model_validate  # type: ignore[attr-defined, no-any-return]
        if issubclass(kind, Enum):
            return kind
        if kind in _FROM_TEXT:
            return partial(_from_text, _FROM_TEXT[kind])
        if kind is Decimal:
            return _decimal
    raise ConfigError(
        f"handler {handler}: JSON can't be converted to {wanted!r}: use JSON's own types, a dataclass, datetime, date, "
        "time, Decimal, UUID, Enum or Literal, or a class of msgspec or pydantic"
    )


def _as_is(found: Any) -> Any:
    return found


def _one_of(allowed: tuple[Any, ...], found: Any) -> Any:
    if not any(type(found) is type(value) and found == value for value in allowed):
        raise ValueError
    return found


def _first_that_fits(builds: list[Build], found: Any) -> Any:
    for build in builds:
        try:
            return build(found)
        except Exception:
            continue
    raise ValueError


_FROM_TEXT: dict[type, Callable[[str], Any]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
}


def _from_text(convert: Callable[[str], Any], found: Any) -> Any:
    if type(found) is not str:
        raise ValueError
    return convert(found)


def _decimal(found: Any) -> Decimal:
    """A float's shortest text, not its binary value."""
    if type(found) not in (str, int, float):
        raise ValueError
    return Decimal(str(found))


def _sequence_builder(kind: Any, parts: tuple[Any, ...], handler: str, known: dict[type, Build]) -> Build:
    """Of a tuple or a set."""
    is_fixed = kind is tuple and bool(parts) and parts[-1] is not Ellipsis
    builds = [_builder(part, handler, known) for part in parts if part is not Ellipsis]

    def build(found: Any) -> Any:
        if type(found) is not list or (is_fixed and len(found) != len(builds)):
            raise ValueError
        if is_fixed:
            return kind(each(item) for each, item in zip(builds, found, strict=True))
        return kind(map(builds[0], found) if builds else found)

    return build


def _json_builder(kind: type, items: list[Build]) -> Build:
    """`items` are those of its type arguments."""

    def build(found: Any) -> Any:
        if kind is float and type(found) is int:
            return float(found)
        if type(found) is not kind:
            raise ValueError
        if items and isinstance(found, list):
            return [items[0](item) for item in found]
        if items and isinstance(found, dict):
            return {key: items[1](item) for key, item in found.items()}
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
            field.name,
            _builder(hints[field.name], handler, known),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
        if field.init
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
