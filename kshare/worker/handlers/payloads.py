"""Converts values to the type that a handler declares for its payload.

bytes, str, dict and list (JSON), dataclasses (JSON), and the classes of msgspec and pydantic if these are installed.
Chosen once for each handler, from its annotation. Errors never contain the value, which may be confidential.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_origin

from kshare.errors import ConfigError, KshareError
from kshare.worker.handlers.json_payloads import JSON_TYPES, Build, builder_for, is_of, without_none

Decode = Callable[[bytes | None], Any]


class PayloadError(KshareError):
    """A value can't be converted to the payload type of its handler."""


def decoder_for(annotation: Any, handler: str) -> Decode | None:
    """A function that converts a value; None if the handler takes bytes. Raises ConfigError for unknown types."""
    wanted, is_optional = without_none(annotation)
    if wanted is bytes or wanted is Any:
        return None
    if wanted is str:
        return _guarded(lambda value: value.decode(), "str", "text", is_optional)
    kind = get_origin(wanted) or wanted
    if not isinstance(kind, type):
        raise ConfigError(_unknown(wanted, handler))
    name = kind.__name__
    if kind in JSON_TYPES:
        return _guarded(_json(builder_for(wanted, handler)), name, f"JSON {name}", is_optional)
    if is_dataclass(kind):
        return _guarded(_json(builder_for(wanted, handler)), name, name, is_optional)
    if is_of("msgspec", "Struct", kind):
        return _guarded(sys.modules["msgspec"].json.Decoder(wanted).decode, name, name, is_optional)
    if is_of("pydantic", "BaseModel", kind):
        return _guarded(kind.model_validate_json, name, name, is_optional)  # type: ignore[attr-defined]
    raise ConfigError(_unknown(wanted, handler))


def _unknown(wanted: Any, handler: str) -> str:
    return (
        f"handler {handler}: payloads can't be converted to {wanted!r}: use bytes, str, dict, list, a dataclass, or a "
        "class of msgspec or pydantic"
    )


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
